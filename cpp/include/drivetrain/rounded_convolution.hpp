// A convolution without padding in factors rounded to bfloat16, with its derivatives, for images of bytes and behind
// rectified units: products over patches, as in rounded.hpp, of a few images at a time, which stay in the second cache.
//
//   y [outputs, num_out] = bias + patches [outputs, taps] @ w [taps, num_out]
//
// An image is rounded once, with its channels last, and its numbers copied to where the tiles of the patches have them.
// Bytes are what they are, for which bfloat16 has room, and what comes of them is divided by 255.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <type_traits>

#include "drivetrain/convolution.hpp"
#include "drivetrain/rounded.hpp"

namespace drivetrain::rounded {

using convolution::Layer;

typedef std::uint16_t Half __attribute__((may_alias));  // a bfloat16; two are a word
typedef Word PairOfHalves __attribute__((may_alias));

/// Those of bytes.
inline constexpr auto kHalves = [] {
  std::array<std::uint16_t, 256> halves{};
  for (std::size_t byte = 0; byte < halves.size(); ++byte)
    halves[byte] = static_cast<std::uint16_t>(std::bit_cast<Word>(static_cast<float>(byte)) >> 16);
  return halves;
}();

/// The layer with as many channels, the last of zeros, that a run of taps is whole tiles.
inline Layer widened(const Layer& layer) noexcept {
  const std::size_t whole = kDepth / std::gcd(layer.side, kDepth);
  Layer wide = layer;
  wide.channels = num_tiles(layer.channels, whole) * whole;
  return wide;
}

/// Whether it is a layer that is done so: images of numbers are not widened.
inline bool fits(const Layer& layer, bool of_bytes) noexcept {
  const Layer wide = widened(layer);
  return layer.fits(of_bytes) && (of_bytes ? wide.channels % 2 == 0 : wide.channels == layer.channels);
}

/// Images that are taken together, so that tiles of outputs are nearly all full.
inline std::size_t images_at_once(const Layer& layer) noexcept {
  constexpr std::size_t kOutputs = 256;
  return num_tiles(kOutputs, layer.outputs());
}

/// Room for the numbers of an image, in whole vectors.
inline std::size_t num_halves(const Layer& layer) noexcept { return num_tiles(layer.size(), kDepth) * kDepth; }

/// Memory of one thread for convolutions.
class ConvolutionWorkspace {
 public:
  Half* halves;                     // of some images
  float *weight, *sums, *patches;   // a weight of the wide layer, the sum of some, and slopes of patches
  Word *left, *right;

  /// Makes room for calls for a layer; false where there is no memory.
  bool reserve(const Layer& layer) noexcept {
    const auto room = [](std::size_t num) { return convolution::Workspace::room(num); };
    const Layer wide = widened(layer);
    const std::size_t rows = images_at_once(layer) * layer.outputs(), taps = wide.taps(), num_out = layer.num_out;
    const std::size_t num_words = images_at_once(layer) * num_halves(wide) / 2;
    if (!numbers_.reserve(room(num_words) + 2 * room(taps * num_out) + room(rows * taps)) ||
        !tiles_.reserve({rows, taps, num_out}))
      return false;
    halves = reinterpret_cast<Half*>(numbers_.take(num_words));
    weight = numbers_.take(taps * num_out);
    sums = numbers_.take(taps * num_out);
    patches = numbers_.take(rows * taps);
    left = tiles_.left;
    right = tiles_.right;
    return true;
  }

