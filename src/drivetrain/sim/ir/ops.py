"""What the operations of the representation mean.

Elementwise operations take inputs of one shape and give that shape. The others:

    const                         attrs value (NumPy array)
    view x                        out[i, j, ...] = flat(x)[offset + i*strides[0] + j*strides[1] + ...]
    concat x, y, ...              along attrs axis
    stack x, y, ...               scalars, at least one, as an array of the output's shape
    take x, index                 out[i] = flat(x)[index[i]]; every index lies in [0, x.size)
    put x, index, updates, mask   flat(x)[index[i]] = combined with updates[i] where mask[i], in order of i; attrs kind:
                                  set add mul max min
    reduce x                      over the last axis, of at least one element; attrs kind: sum prod max min and or xor
                                  argmax argmin
    dot x, y                      float32; x [K], y [K, N]: out[j] = x[0]*y[0, j] + x[1]*y[1, j] + ..., in this order,
                                  each product and sum rounded once (a fused multiply-add)
    cumulate x                    over the last axis; attrs kind: sum prod max min
    sort x, y, ...                along the last axis, stable, by the first attrs num_keys inputs
    threefry k0, k1, c0, c1       two outputs: Threefry-2x32 (20 rounds) of the counters under the key, elementwise
    pick index, x0, x1, ...       scalars: x[index]
    if p                          regions then, else: both give the outputs
    while x, y, ...               regions condition, body: over the carried values
    for x, y, ...                 attrs length; region body: over (int32 index, carried values)

Booleans are their own type. Integers wrap around; division and remainder by zero give -1 (all bits set)
and the dividend; conversion from float to integer saturates, and NaN gives 0: all as XLA does.
"""

UNARY = {
    "neg", "abs", "sign", "not", "floor", "ceil", "round_even", "round_away", "sqrt", "rsqrt", "cbrt",
    "exp", "exp2", "log", "log1p", "expm1", "tanh", "logistic", "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "asinh", "acosh", "atanh", "erf", "erfc", "erf_inv", "is_finite", "popcount", "clz",
}  # fmt: skip
ARITHMETIC = {
    "add", "sub", "mul", "div", "rem", "max", "min", "pow", "atan2", "nextafter",
    "and", "or", "xor", "shl", "shr_logical", "shr_arithmetic",
}  # fmt: skip
COMPARE = {"eq", "ne", "lt", "le", "gt", "ge"}
# `select p, x, y` is x where p, else y; `convert` has the wanted dtype at its output, `bitcast` keeps the bits.
ELEMENTWISE = UNARY | ARITHMETIC | COMPARE | {"select", "convert", "bitcast", "threefry"}

DTYPES = ("bool", "int8", "int16", "int32", "uint8", "uint16", "uint32", "float32")
