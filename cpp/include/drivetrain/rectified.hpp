// A layer's product behind rectified linear units, max(z, 0) @ w, with its derivatives, for a batch.
//
// About half of what such units give is zero, and units that are off for a whole batch are common in
// trained networks; what is multiplied by zero is left out. What is kept of a row is a bit per column,
// in masks of 64 columns:
//
//   y  = max(z, 0) @ w         each mask of a row picks the rows of w that it needs
//   dw = max(z, 0)^T @ dy      likewise by column, over the columns of dy that are not all zero
//   dz = (dy @ w^T)(z > 0)     likewise by what is not zero in dy, the slopes of rectified units; where little of z is
//                              above zero one by one
//
// Sums run over the kept terms in ascending order, so equal arguments give equal bits. NaN in z or dy
// is kept; zero times infinity is left out like zero times anything. The derivative at z = 0 is 0.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "drivetrain/simd.hpp"

namespace drivetrain::rectified {

struct Sizes {
  std::size_t rows, num_in, num_out;
};

using Mask = std::uint64_t;
inline constexpr std::size_t kBlock = 64;  // columns of a mask
inline constexpr std::size_t kRoom = 256 * (kBlock + 32);  // numbers of a part of a panel of any instruction set

/// What masks keep of a matrix; NaN always, so that it is seen in the result.
enum class Kept { kPositive, kNonzero };

template <Kept kKept>
constexpr bool is_kept(float number) noexcept {
  return kKept == Kept::kPositive ? !(number <= 0.0f) : number != 0.0f;
}

/// Memory that calls of the same sizes use again; of one thread.
class Workspace {
 public:
  Mask *kept, *used;  // of a matrix, and of its columns
  float *dy, *panel, *product;

  Workspace() = default;
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() { std::free(memory_); }

  /// Makes room for calls of these sizes; false where there is no memory.
  bool reserve(const Sizes& sizes) noexcept {
    const auto up = [](std::size_t n) { return (n + kBlock - 1) / kBlock * kBlock; };
    const std::size_t rows = up(sizes.rows), num_in = up(sizes.num_in), num_out = up(sizes.num_out);
    const std::size_t longer = rows > num_in ? rows : num_in, wider = num_in > num_out ? num_in : num_out;
    const std::size_t num_masks = up(2 * rows * wider / kBlock), num_used = up(2 * num_out / kBlock);
    const std::size_t words = num_masks + num_used + rows * num_out + kBlock + kRoom + longer * wider;
    if (words > num_words_) {
      std::free(memory_);
      memory_ = static_cast<float*>(std::aligned_alloc(64, 4 * words));
      num_words_ = memory_ == nullptr ? 0 : words;
      if (memory_ == nullptr) return false;
    }
    float* next = memory_;
    const auto take = [&next](std::size_t num) { return std::exchange(next, next + num); };
    kept = reinterpret_cast<Mask*>(take(num_masks));
    used = reinterpret_cast<Mask*>(take(num_used));
    dy = take(rows * num_out + kBlock);
    panel = take(kRoom);
    product = take(longer * wider);
    return true;
  }

