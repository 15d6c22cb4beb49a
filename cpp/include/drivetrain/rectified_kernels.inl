// The loops of rectified.hpp for one instruction set; included once for each (no guard), with
//
//   DRIVETRAIN_KERNEL  the target attribute of every function here
//   kLanes             float32 numbers in a vector, in the enclosing namespace
//   keep(), pack_row(), spread(), transpose_tile(): see the portable ones
//
// A matrix "in panels" is cut into bands of kWide vectors (the last may be narrower), one band after
// the other, so that what the inner loops read lies on whole vectors in a few KiB one after another.

#include "drivetrain/vectors.inl"

constexpr std::size_t kPanel = kWide * kLanes;

inline std::size_t padded(std::size_t width) noexcept { return (width + kLanes - 1) / kLanes * kLanes; }

/// Vectors in the panel that begins at column `from` of `width`, a multiple of kLanes.
inline std::size_t panel_width(std::size_t from, std::size_t width) noexcept {
  return width - from < kPanel ? width - from : kPanel;
}

/// What is kept of [rows, width], as lists.
template <Kept kKept>
DRIVETRAIN_KERNEL inline void find(const float* matrix, std::size_t rows, std::size_t width, Lists& lists) noexcept {
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t from = 0, block = 0; from < width; from += kBlock, ++block) {
      const std::size_t at = (block * rows + row) * kBlock;
      const std::size_t num = width - from < kBlock ? width - from : kBlock;
      lists.counts[block * rows + row] =
          keep<kKept>(matrix + row * width + from, num, lists.values + at, lists.places + at);
    }
  }
}

/// [rows, width] in panels, padded with zeros.
DRIVETRAIN_KERNEL inline void to_panels(const float* matrix, std::size_t rows, std::size_t width,
                                        float* panels) noexcept {
  for (std::size_t from = 0; from < width; from += kPanel) {
    const std::size_t wide = panel_width(from, padded(width));
    const std::size_t num = width - from < wide ? width - from : wide;
    for (std::size_t row = 0; row < rows; ++row, panels += wide) {
      const float* source = matrix + row * width + from;
      std::size_t i = 0;
      for (; i + kLanes <= num; i += kLanes) store(panels + i, load(source + i));
      for (; i < num; ++i) panels[i] = source[i];
      for (; i < wide; ++i) panels[i] = 0;
    }
  }
}

/// [rows, width] becomes [width, rows], whose rows lie `stride` apart.
DRIVETRAIN_KERNEL inline void transpose(const float* matrix, std::size_t rows, std::size_t width, float* transposed,
                                        std::size_t stride) noexcept {
  for (std::size_t from = 0; from < width; from += kGroup) {
    for (std::size_t start = 0; start < rows; start += kGroup) {
      if (from + kGroup <= width && start + kGroup <= rows) {
        transpose_tile(matrix + start * width + from, width, transposed + from * stride + start, stride);
        continue;
      }
      for (std::size_t i = from; i < width && i < from + kGroup; ++i)
        for (std::size_t row = start; row < rows && row < start + kGroup; ++row)
          transposed[i * stride + row] = matrix[row * width + i];
    }
  }
}

/// The transpose [width, rows] of [rows, width] in panels, padded with zeros.
DRIVETRAIN_KERNEL inline void to_transposed_panels(const float* matrix, std::size_t rows, std::size_t width,
                                                   float* panels) noexcept {
  for (std::size_t from = 0; from < rows; from += kPanel) {
    const std::size_t wide = panel_width(from, padded(rows));
    const std::size_t num = rows - from < wide ? rows - from : wide;
    transpose(matrix + from * width, num, width, panels, wide);
    for (std::size_t i = 0; i < width; ++i, panels += wide)
      for (std::size_t row = num; row < wide; ++row) panels[row] = 0;
  }
}

/// Some columns of [rows, width] as [rows, padded(num)], padded with zeros. May write kGroup beyond it.
DRIVETRAIN_KERNEL inline void pack_columns(const float* matrix, std::size_t rows, std::size_t width,
                                           const Columns& columns, float* packed) noexcept {
  const std::size_t end = padded(columns.num);
  for (std::size_t row = 0; row < rows; ++row, packed += end) {
    pack_row(matrix + row * width, width, columns, packed);
    for (std::size_t i = columns.num; i < end; ++i) packed[i] = 0;
  }
}

