// Finding the leaf that a target falls into: where each descent of sampling ends.
//
// A leaf node is one cache line of 16 float32. Given a target below their sum, find_leaf() returns the first leaf
// whose inclusive prefix sum exceeds the target, and its value. All sums are multiples of the unit below 2^53 units,
// in double, and so exact: the leaf always exists, is never zero, and every instruction set gives the same answer.
// Nodes that others change meanwhile are treated as in node_search.hpp: of a node of nothing, in which the target is
// below 0, it is the first leaf, for the last ones of a tree belong to nobody.
//
//   0   1   2   3     Leaves are added up in the order 0, 4, 8, 12, 1, 5, ...: column by column of four rows, each
//   4   5   6   7     of which is a vector, so that there is one sum across lanes and not four (reference.py
//   8   9  10  11     follows). Which order it is does not matter to how often a leaf is drawn.
//  12  13  14  15
//
// find_leaves() ends many descents. In AVX2 a vector holds the sums of a column of four nodes, and then, of each of
// the four, a leaf of the column that was chosen: no sums across lanes, and half as long as one by one. Sixteen
// choose their columns before the first looks for its row, for each choice waits for the one before it
// (design/replay-speed.md). AVX-512 ends eight at once: leaf_search_avx512.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "drivetrain/node_search.hpp"
#include "drivetrain/shared_copy.hpp"
#include "drivetrain/simd.hpp"

namespace drivetrain {

inline constexpr unsigned kLeafFanout = 16;
inline constexpr unsigned kLeafLanes = 4;
inline constexpr std::size_t kLeavesTogether = 16;  // descents
inline constexpr std::size_t kLeavesFound = 8;  // then the caller is told, who asks for their rows (RowsAhead)

/// The leaf at `position` of the order in which a leaf node is added up.
inline unsigned leaf_at(unsigned position) noexcept {
  return position % kLeafLanes * kLeafLanes + position / kLeafLanes;
}
static_assert(kLeafLanes * kLeafLanes == kLeafFanout);

// find_leaves() by find_leaf(), for each variant under its own target attribute.
#define DRIVETRAIN_DEFINE_LEAVES(name, ...)                                                                \
  template <class Redraw, class Found>                                                                      \
  __VA_ARGS__ inline void name(const float* leaves, std::size_t num, const double* target,                  \
                               const double* sum, std::uint64_t* node, double* leaf, Redraw&& redraw,       \
                               Found&& found) noexcept {                                                    \
    for (std::size_t begin = 0; begin < num; begin += kLeavesFound) {                                       \
      const std::size_t end = std::min(begin + kLeavesFound, num);                                          \
      for (std::size_t j = begin; j < end; ++j) {                                                           \
        const std::uint64_t first = node[j] * kLeafFanout;                                                  \
        const auto again = [&](double total, double expected) { return redraw(j, total, expected); };       \
        float value = 0;                                                                                    \
        node[j] = first + find_leaf(leaves + first, target[j], sum[j], value, again);                       \
        leaf[j] = value;                                                                                    \
      }                                                                                                     \
      found(begin, end);                                                                                    \
    }                                                                                                       \
  }

namespace portable {

template <class Redraw>
inline unsigned find_leaf(const float* node, double target, double sum, float& leaf,
                          Redraw&& redraw) noexcept {
  float own[kLeafFanout], line[kLeafFanout];
  const float* shared = shared_line(node, own);
  for (unsigned i = 0; i < kLeafFanout; ++i) line[i] = shared[i];
  once_read();
  double sums[kLeafLanes + 1] = {};  // of what comes before a lane
  for (unsigned lane = 0; lane < kLeafLanes; ++lane) {
    sums[lane + 1] = sums[lane];
    for (unsigned row = 0; row < kLeafLanes; ++row)
      sums[lane + 1] += static_cast<double>(line[row * kLeafLanes + lane]);
  }
  const double total = sums[kLeafLanes];
  if (total != sum) [[unlikely]] target = redraw(total, sum);
  unsigned position = 0;
  for (unsigned row = 0; row < kLeafLanes; ++row)
    for (unsigned lane = 0; lane < kLeafLanes; ++lane) {
      sums[lane] += static_cast<double>(line[row * kLeafLanes + lane]);
      position += sums[lane] <= target;
    }
  const unsigned found = leaf_at(std::min(position, kLeafFanout - 1));
  leaf = line[found];
  return found;
}

/// Ends `num` descents, a multiple of kTogether and at most kLeavesTogether: node[j] becomes the leaf in it that target[j]
/// falls into, leaf[j] its value. redraw(j, total, expected) gives a target in a node that has changed;
/// found(begin, end) is called as soon as these are known.
DRIVETRAIN_DEFINE_LEAVES(find_leaves, )

}  // namespace portable

#if defined(DRIVETRAIN_TARGET)

namespace avx2 {

DRIVETRAIN_AVX2 inline __m256d prefix_sums(__m256d x) noexcept {
  const __m256d zero = _mm256_setzero_pd();
  x = _mm256_add_pd(x, _mm256_blend_pd(_mm256_permute4x64_pd(x, _MM_SHUFFLE(2, 1, 0, 0)), zero, 1));
  return _mm256_add_pd(x, _mm256_permute2f128_pd(x, x, 0x08));
}

DRIVETRAIN_AVX2 inline __m256d low_half(__m256 x) noexcept {
  return _mm256_cvtps_pd(_mm256_castps256_ps128(x));
}
DRIVETRAIN_AVX2 inline __m256d high_half(__m256 x) noexcept {
  return _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1));
}

