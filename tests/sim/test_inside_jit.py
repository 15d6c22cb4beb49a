"""Kernels as operations of JAX programs; the oracle is the same rollout called from Python."""

import dataclasses
import functools
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from drivetrain import sim
from drivetrain.core.errors import InvalidInput
from drivetrain.sim.engines.arrays import Form, checked_array
from drivetrain.sim.engines.signature import call_kernel

NUM_ENVS, NUM_STEPS, NUM_CALLS = 37, 5, 12


RECORD = ("obs", "reward", "terminated", "truncated", "final_obs")


@functools.cache
def cartpole(num_threads=1):
    """A rollout of everything that can be recorded, compiled once for all tests."""
    return sim.compile(sim.make("CartPole-v1"), NUM_ENVS, NUM_STEPS, record=RECORD, num_threads=num_threads)


def random_actions(*leading):
    return np.random.default_rng(0).integers(2, size=(*leading, NUM_STEPS, NUM_ENVS), dtype=np.int32)


def on_device(tree):
    """Arrays of JAX's own memory, that nobody else has."""
    return jax.tree.map(lambda x: jnp.array(x, copy=True), tree)


def assert_same(got, expected):
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y))


def addresses(tree):
    return [leaf.unsafe_buffer_pointer() for leaf in jax.tree.leaves(tree)]


@pytest.mark.whole
@pytest.mark.parametrize("num_threads", [1, 3])
def test_a_call_inside_jit_has_the_bits_of_one_outside(num_threads):
    rollout, actions = cartpole(num_threads), random_actions()
    state = rollout.reset(seed=1)
    assert_same(jax.jit(rollout)(state, actions), rollout(state, actions))


@pytest.mark.whole
def test_parameters_of_each_environment_come_along_into_the_program():
    env = sim.make("CartPole-v1")
    params = dataclasses.replace(env.default_params, gravity=np.linspace(5, 15, 9))
    rollout = sim.compile(env, 9, 3, params=params, record=("reward",))
    state, actions = rollout.reset(seed=2), np.ones((3, 9), np.int32)
    assert_same(jax.jit(rollout)(state, actions), rollout(state, actions))


@pytest.mark.release
def test_a_policy_comes_along_into_the_program_with_weights_that_the_program_computes():
    env = sim.make("CartPole-v1")
    act = sim.policies.linear(env)
    weights = act.init(jax.random.key(0))
    rollout = sim.compile(env, 9, 3, record=("action", "log_prob"), policy=act, policy_params=weights)
    state = rollout.reset(seed=2)
    doubled = jax.tree.map(lambda x: 2 * x, weights)
    inside = jax.jit(lambda state, weights: rollout(state, policy=jax.tree.map(lambda x: 2 * x, weights)))
    assert_same(inside(state, weights), rollout(state, policy=doubled))
    with pytest.raises(InvalidInput, match=r"derivative of a rollout"):
        jax.grad(lambda weights: rollout(state, policy=weights)[1]["log_prob"].sum())(weights)


def test_a_scan_over_calls_goes_where_a_loop_in_python_goes():
    rollout, actions = cartpole(), random_actions(NUM_CALLS)
    start = rollout.reset(seed=3)
    state, trajectory = jax.jit(lambda state: jax.lax.scan(rollout, state, actions))(start)
    expected = start
    for number in range(NUM_CALLS):
        expected, row = rollout(expected, actions[number])
        assert_same(jax.tree.map(lambda x, number=number: x[number], trajectory), row)
    assert_same(state, expected)
    assert expected.step == NUM_CALLS * NUM_STEPS
    assert trajectory["terminated"].any()


def test_a_reset_inside_jit_is_one_outside():
    rollout = cartpole()
    assert_same(jax.jit(rollout.reset)(7), rollout.reset(7))


