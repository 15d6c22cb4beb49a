"""Parameters of each environment: every engine takes the steps that XLA's vmap over parameters takes."""

import dataclasses
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import assert_same, random_actions

from drivetrain import sim
from drivetrain.core.errors import CompileError, InvalidInput
from drivetrain.sim.spaces import Box, Discrete

NUM_ENVS, NUM_STEPS = 11, 30


def randomised(name, num_envs=NUM_ENVS, **ranges):
    """The defaults of an environment with some leaves drawn for each environment."""
    env, rng = sim.make(name), np.random.default_rng(0)
    drawn = {leaf: rng.uniform(low, high, num_envs) for leaf, (low, high) in ranges.items()}
    return env, dataclasses.replace(env.default_params, **drawn)


def of_one(params, index, varying):
    """The parameters of one environment, as constants."""
    return dataclasses.replace(params, **{leaf: np.float32(getattr(params, leaf)[index]) for leaf in varying})


CARTPOLE = {"mass_pole": (0.05, 0.5), "half_length": (0.2, 1.0), "theta_limit": (0.05, 0.2)}


@pytest.mark.whole
@pytest.mark.parametrize("engine", ["xla", "native", "numpy"])
def test_every_environment_takes_the_steps_of_its_own_parameters(engine):
    env, params = randomised("CartPole-v1", **CARTPOLE)
    rollout = sim.compile(env, NUM_ENVS, 1, engine, params, ("obs", "reward", "terminated"))
    state, actions = rollout.reset(seed=2), random_actions(env, NUM_STEPS, NUM_ENVS)

    def one(words, number, state, action, params):
        key, key_reset = jax.random.split(jax.random.fold_in(jax.random.wrap_key_data(words), number))
        obs, after, reward, terminated, truncated, _ = env.step(key, state, action, params)
        fresh_obs, fresh = env.reset(key_reset, params)
        done = terminated | truncated
        obs, after = jax.tree.map(lambda x, y: jax.numpy.where(done, x, y), (fresh_obs, fresh), (obs, after))
        return after, {"obs": obs, "reward": reward, "terminated": terminated}

    rows = dataclasses.replace(params, **{leaf: np.float32(getattr(params, leaf)) for leaf in CARTPOLE})
    axes = dataclasses.replace(jax.tree.map(lambda _: None, env.default_params), **dict.fromkeys(CARTPOLE, 0))
    oracle, num_ended = jax.jit(jax.vmap(one, (0, None, 0, 0, axes))), 0
    for number in range(NUM_STEPS):
        expected = oracle(state.keys, np.uint32(number), state.env, actions[number], rows)
        state, row = rollout(state, actions[number : number + 1])
        assert_same(expected, (state.env, jax.tree.map(lambda x: x[0], row)), f"step {number}: ")
        num_ended += int(np.sum(row["terminated"]))
    assert num_ended > NUM_ENVS


@pytest.mark.release
def test_starts_and_steps_are_those_of_constants_one_environment_at_a_time():
    env, params = randomised("Pendulum-v1", length=(0.5, 2.0), gravity=(5.0, 15.0))
    whole = sim.compile(env, NUM_ENVS, 20, "native", params)
    actions, state = random_actions(env, 20, NUM_ENVS), whole.reset(seed=1)
    _, trajectory = whole(state, actions)
    for index in (0, 7):
        single = sim.compile(env, NUM_ENVS, 20, "xla", of_one(params, index, ("length", "gravity")))
        start = single.reset(seed=1)
        np.testing.assert_array_equal(start.env.theta[index], state.env.theta[index])
        _, expected = single(start, actions)
        np.testing.assert_allclose(trajectory["obs"][:, index], expected["obs"][:, index], rtol=1e-3, atol=1e-3)


def test_the_state_holds_no_parameters_and_passes_between_rollouts():
    env, params = randomised("CartPole-v1", **CARTPOLE)
    ours, plain = sim.compile(env, NUM_ENVS, 2, "numpy", params), sim.compile(env, NUM_ENVS, 2, "numpy")
    state, _ = ours(plain.reset(seed=0), random_actions(env, 2, NUM_ENVS))
    assert jax.tree.structure(state.env) == jax.tree.structure(plain.reset(seed=0).env)
    assert ours.params is params


