// A convolution without padding, with its derivatives, for images of bytes and behind rectified linear units.
//
//   y [out_height, out_width, num_out] = bias + sum over the taps of x [height, width, channels] * w
//
// No patches are gathered: the taps of a row of the kernel lie side by side in an image whose channels come last.
// What is multiplied by zero is left out (rectified.hpp says what that means for NaN and infinity):
//
//   y    behind units    a list of each row's positive numbers; an output takes the rows of w that its part names
//   y    of bytes        less the most common byte of the image, which a constant makes up for: taps at which it is
//                        seen by some neighbouring outputs, which are computed together, are left out
//   dw   a list of dy's numbers for each output channel; each takes the taps that it saw, a run of x
//   dx   a list of dy's numbers for each output; each takes a row of w's transpose
//
// In games most of it is zero: pictures have one background, and of trained units a third is on or fewer
// (design/training-convolutions.md). Sums run over the kept terms in a fixed order, image by image.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "drivetrain/bounds.hpp"
#include "drivetrain/rectified.hpp"

namespace drivetrain::convolution {

using rectified::Kept;

/// A layer; `side` and `stride` are those of its square kernel.
struct Layer {
  std::size_t height, width, channels, side, stride, num_out;

  std::size_t out_height() const noexcept { return (height - side) / stride + 1; }
  std::size_t out_width() const noexcept { return (width - side) / stride + 1; }
  std::size_t size() const noexcept { return height * width * channels; }
  std::size_t outputs() const noexcept { return out_height() * out_width(); }
  std::size_t out_size() const noexcept { return outputs() * num_out; }
  std::size_t run() const noexcept { return side * channels; }  // taps side by side
  std::size_t row() const noexcept { return width * channels; }
  std::size_t taps() const noexcept { return side * run(); }

  static constexpr std::size_t kMost = std::size_t{1} << 31;  // so that places are 32 bits

  /// Whether it is one that the loops can do: a kernel within the image, whole vectors of outputs, and of channels, too,
  /// behind units.
  bool fits(bool of_bytes) const noexcept {
    return stride > 0 && side > 0 && channels > 0 && height >= side && width >= side && num_out > 0 &&
           num_out % 16 == 0 && (of_bytes || channels % 16 == 0) && size() < kMost && out_size() < kMost &&
           row() * num_out < kMost && taps() * num_out < kMost;
  }
};

/// Memory that calls use again, of one thread; cut up by each.
class Workspace {
 public:
  Workspace() = default;
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() { std::free(memory_); }

  /// Makes room for `num` words of four bytes and begins at the first; false where there is no memory.
  bool reserve(std::size_t num) noexcept {
    if (num > num_words_) {
      std::free(memory_);
      memory_ = static_cast<float*>(std::aligned_alloc(64, (4 * num + 63) / 64 * 64));
      num_words_ = memory_ == nullptr ? 0 : num;
    }
    next_ = memory_;
    return memory_ != nullptr;
  }
  /// The next `num` words, on cache lines of their own.
  float* take(std::size_t num) noexcept {
    within(static_cast<std::size_t>(next_ - memory_) + room(num), num_words_ + 1);
    return std::exchange(next_, next_ + room(num));
  }
  std::uint32_t* take_places(std::size_t num) noexcept { return reinterpret_cast<std::uint32_t*>(take(num)); }

  /// Words that taking `num` needs, and what loops may read and write behind them.
  static std::size_t room(std::size_t num) noexcept { return (num + 31) / 16 * 16; }

