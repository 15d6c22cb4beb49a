"""Faults to plant in the generation of C++ and in its prelude, and those that change no result, with the reason."""

from mutants import Mutant, faults_in

from drivetrain.sim.engines.native.toolchain import PRELUDE as FILES

NATIVE = "drivetrain.sim.engines.native."

GENERATION = [
    *faults_in(NATIVE + "expressions",
        ("INFIX", "sub", "+"),
        ("INFIX", "and", "|"),
        ("INFIX", "xor", "|"),
        ("COMPARE", "lt", "<="),
        ("COMPARE", "ge", ">"),
        ("ELEMENT", "int16", "int8_t"),
        ("constant", '"i_(-1)" if number', '"i_(1)" if number'),
        ("float_text", "value.hex()", "round(value, 3)"),
        ("signed", '"INT32_MIN" if', '"INT32_MIN + 1" if'),
        ("narrowed", ">> {shift}", ">> 0"),
        ("expression", "', '.join(inputs)})\"\n    if name == \"convert\"",
         "inputs[0]}, {inputs[2]}, {inputs[1]})\"\n    if name == \"convert\""),
        ("expression", "narrowed(f\"{inputs[0]} {INFIX[name]} {inputs[1]}\", out)",
         "f\"{inputs[0]} {INFIX[name]} {inputs[1]}\""),
        ("expression", "'|' if name == 'max'", "'&' if name == 'max'"),
        ("expression", "'/' if name == 'div'", "'%' if name == 'div'"),
        ("expression", " - {32 - WIDTHS[out]}", ""),
        ("compared", 'f"(vu){text}"', "text"),
        ("converted", "({text} & 1)", "{text}"),
        ("converted", "int_of({text})\"\n", "uint_of({text})\"\n"),
        ("saturated", "limits.max}{suffix}", "limits.max - 1}{suffix}"),
        ("saturated", "limits.min}{suffix}", "limits.min + 1}{suffix}"),
    ),
    *faults_in(NATIVE + "statements",
        ("_threefry", '{names[1]}[{place}] = {words}.y', '{names[1]}[{place}] = {words}.x'),
        ("_stack", "[{k}]", "[0]"),
        ("_concat", "Index(start=start)", "Index(start=0)"),
        ("_pick", "== {k})", "== {k + 1})"),
        ("_pick", "at.scalar(choices[-1])", "at.scalar(choices[0])"),
        ("_put", "at.plan.is_last_read(x, op) and ", ""),
        ("_put", " and owned_here(at, x)", ""),
        ("_put", "seldom if index.size >= LEAST_PUT", "seldom if index.size < 0"),
        ("_put", "{f'sel({allowed}, {new}, {old})' if allowed else new}", "{new}"),
        ("_put", "{allowed or 'i_(-1)'}", "i_(-1)"),
        ("_put", "[old, new], [None] * 2", "[old, old], [None] * 2"),
        ("scalar_mask", "not op.inputs[0].shape else", "op.inputs[0].shape else"),
        ("row_reduced", "first = 0 if", "first = 1 if"),
        ("row_reduced", "[*outer, Index({name: 1})]", "[*outer, Index()]"),
        ("row_reduced", "bool(START[kind])", "not START[kind]"),
        ("argument", '">" if', '">=" if'),
        ("argument", "i_({name})", "i_({name} - 1)"),
        ("argument", " | (({each} != {each}) & ({best} == {best}))", ""),
        ("_cumulate", "{place} - 1]", "{place}]"),
        ("_sort", "{size - 1}; {i} > 0", "{size - 1}; {i} > 1"),
        ("_sort", "{x} > {y}", "{x} >= {y}"),
        ("_sort", "reversed(names[: op.attrs[\"num_keys\"]])", "names[: op.attrs[\"num_keys\"]]"),
    ),
    *faults_in(NATIVE + "emitter",
        ("Index.__add__", "self.start + other.start", "self.start"),
        ("Index.times", "self.start * factor", "self.start"),
        ("Emitter.viewed", 'start=op.attrs["offset"])\n        for', "start=0)\n        for"),
        ("Emitter.viewed", "part.times(stride)", "part.times(1)"),
        ("Emitter.viewed", "parts[dim].times(step)", "parts[dim]"),
        ("Emitter.taken", "return f\"gather({self.names[x]}, {self.element(index, position)})\"",
         "return f\"gather({self.names[x]}, i_(0))\""),
        ("Emitter.taken", "[{uniform}]", "[0]"),
        ("Emitter.taken", "({table}, {self.element(index, position)})", "({table}, i_(0))"),
        ("Emitter.uniform", "{parts[1]})\" if", "{parts[0]})\" if"),
        ("Emitter.fill", "and all(", "and any("),
        ("Emitter.memory_for_inputs", '"sort": op.inputs', '"sort": ()'),
        ("flat", "row_major(value.shape), strict=True", "row_major(value.shape)[::-1], strict=True"),
        ("owned_here", "return value in at.plan.makers or", "return True or"),
    ),
    *faults_in(NATIVE + "plan",
        ("Plan.can_be_virtual", "len(users) != 1", "len(users) < 1"),
        ("Plan.is_last_read", "self.reading(user) < here", "True"),
        ("Plan.last_read", "return self.end\n", "return -1\n"),
        ("Plan.reading", "self.read_at.get(user.out, self.end) if is_later else ", ""),
        ("Plan.is_flat", "all(self.is_flat", "any(self.is_flat"),
        ("is_reshape", 'view.attrs["offset"] == 0 and ', ""),
        ("is_reshape", " and view.out.size == view.inputs[0].size", ""),
        ("dimension_map", "stride // row_major(source.shape)[axis]", "1"),
        ("dimension_map", "low < 0 or high >= size", "low < 0"),
    ),
    *faults_in(NATIVE + "memory",
        ("Memory.again", "last_read(value) >= self.now", "False"),
        ("Memory.again", "has_size >= size", "True"),
        ("Memory.again", "has_kind == kind and ", ""),
        ("Memory.again", " and self.given[name] < self.now", ""),
    ),
    *faults_in(NATIVE + "regions",
        ("in_place", "at.plan.is_last_read(value, op)", "True"),
        ("in_place", " and owned_here(at, value)", ""),
        ("in_place", "other.outputs.count(value) != 1 or ", ""),
        ("assign", "at.names[value] in names and at.names[value] != name", "False"),
        ("assign", "{f'sel({mask}, {text}, {name})' if mask else text}", "{text}"),
        ("assign", "{f'sel({mask}, {new}, {name}[{index}])' if mask else new}", "{new}"),
        ("_if", "then.outputs, within)", "then.outputs)"),
        ("_if", 'f"{condition} & {mask}") if mask else condition', "condition)"),
        ("_while", "body.outputs, active)", "body.outputs)"),
        ("_while", "{active} = {active} &", "{active} ="),
        ("_while", "{mask or 'i_(-1)'}", "i_(-1)"),
        ("_for", "i_({i})", "i_({i} + 1)"),
        ("_for", "mask, body.inputs[1:])", "mask)"),
    ),
    *faults_in(NATIVE + "kernel",
        ("write_kernel", "(uint32_t)t", "(uint32_t)0"),
        ("write_kernel", "base * 2 + {k}", "base * 2"),
        ("write_kernel", "t * num_envs + base", "base"),
        ("write_kernel", "assign(at, variables, block.outputs[: num_state + 1])",
         "assign(at, variables[:-1], block.outputs[: num_state])"),
        ("load_pieces", "{memory}[{element}]", "{memory}[0]"),
        ("load_pieces", "{row} * {whole.size}", "{row}"),
        ("store_pieces", '" & 1" if', '"" if'),
    ),
]  # fmt: skip


