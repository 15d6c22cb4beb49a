// What plain loops in double give for a convolution and its derivatives.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "drivetrain/convolution.hpp"
#include "matrices.hpp"

namespace drivetrain::test {

using convolution::Layer;
using Numbers = std::vector<float>;

inline Numbers random_numbers(Random& random, std::size_t size, double kept) {
  Numbers numbers(size);
  for (float& x : numbers) x = random.uniform() < kept ? static_cast<float>(random.uniform() - 0.5) : 0;
  return numbers;
}

inline void check_close(const Numbers& got, const std::vector<double>& expected) {
  CHECK(got.size() == expected.size());
  double largest = 1;
  for (double one : expected) largest = std::max(largest, std::abs(one));
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - expected[i]) <= 1e-5 * largest);
}

/// What plain loops give for x [num, height, width, channels] as it is multiplied.
struct Plain {
  std::vector<double> y, dw, dbias, dx;

  Plain(const Layer& layer, std::size_t num, const std::vector<double>& x, const Numbers& w, const Numbers& bias,
        const Numbers& dy)
      : y(dy.size()), dw(w.size()), dbias(bias.size()), dx(x.size()) {
    std::size_t at = 0;
    for (std::size_t image = 0; image < num; ++image)
      for (std::size_t i = 0; i < layer.out_height(); ++i)
        for (std::size_t j = 0; j < layer.out_width(); ++j)
          for (std::size_t n = 0; n < layer.num_out; ++n, ++at) {
            y[at] = bias[n];
            dbias[n] += dy[at];
            for (std::size_t tap = 0; tap < layer.taps(); ++tap) {
              const std::size_t row = i * layer.stride + tap / layer.run();
              const std::size_t from = image * layer.size() + row * layer.row() + j * layer.stride * layer.channels +
                                       tap % layer.run();
              y[at] += x[from] * w[tap * layer.num_out + n];
              dw[tap * layer.num_out + n] += x[from] * dy[at];
              dx[from] += double{w[tap * layer.num_out + n]} * dy[at];
            }
          }
  }
};

/// Bytes [num, channels, height, width] as a layer sees them.
inline std::vector<double> seen(const Layer& layer, const std::vector<std::uint8_t>& bytes) {
  std::vector<double> x(bytes.size());
  const std::size_t pixels = layer.height * layer.width;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t image = i / layer.size(), pixel = i % layer.size() / layer.channels, c = i % layer.channels;
    x[i] = bytes[image * layer.size() + c * pixels + pixel] / 255.0;
  }
  return x;
}

/// Layers of bytes.
inline const Layer kLayersOfBytes[] = {
    {84, 84, 4, 8, 4, 32}, {36, 41, 1, 8, 4, 32}, {37, 36, 3, 8, 4, 32}, {40, 44, 12, 8, 4, 16}, {9, 10, 2, 3, 1, 48}};

/// One NaN in the numbers of an image and one in the slopes, which are seen in all that they take part in.
struct WithNan {
  Layer layer{5, 6, 32, 3, 1, 16};
  Numbers z, w, bias, dy;

  WithNan()
      : z(layer.size(), -1), w(layer.taps() * layer.num_out, 1), bias(layer.num_out, 0), dy(layer.out_size(), 0) {
    z[0] = kNan;                      // seen by the first output alone
    dy[layer.out_size() - 1] = kNan;  // the last channel of the last output
  }

  template <class Ours>
  void check(const Ours& ours) const {
    for (std::size_t i = 0; i < ours.y.size(); ++i) CHECK(std::isnan(ours.y[i]) == (i < layer.num_out));
    CHECK(std::isnan(ours.dbias[layer.num_out - 1]) && ours.dbias[0] == 0);
    CHECK(std::isnan(ours.dw[layer.num_out - 1]));
  }
};

}  // namespace drivetrain::test
