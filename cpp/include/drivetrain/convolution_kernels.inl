// The loops of convolution.hpp for one instruction set; included once for each (no guard), in a namespace that says
//
//   DRIVETRAIN_KERNEL                       the target attribute of every function here
//   kLanes, kWide, kTile, Vector, find(), load(), padded(), store(), transpose_tile(), with_vectors():
//                                           those of rectified.hpp
//   list_kept(), put_four_side_by_side()    see the portable ones

constexpr std::size_t kPanel = kWide * kLanes;          // columns of a matrix that are taken at a time
constexpr std::size_t kNear = 8192;                     // numbers that the first cache keeps beside all else
constexpr std::size_t kTogether = kWide == 16 ? 5 : 2;  // outputs of bytes that are computed together,
constexpr std::size_t kBeside = kWide == 16 ? 2 : 4;    // and vectors of their channels

/// to [columns, to_stride] = from [rows, from_stride] transposed.
DRIVETRAIN_KERNEL inline void transpose(const float* from, std::size_t rows, std::size_t columns, std::size_t from_stride,
                                        float* to, std::size_t to_stride) noexcept {
  const std::size_t whole_rows = rows / kTile * kTile, whole_columns = columns / kTile * kTile;
  for (std::size_t r = 0; r < whole_rows; r += kTile)
    for (std::size_t c = 0; c < whole_columns; c += kTile)
      transpose_tile(from + r * from_stride + c, from_stride, ~0u, to + c * to_stride + r, to_stride);
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c)
      to[c * to_stride + r] = from[r * from_stride + c];
}

/// sums [kRows][kVectors] from `start`, plus value * what lies at its place in each of the rows of a matrix, for a
/// list, to `out`; rows of the three lie so many numbers apart.
template <std::size_t kRows, std::size_t kVectors>
DRIVETRAIN_KERNEL inline void add_listed(List list, std::size_t count, const float* matrix, std::size_t row,
                                         const float* start, float* out, std::size_t out_row) noexcept {
  constexpr bool kTwice = 2 * kRows * kVectors <= kWide;  // too few sums wait for themselves
  Vector sums[kRows * kVectors], others[kRows * kVectors];
#pragma GCC unroll 16
  for (std::size_t n = 0; n < kRows * kVectors; ++n) {
    sums[n] = load(start + n / kVectors * out_row + n % kVectors * kLanes);
    others[n] = Vector{};
  }
  const auto add = [&](std::size_t i, Vector* to) DRIVETRAIN_KERNEL {
    const float value = list.values[i];
    const float* from = matrix + list.places[i];
#pragma GCC unroll 16
    for (std::size_t n = 0; n < kRows * kVectors; ++n)
      to[n] += value * load(from + n / kVectors * row + n % kVectors * kLanes);
  };
  std::size_t i = 0;
  if constexpr (kTwice) {
    for (; i + 2 <= count; i += 2) {
      add(i, sums);
      add(i + 1, others);
    }
  }
  for (; i < count; ++i) add(i, sums);
#pragma GCC unroll 16
  for (std::size_t n = 0; n < kRows * kVectors; ++n)
    store(out + n / kVectors * out_row + n % kVectors * kLanes, kTwice ? sums[n] + others[n] : sums[n]);
}

/// Pixels whose taps, side by side, are summed at a time.
inline std::size_t pixels_at_once(const Layer& layer, std::size_t most) noexcept {
  return std::clamp<std::size_t>(most / layer.channels, 1, layer.side);
}

