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
#ifndef _mm512_cmpgt_epu64_mask
inline unsigned emulated_cmpgt_epu64_mask(simde__m512i left, simde__m512i right) {
  std::uint64_t a[8], b[8];
  std::memcpy(a, &left, 64);
  std::memcpy(b, &right, 64);
  unsigned mask = 0;
  for (int i = 0; i < 8; ++i) mask |= static_cast<unsigned>(a[i] > b[i]) << i;
  return mask;
}
#define _mm512_cmpgt_epu64_mask(left, right) emulated_cmpgt_epu64_mask((left), (right))
#endif
