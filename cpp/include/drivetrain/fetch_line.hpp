// Asking for a cache line before it is needed.
#pragma once

namespace drivetrain {

/// Asks for the line at `address`, to be read, and goes on. Not a bare prefetch: GCC 12 takes a function that does
/// nothing else for one without effects, and leaves calls of it out where it does not inline them.
[[gnu::always_inline]] inline void fetch_line(const void* address) noexcept {
  __builtin_prefetch(address);
  asm volatile("");
}

/// The same for a line that will be written to.
[[gnu::always_inline]] inline void fetch_line_to_write(const void* address) noexcept {
  __builtin_prefetch(address, 1);
  asm volatile("");
}

}  // namespace drivetrain
