"""Whatever a trace depends on changes the fingerprint, and where that cannot be told there is none."""

# Over 400 lines: every kind of thing that a trace can reach has its case.

import ast
import dis
import sys
import types
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from drivetrain import sim
from drivetrain.sim import registry
from drivetrain.sim.fingerprint import Escape, fingerprint, followed, installed, same
from drivetrain.sim.fingerprint.code import by_dis, fast

HEAD = """
import copy, dataclasses, enum, functools, math, os, random, time, types
from functools import partial
import jax
import jax.numpy as jnp
import numpy as np
import walked_library as library
from walked_library import helper
"""
LIBRARY = HEAD.partition("import walked_library")[0] + "def helper(x): return x * FACTOR\nFACTOR = 2\n"
ENV = """
SCALE = 3.0
TABLE = np.arange(4)

class Parent:
    def moved(self, x): return x + 1

@jax.tree_util.register_dataclass
@dataclasses.dataclass
class State:
    x: float
    y: float = 1.0

class Way(enum.IntEnum):
    LEFT = 0
    RIGHT = 1

@partial(jax.jit, static_argnames=("n",))
def repeated(x, n=2): return x * n

def closing(k):
    def inside(x): return x + k
    return inside

class Env(Parent):
    gravity = 9.8
    unread = 5
    def __init__(self): self.size, self.added, self.array = 4, closing(1), jnp.arange(3)
    @property
    def half(self): return self.size / 2
    def reset(self, key, params): return self.step(key, State(0.0), Way.LEFT, params)
    def step(self, key, state, action, params, bonus=0.5):
        y = [self.moved(state.x) * i for i in range(2)]
        return self.added(y[0]) + SCALE + bonus + self.gravity + self.half + helper(1) + TABLE[0] + repeated(state.y)
    def render(self, state): return open("picture")
"""


@pytest.fixture
def load(monkeypatch):
    """Runs a text as a module beside a library, and gives an environment of it."""

    def loaded(text=ENV, library=LIBRARY):
        for name, source in (("walked_library", library), ("walked", HEAD + text)):
            module = types.ModuleType(name)
            monkeypatch.setitem(sys.modules, name, module)
            exec(compile(source, f"{name}.py", "exec"), vars(module))
        return sys.modules["walked"].Env()

    return loaded


def mark(*roots):
    return followed(*roots).digest


def test_the_same_environment_made_anew_has_the_same_fingerprint(load):
    assert mark(load()) == mark(load()) == mark(load("# a remark\n\n" + ENV.replace('"picture"', '"another"')))


@pytest.mark.parametrize(
    ("what", "into"),
    [
        ("SCALE = 3.0", "SCALE = 3"),
        ("SCALE = 3.0", "SCALE = np.float32(3)"),
        ("np.arange(4)", "np.arange(4.0)"),
        ("return x + 1", "return x + 1.0"),
        ("class Env(Parent):", "class Env:\n    def moved(self, x): return x + 1"),
        ("y: float = 1.0", "y: float = 2.0"),
        ("@jax.tree_util.register_dataclass", "@partial(jax.tree_util.register_dataclass, data_fields=['y', 'x'], "
         "meta_fields=[])"),
        ("    y: float = 1.0", "    y: float = dataclasses.field(default=1.0, metadata={'static': True})"),
        ("LEFT = 0", "LEFT = 2"),
        ('static_argnames=("n",)', "inline=True"),
        ("n=2", "n=3"),
        ("return x + k", "return k + x"),
        ("gravity = 9.8", "gravity = 9.81"),
        ("self.size, self.added, self.array = 4", "self.size, self.added, self.array = 5"),
        ("closing(1)", "closing(2)"),
        ("jnp.arange(3)", "jnp.arange(3, dtype=jnp.int16)"),
        ("self.size / 2", "self.size / 4"),
        ("bonus=0.5", "bonus=0.25"),
        ("range(2)", "range(3)"),
        ("self.moved(state.x)", "-self.moved(state.x)"),
        ('def render(self, state): return open("picture")', "def moved(self, x): return x - 1"),
    ],
)  # fmt: skip
def test_a_change_of_anything_that_is_reached_is_another_fingerprint(load, what, into):
    assert what in ENV
    assert mark(load()) != mark(load(ENV.replace(what, into)))


@pytest.mark.parametrize(("what", "into"), [("FACTOR = 2", "FACTOR = 4"), ("x * FACTOR", "FACTOR + x")])
def test_a_change_in_another_module_is_another_fingerprint(load, what, into):
    assert mark(load()) != mark(load(library=LIBRARY.replace(what, into)))


