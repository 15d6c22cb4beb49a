"""Environments in whatever form their authors like: states, loops, parameters and records of every kind."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import applied, assert_engine_equals_xla, assert_same
from small_programs import small

from drivetrain import sim
from drivetrain.core.errors import CompileError, InvalidInput
from drivetrain.sim.engines.native.emitter import Emitter
from drivetrain.sim.engines.native.regions import REGIONS
from drivetrain.sim.engines.native.statements import STATEMENTS
from drivetrain.sim.ir.passes.pipeline import vectorizable
from drivetrain.sim.spaces import Box, Discrete

pytestmark = pytest.mark.usefixtures("compiled_as_large_ones")
TABLE = np.arange(12, dtype=np.float64).reshape(3, 4)
PARAMS = {"factor": np.float32(0.99), "weights": np.arange(4, dtype=np.float32)}
rng = np.random.default_rng(0)


class Named(NamedTuple):
    x: Any
    time: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Record:
    x: Any
    time: Any


class Odd:
    """Three numbers that wander; `pack` makes the state of them and of the time, `unpack` is its reverse."""

    name = "Odd"

    def __init__(self, pack, unpack):
        self.pack, self.unpack, self.default_params = pack, unpack, PARAMS

    def reset(self, key, params):
        state = self.pack(jax.random.uniform(key, (3,)), jnp.int32(0))
        return self.observe(state), state

    def observe(self, state):
        x, time = self.unpack(state)
        return {"x": x, "time": time.astype(jnp.float32), "high": x > 0.5, "byte": (x * 255).astype(jnp.uint8)}

    def step(self, key, state, action, params):
        x, time = self.unpack(state)
        x = x + 0.1 * action - 0.05 + 0.01 * jax.random.uniform(key, (3,))
        x = x * params["factor"] + params["weights"].sum() * 0.001 + jnp.asarray(TABLE, jnp.float32)[action, :3] * 0.001
        state = self.pack(x, time + 1)
        return self.observe(state), state, x.sum(), (x > 1.3).any(), time >= 6, {"largest": x.max(), "time": time}

    def action_space(self, params):
        return Discrete(3)

    observation_space = action_space


def everything(x, time):
    """A state of every kind of node and of narrow leaves, an array of no elements and a number of Python's."""
    return {
        "list": [x, (time,)],
        "none": None,
        "empty": (),
        "named": Named(x * 2, time.astype(jnp.int16)),
        "record": Record((x * 99).astype(jnp.uint8), time.astype(jnp.uint8)),
        "flags": (time >> jnp.arange(4)) & 1 > 0,
        "no elements": jnp.zeros((0, 3)),
        "board": jnp.zeros((9, 11), jnp.uint8).at[time % 9, 3].set(1),
        "number": 1.5,
    }


def read(state):
    """What `everything` was made of, from its narrow leaves."""
    flags = (state["flags"] << jnp.arange(4)).sum()
    rows = jnp.argmax(state["board"][:, 3]).astype(jnp.int32)
    times = [flags, rows, state["record"].time.astype(jnp.int32), state["named"].time.astype(jnp.int32)]
    return state["named"].x / 2, jnp.max(jnp.stack(times)) + 0 * state["record"].x[0]


ALL = Odd(everything, read)


@pytest.mark.whole
@pytest.mark.parametrize("engine", ["native", "numpy"])
@pytest.mark.parametrize("autoreset", ["same_step", "next_step"])
def test_a_state_may_be_of_anything(engine, autoreset):
    assert assert_engine_equals_xla(ALL, engine, 11, 12, autoreset=autoreset) > 5


def test_parameters_of_another_type_are_told_as_that():
    for act in (sim.check_env, lambda env, params: sim.compile(env, 2, 1, "native", params)):
        with pytest.raises(InvalidInput, match="params: expected a dict, as default_params of Odd is, got a float"):
            act(ALL, 3.0)


SHIFTS = jnp.array([1, -1, 8, -8, 7, -7, 9, -9])
MASKS = jnp.asarray(np.random.default_rng(1).random((8, 64)) < 0.5)


