"""Arrays that a rollout is called with: those of any library that fit, and a sentence for each that does not."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import random_actions

from drivetrain import sim
from drivetrain.core.errors import InvalidInput
from drivetrain.sim.engines.arrays import Form, checked_array


def test_arrays_that_do_not_fit_are_named():
    rollout = sim.compile(sim.make("CartPole-v1"), 3, 2, "native")
    state, actions = rollout.reset(), random_actions(rollout.env, 2, 3)
    with pytest.raises(InvalidInput, match=r"actions: expected int32\[2,3\], got int32\[1,3\]"):
        rollout(state, actions[:1])
    with pytest.raises(
        InvalidInput, match=r"actions: expected int32\[2,3\], got float64\[2,3\]; .* x\.astype\('int32'\)"
    ):
        rollout(state, actions.astype(float))
    rollout(state, actions.astype(np.int64))
    with pytest.raises(InvalidInput, match=r"state: expected a RolloutState, .* got a tuple"):
        rollout((state.env, state.keys), actions)
    for step in (-1, 1.5, None, 2**32):
        with pytest.raises(InvalidInput, match=r"state.step: expected a uint32, got"):
            rollout(dataclasses.replace(state, step=step), actions)


ENGINES = ["native", "numpy", "xla"]


@pytest.mark.parametrize("engine", ENGINES)
def test_integers_that_the_type_of_an_action_does_not_hold_are_told_by_their_value(engine):
    rollout = sim.compile(sim.make("CartPole-v1"), 3, 2, engine)
    state, actions = rollout.reset(), np.zeros((2, 3), np.int64)
    rollout(state, actions)
    actions[1, 2] = 2**40
    told = r"actions: expected numbers that fit int32, got 1099511627776 in int64\[2,3\]"
    with pytest.raises(InvalidInput, match=told):
        rollout(state, actions)


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_refuses_numbers_of_another_kind_and_says_how_to_convert_them(engine):
    rollout = sim.compile(sim.make("Pendulum-v1"), 3, 4, engine)
    state, actions = rollout.reset(), np.zeros((4, 3, 1))
    told = (
        r"actions: expected float32\[4,3,1\], got (float64|int32)\[4,3,1\]; convert it, as with x\.astype\('float32'\)"
    )
    for given in (actions, actions.astype(np.int32)):
        with pytest.raises(InvalidInput, match=told):
            rollout(state, given)
    rollout(state, actions.astype(np.float32))
    wide = jax.tree.map(lambda x: np.asarray(x, np.float64), state.env)
    with pytest.raises(InvalidInput, match=r"state\.env\.theta: expected float32\[3\], got float64\[3\]; convert it"):
        rollout(dataclasses.replace(state, env=wide), actions.astype(np.float32))


class OnlyDLPack:
    """An array that speaks nothing but DLPack, and may be written to: NumPy 2.0 hands on no other."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **asked):
        return self.array.__dlpack__(**asked)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Elsewhere:
    def __array__(self, dtype=None, copy=None):
        raise TypeError("it is on a device")


def test_arrays_of_any_library_are_taken_if_they_can_be_read_and_else_named():
    rollout = sim.compile(sim.make("CartPole-v1"), 3, 2, "native")
    state, actions = rollout.reset(), random_actions(rollout.env, 2, 3).copy()
    expected = rollout(state, actions)
    for given in (OnlyDLPack(actions), actions.astype(">i4")):
        for x, y in zip(jax.tree.leaves(rollout(state, given)), jax.tree.leaves(expected), strict=True):
            np.testing.assert_array_equal(x, y)
    action = Form.of("actions", jax.ShapeDtypeStruct((), actions.dtype), (2, 3))
    assert checked_array(OnlyDLPack(actions), action).ctypes.data == actions.ctypes.data
    with pytest.raises(InvalidInput, match=r"actions: expected an array that NumPy can read, got a Elsewhere: it is"):
        rollout(state, Elsewhere())


def test_the_engine_xla_names_what_does_not_fit_and_takes_arrays_of_any_library_too():
    rollout = sim.compile(sim.make("CartPole-v1"), 3, 2, "xla")
    state, actions = rollout.reset(), random_actions(rollout.env, 2, 3)
    expected = rollout(state, actions)[1]["obs"]
    np.testing.assert_array_equal(rollout(state, OnlyDLPack(actions.copy()))[1]["obs"], expected)
    for given, message in (
        (None, r"actions: expected one array int32\[2,3\], got none"),
        (actions.tolist(), r"actions: expected one array int32\[2,3\], got a list"),
        (actions[:1], r"actions: expected int32\[2,3\], got int32\[1,3\]"),
        (jax.numpy.asarray(actions[:1]), r"actions: expected int32\[2,3\], got int32\[1,3\]; give one of that shape"),
    ):
        with pytest.raises(InvalidInput, match=message):
            rollout(state, given)


def test_the_engine_xla_checks_keys_ends_and_the_step_as_others_do():
    rollout = sim.compile(sim.make("CartPole-v1"), 3, 2, "xla")
    state, actions = rollout.reset(), random_actions(rollout.env, 2, 3)
    for step in (-1, 1.5, None, 2**32):
        with pytest.raises(InvalidInput, match=r"state.step: expected a uint32, got"):
            rollout(dataclasses.replace(state, step=step), actions)
    late = dataclasses.replace(state, step=np.uint32(2**32 - 1))
    for given in (actions, actions.astype(np.int64)):
        assert rollout(late, given)[0].step == 1
    keys = np.asarray(state.keys).view(np.int32)
    with pytest.raises(InvalidInput, match=r"state.keys: expected numbers that fit uint32, got -\d+ in int32\[3,2\]"):
        rollout(dataclasses.replace(state, keys=keys), actions)


