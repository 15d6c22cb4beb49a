// Steps of Adam, against a plain loop in double, at every instruction set of this CPU.
#include "drivetrain/adam.hpp"

#include <cstring>

#include "check.hpp"

using namespace drivetrain;
using test::Random;

namespace {

using Numbers = std::vector<float>;

constexpr adam::Factors kFactors{0.9f, 0.07f, 0.999f, 0.0004f, -0.01f, 1.7f, 1e-5f, 0.7f};

Numbers random_numbers(Random& random, std::size_t size, double low) {
  Numbers numbers(size);  // exactly as much memory as it needs, so that a sanitizer sees what is beyond
  for (float& x : numbers) x = static_cast<float>(low + random.uniform());
  return numbers;
}

struct Parts {
  Numbers g, m, v, p;
  adam::Piece piece() { return {g.size(), g.data(), m.data(), v.data(), p.data()}; }
};

Parts parts_of(std::size_t size, std::uint64_t seed) {
  Random random(seed);
  return {random_numbers(random, size, -0.5), random_numbers(random, size, -0.5), random_numbers(random, size, 0.0),
          random_numbers(random, size, -0.5)};
}

bool close(float got, double expected) {
  return std::abs(static_cast<double>(got) - expected) <= 1e-6 * (1 + std::abs(expected));
}

void test_step(std::size_t size, SimdLevel simd) {
  Parts parts = parts_of(size, size + 1);
  const Parts before = parts;
  const double found = adam::step(kFactors, parts.piece(), simd);
  double squares = 0, unscaled = 0;
  for (std::size_t i = 0; i < size; ++i) {
    const double g = double{kFactors.scale} * before.g[i];
    const double m = double{kFactors.keep_m} * before.m[i] + double{kFactors.take_m} * g;
    const double v = double{kFactors.keep_v} * before.v[i] + double{kFactors.take_v} * g * g;
    const double moved = kFactors.step * m / (std::sqrt(v) * kFactors.spread + kFactors.epsilon);
    CHECK(close(parts.m[i], m) && close(parts.v[i], v) && close(parts.p[i], before.p[i] + moved));
    squares += g * g;
    unscaled += double{before.g[i]} * before.g[i];
  }
  CHECK(std::abs(found - squares) <= 1e-5 * (1 + squares));
  CHECK(std::abs(adam::squares(parts.piece(), simd) - unscaled) <= 1e-5 * (1 + unscaled));
  CHECK(parts.g == before.g);
}

/// A number's step is the same wherever it is among others, and again.
void test_numbers_stand_alone(SimdLevel simd) {
  constexpr std::size_t kSize = 300, kFirst = 5;
  Parts all = parts_of(kSize, 1), again = all, part = all;
  adam::step(kFactors, all.piece(), simd);
  adam::step(kFactors, again.piece(), simd);
  const adam::Piece later{kSize - kFirst, &part.g[kFirst], &part.m[kFirst], &part.v[kFirst], &part.p[kFirst]};
  adam::step(kFactors, later, simd);
  CHECK(all.p == again.p && all.m == again.m && all.v == again.v);
  for (std::size_t i = kFirst; i < kSize; ++i) CHECK(close(part.p[i], all.p[i]));
}

/// What has diverged does not look well again.
void test_nan_stays(SimdLevel simd) {
  Parts parts = parts_of(40, 2);
  parts.g[3] = NAN;
  const double squares = adam::step(kFactors, parts.piece(), simd);
  CHECK(std::isnan(squares) && std::isnan(parts.m[3]) && std::isnan(parts.v[3]) && std::isnan(parts.p[3]));
  CHECK(!std::isnan(parts.p[2]) && !std::isnan(parts.p[4]));
}

}  // namespace

int main() {
  for (SimdLevel simd : {SimdLevel::kPortable, SimdLevel::kAvx2, SimdLevel::kAvx512}) {
    if (!cpu_supports(simd)) continue;
    for (std::size_t size : {0, 1, 6, 16, 63, 64, 65, 1023, 4096, 20011}) test_step(size, simd);
    test_numbers_stand_alone(simd);
    test_nan_stays(simd);
    std::printf("%s: steps of Adam\n", simd_name(simd));
  }
}