@pytest.mark.whole
def test_other_numbers_need_no_other_kernel(tmp_path, monkeypatch):
    monkeypatch.setenv("DRIVETRAIN_CACHE", str(tmp_path))
    for high in (0.2, 0.5):
        env, params = randomised("CartPole-v1", 5, mass_pole=(0.1, high))
        sim.compile(env, 5, 1, "native", params)
    assert len(list(tmp_path.rglob("*.so"))) == 1


def test_vector_environments_take_them_and_have_bounds_that_hold_for_all():
    params = dataclasses.replace(sim.make("CartPole-v1").default_params, x_limit=np.array([1.0, 2.0, 3.0]))
    venv = sim.make_vec("CartPole-v1", 3, "numpy", params=params, render_mode="rgb_array")
    np.testing.assert_allclose(venv.single_observation_space.high[0], 6.0)
    venv.reset(seed=0)
    assert venv.step(np.zeros(3, int))[0] in venv.observation_space
    frames = venv.render()
    assert not np.array_equal(frames[0], frames[1])


def test_bounds_that_numpy_makes_hold_for_all_too():
    class ByNumpy(type(sim.make("CartPole-v1"))):
        def observation_space(self, params):
            high = np.full(4, float(params.x_limit), np.float32)
            return Box(-high, high, (4,))

    params = dataclasses.replace(sim.make("CartPole-v1").default_params, x_limit=np.array([1.0, 4.0, 3.0]))
    space = sim.make_vec(ByNumpy(), 3, "numpy", params=params).single_observation_space
    np.testing.assert_array_equal([space.low, space.high], [[-4.0] * 4, [4.0] * 4])


def test_bounds_of_whole_numbers_are_exact_where_parameters_differ():
    class Counting(type(sim.make("CartPole-v1"))):
        def observation_space(self, params):
            return {"count": Box(-(2**24) - 1, 2**31 - 1, (), jnp.int32), "few": Box(0, 255, (), jnp.uint8)}

        def reset(self, key, params):
            state = super().reset(key, params)[1]
            return {"count": jnp.int32(-(2**24) - 1), "few": jnp.uint8(3)}, state

        def step(self, key, state, action, params):
            _, state, *others = super().step(key, state, action, params)
            return {"count": jnp.int32(2**24 + 1), "few": jnp.uint8(3)}, state, *others

    params = dataclasses.replace(sim.make("CartPole-v1").default_params, mass_pole=np.array([0.1, 0.2]))
    venv = sim.make_vec(Counting(), 2, "numpy", params=params)
    space = venv.single_observation_space
    assert (space["count"].low, space["count"].high) == (-(2**24) - 1, 2**31 - 1)
    assert (space["few"].low, space["few"].high) == (0, 255)
    assert venv.reset(seed=0)[0] in venv.observation_space


def test_bounds_that_fail_for_one_of_the_environments_name_the_authors_line():
    class Narrow(type(sim.make("CartPole-v1"))):
        def observation_space(self, params):
            if float(params.x_limit) > 3.0:
                raise ValueError("too wide")
            return Box(np.zeros(4, np.float32), np.ones(4, np.float32), (4,))

    params = dataclasses.replace(sim.make("CartPole-v1").default_params, x_limit=np.array([1.0, 4.0, 3.0]))
    with pytest.raises(CompileError, match=r"`observation_space` cannot be traced \(.*test_varying.py:\d+\).*too wide"):
        sim.make_vec(Narrow(), 3, "numpy", params=params)