def in_their_files(faults: list[tuple[str, str]]) -> list[Mutant]:
    """Faults in what every kernel includes, each in the one file that has the piece."""
    found = []
    for old, new in faults:
        (file,) = (file for file in FILES if old in file.read_text())
        found.append(Mutant(str(file), old, new))
    return found


IN_FILES = [
    *in_their_files([
        ("return (vi)__builtin_ia32_blendvps256((w)b, (w)a, (w)m);",
         "return (vi)__builtin_ia32_blendvps256((w)a, (w)b, (w)m);"),
        ("movmskps256((w)m) != 0", "movmskps256((w)m) == 255"),
        ("sel(high | low | nan, vf{}, x)", "x"),
        ("inside = (x > vf{}) & ~high", "inside = ~high"),
        ("const vi zero = b == 0, wraps = (a == INT32_MIN) & (b == -1);\n  return sel(zero, a,",
         "const vi zero = b == 0, wraps = (a == INT32_MIN) & (b == -1);\n  return sel(zero, vi{},"),
        ("vi shl_(vi a, vi n) { return sel((vu)n < 32u,", "vi shl_(vi a, vi n) { return sel((vu)n < 99u,"),
        ("n < 32u, (vi)n, i_(31)", "n < 32u, (vi)n, i_(30)"),
        ("INLINE vi max_(vi a, vi b) { return sel(a > b", "INLINE vi max_(vi a, vi b) { return sel(a < b"),
        ("INLINE vi sign_(vi a) { return (a < 0) - (a > 0); }", "INLINE vi sign_(vi a) { return (a < 0) - (a > 1); }"),
        ("for (int n = 1; n < 32; n *= 2) x |= x >> n;", "for (int n = 1; n < 16; n *= 2) x |= x >> n;"),
        ("* 0x01010101u) >> 24", "* 0x01010101u) >> 25"),
        ("result * a, result);", "a, result);"),
        ("ROUND(13) ROUND(15) ROUND(26) ROUND(6) x += k2, y += k0 + 5u;",
         "ROUND(13) ROUND(15) ROUND(26) ROUND(6) x += k2, y += k0 + 4u;"),
        ("y = (y << r) | (y >> (32 - r))", "y = (y << r) | (y >> (31 - r))"),
        ("INLINE vf max_(vf a, vf b) { return sel(a != a, a, ", "INLINE vf max_(vf a, vf b) { return ("),
        ("r - sel(r > a, f_(1), vf{})", "r - sel(r >= a, f_(1), vf{})"),
        ("size - whole >= 0.5f", "size - whole > 0.5f"),
        ("((quadrant & 2) << 30)", "((quadrant & 2) << 29)"),
    ]),
    *in_their_files([
        ("index * LANES + lane_numbers()", "index * LANES"),
        ("if (mask[l]) rows", "rows"),
        ("for (int l = 0; l < num_valid; ++l) to[l * stride]", "for (int l = 0; l < 1; ++l) to[l * stride]"),
        ("<< (bits * e);", "<< e;"),
        ("MIX(x, y, 2, 3, 10, 11, 6, 7, 14, 15)", "MIX(x, y, 2, 3, 10, 11, 6, 7, 15, 14)"),
        ("if constexpr (left > 1) store_part", "if constexpr (left > 99) store_part"),
    ]),
]  # fmt: skip
MUTANTS = GENERATION + IN_FILES
ASKED = "the kernel does not ask whether any lane is meant, and each lane asks for itself"
BLENDED = "lanes that do not run a region hold anything, and what leaves it is blended"
OF_MODULES = {
    ("statements:_put", "seldom if index.size >= LEAST_PUT"): ASKED,
    ("statements:scalar_mask", "not op.inputs[0].shape else"): ASKED,
    ("plan:Plan.can_be_virtual", "len(users) != 1"): "every reader computes the elements again",
    ("plan:is_reshape", 'view.attrs["offset"] == 0 and '): "dense views of equal size have no offset",
    (
        "plan:is_reshape",
        " and view.out.size == view.inputs[0].size",
    ): "the first elements are where they are in the whole",
    ("regions:_if", 'f"{condition} & {mask}") if mask else condition'): BLENDED,
    ("regions:_while", "{active} = {active} &"): "a lane that is done keeps the values by which it is done",
    ("regions:_while", "{mask or 'i_(-1)'}"): BLENDED,
    ("regions:_for", "mask, body.inputs[1:])"): "the body's arrays are copied before they are changed",
}
OF_FILES = {
    (
        "prelude.hpp",
        "result * a, result);",
    ): "JAX has no power of integers by an exponent that is only known when it runs",
    ("memory.hpp", "if constexpr (left > 1) store_part"): "the rest of a row is stored element by element",
}
SURVIVORS = {f"{NATIVE}{where}: {old}": why for (where, old), why in OF_MODULES.items()}
SURVIVORS |= {f"{where}: {old}": why for (where, old), why in OF_FILES.items()}
"""Faults that change no result, and why."""
