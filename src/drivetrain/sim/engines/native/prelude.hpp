// What generated kernels are written in, whatever holds a value: vectors.hpp, or one thread's number on a GPU.
//
// Every operation works on each lane alone and in the same steps at every width, nothing is contracted, and no
// library function is vectorised, so results have the same bits at every width and thread count, and on every engine.
// Booleans are masks: all bits of a lane set, or none.

// ---- conversions -----------------------------------------------------------------------------------------

INLINE vf float_of(vi x) { return to<vf>(x); }
INLINE vf float_of(vu x) { return to<vf>(x); }
INLINE vi int_of(vf x) {  // towards zero, saturated, NaN to 0
  const vi high = x >= f_(2147483648.0f), low = x < f_(-2147483648.0f), nan = x != x;
  const vf inside = sel(high | low | nan, vf{}, x);
  return sel(high, i_(INT32_MAX), sel(low, i_(INT32_MIN), to<vi>(inside)));
}
INLINE vu uint_of(vf x) {  // likewise; the upper half is converted less 2^31
  const vi high = x >= f_(4294967296.0f), upper = x >= f_(2147483648.0f), inside = (x > vf{}) & ~high;
  const vf lower = sel(inside, sel(upper, x - f_(2147483648.0f), x), vf{});
  const vu whole = (vu)to<vi>(lower) + (vu)(upper & i_(INT32_MIN));
  return sel(high, u_(UINT32_MAX), sel(inside, whole, vu{}));
}

// ---- integers --------------------------------------------------------------------------------------------

INLINE vi div_(vi a, vi b) {
  const vi zero = b == 0, wraps = (a == INT32_MIN) & (b == -1);
  return sel(zero, i_(-1), sel(wraps, a, a / sel(zero | wraps, i_(1), b)));
}
INLINE vu div_(vu a, vu b) {
  const vi zero = b == 0;
  return sel(zero, u_(UINT32_MAX), a / sel(zero, u_(1), b));
}
INLINE vi rem_(vi a, vi b) {
  const vi zero = b == 0, wraps = (a == INT32_MIN) & (b == -1);
  return sel(zero, a, sel(wraps, vi{}, a % sel(zero | wraps, i_(1), b)));
}
INLINE vu rem_(vu a, vu b) {
  const vi zero = b == 0;
  return sel(zero, a, a % sel(zero, u_(1), b));
}
INLINE vi shl_(vi a, vi n) { return sel((vu)n < 32u, (vi)((vu)a << ((vu)n & 31u)), vi{}); }
INLINE vu shl_(vu a, vu n) { return sel(n < 32u, a << (n & 31u), vu{}); }
INLINE vi shr_logical_(vi a, vi n) { return sel((vu)n < 32u, (vi)((vu)a >> ((vu)n & 31u)), vi{}); }
INLINE vu shr_logical_(vu a, vu n) { return sel(n < 32u, a >> (n & 31u), vu{}); }
INLINE vi shr_arithmetic_(vi a, vi n) { return a >> sel((vu)n < 32u, n, i_(31)); }
INLINE vi max_(vi a, vi b) { return sel(a > b, a, b); }
INLINE vu max_(vu a, vu b) { return sel(a > b, a, b); }
INLINE vi min_(vi a, vi b) { return sel(a < b, a, b); }
INLINE vu min_(vu a, vu b) { return sel(a < b, a, b); }
INLINE vi abs_(vi a) { return sel(a < 0, -a, a); }
INLINE vu abs_(vu a) { return a; }
INLINE vi sign_(vi a) { return (a < 0) - (a > 0); }
INLINE vu sign_(vu a) { return (vu)(a != 0) & 1u; }
template <class V>
INLINE V popcount_(V a) {
  vu x = (vu)a;
  x = x - ((x >> 1) & 0x55555555u);
  x = (x & 0x33333333u) + ((x >> 2) & 0x33333333u);
  return (V)((((x + (x >> 4)) & 0x0f0f0f0fu) * 0x01010101u) >> 24);
}
template <class V>
INLINE V clz_(V a) {
  vu x = (vu)a;
  for (int n = 1; n < 32; n *= 2) x |= x >> n;
  return (V)popcount_(~x);
}
template <class V>
INLINE V ipow_(V a, V n) {
  V result = a * 0 + 1;
  for (int bit = 0; bit < 32; ++bit, a *= a) result = sel((vi)((n >> bit) & 1) != 0, result * a, result);
  return result;
}