@pytest.mark.parametrize(
    ("leaf", "rows", "message"),
    [
        ("mass_pole", np.ones(4), r"params.mass_pole: expected one value, or 3 rows, one for each .*, got 4 rows"),
        ("max_steps", np.ones(3), "params.max_steps: expected numbers that fit int32, got float64"),
        ("max_steps", np.array([1, 2**40, 1]), "params.max_steps: expected numbers that fit int32, got 1099511627776"),
        ("mass_pole", np.array([1, 1e300, np.inf]), r"mass_pole: expected numbers that fit float32, got 1e\+300"),
        ("mass_pole", [1.0, 2.0, 3.0], "mass_pole: expected a number or an array, got a list; numpy.asarray makes"),
        ("mass_pole", None, "mass_pole: expected a number or an array, got none"),
        ("mass_pole", "heavy", "mass_pole: expected a number or an array, got a str"),
        ("mass_pole", np.array(["1", "2", "3"]), "mass_pole: expected a number or an array, got an array of texts"),
        ("mass_pole", {"x": 1.0}, "mass_pole: expected a number or an array, got a dictionary"),
        (
            "mass_pole",
            np.ones((3, 1)),
            r"mass_pole: expected float32\[\], .* or float32\[3\], .* got float64\[3,1\]; res",
        ),
        ("mass_pole", 1e300, r"mass_pole: expected numbers that fit float32, got 1e\+300"),
        ("max_steps", 2**40, "params.max_steps: expected numbers that fit int32, got 1099511627776"),
        ("max_steps", 2**70, "params.max_steps: expected numbers that fit int32, got 1180591620717411303424"),
        ("max_steps", 100.5, "params.max_steps: expected numbers that fit int32, got float64 100.5; give some of that"),
        ("max_steps", np.full(3, 1.5), "params.max_steps: expected numbers that fit int32, got float64; give some of"),
    ],
)
def test_rows_that_do_not_fit_are_refused(leaf, rows, message):
    env = sim.make("CartPole-v1")
    with pytest.raises(InvalidInput, match=message):
        sim.compile(env, 3, 1, "numpy", dataclasses.replace(env.default_params, **{leaf: rows}))


class Table:
    """Gives what its table says, plus a bonus."""

    name = "Table"
    default_params = {"table": np.ones(3, np.float32), "bonus": 0.5, "free": None}  # noqa: RUF012

    def reset(self, key, params):
        return jnp.zeros(1), jnp.int32(0)

    def step(self, key, state, action, params):
        obs = params["bonus"] + jnp.sum(params["table"] * jnp.ones(3)).astype(jnp.float32)
        return obs[None], state + 1, obs, False, state >= 9, {}

    def action_space(self, params):
        return Discrete(2)

    def observation_space(self, params):
        return Box(-np.inf, np.inf, (1,))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"table": np.ones((3, 2))},
            r"params\['table'\]: expected float32\[3\], as in default_params, or float32\[4,3\], .* got float64\[3,2\]",
        ),
        ({"table": 1.0}, r"params\['table'\]: expected float32\[3\], .* got float64\[\]"),
        ({"table": np.ones((3, 3))}, r"params\['table'\]: expected one value, or 4 rows, .* got 3 rows"),
        (
            {"table": np.ones(5)},
            r"params\['table'\]: expected float32\[3\], .* got float64\[5\], with which Table: `step`",
        ),
        (
            {"foo": 1.0},
            r"params\['foo'\]: expected parameters of default_params, \['bonus'\], \['table'\]; leave it out",
        ),
        ({"table": jax.random.key(0)}, r"params\['table'\]: expected a number or an array, got a PRNGKeyArray"),
    ],
)
def test_parameters_of_another_shape_or_name_are_named(changed, message):
    with pytest.raises(InvalidInput, match=message):
        sim.compile(Table(), 4, 1, "numpy", {**Table.default_params, **changed})


def test_a_parameter_that_is_missing_is_named():
    with pytest.raises(InvalidInput, match=r"params\['table'\]: expected a number or an array, got none; take that of"):
        sim.compile(Table(), 4, 1, "numpy", {"bonus": 1.0, "free": None})


def test_what_the_defaults_leave_open_may_be_given_beside_rows_of_others():
    params = {"table": np.ones(3), "bonus": np.arange(4.0), "free": {"any": 3}}
    rollout = sim.compile(Table(), 4, 1, "numpy", params, record=("reward",))
    _, trajectory = rollout(rollout.reset(), np.zeros((1, 4), np.int32))
    np.testing.assert_array_equal(trajectory["reward"], [[3, 4, 5, 6]])


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Named:
    """A parameter beside one that JAX takes for a part of the form."""

    bonus: Any = 0.5
    kind: str = dataclasses.field(default="plain", metadata={"static": True})


