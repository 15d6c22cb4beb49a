// Finding the child of a node that a target falls into: the inner loop of sampling.
//
// A node is one cache line: 8 uint64 sums of its children (inner node), or 16 float32 priorities
// (leaf node). Given a target below the sum of the node, find_inner() returns the first child whose
// inclusive prefix sum exceeds the target, and leaves in `target` what remains inside that child;
// find_leaf() returns the first such leaf. All sums are exact integers (in a leaf node: multiples
// of the unit below 2^53 units, in double), so the child always exists, never has zero priority,
// and every instruction set gives the same answer.
//
// Leaves are added up in the order 0, 4, 8, 12, 1, 5, ...: down the lanes of four vectors, which
// needs one sum across lanes and not four (reference.py follows). Which order it is does not
// matter to how often a leaf is drawn.
//
// The variant is chosen at run time (simd.hpp), so one build serves every CPU. `portable` is
// written for the compiler to vectorise (SSE2 on x86-64, NEON on aarch64).
#pragma once

#include <cstdint>

#if defined(DRIVETRAIN_EMULATE_SIMD)
#include "emulated_simd.hpp"  // cpp/tests: the same intrinsics on any CPU
#define DRIVETRAIN_TARGET(features)
#elif defined(__x86_64__)
#include <immintrin.h>
#define DRIVETRAIN_TARGET(features) __attribute__((target(features)))
#endif

namespace drivetrain {

inline constexpr unsigned kInnerFanout = 8;
inline constexpr unsigned kLeafFanout = 16;
inline constexpr unsigned kLeafLanes = 4;
inline constexpr unsigned kNodeBytes = 64;

/// The leaf at `position` of the order in which a leaf node is added up.
inline unsigned leaf_at(unsigned position) noexcept {
  return position % kLeafLanes * kLeafLanes + position / kLeafLanes;
}
static_assert(kLeafLanes * kLeafLanes == kLeafFanout);

namespace portable {

inline unsigned find_inner(const std::uint64_t* node, std::uint64_t& target) noexcept {
  std::uint64_t prefix[kInnerFanout + 1];
  prefix[0] = 0;
  for (unsigned i = 0; i < kInnerFanout; ++i) prefix[i + 1] = prefix[i] + node[i];
  unsigned child = 0;
  for (unsigned i = 1; i < kInnerFanout; ++i) child += prefix[i] <= target;
  target -= prefix[child];
  return child;
}

/// How many of 8 running sums, in ascending order, are not above the target.
inline unsigned count_up_to(const std::uint64_t* sums, std::uint64_t target) noexcept {
  unsigned count = 0;
  for (unsigned i = 0; i < kInnerFanout; ++i) count += sums[i] <= target;
  return count;
}

inline unsigned find_leaf(const float* node, double target) noexcept {
  double sums[kLeafLanes + 1] = {};  // of what comes before a lane
  for (unsigned lane = 0; lane < kLeafLanes; ++lane) {
    sums[lane + 1] = sums[lane];
    for (unsigned row = 0; row < kLeafLanes; ++row)
      sums[lane + 1] += static_cast<double>(node[row * kLeafLanes + lane]);
  }
  unsigned position = 0;
  for (unsigned row = 0; row < kLeafLanes; ++row)
    for (unsigned lane = 0; lane < kLeafLanes; ++lane) {
      sums[lane] += static_cast<double>(node[row * kLeafLanes + lane]);
      position += sums[lane] <= target;
    }
  return leaf_at(position);
}

}  // namespace portable

#if defined(DRIVETRAIN_TARGET)

namespace avx2 {
#define DRIVETRAIN_AVX2 DRIVETRAIN_TARGET("avx2,popcnt")

// Inclusive prefix sums of four lanes: shift by one lane and add, then by two.
DRIVETRAIN_AVX2 inline __m256i prefix_sums(__m256i x) noexcept {
  const __m256i zero = _mm256_setzero_si256();
  x = _mm256_add_epi64(
      x, _mm256_blend_epi32(_mm256_permute4x64_epi64(x, _MM_SHUFFLE(2, 1, 0, 0)), zero, 0x03));
  return _mm256_add_epi64(x, _mm256_permute2x128_si256(x, x, 0x08));
}
DRIVETRAIN_AVX2 inline __m256d prefix_sums(__m256d x) noexcept {
  const __m256d zero = _mm256_setzero_pd();
  x = _mm256_add_pd(x, _mm256_blend_pd(_mm256_permute4x64_pd(x, _MM_SHUFFLE(2, 1, 0, 0)), zero, 1));
  return _mm256_add_pd(x, _mm256_permute2f128_pd(x, x, 0x08));
}

DRIVETRAIN_AVX2 inline unsigned find_inner(const std::uint64_t* node,
                                           std::uint64_t& target) noexcept {
  const __m256i low = prefix_sums(_mm256_load_si256(reinterpret_cast<const __m256i*>(node)));
  __m256i high = prefix_sums(_mm256_load_si256(reinterpret_cast<const __m256i*>(node + 4)));
  high = _mm256_add_epi64(high, _mm256_permute4x64_epi64(low, 0xFF));
  const __m256i wanted = _mm256_set1_epi64x(static_cast<long long>(target));
  // Sums stay below 2^62, so the signed comparison is the unsigned one.
  const int beyond =
      _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(low, wanted))) |
      _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(high, wanted))) << 4;
  const auto child = static_cast<unsigned>(__builtin_ctz(static_cast<unsigned>(beyond)));
  alignas(32) std::uint64_t prefix[12];
  prefix[3] = 0;
  _mm256_store_si256(reinterpret_cast<__m256i*>(prefix + 4), low);
  _mm256_store_si256(reinterpret_cast<__m256i*>(prefix + 8), high);
  target -= prefix[3 + child];
  return child;
}

