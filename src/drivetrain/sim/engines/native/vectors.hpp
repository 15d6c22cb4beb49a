// What a value of a native kernel is: LANES environments side by side in one hardware vector. prelude.hpp says what is
// computed with it. Compiled at run time; needs gcc or clang.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

#ifndef LANES
#error "LANES is the number of 32-bit elements of a hardware vector"
#endif
#define VECTOR(T) __attribute__((vector_size(LANES * sizeof(T)), may_alias)) T
typedef VECTOR(float) vf;
typedef VECTOR(int32_t) vi;
typedef VECTOR(uint32_t) vu;
typedef VECTOR(double) vd;  // two hardware vectors
typedef VECTOR(int64_t) vl;
#define INLINE static inline __attribute__((always_inline))
#define ALWAYS __attribute__((always_inline))
#define SELDOM static __attribute__((noinline))
#define SCALAR static inline  // of one lane's number
#define TABLE static const

template <class T, class U>
SCALAR T same_bits(U given) {
  static_assert(sizeof(T) == sizeof(U), "casts keep bits");
  T result;
  std::memcpy(&result, &given, sizeof result);
  return result;
}
SCALAR double root(double x) { return __builtin_sqrt(x); }

INLINE vf f_(float x) { return x - vf{}; }
INLINE vi i_(int32_t x) { return x - vi{}; }
INLINE vu u_(uint32_t x) { return x - vu{}; }

// AVX-512: what GCC does not find by itself. Its functions take a mask of lanes, clang's do not; 4 rounds as always.
#if LANES == 16 && defined(__AVX512F__) && defined(__AVX512DQ__)
#define WIDE 1
typedef float wide __attribute__((vector_size(64)));
typedef int32_t w16 __attribute__((vector_size(64), may_alias));
#ifdef __clang__
#define WIDE_OF(name, ...) __builtin_ia32_##name(__VA_ARGS__, 4)
#else
#define WIDE_OF(name, ...) __builtin_ia32_##name##_mask(__VA_ARGS__, wide{}, (short)-1, 4)
#endif
INLINE unsigned bits_of(vi m) { return (uint16_t)__builtin_ia32_cvtd2mask512((w16)m); }  // a bit for each lane
#endif

INLINE vi sel(vi m, vi a, vi b) {
#if LANES == 8 && defined(__AVX2__)
  typedef float w __attribute__((vector_size(32)));
  return (vi)__builtin_ia32_blendvps256((w)b, (w)a, (w)m);
#elif LANES == 4 && defined(__SSE4_1__)
  typedef float w __attribute__((vector_size(16)));
  return (vi)__builtin_ia32_blendvps((w)b, (w)a, (w)m);
#elif defined(WIDE)
  return m ? a : b;
#else
  return (a & m) | (b & ~m);
#endif
}
INLINE vf sel(vi m, vf a, vf b) { return (vf)sel(m, (vi)a, (vi)b); }
INLINE vu sel(vi m, vu a, vu b) { return (vu)sel(m, (vi)a, (vi)b); }

INLINE vf larger(vf a, vf b) {  // a > b ? a : b
#if LANES == 8 && defined(__AVX__)
  typedef float w __attribute__((vector_size(32)));
  return (vf)__builtin_ia32_maxps256((w)a, (w)b);
#elif defined(WIDE)
  return (vf)WIDE_OF(maxps512, (wide)a, (wide)b);
#else
  return sel(a > b, a, b);
#endif
}
INLINE vf smaller(vf a, vf b) {  // a < b ? a : b
#if LANES == 8 && defined(__AVX__)
  typedef float w __attribute__((vector_size(32)));
  return (vf)__builtin_ia32_minps256((w)a, (w)b);
#elif defined(WIDE)
  return (vf)WIDE_OF(minps512, (wide)a, (wide)b);
#else
  return sel(a < b, a, b);
#endif
}

INLINE bool any(vi m) {
#if LANES == 8 && defined(__AVX2__)
  typedef float w __attribute__((vector_size(32)));
  return __builtin_ia32_movmskps256((w)m) != 0;
#elif defined(WIDE)
  return bits_of(m) != 0;
#else
  int32_t set = 0;
  for (int l = 0; l < LANES; ++l) set |= m[l];
  return set != 0;
#endif
}

template <class W, class V>
INLINE W to(V v) { return __builtin_convertvector(v, W); }

#define EACH(V, expression)                              \
  do {                                                   \
    V r_;                                                \
    for (int l = 0; l < LANES; ++l) r_[l] = expression;  \
    return r_;                                           \
  } while (0)

#if defined(__x86_64__) && !defined(__FMA__)
// Without an instruction: a product is exact in double precision, and a sum that is made odd where it is not exact can be
// rounded once more without harm. Of as many numbers as a hardware vector has doubles: wider comparisons go lane by lane.
#ifdef __AVX__
enum { PART = 4 };
#else
enum { PART = 2 };
#endif
INLINE void multiply_add(const float* a, const float* b, const float* c, float* r) {
  typedef float f __attribute__((vector_size(PART * 4)));
  typedef double d __attribute__((vector_size(PART * 8)));
  typedef int64_t n __attribute__((vector_size(PART * 8)));
  f x, y, z;
  std::memcpy(&x, a, sizeof x), std::memcpy(&y, b, sizeof y), std::memcpy(&z, c, sizeof z);
  const d product = to<d>(x) * to<d>(y), added = to<d>(z), sum = product + added, part = sum - product;
  const d lost = (product - (sum - part)) + (added - part);
  const n more = (n)(lost > 0.0), less = (n)(lost < 0.0), away = more ^ (n)(sum > 0.0);
  const n step = (((~(n)sum & 1) ^ away) - away) & (more | less);  // of an even sum's bits towards what it has lost
  const f result = to<f>((d)((n)sum + step));
  std::memcpy(r, &result, sizeof result);
}
#endif
INLINE vf fma_(vf a, vf b, vf c) {  // a * b + c, rounded once
#ifdef WIDE
  return (vf)__builtin_ia32_vfmaddps512_mask((wide)a, (wide)b, (wide)c, (short)-1, 4);
#elif LANES == 8 && defined(__FMA__)
  typedef float w __attribute__((vector_size(32)));
  return (vf)__builtin_ia32_vfmaddps256((w)a, (w)b, (w)c);
#elif defined(__FMA__) || !defined(__x86_64__)
  EACH(vf, __builtin_fmaf(a[l], b[l], c[l]));
#else
  vf r;
  for (int l = 0; l < LANES; l += PART) multiply_add((const float*)&a + l, (const float*)&b + l, (const float*)&c + l, (float*)&r + l);
  return r;
#endif
}
INLINE vf sqrt_(vf a) {
#if LANES == 8 && defined(__AVX__)
  typedef float w __attribute__((vector_size(32)));
  return (vf)__builtin_ia32_sqrtps256((w)a);
#elif defined(WIDE)
  return (vf)WIDE_OF(sqrtps512, (wide)a);
#else
  EACH(vf, __builtin_sqrtf(a[l]));
#endif
}
