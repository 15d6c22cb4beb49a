// What a value of a CUDA kernel is: the number of ONE environment, in one thread's register. native/prelude.hpp, which
// comes next, says what is computed with it, so that both engines take the same steps.
//
// Casts keep bits, comparisons give masks, integers wrap around: as with the vectors of native/vectors.hpp. The compiler
// sees through masks: a choice by one becomes a choice by the comparison.
#ifdef __CUDACC_RTC__  // NVRTC brings no headers
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#define INT32_MIN (-2147483647 - 1)
#define INT32_MAX 2147483647
#define UINT32_MAX 4294967295u
#define INFINITY __builtin_bit_cast(float, 0x7f800000)  // also in tables, whose numbers no function may give
#define NAN __builtin_bit_cast(float, 0x7fc00000)
#endif
#define LANES 32  // threads of a warp, which are a tile
#define MEMBER __device__ __forceinline__
#define INLINE static __device__ __forceinline__
#define SELDOM static __device__ __noinline__
#define SCALAR static __device__ inline
#define TABLE static __device__ const
#define ALWAYS

template <class T, class U>
INLINE T same_bits(U given) {
  static_assert(sizeof(T) == sizeof(U), "casts keep bits");
  union {
    U from;
    T to;
  } both = {given};
  return both.to;
}

SCALAR double root(double x) { return sqrt(x); }

template <class T>
struct Kind {  // its masks; what its sums are computed in
  typedef T mask, wrapping;
};
template <>
struct Kind<float> {
  typedef int32_t mask;
  typedef float wrapping;
};
template <>
struct Kind<double> {
  typedef int64_t mask;
  typedef double wrapping;
};
template <>
struct Kind<int32_t> {
  typedef int32_t mask;
  typedef uint32_t wrapping;
};
template <>
struct Kind<uint32_t> {
  typedef int32_t mask;
  typedef uint32_t wrapping;
};
template <>
struct Kind<int64_t> {
  typedef int64_t mask;
  typedef uint64_t wrapping;
};

template <class T>
struct Lane {
  typedef typename Kind<T>::mask M;
  typedef typename Kind<T>::wrapping W;
  T x;

  Lane() = default;
  MEMBER Lane(T given) : x(given) {}
  template <class U>
  MEMBER explicit Lane(Lane<U> other) : x(same_bits<T>(other.x)) {}
  MEMBER T& operator[](int) { return x; }
  MEMBER T operator[](int) const { return x; }

#define OPERATOR(op, R, result)                                             \
  friend MEMBER R operator op(Lane a, Lane b) { return R(result); }
#define WRAPS(op)                                                           \
  OPERATOR(op, Lane, (T)((W)a.x op (W)b.x))                                 \
  MEMBER Lane& operator op##=(Lane b) { return *this = *this op b; }
#define PLAIN(op)                                                           \
  OPERATOR(op, Lane, (T)(a.x op b.x))                                       \
  MEMBER Lane& operator op##=(Lane b) { return *this = *this op b; }
#define COMPARES(op) OPERATOR(op, Lane<M>, -(M)(a.x op b.x))
  WRAPS(+) WRAPS(-) WRAPS(*) WRAPS(<<)
  PLAIN(/) PLAIN(%) PLAIN(&) PLAIN(|) PLAIN(^) PLAIN(>>)
  COMPARES(==) COMPARES(!=) COMPARES(<) COMPARES(<=) COMPARES(>) COMPARES(>=)
#undef OPERATOR
#undef WRAPS
#undef PLAIN
#undef COMPARES
  friend MEMBER Lane operator-(Lane a) { return Lane((T)(-(W)a.x)); }
  friend MEMBER Lane operator~(Lane a) { return Lane((T)~a.x); }
};
typedef Lane<float> vf;
typedef Lane<int32_t> vi;
typedef Lane<uint32_t> vu;
typedef Lane<double> vd;
typedef Lane<int64_t> vl;

INLINE vf f_(float x) { return vf(x); }
INLINE vi i_(int32_t x) { return vi(x); }
INLINE vu u_(uint32_t x) { return vu(x); }
template <class T>
INLINE Lane<T> sel(vi m, Lane<T> a, Lane<T> b) {
  return Lane<T>(m.x != 0 ? a.x : b.x);
}
INLINE vf larger(vf a, vf b) { return sel(a > b, a, b); }
INLINE vf smaller(vf a, vf b) { return sel(a < b, a, b); }
INLINE bool any(vi m) { return m.x != 0; }

template <class V, class U>
INLINE V to(Lane<U> v) {
  return V((decltype(V::x))v.x);
}
#define EACH(V, expression) \
  do {                      \
    const int l = 0;        \
    V r_;                   \
    r_[l] = expression;     \
    return r_;              \
  } while (0)

INLINE vf fma_(vf a, vf b, vf c) { return vf(fmaf(a.x, b.x, c.x)); }
INLINE vf sqrt_(vf a) { return vf(sqrtf(a.x)); }
