// The equal parts of a stratified batch, and targets in them: where in the total priority each draw goes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "drivetrain/philox.hpp"
#include "drivetrain/simd.hpp"

namespace drivetrain {

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
    std::uint64_t remainder = this->remainder(border);
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

  std::uint64_t num() const noexcept { return parts_; }
  /// What divides, without a remainder, and the remainder: `rest` of the parts are one larger than `whole`.
  std::uint64_t whole() const noexcept { return whole_; }
  std::uint64_t rest() const noexcept { return rest_; }
  /// What is left over at the lower border of part k: of rest * k, by the number of parts.
  std::uint64_t remainder(std::uint64_t k) const noexcept { return rest_ * k % parts_; }

 private:
  std::uint64_t parts_, whole_, rest_;
};

#if defined(DRIVETRAIN_TARGET)
namespace avx512 {

/// targets_in_parts() for num >= 8: eight parts in a vector, and the borders of the next eight from theirs.
DRIVETRAIN_AVX512 inline void targets_in_parts(const EqualParts& parts, std::uint64_t k, std::size_t num, bool up,
                                               const std::uint64_t* words, std::uint64_t* targets) noexcept {
  constexpr unsigned kLanes = 8;
  alignas(64) std::uint64_t lows[kLanes], remainders[kLanes];
  std::uint64_t remainder = parts.remainder(k);
  parts.each(k, kLanes, up, [&](std::size_t i, std::uint64_t low, std::uint64_t) {
    lows[i] = low;
    remainders[i] = remainder;
    const std::uint64_t next = remainder + (up ? parts.rest() : parts.num() - parts.rest());
    remainder = next >= parts.num() ? next - parts.num() : next;
  });
  const __m512i whole = every(parts.whole()), num_parts = every(parts.num()), one = every(1);
  const __m512i missing = every(parts.num() - parts.rest());
  const __m512i rest = every(kLanes * parts.rest() % parts.num());
  const __m512i step = every(kLanes * parts.whole() + kLanes * parts.rest() / parts.num());
  __m512i low = _mm512_load_si512(lows), left = _mm512_load_si512(remainders);
  for (std::size_t i = 0; i < num; i += kLanes) {
    const auto lanes = static_cast<__mmask8>(num - i >= kLanes ? 0xFF : (1u << (num - i)) - 1);
    const __m512i word = _mm512_maskz_loadu_epi64(lanes, words + i);
    const __m512i size = _mm512_mask_add_epi64(whole, _mm512_cmpge_epu64_mask(left, missing), whole, one);
    const __m512i within = multiply_high(word, size, _mm512_srli_epi64(word, 32), _mm512_srli_epi64(size, 32));
    _mm512_mask_storeu_epi64(targets + i, lanes, _mm512_add_epi64(low, within));
    if (up) {
      left = _mm512_add_epi64(left, rest);
      const __mmask8 over = _mm512_cmpge_epu64_mask(left, num_parts);
      left = _mm512_mask_sub_epi64(left, over, left, num_parts);
      low = _mm512_add_epi64(low, step);
      low = _mm512_mask_add_epi64(low, over, low, one);
    } else {
      const __mmask8 under = _mm512_cmplt_epu64_mask(left, rest);
      left = _mm512_sub_epi64(left, rest);
      left = _mm512_mask_add_epi64(left, under, left, num_parts);
      low = _mm512_sub_epi64(low, step);
      low = _mm512_mask_sub_epi64(low, under, low, one);
    }
  }
}

}  // namespace avx512
#endif

/// targets[i] is in part k + i, or k - i, where words[i], a random word, says; all `num` parts must exist.
inline void targets_in_parts(const EqualParts& parts, std::uint64_t k, std::size_t num, bool up,
                             const std::uint64_t* words, std::uint64_t* targets, SimdLevel simd) noexcept {
#if defined(DRIVETRAIN_TARGET)
  if (simd == SimdLevel::kAvx512 && num >= 8) return avx512::targets_in_parts(parts, k, num, up, words, targets);
#else
  (void)simd;
#endif
  parts.each(k, num, up, [&](std::size_t i, std::uint64_t low, std::uint64_t size) {
    targets[i] = low + scale_to(words[i], size);
  });
}

}  // namespace drivetrain