@pytest.mark.parametrize("registered", ["int", "np.ndarray", "Parent"])
def test_what_is_declared_to_be_of_an_abstract_class_is_part_of_it(load, registered):
    asks = f"Env.step = lambda self, *given: isinstance({registered}, Kind)"
    text = f"{ENV}\nimport abc\nclass Kind(abc.ABC): pass\n{asks}\n"
    assert mark(load(text)) == mark(load(text)) != mark(load(f"{text}Kind.register({registered})\n"))


def test_fields_with_a_factory_are_followed_into_it(load):
    made = ENV.replace("y: float = 1.0", "y: float = dataclasses.field(default_factory=lambda: 1.0)")
    assert mark(load(made)) == mark(load(made))
    assert mark(load(made)) != mark(load(made.replace("lambda: 1.0", "lambda: 2.0")))
    assert fingerprint(load(made.replace("lambda: 1.0", "lambda: time.time()"))) is None


@pytest.mark.parametrize(
    ("classes", "expression", "before", "after"),
    [
        ("class Turn(enum.Enum):\n    LEFT = 0\nTurn.LEFT.force = ?", "Turn.LEFT.force", "1.0", "2.0"),
        ("class Turn(enum.Enum):\n    LEFT = 0\nTurn.LEFT.force = ?", "list(Turn)[0].force", "1.0", "2.0"),
        ("@dataclasses.dataclass\nclass Two:\n    x: ?", "[f.type for f in dataclasses.fields(Two)]", "int", "float"),
        ("@dataclasses.dataclass\nclass Two:\n    x: int = dataclasses.field(repr=?, default=0)",
         "[f.repr for f in dataclasses.fields(Two)]", "1", "0"),
        ("class Two:\n    def max(self, axis=None, out=None): return ?", "np.amax(Two())", "1.0", "2.0"),
        ("class Two:\n    def sqrt(self): return ?", "root(np.asarray(Two()))", "1.0", "2.0"),
        ("class Two:\n    def keys(self): return [?]\n    def __getitem__(self, x): return x", "dict(Two())", "1", "2"),
        ("class Two:\n    gravity = ?", "'{0.gravity}'.format(Two())", "1.0", "2.0"),
    ],
)  # fmt: skip
def test_what_only_a_library_names_is_part_of_it(load, classes, expression, before, after):
    text = "from numpy import sqrt as root\n" + ENV.replace("y = [", f"z = {expression}\n        y = [")
    marks = [mark(load(f"{classes.replace('?', value)}\n{text}")) for value in (before, before, after)]
    assert marks[0] == marks[1] != marks[2]


def test_a_flag_whose_inverse_was_asked_for_is_the_same(load):
    text = ENV.replace("y = [", "z = ~Turn.LEFT\n        y = [")
    env = load(f"class Turn(enum.Flag):\n    LEFT = 1\n    UP = 2\n{text}")
    before = mark(env)
    assert ~sys.modules["walked"].Turn.LEFT is not None
    assert mark(env) == before


def test_what_changes_after_a_module_was_loaded_counts_as_it_is(load):
    env = load()
    kept = [mark(env)]
    for change in (
        lambda: setattr(env, "size", 8),
        lambda: setattr(env, "more", None),
        lambda: setattr(type(env), "gravity", 1.6),
        lambda: setattr(type(env).__mro__[1], "moved", lambda self, x: x),
        lambda: setattr(sys.modules["walked"], "SCALE", 5.0),
        lambda: sys.modules["walked"].TABLE.__setitem__(0, 7),
        lambda: setattr(sys.modules["walked_library"], "FACTOR", 9),
        lambda: setattr(env.added.__closure__[0], "cell_contents", 3),
        lambda: setattr(env, "step", env.reset),
    ):
        change()
        kept.append(mark(env))
    assert len(set(kept)) == len(kept)


def test_numbers_of_other_types_or_signs_and_params_are_others():
    values = [0, 0.0, -0.0, False, None, "0", b"0", np.float32(0), np.int32(0), np.zeros(()), np.zeros(1),
              jnp.zeros(()), jnp.asarray(0.0), (0,), [0], {0: 0}, {"g": 9.8}, {"g": 9.9}, float("nan"),
              jax.random.key(0), 0j, jax.random.key(1), slice(0), range(0), np.dtype("f4"), jnp.float32]  # fmt: skip
    assert len({mark(value) for value in values}) == len(values)


