// Whole cache lines of several pieces, two of each by turns, through the caches or past them.
//
// Two lines at a time, and vectors of half a line, are what memory takes fastest (design/replay-speed.md).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "drivetrain/simd.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#define DRIVETRAIN_STREAMS 1
#endif

namespace drivetrain {

inline constexpr std::size_t kLine = 64;

namespace lines {
namespace portable {
struct Vector {
  unsigned char bytes[16];
};
inline Vector load(const unsigned char* from) noexcept {
  Vector vector;
  std::memcpy(&vector, from, sizeof vector);
  return vector;
}
inline void store(unsigned char* to, const Vector& vector) noexcept { std::memcpy(to, &vector, sizeof vector); }
inline void stream(unsigned char* to, const Vector& vector) noexcept {
#if defined(DRIVETRAIN_STREAMS)
  _mm_stream_si128(reinterpret_cast<__m128i*>(to), _mm_loadu_si128(reinterpret_cast<const __m128i*>(&vector)));
#else
  store(to, vector);
#endif
}
#define DRIVETRAIN_KERNEL
#include "drivetrain/line_copy.inl"
#undef DRIVETRAIN_KERNEL
}  // namespace portable

#if defined(DRIVETRAIN_TARGET) && !defined(DRIVETRAIN_EMULATE_SIMD)
#define DRIVETRAIN_WIDE_LINES 1
namespace avx2 {
#define DRIVETRAIN_KERNEL DRIVETRAIN_TARGET("avx2")
using Vector = __m256i;
DRIVETRAIN_KERNEL inline Vector load(const unsigned char* from) noexcept {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}
DRIVETRAIN_KERNEL inline void store(unsigned char* to, Vector vector) noexcept {
  _mm256_store_si256(reinterpret_cast<__m256i*>(to), vector);
}
DRIVETRAIN_KERNEL inline void stream(unsigned char* to, Vector vector) noexcept {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to), vector);
}
#include "drivetrain/line_copy.inl"
#undef DRIVETRAIN_KERNEL
}  // namespace avx2
#endif
}  // namespace lines

/// Copies `num_lines` lines of each of `num` pieces, to where lines begin. past_caches: lines are not read before they
/// are written, and left in no cache, where the processor can; order_streams() says when they are to be seen.
template <bool past_caches, std::size_t num>
inline void copy_lines(unsigned char* const* to, const unsigned char* const* from, std::size_t num_lines,
                       SimdLevel simd) noexcept {
#if defined(DRIVETRAIN_WIDE_LINES)
  if (simd != SimdLevel::kPortable) return lines::avx2::copy_lines<past_caches, num>(to, from, num_lines);
#endif
  (void)simd;
  lines::portable::copy_lines<past_caches, num>(to, from, num_lines);
}

/// What was streamed before this is seen before what is written after it, and the other way.
inline void order_streams() noexcept {
#if defined(DRIVETRAIN_STREAMS)
  _mm_sfence();
#endif
}

}  // namespace drivetrain
