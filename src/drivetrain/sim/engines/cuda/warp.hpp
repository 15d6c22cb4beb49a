// Between threads and memory; comes after prelude.hpp in every CUDA kernel. The 32 environments of a warp are a tile:
// what one of them stores lies in memory beside what its neighbour stores.
INLINE int lane() { return (int)(threadIdx.x % LANES); }

// ---- a thread's own arrays, and tables of constants ------------------------------------------------------

template <class T>
INLINE Lane<T> gather(const Lane<T>* rows, vi index) {
  return rows[index.x];
}
template <class V, class T>
INLINE V lookup(const T* table, vi index) {
  return V(table[index.x]);
}
template <class T>
INLINE void scatter(Lane<T>* rows, vi index, Lane<T> value, vi mask) {
  if (mask.x != 0) rows[index.x] = value;
}

// ---- the arrays of a call --------------------------------------------------------------------------------

template <class V, class T>
INLINE V load(const T* from, int64_t stride, int num_valid) {  // the last valid lane stands in for those beyond
  const int l = lane() < num_valid ? lane() : num_valid - 1;
  return V((decltype(V::x))from[l * stride]);
}
INLINE vi load_mask(const uint8_t* from, int64_t stride, int num_valid) { return load<vi>(from, stride, num_valid) != 0; }
template <class T, class V>
INLINE void store(T* to, int64_t stride, int num_valid, V value) {
  if (lane() < num_valid) to[lane() * stride] = (T)value.x;
}
INLINE void store_mask(uint8_t* to, int64_t stride, int num_valid, vi m) { store(to, stride, num_valid, m & 1); }
template <int SIZE, class V, class T>
INLINE void load_rows(const T* from, int num_valid, V* to) {
#pragma unroll(SIZE <= IN_REGISTERS ? SIZE : 1)
  for (int i = 0; i < SIZE; ++i) to[i] = load<V>(from + i, SIZE, num_valid);
}
template <int SIZE>
INLINE void load_masks(const uint8_t* from, int num_valid, vi* to) {
#pragma unroll(SIZE <= IN_REGISTERS ? SIZE : 1)
  for (int i = 0; i < SIZE; ++i) to[i] = load_mask(from + i, SIZE, num_valid);
}

// ---- rows: SIZE elements of each environment side by side, environment after environment ---------------------

template <int NBYTES>
struct Unit {  // the largest integer that a row is whole numbers of, and that its address is a multiple of
  typedef uint8_t type;
};
template <>
struct Unit<2> {
  typedef uint16_t type;
};
template <>
struct Unit<4> {
  typedef uint32_t type;
};
template <class T, class U, class At>
INLINE U unit_of(int number, At at) {  // elements that share a unit, brought together
  constexpr int in_unit = sizeof(U) / sizeof(T);
  uint32_t bits = 0;
#pragma unroll
  for (int e = 0; e < in_unit; ++e) {
    const uint32_t element = ((vu)at(number * in_unit + e)).x;
    bits |= in_unit == 1 ? element : (element & ((1u << (8 * sizeof(T) & 31)) - 1)) << (8 * sizeof(T) * e);
  }
  return (U)bits;
}

// A warp's memory for bringing rows into order. Rows of an odd number of words, so that neighbouring threads never
// write to the same bank.
INLINE uint32_t* stage() {
  __shared__ uint32_t staged[THREADS / LANES][LANES * (CHUNK + 1)];
  return staged[threadIdx.x / LANES];
}
// WIDTH units of every thread's row: written to shared memory row by row, and to memory 32 neighbours at a time.
template <class T, class U, int WIDTH, int ROW, class At>
INLINE void store_chunk(U* to, int first, int num_valid, At at) {
  constexpr int stride = WIDTH | 1;
  uint32_t* const staged = stage();
#pragma unroll
  for (int j = 0; j < WIDTH; ++j) staged[lane() * stride + j] = unit_of<T, U>(first + j, at);
  __syncwarp();
#pragma unroll
  for (int k = 0; k < WIDTH; ++k) {
    const int row = (k * LANES + lane()) / WIDTH, j = (k * LANES + lane()) % WIDTH;
    if (row < num_valid) to[row * ROW + first + j] = (U)staged[row * stride + j];
  }
  __syncwarp();
}
template <class U, int NUM>
struct alignas(NUM * sizeof(U)) Whole {
  U units[NUM];
};
template <class T, int SIZE, class At>
INLINE void store_rows(T* to, int num_valid, At at) {
  constexpr int nbytes = SIZE * sizeof(T);
  typedef typename Unit<nbytes % 4 == 0 ? 4 : nbytes % 2 == 0 ? 2 : 1>::type U;
  constexpr int row = nbytes / sizeof(U), left = row % CHUNK;
  if constexpr (row == 1 || row == 2 || row == 4) {  // one instruction stores it
    Whole<U, row> whole;
#pragma unroll
    for (int j = 0; j < row; ++j) whole.units[j] = unit_of<T, U>(j, at);
    if (lane() < num_valid) ((Whole<U, row>*)to)[lane()] = whole;
  } else {
#pragma unroll(SIZE <= IN_REGISTERS ? SIZE : 1)
    for (int first = 0; first < row - left; first += CHUNK) store_chunk<T, U, CHUNK, row>((U*)to, first, num_valid, at);
    if constexpr (left > 0) store_chunk<T, U, left, row>((U*)to, row - left, num_valid, at);
  }
}
