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

/// y [num, out_height, out_width, outputs] of NumPy's arrays, see kConvolutionMisfit.
inline nb::object convolve(nb::handle x, nb::handle weight, nb::handle bias, std::int64_t stride) {
  auto* array = reinterpret_cast<PyArrayObject*>(x.ptr());
  const bool is_array = PyArray_Check(x.ptr()) && PyArray_NDIM(array) == 4 && PyArray_CHKFLAGS(array, NPY_ARRAY_CARRAY_RO);
  const bool of_bytes = is_array && PyArray_TYPE(array) == NPY_UINT8;
  const npy_intp *weights = float_sizes(weight, 4), *outputs = float_sizes(bias, 1);
  const auto misfit = [] { return nb::value_error(kConvolutionMisfit); };
  if (!is_array || !(of_bytes || PyArray_TYPE(array) == NPY_FLOAT32) || weights == nullptr || outputs == nullptr ||
      outputs[0] != weights[3] || stride < 1)
    throw misfit();
  const npy_intp* images = PyArray_DIMS(array);
  const int height = of_bytes ? 2 : 1;
  std::int64_t x_sizes[4], weight_sizes[4];
  for (int axis = 0; axis < 4; ++axis) {
    x_sizes[axis] = images[axis];
    weight_sizes[axis] = weights[axis];
  }
  npy_intp shape[4] = {images[0], (images[height] - weights[0]) / stride + 1, (images[height + 1] - weights[0]) / stride + 1,
                       weights[3]};
  const std::int64_t y_sizes[4] = {shape[0], shape[1], shape[2], shape[3]};
  const Convolution found(of_bytes, x_sizes, weight_sizes, y_sizes, stride);
  if (!found.fit) throw misfit();
  nb::object y = nb::steal(PyArray_SimpleNew(4, shape, NPY_FLOAT32));
  if (!y.is_valid()) nb::raise_python_error();
  auto* work = workspace_for(found.images.layer);
  if (work == nullptr) throw std::bad_alloc();
  auto* to = reinterpret_cast<float*>(data_of(y));
  if (of_bytes)
    convolution::forward(found.images.layer, found.images.num, reinterpret_cast<const std::uint8_t*>(data_of(x)),
                         floats_of(weight), floats_of(bias), to, *work, best_simd_level());
  else
    convolution::forward(found.images.layer, found.images.num, floats_of(x), floats_of(weight), floats_of(bias), to,
                         *work, best_simd_level());
  return y;
}

}  // namespace drivetrain::bind