def rolled_by_tables(x, n):
    """A board of Booleans, rolled as tables say for each turn of a loop, and what else its index makes of constants."""

    def turn(i, carried):
        board, total, odd = carried
        rolled = jnp.roll(x & MASKS[i], SHIFTS[i])
        place = jnp.where((SHIFTS[i] > 0) & ~(i % 3 == 1), jnp.maximum(i, 2), jnp.minimum(SHIFTS[i] // 3, 5)) % 64
        return board | rolled, total + n[place] * ~i, odd ^ (i > 3) ^ MASKS[i, 5]

    return jax.lax.fori_loop(0, 8, turn, (x, jnp.int32(0), jnp.any(x)))


@pytest.mark.whole
def test_what_a_loops_index_makes_of_constants_is_a_number_and_no_vector_of_lanes():
    boards, numbers = rng.random((11, 64)) < 0.2, rng.integers(-9, 9, (11, 64), dtype=np.int32)
    assert_same(applied(rolled_by_tables, boards, numbers, engine="xla"), applied(rolled_by_tables, boards, numbers))


def test_a_board_that_a_table_rolls_is_loaded_and_not_gathered():
    block = vectorizable(small(rolled_by_tables, np.zeros(64, bool), np.zeros(64, np.int32)))
    at = Emitter({**STATEMENTS, **REGIONS})
    at.names.update({value: f"x{value.number}" for value in block.inputs})
    with at.block(block):
        assert "gather" not in at.text()


def mapped_loops(x, k):
    """Loops whose elements end one by one, inside of one another and with arrays."""
    return [
        jax.vmap(lambda r: jax.lax.while_loop(lambda c: c < 5, lambda c: c * 1.5 + 1, abs(r[0])))(x),
        jax.vmap(lambda r, n: jax.lax.while_loop(lambda c: c[1] < n, lambda c: (c[0] * 2, c[1] + 1), (r, 0)))(
            x, jnp.arange(3) + k
        ),
        jax.vmap(lambda r: jax.vmap(lambda c: jax.lax.while_loop(lambda v: v < 1, lambda v: v * v + 1, c))(r))(x),
        jax.random.key_data(
            jax.vmap(
                lambda key: jax.lax.while_loop(
                    lambda one: jax.random.bits(one) > 2**30, lambda one: jax.random.split(one)[0], key
                )
            )(jax.random.split(jax.random.key(k), 3))
        ),
    ]


def largest_first(x, k):
    """The largest elements of floats with equal ones, of integers, and draws without replacement."""
    whole, odd = jnp.round(x), jnp.where(x > 1, jnp.nan, jnp.where(x < -1, -0.0, jnp.round(x)))
    return [
        jax.lax.top_k(whole, 3),
        jax.lax.top_k(odd, 4)[1],
        jax.lax.top_k((x * 9).astype(jnp.int32).reshape(-1), 5),
        jax.lax.top_k((x * 9).astype(jnp.uint8).reshape(-1), 5),
        jax.random.choice(jax.random.key(k), jnp.arange(4), (2,), replace=False, p=jnp.array([0.1, 0.2, 0.3, 0.4])),
        x.at[k % 3].subtract(2.0),
        (jnp.arange(4, dtype=jnp.uint32) + 1).at[k % 4].subtract(5),
    ]


def bits_of_narrow_numbers(x, k):
    """The same bits with a sign and without, and what is computed from them."""
    small, byte = (x * 99).astype(jnp.int8), (k * 60).astype(jnp.uint8)
    unsigned, signed = jax.lax.bitcast_convert_type(small, jnp.uint8), jax.lax.bitcast_convert_type(byte, jnp.int8)
    short = jax.lax.bitcast_convert_type((x * 9999).astype(jnp.int16), jnp.uint16)
    return unsigned, unsigned // 3, unsigned.astype(jnp.int32), signed > 0, signed.astype(jnp.float32), jnp.trace(short)


def products_of_booleans(x, k):
    """Whether any of pairs holds, as a product of matrices, and what is chosen by that."""
    p, q = x > 0, jnp.roll(x, k, 0) < 0.5
    any_of_pairs = [p @ q.T, jnp.einsum("ij,ij->i", p, q), jnp.resize(p, 70) @ jnp.resize(q, (70, 3))]
    return [(flags.astype(jnp.float32), jnp.where(flags, k, -k)) for flags in any_of_pairs]


def places_of_narrow_types(x, k):
    """Reads and writes at positions whose type ends before the array does."""
    table, byte, signed = jnp.arange(300.0) + x[0, 0], (k * 60).astype(jnp.uint8), (k * 60).astype(jnp.int8)
    return [
        table[byte],
        table[signed],
        jnp.take(table, byte, mode="clip"),
        jax.lax.dynamic_slice(table, (signed,), (3,)),
        jax.lax.dynamic_update_slice(table, jnp.zeros(3), (byte,)),
        table.at[byte].add(1.0),
    ]


def products_of_other_types(x, k):
    """Products of narrow numbers in a wider type, and of operands of two types."""
    small, byte, n = (x * 99).astype(jnp.int8), (k * 60 + jnp.arange(4)).astype(jnp.uint8), (((1,), (1,)), ((), ()))
    return [
        jnp.matmul(small, small.T, preferred_element_type=jnp.int32),
        jnp.dot(small[0], small[1], preferred_element_type=jnp.float32),
        jnp.dot(byte, byte, preferred_element_type=jnp.uint32),
        jnp.dot(jnp.resize(small, 80), jnp.resize(small, (80, 2)), preferred_element_type=jnp.float32),
        jax.lax.dot_general(small, jnp.round(x), n),
        jnp.dot(jnp.full(3, 0.75) * k, jnp.full(3, 0.75), preferred_element_type=jnp.int32),  # of sums, whole numbers
    ]


def nothing(x, k):
    """Arrays of no elements, alone and beside others, what they are reduced to, and loops of no turns."""
    floats = x[:0]
    whole, natural, flags = floats.astype(jnp.int8), floats.astype(jnp.uint32), floats > 0
    return {
        "sums": [floats.sum(0), floats.prod(), whole.sum(), flags.all(0), flags.any(), jnp.zeros((70, 0)).sum(1) * k],
        "extremes": [
            f(y, (0,)) for y in (floats, whole, natural, flags) for f in (jax.lax.reduce_max, jax.lax.reduce_min)
        ],
        "bits": [
            f(y, (0,)) for y in (whole, natural) for f in (jax.lax.reduce_and, jax.lax.reduce_or, jax.lax.reduce_xor)
        ],
        "products": [x[:, :0] @ floats, floats @ x.T, jnp.zeros(70) @ jnp.zeros((70, 0))],
        "arrays": [jnp.stack([floats, floats]), jnp.concatenate([floats, x]), jnp.pad(floats, 1), jnp.sort(floats, 0)],
        "draws": jax.random.uniform(jax.random.key(k), (0,)),
        "written": [x.at[jnp.zeros(0, int)].set(1.0), jnp.full(90, k).at[jnp.zeros(0, int)].add(1)],
        "loops": [
            jax.lax.scan(lambda c, row: (c + 1, (c, row)), k, floats),
            jax.random.key_data(jax.lax.scan(lambda key, _: (key, key), jax.random.key(k), length=0)[0]),
            jax.lax.fori_loop(0, 0, lambda i, c: c + i, k),
        ],
    }


@pytest.mark.release
@pytest.mark.parametrize(
    "function",
    [
        mapped_loops,
        largest_first,
        bits_of_narrow_numbers,
        products_of_booleans,
        products_of_other_types,
        places_of_narrow_types,
        nothing,
    ],
)
def test_engines_give_what_xla_gives(function, xla_as_users_have_it):
    batches = rng.normal(size=(11, 3, 4)).astype(np.float32), rng.integers(0, 5, 11, dtype=np.int32)
    expected = applied(function, *batches, engine="xla")
    for engine in ("numpy", "native"):
        assert_same(expected, applied(function, *batches, engine=engine), f"{engine}: ")


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda x: jax.lax.reduce(x, 1.0, lambda a, b: a * b + 0.5, (0,)), "`reduce`: use jnp.sum"),
        (lambda x: x.at[1].apply(jnp.sin), r"x.at\[i\].apply\(f\): write x.at\[i\].set\(f\(x\[i\]\)\)"),
        (lambda x: (jax.debug.print("{}", x), x)[1], "take jax.debug.print out"),
    ],
)
def test_a_program_inside_a_primitive_that_does_more_than_call_it_is_refused(function, told):
    for engine in ("numpy", "native"):
        with pytest.raises(CompileError, match=told):
            applied(function, np.ones((2, 4), np.float32), engine=engine)