struct Words {
  vu x, y;
};
// Threefry-2x32 with 20 rounds: Salmon et al. 2011, section 3.2, in the form JAX uses.
INLINE Words threefry(vu k0, vu k1, vu x, vu y) {
  const vu k2 = k0 ^ k1 ^ 0x1BD11BDAu;
#define ROUND(r) x += y, y = (y << r) | (y >> (32 - r)), y ^= x;
  x += k0, y += k1;
  ROUND(13) ROUND(15) ROUND(26) ROUND(6) x += k1, y += k2 + 1u;
  ROUND(17) ROUND(29) ROUND(16) ROUND(24) x += k2, y += k0 + 2u;
  ROUND(13) ROUND(15) ROUND(26) ROUND(6) x += k0, y += k1 + 3u;
  ROUND(17) ROUND(29) ROUND(16) ROUND(24) x += k1, y += k2 + 4u;
  ROUND(13) ROUND(15) ROUND(26) ROUND(6) x += k2, y += k0 + 5u;
#undef ROUND
  return {x, y};
}

// ---- floats ----------------------------------------------------------------------------------------------
// Polynomials are least-squares fits of ours; docs/sim.md states their errors, tests/sim/test_native_functions.py
// measures them.

INLINE vf abs_(vf a) { return (vf)((vi)a & 0x7fffffff); }
INLINE vf copysign_(vf a, vf s) { return (vf)(((vi)a & 0x7fffffff) | ((vi)s & INT32_MIN)); }
INLINE vf neg_(vf a) { return (vf)((vi)a ^ INT32_MIN); }
INLINE vf max_(vf a, vf b) { return sel(a != a, a, larger(a, b)); }
INLINE vf min_(vf a, vf b) { return sel(a != a, a, smaller(a, b)); }
INLINE vf sign_(vf a) { return sel((a != a) | (a == 0.0f), a, copysign_(f_(1), a)); }
INLINE vi is_finite_(vf a) { return ((vi)a & 0x7f800000) != 0x7f800000; }
// Adding and taking away 1.5 * 2^23 rounds to the nearest even number, where |a| < 2^22; above 2^23 all are whole.
INLINE vf round_even_(vf a) {
  const vf size = abs_(a), shift = f_(8388608.0f);
  return copysign_(sel(size < shift, (size + shift) - shift, size), a);
}
INLINE vf nearest_(vf a) {  // as round_even_ where |a| < 2^22, with one zero
  const vf shift = f_(12582912.0f);
  return (a + shift) - shift;
}
INLINE vf floor_(vf a) {
  const vf r = round_even_(a);
  return copysign_(r - sel(r > a, f_(1), vf{}), a);
}
INLINE vf ceil_(vf a) { return neg_(floor_(neg_(a))); }
INLINE vf round_away_(vf a) {
  const vf size = abs_(a), whole = abs_(floor_(size));
  return copysign_(whole + sel(size - whole >= 0.5f, f_(1), vf{}), a);
}