def test_a_donated_state_stays_where_it_is():
    rollout, actions = cartpole(), random_actions(NUM_CALLS)
    for call, given in ((rollout, actions[0]), (lambda state, rows: jax.lax.scan(rollout, state, rows), actions)):
        state = on_device(rollout.reset(seed=4))
        before = addresses((state.env, state.done))
        after, _ = jax.jit(call, donate_argnums=0)(state, given)
        assert addresses((after.env, after.done)) == before
        assert all(leaf.is_deleted() for leaf in jax.tree.leaves(state.env))


def test_a_state_that_is_not_donated_stays_valid():
    rollout, actions = cartpole(), random_actions()
    state = on_device(rollout.reset(seed=5))
    kept = jax.tree.map(np.array, state)
    call = jax.jit(rollout)
    first, second = call(state, actions), call(state, actions)
    assert_same(state, kept)
    assert_same(first, second)
    assert not set(addresses(first[0].env)) & set(addresses(state.env))


def test_threads_may_run_one_program_at_the_same_time():
    rollout, actions = cartpole(3), random_actions(NUM_CALLS)
    program = jax.jit(lambda state, rows: jax.lax.scan(rollout, state, rows))
    states = [rollout.reset(seed) for seed in range(8)]
    expected = [program(state, actions) for state in states]
    with ThreadPoolExecutor(8) as pool:
        for got, wanted in zip(pool.map(lambda state: program(state, actions), states), expected, strict=True):
            assert_same(got, wanted)


def test_what_cannot_be_mapped_or_derived_says_what_to_do():
    rollout, state, actions = cartpole(), cartpole().reset(seed=0), random_actions(2)
    for mapped in (jax.vmap(lambda rows: rollout(state, rows)), jax.jit(jax.vmap(rollout, (None, 0)))):
        with pytest.raises(InvalidInput, match=r"mapped over 2; .*as many more \(num_envs\), and reshape, .*lax\.map"):
            mapped(*((actions,) if mapped.__name__ == "<lambda>" else (state, actions)))

    def sum_of_angles(velocity):
        env = dataclasses.replace(state.env, theta_dot=velocity)
        return rollout(dataclasses.replace(state, env=env), actions[0])[0].env.theta.sum()

    with pytest.raises(InvalidInput, match=r'derivative of a rollout.*stop_gradient.*engine="xla"'):
        jax.grad(sum_of_angles)(jnp.asarray(state.env.theta_dot))
    assert jax.grad(lambda x: sum_of_angles(jax.lax.stop_gradient(x)))(jnp.asarray(state.env.theta_dot)).sum() == 0


@pytest.mark.whole
def test_several_policies_are_gone_through_by_a_map_as_the_refusal_says():
    env = sim.make("CartPole-v1")
    act = sim.policies.linear(env)
    weights = [act.init(jax.random.key(seed)) for seed in range(3)]
    rollout = sim.compile(env, NUM_ENVS, NUM_STEPS, policy=act, policy_params=weights[0], record=("log_prob", "value"))
    state = rollout.reset(seed=0)
    each = jax.tree.map(lambda *leaves: jnp.stack(leaves), *weights)
    got = jax.jit(lambda each: jax.lax.map(lambda one: rollout(state, policy=one), each))(each)
    for number, one in enumerate(weights):
        assert_same(jax.tree.map(lambda x, number=number: x[number], got), rollout(state, policy=one))


