"""Faults to plant in passes, each in one place: what tests of equality have to catch.

A fault is a piece of the source of a function, and what stands there instead; or an entry of a table, and another
value; or a piece of a file. Those of the generation of C++ are in `native_mutants.py`.
"""

import importlib
import inspect
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

PASSES = "drivetrain.sim.ir.passes."


@dataclass(frozen=True)
class Mutant:
    """One fault."""

    where: str
    """MODULE:FUNCTION, MODULE:CLASS.METHOD, MODULE:TABLE, or the path of a file."""
    old: str
    """Occurs once in the source of `where`; for a table, the key."""
    new: Any

    @property
    def name(self) -> str:
        """Where and what, in short."""
        return f"{self.where.removeprefix(PASSES).rpartition('/')[2]}: {self.old}"


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """The fault is there until the end of the `with`."""
    if mutant.where.endswith(".hpp"):
        with changed_file(Path(mutant.where), mutant):
            yield
        return
    module_name, _, path = mutant.where.partition(":")
    module = importlib.import_module(module_name)
    target: Any = module
    for part in path.split("."):
        target = getattr(target, part)
    if isinstance(target, dict):
        assert mutant.old in target
        with patch.dict(target, {mutant.old: mutant.new}):
            yield
        return
    source = textwrap.dedent(inspect.getsource(target))
    source = replaced_once(source[source.index("def ") :], mutant)
    scope: dict[str, Any] = {}
    exec(compile(source, module.__file__ or "", "exec"), dict(vars(module)), scope)
    before, target.__code__ = target.__code__, scope[target.__name__].__code__
    try:
        yield
    finally:
        target.__code__ = before


@contextmanager
def changed_file(path: Path, mutant: Mutant) -> Iterator[None]:
    """Whoever reads a file as text reads the fault."""
    source, read = replaced_once(path.read_text(), mutant), Path.read_text

    def text_of(file: Path, *arguments: Any, **options: Any) -> str:
        return source if file == path else read(file, *arguments, **options)

    with patch.object(Path, "read_text", text_of):
        yield


def replaced_once(source: str, mutant: Mutant) -> str:
    """The source with the fault."""
    assert source.count(mutant.old) == 1, f"{mutant.name}: found {source.count(mutant.old)} times, expected once"
    return source.replace(mutant.old, mutant.new)


def faults_in(module: str, *faults: tuple[str, str, Any]) -> list[Mutant]:
    return [Mutant(f"{module}:{where}", old, new) for where, old, new in faults]


