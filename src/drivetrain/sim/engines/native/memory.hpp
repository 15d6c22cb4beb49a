// Between lanes and memory; comes after prelude.hpp in every kernel. Columns are a lane's own rows of a tile's memory,
// rows are elements of one environment side by side in the arrays of a call.

#include <cstdio>
#include <cstdlib>

// While a call lasts, denormals are numbers, whichever thread it is on: XLA's take them for zero, and who called may have
// asked for that, too.
struct Denormals {
#if defined(__SSE__)
  const unsigned before = __builtin_ia32_stmxcsr();
  Denormals() { set(before & ~0x8040u); }
  ~Denormals() { set(before); }
  static void set(unsigned control) {
    asm volatile("" ::: "memory");
    __builtin_ia32_ldmxcsr(control);
    asm volatile("" ::: "memory");
  }
#elif defined(__aarch64__)
  uint64_t before;
  Denormals() {
    asm volatile("mrs %0, fpcr" : "=r"(before));
    set(before & ~(uint64_t{1} << 24));
  }
  ~Denormals() { set(before); }
  static void set(uint64_t control) { asm volatile("msr fpcr, %0" : : "r"(control) : "memory"); }
#else
  Denormals() {}
#endif
  Denormals(const Denormals&) = delete;
};

// A kernel's large arrays, of so many vectors in all; used where a thread's stack has no room for them.
struct Heap {
  char* const whole;
  explicit Heap(std::size_t size) : whole((char*)std::aligned_alloc(64, (size * LANES * 4 + 63) / 64 * 64)) {
    if (whole == nullptr) {
      std::fputs("drivetrain.sim: there is no memory for a kernel's arrays\n", stderr);
      std::abort();
    }
  }
  Heap(const Heap&) = delete;
  ~Heap() { std::free(whole); }
};