DRIVETRAIN_KERNEL inline void forward(const Layer& layer, std::size_t num, const float* z, const float* w,
                                      const float* bias, float* y, Workspace& work) noexcept {
  const std::size_t channels = layer.channels, num_out = layer.num_out, height = layer.height, width = layer.width;
  const std::size_t out_height = layer.out_height(), out_width = layer.out_width();
  const std::size_t wide = pixels_at_once(layer, kNear / num_out);
  std::uint32_t* places = work.take_places(layer.row());
  for (std::size_t i = 0; i < layer.row(); ++i) places[i] = static_cast<std::uint32_t>(i * num_out);
  std::uint32_t* starts = work.take_places(height * (width + 1));
  const List list{work.take_places(layer.size() + kLanes), work.take(layer.size() + kLanes)};
  if (num > 1 && reinterpret_cast<std::uintptr_t>(w) % 64 != 0) {  // vectors across two cache lines take half as long again
    float* aligned = work.take(layer.taps() * num_out);
    std::memcpy(aligned, w, layer.taps() * num_out * sizeof(float));
    w = aligned;
  }
  for (; num > 0; --num, z += layer.size(), y += layer.out_size()) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < height; ++i) {  // of each row what is positive, and where each pixel's begin
      for (std::size_t j = 0; j < width; ++j) {
        starts[i * (width + 1) + j] = static_cast<std::uint32_t>(count);
        count += list_kept<Kept::kPositive>(z + (i * width + j) * channels, places + j * channels, channels,
                                            {list.places + count, list.values + count});
      }
      starts[i * (width + 1) + width] = static_cast<std::uint32_t>(count);
    }
    for (std::size_t ky = 0; ky < layer.side; ++ky)
      for (std::size_t kx = 0; kx < layer.side; kx += wide) {
        const std::size_t end = std::min(kx + wide, layer.side);
        const float* rows = w + (ky * layer.side + kx) * channels * num_out;
        for (std::size_t from = 0; from < num_out; from += kPanel)
          with_vectors(std::min(num_out - from, kPanel) / kLanes, [&]<std::size_t kVectors>() DRIVETRAIN_KERNEL {
            for (std::size_t i = 0; i < out_height; ++i)
              for (std::size_t j = 0; j < out_width; ++j) {
                const std::uint32_t* start = starts + (i * layer.stride + ky) * (width + 1) + j * layer.stride;
                float* out = y + (i * out_width + j) * num_out + from;
                // Places count from the row's begin.
                const std::ptrdiff_t before = static_cast<std::ptrdiff_t>((j * layer.stride + kx) * channels * num_out);
                add_listed<1, kVectors>({list.places + start[kx], list.values + start[kx]}, start[end] - start[kx],
                                        rows + from - before, 0, ky + kx == 0 ? bias + from : out, out, 0);
              }
          });
      }
  }
}

/// A byte of which the image has many; the more, the less there is to do.
inline std::uint8_t common_byte(const std::uint8_t* bytes, std::size_t size) noexcept {
  std::uint16_t counts[256] = {};
  const std::size_t step = size / 1024 + 1;
  for (std::size_t i = 0; i < size; i += step) ++counts[bytes[i]];
  return static_cast<std::uint8_t>(std::max_element(counts, counts + 256) - counts);
}

/// numbers [height, width, channels] of bytes [channels, height, width], less one of them.
DRIVETRAIN_KERNEL inline void put_channels_last(const Layer& layer, const std::uint8_t* bytes, float less,
                                                float* numbers) noexcept {
  const std::size_t pixels = layer.height * layer.width, channels = layer.channels;
  for (std::size_t i = channels == 4 ? put_four_side_by_side(bytes, pixels, less, numbers) : 0; i < pixels; ++i)
    for (std::size_t c = 0; c < channels; ++c)
      numbers[i * channels + c] = static_cast<float>(bytes[c * pixels + i]) - less;
}

/// A bit for each number of a row that is not zero, the lowest first; reads of 64 may begin at any of them.
DRIVETRAIN_KERNEL inline void find_bits(const float* numbers, std::size_t num, std::uint8_t* bits) noexcept {
  for (std::size_t i = 0; i < num; i += rectified::kBlock) {
    const rectified::Mask some = find<Kept::kNonzero>(numbers + i, std::min(num - i, rectified::kBlock));
    std::memcpy(bits + i / 8, &some, sizeof some);
  }
}

inline std::uint64_t bits_from(const std::uint8_t* bits, std::size_t at) noexcept {
  std::uint64_t word;
  std::memcpy(&word, bits + at / 8, sizeof word);
  return word >> at % 8;
}
constexpr std::size_t kBits = 56;  // of that which are there wherever it begins

