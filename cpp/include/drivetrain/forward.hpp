// A multilayer perceptron on a few rows: what an actor asks of its network at every step.
//
//   x --affine--> z --max(z, 0), or tanh--> ... --affine--> a head, another head
//
// Row by row, so that what a row gives does not depend on the others. Weights lie as they were learned,
// [num_in, num_out]: for a few rows packing them would cost more than it saves. Behind rectified units
// the rows of weights that would be multiplied by zero are left out (rectified.hpp says what that means
// for NaN and infinity).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "drivetrain/rectified.hpp"

namespace drivetrain {

/// A dense layer: weight [num_in, num_out], bias [num_out].
struct Dense {
  const float *weight, *bias;
  std::size_t num_in, num_out;
};

enum class Activation { kRelu, kTanh };

/// Memory that evaluations of one shape use again; of one thread.
class Forward {
 public:
  /// The heads of rows x [rows, num_in of the first layer], head h into heads[h] [rows, its num_out].
  ///
  /// Layers are the hidden ones, each as wide as the next takes, then the heads, which all take the last. What goes in
  /// may be before rectified units, too.
  void operator()(const std::vector<Dense>& layers, std::size_t num_hidden, Activation activation, bool before_units,
                  const float* x, std::size_t rows, float* const* heads, SimdLevel simd) {
    reserve(layers);
    for (std::size_t row = 0; row < rows; ++row) {
      const float* input = x + row * layers[0].num_in;
      bool is_rectified = before_units;  // what has been through tanh is taken as it is
      for (std::size_t n = 0; n < num_hidden; ++n) {
        float* z = units_[n % 2].data();
        affine(input, is_rectified, layers[n], z, simd);
        is_rectified = activation == Activation::kRelu;
        if (!is_rectified)
          for (std::size_t i = 0; i < layers[n].num_out; ++i) z[i] = std::tanh(z[i]);
        input = z;
      }
      for (std::size_t n = num_hidden; n < layers.size(); ++n)
        affine(input, is_rectified, layers[n], heads[n - num_hidden] + row * layers[n].num_out, simd);
    }
  }

 private:
  static void affine(const float* x, bool is_rectified, const Dense& layer, float* y, SimdLevel simd) noexcept {
    rectified::affine(x, is_rectified, layer.num_in, layer.weight, layer.bias, layer.num_out, y, simd);
  }

  void reserve(const std::vector<Dense>& layers) {
    std::size_t widest = 0;
    for (const Dense& layer : layers) widest = std::max(widest, layer.num_out);
    for (auto& units : units_)
      if (units.size() < widest) units.resize(widest);
  }

  std::vector<float> units_[2];  // of a layer and the one before
};

}  // namespace drivetrain
