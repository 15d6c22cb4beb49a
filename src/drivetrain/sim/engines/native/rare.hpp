// Functions that environments seldom call, of one number: computed in double precision by steps of ours, so that every
// engine rounds the same number to float32. Only sums, products, quotients and square roots, which round alike
// everywhere; no library function but fmod, which is exact. Errors: below 0.51 units of the last place of float32.
SCALAR double exp_of(double x) {  // |x| < 700
  const double shift = x * 1.4426950408889634 + 6755399441055744.0;  // 1.5 * 2^52 rounds to a whole number
  const double n = shift - 6755399441055744.0;
  const double r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
  const double p = 1.0 / 720 + r * (1.0 / 5040 + r * (1.0 / 40320 + r * (1.0 / 362880 + r * (1.0 / 3628800 +
                   r * (1.0 / 39916800 + r * (1.0 / 479001600))))));
  const double e = 1 + r * (1 + r * (1.0 / 2 + r * (1.0 / 6 + r * (1.0 / 24 + r * (1.0 / 120 + r * p)))));
  return e * same_bits<double>(((int64_t)n + 1023) << 52);
}
SCALAR double atanh_series(double s) {  // |s| <= 1/4
  const double z = s * s;
  const double p = 1.0 / 13 + z * (1.0 / 15 + z * (1.0 / 17 + z * (1.0 / 19 + z * (1.0 / 21 + z * (1.0 / 23)))));
  return s + s * z * (1.0 / 3 + z * (1.0 / 5 + z * (1.0 / 7 + z * (1.0 / 9 + z * (1.0 / 11 + z * p)))));
}
SCALAR double log1p_of(double x) {
  if (!(x > -1)) return x == -1 ? -(double)INFINITY : (double)NAN;
  if (!(x < INFINITY)) return x;
  if (x > -0.4 && x < 0.4) return 2 * atanh_series(x / (2 + x));
  const int64_t bits = same_bits<int64_t>(1 + x) - 0x3fe6a09e667f3bcdLL;  // the mantissa in [sqrt 1/2, sqrt 2)
  const double m = same_bits<double>((bits & 0x000fffffffffffffLL) + 0x3fe6a09e667f3bcdLL);
  return (double)(bits >> 52) * 6.93147180559945286e-01 + 2 * atanh_series((m - 1) / (m + 1));
}
SCALAR double size_of_(double x) { return same_bits<double>(same_bits<int64_t>(x) & 0x7fffffffffffffffLL); }
SCALAR float signed_as(double size, float like) {  // the sign of zero too
  return same_bits<int32_t>(like) < 0 ? (float)-size : (float)size;
}

// ---- angles ----------------------------------------------------------------------------------------------

TABLE uint32_t TWO_OVER_PI[9] = {0, 0xA2F9836Eu, 0x4E441529u, 0xFC2757D1u, 0xF534DDC0u, 0xDB629599u, 0x3C439041u, 0xFE5163ABu,
                                 0xDEBBC561u};  // after 32 zeros, the binary digits of 2 / pi
struct Turned {
  double r;  // |x| - quadrant * pi / 2, between -pi/4 and pi/4
  int quadrant;
};
// Payne and Hanek 1983: of 2 / pi only those digits matter that whole turns do not swallow.
SCALAR Turned turned_far(float x) {
  const int32_t bits = same_bits<int32_t>(x) & 0x7fffffff, first = (bits >> 23) - 150 + 30;
  const uint64_t m = (bits & 0x007fffff) | 0x00800000;
  uint32_t w[3];
  for (int k = 0; k < 3; ++k) {
    const uint64_t both = ((uint64_t)TWO_OVER_PI[first / 32 + k] << 32) | TWO_OVER_PI[first / 32 + k + 1];
    w[k] = (uint32_t)(both >> (32 - first % 32));
  }
  const uint64_t low = m * w[2], middle = m * w[1] + (low >> 32), high = m * w[0] + (middle >> 32);
  const uint64_t top = (high << 32) | (uint32_t)middle;
  const int64_t fraction = (int64_t)((top << 2) | ((uint32_t)low >> 30));  // of a quadrant, times 2^64; from 1/2 on negative
  return {(double)fraction * 5.421010862427522e-20 * 1.5707963267948966, (int)(top >> 62) + (fraction < 0)};
}
SCALAR Turned turned(float x) {
  const double size = size_of_(x);
  if (size >= 2048) return turned_far(x);
  const double shift = size * 0.63661977236758138 + 6755399441055744.0, n = shift - 6755399441055744.0;
  return {(size - n * 1.57079632673412561417e+00) - n * 6.07710050650619224932e-11, (int)n};
}
SCALAR double sin_part(double r) {
  const double z = r * r;
  const double p = -1.0 / 39916800 + z * (1.0 / 6227020800.0 - z * (1.0 / 1307674368000.0));
  return r - r * z * (1.0 / 6 - z * (1.0 / 120 - z * (1.0 / 5040 - z * (1.0 / 362880 + z * p))));
}
SCALAR double cos_part(double r) {
  const double z = r * r;
  const double p = 1.0 / 479001600 - z * (1.0 / 87178291200.0 - z * (1.0 / 20922789888000.0));
  return 1 - z * (1.0 / 2 - z * (1.0 / 24 - z * (1.0 / 720 - z * (1.0 / 40320 - z * (1.0 / 3628800 - z * p)))));
}
SCALAR float sin_of(float x) {
  if (!(size_of_(x) < INFINITY)) return NAN;
  const Turned t = turned(x);
  const double value = t.quadrant & 1 ? cos_part(t.r) : sin_part(t.r);
  return signed_as(t.quadrant & 2 ? -value : value, x);
}
SCALAR float cos_of(float x) {
  if (!(size_of_(x) < INFINITY)) return NAN;
  const Turned t = turned(x);
  const double value = t.quadrant & 1 ? -sin_part(t.r) : cos_part(t.r);
  return (float)(t.quadrant & 2 ? -value : value);
}
SCALAR float tan_of(float x) {
  if (!(size_of_(x) < INFINITY)) return NAN;
  const Turned t = turned(x);
  const double s = sin_part(t.r), c = cos_part(t.r);
  return signed_as(t.quadrant & 1 ? -c / s : s / c, x);
}
SCALAR double atan_size(double x) {  // x >= 0
  const double t = x > 2.414213562373095 ? -1 / x : x > 0.4142135623730951 ? (x - 1) / (x + 1) : x;
  const double start = x > 2.414213562373095 ? 1.5707963267948966 : x > 0.4142135623730951 ? 0.7853981633974483 : 0;
  const double z = t * t;
  const double p = 1.0 / 17 - z * (1.0 / 19 - z * (1.0 / 21 - z * (1.0 / 23 - z * (1.0 / 25 - z * (1.0 / 27 - z * (1.0 / 29))))));
  const double q = 1.0 / 7 - z * (1.0 / 9 - z * (1.0 / 11 - z * (1.0 / 13 - z * (1.0 / 15 - z * p))));
  return start + (t - t * z * (1.0 / 3 - z * (1.0 / 5 - z * q)));
}
SCALAR float atan_of(float x) { return signed_as(atan_size(size_of_(x)), x); }
SCALAR float asin_of(float x) { return signed_as(atan_size(size_of_(x) / root((1.0 - x) * (1.0 + x))), x); }
SCALAR float acos_of(float x) {
  const double a = atan_size(root((1.0 - x) * (1.0 + x)) / size_of_(x));
  return (float)(x < 0 ? 3.141592653589793 - a : a);
}
SCALAR float atan2_of(float y, float x) {
  if (x != x || y != y) return NAN;
  const double above = size_of_(y), along = size_of_(x);
  const double a = atan_size(above == 0 ? 0 : above == along ? 1 : above / along);
  return signed_as(same_bits<int32_t>(x) < 0 ? 3.141592653589793 - a : a, y);
}

