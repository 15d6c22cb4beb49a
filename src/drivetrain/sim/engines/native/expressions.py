"""Scalar operations as C++ expressions: one hardware vector of environments per value."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from drivetrain.sim.ir.program import Op

INFIX = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^"}
OF_BOOLEANS = {"add": "|", "max": "|", "mul": "&", "min": "&"}
COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
WIDTHS = {"int8": 8, "uint8": 8, "int16": 16, "uint16": 16}
ELEMENT = {
    "bool": "uint8_t", "int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "uint8": "uint8_t",
    "uint16": "uint16_t", "uint32": "uint32_t", "float32": "float",
}  # fmt: skip


def vector(dtype: str) -> str:
    """The C++ type of a value: narrow integers are held in 32 bits, Booleans as masks."""
    return "vf" if dtype == "float32" else "vu" if dtype.startswith("u") else "vi"


def constant(number: Any, dtype: str) -> str:
    """A number in every lane."""
    if dtype == "bool":
        return "i_(-1)" if number else "i_(0)"
    if dtype != "float32":
        return f"i_({signed(int(number))})" if vector(dtype) == "vi" else f"u_({int(number)}u)"
    return f"f_({float_text(number)})"


def repeated(array: Any) -> Any:
    """The number, to the bit, that a constant array has everywhere; None where there are several."""
    first = array.reshape(-1)[:1]
    return first[0] if first.size and array.tobytes() == first.tobytes() * array.size else None


def float_text(number: Any) -> str:
    """A float32 as C++ writes it, to the bit; of NaN the sign alone."""
    value = float(np.float32(number))
    if np.isfinite(value):
        return f"{value.hex()}f"
    return f"{'-' if np.signbit(value) else ''}{'NAN' if np.isnan(value) else 'INFINITY'}"


def signed(number: int) -> str:
    """int32 as C++ writes it; its smallest has no literal."""
    return "INT32_MIN" if number == -(2**31) else str(number)


def narrowed(text: str, dtype: str) -> str:
    """Wrapped around to the width of a narrow type."""
    if dtype not in WIDTHS:
        return text
    shift = 32 - WIDTHS[dtype]
    return f"((({text}) << {shift}) >> {shift})"


def expression(op: Op, inputs: Sequence[str], constants: Sequence[Any]) -> str:
    """What computes an elementwise operation's only output.

    Args:
        inputs: C++ names of the inputs.
        constants: For each input, the number that it is, or None.
    """
    out, given, name = op.out.dtype, op.inputs[0].dtype, op.name
    if name == "select":
        return f"sel({', '.join(inputs)})"
    if name == "convert":
        return converted(inputs[0], given, out)
    if name == "bitcast":
        return narrowed(f"({vector(out)}){inputs[0]}", out)
    if name in COMPARE:
        return compared(name, inputs, given)
    if name == "not":
        return narrowed(f"~{inputs[0]}", out)
    if name in OF_BOOLEANS and out == "bool":
        return f"{inputs[0]} {OF_BOOLEANS[name]} {inputs[1]}"
    if name in INFIX:
        return narrowed(f"{inputs[0]} {INFIX[name]} {inputs[1]}", out)
    if name == "neg" and out != "float32":
        return narrowed(f"-{inputs[0]}", out)
    if name in ("max", "min") and out == "float32":
        if constants[0] is not None:
            inputs, constants = inputs[::-1], constants[::-1]
        if leaves_zeros(name, constants[1]):
            text = f"{'larger' if name == 'max' else 'smaller'}({inputs[1]}, {inputs[0]})"  # NaN passes as the second
            return f"({text} + 0.0f)" if name == "max" and is_zero(constants[1]) else text  # of two zeros the positive
    if name in ("div", "rem") and out != "float32" and constants[1] not in (None, 0, -1):
        return f"{inputs[0]} {'/' if name == 'div' else '%'} {constants[1]}{'u' if vector(out) == 'vu' else ''}"
    if name == "div" and out == "float32":
        return f"{inputs[0]} / {inputs[1]}"
    if name == "pow" and out != "float32":
        name = "ipow"
    if name in ("clz", "popcount", "shr_logical") and out in WIDTHS:  # without copies of the sign above the type's bits
        inputs = [f"({vector(out)})((vu){inputs[0]} & {2 ** WIDTHS[out] - 1}u)", *inputs[1:]]
    text = f"{name}_({', '.join(inputs)})"
    if name == "clz" and out in WIDTHS:
        text = f"{text} - {32 - WIDTHS[out]}"
    return narrowed(text, out)


def of_numbers(op: Op, inputs: Sequence[str], constants: Sequence[Any]) -> str:
    """What computes an operation on int32 and Booleans that are plain numbers of C++, 0 and 1; empty for others.

    Args:
        inputs: C++ names of the inputs, or their numbers.
        constants: For each input, the number that it is, or None.
    """
    name, given = op.name, {value.dtype for value in op.inputs}
    if name == "select":
        return f"{inputs[0]} ? {inputs[1]} : {inputs[2]}"
    if name == "convert" and given == {"bool"}:
        return inputs[0]
    if name == "not":
        return f"{'!' if given == {'bool'} else '~'}{inputs[0]}"
    if name in ("and", "or", "xor"):
        return f"{inputs[0]} {INFIX[name]} {inputs[1]}"
    if given != {"int32"}:
        return ""
    if name in COMPARE:
        return f"{inputs[0]} {COMPARE[name]} {inputs[1]}"
    if name in INFIX:  # around, also where a compiler takes it that signed numbers do not overflow, as NVRTC does
        return f"(int32_t)((uint32_t)({inputs[0]}) {INFIX[name]} (uint32_t)({inputs[1]}))"
    if name == "sign":
        return f"({inputs[0]} > 0) - ({inputs[0]} < 0)"
    if name == "neg":
        return f"(int32_t)(0u - (uint32_t)({inputs[0]}))"
    if name in ("max", "min"):
        return f"{inputs[0]} {'>' if name == 'max' else '<'} {inputs[1]} ? {inputs[0]} : {inputs[1]}"
    if name in ("div", "rem") and constants[1] not in (None, 0, -1):
        return f"{inputs[0]} {'/' if name == 'div' else '%'} {inputs[1]}"
    return ""


def leaves_zeros(name: str, bound: Any) -> bool:
    """Whether the second operand of an extreme is a number everywhere and, as a zero, not the one that is chosen."""
    return bound is not None and bound == bound and (name == "max" or bound != 0 or is_zero(bound))


def is_zero(constant: Any) -> bool:
    """Whether a number is the positive zero."""
    return constant == 0 and not np.signbit(constant)


def compared(name: str, inputs: Sequence[str], dtype: str) -> str:
    """A mask. Of Booleans, which are masks, true is the smaller number."""
    if dtype == "bool":
        inputs = [f"(vu){text}" for text in inputs]
    return f"(vi)({inputs[0]} {COMPARE[name]} {inputs[1]})"


def converted(text: str, given: str, out: str) -> str:
    """One type as another."""
    if given == "bool":
        return f"(vf)({text} & (vi)f_(1.0f))" if out == "float32" else f"({vector(out)})({text} & 1)"
    if out == "float32":
        return f"float_of({text})"
    if given == "float32":
        whole = f"uint_of({text})" if vector(out) == "vu" else f"int_of({text})"
        return saturated(whole, out)
    return narrowed(f"({vector(out)}){text}", out)


def saturated(text: str, dtype: str) -> str:
    """Cut to the range of a narrow type."""
    if dtype not in WIDTHS:
        return text
    limits = np.iinfo(dtype)
    kind = "u_" if vector(dtype) == "vu" else "i_"
    suffix = "u" if kind == "u_" else ""
    return f"min_(max_({text}, {kind}({limits.min}{suffix})), {kind}({limits.max}{suffix}))"
