// Inner nodes by AVX-512: eight at a time, a vector for each word of them (node_search.hpp).
#pragma once

#include "drivetrain/node_search.hpp"

#if defined(DRIVETRAIN_TARGET)

namespace drivetrain::avx512 {

inline constexpr unsigned kTogether = 8;

using avx2::find_inner;
DRIVETRAIN_DEFINE_ONE_BY_ONE(find_inner_one_by_one, __attribute__((noinline, cold)) DRIVETRAIN_AVX512)

/// From eight nodes, one vector each, to a vector for each word of them.
DRIVETRAIN_AVX512 inline void transpose(__m512i (&rows)[kTogether]) noexcept {
  __m512i pairs[kTogether], quads[kTogether];
  for (unsigned k = 0; k < kTogether; k += 2) {
    pairs[k] = _mm512_unpacklo_epi64(rows[k], rows[k + 1]);      // words 0, 2, 4, 6 of both
    pairs[k + 1] = _mm512_unpackhi_epi64(rows[k], rows[k + 1]);  // 1, 3, 5, 7
  }
  for (unsigned odd = 0; odd < 2; ++odd)
    for (unsigned half = 0; half < 2; ++half) {
      const __m512i low = pairs[4 * half + odd], high = pairs[4 * half + 2 + odd];
      quads[4 * half + odd] = _mm512_shuffle_i64x2(low, high, 0x88);      // words odd, odd + 4 of four
      quads[4 * half + 2 + odd] = _mm512_shuffle_i64x2(low, high, 0xDD);  // odd + 2, odd + 6
    }
  for (unsigned word = 0; word < 4; ++word) {
    rows[word] = _mm512_shuffle_i64x2(quads[word], quads[4 + word], 0x88);
    rows[word + 4] = _mm512_shuffle_i64x2(quads[word], quads[4 + word], 0xDD);
  }
}

template <class Redraw>
DRIVETRAIN_AVX512 inline void find_inner_together(const std::uint64_t* sums, std::uint64_t* target,
                                                  std::uint64_t* sum, std::uint64_t* node,
                                                  Redraw&& redraw) noexcept {
  alignas(64) std::uint64_t own[kTogether][kInnerFanout];
  __m512i words[kTogether];
  for (unsigned k = 0; k < kTogether; ++k)
    words[k] = _mm512_load_si512(shared_line(sums + node[k] * kInnerFanout, own[k]));
  once_read();
  transpose(words);
  const __m512i wanted = _mm512_load_si512(target), one = every(1);
  __m512i total = words[0], found = words[0], rest = wanted, child = _mm512_setzero_si512();
  for (unsigned i = 1; i < kInnerFanout; ++i) {
    const __mmask8 behind = _mm512_cmple_epi64_mask(total, wanted);  // the child is behind word i - 1
    rest = _mm512_mask_sub_epi64(rest, behind, rest, words[i - 1]);
    found = _mm512_mask_mov_epi64(found, behind, words[i]);
    child = _mm512_mask_add_epi64(child, behind, child, one);
    total = _mm512_add_epi64(total, words[i]);
  }
  if (_mm512_cmpneq_epu64_mask(total, _mm512_load_si512(sum)) != 0) [[unlikely]]
    return find_inner_one_by_one(sums, target, sum, node, redraw);  // from new reads
  _mm512_store_si512(target, rest);
  _mm512_store_si512(sum, found);
  _mm512_store_si512(node, _mm512_add_epi64(_mm512_slli_epi64(_mm512_load_si512(node), 3), child));
}
static_assert(kInnerFanout == 1 << 3 && kInnerFanout == kTogether);

template <unsigned num>
DRIVETRAIN_AVX512 inline void start_together(const std::uint64_t* sums, const std::uint64_t* target,
                                             std::uint64_t* node) noexcept {
  const __m512i wanted = _mm512_load_si512(target), one = every(1);
  __m512i last = _mm512_setzero_si512();
#pragma GCC unroll 16
  for (unsigned i = 1; i < num; ++i) {
    const __mmask8 behind = _mm512_cmple_epu64_mask(every(sums[i]), wanted);
    last = _mm512_mask_add_epi64(last, behind, last, one);
  }
  _mm512_store_si512(node, last);
}
DRIVETRAIN_AVX512 inline void start_together(const std::uint64_t* sums, unsigned num,
                                             const std::uint64_t* target, std::uint64_t* node) noexcept {
  if (num == kInnerFanout) return start_together<kInnerFanout>(sums, target, node);
  start_together<2 * kInnerFanout>(sums, target, node);
}

DRIVETRAIN_AVX512 inline unsigned count_up_to(const std::uint64_t* sums, std::uint64_t target) noexcept {
  const auto above = static_cast<unsigned>(_mm512_cmpgt_epu64_mask(
      _mm512_load_si512(sums), every(target)));
  return static_cast<unsigned>(__builtin_ctz(above | 0x100));
}

}  // namespace drivetrain::avx512

#endif
