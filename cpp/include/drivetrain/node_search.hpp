// Finding the child of a node that a target falls into: the inner loop of sampling.
//
// A node is one cache line: 8 uint64 sums of its children (inner node), or 16 float32 priorities
// (leaf node). Given a target below the sum of the node, find() returns the first child whose
// inclusive prefix sum exceeds the target, and leaves in `target` what remains inside that child.
// All sums are exact integers (in a leaf node: doubles below 2^53), so the child always exists,
// never has zero priority, and every instruction set gives the same answer.
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

inline unsigned find_leaf(const float* node, double units_per_one, double& target) noexcept {
  double prefix[kLeafFanout + 1];
  prefix[0] = 0;
  for (unsigned i = 0; i < kLeafFanout; ++i)
    prefix[i + 1] = prefix[i] + static_cast<double>(node[i]) * units_per_one;
  unsigned child = 0;
  for (unsigned i = 1; i < kLeafFanout; ++i) child += prefix[i] <= target;
  target -= prefix[child];
  return child;
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

DRIVETRAIN_AVX2 inline unsigned find_leaf(const float* node, double units_per_one,
                                          double& target) noexcept {
  const __m256d units = _mm256_set1_pd(units_per_one);
  const __m256d wanted = _mm256_set1_pd(target);
  alignas(32) double prefix[20];
  prefix[3] = 0;
  unsigned beyond = 0;
  __m256d carry = _mm256_setzero_pd();
  for (int part = 0; part < 4; ++part) {
    const __m256d priorities = _mm256_cvtps_pd(_mm_load_ps(node + 4 * part));
    const __m256d sums = _mm256_add_pd(prefix_sums(_mm256_mul_pd(priorities, units)), carry);
    carry = _mm256_permute4x64_pd(sums, 0xFF);
    beyond |= static_cast<unsigned>(_mm256_movemask_pd(_mm256_cmp_pd(sums, wanted, _CMP_GT_OQ)))
              << (4 * part);
    _mm256_store_pd(prefix + 4 + 4 * part, sums);
  }
  const auto child = static_cast<unsigned>(__builtin_ctz(beyond));
  target -= prefix[3 + child];
  return child;
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
DRIVETRAIN_AVX512 inline __m512d shift_lanes(__m512d x, const int keep) noexcept {
  const __m512i zero = _mm512_setzero_si512();
  const __m512i bits = _mm512_castpd_si512(x);
  switch (keep) {
    case 7: return _mm512_castsi512_pd(_mm512_alignr_epi64(bits, zero, 7));
    case 6: return _mm512_castsi512_pd(_mm512_alignr_epi64(bits, zero, 6));
    default: return _mm512_castsi512_pd(_mm512_alignr_epi64(bits, zero, 4));
  }
}
DRIVETRAIN_AVX512 inline __m512d prefix_sums(__m512d x) noexcept {
  x = _mm512_add_pd(x, shift_lanes(x, 7));
  x = _mm512_add_pd(x, shift_lanes(x, 6));
  return _mm512_add_pd(x, shift_lanes(x, 4));
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

DRIVETRAIN_AVX512 inline unsigned find_leaf(const float* node, double units_per_one,
                                            double& target) noexcept {
  const __m512d units = _mm512_set1_pd(units_per_one);
  const __m512d wanted = _mm512_set1_pd(target);
  const __m512d low =
      prefix_sums(_mm512_mul_pd(_mm512_cvtps_pd(_mm256_load_ps(node)), units));
  const __m512d high = _mm512_add_pd(
      prefix_sums(_mm512_mul_pd(_mm512_cvtps_pd(_mm256_load_ps(node + 8)), units)),
      _mm512_permutexvar_pd(_mm512_set1_epi64(7), low));
  const unsigned beyond =
      static_cast<unsigned>(_mm512_cmp_pd_mask(low, wanted, _CMP_GT_OQ)) |
      static_cast<unsigned>(_mm512_cmp_pd_mask(high, wanted, _CMP_GT_OQ)) << 8;
  const auto child = static_cast<unsigned>(__builtin_ctz(beyond));
  alignas(64) double prefix[24];
  prefix[7] = 0;
  _mm512_store_pd(prefix + 8, low);
  _mm512_store_pd(prefix + 16, high);
  target -= prefix[7 + child];
  return child;
}

}  // namespace avx512
#endif

}  // namespace drivetrain
