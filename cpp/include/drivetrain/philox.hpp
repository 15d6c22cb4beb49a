// Philox4x64-10: random numbers as a function of a counter (Salmon et al. 2011, "Parallel random
// numbers: as easy as 1, 2, 3"). The counter lives in the segment, so samplers in any number of
// processes never share a draw. The stream equals numpy.random.Philox(key=seed).
#pragma once

#include <array>
#include <cstdint>

namespace drivetrain {

inline constexpr unsigned kDrawsPerBlock = 4;

/// Four independent uniform 64-bit words for block number `block` of stream `key`.
inline std::array<std::uint64_t, kDrawsPerBlock> philox_block(std::uint64_t block,
                                                              std::uint64_t key) noexcept {
  std::uint64_t x0 = block, x1 = 0, x2 = 0, x3 = 0;
  std::uint64_t k0 = key, k1 = 0;
  for (int round = 0; round < 10; ++round) {
    const auto p0 = static_cast<unsigned __int128>(0xD2E7470EE14C6C93ull) * x0;
    const auto p1 = static_cast<unsigned __int128>(0xCA5A826395121157ull) * x2;
    x0 = static_cast<std::uint64_t>(p1 >> 64) ^ x1 ^ k0;
    x1 = static_cast<std::uint64_t>(p1);
    x2 = static_cast<std::uint64_t>(p0 >> 64) ^ x3 ^ k1;
    x3 = static_cast<std::uint64_t>(p0);
    k0 += 0x9E3779B97F4A7C15ull;
    k1 += 0xBB67AE8584CAA73Bull;
  }
  return {x0, x1, x2, x3};
}

/// A uniform integer in [0, range) from 64 random bits; bias below range / 2^64.
inline std::uint64_t scale_to(std::uint64_t random, std::uint64_t range) noexcept {
  return static_cast<std::uint64_t>((static_cast<unsigned __int128>(random) * range) >> 64);
}

/// The order in which the equal parts of a stratified batch are taken: draw i is of part(i), and any `num`
/// draws in a row are of all parts. Beside a writer, later draws see the tree later; with the parts always
/// in their order it would be the same rows that are seen late. They therefore begin anywhere and go up or
/// down: each part is as often early, and before its neighbour. Neighbours stay together, for the cache.
class Strata {
 public:
  Strata() noexcept = default;  // none: draws are of the whole

  /// `num` < 2^32, at least 1; by a random word.
  Strata(std::uint64_t num, std::uint64_t word) noexcept
      : num_(num), first_(scale_to(word, num)), step_((word & 1 ? num - 1 : 1) % num) {}
  std::uint64_t num() const noexcept { return num_; }
  std::uint64_t step() const noexcept { return step_; }
  std::uint64_t part(std::uint64_t draw) const noexcept { return (first_ + draw % num_ * step_) % num_; }

 private:
  std::uint64_t num_ = 0, first_ = 0, step_ = 0;
};

/// Borders of `parts` equal parts of [0, total), of any one and then of each `step` further, round and
/// round: part k is [floor(total * k / parts), floor(total * (k + 1) / parts)), exactly.
class EqualParts {
 public:
  EqualParts(std::uint64_t total, std::uint64_t parts, std::uint64_t step) noexcept
      : total_(total), parts_(parts), whole_(total / parts), rest_(total % parts) {
    go_to(step);  // of which part's border this is the distance
    step_ = step, step_low_ = low_, step_remainder_ = remainder_;
    go_to(0);
  }
  void go_to(std::uint64_t k) noexcept {  // rest * k < parts^2, and parts < 2^32
    k_ = k;
    low_ = whole_ * k + rest_ * k / parts_;
    remainder_ = rest_ * k % parts_;
  }
  void go_on() noexcept {
    remainder_ += step_remainder_;
    const bool carry = remainder_ >= parts_;
    low_ += step_low_ + carry;
    remainder_ -= carry ? parts_ : 0;
    k_ += step_;
    if (k_ >= parts_) [[unlikely]]
      k_ -= parts_, low_ -= total_;
  }
  std::uint64_t low() const noexcept { return low_; }
  std::uint64_t size() const noexcept { return whole_ + (remainder_ + rest_ >= parts_); }

 private:
  std::uint64_t total_, parts_, whole_, rest_;
  std::uint64_t step_ = 0, step_low_ = 0, step_remainder_ = 0;
  std::uint64_t k_ = 0, low_ = 0, remainder_ = 0;  // remainder of rest * k / parts
};

}  // namespace drivetrain
