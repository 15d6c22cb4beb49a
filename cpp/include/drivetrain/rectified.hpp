// A layer's product behind rectified linear units, max(z, 0) @ w, with its derivatives, for a batch.
//
// About half of what such units give is zero, and units that are off for a whole batch are common in
// trained networks; what is multiplied by zero is left out. Rows of max(z, 0) become lists of what is
// above zero, in blocks of kBlock columns:
//
//   y  = max(z, 0) @ w         each list of a row picks the rows of w that it needs
//   dw = max(z, 0)^T @ dy      likewise by column, over the columns of dy that are not all zero
//   dz = (dy @ w^T)(z > 0)     likewise by what is not zero in dy, the slopes of rectified units
//
// Sums run over the kept terms in ascending order, so equal arguments give equal bits. NaN in z or dy
// is kept; zero times infinity is left out like zero times anything. The derivative at z = 0 is 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "drivetrain/simd.hpp"

namespace drivetrain::rectified {

inline constexpr std::size_t kBlock = 64;  // columns that one list covers: 16 KiB of a panel with AVX2, 32 with AVX-512
inline constexpr std::size_t kWide = 8;    // vectors that an inner loop sums at a time
inline constexpr std::size_t kGroup = 8;   // columns that are packed, spread or transposed at a time

struct Sizes {
  std::size_t rows, num_in, num_out;
};

/// What lists hold of a matrix; NaN always, so that it is seen in the result.
enum class Kept { kPositive, kNonzero };

/// What is kept of a matrix: of block b and row r count[b * rows + r] values and their places in the
/// block, in ascending order, from (b * rows + r) * kBlock on.
struct Lists {
  float* values;
  std::uint32_t* places;
  std::uint32_t* counts;
};

/// Columns of a matrix that are worked on.
struct Columns {
  std::uint32_t* used;    // all bits set for those, 0 for others
  std::uint32_t* starts;  // of a group of kGroup columns: where those of it lie among all that are used
  std::uint32_t* places;  // of a column: where it lies among those of its group
  std::size_t num;
};

/// Memory that calls of the same sizes use again; of one thread.
class Workspace {
 public:
  Lists lists;
  Columns columns;
  float *dy, *panels, *product, *transposed;

  Workspace() = default;
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() { std::free(memory_); }

  /// Makes room for calls of these sizes; false where there is no memory.
  bool reserve(const Sizes& sizes) noexcept {
    const auto up = [](std::size_t n) { return (n + kBlock - 1) / kBlock * kBlock; };
    const std::size_t rows = up(sizes.rows), num_in = up(sizes.num_in), num_out = up(sizes.num_out);
    const std::size_t longer = rows > num_in ? rows : num_in, wider = num_in > num_out ? num_in : num_out;
    const std::size_t counts = up(rows * wider / kBlock), kept = rows * wider + kBlock;
    const std::size_t words =
        2 * kept + counts + (rows + longer) * num_out + longer * wider + rows * num_in + 3 * num_out + kBlock;
    if (words > num_words_) {
      std::free(memory_);
      memory_ = static_cast<float*>(std::aligned_alloc(64, 4 * words));
      num_words_ = memory_ == nullptr ? 0 : words;
      if (memory_ == nullptr) return false;
    }
    float* next = memory_;
    const auto take = [&next](std::size_t num) { return std::exchange(next, next + num); };
    const auto take_places = [&](std::size_t num) { return reinterpret_cast<std::uint32_t*>(take(num)); };
    lists = {take(kept), take_places(kept), take_places(counts)};
    dy = take(rows * num_out + kBlock);
    panels = take(longer * num_out);
    product = take(longer * wider);
    transposed = take(rows * num_in);
    columns = {take_places(num_out), take_places(num_out), take_places(num_out), 0};
    return true;
  }