 private:
  float* memory_ = nullptr;
  std::size_t num_words_ = 0;
};

namespace portable {
constexpr std::size_t kLanes = 4;   // numbers in a vector
constexpr std::size_t kWide = 8;    // vectors that an inner loop sums at a time
constexpr std::size_t kWidest = 8;  // the same, at most, of a loop that needs few registers for anything else
constexpr std::size_t kTile = 8;    // rows and columns that are transposed at a time
#define DRIVETRAIN_KERNEL

/// Which of `num` numbers, 64 at most, are kept; of those from `from` on.
template <Kept kKept>
inline Mask find(const float* numbers, std::size_t num, std::size_t from = 0) noexcept {
  Mask kept = 0;
  for (std::size_t i = from; i < num; ++i) kept |= static_cast<Mask>(is_kept<kKept>(numbers[i])) << i;
  return kept;
}

/// The numbers of those, 64 at most, that are used, one after another; how many. May write a vector beyond them.
inline std::size_t pack(const float* numbers, std::size_t, Mask used, float* packed) noexcept {
  std::size_t count = 0;
  for (; used != 0; used &= used - 1) packed[count++] = numbers[std::countr_zero(used)];
  return count;
}

/// The reverse of that for `num` numbers, with zeros between them. May read a vector beyond them.
inline std::size_t spread(const float* packed, std::size_t num, Mask used, float* numbers) noexcept {
  for (std::size_t i = 0; i < num; ++i) numbers[i] = 0;
  std::size_t count = 0;
  for (; used != 0; used &= used - 1) numbers[std::countr_zero(used)] = packed[count++];
  return count;
}

/// Of kTile by kTile numbers the columns that are used, as rows. May write one more row.
inline void transpose_tile(const float* from, std::size_t from_stride, unsigned used, float* to,
                           std::size_t to_stride) noexcept {
  for (std::size_t i = 0; i < kTile; ++i) {
    if ((used >> i & 1) == 0) continue;
    for (std::size_t row = 0; row < kTile; ++row) to[row] = from[row * from_stride + i];
    to += to_stride;
  }
}

#include "drivetrain/rectified_kernels.inl"
#undef DRIVETRAIN_KERNEL
}  // namespace portable

#if defined(DRIVETRAIN_TARGET)
namespace avx2 {
constexpr std::size_t kLanes = 8;
constexpr std::size_t kWide = 8;
constexpr std::size_t kWidest = 13;
constexpr std::size_t kTile = 8;
#define DRIVETRAIN_KERNEL DRIVETRAIN_TARGET("avx2,fma,popcnt")

/// For each set of lanes the places of those in it, and for each lane how many of the set are before it; a byte each.
struct Orders {
  std::uint64_t places[256], ranks[256];
};
constexpr Orders make_orders() noexcept {
  Orders orders{};
  for (unsigned set = 0; set < 256; ++set) {
    unsigned count = 0;
    for (unsigned lane = 0; lane < 8; ++lane) {
      orders.ranks[set] |= static_cast<std::uint64_t>(count) << 8 * lane;
      if (set >> lane & 1) orders.places[set] |= static_cast<std::uint64_t>(lane) << 8 * count++;
    }
  }
  return orders;
}
inline constexpr Orders kOrders = make_orders();

DRIVETRAIN_KERNEL inline __m256i bytes_as_words(const std::uint64_t& bytes) noexcept {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(&bytes)));
}

template <Kept kKept>
DRIVETRAIN_KERNEL inline Mask find(const float* numbers, std::size_t num) noexcept {
  constexpr int kCompared = kKept == Kept::kPositive ? _CMP_NLE_UQ : _CMP_NEQ_UQ;
  Mask kept = 0;
  std::size_t i = 0;
  for (; i + 8 <= num; i += 8) {
    const __m256 some = _mm256_cmp_ps(_mm256_loadu_ps(numbers + i), _mm256_setzero_ps(), kCompared);
    kept |= static_cast<Mask>(static_cast<unsigned>(_mm256_movemask_ps(some))) << i;
  }
  return kept | portable::find<kKept>(numbers, num, i);
}

DRIVETRAIN_KERNEL inline std::size_t pack(const float* numbers, std::size_t num, Mask used, float* packed) noexcept {
  std::size_t count = 0, i = 0;
  for (; i + 8 <= num; i += 8) {
    const Mask set = used >> i & 0xff;
    _mm256_storeu_ps(packed + count,
                     _mm256_permutevar8x32_ps(_mm256_loadu_ps(numbers + i), bytes_as_words(kOrders.places[set])));
    count += static_cast<std::size_t>(std::popcount(set));
  }
  return i == num ? count : count + portable::pack(numbers + i, num - i, used >> i, packed + count);
}

DRIVETRAIN_KERNEL inline std::size_t spread(const float* packed, std::size_t num, Mask used, float* numbers) noexcept {
  const __m256i bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  std::size_t count = 0, i = 0;
  for (; i + 8 <= num; i += 8) {
    const Mask set = used >> i & 0xff;
    const __m256i in_set = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(static_cast<int>(set)), bits), bits);
    const __m256 some = _mm256_permutevar8x32_ps(_mm256_loadu_ps(packed + count), bytes_as_words(kOrders.ranks[set]));
    _mm256_storeu_ps(numbers + i, _mm256_and_ps(some, _mm256_castsi256_ps(in_set)));
    count += static_cast<std::size_t>(std::popcount(set));
  }
  return i == num ? count : count + portable::spread(packed + count, num - i, used >> i, numbers + i);
}

