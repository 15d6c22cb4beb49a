// The loop of adam.hpp for one instruction set; included once for each (no guard), after vectors.inl and `root`.

/// The squares of the gradient's vector at `from`; where kSteps, of the scaled one, and the piece is stepped there.
template <bool kSteps>
DRIVETRAIN_KERNEL inline Vector vector_at(const Factors& by, const Piece& piece, std::size_t from) noexcept {
  const Vector g = kSteps ? by.scale * load(piece.g + from) : load(piece.g + from), square = g * g;
  if constexpr (kSteps) {
    const Vector m = by.keep_m * load(piece.m + from) + by.take_m * g;
    const Vector v = by.keep_v * load(piece.v + from) + by.take_v * square;
    store(piece.m + from, m);
    store(piece.v + from, v);
    store(piece.p + from, load(piece.p + from) + by.step * m / (root(v) * by.spread + by.epsilon));
  }
  return square;
}

/// Likewise of one number.
template <bool kSteps>
DRIVETRAIN_KERNEL inline float number_at(const Factors& by, const Piece& piece, std::size_t at) noexcept {
  const float g = kSteps ? by.scale * piece.g[at] : piece.g[at], square = g * g;
  if constexpr (kSteps) {
    const float m = by.keep_m * piece.m[at] + by.take_m * g, v = by.keep_v * piece.v[at] + by.take_v * square;
    piece.m[at] = m;
    piece.v[at] = v;
    piece.p[at] += by.step * m / (std::sqrt(v) * by.spread + by.epsilon);
  }
  return square;
}

/// The sum of the squares, of blocks in single precision; where kSteps, the piece is stepped.
template <bool kSteps>
DRIVETRAIN_KERNEL inline double pass(const Factors& by, const Piece& piece) noexcept {
  constexpr std::size_t kAtOnce = 4, kBlock = 256 * kLanes;
  double total = 0;
  std::size_t at = 0;
  while (at + kLanes <= piece.size) {
    Vector sums[kAtOnce] = {};
    const std::size_t end = piece.size - at < kBlock ? piece.size : at + kBlock;
    for (; at + kAtOnce * kLanes <= end; at += kAtOnce * kLanes) {
#pragma GCC unroll 4
      for (std::size_t i = 0; i < kAtOnce; ++i) sums[i] += vector_at<kSteps>(by, piece, at + i * kLanes);
    }
    for (; at + kLanes <= end; at += kLanes) sums[0] += vector_at<kSteps>(by, piece, at);
    for (std::size_t i = 0; i < kAtOnce; ++i)
      for (std::size_t lane = 0; lane < kLanes; ++lane) total += static_cast<double>(sums[i][lane]);
  }
  for (; at < piece.size; ++at) total += static_cast<double>(number_at<kSteps>(by, piece, at));
  return total;
}