def test_rows_are_found_where_a_static_part_of_the_parameters_is_another():
    env = type("Static", (Table,), {"default_params": Named(), "step": static_step})()
    rollout = sim.compile(env, 4, 1, "numpy", Named(np.arange(4.0), "double"), record=("reward",))
    _, trajectory = rollout(rollout.reset(), np.zeros((1, 4), np.int32))
    np.testing.assert_array_equal(trajectory["reward"], [[0, 2, 4, 6]])


def static_step(self, key, state, action, params):
    reward = jnp.float32(params.bonus) * (2 if params.kind == "double" else 1)
    return reward[None], state + 1, reward, False, state >= 9, {}


def test_parameters_that_a_program_only_knows_when_it_runs_are_refused():
    env = sim.make("CartPole-v1")

    def steps(gravity):
        return sim.compile(env, 3, 1, "xla", dataclasses.replace(env.default_params, gravity=gravity)).settings

    with pytest.raises(InvalidInput, match=r"params\.gravity: .* call sim\.compile outside of jax\.jit"):
        jax.eval_shape(steps, 9.81)


class Scaled(Table):
    """Rewards of a byte times its bonus, which it shows beside a place."""

    def reset(self, key, params):
        return {"bonus": jnp.float32(params["bonus"]), "place": jnp.zeros(1)}, jnp.int32(0)

    def step(self, key, state, action, params):
        obs, _ = self.reset(key, params)
        return obs, state + 1, jnp.uint8(200) * params["bonus"], False, state >= 9, {}

    def observation_space(self, params):
        return {"bonus": Box(0.0, params["bonus"], ()), "place": Box(0.0, 1.0, (1,))}


@pytest.mark.parametrize("table", [np.ones(3), np.ones((2, 3))])
@pytest.mark.parametrize("bonus", [2, np.int64(2), 2.0])
def test_a_whole_number_is_a_real_one_where_the_default_is(bonus, table):
    rollout = sim.compile(Scaled(), 2, 1, "numpy", {**Table.default_params, "bonus": bonus, "table": table})
    _, trajectory = rollout(rollout.reset(), np.zeros((1, 2), np.int32))
    np.testing.assert_array_equal(trajectory["reward"], [[400, 400]])


def test_bounds_of_parts_hold_for_all_environments_too():
    params = {**Table.default_params, "bonus": np.array([1.0, 5.0, 2.0])}
    venv = sim.make_vec(Scaled(), 3, "numpy", params=params)
    assert venv.single_observation_space["bonus"].high == 5.0
    assert venv.reset(seed=0)[0] in venv.observation_space


@pytest.mark.release
def test_parameters_are_looked_at_without_xla_which_a_fork_would_wait_for():
    code = """
import dataclasses, jax
from drivetrain import sim
env = sim.make("CartPole-v1")
sim.compile(env, 1, 1, "numpy", dataclasses.replace(env.default_params, gravity=9.0), policy=sim.policies.constant(1),
            policy_params=1)
raise SystemExit(jax._src.xla_bridge.backends_are_initialized())
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class Creeping:
    """Begins where its parameters say."""

    default_params = {"start": 0.0, "speed": 1.0}  # noqa: RUF012

    def action_space(self, params):
        return Discrete(2)

    def observation_space(self, params):
        return Box(-9.0, 9.0, (1,))

    def reset(self, key, params):
        start = jnp.asarray(params["start"])
        return start[None], start

    def step(self, key, state, action, params):
        after = state + 0.5 * params["speed"]
        return after[None], after, after, after > 5, False, {}


def test_check_env_takes_parameters_as_compile_does():
    sim.check_env(Creeping(), {"start": 0, "speed": 1})  # as real numbers
    for params, told in [
        ({"start": 0.0, "speed": 1.0, "limit": 3}, r"params\['limit'\]: expected parameters of default_params"),
        ({"start": 0.0, "speed": 1e300}, r"params\['speed'\]: expected numbers that fit float32"),
        ({"start": 0.0, "speed": np.ones(4)}, r"params\['speed'\]: expected one value, .* got 4 rows"),
    ]:
        with pytest.raises(InvalidInput, match=told):
            sim.check_env(Creeping(), params)
