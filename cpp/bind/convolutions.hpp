// Convolutions as custom calls of XLA, and on NumPy arrays for an actor: see convolution.hpp and, for XLA alone,
// rounded_convolution.hpp.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "bind/forward.hpp"
#include "bind/products.hpp"
#include "bind/xla_calls.hpp"
#include "drivetrain/convolution.hpp"
#include "drivetrain/rounded_convolution.hpp"

namespace drivetrain::bind {

/// The layer that a weight [side, side, channels, outputs] makes of images of these sizes; nothing where it does not fit.
inline std::optional<convolution::Layer> layer_of(bool of_bytes, std::int64_t height, std::int64_t width,
                                                  std::int64_t channels, const std::int64_t* weight,
                                                  std::int64_t stride) noexcept {
  if (std::min({height, width, channels, weight[0], weight[3], stride}) < 1 || weight[1] != weight[0] ||
      weight[2] != channels)
    return {};
  const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  const convolution::Layer layer{size(height), size(width), size(channels), size(weight[0]), size(stride),
                                 size(weight[3])};
  return layer.fits(of_bytes) ? std::optional(layer) : std::nullopt;
}

/// Memory of this thread for a layer; nothing where there is none.
inline convolution::Workspace* workspace_for(const convolution::Layer& layer) noexcept {
  static thread_local convolution::Workspace work;
  return work.reserve(convolution::words_for(layer)) ? &work : nullptr;
}

inline constexpr char kConvolutionMisfit[] =
    "a convolution: expected images, uint8 [num, channels, height, width] or float32 [num, height, width, channels], "
    "weight float32 [side, side, channels, outputs], bias [outputs], a stride, and memory to work in";

inline float* numbers_of(const xla::Buffer& buffer) noexcept { return static_cast<float*>(buffer.data); }

/// What `run(layer, num, x)` says, x as bytes or numbers, where images, a weight and what a layer gives fit together;
/// false where they do not.
template <class Run>
bool with_images(const xla::Buffer& x, const xla::Buffer& weight, const xla::Buffer& y, std::int64_t stride,
                 Run&& run) {
  const bool of_bytes = x.dtype == xla::kUint8;
  if (x.rank != 4 || weight.rank != 4 || y.rank != 4 || !(of_bytes || x.dtype == xla::kFloat32) ||
      weight.dtype != xla::kFloat32 || y.dtype != xla::kFloat32)
    return false;
  const std::int64_t* sizes = x.dims;
  const auto layer = of_bytes ? layer_of(true, sizes[2], sizes[3], sizes[1], weight.dims, stride)
                              : layer_of(false, sizes[1], sizes[2], sizes[3], weight.dims, stride);
  const auto is = [](std::int64_t given, std::size_t wanted) { return static_cast<std::size_t>(given) == wanted; };
  if (!layer || y.dims[0] != sizes[0] || !is(y.dims[1], layer->out_height()) || !is(y.dims[2], layer->out_width()) ||
      !is(y.dims[3], layer->num_out))
    return false;
  const auto num = static_cast<std::size_t>(sizes[0]);
  return of_bytes ? run(*layer, num, static_cast<const std::uint8_t*>(x.data))
                  : run(*layer, num, static_cast<const float*>(x.data));
}

/// The loops of convolution.hpp, and those of rounded_convolution.hpp, with memory of this thread.
struct InFloat32 {
  template <class Number>
  static bool forward(const convolution::Layer& layer, std::size_t num, const Number* x, const float* w,
                      const float* bias, float* y) noexcept {
    return with_memory(layer, [&](auto& work) { convolution::forward(layer, num, x, w, bias, y, work, kSimd); });
  }
  template <class Number>
  static bool weight_slopes(const convolution::Layer& layer, std::size_t num, const Number* x, const float* dy,
                            float* dw, float* dbias) noexcept {
    return with_memory(layer,
                       [&](auto& work) { convolution::weight_slopes(layer, num, x, dy, dw, dbias, work, kSimd); });
  }
  static bool input_slopes(const convolution::Layer& layer, std::size_t num, const float* z, const float* w,
                           const float* dy, float* dz) noexcept {
    return with_memory(layer, [&](auto& work) { convolution::input_slopes(layer, num, z, w, dy, dz, work, kSimd); });
  }

