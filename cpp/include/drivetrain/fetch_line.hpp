// Asking for cache lines before they are needed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace drivetrain {

/// Asks for the line at `address`, to be read, and goes on. Not a bare prefetch: GCC 12 takes a function that does
/// nothing else for one without effects, and leaves calls of it out where it does not inline them.
[[gnu::always_inline]] inline void fetch_line(const void* address) noexcept {
  __builtin_prefetch(address);
  asm volatile("");
}

/// The same for a line that will be written to, which other cores give up then. The instruction by name: GCC asks to
/// read, unless it is built for a processor that knows better. One that does not know it does nothing.
[[gnu::always_inline]] inline void fetch_line_to_write(const void* address) noexcept {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
  __builtin_prefetch(address, 1);
  asm volatile("");
#endif
}

/// Rows that the caller will read of each leaf found: asked for while other leaves are searched for.
///
/// An address whose page has to be looked up keeps the processor until it is, so some rows are begun one right after
/// the other, which looks up their pages together. And it keeps only so many lines under way; what is asked for
/// beyond is lost. The other lines of rows therefore follow later, some at a time.
struct RowsAhead {
  static constexpr unsigned kMostLines = 4;  // of a row; the hardware follows longer ones

  const unsigned char* rows = nullptr;  // none: nothing is fetched
  std::size_t stride = 0;
  unsigned num_lines = 0;  // of each row, at most kMostLines

  /// The first line of each row.
  [[gnu::always_inline]] void begin(const std::uint64_t* index, std::size_t num) const noexcept {
    if (num_lines == 0) return;
    for (std::size_t i = 0; i < num; ++i) fetch_line(rows + index[i] * stride);
  }
  /// The others.
  [[gnu::always_inline]] void finish(const std::uint64_t* index, std::size_t num) const noexcept {
    if (num_lines < 2) return;
    for (std::size_t i = 0; i < num; ++i)
      for (unsigned line = 1; line < num_lines; ++line) fetch_line(rows + index[i] * stride + 64 * line);
  }
};

}  // namespace drivetrain