@pytest.mark.parametrize(
    "body",
    [
        "getattr(self, 'si' + 'ze')",
        "open('file').read()",
        "time.time()",
        "random.random()",
        "np.random.rand()",
        "os.environ.get('X')",
        "os.urandom(1)",
        "globals()['SCALE']",
        "eval('SCALE')",
        "vars(self)",
        "self.__dict__",
        "math.__dict__",
        "helper.__globals__",
        "id(self)",
        "hash('x')",
        "[x for x in {'a', 'b'}]",
        "sorted({x for x in 'ab'})",
        "(lambda m: m.sin(1.0))(math)",
        "__import__('math').pi",
        "jax.devices()",
        "jax.config.update('jax_enable_x64', True)",
        "np.load('file')",
        "np.empty(3)",
        "jnp.load('file')",
        "partial(jnp.where)(key) + jax.debug.print('x')",
        "type('C', (), {}).__subclasses__()",
        "MEMO()",
        "LOCK",
        "WORDS",
        "CALLS",
        "OBJECTS",
        "absent.value",
        "Way.__doc__",
        "Parent.__annotations__",
        "helper.__annotations__",
        "State.__match_args__",
        "State.__slots__",
        "TEXT.format(self)",
        "str.format(TEXT, self)",
        "(TEXT or '{}').format(self)",
        "GETTER(self)",
        "FORMATTER(TEXT)",
        "BOARD % 7",
    ],
)
def test_what_cannot_be_followed_has_no_fingerprint(load, body):
    more = (
        "\nimport threading, itertools\nMEMO = functools.lru_cache(lambda: 1)\nLOCK = threading.Lock()\n"
        "WORDS = {'a', 'b'}\nCALLS = itertools.count()\nOBJECTS = np.array([object()])\nabsent = library\n"
        "import operator\nTEXT = '{0.gravity}'\nGETTER = operator.attrgetter('__dict__')\n"
        "FORMATTER = operator.methodcaller('format', Parent())\nBOARD = 2 ** 20000\n"
    )
    env = load(ENV.replace("y = [", f"z = {body}\n        y = [") + more)
    assert fingerprint(env) is None
    with pytest.raises(Escape, match="step"):
        followed(env)


@pytest.mark.parametrize(
    "line",
    [
        "import math",
        "from math import pi",
        "global SCALE; SCALE = 4",
        "class Inner: pass",
        "del self.size; yield {*'ab'}",
        "match self:\n            case Env(gravity=g): pass",
        "match self:\n            case Env(g): pass",
        "match self:\n            case {'gravity': g}: pass",
    ],
)
def test_statements_that_cannot_be_followed_have_no_fingerprint(load, line):
    assert fingerprint(load(ENV.replace("y = [", f"{line}\n        y = ["))) is None


def test_what_an_environment_never_reaches_may_do_as_it_likes(load):
    assert (
        fingerprint(load(ENV + "\nimport socket\nWORDS = {'a'}\ndef unused(): return open('x'), WORDS\n")) is not None
    )
    assert fingerprint(load(ENV.replace("y = [", "z = state.x in {'a', 'b'}\n        y = ["))) is not None


def test_a_value_of_a_trace_has_no_fingerprint():
    found = []
    jax.make_jaxpr(lambda x: found.append(fingerprint({"kept": x})) or x)(1.0)
    assert found == [None]


def test_jax_settings_and_contexts_are_part_of_it(load):
    env = load()
    plain = mark(env)
    for context in (jax.enable_x64(True), jax.default_matmul_precision("float32"), jax.numpy_rank_promotion("raise"),
                    jax.disable_jit(), jax.threefry_partitionable(False)):  # fmt: skip
        with context:
            assert mark(env) != plain
    assert mark(env) == plain


def test_where_jax_keeps_compiled_programs_is_no_part_of_it(load, tmp_path):
    env, before = load(), jax.config.jax_compilation_cache_dir
    plain = mark(env)
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    try:
        assert mark(env) == plain
    finally:
        jax.config.update("jax_compilation_cache_dir", before)


def test_what_jax_computes_on_is_no_part_of_it(load):
    env, before = load(), jax.config.jax_platforms
    plain = mark(env)
    with jax.default_device("cpu"):
        assert mark(env) == plain
    jax.config.update("jax_platforms", "cuda,cpu" if before == "cpu" else "cpu")
    try:
        assert mark(env) == plain
    finally:
        jax.config.update("jax_platforms", before)