ON_TWO_DEVICES = """
import jax
import numpy as np
from jax.sharding import PartitionSpec as P

from drivetrain import sim

jax.config.update("jax_num_cpu_devices", 2)
env, num_envs, num_steps = sim.make("CartPole-v1"), 16, 3
share, whole = (sim.compile(env, number, num_steps, record=("reward",)) for number in (num_envs // 2, num_envs))
mesh = jax.make_mesh((2,), ("device",), axis_types=(jax.sharding.AxisType.Auto,))
state, actions = whole.reset(seed=0), np.ones((num_steps, num_envs), np.int32)
places = jax.tree.map(lambda x: P("device") if np.ndim(x) else P(), state)
shared = jax.shard_map(
    share, mesh=mesh, in_specs=(places, P(None, "device")), out_specs=(places, {"reward": P(None, "device")})
)
got, expected = jax.jit(shared)(state, actions), whole(state, actions)
assert len(got[1]["reward"].devices()) == 2
for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
    np.testing.assert_array_equal(np.asarray(x), np.asarray(y))

# Begun on the devices, and carried by a scan there, which takes a state that differs as one before it does.
for engine in ("native", "xla"):
    share = sim.compile(env, num_envs // 2, 1, engine, record=("reward",))

    def played(actions):
        return jax.lax.scan(share, share.reset(jax.lax.axis_index("device")), actions)[0].env.x

    shared = jax.shard_map(played, mesh=mesh, in_specs=P(None, None, "device"), out_specs=P("device"))
    expected = []
    for seed in range(2):
        state = share.reset(seed)
        for step in range(num_steps):
            state, _ = share(state, actions[step, None, : num_envs // 2])
        expected.append(np.asarray(state.env.x))
    np.testing.assert_allclose(jax.jit(shared)(actions[:, None]), np.concatenate(expected), rtol=1e-6)
"""


@pytest.mark.whole
def test_devices_share_environments_by_a_rollout_of_as_many_as_each_has():
    subprocess.run([sys.executable, "-c", ON_TWO_DEVICES], check=True)


SERIALIZED = """
import pickle
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import serialize_executable

from drivetrain import sim

file = Path(sys.argv[1])
rollout, actions = sim.compile(sim.make("CartPole-v1"), 8, 3), jnp.ones((3, 8), jnp.int32)
state = jax.tree.map(jnp.asarray, rollout.reset(seed=0))
if not file.exists():
    file.write_bytes(pickle.dumps(serialize_executable.serialize(jax.jit(rollout).lower(state, actions).compile())))
    sys.exit()
other = sim.compile(sim.make("CartPole-v1"), 8, 3, record=("reward",))  # so that all but the kernel is there
jax.eval_shape(other, state, actions)
program = serialize_executable.deserialize_and_load(*pickle.loads(file.read_bytes()))
expected = rollout(state, actions)
try:
    program(state, actions)
except jax.errors.JaxRuntimeError as error:
    assert "trace the rollout once, as by jax.eval_shape(rollout, state, actions)" in str(error), error
else:
    raise AssertionError("it knew a kernel that nobody had traced")
jax.eval_shape(rollout, state, actions)
for x, y in zip(jax.tree.leaves(program(state, actions)), jax.tree.leaves(expected), strict=True):
    np.testing.assert_array_equal(np.asarray(x), y)
"""


@pytest.mark.whole
def test_a_serialized_program_runs_in_another_process_that_has_traced_the_rollout(tmp_path):
    without_cache = {**os.environ, "JAX_ENABLE_COMPILATION_CACHE": "0"}  # what comes from there cannot be serialized
    for _ in range(2):
        program = [sys.executable, "-c", SERIALIZED, str(tmp_path / "program")]
        subprocess.run(program, check=True, env=without_cache)


def test_derivatives_pass_a_rollout_that_they_do_not_go_through():
    rollout, state, actions = cartpole(), cartpole().reset(seed=0), random_actions(NUM_CALLS)

    def loss(weight):
        _, trajectory = jax.lax.scan(rollout, state, actions)
        return weight * trajectory["reward"].sum()

    assert jax.jit(jax.grad(loss))(2.0) == NUM_CALLS * NUM_STEPS * NUM_ENVS


def test_shapes_and_types_are_checked_while_the_program_is_traced():
    rollout, state, actions = cartpole(), cartpole().reset(seed=0), random_actions()
    call = jax.jit(rollout)
    assert_same(call(state, actions.astype(np.uint8)), rollout(state, actions))
    with pytest.raises(
        InvalidInput, match=r"actions: expected int32\[5,37\], got int32\[5,36\]; give one of that shape"
    ):
        call(state, actions[:, 1:])
    with pytest.raises(InvalidInput, match=r"actions: expected int32\[5,37\], got uint32\[5,37\]; .*astype"):
        call(state, actions.astype(np.uint32))
    for step, got in ((np.float32(0), r"float32\[\]"), (np.zeros(2, np.uint32), r"uint32\[2\]")):
        with pytest.raises(InvalidInput, match=rf"state.step: expected uint32\[\], got {got}"):
            call(dataclasses.replace(state, step=step), actions)