DRIVETRAIN_AVX2 inline unsigned count_up_to(const std::uint64_t* sums,
                                            std::uint64_t target) noexcept {
  const __m256i wanted = _mm256_set1_epi64x(static_cast<long long>(target));
  const __m256i low = _mm256_load_si256(reinterpret_cast<const __m256i*>(sums));
  const __m256i high = _mm256_load_si256(reinterpret_cast<const __m256i*>(sums + 4));
  const int above =
      _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(low, wanted))) |
      _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(high, wanted))) << 4;
  return static_cast<unsigned>(__builtin_ctz(static_cast<unsigned>(above) | 0x100));
}

DRIVETRAIN_AVX2 inline __m256i where_above(__m256d sums, __m256d target) noexcept {
  return _mm256_castpd_si256(_mm256_cmp_pd(sums, target, _CMP_GT_OQ));
}

DRIVETRAIN_AVX2 inline unsigned find_leaf(const float* node, double target) noexcept {
  const __m256d wanted = _mm256_set1_pd(target);
  const __m256d row0 = _mm256_cvtps_pd(_mm_load_ps(node));
  const __m256d row1 = _mm256_cvtps_pd(_mm_load_ps(node + 4));
  const __m256d row2 = _mm256_cvtps_pd(_mm_load_ps(node + 8));
  const __m256d row3 = _mm256_cvtps_pd(_mm_load_ps(node + 12));
  const __m256d lanes = _mm256_add_pd(_mm256_add_pd(row0, row1), _mm256_add_pd(row2, row3));
  const __m256d sums3 = prefix_sums(lanes);
  const __m256d sums2 = _mm256_sub_pd(sums3, row3);
  const __m256d sums1 = _mm256_sub_pd(sums2, row2);
  const __m256d sums0 = _mm256_sub_pd(sums1, row1);
  // Four masks of 64-bit lanes become one of bytes, two for each leaf.
  const __m256i all = _mm256_packs_epi16(
      _mm256_packs_epi32(where_above(sums0, wanted), where_above(sums1, wanted)),
      _mm256_packs_epi32(where_above(sums2, wanted), where_above(sums3, wanted)));
  const int num_bytes = __builtin_popcount(static_cast<unsigned>(_mm256_movemask_epi8(all)));
  return leaf_at(kLeafFanout - static_cast<unsigned>(num_bytes) / 2);
}

}  // namespace avx2

namespace avx512 {
#define DRIVETRAIN_AVX512 DRIVETRAIN_TARGET("avx512f,avx512dq,popcnt")

// Inclusive prefix sums of eight lanes: shift by one, two and four lanes, adding each time.
DRIVETRAIN_AVX512 inline __m512i prefix_sums(__m512i x) noexcept {
  const __m512i zero = _mm512_setzero_si512();
  x = _mm512_add_epi64(x, _mm512_alignr_epi64(x, zero, 7));
  x = _mm512_add_epi64(x, _mm512_alignr_epi64(x, zero, 6));
  return _mm512_add_epi64(x, _mm512_alignr_epi64(x, zero, 4));
}
DRIVETRAIN_AVX512 inline unsigned find_inner(const std::uint64_t* node,
                                             std::uint64_t& target) noexcept {
  const __m512i sums = prefix_sums(_mm512_load_si512(node));
  const auto beyond = static_cast<unsigned>(
      _mm512_cmpgt_epu64_mask(sums, _mm512_set1_epi64(static_cast<long long>(target))));
  const auto child = static_cast<unsigned>(__builtin_ctz(beyond));
  alignas(64) std::uint64_t prefix[16];
  prefix[7] = 0;
  _mm512_store_si512(prefix + 8, sums);
  target -= prefix[7 + child];
  return child;
}

DRIVETRAIN_AVX512 inline unsigned count_up_to(const std::uint64_t* sums,
                                              std::uint64_t target) noexcept {
  const auto above = static_cast<unsigned>(_mm512_cmpgt_epu64_mask(
      _mm512_load_si512(sums), _mm512_set1_epi64(static_cast<long long>(target))));
  return static_cast<unsigned>(__builtin_ctz(above | 0x100));
}

using avx2::find_leaf;  // four lanes are what the order of leaves is made for

}  // namespace avx512
#endif

}  // namespace drivetrain