class Nameless:
    """The least that an environment is made of."""

    default_params = None

    def reset(self, key, params):
        return jnp.zeros(1), jnp.zeros(1)

    def step(self, key, state, action, params):
        state = state + action
        return state, state, state.sum(), state[0] > 3, jnp.bool_(False), {}

    def action_space(self, params):
        return Discrete(2)

    def observation_space(self, params):
        return Box(-1e30, 1e30, (1,))


@pytest.mark.release
@pytest.mark.parametrize("engine", ["xla", "native", "numpy"])
def test_an_environment_without_a_name_goes_by_its_type(engine):
    sim.check_env(Nameless())
    actions = np.ones((2, 4), np.int32)
    rollout = sim.compile(Nameless(), 4, 2, engine=engine, record=("reward",))
    np.testing.assert_array_equal(rollout(rollout.reset(0), actions)[1]["reward"][-1], 2.0)
    acting = sim.compile(
        Nameless(), 4, 2, engine=engine, policy=lambda params, obs, key: jnp.int32(1), record=("reward",)
    )
    np.testing.assert_array_equal(acting(acting.reset(0))[1]["reward"][-1], 2.0)
    narrow = sim.compile(Nameless(), 4, 2, engine=engine, narrow_obs="bool", record=("obs",))
    assert narrow(narrow.reset(0), actions)[1]["obs"].all()
    venv = sim.make_vec(Nameless(), 4, engine=engine)
    assert venv.reset(seed=0)[0].shape == (4, 1)


class Writing:
    """An environment whose step writes numbers of Python into the dictionary of the state that it is given."""

    name = "Writing"
    default_params = None

    def reset(self, key, params):
        return jnp.zeros(1), {"x": jax.random.uniform(key), "metrics": {"alive": 0.0, "speed": jnp.float32(0)}}

    def step(self, key, state, action, params):
        x = state["x"] + 0.1 * action
        state["metrics"].update(alive=1.0, speed=x - state["x"])
        after = {"x": x, "metrics": state["metrics"]}
        return x[None], after, state["metrics"]["speed"], x > 1.5, False, {}

    def action_space(self, params):
        return Discrete(2)

    def observation_space(self, params):
        return Box(0.0, 2.0, (1,))


@pytest.mark.release
def test_a_step_may_write_into_the_dictionaries_of_its_state():
    assert assert_engine_equals_xla(Writing(), "native", 8, 40)
    sim.check_env(Writing())
