// A layer's product of factors that are rounded to bfloat16, with sums in float32, and its derivatives, for a batch.
//
//   y  = r(x) @ r(w)           dw = r(x)^T @ r(dy)           dx = r(dy) @ r(w)^T
//
// where r(x) is r(max(x, 0)) behind rectified units, and dx zero where x is not above zero. Rounded to the nearest,
// ties to even; NaN stays NaN. By the tiles of processors that have them (Intel's AMX), where numbers smaller than
// 2^-126 count as zero; the portable loops are there to be compared with.
//
// Both factors are rounded into tiles first, as these instructions want them, each word two numbers that are summed up
// one after the other; what is beyond a matrix is zero.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "drivetrain/rectified.hpp"
#include "drivetrain/simd.hpp"

#if defined(__x86_64__) && !defined(DRIVETRAIN_EMULATE_SIMD)
#define DRIVETRAIN_TILES
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace drivetrain::rounded {

using rectified::Sizes;
using Word = std::uint32_t;
inline constexpr std::size_t kTile = 16;                // rows or columns of a tile
inline constexpr std::size_t kDepth = 32;               // numbers of it that are summed up
inline constexpr std::size_t kWords = kTile * kDepth / 2;

inline constexpr std::size_t num_tiles(std::size_t size, std::size_t of) noexcept { return (size + of - 1) / of; }

/// Memory that calls of the same sizes use again; of one thread.
class Workspace {
 public:
  Word *left, *right;

  Workspace() = default;
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() { std::free(memory_); }

  /// Makes room for calls of these sizes; false where there is no memory.
  bool reserve(const Sizes& sizes) noexcept {
    const auto up = [](std::size_t n) { return num_tiles(n, kDepth) * kDepth; };
    const std::size_t rows = up(sizes.rows), num_in = up(sizes.num_in), num_out = up(sizes.num_out);
    // Either factor may be any of the three matrices; each word holds two numbers.
    const std::size_t most = std::max({rows * num_in, rows * num_out, num_in * num_out}) / 2;
    if (2 * most > num_words_) {
      std::free(memory_);
      memory_ = static_cast<Word*>(std::aligned_alloc(64, 2 * most * sizeof(Word)));
      num_words_ = memory_ == nullptr ? 0 : 2 * most;
      if (memory_ == nullptr) return false;
    }
    left = memory_;
    right = memory_ + most;
    return true;
  }

 private:
  Word* memory_ = nullptr;
  std::size_t num_words_ = 0;
};

/// to[n] is zero where z[n] is not above zero; NaN of z counts as above.
inline void switch_off(const float* z, std::size_t num, float* to) noexcept {
  for (std::size_t n = 0; n < num; ++n) to[n] = z[n] <= 0.0f ? 0.0f : to[n];
}

namespace portable {
#define DRIVETRAIN_KERNEL

struct Session {
  Session() noexcept {}
};

inline float number_of(Word half) noexcept { return std::bit_cast<float>(half << 16); }

/// The nearest bfloat16, of max(number, 0) behind rectified units.
template <bool kRectified>
inline Word rounded(float number) noexcept {
  const auto bits = std::bit_cast<Word>(number);
  if (number != number) return bits >> 16 | 0x40;
  if (kRectified && number <= 0) return 0;
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

/// Of `num` numbers, and zeros behind them, kTile words of two each.
template <bool kRectified>
inline void round_along(const float* numbers, std::size_t num, Word* words) noexcept {
  const auto half = [&](std::size_t n) { return n < num ? rounded<kRectified>(numbers[n]) : 0; };
  for (std::size_t n = 0; n < kTile; ++n) words[n] = half(2 * n) | half(2 * n + 1) << 16;
}

/// Of `num_first` and `num_second` numbers, and zeros behind them, kTile words of one of each.
template <bool kRectified>
inline void round_across(const float* first, std::size_t num_first, const float* second, std::size_t num_second,
                         Word* words) noexcept {
  for (std::size_t n = 0; n < kTile; ++n) {
    const Word low = n < num_first ? rounded<kRectified>(first[n]) : 0;
    const Word high = n < num_second ? rounded<kRectified>(second[n]) : 0;
    words[n] = low | high << 16;
  }
}

/// Exchanges rows and columns of a tile.
inline void turn(Word* tile) noexcept {
  for (std::size_t row = 0; row < kTile; ++row)
    for (std::size_t column = 0; column < row; ++column)
      std::swap(tile[row * kTile + column], tile[column * kTile + row]);
}

/// out, of rows that lie `stride` apart: the products of one or two tiles of the left factor, one below the other, and
/// of the right one, one beside the other, summed over `depth` of them.
inline void add_tiles(const Word* left, bool two_down, const Word* right, bool two_across, std::size_t depth,
                      float* out, std::size_t stride) noexcept {
  for (std::size_t row = 0; row < (two_down ? 2 : 1) * kTile; ++row)
    for (std::size_t column = 0; column < (two_across ? 2 : 1) * kTile; ++column) {
      const Word* a = left + row / kTile * depth * kWords + row % kTile * kTile;
      const Word* b = right + column / kTile * depth * kWords + column % kTile;
      float sum = 0;
      for (std::size_t n = 0; n < depth; ++n, a += kWords, b += kWords)
        for (std::size_t word = 0; word < kTile; ++word) {
          const Word ours = a[word], theirs = b[word * kTile];
          sum += number_of(ours & 0xffff) * number_of(theirs & 0xffff);
          sum += number_of(ours >> 16) * number_of(theirs >> 16);
        }
      out[row * stride + column] = sum;
    }
}

#include "drivetrain/rounded_kernels.inl"
#undef DRIVETRAIN_KERNEL
}  // namespace portable

#if defined(DRIVETRAIN_TILES)
namespace tiles {
#define DRIVETRAIN_TILES_TARGET \
  DRIVETRAIN_TARGET("avx512f,avx512dq,avx512bw,avx512vl,avx512bf16,amx-tile,amx-bf16,avx2,fma,popcnt")
#define DRIVETRAIN_KERNEL DRIVETRAIN_TILES_TARGET

/// Eight tiles of sixteen rows of 64 bytes, as the instruction reads it.
struct alignas(64) Shapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
inline constexpr Shapes kShapes{};

/// Such tiles in this thread, as long as it lives: so long the system saves them when another thread takes its place.
struct Session {
  DRIVETRAIN_KERNEL Session() noexcept {
    _tile_loadconfig(&kShapes);
    asm volatile("" ::: "memory");  // what tiles load has been written: gcc's _tile_loadd does not say that it reads
  }
  DRIVETRAIN_KERNEL ~Session() { _tile_release(); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
};

template <bool kRectified>
DRIVETRAIN_KERNEL inline __m512 read(const float* numbers, std::size_t num) noexcept {
  const auto some = static_cast<__mmask16>(num >= kTile ? 0xffff : (1u << num) - 1);
  const __m512 vector = _mm512_maskz_loadu_ps(some, numbers);
  return kRectified ? _mm512_max_ps(_mm512_setzero_ps(), vector) : vector;  // gives the second of two if one is NaN
}

template <bool kRectified>
DRIVETRAIN_KERNEL inline void round_along(const float* numbers, std::size_t num, Word* words) noexcept {
  const __m512 first = read<kRectified>(numbers, num);
  const __m512 second = read<kRectified>(numbers + kTile, num > kTile ? num - kTile : 0);
  _mm512_store_si512(words, (__m512i)_mm512_cvtne2ps_pbh(second, first));
}

template <bool kRectified>
DRIVETRAIN_KERNEL inline void round_across(const float* first, std::size_t num_first, const float* second,
                                           std::size_t num_second, Word* words) noexcept {
  const __m512i places = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                          21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const __m512 above = read<kRectified>(first, num_first), below = read<kRectified>(second, num_second);
  _mm512_store_si512(words, _mm512_permutexvar_epi16(places, (__m512i)_mm512_cvtne2ps_pbh(below, above)));
}

DRIVETRAIN_KERNEL inline void turn(Word* tile) noexcept {
  auto* const numbers = reinterpret_cast<float*>(tile);  // moved as they are; all are read before one is written
  rectified::avx512::transpose_tile(numbers, kTile, 0xffff, numbers, kTile);
}

/// Sums are in tiles 0 to 3, factors in 4 and 5 from the left, 6 and 7 from the right.
template <bool kTwoDown, bool kTwoAcross>
DRIVETRAIN_KERNEL inline void add_some(const Word* left, const Word* right, std::size_t depth, float* out,
                                       std::size_t stride) noexcept {
  const std::size_t panel = depth * kWords, bytes = stride * sizeof(float);
  _tile_zero(0);
  if (kTwoAcross) _tile_zero(1);
  if (kTwoDown) _tile_zero(2);
  if (kTwoDown && kTwoAcross) _tile_zero(3);
  for (std::size_t n = 0; n < depth; ++n, left += kWords, right += kWords) {
    _tile_loadd(4, left, 64);
    _tile_loadd(6, right, 64);
    _tile_dpbf16ps(0, 4, 6);
    if (kTwoAcross) {
      _tile_loadd(7, right + panel, 64);
      _tile_dpbf16ps(1, 4, 7);
    }
    if (kTwoDown) {
      _tile_loadd(5, left + panel, 64);
      _tile_dpbf16ps(2, 5, 6);
    }
    if (kTwoDown && kTwoAcross) _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, out, bytes);
  if (kTwoAcross) _tile_stored(1, out + kTile, bytes);
  if (kTwoDown) _tile_stored(2, out + kTile * stride, bytes);
  if (kTwoDown && kTwoAcross) _tile_stored(3, out + kTile * stride + kTile, bytes);
}

DRIVETRAIN_KERNEL inline void add_tiles(const Word* left, bool two_down, const Word* right, bool two_across,
                                        std::size_t depth, float* out, std::size_t stride) noexcept {
  if (two_down) return two_across ? add_some<true, true>(left, right, depth, out, stride)
                                  : add_some<true, false>(left, right, depth, out, stride);
  return two_across ? add_some<false, true>(left, right, depth, out, stride)
                    : add_some<false, false>(left, right, depth, out, stride);
}

#include "drivetrain/rounded_kernels.inl"
#undef DRIVETRAIN_KERNEL

/// Whether the processor has what is used here, and the system saves it for this process from now on.
inline bool are_permitted() noexcept {
  constexpr unsigned kTiles = 1u << 24, kTilesOfHalves = 1u << 22, kHalves = 1u << 5;
  constexpr long kPermit = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILE_DATA
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kTiles) == 0 || (d & kTilesOfHalves) == 0) return false;
  if (__get_cpuid_count(7, 1, &a, &b, &c, &d) == 0 || (a & kHalves) == 0) return false;
  return syscall(SYS_arch_prctl, kPermit, kTileData) == 0;
}
}  // namespace tiles
#endif

/// Whether this process may multiply by tiles; asked once. Not where DRIVETRAIN_SIMD asks for other instructions.
inline bool has_tiles() noexcept {
#if defined(DRIVETRAIN_TILES)
  static const bool has = wanted_simd() == nullptr && cpu_supports(SimdLevel::kAvx512) && tiles::are_permitted();
  return has;
#else
  return false;
#endif
}

/// By what products are multiplied.
enum class By { kLoops, kTiles };

#if defined(DRIVETRAIN_TILES)
#define DRIVETRAIN_ROUNDED(by, call)          \
  if (by == By::kTiles) return tiles::call; \
  return portable::call
#else
#define DRIVETRAIN_ROUNDED(by, call) \
  (void)by;                        \
  return portable::call
#endif

/// y [rows, num_out] of x [rows, num_in] and w [num_in, num_out], x behind rectified units or not.
inline void product(const Sizes& sizes, bool rectified, const float* x, const float* w, float* y, Workspace& work,
                    By by) noexcept {
  DRIVETRAIN_ROUNDED(by, product(sizes, rectified, x, w, y, work));
}

/// dw of product() for dy.
inline void weight_slopes(const Sizes& sizes, bool rectified, const float* x, const float* dy, float* dw,
                          Workspace& work, By by) noexcept {
  DRIVETRAIN_ROUNDED(by, weight_slopes(sizes, rectified, x, dy, dw, work));
}

/// dx of product() for dy.
inline void input_slopes(const Sizes& sizes, bool rectified, const float* x, const float* w, const float* dy, float* dx,
                         Workspace& work, By by) noexcept {
  DRIVETRAIN_ROUNDED(by, input_slopes(sizes, rectified, x, w, dy, dx, work));
}

}  // namespace drivetrain::rounded