DRIVETRAIN_KERNEL inline void transpose_tile(const float* from, std::size_t from_stride, unsigned used, float* to,
                                             std::size_t to_stride) noexcept {
  __m256 rows[kTile], pairs[kTile], fours[kTile], columns[kTile];
#pragma GCC unroll 8
  for (std::size_t n = 0; n < kTile; ++n) rows[n] = _mm256_loadu_ps(from + n * from_stride);
#pragma GCC unroll 4
  for (std::size_t n = 0; n < kTile; n += 2) {
    pairs[n] = _mm256_unpacklo_ps(rows[n], rows[n + 1]);
    pairs[n + 1] = _mm256_unpackhi_ps(rows[n], rows[n + 1]);
  }
#pragma GCC unroll 4
  for (std::size_t n = 0; n < kTile; n += 2) {
    const __m256 first = pairs[n / 4 * 4 + n % 4 / 2], second = pairs[n / 4 * 4 + n % 4 / 2 + 2];
    fours[n] = _mm256_shuffle_ps(first, second, 0x44);
    fours[n + 1] = _mm256_shuffle_ps(first, second, 0xee);
  }
#pragma GCC unroll 4
  for (std::size_t n = 0; n < kTile / 2; ++n) {
    columns[n] = _mm256_permute2f128_ps(fours[n], fours[n + 4], 0x20);
    columns[n + 4] = _mm256_permute2f128_ps(fours[n], fours[n + 4], 0x31);
  }
#pragma GCC unroll 8
  for (std::size_t n = 0; n < kTile; ++n) {
    _mm256_storeu_ps(to, columns[n]);
    to += used >> n & 1 ? to_stride : 0;
  }
}

#include "drivetrain/rectified_kernels.inl"
#undef DRIVETRAIN_KERNEL
}  // namespace avx2

