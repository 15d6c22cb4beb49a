// The loops of rectified.hpp for one instruction set; included once for each (no guard), in a namespace that says
//
//   DRIVETRAIN_KERNEL     the target attribute of every function here
//   kLanes, kWide, kWidest, kTile, find(), pack(), spread(), transpose_tile(): see the portable ones
//
// A matrix that is multiplied by is taken in as few panels of kWidest vectors or less as it can be, of about one width,
// so that what the inner loops read lies on whole vectors in some KiB one after another.

#include "drivetrain/vectors.inl"

inline std::size_t padded(std::size_t width) noexcept { return (width + kLanes - 1) / kLanes * kLanes; }

/// Calls `call.operator()<n>()` for a number of vectors, n in 1..kMost.
template <std::size_t kMost = kWide, class Call>
DRIVETRAIN_KERNEL inline void with_vectors(std::size_t num, const Call& call) noexcept {
  [&]<std::size_t... kFewer>(std::index_sequence<kFewer...>) DRIVETRAIN_KERNEL {
    ((num == kFewer + 1 ? call.template operator()<kFewer + 1>() : void()), ...);
  }(std::make_index_sequence<kMost>());
}

/// Columns of the block that begins at `from` of `width`.
inline std::size_t block_width(std::size_t from, std::size_t width) noexcept {
  return width - from < kBlock ? width - from : kBlock;
}

/// What is kept of the rows of [rows, width]: of block b and row r mask b * rows + r.
template <Kept kKept>
DRIVETRAIN_KERNEL inline void find_in_rows(const float* matrix, std::size_t rows, std::size_t width,
                                           Mask* masks) noexcept {
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t from = 0; from < width; from += kBlock)
      masks[from / kBlock * rows + row] = find<kKept>(matrix + row * width + from, block_width(from, width));
}

/// What is kept of its columns: of block b, of rows, and column c mask b * width + c.
template <Kept kKept>
DRIVETRAIN_KERNEL inline void find_in_columns(const float* matrix, std::size_t rows, std::size_t width,
                                              Mask* masks) noexcept {
  for (std::size_t from = 0; from < rows; from += kBlock, masks += width) {
    for (std::size_t i = 0; i < width; ++i) masks[i] = 0;
    for (std::size_t n = 0; n < block_width(from, rows); ++n, matrix += width)
      for (std::size_t i = 0; i < width; ++i) masks[i] |= static_cast<Mask>(is_kept<kKept>(matrix[i])) << n;
  }
}

/// A matrix [depth, width], panel by panel and of each some rows at a time: where they lie, or copied to `room`, padded
/// with zeros.
struct Matrix {
  const float* numbers;
  std::size_t width;
  float* room;
  std::size_t from = 0, wide = 0;  // of the panel

  DRIVETRAIN_KERNEL void turn_to(std::size_t panel, std::size_t its_width) noexcept {
    from = panel;
    wide = its_width;
  }

  DRIVETRAIN_KERNEL const float* rows(std::size_t first, std::size_t num) const noexcept {
    if (wide == width) return numbers + first * width;
    const std::size_t some = width - from < wide ? width - from : wide;
    for (std::size_t row = 0; row < num; ++row) {
      const float* source = numbers + (first + row) * width + from;
      float* to = room + row * wide;
      std::size_t i = 0;
      for (; i + kLanes <= some; i += kLanes) store(to + i, load(source + i));
      for (; i < some; ++i) to[i] = source[i];
      for (; i < wide; ++i) to[i] = 0;
    }
    return room;
  }
};

/// Of the transpose [width, rows] of a matrix [rows, width] the rows that are used, likewise; each is asked for once, in
/// their order. `room` is for kBlock + 2 kTile of them.
struct Transpose {
  const float* numbers;
  std::size_t num_rows, width;
  const Mask* used;
  float* room;
  std::size_t panel = 0, wide = 0;
  std::size_t next = 0;             // column that is not transposed yet
  std::size_t begin = 0, end = 0;   // what of the used rows is in the room

  DRIVETRAIN_KERNEL void turn_to(std::size_t from, std::size_t its_width) noexcept {
    panel = from;
    wide = its_width;
    next = begin = end = 0;
  }

  DRIVETRAIN_KERNEL const float* rows(std::size_t first, std::size_t num) noexcept {
    std::memmove(room, room + (first - begin) * wide, (end - first) * wide * sizeof(float));
    begin = first;
    while (end < first + num) add_tile();
    return room;
  }