DRIVETRAIN_AVX2 inline __m256i where_above(__m256d sums, __m256d target) noexcept {
  return _mm256_castpd_si256(_mm256_cmp_pd(sums, target, _CMP_GT_OQ));
}

template <class Redraw>
DRIVETRAIN_AVX2 inline unsigned find_leaf(const float* node, double target, double sum, float& leaf,
                                          Redraw&& redraw) noexcept {
  alignas(32) float own[kLeafFanout], line[kLeafFanout];
  const float* shared = shared_line(node, own);
  const __m256 first = _mm256_load_ps(shared), last = _mm256_load_ps(shared + 8);
  once_read();
  _mm256_store_ps(line, first);
  _mm256_store_ps(line + 8, last);
  const __m256d row0 = low_half(first);
  const __m256d row1 = high_half(first);
  const __m256d row2 = low_half(last);
  const __m256d row3 = high_half(last);
  const __m256d rows23 = _mm256_add_pd(row2, row3), rows123 = _mm256_add_pd(row1, rows23);
  const __m256d sums3 = prefix_sums(_mm256_add_pd(_mm256_add_pd(row0, row1), rows23));
  const double total = _mm256_cvtsd_f64(_mm256_permute4x64_pd(sums3, 0xFF));
  if (total != sum) [[unlikely]] target = redraw(total, sum);
  const __m256d wanted = _mm256_set1_pd(target);
  const __m256d sums2 = _mm256_sub_pd(sums3, row3);
  const __m256d sums1 = _mm256_sub_pd(sums3, rows23);
  const __m256d sums0 = _mm256_sub_pd(sums3, rows123);
  // Four masks of 64-bit lanes become one of bytes, two for each leaf.
  const __m256i all = _mm256_packs_epi16(
      _mm256_packs_epi32(where_above(sums0, wanted), where_above(sums1, wanted)),
      _mm256_packs_epi32(where_above(sums2, wanted), where_above(sums3, wanted)));
  const int num_bytes = __builtin_popcount(static_cast<unsigned>(_mm256_movemask_epi8(all)));
  const unsigned position = kLeafFanout - static_cast<unsigned>(num_bytes) / 2;
  const unsigned found = leaf_at(std::min(position, kLeafFanout - 1));
  leaf = line[found];
  return found;
}

DRIVETRAIN_DEFINE_LEAVES(find_leaves_one_by_one, __attribute__((noinline, cold)) DRIVETRAIN_AVX2)

/// From four vectors of four values of a node each, four of one value of each of the nodes.
DRIVETRAIN_AVX2 inline void transpose(__m256d (&rows)[kTogether]) noexcept {
  const __m256d even01 = _mm256_unpacklo_pd(rows[0], rows[1]), odd01 = _mm256_unpackhi_pd(rows[0], rows[1]);
  const __m256d even23 = _mm256_unpacklo_pd(rows[2], rows[3]), odd23 = _mm256_unpackhi_pd(rows[2], rows[3]);
  rows[0] = _mm256_permute2f128_pd(even01, even23, 0x20);
  rows[1] = _mm256_permute2f128_pd(odd01, odd23, 0x20);
  rows[2] = _mm256_permute2f128_pd(even01, even23, 0x31);
  rows[3] = _mm256_permute2f128_pd(odd01, odd23, 0x31);
}

/// Lane k of vector k, in the lower and in the upper half.
DRIVETRAIN_AVX2 inline __m256 diagonal(const __m256 (&vectors)[kTogether]) noexcept {
  const __m256 first = _mm256_blend_ps(vectors[0], vectors[1], 0x22);
  return _mm256_blend_ps(first, _mm256_blend_ps(vectors[2], vectors[3], 0x88), 0xCC);
}