namespace avx512 {
constexpr std::size_t kLanes = 16;
constexpr std::size_t kWide = 16;
constexpr std::size_t kWidest = 16;
constexpr std::size_t kTile = 16;
#define DRIVETRAIN_KERNEL DRIVETRAIN_TARGET("avx512f,avx512dq,avx2,fma,popcnt")

template <Kept kKept>
DRIVETRAIN_KERNEL inline Mask find(const float* numbers, std::size_t num) noexcept {
  constexpr int kCompared = kKept == Kept::kPositive ? _CMP_NLE_UQ : _CMP_NEQ_UQ;
  Mask kept = 0;
  std::size_t i = 0;
  for (; i + 16 <= num; i += 16)
    kept |= static_cast<Mask>(_mm512_cmp_ps_mask(_mm512_loadu_ps(numbers + i), _mm512_setzero_ps(), kCompared)) << i;
  return kept | portable::find<kKept>(numbers, num, i);
}

DRIVETRAIN_KERNEL inline std::size_t pack(const float* numbers, std::size_t num, Mask used, float* packed) noexcept {
  std::size_t count = 0, i = 0;
  for (; i + 16 <= num; i += 16) {
    const auto set = static_cast<__mmask16>(used >> i);
    _mm512_storeu_ps(packed + count, _mm512_maskz_compress_ps(set, _mm512_loadu_ps(numbers + i)));
    count += static_cast<std::size_t>(std::popcount(unsigned{set}));
  }
  return i == num ? count : count + portable::pack(numbers + i, num - i, used >> i, packed + count);
}

DRIVETRAIN_KERNEL inline std::size_t spread(const float* packed, std::size_t num, Mask used, float* numbers) noexcept {
  std::size_t count = 0, i = 0;
  for (; i + 16 <= num; i += 16) {
    const auto set = static_cast<__mmask16>(used >> i);
    _mm512_storeu_ps(numbers + i, _mm512_maskz_expand_ps(set, _mm512_loadu_ps(packed + count)));
    count += static_cast<std::size_t>(std::popcount(unsigned{set}));
  }
  return i == num ? count : count + portable::spread(packed + count, num - i, used >> i, numbers + i);
}

DRIVETRAIN_KERNEL inline void transpose_tile(const float* from, std::size_t from_stride, unsigned used, float* to,
                                             std::size_t to_stride) noexcept {
  __m512 rows[16], twos[16], fours[16], columns[16];
#pragma GCC unroll 16
  for (std::size_t n = 0; n < 16; ++n) rows[n] = _mm512_loadu_ps(from + n * from_stride);
#pragma GCC unroll 8
  for (std::size_t n = 0; n < 16; n += 2) {
    twos[n] = _mm512_unpacklo_ps(rows[n], rows[n + 1]);
    twos[n + 1] = _mm512_unpackhi_ps(rows[n], rows[n + 1]);
  }
#pragma GCC unroll 8
  for (std::size_t n = 0; n < 16; n += 2) {  // fours[4g + c]: of rows 4g to 4g + 3 the columns c, c + 4, c + 8, c + 12
    const __m512d first = _mm512_castps_pd(twos[n / 4 * 4 + n % 4 / 2]);
    const __m512d second = _mm512_castps_pd(twos[n / 4 * 4 + n % 4 / 2 + 2]);
    fours[n] = _mm512_castpd_ps(_mm512_unpacklo_pd(first, second));
    fours[n + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(first, second));
  }
#pragma GCC unroll 4
  for (std::size_t c = 0; c < 4; ++c) {
    const __m512 early = _mm512_shuffle_f32x4(fours[c], fours[4 + c], 0x44);
    const __m512 late = _mm512_shuffle_f32x4(fours[c], fours[4 + c], 0xee);
    const __m512 early_below = _mm512_shuffle_f32x4(fours[8 + c], fours[12 + c], 0x44);
    const __m512 late_below = _mm512_shuffle_f32x4(fours[8 + c], fours[12 + c], 0xee);
    columns[c] = _mm512_shuffle_f32x4(early, early_below, 0x88);
    columns[c + 4] = _mm512_shuffle_f32x4(early, early_below, 0xdd);
    columns[c + 8] = _mm512_shuffle_f32x4(late, late_below, 0x88);
    columns[c + 12] = _mm512_shuffle_f32x4(late, late_below, 0xdd);
  }
#pragma GCC unroll 16
  for (std::size_t n = 0; n < 16; ++n) {
    _mm512_storeu_ps(to, columns[n]);
    to += used >> n & 1 ? to_stride : 0;
  }
}

#include "drivetrain/rectified_kernels.inl"
#undef DRIVETRAIN_KERNEL
}  // namespace avx512
#endif

/// y [rows, num_out] = max(z [rows, num_in], 0) @ w [num_in, num_out].
inline void product(const Sizes& sizes, const float* z, const float* w, float* y, Workspace& work,
                    SimdLevel simd) noexcept {
  DRIVETRAIN_BY_LEVEL(simd, product(sizes, z, w, y, work));
}

/// dw of product() for dy.
inline void weight_slopes(const Sizes& sizes, const float* z, const float* dy, float* dw,
                          Workspace& work, SimdLevel simd) noexcept {
  DRIVETRAIN_BY_LEVEL(simd, weight_slopes(sizes, z, dy, dw, work));
}

/// dz of product() for dy.
inline void input_slopes(const Sizes& sizes, const float* z, const float* w, const float* dy,
                         float* dz, Workspace& work, SimdLevel simd) noexcept {
  DRIVETRAIN_BY_LEVEL(simd, input_slopes(sizes, z, w, dy, dz, work));
}

/// y [num_out] = bias + x [num_in] @ w, or max(x, 0) @ w behind rectified units: one row, weights as they lie.
inline void affine(const float* x, bool is_rectified, std::size_t num_in, const float* w, const float* bias,
                   std::size_t num_out, float* y, SimdLevel simd) noexcept {
  DRIVETRAIN_BY_LEVEL(simd, affine(x, is_rectified, num_in, w, bias, num_out, y));
}

}  // namespace drivetrain::rectified