  DRIVETRAIN_KERNEL void add_tile() noexcept {
    const std::size_t num = num_rows - panel < wide ? num_rows - panel : wide;
    const float* source = numbers + panel * width + next;
    float* to = room + (end - begin) * wide;
    const std::size_t tile = width - next < kTile ? width - next : kTile;
    const Mask set = used[next / kBlock] >> next % kBlock & ~Mask{0} >> (kBlock - tile);
    std::size_t start = 0;
    if (tile == kTile)
      for (; start + kTile <= num; start += kTile)
        transpose_tile(source + start * width, width, static_cast<unsigned>(set), to + start, wide);
    for (Mask left = set; left != 0; left &= left - 1, to += wide, ++end) {
      const float* column = source + std::countr_zero(left);
      for (std::size_t row = start; row < num; ++row) to[row] = column[row * width];
      for (std::size_t row = num; row < wide; ++row) to[row] = 0;
    }
    next += tile;
  }
};

/// out[0..kVectors] (+)= sum over what is kept of numbers[n * step] * row n of a matrix whose rows lie `stride` apart.
template <std::size_t kVectors>
DRIVETRAIN_KERNEL inline void add_rows(const float* numbers, std::size_t step, Mask kept, const float* matrix,
                                       std::size_t stride, float* out, bool first) noexcept {
  Vector sums[kVectors];
  if (first) {
#pragma GCC unroll 16
    for (std::size_t v = 0; v < kVectors; ++v) sums[v] = Vector{};
  } else {
#pragma GCC unroll 16
    for (std::size_t v = 0; v < kVectors; ++v) sums[v] = load(out + v * kLanes);
  }
  for (; kept != 0; kept &= kept - 1) {
    const auto n = static_cast<std::size_t>(std::countr_zero(kept));
    const float number = numbers[n * step];
    const float* row = matrix + n * stride;
#pragma GCC unroll 16
    for (std::size_t v = 0; v < kVectors; ++v) sums[v] += number * load(row + v * kLanes);
  }
#pragma GCC unroll 16
  for (std::size_t v = 0; v < kVectors; ++v) store(out + v * kLanes, sums[v]);
}

/// Numbers [rows, depth] of which a mask keeps some: of row r and place n at numbers + r * row_step + n * step.
struct Factor {
  const float* numbers;
  std::size_t row_step, step;
  const Mask* masks;  // of block b and row r at b * rows + r
};

/// Adds what is kept of all places, kDepth of them at a time for all rows, times a panel of kVectors.
template <std::size_t kVectors, class Right>
DRIVETRAIN_KERNEL inline void add_rows_of(const Factor& left, std::size_t depth, std::size_t rows, Right& right,
                                          float* out, std::size_t stride) noexcept {
  // What is read again and again, 32 KiB of a panel at most, stays in the first cache.
  constexpr std::size_t kDepth = kVectors * kLanes > 128 ? kBlock / 2 : kBlock;
  for (std::size_t from = 0; from < depth; from += kDepth) {
    const Mask* masks = left.masks + from / kBlock * rows;
    const float* numbers = left.numbers + from * left.step;
    const float* panel = right.rows(from, depth - from < kDepth ? depth - from : kDepth);
    for (std::size_t row = 0; row < rows; ++row) {
      const Mask kept = masks[row] >> from % kBlock & ~Mask{0} >> (kBlock - kDepth);
      add_rows<kVectors>(numbers + row * left.row_step, left.step, kept, panel, kVectors * kLanes, out + row * stride,
                         from == 0);
    }
  }
}

/// out [rows, padded(width)] = left [rows, depth] times a matrix [depth, width].
template <class Right>
DRIVETRAIN_KERNEL inline void multiply(const Factor& left, Right right, std::size_t rows, std::size_t depth,
                                       std::size_t width, float* out) noexcept {
  const std::size_t stride = padded(width);
  std::size_t num_panels = (stride / kLanes + kWidest - 1) / kWidest, wide = 0;
  for (std::size_t from = 0; from < stride; from += wide, --num_panels) {
    wide = padded((stride - from) / num_panels);
    right.turn_to(from, wide);
    with_vectors<kWidest>(wide / kLanes, [&]<std::size_t kVectors>() DRIVETRAIN_KERNEL {
      add_rows_of<kVectors>(left, depth, rows, right, out + from, stride);
    });
  }
}

DRIVETRAIN_KERNEL inline void product(const Sizes& sizes, const float* z, const float* w, float* y,
                                      Workspace& work) noexcept {
  const auto [rows, num_in, num_out] = sizes;
  find_in_rows<Kept::kPositive>(z, rows, num_in, work.kept);
  float* out = padded(num_out) == num_out ? y : work.product;
  multiply({z, num_in, 1, work.kept}, Matrix{w, num_out, work.panel}, rows, num_in, num_out, out);
  if (out == y) return;
  for (std::size_t row = 0; row < rows; ++row)
    std::memcpy(y + row * num_out, out + row * padded(num_out), num_out * sizeof(float));
}

