// Leaf nodes by AVX-512: eight descents end at once, in registers from the line to the leaf (leaf_search.hpp).
#pragma once

#include "drivetrain/leaf_search.hpp"
#include "drivetrain/node_search_avx512.hpp"

#if defined(DRIVETRAIN_TARGET)

namespace drivetrain::avx512 {

using avx2::find_leaf;
DRIVETRAIN_DEFINE_LEAVES(find_leaves_one_by_one, __attribute__((noinline, cold)) DRIVETRAIN_AVX512)

DRIVETRAIN_AVX512 inline __m512d low_half(__m512 x) noexcept { return _mm512_cvtps_pd(_mm512_castps512_ps256(x)); }
DRIVETRAIN_AVX512 inline __m512d high_half(__m512 x) noexcept {
  return _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
}

/// Four values of each of eight descents, of which the first is chosen whose inclusive prefix sum exceeds the target.
struct Choice {
  __m512d before, chosen, total;  // what comes before it, it, and all
  __m512i index;
};
DRIVETRAIN_AVX512 inline Choice choose(const __m512d (&values)[kLeafLanes], __m512d target) noexcept {
  const __m512i one = every(1);
  Choice choice{_mm512_setzero_pd(), values[0], values[0], _mm512_setzero_si512()};
  for (unsigned i = 1; i < kLeafLanes; ++i) {
    const __mmask8 behind = _mm512_cmp_pd_mask(choice.total, target, _CMP_LE_OQ);  // it is behind value i - 1
    choice.before = _mm512_mask_mov_pd(choice.before, behind, choice.total);
    choice.chosen = _mm512_mask_mov_pd(choice.chosen, behind, values[i]);
    choice.index = _mm512_mask_add_epi64(choice.index, behind, choice.index, one);
    choice.total = _mm512_add_pd(choice.total, values[i]);
  }
  return choice;
}

/// Leaf nodes of four descents, by rows: lane k of vector r is row r of node k.
struct Four {
  __m512 rows[kLeafLanes];
};
DRIVETRAIN_AVX512 inline Four read_four(const float* leaves, const std::uint64_t* node) noexcept {
  alignas(64) float own[4][kLeafFanout];
  __m512 lines[4];
  for (unsigned k = 0; k < 4; ++k)
    lines[k] = _mm512_load_ps(shared_line(leaves + node[k] * kLeafFanout, own[k]));
  once_read();
  const __m512 low01 = _mm512_shuffle_f32x4(lines[0], lines[1], 0x44);   // rows 0, 1 of two nodes
  const __m512 high01 = _mm512_shuffle_f32x4(lines[0], lines[1], 0xEE);  // rows 2, 3
  const __m512 low23 = _mm512_shuffle_f32x4(lines[2], lines[3], 0x44);
  const __m512 high23 = _mm512_shuffle_f32x4(lines[2], lines[3], 0xEE);
  return {{_mm512_shuffle_f32x4(low01, low23, 0x88), _mm512_shuffle_f32x4(low01, low23, 0xDD),
           _mm512_shuffle_f32x4(high01, high23, 0x88), _mm512_shuffle_f32x4(high01, high23, 0xDD)}};
}

/// The sums of columns of eight nodes, one vector for each column.
DRIVETRAIN_AVX512 inline void add_columns(const Four& first, const Four& last,
                                          __m512d (&columns)[kLeafLanes]) noexcept {
  __m512d pairs[4];  // four columns of each of two nodes
  for (unsigned half = 0; half < 2; ++half) {
    const Four& nodes = half == 0 ? first : last;
    pairs[2 * half] = _mm512_add_pd(_mm512_add_pd(low_half(nodes.rows[0]), low_half(nodes.rows[1])),
                                    _mm512_add_pd(low_half(nodes.rows[2]), low_half(nodes.rows[3])));
    pairs[2 * half + 1] = _mm512_add_pd(_mm512_add_pd(high_half(nodes.rows[0]), high_half(nodes.rows[1])),
                                        _mm512_add_pd(high_half(nodes.rows[2]), high_half(nodes.rows[3])));
  }
  // Of nodes 0 2 | 0 2 | 1 3 | 1 3: columns 0, 2, or 1, 3; and of 4 6 | 4 6 | 5 7 | 5 7.
  const __m512d even_first = _mm512_unpacklo_pd(pairs[0], pairs[1]), odd_first = _mm512_unpackhi_pd(pairs[0], pairs[1]);
  const __m512d even_last = _mm512_unpacklo_pd(pairs[2], pairs[3]), odd_last = _mm512_unpackhi_pd(pairs[2], pairs[3]);
  const __m512i lower = _mm512_setr_epi64(0, 4, 1, 5, 8, 12, 9, 13);
  const __m512i upper = _mm512_setr_epi64(2, 6, 3, 7, 10, 14, 11, 15);
  columns[0] = _mm512_permutex2var_pd(even_first, lower, even_last);
  columns[1] = _mm512_permutex2var_pd(odd_first, lower, odd_last);
  columns[2] = _mm512_permutex2var_pd(even_first, upper, even_last);
  columns[3] = _mm512_permutex2var_pd(odd_first, upper, odd_last);
}

/// Descents of eight; false, and nothing is written, where a node is not of the sum that was read above.
DRIVETRAIN_AVX512 inline bool find_eight(const float* leaves, const double* target, const double* sum,
                                         std::uint64_t* node, double* leaf) noexcept {
  const Four first = read_four(leaves, node), last = read_four(leaves, node + 4);
  __m512d columns[kLeafLanes];
  add_columns(first, last, columns);
  const __m512d wanted = _mm512_load_pd(target);
  const Choice column = choose(columns, wanted);
  if (_mm512_cmp_pd_mask(column.total, _mm512_load_pd(sum), _CMP_NEQ_UQ) != 0) [[unlikely]] return false;
  // Of each row, the leaf in the chosen column of each node.
  const __m512i place = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 0, 0, 0, 0, 0, 0, 0);
  const __m512i in_lanes = _mm512_add_epi32(place, _mm512_castsi256_si512(_mm512_cvtepi64_epi32(column.index)));
  __m512d rows[kLeafLanes];
  for (unsigned row = 0; row < kLeafLanes; ++row)
    rows[row] = low_half(_mm512_permutex2var_ps(first.rows[row], in_lanes, last.rows[row]));
  const Choice row = choose(rows, _mm512_sub_pd(wanted, column.before));
  _mm512_store_pd(leaf, row.chosen);
  const __m512i in_row = _mm512_add_epi64(_mm512_slli_epi64(_mm512_load_si512(node), 4), column.index);
  _mm512_store_si512(node, _mm512_add_epi64(in_row, _mm512_slli_epi64(row.index, 2)));
  return true;
}
static_assert(kLeafFanout == 1 << 4 && kLeafLanes == 1 << 2 && kTogether == kLeavesFound);

template <class Redraw, class Found>
DRIVETRAIN_AVX512 inline void find_leaves(const float* leaves, std::size_t num, const double* target,
                                          const double* sum, std::uint64_t* node, double* leaf, Redraw&& redraw,
                                          Found&& found) noexcept {
  for (std::size_t j = 0; j < num; j += kTogether) {
    if (!find_eight(leaves, target + j, sum + j, node + j, leaf + j)) [[unlikely]] {  // once more, each by itself
      const auto again = [&](std::size_t k, double total, double expected) { return redraw(j + k, total, expected); };
      find_leaves_one_by_one(leaves, kTogether, target + j, sum + j, node + j, leaf + j, again,
                             [](std::size_t, std::size_t) {});
    }
    found(j, j + kTogether);
  }
}

}  // namespace drivetrain::avx512

#endif