 private:
  float *memory_ = nullptr, *next_ = nullptr;
  std::size_t num_words_ = 0;
};

/// Words that any call for a layer needs.
inline std::size_t words_for(const Layer& layer) noexcept {
  const auto room = [](std::size_t num) { return Workspace::room(num); };
  const std::size_t taps = (layer.side * (layer.run() + 16) + layer.taps()) * layer.num_out;
  return room(layer.size() + 32) * 3 + room(layer.height * (layer.width + 1)) + room(layer.row()) + room(taps) * 2 +
         3 * room(layer.out_size() + 32 * layer.num_out) + 2 * room(layer.outputs() + 32) + 4 * room(layer.num_out) +
         room(layer.height * (layer.row() / 32 + 3));
}

/// The kept numbers of something, each with the place of what it is multiplied by.
struct List {
  std::uint32_t* places;
  float* values;
};

namespace portable {
using rectified::portable::find;
using rectified::portable::kLanes;
using rectified::portable::kTile;
using rectified::portable::kWide;
using rectified::portable::load;
using rectified::portable::padded;
using rectified::portable::store;
using rectified::portable::transpose_tile;
using rectified::portable::Vector;
using rectified::portable::with_vectors;
#define DRIVETRAIN_KERNEL

/// Those of `num` numbers that are kept, with their places; how many. May write a vector beyond them.
template <Kept kKept>
inline std::size_t list_kept(const float* numbers, const std::uint32_t* places, std::size_t num, List to) noexcept {
  std::size_t count = 0;
  for (std::size_t i = 0; i < num; ++i) {
    to.places[count] = places[i];
    to.values[count] = numbers[i];
    count += rectified::is_kept<kKept>(numbers[i]) ? 1 : 0;
  }
  return count;
}

/// Numbers of four planes of bytes side by side, less one of them, for as many of the pixels as go by vectors; how many.
inline std::size_t put_four_side_by_side(const std::uint8_t*, std::size_t, float, float*) noexcept { return 0; }

#include "drivetrain/convolution_kernels.inl"
#undef DRIVETRAIN_KERNEL
}  // namespace portable

#if defined(DRIVETRAIN_TARGET)
namespace avx2 {
using rectified::avx2::bytes_as_words;
using rectified::avx2::find;
using rectified::avx2::kLanes;
using rectified::avx2::kOrders;
using rectified::avx2::kTile;
using rectified::avx2::kWide;
using rectified::avx2::load;
using rectified::avx2::padded;
using rectified::avx2::store;
using rectified::avx2::transpose_tile;
using rectified::avx2::Vector;
using rectified::avx2::with_vectors;
#define DRIVETRAIN_KERNEL DRIVETRAIN_TARGET("avx2,fma,popcnt")

template <Kept kKept>
DRIVETRAIN_KERNEL inline std::size_t list_kept(const float* numbers, const std::uint32_t* places, std::size_t num,
                                               List to) noexcept {
  constexpr int kCompared = kKept == Kept::kPositive ? _CMP_NLE_UQ : _CMP_NEQ_UQ;
  std::size_t count = 0, i = 0;
  for (; i + 8 <= num; i += 8) {
    const __m256 some = _mm256_loadu_ps(numbers + i);
    const auto set = static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(some, _mm256_setzero_ps(), kCompared)));
    const __m256i order = bytes_as_words(kOrders.places[set]);
    const __m256i where = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(places + i));
    _mm256_storeu_ps(to.values + count, _mm256_permutevar8x32_ps(some, order));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to.places + count), _mm256_permutevar8x32_epi32(where, order));
    count += static_cast<std::size_t>(std::popcount(set));
  }
  if (i == num) return count;
  return count + portable::list_kept<kKept>(numbers + i, places + i, num - i, {to.places + count, to.values + count});
}

DRIVETRAIN_KERNEL inline std::size_t put_four_side_by_side(const std::uint8_t* bytes, std::size_t plane, float less,
                                                           float* numbers) noexcept {
  std::size_t i = 0;
  for (; i + 16 <= plane; i += 16) {
    const auto of = [&](std::size_t c) DRIVETRAIN_KERNEL {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + c * plane + i));
    };
    const __m128i low = _mm_unpacklo_epi8(of(0), of(1)), high = _mm_unpackhi_epi8(of(0), of(1));
    const __m128i other_low = _mm_unpacklo_epi8(of(2), of(3)), other_high = _mm_unpackhi_epi8(of(2), of(3));
    const __m128i pixels[] = {_mm_unpacklo_epi16(low, other_low), _mm_unpackhi_epi16(low, other_low),
                              _mm_unpacklo_epi16(high, other_high), _mm_unpackhi_epi16(high, other_high)};
    for (std::size_t n = 0; n < 8; ++n) {
      const __m128i two = n % 2 == 0 ? pixels[n / 2] : _mm_srli_si128(pixels[n / 2], 8);
      _mm256_storeu_ps(numbers + 4 * i + 8 * n,
                       _mm256_sub_ps(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(two)), _mm256_set1_ps(less)));
    }
  }
  return i;
}

