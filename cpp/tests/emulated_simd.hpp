// AVX2 and AVX-512 intrinsics in portable code (SIMDe), so that their variants of the tree search
// are tested on CPUs without them. What this version of SIMDe lacks is added here.
#pragma once

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx2.h>
#include <simde/x86/avx512.h>

#include <cstdint>
#include <cstring>

#ifndef _mm512_alignr_epi64
template <int kShift>
inline simde__m512i emulated_alignr_epi64(simde__m512i high, simde__m512i low) {
  std::int64_t lanes[16], result[8];
  std::memcpy(lanes, &low, 64);
  std::memcpy(lanes + 8, &high, 64);
  std::memcpy(result, lanes + kShift, 64);
  return simde_mm512_loadu_si512(result);
}
#define _mm512_alignr_epi64(high, low, shift) (emulated_alignr_epi64<shift>((high), (low)))
#endif
#ifndef _mm512_store_pd
#define _mm512_store_pd(to, from) simde_mm512_storeu_pd((to), (from))
#endif
#ifndef _mm512_cvtps_pd
inline simde__m512d emulated_cvtps_pd(simde__m256 from) {
  float in[8];
  double out[8];
  std::memcpy(in, &from, 32);
  for (int i = 0; i < 8; ++i) out[i] = in[i];
  return simde_mm512_loadu_pd(out);
}
#define _mm512_cvtps_pd(from) emulated_cvtps_pd(from)
#endif
#ifndef __mmask8
typedef simde__mmask8 __mmask8;
#endif
#ifndef __mmask16
typedef simde__mmask16 __mmask16;
#endif
#ifndef _mm512_maskz_expand_ps
inline simde__m512 emulated_maskz_expand_ps(unsigned mask, simde__m512 from) {
  float in[16], out[16] = {};
  std::memcpy(in, &from, 64);
  for (int i = 0, next = 0; i < 16; ++i)
    if (mask >> i & 1) out[i] = in[next++];
  return simde_mm512_loadu_ps(out);
}
#define _mm512_maskz_expand_ps(mask, from) emulated_maskz_expand_ps((mask), (from))
#endif
// Quarters of two vectors, two of the first and then two of the second.
template <class Vector>
inline Vector emulated_shuffle_quarters(Vector first, Vector second, unsigned which) {
  unsigned char in[2][64], result[64];
  std::memcpy(in[0], &first, 64);
  std::memcpy(in[1], &second, 64);
  for (unsigned i = 0; i < 4; ++i) std::memcpy(result + 16 * i, in[i / 2] + 16 * (which >> 2 * i & 3), 16);
  std::memcpy(&first, result, 64);
  return first;
}
#ifndef _mm512_shuffle_i64x2
#define _mm512_shuffle_i64x2(first, second, which) emulated_shuffle_quarters((first), (second), (which))
#endif
#ifndef _mm512_shuffle_f32x4
#define _mm512_shuffle_f32x4(first, second, which) emulated_shuffle_quarters((first), (second), (which))
#endif
#ifndef _mm512_extractf32x8_ps
inline simde__m256 emulated_extractf32x8_ps(simde__m512 from, int half) {
  float lanes[16];
  std::memcpy(lanes, &from, 64);
  return simde_mm256_loadu_ps(lanes + 8 * half);
}
#define _mm512_extractf32x8_ps(from, half) emulated_extractf32x8_ps((from), (half))
#endif
// Comparisons of unsigned words, by what is true of left and right.
template <class Compare>
inline simde__mmask8 emulated_compare(simde__m512i left, simde__m512i right, Compare compare) {
  std::uint64_t a[8], b[8];
  std::memcpy(a, &left, 64);
  std::memcpy(b, &right, 64);
  unsigned mask = 0;
  for (int i = 0; i < 8; ++i) mask |= static_cast<unsigned>(compare(a[i], b[i])) << i;
  return static_cast<simde__mmask8>(mask);
}
#ifndef _mm512_cmpgt_epu64_mask
#define _mm512_cmpgt_epu64_mask(left, right) emulated_compare((left), (right), [](auto a, auto b) { return a > b; })
#endif
#ifndef _mm512_cmpneq_epu64_mask
#define _mm512_cmpneq_epu64_mask(left, right) emulated_compare((left), (right), [](auto a, auto b) { return a != b; })
#endif
#ifndef _mm512_cmpge_epu64_mask
#define _mm512_cmpge_epu64_mask(left, right) emulated_compare((left), (right), [](auto a, auto b) { return a >= b; })
#endif
#ifndef _mm512_cmplt_epu64_mask
#define _mm512_cmplt_epu64_mask(left, right) emulated_compare((left), (right), [](auto a, auto b) { return a < b; })
#endif
#ifndef _mm512_maskz_loadu_epi64
inline simde__m512i emulated_maskz_loadu_epi64(unsigned mask, const void* from) {
  std::uint64_t lanes[8] = {};
  for (int i = 0; i < 8; ++i)
    if (mask >> i & 1) std::memcpy(lanes + i, static_cast<const std::uint64_t*>(from) + i, 8);
  return simde_mm512_loadu_si512(lanes);
}
#define _mm512_maskz_loadu_epi64(mask, from) emulated_maskz_loadu_epi64((mask), (from))
#endif
#ifndef _mm512_mask_storeu_epi64
inline void emulated_mask_storeu_epi64(void* to, unsigned mask, simde__m512i from) {
  std::uint64_t lanes[8];
  std::memcpy(lanes, &from, 64);
  for (int i = 0; i < 8; ++i)
    if (mask >> i & 1) std::memcpy(static_cast<std::uint64_t*>(to) + i, lanes + i, 8);
}
#define _mm512_mask_storeu_epi64(to, mask, from) emulated_mask_storeu_epi64((to), (mask), (from))
#endif
// SIMDe multiplies signed words, which must not overflow.
#undef _mm512_mullo_epi64
inline simde__m512i emulated_mullo_epi64(simde__m512i left, simde__m512i right) {
  std::uint64_t a[8], b[8];
  std::memcpy(a, &left, 64);
  std::memcpy(b, &right, 64);
  for (int i = 0; i < 8; ++i) a[i] *= b[i];
  return simde_mm512_loadu_si512(a);
}
#define _mm512_mullo_epi64(left, right) emulated_mullo_epi64((left), (right))
