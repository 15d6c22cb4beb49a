// A step of Adam in one pass: gradient, both means and the parameter are read once, and what changes is written once.
//
//   g <- scale g;   m <- keep_m m + take_m g;   v <- keep_v v + take_v g^2;   p <- p + step m / (sqrt(v) spread + epsilon)
//
// What is common to all numbers is worked out by the caller (optimizers.py). Numbers do not depend on each other, so
// equal arguments give equal bits; the sum of the gradient's squares is taken in one order.
#pragma once

#include <cmath>
#include <cstddef>

#include "drivetrain/simd.hpp"

namespace drivetrain::adam {

/// What is common to all numbers: the first ones in the order in which XLA hands them over.
struct Factors {
  float keep_m, take_m, keep_v, take_v, step, spread, epsilon;
  float scale = 1;  // of the gradient, not of what is taken of it: its square may be beyond all floats
};
inline constexpr std::size_t kNumFactors = offsetof(Factors, scale) / sizeof(float);

/// `size` numbers each; m, v and p are changed.
struct Piece {
  std::size_t size;
  const float* g;
  float *m, *v, *p;
};

namespace portable {
constexpr std::size_t kLanes = 4;
#define DRIVETRAIN_KERNEL
#include "drivetrain/vectors.inl"
inline Vector root(Vector x) noexcept {
  for (std::size_t lane = 0; lane < kLanes; ++lane) x[lane] = std::sqrt(x[lane]);
  return x;
}
#include "drivetrain/adam_kernels.inl"
#undef DRIVETRAIN_KERNEL
}  // namespace portable

#if defined(DRIVETRAIN_TARGET)
namespace avx2 {
constexpr std::size_t kLanes = 8;
#define DRIVETRAIN_KERNEL DRIVETRAIN_TARGET("avx2,fma")
#include "drivetrain/vectors.inl"
DRIVETRAIN_KERNEL inline Vector root(Vector x) noexcept {
  float numbers[kLanes];
  store(numbers, x);
  _mm256_storeu_ps(numbers, _mm256_sqrt_ps(_mm256_loadu_ps(numbers)));
  return load(numbers);
}
#include "drivetrain/adam_kernels.inl"
#undef DRIVETRAIN_KERNEL
}  // namespace avx2

namespace avx512 {
constexpr std::size_t kLanes = 16;
#define DRIVETRAIN_KERNEL DRIVETRAIN_TARGET("avx512f,avx512dq,avx2,fma")
#include "drivetrain/vectors.inl"
DRIVETRAIN_KERNEL inline Vector root(Vector x) noexcept {
  float numbers[kLanes];
  store(numbers, x);
  const __m512 all = _mm512_loadu_ps(numbers);  // GCC warns of what the intrinsic without a mask leaves undefined
  _mm512_storeu_ps(numbers, _mm512_mask_sqrt_ps(all, 0xffff, all));
  return load(numbers);
}
#include "drivetrain/adam_kernels.inl"
#undef DRIVETRAIN_KERNEL
}  // namespace avx512
#endif

/// The sum of the squares of a piece's gradient.
inline double squares(const Piece& piece, SimdLevel simd) noexcept {
  DRIVETRAIN_BY_LEVEL(simd, pass<false>({}, piece));
}

/// Steps a piece, and returns the sum of its gradient's squares.
inline double step(const Factors& factors, const Piece& piece, SimdLevel simd) noexcept {
  DRIVETRAIN_BY_LEVEL(simd, pass<true>(factors, piece));
}

}  // namespace drivetrain::adam
