// Products of what rectified linear units give, half of which is zero; comes after memory.hpp in every native kernel.
//
// A lane is an environment, and of eight environments one nearly always needs a row of weights. So a tile is turned: an
// environment's units side by side, a bit for each that is not zero, and eight sums of eight columns to which only the
// rows of these are added, in the order of the rows. Half of the work is left, but each weight is read for one
// environment alone, so sums wait for reading, and turning takes time, too.
#if LANES == 8 && defined(__AVX2__) && defined(__FMA__)
#define SKIPS_ZEROS 1
template <int NUM>
struct Kept {
  alignas(32) float rows[8][NUM];  // of each environment
  uint64_t set[8];                 // which of its units are not zero, NaN among them
};

INLINE void turned(const float* from, int stride, vf* columns) {  // eight columns of eight rows
  w8 r[8];
#pragma GCC unroll 8
  for (int l = 0; l < 8; ++l) std::memcpy(&r[l], from + l * stride, 32);
  transpose(r);
#pragma GCC unroll 8
  for (int l = 0; l < 8; ++l) columns[l] = (vf)r[l];
}
template <int SIZE>
SELDOM bool all_finite(const float* from) {  // zero times another number is not zero
  vi other{};
  for (int i = 0; i < SIZE; i += 8) other |= ~is_finite_(load<vf>(from + i, 1, LANES));
  return !any(other);
}
template <int NUM>
SELDOM int keep(const vf* x, Kept<NUM>& kept) {  // how many are not zero
  static_assert(NUM % 8 == 0 && NUM <= 64, "a bit of a word for each");
  std::memset(kept.set, 0, sizeof kept.set);
  for (int i = 0; i < NUM; i += 8) {
    vf r[8];
    turned((const float*)(x + i), LANES, r);
#pragma GCC unroll 8
    for (int l = 0; l < 8; ++l) {
      std::memcpy(kept.rows[l] + i, &r[l], 32);
      typedef float w __attribute__((vector_size(32)));
      ((uint8_t*)&kept.set[l])[i / 8] = (uint8_t)__builtin_ia32_movmskps256((w)(r[l] != 0.0f));
    }
  }
  int num = 0;
  for (int l = 0; l < 8; ++l) num += __builtin_popcountll(kept.set[l]);
  return num;
}
template <int NUM, int COLUMNS>
SELDOM void times_kept(const Kept<NUM>& kept, const float* weights, float* sums) {  // the product of each environment
  static_assert(COLUMNS % 8 == 0 && COLUMNS <= 64, "all sums of an environment are in registers");
  for (int l = 0; l < 8; ++l) {
    vf total[COLUMNS / 8] = {};
    for (uint64_t set = kept.set[l]; set != 0; set &= set - 1) {
      const int k = __builtin_ctzll(set);
      const vf value = f_(kept.rows[l][k]);
#pragma GCC unroll 8
      for (int c = 0; c < COLUMNS / 8; ++c)
        total[c] = fma_(value, load<vf>(weights + k * COLUMNS + 8 * c, 1, LANES), total[c]);
    }
#pragma GCC unroll 8
    for (int c = 0; c < COLUMNS / 8; ++c) std::memcpy(sums + l * COLUMNS + 8 * c, &total[c], 32);
  }
}
#endif