/// out[0..kVectors] (+)= sum of values[n] * row places[n] of a matrix whose rows lie `stride` apart.
template <std::size_t kVectors>
DRIVETRAIN_KERNEL inline void add_rows(const float* values, const std::uint32_t* places,
                                       std::size_t count, const float* matrix, std::size_t stride,
                                       float* out, bool first) noexcept {
  Vector sums[kVectors];
  if (first) {
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVectors; ++v) sums[v] = Vector{};
  } else {
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVectors; ++v) sums[v] = load(out + v * kLanes);
  }
  for (std::size_t n = 0; n < count; ++n) {
    const float* row = matrix + places[n] * stride;
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVectors; ++v) sums[v] += values[n] * load(row + v * kLanes);
  }
#pragma GCC unroll 8
  for (std::size_t v = 0; v < kVectors; ++v) store(out + v * kLanes, sums[v]);
}

template <std::size_t kVectors>
DRIVETRAIN_KERNEL inline void add_rows_of(const Lists& lists, std::size_t block, std::size_t rows,
                                          const float* panel, float* out, std::size_t stride) noexcept {
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t at = (block * rows + row) * kBlock;
    add_rows<kVectors>(lists.values + at, lists.places + at, lists.counts[block * rows + row], panel,
                       kVectors * kLanes, out + row * stride, block == 0);
  }
}

/// out [rows, padded(width)] = the lists [rows, depth] times a matrix [depth, width] in panels.
DRIVETRAIN_KERNEL inline void multiply(const Lists& lists, const float* panels, std::size_t rows,
                                       std::size_t depth, std::size_t width, float* out) noexcept {
  const std::size_t stride = padded(width);
  for (std::size_t from = 0; from < stride; from += kPanel) {
    const std::size_t wide = panel_width(from, stride);
    for (std::size_t block = 0; block * kBlock < depth; ++block) {
      const float* panel = panels + depth * from + block * kBlock * wide;
      float* target = out + from;
      switch (wide / kLanes) {
        case 8: add_rows_of<8>(lists, block, rows, panel, target, stride); break;
        case 7: add_rows_of<7>(lists, block, rows, panel, target, stride); break;
        case 6: add_rows_of<6>(lists, block, rows, panel, target, stride); break;
        case 5: add_rows_of<5>(lists, block, rows, panel, target, stride); break;
        case 4: add_rows_of<4>(lists, block, rows, panel, target, stride); break;
        case 3: add_rows_of<3>(lists, block, rows, panel, target, stride); break;
        case 2: add_rows_of<2>(lists, block, rows, panel, target, stride); break;
        default: add_rows_of<1>(lists, block, rows, panel, target, stride);
      }
    }
  }
}

DRIVETRAIN_KERNEL inline void product(const Sizes& sizes, const float* z, const float* w, float* y,
                                      Workspace& work) noexcept {
  const auto [rows, num_in, num_out] = sizes;
  find<Kept::kPositive>(z, rows, num_in, work.lists);
  to_panels(w, num_in, num_out, work.panels);
  float* out = padded(num_out) == num_out ? y : work.product;
  multiply(work.lists, work.panels, rows, num_in, num_out, out);
  if (out == y) return;
  for (std::size_t row = 0; row < rows; ++row)
    std::memcpy(y + row * num_out, out + row * padded(num_out), num_out * sizeof(float));
}

/// Columns of [rows, width] with anything but zero in them; all, where that spares little.
DRIVETRAIN_KERNEL inline void find_columns(const float* matrix, std::size_t rows, std::size_t width,
                                           Columns& columns) noexcept {
  for (std::size_t i = 0; i < width; ++i) columns.used[i] = 0;
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t i = 0; i < width; ++i)
      columns.used[i] |= matrix[row * width + i] != 0.0f ? ~std::uint32_t{0} : 0;
  std::size_t num = 0;
  for (std::size_t i = 0; i < width; ++i) num += columns.used[i] & 1;
  if (8 * num >= 7 * width)
    for (std::size_t i = 0; i < width; ++i) columns.used[i] = ~std::uint32_t{0};
  columns.num = 0;
  for (std::size_t i = 0; i < width; ++i) {
    if (i % kGroup == 0) columns.starts[i / kGroup] = static_cast<std::uint32_t>(columns.num);
    columns.places[i] = static_cast<std::uint32_t>(columns.num) - columns.starts[i / kGroup];
    columns.num += columns.used[i] & 1;
  }
}