// Cody-Waite reduction by pi/2 in three parts, exact while the quotient has at most 12 bits.
INLINE vf sin_quarter(vf r, vf z) {
  return r + r * z * (f_(-1.66666666e-01f) + z * (f_(8.33332889e-03f) + z * (f_(-1.98391761e-04f) + z * 2.71681001e-06f)));
}
INLINE vf cos_quarter(vf z) {
  return (f_(1.0f) - z * 0.5f) + z * z * (f_(4.16666444e-02f) + z * (f_(-1.38872427e-03f) + z * 2.44238866e-05f));
}
template <int Turn>
INLINE vf sin_turned(vf x) {  // Turn 0: sin, 1: cos
  const vf k = nearest_(x * 0.636619772f);
  const vf r = ((x - k * 1.5703125f) - k * 4.837512969970703e-4f) - k * 7.549789948768648e-8f;
  const vi quadrant = to<vi>(k) + Turn;
  const vf z = r * r;
  const vf value = sel((quadrant & 1) != 0, cos_quarter(z), sin_quarter(r, z));
  return (vf)((vi)value ^ ((quadrant & 2) << 30));
}
SELDOM vf sin_far(vf x) { EACH(vf, sin_of(x[l])); }
SELDOM vf cos_far(vf x) { EACH(vf, cos_of(x[l])); }
INLINE vf sin_(vf x) {
  const vi far = ~(abs_(x) < 2048.0f);
  const vf near = sin_turned<0>(sel(far, vf{}, x));
  return __builtin_expect(any(far), 0) ? sel(far, sin_far(x), near) : near;
}
INLINE vf cos_(vf x) {
  const vi far = ~(abs_(x) < 2048.0f);
  const vf near = sin_turned<1>(sel(far, vf{}, x));
  return __builtin_expect(any(far), 0) ? sel(far, cos_far(x), near) : near;
}

INLINE vf power_of_two(vi n) { return (vf)((n + 127) << 23); }
INLINE vf scaled(vf x, vi n) {  // x * 2^n in two steps, so that results may be denormal
  const vi half = n >> 1;
  return x * power_of_two(half) * power_of_two(n - half);
}
struct Reduced {
  vf r;  // x - n ln 2
  vi n;
};
INLINE Reduced by_ln2(vf x) {
  const vf n = nearest_(x * 1.44269504f);
  return {fma_(n, f_(2.12194440e-4f), fma_(n, f_(-0.693359375f), x)), to<vi>(n)};
}
INLINE vf exp_(vf x) {
  const vf above = sel(x > -104.0f, x, f_(-104.0f));  // NaN, too
  const Reduced part = by_ln2(sel(above < 89.0f, above, f_(89.0f)));
  const vf r = part.r;
  const vf p = fma_(r, fma_(r, fma_(r, fma_(r, fma_(r, f_(1.99209570e-04f), f_(1.39483861e-03f)), f_(8.33325975e-03f)),
               f_(4.16662372e-02f)), f_(1.66666669e-01f)), f_(5.00000009e-01f));
  return sel(x != x, x, scaled(f_(1.0f) + fma_(r * r, p, r), part.n));
}
INLINE vf log_usual(vf x, vf less) {  // of a normal number; less: from the exponent
  const vi bits = (vi)x - 0x3f3504f3;  // so that the mantissa lies in [sqrt 1/2, sqrt 2)
  const vf n = float_of(bits >> 23) - less;
  const vf m = (vf)((bits & 0x007fffff) + 0x3f3504f3) - 1.0f, z = m * m;
  const vf p = fma_(m, fma_(m, fma_(m, fma_(m, fma_(m, fma_(m, fma_(m, fma_(m, f_(0.06691415f), f_(-0.11699046f)),
               f_(0.11924799f)), f_(-0.12404906f)), f_(0.1421486f)), f_(-0.16667836f)), f_(0.2000232f)), f_(-0.25000016f)),
               f_(0.3333331f));
  const vf rest = fma_(n, f_(-2.12194440e-4f), fma_(z * m, p, z * -0.5f));
  return fma_(n, f_(0.693359375f), m + rest);
}
SELDOM vf log_edge(vf x) {  // denormal, zero, negative, infinite or NaN in some lane
  const vi denormal = x < 1.17549435e-38f;
  const vf value = log_usual(sel(denormal, x * 8388608.0f, x), sel(denormal, f_(23.0f), vf{}));
  const vf edge = sel(x == 0.0f, f_(-INFINITY), sel(x < 0.0f, f_(NAN), x));
  return sel((x > 0.0f) & (x < INFINITY), value, edge);
}
INLINE vf log_(vf x) {
  const vi usual = (x >= 1.17549435e-38f) & (x < INFINITY);
  const vf value = log_usual(x, vf{});
  return __builtin_expect(any(~usual), 0) ? log_edge(x) : value;
}
INLINE vf log1p_(vf x) {  // log(u) of the rounded u = 1 + x, and what the rounding lost
  const vf u = f_(1.0f) + x;
  const vf lost = sel(is_finite_(u) & (u > 0.0f), (x - (u - 1.0f)) / u, vf{});
  return sel(abs_(x) < 6e-8f, x, log_(u) + lost);
}
INLINE vf expm1_(vf x) {
  const vf inside = sel(x != x, vf{}, min_(max_(x, f_(-88.0f)), f_(89.0f)));
  const Reduced part = by_ln2(inside);
  const vf r = part.r;
  const vf p = fma_(r, fma_(r, fma_(r, fma_(r, fma_(r, fma_(r, f_(2.48857648e-05f), f_(1.99075230e-04f)), f_(1.38888028e-03f)),
               f_(8.33328531e-03f)), f_(4.16666670e-02f)), f_(1.66666668e-01f)), f_(5.0e-01f));
  const vf small = fma_(r * r, p, r), scale = scaled(f_(1.0f), part.n);
  const vf whole = sel(part.n >= 128, scaled(f_(1.0f) + small, part.n), scale * small + (scale - 1.0f));
  return sel((x != x) | (x == 0.0f), x, whole);
}
// t / (t + 2) with t = expm1(2|x|), by multiply-adds, in three steps: a perceptron has hundreds of them.
struct Doubled {
  vf r, scale;  // 2|x| = n ln 2 + r, and 2^n
};
INLINE Doubled tanh_reduced(vf x) {
  const vf size = abs_(x), y = smaller(f_(9.5f), size), shift = f_(12582912.0f);
  const vf k = fma_(y, f_(2.88539008f), shift);  // it holds n in its lowest bits
  return {fma_(k - shift, f_(-0.693147182f), y + y), (vf)(((vi)k << 23) + 0x3f800000)};
}
INLINE vf tanh_raised(Doubled d) {
  const vf p = fma_(d.r, fma_(d.r, fma_(d.r, fma_(d.r, f_(1.38982257e-03f), f_(8.36604089e-03f)), f_(4.16668542e-02f)),
               f_(1.66665494e-01f)), f_(0.5f));
  return fma_(d.scale, fma_(d.r * d.r, p, d.r), d.scale - 1.0f);
}
INLINE vf tanh_divided(vf t, vf x) { return (vf)((vi)(t / (t + 2.0f)) | ((vi)x & INT32_MIN)); }
INLINE vf tanh_(vf x) { return tanh_divided(tanh_raised(tanh_reduced(x)), x); }
INLINE vf logistic_(vf x) {  // by exp(-|x|), which does not overflow, so that results may be denormal
  const vf e = exp_(neg_(abs_(x)));
  return sel(x < 0.0f, e, f_(1.0f)) / (f_(1.0f) + e);
}

