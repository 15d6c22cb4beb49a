// Activations of several units of a layer; comes after prelude.hpp in every native kernel.
//
// Every step of a function waits for the one before. A processor looks ahead by fewer operations than three functions
// one after the other have, so they are written step by step for all units: nobody waits for a neighbour.
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
