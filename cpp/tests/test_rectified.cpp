// Products behind rectified units, against plain loops in double, at every instruction set of this CPU.
#include "drivetrain/rectified.hpp"

#include <algorithm>

#include "matrices.hpp"

using namespace drivetrain;
using namespace drivetrain::rectified;
using namespace test;

namespace {

struct Case {
  Sizes sizes;
  double positive, alive;  // shares: of z above zero, of columns of dy with anything in them
};

/// The products of one case, each in exactly as much memory as it needs, so that a sanitizer sees what is beyond.
struct Products {
  Matrix y, dw, dz;

  Products(const Sizes& sizes, const Matrix& z, const Matrix& w, const Matrix& dy, Workspace& work, SimdLevel simd)
      : y(sizes.rows * sizes.num_out, kNan), dw(w.size(), kNan), dz(z.size(), kNan) {
    product(sizes, z.data(), w.data(), y.data(), work, simd);
    weight_slopes(sizes, z.data(), dy.data(), dw.data(), work, simd);
    input_slopes(sizes, z.data(), w.data(), dy.data(), dz.data(), work, simd);
  }
};

void check_close(float got, double expected) {
  CHECK(std::abs(static_cast<double>(got) - expected) <= 1e-5 * (1 + std::abs(expected)));
}

template <class Term>
double sum_over(std::size_t count, const Term& term) {
  double sum = 0;
  for (std::size_t n = 0; n < count; ++n) sum += term(n);
  return sum;
}

void test_products(const Case& one, Workspace& work, SimdLevel simd) {
  const std::size_t rows = one.sizes.rows, num_in = one.sizes.num_in, num_out = one.sizes.num_out;
  Random random(rows * 1000003 + num_in * 1009 + num_out);
  Matrix z = random_matrix(random, rows * num_in), dy = random_matrix(random, rows * num_out);
  const Matrix w = random_matrix(random, num_in * num_out);
  for (float& x : z) x = random.uniform() < one.positive ? std::abs(x) : random.below(4) == 0 ? 0 : -std::abs(x);
  for (std::size_t j = 0; j < num_out; ++j) {
    const bool alive = random.uniform() < one.alive;
    for (std::size_t i = 0; i < rows; ++i)
      if (!alive || random.below(3) == 0) dy[i * num_out + j] = 0;
  }
  CHECK(work.reserve(one.sizes));
  const Products got(one.sizes, z, w, dy, work, simd);
  const auto h = [&](std::size_t i, std::size_t k) { return std::max(0.0, double{z[i * num_in + k]}); };
  const auto slope = [&](std::size_t i, std::size_t j) { return double{dy[i * num_out + j]}; };
  const auto weight = [&](std::size_t k, std::size_t j) { return double{w[k * num_out + j]}; };
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < num_out; ++j)
      check_close(got.y[i * num_out + j], sum_over(num_in, [&](auto k) { return h(i, k) * weight(k, j); }));
  for (std::size_t k = 0; k < num_in; ++k)
    for (std::size_t j = 0; j < num_out; ++j)
      check_close(got.dw[k * num_out + j], sum_over(rows, [&](auto i) { return h(i, k) * slope(i, j); }));
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t k = 0; k < num_in; ++k)
      if (z[i * num_in + k] > 0)
        check_close(got.dz[i * num_in + k], sum_over(num_out, [&](auto j) { return slope(i, j) * weight(k, j); }));
      else
        CHECK(got.dz[i * num_in + k] == 0);

  Workspace another;
  CHECK(another.reserve(one.sizes));
  const Products again(one.sizes, z, w, dy, another, simd);
  CHECK(got.y == again.y && got.dw == again.dw && got.dz == again.dz);
}

void test_nan_is_kept(Workspace& work, SimdLevel simd) {
  const MatricesWithNan nan;
  const Sizes sizes{nan.rows, nan.num_in, nan.num_out};
  CHECK(work.reserve(sizes));
  const Products got(sizes, nan.z, nan.w, nan.dy, work, simd);
  nan.check(got.y, got.dw, got.dz);
}

}  // namespace

int main() {
  Workspace work;  // used by all sizes in turn, growing and not
  for (SimdLevel simd : {SimdLevel::kPortable, SimdLevel::kAvx2, SimdLevel::kAvx512}) {
    if (!cpu_supports(simd)) continue;
    for (const Sizes& sizes :
         {Sizes{24, 140, 200}, Sizes{1, 1, 1}, Sizes{3, 5, 7}, Sizes{65, 130, 129}, Sizes{17, 64, 300},
          Sizes{130, 63, 72}, Sizes{16, 200, 1}, Sizes{9, 300, 40}, Sizes{70, 64, 256}})
      for (double positive : {0.0, 0.02, 0.4, 1.0})
        for (double alive : {0.0, 0.3, 0.95, 1.0}) test_products({sizes, positive, alive}, work, simd);
    test_nan_is_kept(work, simd);
    std::printf("%s: equal to plain loops\n", simd_name(simd));
  }
}
