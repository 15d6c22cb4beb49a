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
      : num_(num), first_(scale_to(word, num)), goes_up_(!(word & 1)) {}
  std::uint64_t num() const noexcept { return num_; }
  bool goes_up() const noexcept { return goes_up_; }
  std::uint64_t part(std::uint64_t draw) const noexcept {
    const std::uint64_t steps = draw % num_;
    return (goes_up_ ? first_ + steps : first_ + num_ - steps) % num_;
  }
  /// How many draws, this one included, are of one part after the other before the first follows the last.
  std::uint64_t num_before_seam(std::uint64_t part) const noexcept { return goes_up_ ? num_ - part : part + 1; }

 private:
  std::uint64_t num_ = 0, first_ = 0;
  bool goes_up_ = true;
};

/// `parts` equal parts of [0, total): part k is [floor(total * k / parts), floor(total * (k + 1) / parts)), exactly.
class EqualParts {
 public:
  EqualParts(std::uint64_t total, std::uint64_t parts) noexcept
      : parts_(parts), whole_(total / parts), rest_(total % parts) {}

  /// Calls use(i, low, size) for i in [0, num): the parts k, k + 1, ..., or k, k - 1, ...; all must exist. Borders
  /// follow from each other without divisions.
  template <class Use>
  void each(std::uint64_t k, std::size_t num, bool up, Use&& use) const noexcept {
    const std::uint64_t border = up ? k : k + 1;
    // rest * k < parts^2, and parts < 2^32
    std::uint64_t low = whole_ * border + rest_ * border / parts_;
    std::uint64_t remainder = rest_ * border % parts_;
    const std::uint64_t whole = whole_, rest = rest_, missing = parts_ - rest_;
    if (up) {
      for (std::size_t i = 0; i < num; ++i) {
        const bool longer = remainder >= missing;
        const std::uint64_t size = whole + longer;
        use(i, low, size);
        remainder = longer ? remainder - missing : remainder + rest;
        low += size;
      }
    } else {
      for (std::size_t i = 0; i < num; ++i) {
        const bool longer = remainder < rest;
        const std::uint64_t size = whole + longer;
        remainder = longer ? remainder + missing : remainder - rest;
        low -= size;
        use(i, low, size);
      }
    }
  }

 private:
  std::uint64_t parts_, whole_, rest_;
};

}  // namespace drivetrain
