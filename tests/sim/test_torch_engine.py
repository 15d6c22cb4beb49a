"""The engine `torch` takes the same steps as XLA."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import applied, assert_engine_equals_xla, assert_same, random_actions
from primitives import CASES

from drivetrain import sim
from drivetrain.bench.serving import NotOffered
from drivetrain.bench.sim.scene import Scene
from drivetrain.core.errors import InvalidInput
from drivetrain.sim.engines.arrays import Form, checked_array

torch = pytest.importorskip("torch", reason='needs torch: pip install "drivetrain[torch]"')
tensors_of = pytest.importorskip("drivetrain.sim.engines.torch").tensors_of
pytestmark = pytest.mark.torch
# The bsuite task that needs a download, and what takes XLA longest.
HEAVY = ("MNISTBandit-bsuite", "Seaquest-MinAtar")


@pytest.mark.release
@pytest.mark.parametrize("name", CASES)
def test_primitives_give_what_xla_gives(name, xla_as_users_have_it):
    function, batches = CASES[name]()
    assert_same(applied(function, *batches, engine="xla"), applied(function, *batches, engine="torch"))


def test_remainders_have_the_bits_of_c_wherever_an_environment_stands():
    words = np.random.default_rng(0).integers(0, 2**32, (2, 4099), np.uint32)
    x, y = words.view(np.float32)
    x[:16], y[:16] = np.resize(np.float32([3.4e38, 1e30, -7.5e20]), 16), np.resize(np.float32([0.5, 1e-10, 1e-30]), 16)
    with np.errstate(invalid="ignore"):
        expected = np.fmod(x, y)
    np.testing.assert_array_equal(applied(jax.lax.rem, x, y, engine="torch"), expected)


@pytest.mark.whole
@pytest.mark.parametrize("autoreset", ["same_step", "next_step", "disabled"])
def test_cartpole_equals_xla_with_resets(autoreset):
    ended = assert_engine_equals_xla(sim.make("CartPole-v1"), "torch", num_envs=21, num_steps=60, autoreset=autoreset)
    assert ended > 5


@pytest.mark.release
def test_breakout_equals_xla():
    pytest.importorskip("gymnax", reason='needs the extra: pip install "drivetrain[gymnax]"')
    assert_engine_equals_xla(sim.from_gymnax("Breakout-MinAtar"), "torch", num_envs=13, num_steps=40)


def test_several_steps_in_one_call_and_states_of_other_engines():
    env = sim.make("CartPole-v1")
    native, other = (sim.compile(env, 6, 5, engine) for engine in ("native", "torch"))
    actions = random_actions(env, 5, 6)
    state = native.reset(seed=4)
    for _ in range(2):
        expected, got = native(state, actions), other(state, actions)
        assert_same(expected, got)
        state = got[0]
    assert type(jax.tree.leaves(state)[0]) is np.ndarray


def test_keys_that_speak_nothing_but_dlpack_come_back_as_an_array():
    rollout = sim.compile(sim.make("CartPole-v1"), 5, 4, "torch")
    state, actions = rollout.reset(seed=2), random_actions(rollout.env, 4, 5)
    only_dlpack = type("OnlyDlpack", (), {
        "__dlpack__": lambda self, **more: state.keys.__dlpack__(**more),
        "__dlpack_device__": lambda self: state.keys.__dlpack_device__(),
    })()  # fmt: skip
    after, _ = rollout(dataclasses.replace(state, keys=only_dlpack), actions)
    assert_same(rollout(state, actions)[0], after)
    assert after.keys.dtype == np.uint32


@pytest.mark.release
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # Inductor imports what PyTorch has deprecated
@pytest.mark.parametrize("engine", ["torch", pytest.param("torch_compiled", marks=pytest.mark.slow)])
def test_tensors_that_stay_where_they_are_take_the_steps_of_calls_with_arrays(engine):
    rollout = sim.compile(sim.make("CartPole-v1"), 5, 4, engine, record=("obs", "terminated"))
    actions, state = random_actions(rollout.env, 4, 5), rollout.reset(seed=2)
    given = rollout.runner.signature.given(state, actions, ())
    carried, words, number, rows, alike = tensors_of(given)
    for _ in range(8):
        state, trajectory = rollout(state, actions)
        carried, number, columns = rollout.runner.advanced(carried, words, number, rows, alike)
    got = [x.numpy() for x in (*carried, *columns)]
    expected = [*jax.tree.leaves(state.env), state.done, *jax.tree.leaves(trajectory)]
    assert all(np.array_equal(x, y) for x, y in zip(got, expected, strict=True))
    assert number.tolist() == [state.step] == [32]


def test_the_contender_of_the_bench_goes_on_on_its_device_and_says_where_there_is_none():
    from drivetrain.bench.sim.peers import ours_torch_on_gpu

    scene = Scene(env="CartPole-v1", num_envs=3, num_steps=2, num_calls=5)
    if not torch.cuda.is_available():
        with pytest.raises(NotOffered, match="finds no GPU"):
            ours_torch_on_gpu.simulator(scene, "torch")
    try:
        run = ours_torch_on_gpu.simulator(scene, "torch", "cpu")
        assert run() == run() == 3 * 2 * 5
    finally:
        torch.set_default_device(None)


@pytest.mark.slow  # minutes: XLA compiles each
@pytest.mark.timeout(900)
def test_every_environment_of_gymnax_equals_xla():
    gymnax = pytest.importorskip("gymnax", reason='needs the extra: pip install "drivetrain[gymnax]"')
    for name in gymnax.registered_envs:
        if name not in HEAVY:
            assert_engine_equals_xla(sim.from_gymnax(name), "torch", num_envs=7, num_steps=20)


@pytest.mark.release
def test_native_reads_tensors_where_they_are_and_its_results_become_tensors_without_a_copy():
    rollout = sim.compile(sim.make("CartPole-v1"), 64, 8, record=("obs",))
    actions = torch.ones((8, 64), dtype=torch.int32)
    action = Form.of("actions", jax.ShapeDtypeStruct((), np.dtype("int32")), (8, 64))
    assert checked_array(actions, action).ctypes.data == actions.data_ptr()
    start, trajectory = rollout(rollout.reset(), actions)
    tensors = jax.tree.map(torch.as_tensor, (start.env, start.done))
    state, _ = rollout(dataclasses.replace(start, env=tensors[0], done=tensors[1]), actions)
    assert_same(state, rollout(start, actions.numpy())[0])
    assert torch.from_dlpack(trajectory["obs"]).data_ptr() == trajectory["obs"].ctypes.data


@pytest.mark.release
def test_a_policy_acts_as_under_xla():
    env = sim.make("CartPole-v1")
    act = sim.policies.mlp(env, hidden=(20,))
    params = jax.tree.map(np.asarray, jax.jit(act.init)(jax.random.key(1)))
    options = {"policy": act, "policy_params": params, "record": ("obs", "action", "log_prob", "value")}
    oracle, tested = (sim.compile(env, 9, 4, engine, **options) for engine in ("xla", "torch"))
    state = oracle.reset(seed=2)
    assert_same(oracle(state, policy=params), tested(state, policy=params))


@pytest.mark.release
@pytest.mark.parametrize("engine", ["xla", "numpy"])
def test_tensors_are_states_actions_and_weights_of_every_engine(engine):
    env = sim.make("CartPole-v1")
    act = sim.policies.linear(env)
    params = act.init(jax.random.key(0))
    state, actions = sim.compile(env, 3, 2).reset(), random_actions(env, 2, 3)
    led = sim.compile(env, 3, 2, engine, policy=act, policy_params=params, record=("value",))
    alone = sim.compile(env, 3, 2, engine, record=("obs",))

    def tensors(tree):
        return jax.tree.map(lambda x: torch.from_numpy(np.array(x)) if np.ndim(x) else x, tree)

    assert_same(led(led.reset(), policy=tensors(params))[1], led(led.reset(), policy=params)[1])
    assert_same(alone(tensors(state), tensors(actions))[1], alone(state, actions)[1])
    assert sim.compile(env, 3, 2, engine, policy=act, policy_params=tensors(params)).has_policy
    with pytest.raises(InvalidInput, match=r"policy\['output'\]\['bias'\]: expected an array .* requires grad"):
        led(led.reset(), policy={**params, "output": {**params["output"], "bias": torch.zeros(2, requires_grad=True)}})
    with pytest.raises(InvalidInput, match=r"policy.* expected float32\[2\], .* got float64\[2\]"):
        led(led.reset(), policy={**params, "output": {**params["output"], "bias": torch.zeros(2).double()}})


def test_hyperbolic_functions_are_finite_up_to_the_largest_float32():
    edges = np.array([88.8, -88.8, 89.2, 89.5, -1e-3, np.nan], np.float32)
    x = np.tile(edges, 8)  # as many as PyTorch takes in vectors, by other functions than a few
    expected, got = (applied(lambda v: (jnp.sinh(v), jnp.cosh(v)), x, engine=engine) for engine in ("numpy", "torch"))
    assert_same(expected, got)


def test_roots_are_rounded_correctly():
    x = np.arange(1, 2000, dtype=np.float32) / 8  # of 405 PyTorch's own are off by a unit of the last place
    np.testing.assert_array_equal(applied(jnp.sqrt, x[None], engine="torch")[0], np.sqrt(x))
