// An actor's network on NumPy arrays: `_native.forward`, see forward.hpp.
#pragma once

#include <algorithm>
#include <vector>

#include "bind/arrays.hpp"
#include "drivetrain/forward.hpp"

namespace drivetrain::bind {

/// The sizes of a contiguous float32 array of so many axes; nothing for anything else.
inline const npy_intp* float_sizes(nb::handle object, int num_axes) {
  auto* array = reinterpret_cast<PyArrayObject*>(object.ptr());
  const bool fits = PyArray_Check(object.ptr()) && PyArray_TYPE(array) == NPY_FLOAT32 &&
                    PyArray_NDIM(array) == num_axes && PyArray_CHKFLAGS(array, NPY_ARRAY_CARRAY_RO);
  return fits ? PyArray_DIMS(array) : nullptr;
}

inline const float* floats_of(nb::handle array) { return reinterpret_cast<const float*>(data_of(array)); }

/// The layers of (weight, bias, weight, bias, ...), hidden ones first; nothing where they do not fit together.
inline bool to_layers(const nb::tuple& pieces, std::size_t num_hidden, std::size_t num_in,
                      std::vector<Dense>& layers) {
  layers.clear();
  if (pieces.size() % 2 != 0 || pieces.size() / 2 <= num_hidden) return false;
  for (std::size_t n = 0; n < pieces.size(); n += 2) {
    const npy_intp* weight = float_sizes(pieces[n], 2);
    const npy_intp* bias = float_sizes(pieces[n + 1], 1);
    if (weight == nullptr || bias == nullptr || static_cast<std::size_t>(weight[0]) != num_in ||
        weight[1] != bias[0])
      return false;
    const auto num_out = static_cast<std::size_t>(weight[1]);
    layers.push_back({floats_of(pieces[n]), floats_of(pieces[n + 1]), num_in, num_out});
    if (layers.size() <= num_hidden) num_in = num_out;
  }
  return true;
}

/// The outputs of every head, a tuple of float32 [rows, width]; x may be before rectified units, too.
inline nb::object forward(nb::handle x, const nb::tuple& pieces, std::size_t num_hidden, bool is_rectified,
                          bool before_units) {
  static thread_local Forward evaluate;
  static thread_local std::vector<Dense> layers;
  static thread_local std::vector<float*> heads;
  // First of all: a tuple may have Python collect garbage, whose finalizers may come here, too.
  const std::size_t num_layers = pieces.size() / 2, num_heads = num_layers - std::min(num_hidden, num_layers);
  nb::object outputs = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(num_heads)));
  if (!outputs.is_valid()) nb::raise_python_error();
  const npy_intp* sizes = float_sizes(x, 2);
  if (sizes == nullptr || !to_layers(pieces, num_hidden, static_cast<std::size_t>(sizes[1]), layers))
    throw nb::value_error(
        "a network's outputs: expected contiguous float32 arrays x [rows, inputs] and, for each layer, weight "
        "[inputs, outputs] and bias [outputs], got others");
  heads.clear();
  for (std::size_t n = 0; n < num_heads; ++n) {
    npy_intp shape[] = {sizes[0], static_cast<npy_intp>(layers[num_hidden + n].num_out)};
    PyObject* output = PyArray_SimpleNew(2, shape, NPY_FLOAT32);
    if (output == nullptr) nb::raise_python_error();
    PyTuple_SET_ITEM(outputs.ptr(), static_cast<Py_ssize_t>(n), output);
    heads.push_back(reinterpret_cast<float*>(data_of(output)));
  }
  evaluate(layers, num_hidden, is_rectified ? Activation::kRelu : Activation::kTanh, before_units, floats_of(x),
           static_cast<std::size_t>(sizes[0]), heads.data(), best_simd_level());
  return outputs;
}

}  // namespace drivetrain::bind