 private:
  float* memory_ = nullptr;
  std::size_t num_words_ = 0;
};

namespace portable {
constexpr std::size_t kLanes = 4;
#define DRIVETRAIN_KERNEL

/// Of `num` numbers those that are kept, and their places; how many there are. May write beyond them, never beyond
/// `num`. Of those before `from` there are `count` already.
template <Kept kKept>
inline std::uint32_t keep(const float* numbers, std::size_t num, float* values, std::uint32_t* places,
                          std::size_t from = 0, std::uint32_t count = 0) noexcept {
  for (std::size_t i = from; i < num; ++i) {
    values[count] = numbers[i];
    places[count] = static_cast<std::uint32_t>(i);
    count += kKept == Kept::kPositive ? !(numbers[i] <= 0.0f) : numbers[i] != 0.0f;
  }
  return count;
}

/// The numbers whose column is used, one after another. May write kGroup beyond them.
inline void pack_row(const float* row, std::size_t width, const Columns& columns, float* packed) noexcept {
  for (std::size_t i = 0; i < width; ++i) packed[columns.starts[i / kGroup] + columns.places[i]] = row[i];
}

/// The columns of a group, zero where they are not used. May read as many numbers.
inline void spread(const float* packed, const std::uint32_t* places, const std::uint32_t* used,
                   float* columns) noexcept {
  for (std::size_t i = 0; i < kGroup; ++i) columns[i] = used[i] == 0 ? 0 : packed[places[i]];
}

/// kGroup by kGroup numbers, transposed.
inline void transpose_tile(const float* from, std::size_t from_stride, float* to, std::size_t to_stride) noexcept {
  for (std::size_t row = 0; row < kGroup; ++row)
    for (std::size_t i = 0; i < kGroup; ++i) to[i * to_stride + row] = from[row * from_stride + i];
}

#include "drivetrain/rectified_kernels.inl"
#undef DRIVETRAIN_KERNEL
}  // namespace portable

#if defined(DRIVETRAIN_TARGET)
namespace avx2 {
constexpr std::size_t kLanes = 8;
#define DRIVETRAIN_KERNEL DRIVETRAIN_TARGET("avx2,fma,popcnt")

/// For each set of lanes the places of those in it, a byte each.
struct Order {
  std::uint64_t of[256];
};
constexpr Order make_order() noexcept {
  Order order{};
  for (unsigned set = 0; set < 256; ++set) {
    unsigned count = 0;
    for (unsigned lane = 0; lane < 8; ++lane)
      if (set >> lane & 1) order.of[set] |= static_cast<std::uint64_t>(lane) << 8 * count++;
  }
  return order;
}
inline constexpr Order kOrder = make_order();

template <Kept kKept>
DRIVETRAIN_KERNEL inline std::uint32_t keep(const float* numbers, std::size_t num, float* values,
                                            std::uint32_t* places) noexcept {
  constexpr int kCompared = kKept == Kept::kPositive ? _CMP_NLE_UQ : _CMP_NEQ_UQ;
  std::uint32_t count = 0;
  std::size_t i = 0;
  for (; i + kGroup <= num; i += kGroup) {
    const __m256 some = _mm256_loadu_ps(numbers + i);
    const auto kept = static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(some, _mm256_setzero_ps(), kCompared)));
    const __m256i order = _mm256_cvtepu8_epi32(
        _mm_loadl_epi64(reinterpret_cast<const __m128i*>(&kOrder.of[kept])));
    _mm256_storeu_ps(values + count, _mm256_permutevar8x32_ps(some, order));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(places + count),
                        _mm256_add_epi32(order, _mm256_set1_epi32(static_cast<int>(i))));
    count += static_cast<std::uint32_t>(__builtin_popcount(kept));
  }
  return portable::keep<kKept>(numbers, num, values, places, i, count);
}

