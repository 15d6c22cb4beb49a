// A layer's products where one side is a few numbers wide: an observation, or the outputs of a head.
//
//   spread  y [rows, wide] = x [rows, few] @ w [few, wide]      a first layer; a head's slope by its input
//   outer   w [few, wide] = x [rows, few]^T @ y [rows, wide]    their slopes by the weight
//   gather  x [rows, few] = y [rows, wide] @ w [few, wide]^T    a head; a first layer's slope by its input
//
// A head's weight is turned over by the caller. Libraries cut such products into panels, which costs more than the
// product. What a row gives does not depend on the others, and sums run in one order, so equal arguments give equal bits.
#pragma once

#include <cstddef>
#include <cstring>

#include "drivetrain/simd.hpp"

namespace drivetrain::narrow {

struct Sizes {
  std::size_t rows, few, wide;
};

namespace portable {
constexpr std::size_t kLanes = 4;
#if defined(__FP_FAST_FMAF)
constexpr bool kFuses = true;
#else
constexpr bool kFuses = false;
#endif
#define DRIVETRAIN_KERNEL
#include "drivetrain/narrow_kernels.inl"
#undef DRIVETRAIN_KERNEL
}  // namespace portable

#if defined(DRIVETRAIN_TARGET)
namespace avx2 {
constexpr std::size_t kLanes = 8;
constexpr bool kFuses = true;
#define DRIVETRAIN_KERNEL DRIVETRAIN_TARGET("avx2,fma")
#include "drivetrain/narrow_kernels.inl"
#undef DRIVETRAIN_KERNEL
}  // namespace avx2

namespace avx512 {
constexpr std::size_t kLanes = 16;
constexpr bool kFuses = true;
#define DRIVETRAIN_KERNEL DRIVETRAIN_TARGET("avx512f,avx512dq,avx2,fma")
#include "drivetrain/narrow_kernels.inl"
#undef DRIVETRAIN_KERNEL
}  // namespace avx512
#endif

inline void spread(const Sizes& sizes, const float* x, const float* w, float* y, SimdLevel simd) noexcept {
  DRIVETRAIN_BY_LEVEL(simd, spread(sizes, x, w, y));
}

inline void outer(const Sizes& sizes, const float* x, const float* y, float* w, SimdLevel simd) noexcept {
  DRIVETRAIN_BY_LEVEL(simd, outer(sizes, x, y, w));
}

inline void gather(const Sizes& sizes, const float* y, const float* w, float* x, SimdLevel simd) noexcept {
  DRIVETRAIN_BY_LEVEL(simd, gather(sizes, y, w, x));
}

}  // namespace drivetrain::narrow
