// The loops of narrow.hpp for one instruction set; included once for each (no guard), see vectors.inl.

#include "drivetrain/vectors.inl"

/// sum + x * y, rounded as a lane of a vector is: left to them, compilers (GCC 16) fuse it in one copy of a loop and not
/// in another, and what a row gives depended on how many rows there were.
DRIVETRAIN_KERNEL inline float add_product(float sum, float x, float y) noexcept {
  if constexpr (kFuses) return __builtin_fmaf(x, y, sum);
  return sum + x * y;
}

/// kVectors vectors of kRows rows of y, from column `from` on.
template <std::size_t kRows, std::size_t kVectors>
DRIVETRAIN_KERNEL inline void spread_part(const float* x, const float* w, std::size_t few, std::size_t wide,
                                          std::size_t from, float* y) noexcept {
  Vector sums[kRows][kVectors] = {};
  for (std::size_t k = 0; k < few; ++k) {
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kVectors; ++v) {
      const Vector weights = load(w + k * wide + from + v * kLanes);
#pragma GCC unroll 2
      for (std::size_t row = 0; row < kRows; ++row) sums[row][v] += x[row * few + k] * weights;
    }
  }
#pragma GCC unroll 2
  for (std::size_t row = 0; row < kRows; ++row)
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kVectors; ++v) store(y + row * wide + from + v * kLanes, sums[row][v]);
}

template <std::size_t kRows>
DRIVETRAIN_KERNEL inline void spread_rows(const float* x, const float* w, std::size_t few, std::size_t wide,
                                          float* y) noexcept {
  std::size_t from = 0;
  for (; from + 4 * kLanes <= wide; from += 4 * kLanes) spread_part<kRows, 4>(x, w, few, wide, from, y);
  for (; from + kLanes <= wide; from += kLanes) spread_part<kRows, 1>(x, w, few, wide, from, y);
  for (; from < wide; ++from) {
    for (std::size_t row = 0; row < kRows; ++row) {
      float sum = 0;
      for (std::size_t k = 0; k < few; ++k) sum = add_product(sum, x[row * few + k], w[k * wide + from]);
      y[row * wide + from] = sum;
    }
  }
}

DRIVETRAIN_KERNEL inline void spread(const Sizes& sizes, const float* x, const float* w, float* y) noexcept {
  const auto [rows, few, wide] = sizes;
  std::size_t row = 0;
  for (; row + 2 <= rows; row += 2) spread_rows<2>(x + row * few, w, few, wide, y + row * wide);
  if (row < rows) spread_rows<1>(x + row * few, w, few, wide, y + row * wide);
}

/// Adds to kFew rows of w what kRows rows of x and y give.
template <std::size_t kRows, std::size_t kFew>
DRIVETRAIN_KERNEL inline void outer_part(const float* x, const float* y, std::size_t few, std::size_t wide,
                                         float* w) noexcept {
  float factors[kRows][kFew];
  for (std::size_t row = 0; row < kRows; ++row)
    for (std::size_t k = 0; k < kFew; ++k) factors[row][k] = x[row * few + k];
  std::size_t from = 0;
  for (; from + kLanes <= wide; from += kLanes) {
    Vector sums[kFew];
#pragma GCC unroll 2
    for (std::size_t k = 0; k < kFew; ++k) sums[k] = load(w + k * wide + from);
#pragma GCC unroll 4
    for (std::size_t row = 0; row < kRows; ++row) {
      const Vector numbers = load(y + row * wide + from);
#pragma GCC unroll 2
      for (std::size_t k = 0; k < kFew; ++k) sums[k] += factors[row][k] * numbers;
    }
#pragma GCC unroll 2
    for (std::size_t k = 0; k < kFew; ++k) store(w + k * wide + from, sums[k]);
  }
  for (; from < wide; ++from)
    for (std::size_t row = 0; row < kRows; ++row)
      for (std::size_t k = 0; k < kFew; ++k)
        w[k * wide + from] = add_product(w[k * wide + from], factors[row][k], y[row * wide + from]);
}

template <std::size_t kRows>
DRIVETRAIN_KERNEL inline void outer_rows(const float* x, const float* y, std::size_t few, std::size_t wide,
                                         float* w) noexcept {
  std::size_t k = 0;
  for (; k + 2 <= few; k += 2) outer_part<kRows, 2>(x + k, y, few, wide, w + k * wide);
  if (k < few) outer_part<kRows, 1>(x + k, y, few, wide, w + k * wide);
}

DRIVETRAIN_KERNEL inline void outer(const Sizes& sizes, const float* x, const float* y, float* w) noexcept {
  const auto [rows, few, wide] = sizes;
  std::memset(w, 0, few * wide * sizeof(float));
  std::size_t row = 0;
  for (; row + 4 <= rows; row += 4) outer_rows<4>(x + row * few, y + row * wide, few, wide, w);
  for (; row < rows; ++row) outer_rows<1>(x + row * few, y + row * wide, few, wide, w);
}

/// Products of kRows rows of y with kFew of w, each whole.
template <std::size_t kRows, std::size_t kFew>
DRIVETRAIN_KERNEL inline void gather_part(const float* y, const float* w, std::size_t few, std::size_t wide,
                                          float* x) noexcept {
  Vector sums[kRows][kFew] = {};
  std::size_t from = 0;
  for (; from + kLanes <= wide; from += kLanes) {
    Vector weights[kFew];
#pragma GCC unroll 2
    for (std::size_t k = 0; k < kFew; ++k) weights[k] = load(w + k * wide + from);
#pragma GCC unroll 4
    for (std::size_t row = 0; row < kRows; ++row) {
      const Vector numbers = load(y + row * wide + from);
#pragma GCC unroll 2
      for (std::size_t k = 0; k < kFew; ++k) sums[row][k] += numbers * weights[k];
    }
  }
  for (std::size_t row = 0; row < kRows; ++row) {
    for (std::size_t k = 0; k < kFew; ++k) {
      float lanes[kLanes];
      store(lanes, sums[row][k]);
      for (std::size_t half = kLanes / 2; half > 0; half /= 2)
        for (std::size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
      for (std::size_t i = from; i < wide; ++i) lanes[0] = add_product(lanes[0], y[row * wide + i], w[k * wide + i]);
      x[row * few + k] = lanes[0];
    }
  }
}

template <std::size_t kRows>
DRIVETRAIN_KERNEL inline void gather_rows(const float* y, const float* w, std::size_t few, std::size_t wide,
                                          float* x) noexcept {
  std::size_t k = 0;
  for (; k + 2 <= few; k += 2) gather_part<kRows, 2>(y, w + k * wide, few, wide, x + k);
  if (k < few) gather_part<kRows, 1>(y, w + k * wide, few, wide, x + k);
}

DRIVETRAIN_KERNEL inline void gather(const Sizes& sizes, const float* y, const float* w, float* x) noexcept {
  const auto [rows, few, wide] = sizes;
  std::size_t row = 0;
  for (; row + 4 <= rows; row += 4) gather_rows<4>(y + row * wide, w, few, wide, x + row * few);
  for (; row < rows; ++row) gather_rows<1>(y + row * wide, w, few, wide, x + row * few);
}
