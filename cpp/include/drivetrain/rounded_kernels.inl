// The loops of rounded.hpp for one way to multiply; included once for each (no guard), in a namespace that says
//
//   DRIVETRAIN_KERNEL                                   the target attribute of every function here
//   Session                                             what has to be there while add_tiles() is called
//   round_along(), round_across(), turn(), add_tiles()  see the portable ones

/// Turns tiles where they lie.
DRIVETRAIN_KERNEL inline void turn_all(Word* tiles, std::size_t num) noexcept {
  for (std::size_t n = 0; n < num; ++n) turn(tiles + n * kWords);
}

/// A matrix [rows, width] whose numbers are summed up along its rows: tiles of kTile rows and kDepth columns.
template <bool kRectified, bool kTurned>
DRIVETRAIN_KERNEL inline void pack_along(const float* matrix, std::size_t rows, std::size_t width,
                                         Word* tiles) noexcept {
  const std::size_t depth = num_tiles(width, kDepth);
  for (std::size_t row = 0; row < rows; row += kTile, tiles += depth * kWords) {
    for (std::size_t n = 0; n < kTile; ++n)
      for (std::size_t column = 0; column < width; column += kDepth)
        round_along<kRectified>(matrix + (row + n) * width + column,
                                row + n < rows ? std::min(width - column, kDepth) : 0,
                                tiles + column / kDepth * kWords + n * kTile);
    if (kTurned) turn_all(tiles, depth);
  }
}

/// The same down its columns: tiles of kTile columns and kDepth rows.
template <bool kRectified, bool kTurned>
DRIVETRAIN_KERNEL inline void pack_across(const float* matrix, std::size_t rows, std::size_t width,
                                          Word* tiles) noexcept {
  const std::size_t across = num_tiles(width, kTile), depth = num_tiles(rows, kDepth);
  for (std::size_t row = 0; row < depth * kDepth; row += 2) {
    Word* const words = tiles + row / kDepth * kWords + row % kDepth / 2 * kTile;
    const float* const above = matrix + row * width;
    for (std::size_t n = 0; n < across; ++n) {
      const std::size_t column = n * kTile, num = std::min(width - column, kTile);
      round_across<kRectified>(above + column, row < rows ? num : 0, above + width + column,
                               row + 1 < rows ? num : 0, words + n * depth * kWords);
    }
  }
  if (kTurned) turn_all(tiles, across * depth);
}

/// out [rows, width] = what the tiles of a left and a right factor give, of `depth` tiles each; zero where z [rows,
/// width], if there is one, is not above zero.
DRIVETRAIN_KERNEL inline void multiply(const Word* left, const Word* right, std::size_t depth, std::size_t rows,
                                       std::size_t width, const float* z, float* out) noexcept {
  constexpr std::size_t kBlock = 2 * kTile;
  const std::size_t panel = depth * kWords;
  const Session session;
  const auto add_block = [&](std::size_t row, std::size_t column) DRIVETRAIN_KERNEL {
    const std::size_t down = std::min(rows - row, kBlock), across = std::min(width - column, kBlock);
    const bool whole = down % kTile == 0 && across % kTile == 0;
    alignas(64) float edge[kBlock * kBlock];
    float* const to = out + row * width + column;
    add_tiles(left + row / kTile * panel, down > kTile, right + column / kTile * panel, across > kTile, depth,
              whole ? to : edge, whole ? width : kBlock);
    if (!whole)
      for (std::size_t n = 0; n < down; ++n) std::memcpy(to + n * width, edge + n * kBlock, across * sizeof(float));
    if (z != nullptr)
      for (std::size_t n = 0; n < down; ++n) switch_off(z + (row + n) * width + column, across, to + n * width);
  };
  if (rows < width) {  // the larger factor is read once, the other again and again
    for (std::size_t column = 0; column < width; column += kBlock)
      for (std::size_t row = 0; row < rows; row += kBlock) add_block(row, column);
  } else {
    for (std::size_t row = 0; row < rows; row += kBlock)
      for (std::size_t column = 0; column < width; column += kBlock) add_block(row, column);
  }
}

DRIVETRAIN_KERNEL inline void product(const Sizes& sizes, bool rectified, const float* x, const float* w, float* y,
                                      Workspace& work) noexcept {
  const auto [rows, num_in, num_out] = sizes;
  rectified ? pack_along<true, false>(x, rows, num_in, work.left)
            : pack_along<false, false>(x, rows, num_in, work.left);
  pack_across<false, false>(w, num_in, num_out, work.right);
  multiply(work.left, work.right, num_tiles(num_in, kDepth), rows, num_out, nullptr, y);
}

DRIVETRAIN_KERNEL inline void weight_slopes(const Sizes& sizes, bool rectified, const float* x, const float* dy,
                                            float* dw, Workspace& work) noexcept {
  const auto [rows, num_in, num_out] = sizes;
  rectified ? pack_across<true, true>(x, rows, num_in, work.left)
            : pack_across<false, true>(x, rows, num_in, work.left);
  pack_across<false, false>(dy, rows, num_out, work.right);
  multiply(work.left, work.right, num_tiles(rows, kDepth), num_in, num_out, nullptr, dw);
}

DRIVETRAIN_KERNEL inline void input_slopes(const Sizes& sizes, bool rectified, const float* x, const float* w,
                                           const float* dy, float* dx, Workspace& work) noexcept {
  const auto [rows, num_in, num_out] = sizes;
  pack_along<false, false>(dy, rows, num_out, work.left);
  pack_along<false, true>(w, num_in, num_out, work.right);
  multiply(work.left, work.right, num_tiles(num_out, kDepth), rows, num_in, rectified ? x : nullptr, dx);
}