// ---- hyperbolic, error function, roots -------------------------------------------------------------------

SCALAR double clipped(double x, double most) { return x > most ? most : x < -most ? -most : x; }
SCALAR float sinh_of(float x) {
  const double a = size_of_(x), z = a * a;
  if (a < 1) {
    const double p = 1.0 / 362880 + z * (1.0 / 39916800 + z * (1.0 / 6227020800.0 + z * (1.0 / 1307674368000.0)));
    return signed_as(a + a * z * (1.0 / 6 + z * (1.0 / 120 + z * (1.0 / 5040 + z * p))), x);
  }
  const double e = exp_of(clipped(a, 100));
  return signed_as((e - 1 / e) / 2, x);
}
SCALAR float cosh_of(float x) {
  const double e = exp_of(clipped(size_of_(x), 100));
  return (float)((e + 1 / e) / 2);
}
SCALAR float asinh_of(float x) {
  const double a = size_of_(x);
  return a < INFINITY ? signed_as(log1p_of(a + a * a / (1 + root(a * a + 1))), x) : x;
}
SCALAR float acosh_of(float x) { return x < 1 ? NAN : (float)log1p_of((x - 1.0) + root((x - 1.0) * (x + 1.0))); }
SCALAR float atanh_of(float x) {
  const double a = size_of_(x);
  return signed_as(log1p_of(2 * a / (1 - a)) / 2, x);
}
SCALAR float exp2_of(float x) { return (float)exp_of(clipped(x, 200) * 0.69314718055994529); }
SCALAR float cbrt_of(float x) {
  const double a = size_of_(x);
  if (!(a > 0 && a < INFINITY)) return x;
  double y = same_bits<double>(same_bits<int64_t>(a) / 3 + 0x2A9F789300000000LL);  // within 5%; then Newton's steps
  for (int k = 0; k < 4; ++k) y = y - (y - a / (y * y)) / 3;
  return signed_as(y, x);
}
SCALAR double erf_series(double x) {  // |x| < 2.5; Abramowitz and Stegun 7.1.6: all terms of one sign
  double term = x, sum = x;
  for (int n = 1; n < 40; ++n) term = term * (2 * x * x) / (2 * n + 1), sum = sum + term;
  return 1.1283791670955126 * exp_of(-x * x) * sum;
}
SCALAR double erfc_fraction(double x) {  // x >= 2.5; Abramowitz and Stegun 7.1.14
  double f = x;
  for (int k = 40; k > 0; --k) f = x + 0.5 * k / f;
  return exp_of(-x * x) * 0.56418958354775629 / f;
}
SCALAR float erf_of(float x) {
  const double a = clipped(x, 6);
  return (float)(a >= 2.5 ? 1 - erfc_fraction(a) : a <= -2.5 ? erfc_fraction(-a) - 1 : erf_series(a));
}
SCALAR float erfc_of(float x) {
  const double a = clipped(x, 20);
  return (float)(a >= 2.5 ? erfc_fraction(a) : a <= -2.5 ? 2 - erfc_fraction(-a) : 1 - erf_series(a));
}
SCALAR float nextafter_of(float x, float y) {
  if (x != x || y != y) return NAN;
  if (x == y) return y;
  if (x == 0) return same_bits<float>((same_bits<int32_t>(y) & INT32_MIN) | 1);
  return same_bits<float>(same_bits<int32_t>(x) + ((x < y) == (x > 0) ? 1 : -1));
}