/// Outputs side by side of some bytes: y [kOutputs][kVectors of num_out].
template <std::size_t kOutputs, std::size_t kVectors>
DRIVETRAIN_KERNEL inline void add_pictured(const Layer& layer, const float* numbers, const std::uint8_t* bits,
                                           std::size_t bytes_of_row, std::size_t column, const float* w,
                                           const float* start, float* y) noexcept {
  const std::size_t step = layer.stride * layer.channels, run = layer.run(), num_out = layer.num_out;
  Vector sums[kOutputs * kVectors];
#pragma GCC unroll 16
  for (std::size_t n = 0; n < kOutputs * kVectors; ++n) sums[n] = load(start + n % kVectors * kLanes);
  for (std::size_t ky = 0; ky < layer.side; ++ky, numbers += layer.row(), bits += bytes_of_row, w += run * num_out)
    for (std::size_t from = 0; from < run; from += kBits) {
      std::uint64_t seen = 0;
#pragma GCC unroll 8
      for (std::size_t n = 0; n < kOutputs; ++n) seen |= bits_from(bits, column + n * step + from);
      const std::size_t some = std::min(run - from, kBits);
      for (seen &= (std::uint64_t{1} << some) - 1; seen != 0; seen &= seen - 1) {
        const std::size_t tap = from + static_cast<std::size_t>(std::countr_zero(seen));
        const float *x = numbers + column + tap, *row = w + tap * num_out;
#pragma GCC unroll 16
        for (std::size_t n = 0; n < kOutputs * kVectors; ++n)
          sums[n] += x[n / kVectors * step] * load(row + n % kVectors * kLanes);
      }
    }
#pragma GCC unroll 16
  for (std::size_t n = 0; n < kOutputs * kVectors; ++n)
    store(y + n / kVectors * num_out + n % kVectors * kLanes, sums[n]);
}

/// A row of outputs.
template <std::size_t kVectors>
DRIVETRAIN_KERNEL inline void add_pictured_row(const Layer& layer, const float* numbers, const std::uint8_t* bits,
                                               std::size_t bytes_of_row, const float* w, const float* start,
                                               float* y) noexcept {
  const std::size_t width = layer.out_width(), step = layer.stride * layer.channels;
  std::size_t j = 0;
  for (; j + kTogether <= width; j += kTogether)
    add_pictured<kTogether, kVectors>(layer, numbers, bits, bytes_of_row, j * step, w, start, y + j * layer.num_out);
  for (; j < width; ++j)
    add_pictured<1, kVectors>(layer, numbers, bits, bytes_of_row, j * step, w, start, y + j * layer.num_out);
}

DRIVETRAIN_KERNEL inline void forward(const Layer& layer, std::size_t num, const std::uint8_t* bytes, const float* w,
                                      const float* bias, float* y, Workspace& work) noexcept {
  const std::size_t num_out = layer.num_out, taps = layer.taps(), row = layer.row();
  const std::size_t bytes_of_row = row / 8 + 9;
  float* weights = work.take(taps * num_out);
  float* sums = work.take(num_out);  // of all taps, what a common byte is multiplied by
  float* start = work.take(num_out);
  float* numbers = work.take(layer.size());
  auto* bits = reinterpret_cast<std::uint8_t*>(work.take(layer.height * bytes_of_row / 4 + 3));
  std::memset(sums, 0, num_out * sizeof(float));
  std::memset(bits, 0, layer.height * bytes_of_row);
  for (std::size_t i = 0; i < taps; ++i)
    for (std::size_t n = 0; n < num_out; ++n) {
      weights[i * num_out + n] = w[i * num_out + n] * (1.0f / 255);
      sums[n] += weights[i * num_out + n];
    }
  for (; num > 0; --num, bytes += layer.size(), y += layer.out_size()) {
    const auto common = static_cast<float>(common_byte(bytes, layer.size()));
    for (std::size_t n = 0; n < num_out; ++n) start[n] = bias[n] + common * sums[n];
    put_channels_last(layer, bytes, common, numbers);
    for (std::size_t i = 0; i < layer.height; ++i) find_bits(numbers + i * row, row, bits + i * bytes_of_row);
    for (std::size_t i = 0; i < layer.out_height(); ++i) {
      const std::size_t above = i * layer.stride;
      float* out = y + i * layer.out_width() * num_out;
      const auto add = [&]<std::size_t kVectors>(std::size_t from) DRIVETRAIN_KERNEL {
        add_pictured_row<kVectors>(layer, numbers + above * row, bits + above * bytes_of_row, bytes_of_row,
                                   weights + from, start + from, out + from);
      };
      std::size_t from = 0;
      for (; from + kBeside * kLanes <= num_out; from += kBeside * kLanes) add.template operator()<kBeside>(from);
      for (; from < num_out; from += kLanes) add.template operator()<1>(from);
    }
  }
}