// x^y = 2^(y log2 x) in double precision, log2 by atanh; then C's special cases.
INLINE vf pow_(vf x, vf y) {
  const vf size = abs_(x);
  const vi usual = (size > 0.0f) & (size < INFINITY) & (y == y) & (abs_(y) < INFINITY);
  const vd d = to<vd>(sel(usual, size, f_(1.0f)));
  const vl bits = (vl)d - 0x3fe6a09e667f3bcdLL;
  const vd exponent = to<vd>(bits >> 52);
  const vd m = (vd)((bits & 0x000fffffffffffffLL) + 0x3fe6a09e667f3bcdLL);
  const vd s = (m - 1.0) / (m + 1.0), z = s * s;
  const vd a = s + s * z * (0.33333333338029625 + z * (0.1999999776158084 + z * (0.14286060332741388 + z * (0.11087833815682391 + z * 0.09796094125043972))));
  vd e = to<vd>(sel(usual, y, vf{})) * (exponent + a * 2.8853900817779268);
  e = (vd)(((e > 200.0) & (vl)(e * 0.0 + 200.0)) | (~(e > 200.0) & (vl)e));
  e = (vd)(((e < -200.0) & (vl)(e * 0.0 - 200.0)) | (~(e < -200.0) & (vl)e));
  const vd shift = e + 6755399441055744.0;  // 1.5 * 2^52 rounds to a whole number
  const vd n = shift - 6755399441055744.0, r = e - n;
  const vd p = 1.0 + r * (6.9314718054352353e-01 + r * (2.4022650695391445e-01 + r * (5.5504109506513515e-02 + r * (9.6181292437563237e-03 + r * (1.3333441682139178e-03 + r * (1.5403401827897983e-04 + r * (1.5312401850877300e-05 + r * 1.3266036502524586e-06)))))));
  const vd scale = (vd)((to<vl>(n) + 1023) << 52);
  const vf value = to<vf>(p * scale);
  const vi whole = (round_even_(y) == y), odd = whole & (round_even_(y * 0.5f) != y * 0.5f);
  const vf signed_value = sel((x < 0.0f) & odd, neg_(value), sel((x < 0.0f) & ~whole, f_(NAN), value));
  const vf above = sel((vi)(size > 1.0f) == (vi)(y > 0.0f), f_(INFINITY), vf{});     // |y| infinite, or x infinite
  const vf at_zero = sel(y < 0.0f, f_(INFINITY), vf{});
  vf special = sel(size == 0.0f, sel(odd, copysign_(at_zero, x), at_zero), sel(odd & (x < 0.0f), neg_(above), above));
  special = sel((size == 1.0f) & (abs_(y) == INFINITY), f_(1.0f), special);
  special = sel((x != x) | (y != y), f_(NAN), special);
  return sel((x == 1.0f) | (y == 0.0f), f_(1.0f), sel(usual, signed_value, special));
}