def test_numpy_arrays_that_a_program_closes_over_are_checked_as_outside():
    rollout, state, actions = cartpole(), cartpole().reset(seed=0), random_actions()
    assert_same(jax.jit(lambda state: rollout(state, actions.astype(np.int64)))(state), rollout(state, actions))
    for given, told in (
        (actions + np.int64(2**32), r"expected numbers that fit int32, got 429496729\d in int64\[5,37\]"),
        (actions.astype(float), r"expected int32\[5,37\], got float64\[5,37\]; convert it"),
        (actions.astype(object), r"expected int32\[5,37\], got object\[5,37\]; convert it"),
    ):
        with pytest.raises(InvalidInput, match=f"actions: {told}"):
            jax.jit(lambda state, given=given: rollout(state, given))(state)


def test_an_engine_that_runs_in_python_says_which_ones_jax_can_trace():
    rollout = sim.compile(sim.make("CartPole-v1"), NUM_ENVS, NUM_STEPS, "numpy")
    with pytest.raises(InvalidInput, match=r'state.keys.*inside jax.jit and lax.scan run the engines "native", "cuda"'):
        jax.jit(rollout)(cartpole().reset(), random_actions())


def test_a_program_whose_kernel_is_not_loaded_says_so():
    rollout, state, actions = cartpole(), cartpole().reset(seed=0), random_actions()
    known = rollout.runner.program
    stranger = dataclasses.replace(known, attributes={**known.attributes, "kernel": "0" * 64})
    signature = rollout.runner.signature

    def call(state, actions):
        return call_kernel(signature, stranger, stranger.launch, signature.flat(state, actions, ()), state.step)

    with pytest.raises(jax.errors.JaxRuntimeError, match=r"kernel 000000000000, .* not loaded: call sim.compile"):
        jax.block_until_ready(jax.jit(call)(state, actions))


PROGRAM = f"""
import jax, numpy as np
from drivetrain import sim

hits = []
jax.monitoring.register_event_listener(lambda name, **_: hits.append(name) if name.endswith("/cache_hits") else None)
rollout = sim.compile(sim.make("CartPole-v1"), 8, 2, record={RECORD})
state, actions = rollout.reset(seed=1), np.ones((6, 2, 8), np.int32)
hits.clear()
after, _ = jax.jit(lambda state: jax.lax.scan(rollout, state, actions))(state)
print(len(hits), float(after.env.theta.sum()))
"""


@pytest.mark.release
def test_jax_finds_a_program_with_a_kernel_in_its_cache_of_compiled_programs(tmp_path):
    environment = {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(tmp_path), "JAX_PLATFORMS": "cpu",
                   "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}  # fmt: skip
    said = [
        subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True,
                       timeout=300).stdout.split()
        for _ in range(2)
    ]  # fmt: skip
    (first_hits, first), (hits, again) = said
    assert (first_hits, hits) == ("0", "1")
    assert first == again


def test_arrays_of_jax_are_read_where_they_are_and_results_go_to_jax_without_a_copy():
    for dtype in (np.float32, np.int32, np.uint8, np.bool_):
        array = jax.jit(lambda dtype=dtype: jnp.zeros((64, 4), dtype))()
        form = Form.of("x", jax.ShapeDtypeStruct((4,), np.dtype(dtype)), (64,))
        assert checked_array(array, form).ctypes.data == array.unsafe_buffer_pointer()
    rollout = sim.compile(sim.make("CartPole-v1"), 1024, 64, record=RECORD)
    _, trajectory = rollout(rollout.reset(), np.ones((64, 1024), np.int32))
    assert jnp.from_dlpack(trajectory["reward"]).unsafe_buffer_pointer() == trajectory["reward"].ctypes.data