MUTANTS = [
    *faults_in(PASSES + "folding",
        ("_add", "is_number(at, y, 0)", "is_number(at, y, 1)"),
        ("_sub", "x if is_number(at, y, 0)", "y if is_number(at, y, 0)"),
        ("_compare_with_zero", 'some if op.name == "ne"', 'some if op.name == "eq"'),
        ("any_of", 'if total.dtype in ("int32", "uint32") else None', "if True else None"),
        ("any_of", 'count.attrs["kind"] != "sum"', "False"),
        ("_more_than_none", "if is_number(at, op.inputs[1], 0)", "if True"),
        ("_mul", "is_number(at, one, 1)", "is_number(at, one, 2)"),
        ("_mul", "other, zero)", "zero, other)"),
        ("_div", "op.inputs[0] if", "op.inputs[1] if"),
        ("_not", '"lt": "ge"', '"lt": "gt"'),
        ("_select", "x if number else y", "y if number else x"),
        ("_select", "condition, x, inner.inputs[2]", "condition, x, inner.inputs[1]"),
        ("_select", 'maker.inputs[0], y, x)', 'maker.inputs[0], x, y)'),
        ("_compare_flag", '(op.name == "eq")', '(op.name == "ne")'),
        ("_view", '+ inner["offset"]', ""),
        ("affine_form", "return (offset, strides) if", "return (0, strides) if"),
        ("_view", "affine_form(places_of(maker).reshape(-1)[places_of(op)])", "affine_form(places_of(op))"),
        ("view_of_part", "(along - start)", "along"),
        ("view_of_part", "return None\n            width", "pass\n            width"),
        ("_put", "allowed is not None and not allowed", "allowed is not None and allowed"),
        ("_put", "== np.arange(x.size)", ">= 0"),
        ("_pick", "choices[int(number)]", "choices[int(number) - 1]"),
        ("Folder.rewrite", "0 if self.constants", "1 - 1 if not self.constants"),
    ),
    *faults_in(PASSES + "cse",
        ("signature", "attrs_key(op), ", ""),
        ("signature", "numbers.sort()", "numbers.clear()"),
        ("scoped", "seen, renamed = dict(seen), dict(renamed)", "pass"),
    ),
    *faults_in(PASSES + "dead_code",
        ("eliminate_dead", "needed |= outer_uses(region)", "pass"),
        ("trimmed_loop", "k - skip for k", "k for k"),
        ("trimmed_loop", "op.inputs[k] for k in order", "op.inputs[0] for k in order"),
    ),
    *faults_in(PASSES + "converted_puts",
        ("is_built", 'put.attrs["kind"] != "set"', "False"),
        ("write", "builder.convert(renamed.get(base, base), dtype)",
         "builder.full(base.shape, 1, dtype)"),
        ("write", ", mask, put", ', builder.full(mask.shape, True, "bool"), put'),
    ),
    *faults_in(PASSES + "predicated_put",
        ("write", "condition if where_it_holds", "condition if not where_it_holds"),
        ("write", 'builder.elementwise("and", mask, wanted)', "mask"),
        ("puts_below", " and len(users[top]) == 1", ""),
    ),
    *faults_in(PASSES + "ranges",
        ("_compare_multiple", "least <= min(ends) and max(ends) <= most", "True"),
        ("_compare_multiple", "number - rest, times", "number, times"),
        ("_compare_multiple", 'op.name == "ne"', 'op.name == "eq"'),
        ("_compare_multiple", "whole_times, x.dtype", "whole_times + 1, x.dtype"),
        ("_max", "at.of(x)[0] >= at.of(y)[1]", "at.of(x)[1] >= at.of(y)[0]"),
        ("_min", "at.of(x)[1] <= at.of(y)[0]", "at.of(x)[0] <= at.of(y)[1]"),
        ("_rem", "at.of(x)[1] < at.of(y)[0]", "at.of(x)[0] < at.of(y)[0]"),
        ("_compare", '"lt": (b < c,', '"lt": (a < c,'),
        ("Ranges.learn", "low <= found[0] and found[1] <= high", "True"),
    ),
    *faults_in(PASSES + "intervals",
        ("where", "most - 1", "most - 2"),
        ("_reduce", "max(size - 1, 0)", "0"),
        ("_rem", "-most) if a < 0 else 0", "0)"),
    ),
    *faults_in(PASSES + "sinking",
        ("decided", "op.inputs[case]", "op.inputs[3 - case]"),
        ("movable", "user.inputs[1] is value and user.inputs[2] is not value", "value in user.inputs"),
        ("under", "decided(selects, 1), decided(selects, 2)", "decided(selects, 2), decided(selects, 1)"),
    ),
    *faults_in(
        PASSES + "short_rows",
        ("write_out_short_rows", "range(op.inputs[0].shape[-1])", "range(op.inputs[0].shape[-1] - 1)"),
        ("at_place", "x.shape[:-1], place, row_major", "x.shape[:-1], 0, row_major"),
    ),
    *faults_in(PASSES + "scalars",
        ("_view", "at.parts(x)[place] for place in places", "at.parts(x)[place - 1] for place in places"),
        ("_put", "np.int32(k)", "np.int32(k + 1)"),
        ("_put", 'at.b.elementwise("and", allowed, here)', "here"),
        ("_cumulate", "k % size == 0", "k == 0"),
        ("_by_halves", "combine(_by_halves(combine, row[:half])", "combine(_by_halves(combine, row[-half:])"),
        ("_better", '"gt" if kind', '"ge" if kind'),
        ("_better", 'b.elementwise("or", better, first)', "better"),
        ("_sort", "column[start + i], column[start + k]) for", "column[i], column[k]) for"),
        ("in_order", 'b.elementwise("select", swap, y, x)', "y"),
        ("in_order", '("and", "or")', '("or", "and")'),
        ("in_order", "b.elementwise(most, x, y)", "y"),
        ("after", '"gt", x, y', '"lt", x, y'),
        ("after", 'b.elementwise("eq", x, y)', "greater"),
        ("_reduce", "k * size, (dense,)", "0, (dense,)"),
    ),
    *faults_in(
        PASSES + "sorting",
        ("merge_exchange", "k & p == rest", "k & p == 0"),
        ("merge_exchange", "q - p, q // 2, p", "q - p, q // 2, 0"),
        ("_sort_floats", "2 * _places(shape)", "_places(shape)"),
        ("_sort_floats", "2 * shape[-1] - 1", "shape[-1] - 1"),
        ("_sort_floats", 'b.elementwise("add", place, nan)', "nan"),
        ("_sort_floats", 'b.elementwise("or", sign, nan)', "nan"),
        ("_sort_floats", "b.const(np.float32(0))), place, code", "b.const(np.float32(0))), code, code"),
        ("_sort_floats", '"le", code, last), sign', '"le", code, last), zero'),
        ("_sort_by_place", "(shape[-1] - 1).bit_length()", "(shape[-1] - 1).bit_length() - 1"),
        ("_sort_by_place", "op.inputs[:num_keys]), own", "op.inputs[:num_keys]), op.inputs[-1]"),
        ("_sort_by_place", "(1 << width) - 1", "(1 << width) - 2"),
        ("_key", 'b.elementwise("sub", b.const(np.int32(LEAST)), bits)', "bits"),
        ("_key", "b.const(np.int32(MOST)), key", "key, key"),
        ("_key", "b.const(np.int32(LEAST)))\n", "b.const(np.int32(0)))\n"),
    ),
]  # fmt: skip
