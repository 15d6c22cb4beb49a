// Convolutions as custom calls of XLA, and on NumPy arrays for an actor: see convolution.hpp.
#pragma once

#include "bind/forward.hpp"
#include "bind/xla_calls.hpp"
#include "drivetrain/convolution.hpp"

namespace drivetrain::bind {

/// Images and what is made of them: bytes [num, channels, height, width], or numbers before units, channels last.
struct Images {
  bool of_bytes;
  std::size_t num;
  convolution::Layer layer;
};

/// How a convolution's arrays fit together, by their sizes; `fit` is false where they do not.
struct Convolution {
  bool fit = false;
  Images images{};

  Convolution(bool of_bytes, const std::int64_t* x, const std::int64_t* weight, const std::int64_t* y,
              std::int64_t stride) noexcept {
    for (int axis = 0; axis < 4; ++axis)
      if (x[axis] < 0 || weight[axis] < 1 || y[axis] < 0) return;
    const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
    const int height = of_bytes ? 2 : 1, channels = of_bytes ? 1 : 3;
    images = {of_bytes, size(x[0]),
              {size(x[height]), size(x[height + 1]), size(x[channels]), size(weight[0]),
               stride > 0 ? size(stride) : 0, size(weight[3])}};
    const convolution::Layer& layer = images.layer;
    fit = layer.fits(of_bytes) && weight[1] == weight[0] && size(weight[2]) == layer.channels && y[0] == x[0] &&
          size(y[1]) == layer.out_height() && size(y[2]) == layer.out_width() && size(y[3]) == layer.num_out;
  }
};

/// Memory of this thread for a layer; nothing where there is none.
inline convolution::Workspace* workspace_for(const convolution::Layer& layer) noexcept {
  static thread_local convolution::Workspace work;
  return work.reserve(convolution::words_for(layer)) ? &work : nullptr;
}

inline constexpr char kConvolutionMisfit[] =
    "a convolution: expected images, uint8 [num, channels, height, width] or float32 [num, height, width, channels], "
    "weight float32 [side, side, channels, outputs], bias [outputs], a stride, and memory to work in";

/// Calls `run(images, work)` where arrays of four axes fit together; whether they do.
template <class Run>
bool with_images(const xla::Buffer& x, const xla::Buffer& weight, const xla::Buffer& y, std::int64_t stride,
                 Run&& run) {
  const bool of_bytes = x.dtype == xla::kUint8;
  if (x.rank != 4 || weight.rank != 4 || y.rank != 4 || !(of_bytes || x.dtype == xla::kFloat32) ||
      weight.dtype != xla::kFloat32 || y.dtype != xla::kFloat32)
    return false;
  const Convolution found(of_bytes, x.dims, weight.dims, y.dims, stride);
  if (!found.fit) return false;
  auto* work = workspace_for(found.images.layer);
  if (work != nullptr) run(found.images, *work);
  return work != nullptr;
}

inline bool is_bias(const xla::Buffer& buffer, const xla::Buffer& weight) noexcept {
  return buffer.rank == 1 && buffer.dtype == xla::kFloat32 && weight.rank == 4 && buffer.dims[0] == weight.dims[3];
}
inline float* numbers_of(const xla::Buffer& buffer) noexcept { return static_cast<float*>(buffer.data); }

/// (x, weight, bias) -> y
inline xla::Error* convolution_product(xla::CallFrame* frame) {
  return answer<3, 1>(frame, kConvolutionMisfit, [&](xla::Buffer* const* args, xla::Buffer* const* rets) {
    const xla::Buffer &x = *args[0], &weight = *args[1], &bias = *args[2], &y = *rets[0];
    return is_bias(bias, weight) &&
           with_images(x, weight, y, xla::integer(frame, "stride"), [&](const Images& images, auto& work) {
             const auto run = [&](const auto* numbers) {
               convolution::forward(images.layer, images.num, numbers, numbers_of(weight), numbers_of(bias),
                                    numbers_of(y), work, kSimd);
             };
             images.of_bytes ? run(static_cast<const std::uint8_t*>(x.data)) : run(numbers_of(x));
           });
  });
}

/// (x, dy) -> dweight, dbias
inline xla::Error* convolution_weight_slopes(xla::CallFrame* frame) {
  return answer<2, 2>(frame, kConvolutionMisfit, [&](xla::Buffer* const* args, xla::Buffer* const* rets) {
    const xla::Buffer &x = *args[0], &dy = *args[1], &dweight = *rets[0], &dbias = *rets[1];
    return is_bias(dbias, dweight) &&
           with_images(x, dweight, dy, xla::integer(frame, "stride"), [&](const Images& images, auto& work) {
             const auto run = [&](const auto* numbers) {
               convolution::weight_slopes(images.layer, images.num, numbers, numbers_of(dy), numbers_of(dweight),
                                          numbers_of(dbias), work, kSimd);
             };
             images.of_bytes ? run(static_cast<const std::uint8_t*>(x.data)) : run(numbers_of(x));
           });
  });
}

/// (z, weight, dy) -> dz
inline xla::Error* convolution_input_slopes(xla::CallFrame* frame) {
  return answer<3, 1>(frame, kConvolutionMisfit, [&](xla::Buffer* const* args, xla::Buffer* const* rets) {
    const xla::Buffer &z = *args[0], &weight = *args[1], &dy = *args[2], &dz = *rets[0];
    return z.dtype == xla::kFloat32 && dz.dtype == xla::kFloat32 && size_of(dz) == size_of(z) &&
           with_images(z, weight, dy, xla::integer(frame, "stride"), [&](const Images& images, auto& work) {
             convolution::input_slopes(images.layer, images.num, numbers_of(z), numbers_of(weight), numbers_of(dy),
                                       numbers_of(dz), work, kSimd);
           });
  });
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
  const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  std::size_t channels = size(sizes[1]), height = size(sizes[2]), width = size(sizes[3]);
  for (std::size_t n = 0; n < strides.size(); ++n) {
    const npy_intp *weight = float_sizes(pieces[2 * n], 4), *bias = float_sizes(pieces[2 * n + 1], 1);
    const auto stride = nb::cast<std::int64_t>(strides[n]);
    if (weight == nullptr || bias == nullptr || stride < 1) return false;
    const convolution::Layer layer{height, width, channels, size(weight[0]), size(stride), size(weight[3])};
    if (!layer.fits(n == 0) || weight[1] != weight[0] || size(weight[2]) != channels || bias[0] != weight[3]) return false;
    layers.push_back({layer, floats_of(pieces[2 * n]), floats_of(pieces[2 * n + 1])});
    channels = layer.num_out;
    height = layer.out_height();
    width = layer.out_width();
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