/// x [height, width, channels] as numbers to multiply by, and by what the sums are multiplied in the end.
DRIVETRAIN_KERNEL inline float to_numbers(const Layer& layer, const float* z, float* numbers) noexcept {
  for (std::size_t i = 0; i < layer.size(); i += kLanes) {
    const Vector some = load(z + i);
    store(numbers + i, some <= Vector{} ? Vector{} : some);
  }
  return 1;
}
DRIVETRAIN_KERNEL inline float to_numbers(const Layer& layer, const std::uint8_t* bytes, float* numbers) noexcept {
  put_channels_last(layer, bytes, 0, numbers);
  return 1.0f / 255;
}

/// Rows of the kernel that are summed together, where each has so many vectors of taps.
constexpr std::size_t rows_at_once(std::size_t vectors) noexcept {
  std::size_t rows = 8;
  while (rows > 1 && rows * vectors > kWide) rows /= 2;
  return rows;
}

/// For each output channel what dy has for some outputs, listed.
struct Columns {
  List list;
  std::uint32_t* starts;  // of each channel, and the end
};

/// sums [side][num_out][width] += the taps from `from` on that the listed outputs saw of each row of the kernel.
template <std::size_t kRows, std::size_t kVectors>
DRIVETRAIN_KERNEL inline void add_seen(const Layer& layer, const Columns& columns, const float* numbers, std::size_t ky,
                                       float* sums) noexcept {
  constexpr std::size_t kWidth = kVectors * kLanes;
  for (std::size_t n = 0; n < layer.num_out; ++n) {
    const std::size_t start = columns.starts[n], end = columns.starts[n + 1];
    float* out = sums + (ky * layer.num_out + n) * kWidth;
    add_listed<kRows, kVectors>({columns.list.places + start, columns.list.values + start}, end - start,
                                numbers + ky * layer.row(), layer.row(), out, out, layer.num_out * kWidth);
  }
}

template <class Number>
DRIVETRAIN_KERNEL inline void weight_slopes(const Layer& layer, std::size_t num, const Number* x, const float* dy,
                                            float* dw, float* dbias, Workspace& work) noexcept {
  const std::size_t num_out = layer.num_out, run = layer.run(), out_width = layer.out_width();
  const std::size_t num_sums = layer.side * num_out * padded(run);
  float* numbers = work.take(layer.size() + kLanes);  // a run's last vector may go beyond it
  float* sums = work.take(num_sums);
  float* turned = work.take(layer.out_size() + num_out * kTile);
  std::uint32_t* places = work.take_places(layer.outputs());
  const std::size_t most = layer.out_size() + kLanes;
  const Columns columns{{work.take_places(most), work.take(most)}, work.take_places(num_out + 1)};
  for (std::size_t i = 0; i < layer.outputs(); ++i)
    places[i] = static_cast<std::uint32_t>((i / out_width * layer.width + i % out_width) * layer.stride * layer.channels);
  std::memset(sums, 0, num_sums * sizeof(float));
  std::memset(numbers + layer.size(), 0, kLanes * sizeof(float));
  std::memset(dbias, 0, num_out * sizeof(float));
  float scale = 1;
  for (std::size_t image = 0; image < num; ++image, x += layer.size(), dy += layer.out_size()) {
    scale = to_numbers(layer, x, numbers);
    for (std::size_t i = 0; i < layer.outputs(); ++i)
      for (std::size_t n = 0; n < num_out; n += kLanes)
        store(dbias + n, load(dbias + n) + load(dy + i * num_out + n));
    // As many rows of outputs at a time as see what the first cache keeps half of; fewer begin sums too often.
    const std::size_t rows = std::max<std::size_t>(1, 2 * kNear / (layer.row() * layer.stride));
    for (std::size_t i = 0; i < layer.out_height(); i += rows) {
      const std::size_t first = i * out_width, last = std::min(i + rows, layer.out_height()) * out_width;
      transpose(dy + first * num_out, last - first, num_out, num_out, turned, last - first);
      std::size_t count = 0;
      for (std::size_t n = 0; n < num_out; ++n) {
        columns.starts[n] = static_cast<std::uint32_t>(count);
        count += list_kept<Kept::kNonzero>(turned + n * (last - first), places + first, last - first,
                                           {columns.list.places + count, columns.list.values + count});
      }
      columns.starts[num_out] = static_cast<std::uint32_t>(count);
      float* out = sums;
      for (std::size_t from = 0; from < run; from += kPanel) {
        const std::size_t width = padded(std::min(run - from, kPanel));
        with_vectors(width / kLanes, [&]<std::size_t kVectors>() DRIVETRAIN_KERNEL {
          constexpr std::size_t kRows = rows_at_once(kVectors);
          std::size_t ky = 0;
          for (; ky + kRows <= layer.side; ky += kRows)
            add_seen<kRows, kVectors>(layer, columns, numbers + from, ky, out);
          for (; ky < layer.side; ++ky) add_seen<1, kVectors>(layer, columns, numbers + from, ky, out);
        });
        out += layer.side * num_out * width;
      }
    }
  }
  float* out = sums;
  for (std::size_t from = 0; from < run; from += kPanel) {
    const std::size_t taps = std::min(run - from, kPanel), width = padded(taps);
    for (std::size_t ky = 0; ky < layer.side; ++ky, out += num_out * width)
      transpose(out, num_out, taps, width, dw + (ky * run + from) * num_out, num_out);
  }
  for (std::size_t i = 0; i < layer.taps() * num_out; i += kLanes) store(dw + i, load(dw + i) * scale);
}

