// Products of rounded factors, against plain loops in double, by every way that this CPU has.
#include "drivetrain/rounded.hpp"

#include <cmath>
#include <limits>

#include "matrices.hpp"

using namespace drivetrain;
using namespace drivetrain::rounded;
using namespace test;

namespace {

/// The products of one case, each in exactly as much memory as it needs, so that a sanitizer sees what is beyond.
struct Products {
  Matrix y, dw, dx;

  Products(const Sizes& sizes, bool rectified, const Matrix& x, const Matrix& w, const Matrix& dy, Workspace& work,
           By by)
      : y(sizes.rows * sizes.num_out, kNan), dw(w.size(), kNan), dx(x.size(), kNan) {
    product(sizes, rectified, x.data(), w.data(), y.data(), work, by);
    weight_slopes(sizes, rectified, x.data(), dy.data(), dw.data(), work, by);
    input_slopes(sizes, rectified, x.data(), w.data(), dy.data(), dx.data(), work, by);
  }
};

template <class Term>
void check_sum(float got, std::size_t count, const Term& term) {
  double sum = 0, sizes = 0;
  for (std::size_t n = 0; n < count; ++n) {
    sum += term(n);
    sizes += std::abs(term(n));
  }
  CHECK(std::abs(got - sum) <= 1e-6 * sizes);  // rounding of sums; that of factors is thousands of times as much
}

void test_products(const Sizes& sizes, bool rectified, Workspace& work, By by) {
  const std::size_t rows = sizes.rows, num_in = sizes.num_in, num_out = sizes.num_out;
  Random random(rows * 1000003 + num_in * 1009 + num_out);
  const Matrix x = random_matrix(random, rows * num_in), w = random_matrix(random, num_in * num_out),
               dy = random_matrix(random, rows * num_out);
  CHECK(work.reserve(sizes));
  const Products got(sizes, rectified, x, w, dy, work, by);
  const auto at = [](const Matrix& matrix, std::size_t index) { return rounded_to_half(matrix[index]); };
  const auto input = [&](std::size_t i, std::size_t k) {
    const double number = at(x, i * num_in + k);
    return rectified ? std::max(0.0, number) : number;
  };
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < num_out; ++j)
      check_sum(got.y[i * num_out + j], num_in, [&](auto k) { return input(i, k) * at(w, k * num_out + j); });
  for (std::size_t k = 0; k < num_in; ++k)
    for (std::size_t j = 0; j < num_out; ++j)
      check_sum(got.dw[k * num_out + j], rows, [&](auto i) { return input(i, k) * at(dy, i * num_out + j); });
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t k = 0; k < num_in; ++k)
      if (rectified && x[i * num_in + k] <= 0)
        CHECK(got.dx[i * num_in + k] == 0);
      else
        check_sum(got.dx[i * num_in + k], num_out,
                  [&](auto j) { return at(dy, i * num_out + j) * at(w, k * num_out + j); });

  Workspace another;
  CHECK(another.reserve(sizes));
  const Products again(sizes, rectified, x, w, dy, another, by);
  CHECK(got.y == again.y && got.dw == again.dw && got.dx == again.dx);
}

/// What a product of one by one numbers gives.
float times(float x, float w, bool rectified, By by) {
  Workspace work;
  CHECK(work.reserve({1, 1, 1}));
  float y = 0;
  product({1, 1, 1}, rectified, &x, &w, &y, work, by);
  return y;
}

void test_rounding(By by) {
  CHECK(times(1 + 0x1p-8f, 1, false, by) == 1);                      // a tie, to even
  CHECK(times(1 + 0x1p-8f + 0x1p-20f, 1, false, by) == 1 + 0x1p-7f);
  CHECK(times(1 + 3 * 0x1p-8f, 1, false, by) == 1 + 0x1p-6f);        // a tie, to even
  CHECK(times(1, 1 + 0x1p-8f, false, by) == 1);
  CHECK(times(-3, 2, false, by) == -6 && times(-3, 2, true, by) == 0 && times(3, 2, true, by) == 6);
  CHECK(times(0x1.fffffep127f, 1, false, by) == std::numeric_limits<float>::infinity());
  for (const bool rectified : {false, true}) {
    CHECK(std::isnan(times(kNan, 1, rectified, by)) && std::isnan(times(-kNan, 1, rectified, by)));
    CHECK(std::isnan(times(1, kNan, rectified, by)));
    CHECK(std::isnan(times(std::bit_cast<float>(0x7f800001), 1, rectified, by)));  // of bits that rounding cuts off
    CHECK(std::isnan(times(std::bit_cast<float>(0x7fffffff), 1, rectified, by)));
  }
}

void test_nan_is_kept(bool rectified, Workspace& work, By by) {
  const MatricesWithNan nan;
  const Sizes sizes{nan.rows, nan.num_in, nan.num_out};
  CHECK(work.reserve(sizes));
  const Products got(sizes, rectified, nan.z, nan.w, nan.dy, work, by);
  nan.check(got.y, got.dw, got.dx);
  CHECK(got.dx[5 * nan.num_in + 3] == 0 || !rectified);
}

}  // namespace

int main() {
  Workspace work;  // used by all sizes in turn, growing and not
  for (By by : {By::kLoops, By::kTiles}) {
    if (by == By::kTiles && !has_tiles()) continue;
    for (const Sizes& sizes :
         {Sizes{24, 140, 200}, Sizes{1, 1, 1}, Sizes{3, 5, 7}, Sizes{65, 130, 129}, Sizes{17, 64, 300},
          Sizes{32, 32, 32}, Sizes{130, 63, 72}, Sizes{16, 200, 1}, Sizes{9, 300, 40}, Sizes{64, 64, 256},
          Sizes{48, 16, 80}})
      for (const bool rectified : {false, true}) test_products(sizes, rectified, work, by);
    test_rounding(by);
    for (const bool rectified : {false, true}) test_nan_is_kept(rectified, work, by);
    std::printf("%s: equal to plain loops\n", by == By::kTiles ? "tiles" : "loops");
  }
}