/// [rows, num] becomes [rows, width], with zeros in the columns that are not used.
DRIVETRAIN_KERNEL inline void spread_columns(const float* packed, std::size_t rows, std::size_t width,
                                             const Columns& columns, float* matrix) noexcept {
  const std::size_t stride = padded(columns.num);
  for (std::size_t row = 0; row < rows; ++row, packed += stride, matrix += width) {
    std::size_t i = 0;
    for (; i + kGroup <= width; i += kGroup)
      spread(packed + columns.starts[i / kGroup], columns.places + i, columns.used + i, matrix + i);
    for (; i < width; ++i)
      matrix[i] = columns.used[i] == 0 ? 0 : packed[columns.starts[i / kGroup] + columns.places[i]];
  }
}

DRIVETRAIN_KERNEL inline void weight_slopes(const Sizes& sizes, const float* z, const float* dy,
                                            float* dw, Workspace& work) noexcept {
  const auto [rows, num_in, num_out] = sizes;
  find_columns(dy, rows, num_out, work.columns);
  const std::size_t num = work.columns.num, width = padded(num);
  if (num == 0) {
    std::memset(dw, 0, num_in * num_out * sizeof(float));
    return;
  }
  if (width != num_out) {
    pack_columns(dy, rows, num_out, work.columns, work.dy);
    dy = work.dy;
  }
  to_panels(dy, rows, width, work.panels);
  transpose(z, rows, num_in, work.transposed, rows);
  find<Kept::kPositive>(work.transposed, num_in, rows, work.lists);
  float* out = width == num_out ? dw : work.product;
  multiply(work.lists, work.panels, num_in, rows, num, out);
  if (out != dw) spread_columns(out, num_in, num_out, work.columns, dw);
}

DRIVETRAIN_KERNEL inline void input_slopes(const Sizes& sizes, const float* z, const float* w,
                                           const float* dy, float* dz, Workspace& work) noexcept {
  const auto [rows, num_in, num_out] = sizes;
  find<Kept::kNonzero>(dy, rows, num_out, work.lists);
  to_transposed_panels(w, num_in, num_out, work.panels);
  float* out = padded(num_in) == num_in ? dz : work.product;
  multiply(work.lists, work.panels, rows, num_out, num_in, out);
  for (std::size_t row = 0; row < rows; ++row, z += num_in, dz += num_in, out += padded(num_in)) {
    std::size_t i = 0;
    for (; i + kLanes <= num_in; i += kLanes) store(dz + i, load(z + i) <= Vector{} ? Vector{} : load(out + i));
    for (; i < num_in; ++i) dz[i] = z[i] <= 0.0f ? 0.0f : out[i];
  }
}

/// y [num_out] = bias + values [count] times rows places[n] of w [.., num_out].
DRIVETRAIN_KERNEL inline void affine(const float* values, const std::uint32_t* places, std::size_t count,
                                     const float* w, const float* bias, std::size_t num_out,
                                     float* y) noexcept {
  std::memcpy(y, bias, num_out * sizeof(float));
  std::size_t from = 0;
  const auto add = [&]<std::size_t kVectors>() DRIVETRAIN_KERNEL {
    for (; from + kVectors * kLanes <= num_out; from += kVectors * kLanes)
      add_rows<kVectors>(values, places, count, w + from, num_out, y + from, false);
  };
  add.template operator()<8>();
  add.template operator()<4>();
  add.template operator()<2>();
  add.template operator()<1>();
  for (std::size_t n = 0; from < num_out && n < count; ++n)
    for (std::size_t i = from; i < num_out; ++i) y[i] += values[n] * w[places[n] * num_out + i];
}