// Words are moved eight at a time. Sixteen lanes are two such halves, so that both widths run the same lines.
#if LANES % 8 == 0 && defined(__AVX2__)
#define HAS_WORDS 1
typedef int32_t w8 __attribute__((vector_size(32), may_alias));
#if defined(WIDE) && (defined(__clang__) || __GNUC__ >= 12)  // through memory a whole would wait for what was written as halves
template <class V>
INLINE w8 half_of(const V& v, int k) {
  const w16 whole = (w16)v;
  return k == 0 ? __builtin_shufflevector(whole, whole, 0, 1, 2, 3, 4, 5, 6, 7)
                : __builtin_shufflevector(whole, whole, 8, 9, 10, 11, 12, 13, 14, 15);
}
template <class V>
INLINE void set_half(V& v, int k, w8 part) {
  const w8 other = half_of(v, 1 - k), low = k == 0 ? part : other, high = k == 0 ? other : part;
  v = (V)__builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
#else
template <class V>
INLINE w8 half_of(const V& v, int k) {
  w8 part;
  std::memcpy(&part, (const char*)&v + 32 * k, 32);
  return part;
}
template <class V>
INLINE void set_half(V& v, int k, w8 part) { std::memcpy((char*)&v + 32 * k, &part, 32); }
#endif
INLINE w8 gather8(const void* from, w8 place) {  // r[l] = from[place[l]]
#ifdef __clang__
  return (w8)__builtin_ia32_gatherd_d256(w8{}, (const int*)from, place, ~w8{}, 4);
#else
  return (w8)__builtin_ia32_gathersiv8si(w8{}, (const int*)from, place, ~w8{}, 4);
#endif
}
INLINE vi gather_words(const void* from, vi place) {
#ifdef WIDE
  return (vi)__builtin_ia32_gathersiv16si(w16{}, from, (w16)place, (short)-1, 4);
#else
  vi r;
  for (int k = 0; k < LANES / 8; ++k) set_half(r, k, gather8(from, half_of(place, k)));
  return r;
#endif
}
#ifdef __clang__
#define MIX(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define MIX(a, b, ...) __builtin_shuffle(a, b, w8{__VA_ARGS__})
#endif
INLINE void transpose(w8* r) {  // r[i][l] becomes r[l][i]: pairs of words, of pairs, of halves
#define PAIRS(k) const w8 a##k = MIX(r[k], r[k + 1], 0, 8, 1, 9, 4, 12, 5, 13), b##k = MIX(r[k], r[k + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  PAIRS(0) PAIRS(2) PAIRS(4) PAIRS(6)
#undef PAIRS
#define LOW(x, y) MIX(x, y, 0, 1, 8, 9, 4, 5, 12, 13)
#define HIGH(x, y) MIX(x, y, 2, 3, 10, 11, 6, 7, 14, 15)
  const w8 c0 = LOW(a0, a2), c1 = HIGH(a0, a2), c2 = LOW(b0, b2), c3 = HIGH(b0, b2);
  const w8 d0 = LOW(a4, a6), d1 = HIGH(a4, a6), d2 = LOW(b4, b6), d3 = HIGH(b4, b6);
#undef LOW
#undef HIGH
#define HALVES(k) r[k] = MIX(c##k, d##k, 0, 1, 2, 3, 8, 9, 10, 11), r[k + 4] = MIX(c##k, d##k, 4, 5, 6, 7, 12, 13, 14, 15);
  HALVES(0) HALVES(1) HALVES(2) HALVES(3)
#undef HALVES
}
INLINE vi lane_numbers() {
#if LANES == 16
  return vi{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#else
  return vi{0, 1, 2, 3, 4, 5, 6, 7};
#endif
}
#endif
template <class V>
INLINE V gather(const V* rows, vi index) {  // each lane from its own column
#ifdef HAS_WORDS
  return (V)gather_words(rows, index * LANES + lane_numbers());
#else
  V r;
  for (int l = 0; l < LANES; ++l) r[l] = rows[index[l]][l];
  return r;
#endif
}
template <class V, class T>
INLINE V lookup(const T* table, vi index) {  // each lane from one table of 32-bit numbers
#ifdef HAS_WORDS
  static_assert(sizeof(T) == 4, "tables hold 32-bit numbers");
  return (V)gather_words(table, index);
#else
  V r;
  for (int l = 0; l < LANES; ++l) r[l] = table[index[l]];
  return r;
#endif
}
template <class V>
INLINE void scatter(V* rows, vi index, V value, vi mask) {
  if (!any(mask)) return;  // most puts of a game happen in few lanes or none
  for (int l = 0; l < LANES; ++l)
    if (mask[l]) rows[index[l]][l] = value[l];
}
template <class V, class T>
INLINE V load(const T* from, int64_t stride, int num_valid) {  // the last valid lane stands in for those beyond
  V r;
  if (sizeof(T) == 4 && stride == 1 && num_valid == LANES) {
    std::memcpy(&r, from, sizeof r);
    return r;
  }
  for (int l = 0; l < LANES; ++l) r[l] = from[(l < num_valid ? l : num_valid - 1) * stride];
  return r;
}
INLINE vi load_mask(const uint8_t* from, int64_t stride, int num_valid) { return load<vi>(from, stride, num_valid) != 0; }
template <class T, class V>
INLINE void store(T* to, int64_t stride, int num_valid, V value) {
  if (sizeof(T) == 4 && stride == 1 && num_valid == LANES) {
    std::memcpy(to, &value, sizeof value);
    return;
  }
  if constexpr (sizeof(T) < 4)
    if (stride == 1 && num_valid == LANES) {
      typedef T packed __attribute__((vector_size(LANES * sizeof(T))));
      const packed narrow = __builtin_convertvector(value, packed);
      std::memcpy(to, &narrow, sizeof narrow);
      return;
    }
  for (int l = 0; l < num_valid; ++l) to[l * stride] = (T)value[l];
}
INLINE void store_mask(uint8_t* to, int64_t stride, int num_valid, vi m) { store(to, stride, num_valid, m & 1); }

// Lanes of a group of tiles, by their number in the group.
INLINE int list_lanes(int32_t* listed, int num_listed, int first, vi mask) {  // those of a mask; how many there are then
#ifdef WIDE
  for (unsigned set = bits_of(mask); set != 0; set &= set - 1) listed[num_listed++] = first + __builtin_ctz(set);
#elif defined(HAS_WORDS)
  typedef float w __attribute__((vector_size(32)));
  for (int k = 0; k < LANES / 8; ++k)
    for (unsigned set = (unsigned)__builtin_ia32_movmskps256((w)half_of(mask, k)); set != 0; set &= set - 1)
      listed[num_listed++] = first + 8 * k + __builtin_ctz(set);
#else
  for (int l = 0; l < LANES; ++l) listed[num_listed] = first + l, num_listed += mask[l] & 1;
#endif
  return num_listed;
}
template <class V>
INLINE void spread(V* rows, const int32_t* places, int num, V value) {
  for (int l = 0; l < num; ++l) rows[places[l] / LANES][places[l] % LANES] = value[l];
}

// Rows: SIZE elements of each lane side by side in memory, lane after lane.
template <int SIZE, class V, class T>
INLINE void load_rows(const T* from, int num_valid, V* to) {
  int i = 0;
#ifdef HAS_WORDS
  if (sizeof(T) == 4 && num_valid == LANES)
    for (; i + 8 <= SIZE; i += 8)
      for (int k = 0; k < LANES / 8; ++k) {
        w8 rows[8];
#pragma GCC unroll 8
        for (int l = 0; l < 8; ++l) std::memcpy(&rows[l], from + (8 * k + l) * SIZE + i, 32);
        transpose(rows);
#pragma GCC unroll 8
        for (int e = 0; e < 8; ++e) set_half(to[i + e], k, rows[e]);
      }
#endif
  for (; i < SIZE; ++i) to[i] = load<V>(from + i, SIZE, num_valid);
}
template <int SIZE>
INLINE void load_masks(const uint8_t* from, int num_valid, vi* to) {
  for (int i = 0; i < SIZE; ++i) to[i] = load_mask(from + i, SIZE, num_valid);
}
// Elements that share a word of memory are brought together first: a store of 32 bytes takes as long as one of a byte.
template <class T, int SIZE, class At>
INLINE vi word_of(int first, At at) {
  constexpr int bits = 8 * sizeof(T);
  if (bits == 32) return (vi)at(first);
  vi word{};
  for (int e = 0; e < 32 / bits; ++e)
    if (first + e < SIZE) word |= ((vi)at(first + e) & (int32_t)((1u << (bits & 31)) - 1)) << (bits * e);
  return word;
}
#ifdef HAS_WORDS
template <class T, int SIZE, int NBYTES, class At>
INLINE void store_part(T* to, int first, At at) {  // NBYTES, at most 32, of every lane
  constexpr int in_word = 4 / sizeof(T);
  vi words[8]{};
#pragma GCC unroll 8
  for (int e = 0; e < 8; ++e)
    if (4 * e < NBYTES) words[e] = word_of<T, SIZE>(first + e * in_word, at);
  for (int k = 0; k < LANES / 8; ++k) {
    w8 rows[8];
#pragma GCC unroll 8
    for (int e = 0; e < 8; ++e) rows[e] = half_of(words[e], k);
    transpose(rows);
#pragma GCC unroll 8
    for (int l = 0; l < 8; ++l) std::memcpy(to + (8 * k + l) * SIZE + first, &rows[l], NBYTES);
  }
}
#endif
template <class T, int SIZE, class At>
INLINE void store_rows(T* to, int num_valid, At at) {
  int i = 0;
#ifdef HAS_WORDS
  constexpr int in_word = 4 / sizeof(T), in_row = 8 * in_word, left = SIZE % in_row;
  if (num_valid == LANES) {
    for (; i + in_row <= SIZE; i += in_row) store_part<T, SIZE, 32>(to, i, at);
    if constexpr (left > 1) store_part<T, SIZE, left * sizeof(T)>(to, i, at), i = SIZE;
  }
#endif
  for (; i < SIZE; ++i) store<T>(to + i, SIZE, num_valid, at(i));
}
