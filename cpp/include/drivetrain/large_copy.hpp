// Copies of pieces of kilobytes that lie in memory, not in the caches.
//
// One such copy waits for memory: the processor follows a stream of addresses only so far ahead, and begins
// anew at every page. Several pieces are therefore copied at once, two lines of each by turns, which keeps more
// lines under way (design/replay-speed.md has what that brings).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "drivetrain/line_copy.hpp"
#include "drivetrain/shared_copy.hpp"
#include "drivetrain/simd.hpp"

namespace drivetrain {

inline constexpr std::size_t kLargeRow = 4096, kLargePiece = 512;  // bytes
/// Bytes, of all pieces together, from which on they are better written past the caches.
inline constexpr std::size_t kPastCaches = 8 << 20;

/// Copies what add() is given, some of it later: all of it when this ends.
class LargeCopies {
 public:
  static constexpr std::size_t kMost = 8;

  /// past_caches: write whole lines without reading them before, and leave them in no cache, where the
  /// processor can; for more than the caches would keep until it is read. at_once: pieces, up to kMost.
  explicit LargeCopies(bool past_caches, std::size_t at_once = 4, SimdLevel simd = best_simd_level()) noexcept
      : past_caches_(past_caches), at_once_(at_once), simd_(simd) {
    order_writes();
  }
  LargeCopies(const LargeCopies&) = delete;
  LargeCopies& operator=(const LargeCopies&) = delete;
  ~LargeCopies() {
    copy();
    order_writes();
  }

  /// Copies `nbytes` that others may be writing, or reading.
  void add(unsigned char* to, const unsigned char* from, std::size_t nbytes) noexcept {
    if (num_ == at_once_ || nbytes != nbytes_) copy();
    to_[num_] = to;
    from_[num_++] = from;
    nbytes_ = nbytes;
  }

 private:
  // Streamed writes are seen after what was written before all pieces, and before what is written after them.
  void order_writes() const noexcept {
#if !defined(DRIVETRAIN_TSAN)
    if (past_caches_) order_streams();
#endif
  }

  void copy() noexcept {
#if defined(DRIVETRAIN_TSAN)
    for (std::size_t k = 0; k < num_; ++k) copy_shared(to_[k], from_[k], nbytes_);
#else
    std::size_t left[kMost] = {}, least = nbytes_;  // behind the first bytes, up to a whole line
    for (std::size_t k = 0; k < num_; ++k) {
      const std::size_t until_line = (kLine - reinterpret_cast<std::uintptr_t>(to_[k]) % kLine) % kLine;
      const std::size_t head = std::min(nbytes_, until_line);
      copy_bytes(to_[k], from_[k], head);
      to_[k] += head;
      from_[k] += head;
      left[k] = nbytes_ - head;
      least = std::min(least, left[k]);
    }
    const std::size_t num_lines = least / kLine;
    switch (num_) {
      case 1: copy_lines<1>(num_lines); break;
      case 2: copy_lines<2>(num_lines); break;
      case 3: copy_lines<3>(num_lines); break;
      case 4: copy_lines<4>(num_lines); break;
      case 5: copy_lines<5>(num_lines); break;
      case 6: copy_lines<6>(num_lines); break;
      case 7: copy_lines<7>(num_lines); break;
      case 8: copy_lines<8>(num_lines); break;
      default: break;
    }
    for (std::size_t k = 0; k < num_; ++k)
      copy_bytes(to_[k] + num_lines * kLine, from_[k] + num_lines * kLine,
                 left[k] - num_lines * kLine);
#endif
    num_ = 0;
  }

#if !defined(DRIVETRAIN_TSAN)
  template <std::size_t num>
  void copy_lines(std::size_t num_lines) const noexcept {
    if (past_caches_) return drivetrain::copy_lines<true, num>(to_, from_, num_lines, simd_);
    drivetrain::copy_lines<false, num>(to_, from_, num_lines, simd_);
  }
#endif

  bool past_caches_;
  std::size_t at_once_;
  SimdLevel simd_;
  std::size_t num_ = 0, nbytes_ = 0;  // pieces that wait, all of one size
  unsigned char* to_[kMost];
  const unsigned char* from_[kMost];
};

}  // namespace drivetrain
