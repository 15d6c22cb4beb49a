// The loops of rounded_convolution.hpp for one way to multiply; included once for each (no guard), behind those of
// rounded_kernels.inl, in a namespace that says besides
//
//   copy_along(), copy_across()  see the portable ones

/// Rounds what is seen of an image behind units.
DRIVETRAIN_KERNEL inline void round_image(const Layer& layer, const Layer&, const float* x, Half* to) noexcept {
  for (std::size_t at = 0; at < layer.size(); at += kDepth)
    round_along<true>(x + at, std::min(layer.size() - at, kDepth), reinterpret_cast<Word*>(to + at));
}

/// Puts the bytes of an image side by side, with zeros where channels were added.
DRIVETRAIN_KERNEL inline void round_image(const Layer& layer, const Layer& wide, const std::uint8_t* x,
                                          Half* to) noexcept {
  const std::size_t pixels = layer.height * layer.width;
  for (std::size_t channel = 0; channel < wide.channels; channel += 2) {
    // Two at a time, a word for each pixel; `channels` of `wide` are even.
    const std::uint8_t* const first = channel < layer.channels ? x + channel * pixels : nullptr;
    const std::uint8_t* const second = channel + 1 < layer.channels ? x + (channel + 1) * pixels : nullptr;
    auto* const words = reinterpret_cast<PairOfHalves*>(to + channel);
    for (std::size_t pixel = 0; pixel < pixels; ++pixel) {
      const Word low = first != nullptr ? kHalves[first[pixel]] : 0;
      const Word high = second != nullptr ? kHalves[second[pixel]] : 0;
      words[pixel * wide.channels / 2] = low | high << 16;
    }
  }
}

/// Where the taps of an output begin in its image.
inline std::size_t taps_of(const Layer& wide, std::size_t output) noexcept {
  const std::size_t i = output / wide.out_width(), j = output % wide.out_width();
  return i * wide.stride * wide.row() + j * wide.stride * wide.channels;
}

/// Those of an output of the images.
inline const Half* taps_of(const Layer& wide, const Half* images, std::size_t output) noexcept {
  return images + output / wide.outputs() * num_halves(wide) + taps_of(wide, output % wide.outputs());
}

/// The patches [num * outputs, taps] of images as a left factor.
DRIVETRAIN_KERNEL inline void pack_patches(const Layer& wide, std::size_t num, const Half* images,
                                           Word* tiles) noexcept {
  const std::size_t depth = wide.taps() / kDepth, rows = num * wide.outputs(), run = wide.run();
  for (std::size_t row = 0; row < num_tiles(rows, kTile) * kTile; ++row) {
    Word* to = tiles + row / kTile * depth * kWords + row % kTile * kTile;
    const bool there = row < rows;
    const Half* from = there ? taps_of(wide, images, row) : images;
    for (std::size_t side = 0; side < wide.side; ++side, from += wide.row())
      for (std::size_t at = 0; at < run; at += kDepth, to += kWords) copy_along(from + at, there, to);
  }
}

/// The same [taps, num * outputs], turned over.
DRIVETRAIN_KERNEL inline void pack_turned_patches(const Layer& wide, std::size_t num, const Half* images,
                                                  Word* tiles) noexcept {
  const std::size_t rows = num * wide.outputs(), depth = num_tiles(rows, kDepth), run = wide.run();
  for (std::size_t row = 0; row < depth * kDepth; row += 2) {
    Word* to = tiles + row / kDepth * kWords + row % kDepth / 2 * kTile;
    const bool first_there = row < rows, second_there = row + 1 < rows;
    const Half* first = first_there ? taps_of(wide, images, row) : images;
    const Half* second = second_there ? taps_of(wide, images, row + 1) : images;
    for (std::size_t side = 0; side < wide.side; ++side, first += wide.row(), second += wide.row())
      for (std::size_t at = 0; at < run; at += kTile, to += depth * kWords)
        copy_across(first + at, first_there, second + at, second_there, to);
  }
  turn_all(tiles, wide.taps() / kTile * depth);
}

