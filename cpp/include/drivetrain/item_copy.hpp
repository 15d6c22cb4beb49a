// Items of 17 to 128 bytes between rows and arrays, by a constant number of moves as wide as the CPU has.
//
//   17 floats by AVX-512     0 |--------------- 64 bytes ---------------|
//                                                     52 |-- 16 bytes ---| 68
//
// The number of 16-byte blocks that begin within an item, less one, is a template argument. Functions of their own: so
// many copies of a loop in one place are not inlined any more, nor is what is around them. Others may be writing what
// is read here, as shared_copy.hpp says.
#pragma once

#include <cstddef>
#include <type_traits>

#include "drivetrain/shared_copy.hpp"
#include "drivetrain/simd.hpp"

namespace drivetrain {

// out[i] = the item at `offset` of rows[i]; and the other way. For each variant under its own target attribute.
#define DRIVETRAIN_DEFINE_ITEMS(get, put, ...)                                                                  \
  template <std::size_t blocks>                                                                                 \
  [[gnu::noinline]] __VA_ARGS__ void get_blocks(unsigned char* out, std::size_t nbytes,                         \
                                                const unsigned char* const* rows, std::size_t offset,           \
                                                std::size_t num) noexcept {                                     \
    _Pragma("GCC unroll 4") for (std::size_t i = 0; i < num; ++i)                                               \
        get<blocks>(out + i * nbytes, rows[i] + offset, nbytes);                                                \
  }                                                                                                             \
  template <std::size_t blocks>                                                                                 \
  [[gnu::noinline]] __VA_ARGS__ void put_blocks(unsigned char* const* rows, std::size_t offset,                 \
                                                std::size_t nbytes, std::size_t num,                            \
                                                const unsigned char* items) noexcept {                          \
    for (std::size_t i = 0; i < num; ++i) put<blocks>(rows[i] + offset, items + i * nbytes, nbytes);            \
  }

namespace portable {
DRIVETRAIN_DEFINE_ITEMS(copy_blocks_from_shared, copy_blocks_to_shared, )
}  // namespace portable

#if defined(DRIVETRAIN_TARGET) && !defined(DRIVETRAIN_TSAN) && !defined(DRIVETRAIN_EMULATE_SIMD)
#define DRIVETRAIN_WIDE_ITEMS

namespace avx2 {
DRIVETRAIN_AVX2 inline void move_16(unsigned char* to, const unsigned char* from) noexcept {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
DRIVETRAIN_AVX2 inline void move_32(unsigned char* to, const unsigned char* from) noexcept {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

template <std::size_t blocks>
DRIVETRAIN_AVX2 inline void copy_blocks(unsigned char* to, const unsigned char* from, std::size_t nbytes) noexcept {
  if constexpr (blocks == 1) move_16(to, from);
#pragma GCC unroll 4
  for (std::size_t i = 0; i < blocks / 2; ++i) move_32(to + 32 * i, from + 32 * i);
  if constexpr (blocks % 2 == 0 || blocks == 1)
    move_16(to + nbytes - 16, from + nbytes - 16);
  else
    move_32(to + nbytes - 32, from + nbytes - 32);
}
DRIVETRAIN_DEFINE_ITEMS(copy_blocks, copy_blocks, DRIVETRAIN_AVX2)
}  // namespace avx2

namespace avx512 {
DRIVETRAIN_AVX512 inline void move_64(unsigned char* to, const unsigned char* from) noexcept {
  _mm512_storeu_si512(to, _mm512_loadu_si512(from));
}

template <std::size_t blocks>
DRIVETRAIN_AVX512 inline void copy_blocks(unsigned char* to, const unsigned char* from, std::size_t nbytes) noexcept {
  if constexpr (blocks < 4) {
    avx2::copy_blocks<blocks>(to, from, nbytes);
  } else {
    static_assert(blocks < 8);
    move_64(to, from);
    if constexpr (blocks == 4)
      avx2::move_16(to + nbytes - 16, from + nbytes - 16);
    else if constexpr (blocks == 5)
      avx2::move_32(to + nbytes - 32, from + nbytes - 32);
    else
      move_64(to + nbytes - 64, from + nbytes - 64);
  }
}
DRIVETRAIN_DEFINE_ITEMS(copy_blocks, copy_blocks, DRIVETRAIN_AVX512)
}  // namespace avx512
#endif
#undef DRIVETRAIN_DEFINE_ITEMS

/// Calls work<blocks>() for the number of blocks; false for sizes that are not between 17 and 128, and for 32.
template <class Work>
inline bool with_blocks(std::size_t nbytes, Work&& work) noexcept {
  if (nbytes == 32) return false;
  switch ((nbytes - 1) / 16) {
    case 1: return work(std::integral_constant<std::size_t, 1>{}), true;
    case 2: return work(std::integral_constant<std::size_t, 2>{}), true;
    case 3: return work(std::integral_constant<std::size_t, 3>{}), true;
    case 4: return work(std::integral_constant<std::size_t, 4>{}), true;
    case 5: return work(std::integral_constant<std::size_t, 5>{}), true;
    case 6: return work(std::integral_constant<std::size_t, 6>{}), true;
    case 7: return work(std::integral_constant<std::size_t, 7>{}), true;
    default: return false;
  }
}

template <std::size_t blocks>
inline void get_blocks(unsigned char* out, std::size_t nbytes, const unsigned char* const* rows, std::size_t offset,
                       std::size_t num) noexcept {
#if defined(DRIVETRAIN_WIDE_ITEMS)
  DRIVETRAIN_BY_LEVEL(best_simd_level(), get_blocks<blocks>(out, nbytes, rows, offset, num));
#else
  portable::get_blocks<blocks>(out, nbytes, rows, offset, num);
#endif
}
template <std::size_t blocks>
inline void put_blocks(unsigned char* const* rows, std::size_t offset, std::size_t nbytes, std::size_t num,
                       const unsigned char* items) noexcept {
#if defined(DRIVETRAIN_WIDE_ITEMS)
  DRIVETRAIN_BY_LEVEL(best_simd_level(), put_blocks<blocks>(rows, offset, nbytes, num, items));
#else
  portable::put_blocks<blocks>(rows, offset, nbytes, num, items);
#endif
}

}  // namespace drivetrain