/// Columns of [rows, width] with anything but zero in them; all, where that spares little. How many they are.
DRIVETRAIN_KERNEL inline std::size_t find_columns(const float* matrix, std::size_t rows, std::size_t width,
                                                  Mask* used) noexcept {
  const std::size_t num_masks = (width + kBlock - 1) / kBlock;
  for (std::size_t n = 0; n < num_masks; ++n) used[n] = 0;
  for (std::size_t row = 0; row < rows; ++row, matrix += width)
    for (std::size_t n = 0; n < num_masks; ++n)
      used[n] |= find<Kept::kNonzero>(matrix + n * kBlock, block_width(n * kBlock, width));
  std::size_t num = 0;
  for (std::size_t n = 0; n < num_masks; ++n) num += static_cast<std::size_t>(std::popcount(used[n]));
  if (8 * padded(num) < 7 * width) return num;
  for (std::size_t n = 0; n < num_masks; ++n) used[n] = ~Mask{0} >> (kBlock - block_width(n * kBlock, width));
  return width;
}

/// The used columns of [rows, width] as [rows, padded(num)], padded with zeros. May write a vector beyond it.
DRIVETRAIN_KERNEL inline void pack_columns(const float* matrix, std::size_t rows, std::size_t width, const Mask* used,
                                           std::size_t num, float* packed) noexcept {
  const std::size_t end = padded(num);
  for (std::size_t row = 0; row < rows; ++row, packed += end, matrix += width) {
    std::size_t at = 0;
    for (std::size_t from = 0; from < width; from += kBlock)
      at += pack(matrix + from, block_width(from, width), used[from / kBlock], packed + at);
    for (std::size_t i = num; i < end; ++i) packed[i] = 0;
  }
}

/// The reverse: [rows, padded(num)] becomes [rows, width], with zeros in the columns that are not used.
DRIVETRAIN_KERNEL inline void spread_columns(const float* packed, std::size_t rows, std::size_t width,
                                             const Mask* used, std::size_t num, float* matrix) noexcept {
  for (std::size_t row = 0; row < rows; ++row, packed += padded(num), matrix += width) {
    std::size_t at = 0;
    for (std::size_t from = 0; from < width; from += kBlock)
      at += spread(packed + at, block_width(from, width), used[from / kBlock], matrix + from);
  }
}

/// What there is to work on of dy: columns, without those of zeros, on whole vectors.
struct Slopes {
  const float* numbers;    // [rows, width]
  std::size_t num, width;  // columns of it, and with what pads them
};

/// That of dy [rows, num_out], whose columns work.used tells from the others.
DRIVETRAIN_KERNEL inline Slopes find_slopes(const float* dy, std::size_t rows, std::size_t num_out,
                                            Workspace& work) noexcept {
  const std::size_t num = find_columns(dy, rows, num_out, work.used), width = padded(num);
  if (width == num_out) return {dy, num, width};
  pack_columns(dy, rows, num_out, work.used, num, work.dy);
  return {work.dy, num, width};
}

DRIVETRAIN_KERNEL inline void weight_slopes(const Sizes& sizes, const float* z, const float* dy,
                                            float* dw, Workspace& work) noexcept {
  const auto [rows, num_in, num_out] = sizes;
  const Slopes slopes = find_slopes(dy, rows, num_out, work);
  const std::size_t width = slopes.width;
  find_in_columns<Kept::kPositive>(z, rows, num_in, work.kept);
  float* out = width == num_out ? dw : work.product;
  multiply({z, 1, num_in, work.kept}, Matrix{slopes.numbers, width, work.panel}, num_in, rows, width, out);
  if (out != dw) spread_columns(out, num_in, num_out, work.used, slopes.num, dw);
}

inline std::size_t count(const Mask* masks, std::size_t num) noexcept {
  std::size_t kept = 0;
  for (std::size_t n = 0; n < num; ++n) kept += static_cast<std::size_t>(std::popcount(masks[n]));
  return kept;
}

