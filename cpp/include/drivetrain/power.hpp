// x^y for many x at once: leaves from priorities, importance weights from probabilities.
//
//   x = 2^e * m, m in [sqrt(1/2), sqrt(2))      s = (m - 1) / (m + 1)
//   log2 x = e + 2 / ln 2 * (s + s^3/3 + s^5/5 + ...)             |s| < 0.172: eight terms
//   x^y = 2^n * exp(f * ln 2), n + f = y * log2 x, |f| <= 1/2      Taylor, eleven terms
//
// A library's pow costs 16 ns per value and differs between libraries. This one is additions,
// multiplications, one division and integer shifts in double, in one fixed order, so that every
// instruction set and reference.py get the same bits. CMakeLists.txt sets -ffp-contract=off for it,
// or some CPUs would fuse multiplications and additions. The loop is left to the compiler to vectorise.
//
// Relative error below 1e-13, and so nearly always the float32 nearest to the true value; 1 to any
// power, and anything to the power of 0, is exactly 1 (test_power).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "drivetrain/simd.hpp"

namespace drivetrain {

namespace power_terms {
inline constexpr double kLn2 = 0.693147180559945309417;
inline constexpr unsigned kLog = 8, kExp = 11;
struct Terms {
  double log2[kLog];  // 2 / ((2k + 1) ln 2)
  double exp[kExp];   // 1 / k!
};
constexpr Terms make() noexcept {
  Terms terms{};
  for (unsigned k = 0; k < kLog; ++k) terms.log2[k] = 2.0 / ((2 * k + 1) * kLn2);
  double factorial = 1;
  for (unsigned k = 0; k < kExp; ++k) {
    terms.exp[k] = 1.0 / factorial;
    factorial *= k + 1;
  }
  return terms;
}
inline constexpr Terms kTerms = make();

// terms[k] + z * (terms[k + 1] + z * ...): unrolled by recursion, or the caller's loop is not
// vectorised. Even and odd terms apart make two chains of half the length.
template <std::size_t k, std::size_t num>
[[gnu::always_inline]] inline double every_second(const double (&terms)[num], double zz) noexcept {
  if constexpr (k + 2 >= num) {
    return terms[k];
  } else {
    return every_second<k + 2>(terms, zz) * zz + terms[k];
  }
}
template <std::size_t num>
[[gnu::always_inline]] inline double series(const double (&terms)[num], double z) noexcept {
  return every_second<0>(terms, z * z) + every_second<1>(terms, z * z) * z;
}
}  // namespace power_terms

[[gnu::always_inline]] inline double log2_of(double x) noexcept {
  using namespace power_terms;
  constexpr std::uint64_t kHalfRoot = 0x3FE6A09E667F3BCDull;  // bits of sqrt(1/2)
  constexpr std::uint64_t kInteger = 0x4330000000000000ull;   // bits of 2^52
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t biased = (bits - kHalfRoot + (1024ull << 52)) >> 52;  // e + 1024
  const double e = std::bit_cast<double>(biased | kInteger) - (0x1p52 + 1024);
  const auto m = std::bit_cast<double>(bits - (biased << 52) + (1024ull << 52));
  const double s = (m - 1) / (m + 1);
  return e + s * series(kTerms.log2, s * s);
}

[[gnu::always_inline]] inline double two_to(double exponent) noexcept {
  using namespace power_terms;
  constexpr double kRound = 0x1.8p52;  // adding it leaves an integer in the low bits
  const double shifted = exponent + kRound;
  const double f = (exponent - (shifted - kRound)) * kLn2;
  const std::uint64_t scale = (std::bit_cast<std::uint64_t>(shifted) + 1023) << 52;  // 2^n
  return series(kTerms.exp, f) * std::bit_cast<double>(scale);
}

/// x^y for a normal x > 0 where the result is a normal double as well.
inline double power(double x, double y) noexcept { return two_to(y * log2_of(x)); }

/// results[i] = min((x[i] / one)^y, largest), rounded to float32, where log2_one is log2_of(one); for x and
/// one as power() takes them. Two short loops and not one: the CPU then has more values under way at once.
inline void powers_relative(const double* x, double log2_one, double y, double largest, float* results,
                            std::size_t count, SimdLevel simd) noexcept {
  at_level(simd, [=]() DRIVETRAIN_INLINED {
    constexpr std::size_t kBlock = 256;
    double exponents[kBlock];
    for (std::size_t start = 0; start < count; start += kBlock) {
      const std::size_t num = count - start < kBlock ? count - start : kBlock;
      for (std::size_t i = 0; i < num; ++i) exponents[i] = y * (log2_of(x[start + i]) - log2_one);
      for (std::size_t i = 0; i < num; ++i) {
        const double result = two_to(exponents[i]);
        results[start + i] = static_cast<float>(result < largest ? result : largest);
      }
    }
  });
}

/// results[i] = min(x[i]^y, largest).
inline void powers(const double* x, double y, double largest, float* results, std::size_t count,
                   SimdLevel simd) noexcept {
  powers_relative(x, 0.0, y, largest, results, count, simd);  // log2_of(1) is 0, exactly
}

}  // namespace drivetrain