DRIVETRAIN_KERNEL inline void input_slopes(const Layer& layer, std::size_t num, const float* z, const float* w,
                                           const float* dy, float* dz, Workspace& work) noexcept {
  const std::size_t channels = layer.channels, num_out = layer.num_out;
  const std::size_t out_height = layer.out_height(), out_width = layer.out_width();
  const std::size_t wide = pixels_at_once(layer, std::min(kPanel, kNear / num_out)), width = wide * channels;
  float* turned = work.take(layer.side * (layer.run() + width) * num_out);
  std::uint32_t *places = work.take_places(num_out), *starts = work.take_places(layer.outputs() + 1);
  const std::size_t most = layer.out_size() + kLanes;
  const List list{work.take_places(most), work.take(most)};
  for (std::size_t n = 0; n < num_out; ++n) places[n] = static_cast<std::uint32_t>(n * width);
  // For each row of the kernel and each part of it: w's transpose, rows `width` apart.
  float* panel = turned;
  for (std::size_t ky = 0; ky < layer.side; ++ky)
    for (std::size_t kx = 0; kx < layer.side; kx += wide, panel += num_out * width)
      transpose(w + (ky * layer.side + kx) * channels * num_out, std::min(wide, layer.side - kx) * channels, num_out,
                num_out, panel, width);
  for (; num > 0; --num, z += layer.size(), dy += layer.out_size(), dz += layer.size()) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < layer.outputs(); ++i) {
      starts[i] = static_cast<std::uint32_t>(count);
      count += list_kept<Kept::kNonzero>(dy + i * num_out, places, num_out, {list.places + count, list.values + count});
    }
    starts[layer.outputs()] = static_cast<std::uint32_t>(count);
    std::memset(dz, 0, layer.size() * sizeof(float));
    panel = turned;
    for (std::size_t ky = 0; ky < layer.side; ++ky)
      for (std::size_t kx = 0; kx < layer.side; kx += wide, panel += num_out * width) {
        const std::size_t pixels = std::min(wide, layer.side - kx);
        const std::size_t apart = (pixels + layer.stride - 1) / layer.stride;  // outputs that see nothing in common
        for (std::size_t from = 0; from < pixels * channels; from += kPanel)
          with_vectors(std::min(pixels * channels - from, kPanel) / kLanes, [&]<std::size_t kVectors>() DRIVETRAIN_KERNEL {
            for (std::size_t i = 0; i < out_height; ++i)
              for (std::size_t first = 0; first < apart; ++first)
                for (std::size_t j = first; j < out_width; j += apart) {
                  const std::size_t at = i * out_width + j;
                  float* out = dz + ((i * layer.stride + ky) * layer.width + j * layer.stride + kx) * channels + from;
                  add_listed<1, kVectors>({list.places + starts[at], list.values + starts[at]},
                                          starts[at + 1] - starts[at], panel + from, 0, out, out, 0);
                }
          });
      }
    for (std::size_t i = 0; i < layer.size(); i += kLanes)
      store(dz + i, load(z + i) <= Vector{} ? Vector{} : load(dz + i));
  }
}