 private:
  template <class Run>
  static bool with_memory(const convolution::Layer& layer, const Run& run) noexcept {
    auto* work = workspace_for(layer);
    if (work != nullptr) run(*work);
    return work != nullptr;
  }
};

struct Rounded {
  template <class Number>
  static bool forward(const convolution::Layer& layer, std::size_t num, const Number* x, const float* w,
                      const float* bias, float* y) noexcept {
    return with_memory<Number>(layer,
                               [&](auto& work) { rounded::forward(layer, num, x, w, bias, y, work, rounded_by()); });
  }
  template <class Number>
  static bool weight_slopes(const convolution::Layer& layer, std::size_t num, const Number* x, const float* dy,
                            float* dw, float* dbias) noexcept {
    return with_memory<Number>(
        layer, [&](auto& work) { rounded::weight_slopes(layer, num, x, dy, dw, dbias, work, rounded_by()); });
  }
  static bool input_slopes(const convolution::Layer& layer, std::size_t num, const float* z, const float* w,
                           const float* dy, float* dz) noexcept {
    return with_memory<float>(layer,
                              [&](auto& work) { rounded::input_slopes(layer, num, z, w, dy, dz, work, rounded_by()); });
  }

 private:
  template <class Number, class Run>
  static bool with_memory(const convolution::Layer& layer, const Run& run) noexcept {
    static thread_local rounded::ConvolutionWorkspace work;
    const bool fits = rounded::fits(layer, std::is_same_v<Number, std::uint8_t>) && work.reserve(layer);
    if (fits) run(work);
    return fits;
  }
};

inline bool is_bias(const xla::Buffer& buffer, const xla::Buffer& weight) noexcept {
  return buffer.rank == 1 && buffer.dtype == xla::kFloat32 && weight.rank == 4 && buffer.dims[0] == weight.dims[3];
}

/// (x, weight, bias) -> y
template <class Loops>
xla::Error* convolution_product(xla::CallFrame* frame) {
  return answer<3, 1>(frame, kConvolutionMisfit, [&](xla::Buffer* const* args, xla::Buffer* const* rets) {
    const xla::Buffer &x = *args[0], &weight = *args[1], &bias = *args[2], &y = *rets[0];
    const auto run = [&](const auto& layer, std::size_t num, const auto* seen) {
      return Loops::forward(layer, num, seen, numbers_of(weight), numbers_of(bias), numbers_of(y));
    };
    return is_bias(bias, weight) && with_images(x, weight, y, xla::integer(frame, "stride"), run);
  });
}

/// (x, dy) -> dweight, dbias
template <class Loops>
xla::Error* convolution_weight_slopes(xla::CallFrame* frame) {
  return answer<2, 2>(frame, kConvolutionMisfit, [&](xla::Buffer* const* args, xla::Buffer* const* rets) {
    const xla::Buffer &x = *args[0], &dy = *args[1], &dweight = *rets[0], &dbias = *rets[1];
    const auto run = [&](const auto& layer, std::size_t num, const auto* seen) {
      return Loops::weight_slopes(layer, num, seen, numbers_of(dy), numbers_of(dweight), numbers_of(dbias));
    };
    return is_bias(dbias, dweight) && with_images(x, dweight, dy, xla::integer(frame, "stride"), run);
  });
}

/// (z, weight, dy) -> dz
template <class Loops>
xla::Error* convolution_input_slopes(xla::CallFrame* frame) {
  return answer<3, 1>(frame, kConvolutionMisfit, [&](xla::Buffer* const* args, xla::Buffer* const* rets) {
    const xla::Buffer &z = *args[0], &weight = *args[1], &dy = *args[2], &dz = *rets[0];
    const auto run = [&](const auto& layer, std::size_t num, const auto*) {
      return Loops::input_slopes(layer, num, numbers_of(z), numbers_of(weight), numbers_of(dy), numbers_of(dz));
    };
    return z.dtype == xla::kFloat32 && dz.dtype == xla::kFloat32 && size_of(dz) == size_of(z) &&
           with_images(z, weight, dy, xla::integer(frame, "stride"), run);
  });
}

/// The three handlers of a way to do it.
template <class Loops>
nb::tuple convolution_handlers() {
  return nb::make_tuple(handler(convolution_product<Loops>), handler(convolution_weight_slopes<Loops>),
                        handler(convolution_input_slopes<Loops>));
}

/// A layer of an actor's.
struct Convolving {
  convolution::Layer layer;
  const float *weight, *bias;
};

/// The layers of (weight, bias, weight, bias, ...) on bytes of these sizes; nothing where they do not fit together.
inline bool to_convolutions(const nb::tuple& pieces, const nb::tuple& strides, const npy_intp* sizes,
                            std::vector<Convolving>& layers) {
  layers.clear();
  if (pieces.size() != 2 * strides.size() || strides.size() == 0) return false;
  std::int64_t channels = sizes[1], height = sizes[2], width = sizes[3];
  for (std::size_t n = 0; n < strides.size(); ++n) {
    const npy_intp *weight = float_sizes(pieces[2 * n], 4), *bias = float_sizes(pieces[2 * n + 1], 1);
    if (weight == nullptr || bias == nullptr || bias[0] != weight[3]) return false;
    const auto layer = layer_of(n == 0, height, width, channels, weight, nb::cast<std::int64_t>(strides[n]));
    if (!layer) return false;
    layers.push_back({*layer, floats_of(pieces[2 * n]), floats_of(pieces[2 * n + 1])});
    channels = weight[3];
    height = static_cast<std::int64_t>(layer->out_height());
    width = static_cast<std::int64_t>(layer->out_width());
  }
  return true;
}

/// What the last of some layers gives, before its units: float32 [num, rows * columns * outputs], of images uint8 [num,
/// channels, height, width].
inline nb::object convolutions(nb::handle x, const nb::tuple& pieces, const nb::tuple& strides) {
  constexpr std::size_t kImages = 8;  // whose numbers between the layers stay in the second cache
  static thread_local std::vector<Convolving> layers;
  static thread_local std::vector<float> between[2];
  auto* array = reinterpret_cast<PyArrayObject*>(x.ptr());
  const bool of_bytes = PyArray_Check(x.ptr()) && PyArray_NDIM(array) == 4 && PyArray_TYPE(array) == NPY_UINT8 &&
                        PyArray_CHKFLAGS(array, NPY_ARRAY_CARRAY_RO);
  if (!of_bytes || !to_convolutions(pieces, strides, PyArray_DIMS(array), layers))
    throw nb::value_error(
        "an actor's convolutions: expected contiguous arrays, images uint8 [num, channels, height, width] and, for each "
        "layer, weight float32 [side, side, channels, outputs], bias [outputs] and a stride, got others");
  const std::size_t out_size = layers.back().layer.out_size();
  npy_intp shape[] = {PyArray_DIMS(array)[0], static_cast<npy_intp>(out_size)};
  nb::object y = nb::steal(PyArray_SimpleNew(2, shape, NPY_FLOAT32));
  if (!y.is_valid()) nb::raise_python_error();
  const auto num = static_cast<std::size_t>(shape[0]);
  for (std::size_t first = 0; first < num; first += kImages) {
    const std::size_t some = std::min(kImages, num - first);
    const float* z = nullptr;
    for (std::size_t n = 0; n < layers.size(); ++n) {
      const auto& [layer, weight, bias] = layers[n];
      auto* work = workspace_for(layer);
      if (work == nullptr) throw std::bad_alloc();
      float* to = reinterpret_cast<float*>(data_of(y)) + first * out_size;
      if (n + 1 < layers.size()) {
        between[n % 2].resize(std::max(between[n % 2].size(), kImages * layer.out_size()));
        to = between[n % 2].data();
      }
      if (n == 0)
        convolution::forward(layer, some, reinterpret_cast<const std::uint8_t*>(data_of(x)) + first * layer.size(), weight,
                             bias, to, *work, best_simd_level());
      else
        convolution::forward(layer, some, z, weight, bias, to, *work, best_simd_level());
      z = to;
    }
  }
  return y;
}

}  // namespace drivetrain::bind