def test_a_mesh_or_a_mapped_axis_around_it_has_no_fingerprint(load):
    env, found = load(), []
    with jax.set_mesh(jax.make_mesh((1,), ("x",))):
        assert fingerprint(env) is None
    jax.vmap(lambda x: found.append(fingerprint(env)) or x, axis_name="i")(jnp.zeros(2))
    assert found == [None]


def test_a_function_in_place_of_a_library_function_is_followed_or_refused(load, monkeypatch):
    env = load(ENV.replace("y = [", "z = jnp.where(state.x > 0, 1, 2), len('x')\n        y = ["))
    marks = [mark(env)]
    for target in (lambda c, x, y: x, lambda c, x, y: y, jnp.maximum):
        with monkeypatch.context() as patched:
            patched.setattr(jnp, "where", target)
            marks.append(mark(env))
    for target in (jax.jit(lambda c, x, y: x), types.SimpleNamespace(), open):
        with monkeypatch.context() as patched:
            patched.setattr(jnp, "where", target)
            assert fingerprint(env) is None
    assert len(set(marks)) == len(marks)


def test_a_class_of_jax_that_is_written_in_c_is_none_that_was_replaced(load):
    mark(load(ENV.replace("y = [", "z = jax.tree_util.GetAttrKey('x')\n        y = [")))


@pytest.mark.parametrize(
    ("place", "name"),
    [("jax._src.lax.lax", "mul"), ("jax._src.random.core", "_randint"), ("jax._src.core", "ShapedArray"),
     ("numpy", "prod"), ("drivetrain.sim.transition", "select")],
)  # fmt: skip
def test_a_function_or_class_replaced_inside_a_library_is_noticed(monkeypatch, place, name):
    before = installed()
    assert same(installed(), before)
    module = sys.modules[place]
    stand_in = type(name, (), {}) if isinstance(vars(module)[name], type) else lambda *given: given
    monkeypatch.setattr(module, name, stand_in)
    assert not same(installed(), before)


def test_a_method_replaced_inside_a_library_and_an_edited_file_are_noticed(monkeypatch):
    before = installed()
    with monkeypatch.context() as patched:
        patched.setattr(jax.core.ShapedArray, "update", lambda self: self)
        assert not same(installed(), before)
    assert same(installed(), before)
    with monkeypatch.context() as patched:
        patched.setattr(jax.lax.mul, "__code__", (lambda x, y: x).__code__)
        assert not same(installed(), before)
    assert same(installed(), before)
    with monkeypatch.context() as patched:
        patched.setattr(jax.lax.mul_p, "abstract_eval", lambda *given: given)
        assert not same(installed(), before)
    assert not same(installed(), {**before, "jax.numpy": "1 " + before["jax.numpy"]})


def test_a_module_that_only_has_the_name_of_a_trusted_one_is_not_trusted(load, monkeypatch):
    fake = types.ModuleType("statistics")
    fake.__file__ = "statistics.py"
    exec("import time\ndef mean(x): return time.time()", vars(fake))
    monkeypatch.setitem(sys.modules, "statistics", fake)
    env = load("from statistics import mean\n" + ENV.replace("y = [", "z = mean(3)\n        y = ["))
    with pytest.raises(Escape, match=r"time\.time"):
        followed(env)


def test_bytecode_is_read_as_dis_reads_it():
    codes = [compile(Path(module.__file__).read_text(), "x", "exec") for module in (ast, dis, types)]
    compared = 0
    while codes:
        code = codes.pop()
        codes += [each for each in code.co_consts if isinstance(each, types.CodeType)]
        if sys.version_info[:2] == (3, 11):
            assert list(fast(code)) == [pair for pair in by_dis(code) if pair[0] != "CACHE"]
        compared += 1
    assert compared > 100


def test_what_python_leaves_in_a_class_that_it_made_is_not_followed():
    class Wind(NamedTuple):
        speed: float

    known = mark(Wind(1.0))
    setattr(Wind, "__classdictcell__", types.CellType({"speed": 2.0}))  # noqa: B010  Python 3.14 leaves one
    assert mark(Wind(1.0)) == known


@pytest.mark.parametrize("name", registry.ENVIRONMENTS)
def test_our_environments_can_be_followed(name):
    env = sim.make(name)
    assert mark(env, env.default_params) == mark(sim.make(name), env.default_params)