 private:
  convolution::Workspace numbers_;
  Workspace tiles_;
};

/// What a number of an image counts.
template <class Number>
inline constexpr float kUnit = std::is_same_v<Number, std::uint8_t> ? 1.0f / 255.0f : 1.0f;

/// A weight [side, side, channels, num_out] of the wide layer, with zeros; the same where no channels are added.
inline const float* with_more_channels(const Layer& layer, const Layer& wide, const float* w, float* room) noexcept {
  const std::size_t size = layer.channels * layer.num_out, more = wide.channels * wide.num_out;
  if (size == more) return w;
  for (std::size_t pixel = 0; pixel < layer.side * layer.side; ++pixel) {
    std::copy_n(w + pixel * size, size, room + pixel * more);
    std::fill_n(room + pixel * more + size, more - size, 0.0f);
  }
  return room;
}

/// The reverse.
inline void with_fewer_channels(const Layer& layer, const Layer& wide, const float* dw, float* to) noexcept {
  const std::size_t size = layer.channels * layer.num_out, more = wide.channels * wide.num_out;
  for (std::size_t pixel = 0; pixel < layer.side * layer.side; ++pixel)
    std::copy_n(dw + pixel * more, size, to + pixel * size);
}

namespace portable {
#define DRIVETRAIN_KERNEL

/// The words of kDepth halves one after the other, where there are any; else zeros.
inline void copy_along(const Half* halves, bool there, Word* words) noexcept {
  for (std::size_t n = 0; n < kTile; ++n) words[n] = there ? Word{halves[2 * n]} | Word{halves[2 * n + 1]} << 16 : 0;
}

/// The words of one each of kTile halves twice, likewise.
inline void copy_across(const Half* first, bool first_there, const Half* second, bool second_there,
                        Word* words) noexcept {
  for (std::size_t n = 0; n < kTile; ++n)
    words[n] = (first_there ? Word{first[n]} : 0) | (second_there ? Word{second[n]} : 0) << 16;
}

#include "drivetrain/rounded_convolution_kernels.inl"
#undef DRIVETRAIN_KERNEL
}  // namespace portable

#if defined(DRIVETRAIN_TILES)
namespace tiles {
#define DRIVETRAIN_KERNEL DRIVETRAIN_TILES_TARGET

DRIVETRAIN_KERNEL inline void copy_along(const Half* halves, bool there, Word* words) noexcept {
  _mm512_store_si512(words, there ? _mm512_loadu_si512(halves) : _mm512_setzero_si512());
}

DRIVETRAIN_KERNEL inline void copy_across(const Half* first, bool first_there, const Half* second, bool second_there,
                                          Word* words) noexcept {
  const auto read_some = [](const Half* halves, bool there) DRIVETRAIN_KERNEL {
    const auto* some = reinterpret_cast<const __m256i*>(halves);
    return _mm512_cvtepu16_epi32(there ? _mm256_loadu_si256(some) : _mm256_setzero_si256());
  };
  const __m512i above = read_some(first, first_there), below = read_some(second, second_there);
  _mm512_store_si512(words, _mm512_or_si512(above, _mm512_slli_epi32(below, 16)));
}

#include "drivetrain/rounded_convolution_kernels.inl"
#undef DRIVETRAIN_KERNEL
}  // namespace tiles
#endif

/// y of `num` images x: bytes [channels, height, width], or numbers [height, width, channels], of which max(x, 0) is
/// seen.
template <class Number>
void forward(const Layer& layer, std::size_t num, const Number* x, const float* w, const float* bias, float* y,
             ConvolutionWorkspace& work, By by) noexcept {
  DRIVETRAIN_ROUNDED(by, forward(layer, num, x, w, bias, y, work));
}

/// dw and dbias of forward() for dy.
template <class Number>
void weight_slopes(const Layer& layer, std::size_t num, const Number* x, const float* dy, float* dw, float* dbias,
                   ConvolutionWorkspace& work, By by) noexcept {
  DRIVETRAIN_ROUNDED(by, weight_slopes(layer, num, x, dy, dw, dbias, work));
}

/// dz of forward() of numbers for dy; zero where z is not above zero.
inline void input_slopes(const Layer& layer, std::size_t num, const float* z, const float* w, const float* dy,
                         float* dz, ConvolutionWorkspace& work, By by) noexcept {
  DRIVETRAIN_ROUNDED(by, input_slopes(layer, num, z, w, dy, dz, work));
}

}  // namespace drivetrain::rounded