#include "drivetrain/convolution_kernels.inl"
#undef DRIVETRAIN_KERNEL
}  // namespace avx2

namespace avx512 {
using avx2::put_four_side_by_side;
using rectified::avx512::find;
using rectified::avx512::kLanes;
using rectified::avx512::kTile;
using rectified::avx512::kWide;
using rectified::avx512::load;
using rectified::avx512::padded;
using rectified::avx512::store;
using rectified::avx512::transpose_tile;
using rectified::avx512::Vector;
using rectified::avx512::with_vectors;
#define DRIVETRAIN_KERNEL DRIVETRAIN_TARGET("avx512f,avx512dq,avx2,fma,popcnt")

template <Kept kKept>
DRIVETRAIN_KERNEL inline std::size_t list_kept(const float* numbers, const std::uint32_t* places, std::size_t num,
                                               List to) noexcept {
  constexpr int kCompared = kKept == Kept::kPositive ? _CMP_NLE_UQ : _CMP_NEQ_UQ;
  std::size_t count = 0, i = 0;
  for (; i + 16 <= num; i += 16) {
    const __m512 some = _mm512_loadu_ps(numbers + i);
    const __mmask16 set = _mm512_cmp_ps_mask(some, _mm512_setzero_ps(), kCompared);
    _mm512_storeu_ps(to.values + count, _mm512_maskz_compress_ps(set, some));
    _mm512_storeu_si512(to.places + count, _mm512_maskz_compress_epi32(set, _mm512_loadu_si512(places + i)));
    count += static_cast<std::size_t>(std::popcount(unsigned{set}));
  }
  if (i == num) return count;
  return count + portable::list_kept<kKept>(numbers + i, places + i, num - i, {to.places + count, to.values + count});
}

#include "drivetrain/convolution_kernels.inl"
#undef DRIVETRAIN_KERNEL
}  // namespace avx512
#endif

/// y [num, ...] of z [num, height, width, channels], numbers before rectified units.
inline void forward(const Layer& layer, std::size_t num, const float* z, const float* w, const float* bias, float* y,
                    Workspace& work, SimdLevel simd) noexcept {
  DRIVETRAIN_BY_LEVEL(simd, forward(layer, num, z, w, bias, y, work));
}

/// y [num, ...] of bytes / 255 [num, channels, height, width].
inline void forward(const Layer& layer, std::size_t num, const std::uint8_t* bytes, const float* w, const float* bias,
                    float* y, Workspace& work, SimdLevel simd) noexcept {
  DRIVETRAIN_BY_LEVEL(simd, forward(layer, num, bytes, w, bias, y, work));
}

/// dw and dbias of forward() for dy; of numbers before units, or of bytes.
template <class Number>
inline void weight_slopes(const Layer& layer, std::size_t num, const Number* x, const float* dy, float* dw, float* dbias,
                          Workspace& work, SimdLevel simd) noexcept {
  DRIVETRAIN_BY_LEVEL(simd, weight_slopes(layer, num, x, dy, dw, dbias, work));
}

/// dz of forward() for dy; zero where a unit is off.
inline void input_slopes(const Layer& layer, std::size_t num, const float* z, const float* w, const float* dy, float* dz,
                         Workspace& work, SimdLevel simd) noexcept {
  DRIVETRAIN_BY_LEVEL(simd, input_slopes(layer, num, z, w, dy, dz, work));
}

}  // namespace drivetrain::convolution
