// Powers against the library's, for every instruction set this CPU has.
#include <cmath>
#include <cstring>

#include "check.hpp"
#include "drivetrain/power.hpp"

using namespace drivetrain;
using namespace drivetrain::test;

namespace {

constexpr double kLargest = 3.0e38;
constexpr double kExponents[] = {0.0, 0.1, 0.4, 0.5, 0.6, 0.9, 0.999, 1.0};

// Everything a leaf or a weight is made of: 1e-6 <= priority + epsilon, 2^-62 <= ratio <= 1.
double any_base(Random& random) { return std::exp2(-62 + 190 * random.uniform()); }

void powers_are_those_of_the_library_to_a_float_and_nearly_always_the_same() {
  Random random(1);
  long num_different = 0, num_all = 0;
  for (const double y : kExponents)
    for (int round = 0; round < 200; ++round) {
      double x[256];
      float results[256];
      for (double& value : x) value = any_base(random);
      powers(x, y, kLargest, results, 256, best_simd_level());
      for (int i = 0; i < 256; ++i) {
        const double exact = std::pow(x[i], y);
        CHECK(std::abs(power(x[i], y) - exact) <= 1e-12 * exact);
        const auto nearest = static_cast<float>(std::fmin(exact, kLargest));
        CHECK(std::abs(results[i] - nearest) <= std::nextafter(nearest, INFINITY) - nearest);
        num_different += results[i] != nearest;
        ++num_all;
      }
    }
  CHECK(num_different * 100000 < num_all);
}

void every_simd_level_gives_the_same_bits_at_any_length() {
  Random random(2);
  for (std::size_t count = 0; count < 40; ++count)
    for (const double y : kExponents) {
      double x[40];
      float expected[40], results[40];
      for (double& value : x) value = any_base(random);
      for (std::size_t i = 0; i < count; ++i)
        expected[i] = static_cast<float>(std::fmin(power(x[i], y), kLargest));
      for (SimdLevel level : {SimdLevel::kPortable, SimdLevel::kAvx2, SimdLevel::kAvx512}) {
        if (!cpu_supports(level)) continue;
        powers(x, y, kLargest, results, count, level);
        CHECK(std::memcmp(results, expected, count * sizeof(float)) == 0);
      }
    }
}

void relative_powers_are_those_of_the_quotient() {
  Random random(4);
  for (const double y : kExponents)
    for (int round = 0; round < 50; ++round) {
      double x[64];
      float results[64];
      for (double& value : x) value = any_base(random);
      const double one = x[round];
      for (double& value : x) value = std::max(value, one);
      powers_relative(x, log2_of(one), -y, 1.0, results, 64, best_simd_level());
      for (int i = 0; i < 64; ++i) {
        const auto nearest = static_cast<float>(std::pow(one / x[i], y));
        CHECK(std::abs(results[i] - nearest) <= std::nextafter(nearest, INFINITY) - nearest);
        CHECK(results[i] <= 1.0f && (x[i] > one || results[i] == 1.0f));
      }
    }
}

void one_and_the_power_of_zero_are_exact_and_no_weight_exceeds_one() {
  Random random(3);
  for (const double y : kExponents) {
    CHECK(power(1.0, y) == 1.0);
    CHECK(power(std::nextafter(1.0, 0.0), y) <= 1.0);
    for (int i = 0; i < 10000; ++i) CHECK(power(1.0 - random.uniform() * 0x1p-20, y) <= 1.0);
  }
  for (int i = 0; i < 10000; ++i) CHECK(power(any_base(random), 0.0) == 1.0);
}

void powers_of_two_and_the_seams_between_them_are_continuous() {
  for (int e = -61; e < 128; ++e)
    for (const double seam : {1.0, std::sqrt(0.5)})
      for (const double y : kExponents) {
        const double x = std::ldexp(seam, e), below = std::nextafter(x, 0.0);
        CHECK(std::abs(power(x, y) - power(below, y)) <= 1e-12 * power(x, y));
      }
}

}  // namespace

int main() {
  std::printf("seed %llu, simd %s\n", static_cast<unsigned long long>(kSeed),
              simd_name(best_simd_level()));
  powers_are_those_of_the_library_to_a_float_and_nearly_always_the_same();
  every_simd_level_gives_the_same_bits_at_any_length();
  relative_powers_are_those_of_the_quotient();
  one_and_the_power_of_zero_are_exact_and_no_weight_exceeds_one();
  powers_of_two_and_the_seams_between_them_are_continuous();
  std::puts("ok");
}
