// Philox4x64-10: random numbers as a function of a counter (Salmon et al. 2011, "Parallel random
// numbers: as easy as 1, 2, 3"). The counter lives in the segment, so samplers in any number of
// processes never share a draw. The stream equals numpy.random.Philox(key=seed).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "drivetrain/simd.hpp"

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

#if defined(DRIVETRAIN_TARGET)
namespace avx512 {

inline constexpr std::size_t kBlocksTogether = 8;

/// The upper halves of the products of unsigned words, from those of their own halves.
DRIVETRAIN_AVX512 inline __m512i multiply_high(__m512i x, __m512i y, __m512i x_high, __m512i y_high) noexcept {
  const __m512i low_half = every(0xFFFFFFFF);
  const __m512i low = _mm512_srli_epi64(_mm512_mul_epu32(x, y), 32);
  const __m512i middle = _mm512_add_epi64(_mm512_mul_epu32(x_high, y), low);
  const __m512i rest = _mm512_add_epi64(_mm512_mul_epu32(x, y_high), _mm512_and_si512(middle, low_half));
  const __m512i high = _mm512_add_epi64(_mm512_mul_epu32(x_high, y_high), _mm512_srli_epi64(middle, 32));
  return _mm512_add_epi64(high, _mm512_srli_epi64(rest, 32));
}

/// Four vectors of a word of each of eight blocks, to the words of one block after the other.
DRIVETRAIN_AVX512 inline void store_blocks(const __m512i (&x)[kDrawsPerBlock], std::uint64_t* words) noexcept {
  const __m512i low01 = _mm512_unpacklo_epi64(x[0], x[1]), high01 = _mm512_unpackhi_epi64(x[0], x[1]);
  const __m512i low23 = _mm512_unpacklo_epi64(x[2], x[3]), high23 = _mm512_unpackhi_epi64(x[2], x[3]);
  const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
  const __m512i last = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  const __m512i even[2] = {_mm512_permutex2var_epi64(low01, first, low23),
                           _mm512_permutex2var_epi64(low01, last, low23)};
  const __m512i odd[2] = {_mm512_permutex2var_epi64(high01, first, high23),
                          _mm512_permutex2var_epi64(high01, last, high23)};
  for (unsigned half = 0; half < 2; ++half) {  // blocks 4 * half, ...
    _mm512_storeu_si512(words + 16 * half, _mm512_shuffle_i64x2(even[half], odd[half], 0x44));
    _mm512_storeu_si512(words + 16 * half + 8, _mm512_shuffle_i64x2(even[half], odd[half], 0xEE));
  }
}

/// The words of blocks first, first + 1, ..., kBlocksTogether * groups of them.
template <std::size_t groups>
DRIVETRAIN_AVX512 inline void philox_together(std::uint64_t first, std::uint64_t key, std::uint64_t* words) noexcept {
  const __m512i lanes = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
  const __m512i m0 = every(0xD2E7470EE14C6C93ull), m0_high = _mm512_srli_epi64(m0, 32);
  const __m512i m1 = every(0xCA5A826395121157ull), m1_high = _mm512_srli_epi64(m1, 32);
  __m512i x[groups][kDrawsPerBlock];
  for (std::size_t g = 0; g < groups; ++g) {
    x[g][0] = _mm512_add_epi64(every(first + g * kBlocksTogether), lanes);
    x[g][1] = x[g][2] = x[g][3] = _mm512_setzero_si512();
  }
  std::uint64_t k0 = key, k1 = 0;
  for (int round = 0; round < 10; ++round) {
    const __m512i key0 = every(k0), key1 = every(k1);
    for (std::size_t g = 0; g < groups; ++g) {
      const __m512i high0 = multiply_high(x[g][0], m0, _mm512_srli_epi64(x[g][0], 32), m0_high);
      const __m512i high1 = multiply_high(x[g][2], m1, _mm512_srli_epi64(x[g][2], 32), m1_high);
      const __m512i low0 = _mm512_mullo_epi64(x[g][0], m0), low1 = _mm512_mullo_epi64(x[g][2], m1);
      x[g][0] = _mm512_ternarylogic_epi64(high1, x[g][1], key0, 0x96);  // all three, exclusively or
      x[g][1] = low1;
      x[g][2] = _mm512_ternarylogic_epi64(high0, x[g][3], key1, 0x96);
      x[g][3] = low0;
    }
    k0 += 0x9E3779B97F4A7C15ull;
    k1 += 0xBB67AE8584CAA73Bull;
  }
  for (std::size_t g = 0; g < groups; ++g) store_blocks(x[g], words + g * kBlocksTogether * kDrawsPerBlock);
}

DRIVETRAIN_AVX512 inline std::size_t philox_words(std::uint64_t first, std::size_t num_blocks, std::uint64_t key,
                                                  std::uint64_t* words) noexcept {
  std::size_t done = 0;  // four groups, so that none waits for a multiplication
  for (; done + 4 * kBlocksTogether <= num_blocks; done += 4 * kBlocksTogether)
    philox_together<4>(first + done, key, words + done * kDrawsPerBlock);
  for (; done + kBlocksTogether <= num_blocks; done += kBlocksTogether)
    philox_together<1>(first + done, key, words + done * kDrawsPerBlock);
  return done;
}

}  // namespace avx512
#endif

/// The words of blocks first, first + 1, ... of stream `key`, kDrawsPerBlock of each.
inline void philox_words(std::uint64_t first, std::size_t num_blocks, std::uint64_t key, std::uint64_t* words,
                         SimdLevel simd) noexcept {
  std::size_t done = 0;
#if defined(DRIVETRAIN_TARGET)
  if (simd == SimdLevel::kAvx512) done = avx512::philox_words(first, num_blocks, key, words);
#else
  (void)simd;
#endif
  for (; done < num_blocks; ++done) {
    const auto four = philox_block(first + done, key);
    for (unsigned k = 0; k < kDrawsPerBlock; ++k) words[done * kDrawsPerBlock + k] = four[k];
  }
}

}  // namespace drivetrain