@pytest.mark.parametrize("engine", ["native", "xla"])
def test_typed_keys_are_refused_with_what_helps_outside_of_programs_and_inside(engine):
    rollout = sim.compile(sim.make("CartPole-v1"), 3, 2, engine)
    state, actions = rollout.reset(), random_actions(rollout.env, 2, 3)
    typed = dataclasses.replace(state, keys=jax.random.wrap_key_data(np.asarray(state.keys)))
    for call in (rollout, jax.jit(rollout)):
        with pytest.raises(InvalidInput, match=r"state.keys: expected .*jax.random.key_data\("):
            call(typed, actions)


def test_weights_speak_dlpack_or_are_named():
    env = sim.make("CartPole-v1")

    def push(params, obs, key):
        return jax.numpy.int32(0), {"weight": params["weight"]}

    rollout = sim.compile(env, 3, 2, "numpy", policy=push, policy_params={"weight": 1.0}, record=("weight",))
    weight = OnlyDLPack(np.full((), 2.0, np.float32))
    assert (rollout(rollout.reset(), policy={"weight": weight})[1]["weight"] == 2.0).all()
    with pytest.raises(InvalidInput, match=r"policy\['weight'\]: expected an array or a number, got a str"):
        rollout(rollout.reset(), policy={"weight": "heavy"})


@pytest.mark.parametrize("engine", ["numpy", "xla"])
@pytest.mark.parametrize("has_rows", [False, True])
def test_what_does_not_fit_of_a_state_is_named_as_its_owner_has_it(engine, has_rows):
    env, rule = sim.make("CartPole-v1"), sim.policies.scripted(lambda obs: (obs[2] > 0).astype(int))
    params = dataclasses.replace(env.default_params, gravity=np.ones(2)) if has_rows else None
    rollout = sim.compile(env, 2, 1, engine, params, policy=rule)
    state = rollout.reset()
    one = jax.tree.map(lambda x: np.asarray(x)[:1], state.env)
    for changed, told in (
        ({"obs": np.zeros((2, 3), np.float32)}, r"^state\.obs: expected float32\[2,4\], got float32\[2,3\]"),
        ({"obs": {"x": np.zeros(2)}}, r"^state\.obs: expected one array float32\[2,4\], got a dict"),
        ({"env": (1, 2)}, r"^state\.env: expected PyTreeDef\(CustomNode\(State.*, got PyTreeDef\(\(\*, \*\)\)"),
        ({"env": one}, r"^state\.env\.x: expected float32\[2\], got float32\[1\]"),
    ):
        with pytest.raises(InvalidInput, match=told):
            rollout(dataclasses.replace(state, **changed))


def test_numbers_that_a_policy_cannot_be_given_are_named_and_those_of_64_bits_are_taken():
    env = sim.make("CartPole-v1")

    def push(params, obs, key):
        return jax.numpy.int32(0), {"seen": params["n"]}

    for wrong in ("heavy", "float32", object(), 2**70, np.array(["heavy"])):
        with pytest.raises(InvalidInput, match=r"^policy_params\['n'\]: expected an array or a number, got a "):
            sim.compile(env, 1, 1, "numpy", policy=push, policy_params={"n": wrong})
    rollout = sim.compile(env, 1, 1, "numpy", policy=push, policy_params={"n": 3}, record=("seen",))
    for number in (4, np.int64(4), np.int32(4)):
        assert rollout(rollout.reset(), policy={"n": number})[1]["seen"] == 4
    for large in (2**40, np.int64(2**40)):
        with pytest.raises(InvalidInput, match=r"^policy\['n'\]: expected .*1099511627776"):
            rollout(rollout.reset(), policy={"n": large})


def test_numbers_of_another_kind_are_told_to_be_converted_where_some_are_none_too():
    rollout = sim.compile(sim.make("Pendulum-v1"), 1, 1, "numpy")
    with pytest.raises(InvalidInput, match=r"actions: expected float32\[1,1,1\], got float64\[1,1,1\]; convert it, as"):
        rollout(rollout.reset(), np.full((1, 1, 1), np.nan))


@pytest.mark.parametrize("engine", ["native", "xla", "numpy"])
def test_a_state_of_another_number_of_environments_is_told_as_that(engine):
    env, actions = sim.make("CartPole-v1"), np.zeros((1, 3), np.int32)
    rollout, larger = (sim.compile(env, number, 1, engine) for number in (3, 4))
    told = "^state: expected one of 3 environments, .* got one of 4; begin with its own `reset`, or compile for as many"
    for call in (rollout,) if engine == "numpy" else (rollout, jax.jit(rollout)):
        with pytest.raises(InvalidInput, match=told):
            call(larger.reset(), actions)


def test_a_value_of_a_program_is_told_to_be_reshaped_or_converted_by_what_is_wrong_with_it():
    rollout = sim.compile(sim.make("CartPole-v1"), 3, 1, "xla")
    for actions, told in (
        (jnp.zeros(3, jnp.int32), r"^actions: expected int32\[1,3\], got int32\[3\]; give one of that shape"),
        (jnp.zeros((1, 3)), r"^actions: expected int32\[1,3\], got float32\[1,3\]; of JAX's .* x.astype\('int32'\)"),
    ):
        with pytest.raises(InvalidInput, match=told):
            jax.jit(rollout)(rollout.reset(), actions)