/// Rounds images and calls `part(first, num)` when the halves of some are there.
template <class Number, class Part>
DRIVETRAIN_KERNEL inline void with_some_images(const Layer& layer, const Layer& wide, std::size_t num, const Number* x,
                                               Half* halves, const Part& part) noexcept {
  const std::size_t at_once = images_at_once(layer);
  for (std::size_t first = 0; first < num; first += at_once) {
    const std::size_t some = std::min(num - first, at_once);
    for (std::size_t n = 0; n < some; ++n)
      round_image(layer, wide, x + (first + n) * layer.size(), halves + n * num_halves(wide));
    part(first, some);
  }
}

template <class Number>
DRIVETRAIN_KERNEL inline void forward(const Layer& layer, std::size_t num, const Number* x, const float* w,
                                      const float* bias, float* y, ConvolutionWorkspace& work) noexcept {
  const Layer wide = widened(layer);
  const std::size_t num_out = layer.num_out, depth = wide.taps() / kDepth;
  pack_across<false, false>(with_more_channels(layer, wide, w, work.weight), wide.taps(), num_out, work.right);
  with_some_images(layer, wide, num, x, work.halves, [&](std::size_t first, std::size_t some) DRIVETRAIN_KERNEL {
    const std::size_t rows = some * layer.outputs();
    float* to = y + first * layer.out_size();
    pack_patches(wide, some, work.halves, work.left);
    multiply(work.left, work.right, depth, rows, num_out, nullptr, to);
    for (std::size_t row = 0; row < rows; ++row, to += num_out)
      for (std::size_t n = 0; n < num_out; ++n) to[n] = to[n] * kUnit<Number> + bias[n];
  });
}

template <class Number>
DRIVETRAIN_KERNEL inline void weight_slopes(const Layer& layer, std::size_t num, const Number* x, const float* dy,
                                            float* dw, float* dbias, ConvolutionWorkspace& work) noexcept {
  const Layer wide = widened(layer);
  const std::size_t num_out = layer.num_out, size = wide.taps() * num_out;
  std::fill_n(work.sums, size, 0.0f);
  std::fill_n(dbias, num_out, 0.0f);
  with_some_images(layer, wide, num, x, work.halves, [&](std::size_t first, std::size_t some) DRIVETRAIN_KERNEL {
    const std::size_t rows = some * layer.outputs();
    const float* slopes = dy + first * layer.out_size();
    pack_turned_patches(wide, some, work.halves, work.left);
    pack_across<false, false>(slopes, rows, num_out, work.right);
    multiply(work.left, work.right, num_tiles(rows, kDepth), wide.taps(), num_out, nullptr, work.weight);
    for (std::size_t n = 0; n < size; ++n) work.sums[n] += work.weight[n] * kUnit<Number>;
    for (std::size_t row = 0; row < rows; ++row, slopes += num_out)
      for (std::size_t n = 0; n < num_out; ++n) dbias[n] += slopes[n];
  });
  with_fewer_channels(layer, wide, work.sums, dw);
}

DRIVETRAIN_KERNEL inline void input_slopes(const Layer& layer, std::size_t num, const float* z, const float* w,
                                           const float* dy, float* dz, ConvolutionWorkspace& work) noexcept {
  const std::size_t num_out = layer.num_out, taps = layer.taps(), at_once = images_at_once(layer);
  pack_along<false, true>(w, taps, num_out, work.right);
  for (std::size_t first = 0; first < num; first += at_once) {
    const std::size_t some = std::min(num - first, at_once), rows = some * layer.outputs();
    pack_along<false, false>(dy + first * layer.out_size(), rows, num_out, work.left);
    multiply(work.left, work.right, num_tiles(num_out, kDepth), rows, taps, nullptr, work.patches);
    const float* patch = work.patches;
    for (std::size_t n = first; n < first + some; ++n) {
      float* const image = dz + n * layer.size();
      std::fill_n(image, layer.size(), 0.0f);
      for (std::size_t output = 0; output < layer.outputs(); ++output) {
        float* to = image + taps_of(layer, output);
        for (std::size_t side = 0; side < layer.side; ++side, to += layer.row(), patch += layer.run())
          for (std::size_t i = 0; i < layer.run(); ++i) to[i] += patch[i];
      }
      switch_off(z + n * layer.size(), layer.size(), image);
    }
  }
}
