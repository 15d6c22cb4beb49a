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
#include <cstdint>
#include <numeric>
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
  /// Layers are the hidden ones, each as wide as the next takes, then the heads, which all take the last.
  void operator()(const std::vector<Dense>& layers, std::size_t num_hidden, Activation activation,
                  const float* x, std::size_t rows, float* const* heads, SimdLevel simd) {
    reserve(layers);
    for (std::size_t row = 0; row < rows; ++row) {
      const float* values = x + row * layers[0].num_in;
      const std::uint32_t* places = all_.data();
      std::size_t count = layers[0].num_in;
      for (std::size_t n = 0; n < num_hidden; ++n) {
        affine(values, places, count, layers[n], z_.data(), simd);
        const std::size_t width = layers[n].num_out;
        if (activation == Activation::kRelu) {
          count = rectified::keep_positive(z_.data(), width, values_.data(), kept_.data(), simd);
          places = kept_.data();
        } else {
          for (std::size_t i = 0; i < width; ++i) values_[i] = std::tanh(z_[i]);
          count = width;
          places = all_.data();
        }
        values = values_.data();
      }
      for (std::size_t n = num_hidden; n < layers.size(); ++n)
        affine(values, places, count, layers[n], heads[n - num_hidden] + row * layers[n].num_out, simd);
    }
  }

 private:
  static void affine(const float* values, const std::uint32_t* places, std::size_t count,
                     const Dense& layer, float* y, SimdLevel simd) noexcept {
    rectified::affine(values, places, count, layer.weight, layer.bias, layer.num_out, y, simd);
  }

  void reserve(const std::vector<Dense>& layers) {
    std::size_t widest = 0;
    for (const Dense& layer : layers) widest = std::max({widest, layer.num_in, layer.num_out});
    if (widest <= all_.size()) return;
    z_.resize(widest);
    values_.resize(widest + rectified::kGroup);
    kept_.resize(widest + rectified::kGroup);
    all_.resize(widest);
    std::iota(all_.begin(), all_.end(), 0u);
  }

  std::vector<float> z_, values_;
  std::vector<std::uint32_t> kept_, all_;
};

}  // namespace drivetrain
