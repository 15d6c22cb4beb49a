// Products with a narrow side, against plain loops in double, at every instruction set of this CPU.
#include "drivetrain/narrow.hpp"

#include <functional>

#include "matrices.hpp"

using namespace drivetrain;
using narrow::Sizes;
using namespace test;

namespace {

/// Whether got [rows, columns] is the sum over `depth` terms at each place.
void check_sums(const Matrix& got, std::size_t rows, std::size_t columns, std::size_t depth,
                const std::function<double(std::size_t, std::size_t, std::size_t)>& term) {
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      double sum = 0;
      for (std::size_t n = 0; n < depth; ++n) sum += term(i, j, n);
      CHECK(std::abs(static_cast<double>(got[i * columns + j]) - sum) <= 1e-5 * (1 + std::abs(sum)));
    }
  }
}

void test_products(const Sizes& sizes, SimdLevel simd) {
  const std::size_t rows = sizes.rows, few = sizes.few, wide = sizes.wide;
  Random random(rows * 1000003 + few * 1009 + wide);
  const Matrix x = random_matrix(random, rows * few), y = random_matrix(random, rows * wide),
               w = random_matrix(random, few * wide);
  Matrix spread(rows * wide, NAN), outer(few * wide, NAN), gathered(rows * few, NAN);
  narrow::spread(sizes, x.data(), w.data(), spread.data(), simd);
  narrow::outer(sizes, x.data(), y.data(), outer.data(), simd);
  narrow::gather(sizes, y.data(), w.data(), gathered.data(), simd);
  check_sums(spread, rows, wide, few, [&](auto i, auto j, auto k) { return double{x[i * few + k]} * w[k * wide + j]; });
  check_sums(outer, few, wide, rows, [&](auto k, auto j, auto i) { return double{x[i * few + k]} * y[i * wide + j]; });
  check_sums(gathered, rows, few, wide,
             [&](auto i, auto k, auto j) { return double{y[i * wide + j]} * w[k * wide + j]; });
}

/// What a row gives is the same alone and among others.
void test_rows_stand_alone(SimdLevel simd) {
  const Sizes all{7, 5, 37}, one{1, 5, 37};
  Random random(1);
  const Matrix x = random_matrix(random, 7 * 5), y = random_matrix(random, 7 * 37), w = random_matrix(random, 5 * 37);
  Matrix spread(7 * 37), gathered(7 * 5), spread_one(37), gathered_one(5);
  narrow::spread(all, x.data(), w.data(), spread.data(), simd);
  narrow::gather(all, y.data(), w.data(), gathered.data(), simd);
  for (std::size_t i = 0; i < 7; ++i) {
    narrow::spread(one, &x[i * 5], w.data(), spread_one.data(), simd);
    narrow::gather(one, &y[i * 37], w.data(), gathered_one.data(), simd);
    CHECK(std::memcmp(spread_one.data(), &spread[i * 37], 37 * sizeof(float)) == 0);
    CHECK(std::memcmp(gathered_one.data(), &gathered[i * 5], 5 * sizeof(float)) == 0);
  }
}

}  // namespace

int main() {
  for (SimdLevel simd : {SimdLevel::kPortable, SimdLevel::kAvx2, SimdLevel::kAvx512}) {
    if (!cpu_supports(simd)) continue;
    for (const Sizes& sizes : {Sizes{1, 1, 1}, Sizes{2, 3, 5}, Sizes{64, 4, 256}, Sizes{64, 2, 256}, Sizes{13, 7, 75},
                               Sizes{9, 32, 40}, Sizes{5, 8, 31}, Sizes{130, 6, 129}})
      test_products(sizes, simd);
    test_rows_stand_alone(simd);
    std::printf("%s: equal to plain loops\n", simd_name(simd));
  }
}