/// The sum of the products of `num` pairs, in four sums of vectors, then by halves.
DRIVETRAIN_KERNEL inline float dot(const float* left, const float* right, std::size_t num) noexcept {
  Vector sums[4]{};
  std::size_t i = 0;
  for (; i + 4 * kLanes <= num; i += 4 * kLanes)
#pragma GCC unroll 4
    for (std::size_t v = 0; v < 4; ++v) sums[v] += load(left + i + v * kLanes) * load(right + i + v * kLanes);
  for (; i + kLanes <= num; i += kLanes) sums[0] += load(left + i) * load(right + i);
  alignas(64) float lanes[kLanes];
  store(lanes, (sums[0] + sums[1]) + (sums[2] + sums[3]));
#pragma GCC unroll 4
  for (std::size_t half = kLanes / 2; half > 0; half /= 2)
#pragma GCC unroll 8
    for (std::size_t n = 0; n < half; ++n) lanes[n] += lanes[n + half];
  for (; i < num; ++i) lanes[0] += left[i] * right[i];
  return lanes[0];
}

/// dz where few of z are on, one by one: w need not be transposed for them.
DRIVETRAIN_KERNEL inline void input_slopes_of_few(const Sizes& sizes, const float* w, const float* dy, const Mask* kept,
                                                  float* dz) noexcept {
  const auto [rows, num_in, num_out] = sizes;
  std::memset(dz, 0, rows * num_in * sizeof(float));
  for (std::size_t from = 0; from < num_in; from += kBlock)
    for (std::size_t row = 0; row < rows; ++row)
      for (Mask left = *kept++; left != 0; left &= left - 1) {
        const std::size_t i = from + static_cast<std::size_t>(std::countr_zero(left));
        dz[row * num_in + i] = dot(dy + row * num_out, w + i * num_out, num_out);
      }
}

DRIVETRAIN_KERNEL inline void input_slopes(const Sizes& sizes, const float* z, const float* w,
                                           const float* dy, float* dz, Workspace& work) noexcept {
  const auto [rows, num_in, num_out] = sizes;
  const Slopes slopes = find_slopes(dy, rows, num_out, work);
  if (slopes.num == 0) {  // nothing would be summed
    std::memset(dz, 0, rows * num_in * sizeof(float));
    return;
  }
  find_in_rows<Kept::kPositive>(z, rows, num_in, work.kept);
  // In cycles, about. One by one: a vector of each product, and its sum. All: half a vector for each slope, of which half
  // are zero; a quarter for each number that is transposed.
  const std::size_t num_kept = count(work.kept, rows * ((num_in + kBlock - 1) / kBlock));
  const std::size_t one_by_one = num_kept * (num_out / kLanes + 10);
  if (one_by_one < num_in * (rows * slopes.num / (4 * kLanes) + num_out / 4))
    return input_slopes_of_few(sizes, w, dy, work.kept, dz);
  find_in_rows<Kept::kNonzero>(slopes.numbers, rows, slopes.width, work.kept);
  float* out = padded(num_in) == num_in ? dz : work.product;
  multiply({slopes.numbers, slopes.width, 1, work.kept}, Transpose{w, num_in, num_out, work.used, work.panel}, rows,
           slopes.num, num_in, out);
  for (std::size_t row = 0; row < rows; ++row, z += num_in, dz += num_in, out += padded(num_in)) {
    std::size_t i = 0;
    for (; i + kLanes <= num_in; i += kLanes) store(dz + i, load(z + i) <= Vector{} ? Vector{} : load(out + i));
    for (; i < num_in; ++i) dz[i] = z[i] <= 0.0f ? 0.0f : out[i];
  }
}

/// y [num_out] = bias + x [num_in] @ w, or max(x, 0) @ w.
DRIVETRAIN_KERNEL inline void affine(const float* x, bool is_rectified, std::size_t num_in, const float* w,
                                     const float* bias, std::size_t num_out, float* y) noexcept {
  std::memcpy(y, bias, num_out * sizeof(float));
  for (std::size_t at = 0; at < num_in; at += kBlock, x += kBlock, w += kBlock * num_out) {
    const std::size_t num = block_width(at, num_in);
    const Mask kept = is_rectified ? find<Kept::kPositive>(x, num) : ~Mask{0} >> (kBlock - num);
    std::size_t from = 0;
    const auto add = [&]<std::size_t kVectors>() DRIVETRAIN_KERNEL {
      for (; from + kVectors * kLanes <= num_out; from += kVectors * kLanes)
        add_rows<kVectors>(x, 1, kept, w + from, num_out, y + from, false);
    };
    add.template operator()<kWide>();
    add.template operator()<4>();
    add.template operator()<2>();
    add.template operator()<1>();
    if (from == num_out) continue;
    for (Mask left = kept; left != 0; left &= left - 1) {
      const auto n = static_cast<std::size_t>(std::countr_zero(left));
      for (std::size_t i = from; i < num_out; ++i) y[i] += x[n] * w[n * num_out + i];
    }
  }
}
