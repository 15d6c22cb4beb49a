// Matrices for the tests of products.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "check.hpp"

namespace drivetrain::test {

using Matrix = std::vector<float>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

inline Matrix random_matrix(Random& random, std::size_t size) {
  Matrix matrix(size);  // exactly as much memory as it needs, so that a sanitizer sees what is beyond
  for (float& x : matrix) x = static_cast<float>(random.uniform() - 0.5);
  return matrix;
}

/// One NaN in what goes into a layer and one in the slopes by what comes out, which are seen in all that they take part
/// in.
struct MatricesWithNan {
  static constexpr std::size_t rows = 17, num_in = 70, num_out = 66;
  Matrix z = Matrix(rows * num_in, -1), w = Matrix(num_in * num_out, 1), dy = Matrix(rows * num_out, 0);

  MatricesWithNan() {
    z[3 * num_in + 69] = kNan;  // the last column, in row 3
    dy[5 * num_out + 65] = kNan;
    z[5 * num_in + 2] = 1;
  }

  void check(const Matrix& y, const Matrix& dw, const Matrix& dz) const {
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < num_out; ++j) CHECK(std::isnan(y[i * num_out + j]) == (i == 3));
    CHECK(std::isnan(dw[2 * num_out + 65]));
    CHECK(std::isnan(dz[5 * num_in + 2]));
  }
};

}  // namespace drivetrain::test