DRIVETRAIN_KERNEL inline void pack_row(const float* row, std::size_t width, const Columns& columns,
                                       float* packed) noexcept {
  std::size_t i = 0;
  for (; i + kGroup <= width; i += kGroup) {
    const auto set = static_cast<unsigned>(
        _mm256_movemask_ps(_mm256_loadu_ps(reinterpret_cast<const float*>(columns.used + i))));
    const __m256i order = _mm256_cvtepu8_epi32(
        _mm_loadl_epi64(reinterpret_cast<const __m128i*>(&kOrder.of[set])));
    _mm256_storeu_ps(packed + columns.starts[i / kGroup],
                     _mm256_permutevar8x32_ps(_mm256_loadu_ps(row + i), order));
  }
  for (; i < width; ++i) packed[columns.starts[i / kGroup] + columns.places[i]] = row[i];
}

DRIVETRAIN_KERNEL inline void spread(const float* packed, const std::uint32_t* places,
                                     const std::uint32_t* used, float* columns) noexcept {
  const __m256i order = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(places));
  const __m256 numbers = _mm256_permutevar8x32_ps(_mm256_loadu_ps(packed), order);
  _mm256_storeu_ps(columns, _mm256_and_ps(numbers, _mm256_loadu_ps(reinterpret_cast<const float*>(used))));
}

DRIVETRAIN_KERNEL inline void transpose_tile(const float* from, std::size_t from_stride, float* to,
                                             std::size_t to_stride) noexcept {
  __m256 rows[kGroup], pairs[kGroup], fours[kGroup];
#pragma GCC unroll 8
  for (std::size_t n = 0; n < kGroup; ++n) rows[n] = _mm256_loadu_ps(from + n * from_stride);
#pragma GCC unroll 4
  for (std::size_t n = 0; n < kGroup; n += 2) {
    pairs[n] = _mm256_unpacklo_ps(rows[n], rows[n + 1]);
    pairs[n + 1] = _mm256_unpackhi_ps(rows[n], rows[n + 1]);
  }
#pragma GCC unroll 4
  for (std::size_t n = 0; n < kGroup; n += 2) {
    const __m256 first = pairs[n / 4 * 4 + n % 4 / 2], second = pairs[n / 4 * 4 + n % 4 / 2 + 2];
    fours[n] = _mm256_shuffle_ps(first, second, 0x44);
    fours[n + 1] = _mm256_shuffle_ps(first, second, 0xee);
  }
#pragma GCC unroll 4
  for (std::size_t n = 0; n < kGroup / 2; ++n) {
    _mm256_storeu_ps(to + n * to_stride, _mm256_permute2f128_ps(fours[n], fours[n + 4], 0x20));
    _mm256_storeu_ps(to + (n + 4) * to_stride, _mm256_permute2f128_ps(fours[n], fours[n + 4], 0x31));
  }
}

#include "drivetrain/rectified_kernels.inl"
#undef DRIVETRAIN_KERNEL
}  // namespace avx2

namespace avx512 {
constexpr std::size_t kLanes = 16;
#define DRIVETRAIN_KERNEL DRIVETRAIN_TARGET("avx512f,avx512dq,avx2,fma,popcnt")

using avx2::keep;  // by 16 it takes twice as long: compressed, nearly every store crosses a cache line
using avx2::pack_row;
using avx2::spread;
using avx2::transpose_tile;

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

/// y [num_out] = bias + values [count] times rows places[n] of w [.., num_out]: one row, its weights as they lie.
inline void affine(const float* values, const std::uint32_t* places, std::size_t count, const float* w,
                   const float* bias, std::size_t num_out, float* y, SimdLevel simd) noexcept {
  DRIVETRAIN_BY_LEVEL(simd, affine(values, places, count, w, bias, num_out, y));
}

/// Of z [num] what is not at or below zero, and its places; how much it is. May write beyond it, never beyond num.
inline std::uint32_t keep_positive(const float* z, std::size_t num, float* values, std::uint32_t* places,
                                   SimdLevel simd) noexcept {
  DRIVETRAIN_BY_LEVEL(simd, keep<Kept::kPositive>(z, num, values, places));
}

}  // namespace drivetrain::rectified
