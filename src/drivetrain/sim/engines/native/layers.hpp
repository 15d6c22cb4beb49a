// What is written by turns, so that nobody waits for a neighbour; comes after prelude.hpp in every native kernel.
//
// Every step of a function waits for the one before. A processor looks ahead by fewer operations than three functions
// one after the other have, so activations of several units of a layer are written step by step for all of them.
template <int NUM>
INLINE void tanh_each(vf* x) {
  Doubled reduced[NUM];
  vf raised[NUM];
#pragma GCC unroll 8
  for (int i = 0; i < NUM; ++i) reduced[i] = tanh_reduced(x[i]);
#pragma GCC unroll 8
  for (int i = 0; i < NUM; ++i) raised[i] = tanh_raised(reduced[i]);
#pragma GCC unroll 8
  for (int i = 0; i < NUM; ++i) x[i] = tanh_divided(raised[i], x[i]);
}
// `threefry` in parts of four rounds, between which other operations are written (ordering.py). Made of these, the
// function itself came out slower: a game that has all of its hashes in branches by 5%.
struct Hashing {
  vu k0, k1, k2, x, y;
};
INLINE Hashing hash_begun(vu k0, vu k1, vu x, vu y) { return {k0, k1, k0 ^ k1 ^ 0x1BD11BDAu, x + k0, y + k1}; }
template <int PART>
INLINE void hash_on(Hashing& h) {
  vu x = h.x, y = h.y;
#define TURN(r) x += y, y = y << r | y >> (32 - r), y ^= x;
  if (PART % 2 == 0) { TURN(13) TURN(15) TURN(26) TURN(6) }
  if (PART % 2 == 1) { TURN(17) TURN(29) TURN(16) TURN(24) }
#undef TURN
  const vu keys[] = {h.k0, h.k1, h.k2};
  h.x = x + keys[(PART + 1) % 3], h.y = y + (keys[(PART + 2) % 3] + (PART + 1u));
}