/// Four values of each of four descents, of which the first is chosen whose inclusive prefix sum exceeds the target.
struct Choice {
  __m256d before, chosen, total;  // what comes before it, it, and all
  __m256i index;
};
DRIVETRAIN_AVX2 inline Choice choose(const __m256d (&values)[kTogether], __m256d target) noexcept {
  Choice choice{_mm256_setzero_pd(), values[0], values[0], _mm256_setzero_si256()};
  for (unsigned i = 1; i < kTogether; ++i) {
    const __m256d behind = _mm256_cmp_pd(choice.total, target, _CMP_LE_OQ);  // it is behind value i - 1
    choice.before = _mm256_blendv_pd(choice.before, choice.total, behind);
    choice.chosen = _mm256_blendv_pd(choice.chosen, values[i], behind);
    choice.index = _mm256_sub_epi64(choice.index, _mm256_castpd_si256(behind));
    choice.total = _mm256_add_pd(choice.total, values[i]);
  }
  return choice;
}

/// Leaf nodes of some descents between the two halves of a search.
struct LeafNodes {
  alignas(64) float line[kLeavesTogether][kLeafFanout];  // as it was read, once
  alignas(32) std::uint64_t column[kLeavesTogether];
  alignas(32) double rest[kLeavesTogether];  // of the target, within the column
};

/// The columns of descents j to j + 3; false where a node is not of the sum that was read above.
DRIVETRAIN_AVX2 inline bool choose_columns(const float* leaves, const double* target, const double* sum,
                                           const std::uint64_t* node, std::size_t j,
                                           LeafNodes& nodes) noexcept {
  __m256d columns[kTogether];
  for (unsigned k = 0; k < kTogether; ++k) {
    auto& own = nodes.line[j + k];
    const float* line = shared_line(leaves + node[j + k] * kLeafFanout, own);
    const __m256 first = _mm256_load_ps(line), last = _mm256_load_ps(line + 8);
    _mm256_store_ps(own, first);
    _mm256_store_ps(own + 8, last);
    columns[k] = _mm256_add_pd(_mm256_add_pd(low_half(first), high_half(first)),
                               _mm256_add_pd(low_half(last), high_half(last)));
  }
  once_read();
  transpose(columns);
  const __m256d wanted = _mm256_load_pd(target + j);
  const Choice choice = choose(columns, wanted);
  _mm256_store_si256(reinterpret_cast<__m256i*>(nodes.column + j), choice.index);
  _mm256_store_pd(nodes.rest + j, _mm256_sub_pd(wanted, choice.before));
  return _mm256_movemask_pd(_mm256_cmp_pd(choice.total, _mm256_load_pd(sum + j), _CMP_EQ_OQ)) == 0xF;
}

/// The rows of descents j to j + 3, and so their leaves.
DRIVETRAIN_AVX2 inline void choose_rows(const LeafNodes& nodes, std::size_t j, std::uint64_t* node,
                                        double* leaf) noexcept {
  __m256 first[kTogether], last[kTogether];
  for (unsigned k = 0; k < kTogether; ++k) {
    const __m256i column = _mm256_set1_epi32(static_cast<int>(nodes.column[j + k]));
    first[k] = _mm256_permutevar_ps(_mm256_load_ps(nodes.line[j + k]), column);
    last[k] = _mm256_permutevar_ps(_mm256_load_ps(nodes.line[j + k] + 8), column);
  }
  const __m256 upper = diagonal(first), lower = diagonal(last);
  const __m256d rows[kLeafLanes] = {low_half(upper), high_half(upper), low_half(lower), high_half(lower)};
  const Choice choice = choose(rows, _mm256_load_pd(nodes.rest + j));
  _mm256_store_pd(leaf + j, choice.chosen);
  auto* const found = reinterpret_cast<__m256i*>(node + j);
  const __m256i column = _mm256_load_si256(reinterpret_cast<const __m256i*>(nodes.column + j));
  const __m256i in_row = _mm256_add_epi64(_mm256_slli_epi64(_mm256_load_si256(found), 4), column);
  _mm256_store_si256(found, _mm256_add_epi64(in_row, _mm256_slli_epi64(choice.index, 2)));
}
static_assert(kLeafFanout == 1 << 4 && kLeafLanes == 1 << 2 && kLeafLanes == kTogether);

template <class Redraw, class Found>
DRIVETRAIN_AVX2 inline void find_leaves(const float* leaves, std::size_t num, const double* target,
                                        const double* sum, std::uint64_t* node, double* leaf,
                                        Redraw&& redraw, Found&& found) noexcept {
  LeafNodes nodes;
  bool same = true;
  for (std::size_t j = 0; j < num; j += kTogether)
    same &= choose_columns(leaves, target, sum, node, j, nodes);
  if (!same) [[unlikely]]  // what was read is not used: once more, each by itself
    return find_leaves_one_by_one(leaves, num, target, sum, node, leaf, redraw, found);
  for (std::size_t begin = 0; begin < num; begin += kLeavesFound) {
    const std::size_t end = std::min(begin + kLeavesFound, num);
    for (std::size_t j = begin; j < end; j += kTogether) choose_rows(nodes, j, node, leaf);
    found(begin, end);
  }
}

}  // namespace avx2

#endif
}  // namespace drivetrain