// Giles 2010, "Approximating the erfinv function", table 5, as XLA computes it.
INLINE vf erf_inv_(vf x) {
  const vf w = neg_(log1p_(neg_(x) * x));
  const vf s = w - 2.5f, t = sqrt_(w) - 3.0f;
  vf p = f_(2.81022636e-08f), q = f_(-0.000200214257f);
#define STEP(a, b) p = f_(a) + p * s, q = f_(b) + q * t;
  STEP(3.43273939e-07f, 0.000100950558f) STEP(-3.5233877e-06f, 0.00134934322f) STEP(-4.39150654e-06f, -0.00367342844f)
  STEP(0.00021858087f, 0.00573950773f) STEP(-0.00125372503f, -0.0076224613f) STEP(-0.00417768164f, 0.00943887047f)
  STEP(0.246640727f, 1.00167406f) STEP(1.50140941f, 2.83297682f)
#undef STEP
  return sel(abs_(x) == 1.0f, x * INFINITY, sel(w < 5.0f, p, q) * x);
}

// Rare ones go lane by lane (rare.hpp): right, and not fast.
#define BY_LANE(name) INLINE vf name##_(vf a) { EACH(vf, name##_of(a[l])); }
#define BY_LANE2(name) INLINE vf name##_(vf a, vf b) { EACH(vf, name##_of(a[l], b[l])); }
BY_LANE(tan) BY_LANE(asin) BY_LANE(acos) BY_LANE(atan) BY_LANE(sinh) BY_LANE(cosh) BY_LANE(asinh) BY_LANE(acosh)
BY_LANE(atanh) BY_LANE(erf) BY_LANE(erfc) BY_LANE(exp2) BY_LANE(cbrt) BY_LANE2(atan2) BY_LANE2(nextafter)
INLINE vf rsqrt_(vf a) { return f_(1.0f) / sqrt_(a); }
SELDOM vf rem_far(vf a, vf b) { EACH(vf, fmodf(a[l], b[l])); }
// fmod: exact by one subtraction while the quotient is small, as for angles.
INLINE vf rem_(vf a, vf b) {
  const vf x = abs_(a), y = abs_(b);
  const vf once = sel(x < y, x, x - y);
  const vi near = (x < y + y) & (y < INFINITY) & (y > 0.0f);
  const vf value = copysign_(once, a);
  return __builtin_expect(any(~near), 0) ? sel(near, value, rem_far(a, b)) : value;
}
INLINE vf div_(vf a, vf b) { return a / b; }
