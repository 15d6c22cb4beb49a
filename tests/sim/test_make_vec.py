"""`sim.make_vec` is a vector environment as Gymnasium has them: spaces, seeds, infos and every way to restart."""

import copy
import pickle

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import NormalizeObservation, RecordEpisodeStatistics

from drivetrain import sim
from drivetrain.core.errors import Closed, CompileError, InvalidInput
from drivetrain.sim.gymnasium.single import SimEnv
from drivetrain.sim.spaces import Box, Discrete

PENDULUM = sim.make("Pendulum-v1").default_params


class Count:
    """Counts to three and says so; a draw at each start shows which keys were used."""

    name, default_params = "Count", None

    def reset(self, key, params):
        state = (jax.random.uniform(key), jnp.int32(0))
        return self.observe(state), state

    def step(self, key, state, action, params):
        state = (state[0], state[1] + 1 + action)
        info = {"count": state[1], "nested": {"half": state[1] / 2}}
        return self.observe(state), state, jnp.int32(action), state[1] >= 3, state[1] == 2, info

    def observe(self, state):
        return {"start": state[0][None], "count": state[1]}

    def action_space(self, params):
        return Discrete(2)

    def observation_space(self, params):
        return type("Dict", (), {"spaces": {"start": Box(0.0, 1.0, (1,)), "count": Discrete(5)}})()


class Push(Count):
    """The same with a real number for an action."""

    def step(self, key, state, action, params):
        return super().step(key, state, jnp.round(action[0]).astype(jnp.int32), params)

    def action_space(self, params):
        return Box(-1.0, 1.0, (1,))


def vectors(**options):
    return sim.make_vec(Count(), 3, "numpy", **options)


def play(venv, num_steps, seed=0):
    """Everything that a vector environment says under random actions, and how often an episode ended."""
    venv.action_space.seed(seed)
    said, num_ended = [venv.reset(seed=seed)], 0
    for _ in range(num_steps):
        said.append(venv.step(venv.action_space.sample()))
        num_ended += int(np.sum(said[-1][2] | said[-1][3]))
    return said, num_ended


def test_spaces_are_those_that_gymnasium_has_for_the_same_environment():
    for name in ("CartPole-v1", "Pendulum-v1", "MountainCarContinuous-v0"):
        ours, theirs = sim.make_vec(name, 5), gymnasium.make_vec(name, 5, vectorization_mode="sync")
        assert ours.single_action_space == theirs.single_action_space
        assert ours.action_space == theirs.action_space
        assert ours.observation_space.shape == theirs.observation_space.shape
        np.testing.assert_allclose(ours.observation_space.low, theirs.observation_space.low)
        assert (ours.num_envs, ours.observation_space.dtype) == (5, np.float32)


@pytest.mark.release
@pytest.mark.parametrize("autoreset", ["same_step", "next_step"])
def test_it_steps_as_the_same_rollout_does(autoreset):
    venv = sim.make_vec("CartPole-v1", 7, "native", autoreset=autoreset)
    rollout = sim.compile(sim.make("CartPole-v1"), 7, 60, "native", record=("obs", "reward"), autoreset=autoreset)
    actions = np.random.default_rng(0).integers(0, 2, (60, 7))
    state = rollout.reset(seed=4)
    np.testing.assert_array_equal(venv.reset(seed=4)[0], state.obs)
    _, trajectory = rollout(state, actions)
    for step, action in enumerate(actions):
        obs, reward, *_ = venv.step(action)
        np.testing.assert_array_equal(obs, trajectory["obs"][step])
        np.testing.assert_array_equal(reward, trajectory["reward"][step])


@pytest.mark.parametrize("autoreset", ["same_step", "next_step"])
@pytest.mark.parametrize("env", ["CartPole-v1", Count()])
def test_everything_said_lies_in_the_spaces_and_has_the_types_of_gymnasium(env, autoreset):
    venv = sim.make_vec(env, 4, "numpy", autoreset=autoreset)
    assert venv.metadata["autoreset_mode"] is AutoresetMode(autoreset.title().replace("_", ""))
    said, num_ended = play(venv, 40)
    assert num_ended > 3
    assert said[0][0] in venv.observation_space
    for obs, reward, terminated, truncated, infos in said[1:]:
        assert obs in venv.observation_space
        assert (reward.dtype, terminated.dtype, truncated.dtype) == (np.float32, np.bool_, np.bool_)
        assert reward.shape == terminated.shape == truncated.shape == (4,)
        for name in infos:
            assert name.startswith("_") or infos[f"_{name}"].dtype == np.bool_


def test_infos_say_in_next_step_who_has_one_and_nothing_for_who_was_reset():
    venv = vectors()
    venv.reset(seed=1)
    *_, infos = venv.step(np.array([0, 1, 1]))  # counts 1, 2, 2: the last two are cut off
    np.testing.assert_array_equal(infos["count"], [1, 2, 2])
    np.testing.assert_array_equal(infos["nested"]["half"], [0.5, 1, 1])
    assert infos["_count"].all()
    obs, reward, terminated, truncated, infos = venv.step(np.array([0, 1, 1]))
    np.testing.assert_array_equal(obs["count"], [2, 0, 0])
    np.testing.assert_array_equal(reward, [0, 0, 0])
    np.testing.assert_array_equal(truncated, [True, False, False])
    assert not terminated.any()
    np.testing.assert_array_equal(infos["_count"], [True, False, False])
    np.testing.assert_array_equal(infos["nested"]["_half"], [True, False, False])
    assert "final_obs" not in infos


def test_the_same_step_gives_how_an_episode_ended_beside_how_the_next_begins():
    venv = vectors(autoreset="same_step")
    start, _ = venv.reset(seed=1)
    obs, _, _, truncated, infos = venv.step(np.array([0, 1, 0]))
    np.testing.assert_array_equal(truncated, [False, True, False])
    np.testing.assert_array_equal(obs["count"], [1, 0, 1])
    np.testing.assert_array_equal(infos["_final_obs"], truncated)
    assert infos["final_obs"][0] is None
    assert infos["final_obs"][1]["count"] == 2
    assert infos["final_obs"][1]["start"] == start["start"][1] != obs["start"][1]
    np.testing.assert_array_equal(infos["final_info"]["count"], [0, 2, 0])
    np.testing.assert_array_equal(infos["final_info"]["_count"], truncated)
    np.testing.assert_array_equal(infos["_count"], ~truncated)
    np.testing.assert_array_equal(infos["count"], [1, 0, 1])


def test_where_nobody_resets_the_caller_does_for_those_that_ended():
    venv = vectors(autoreset="disabled")
    start, _ = venv.reset(seed=1)
    *_, terminated, truncated, _ = venv.step(np.array([1, 0, 1]))
    with pytest.raises(InvalidInput, match="the episode of environment 0 has ended; restart it by"):
        venv.step(np.zeros(3, int))
    obs, _ = venv.reset(options={"reset_mask": terminated | truncated})
    np.testing.assert_array_equal(obs["count"], [0, 1, 0])
    np.testing.assert_array_equal(obs["start"] == start["start"], [[False], [True], [False]])
    obs, *_ = venv.step(np.zeros(3, int))
    np.testing.assert_array_equal(obs["count"], [1, 2, 1])


@pytest.mark.parametrize("autoreset", list(AutoresetMode)[:2])
def test_a_batch_says_what_gymnasium_says_of_single_environments_one_by_one(autoreset):
    """SyncVectorEnv of single environments, each started where the batch starts its own."""
    ours, theirs = (
        vectors(autoreset=autoreset),
        SyncVectorEnv([lambda: SimEnv(Count(), "numpy")] * 3, autoreset_mode=autoreset),
    )
    ours.reset(seed=0)
    theirs.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(20):
        actions = rng.integers(0, 2, 3)
        one, other = ours.step(actions), theirs.step(actions)
        for x, y in zip((one[0]["count"], *one[1:4]), (other[0]["count"], *other[1:4]), strict=True):
            np.testing.assert_array_equal(x, y)
        assert set(one[4]) == set(other[4])
        for key in one[4].keys() - {"final_obs"}:
            assert data_equivalence(numbers(one[4][key]), numbers(other[4][key])), key


def numbers(info):
    """Leaves as float64: the two say the same in types of their own."""
    return jax.tree.map(lambda x: np.asarray(x, np.float64), info)


def test_a_seed_decides_everything_and_none_goes_on():
    first, _ = play(vectors(), 10, seed=5)
    again, _ = play(vectors(), 10, seed=5)
    assert data_equivalence(first, again, exact=True)
    venv, other = vectors(), vectors()
    one, two = (each.reset(seed=5)[0]["start"] for each in (venv, other))
    np.testing.assert_array_equal(one, two)
    later = venv.reset()[0]["start"]
    np.testing.assert_array_equal(later, other.reset()[0]["start"])
    assert not np.any(later == one)
    assert not np.any(venv.reset(seed=6)[0]["start"] == one)
    assert len(np.unique(one)) == 3


@pytest.mark.parametrize("autoreset", ["next_step", "same_step", "disabled"])
def test_what_is_handed_out_is_the_callers_to_write_to(autoreset):
    for engine in ("xla", "numpy"):
        venv = sim.make_vec("CartPole-v1", 3, engine, autoreset=autoreset)
        assert all(x.flags.writeable for x in (venv.reset(seed=0)[0], *venv.step(np.zeros(3, int))[:4]))


def test_what_was_handed_out_stays_as_it_was():
    for engine in ("numpy", "xla"):
        venv = sim.make_vec(Count(), 2, engine)
        before, _ = venv.reset(seed=0)
        kept = jax.tree.map(np.copy, before)
        after, *_ = venv.step(np.array([0, 0]))
        assert data_equivalence(before, kept, exact=True)
        after["start"][:] = 7.0  # theirs to write
        assert not np.any(venv.step(np.array([0, 0]))[0]["start"] == 7.0)


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda venv: pickle.loads(pickle.dumps(venv))], ids=["copy", "pickle"]
)
def test_a_copy_goes_on_from_the_same_place_and_on_its_own(copied):
    venv = sim.make_vec("CartPole-v1", 3)
    venv.reset(seed=4)
    ones, zeros = np.ones(3, np.int64), np.zeros(3, np.int64)
    other = copied(venv)
    first = venv.step(ones)
    venv.step(zeros)
    assert data_equivalence(other.step(ones), first, exact=True)
    other.step(zeros)
    assert data_equivalence(other.reset(), venv.reset(), exact=True)
    venv.close()
    other.step(ones)


@pytest.mark.parametrize(
    ("env", "actions", "message"),
    [
        (Count(), [0, 1], r"actions: expected 3 integers from 0 to 1, got int64\[2\]"),
        (Count(), [0, 1, 2], "actions: expected integers from 0 to 1, got 2 for environment 2"),
        (Count(), [0, -1, 1], "got -1 for environment 1"),
        (Count(), [0.0, 1.0, 1.0], r"expected 3 integers from 0 to 1, got float64\[3\]"),
        (Push(), [0.0, 1.0, 1.0], r"expected float32\[3, 1\], one row for each environment, got float64\[3\]"),
        (Push(), [[0.0], [np.nan], [1.0]], "expected finite numbers, got nan for environment 1"),
        (Push(), [[0.0], [1e300], [1.0]], "expected finite numbers, got 1e\\+300 for environment 1"),
    ],
)
def test_actions_that_do_not_fit_are_refused(env, actions, message):
    venv = sim.make_vec(env, 3, "numpy")
    venv.reset(seed=0)
    before = venv.state
    with pytest.raises(InvalidInput, match=message):
        venv.step(np.array(actions))
    assert venv.state is before
    with pytest.raises(InvalidInput, match="actions: expected an array that NumPy can read, got a list"):
        venv.step([[0], [1, 1], [0]])


def test_real_actions_of_an_integer_box_are_whole_numbers():
    env = type("Whole", (Push,), {"action_space": lambda self, params: Box(-1, 1, (1,), jnp.int32)})()
    venv = sim.make_vec(env, 2, "numpy")
    venv.reset(seed=0)
    venv.step(np.array([[1.0], [-1.0]]))
    with pytest.raises(InvalidInput, match=r"expected whole numbers that fit int64, got 0\.5 for environment 1"):
        venv.step(np.array([[1.0], [0.5]]))


def test_integers_beyond_the_bounds_of_their_box_are_refused_as_discrete_ones_are():
    low, high = np.array([0, -2]), np.array([1, 2])
    space = Box(low, high, (2,), jnp.int32)
    env = type("Whole", (Push,), {"action_space": lambda self, params: space})()
    venv = sim.make_vec(env, 2, "numpy")
    venv.reset(seed=0)
    for allowed in (low, high):
        venv.step(np.stack([low, allowed]))
    before = venv.state
    for given, told in (([1, 3], "from -2 to 2, got 3"), ([9, 0], "from 0 to 1, got 9"), ([-1.0, 0], "to 1, got -1")):
        with pytest.raises(InvalidInput, match=rf"actions: expected integers .*{told} for environment 1"):
            venv.step(np.stack([low, given]))
    assert venv.state is before
    single = SimEnv(env, "numpy")
    single.reset(seed=0)
    with pytest.raises(InvalidInput, match="actions: expected integers from 0 to 1, got 9 for environment 0"):
        single.step(np.array([9, 0]))


def test_integers_of_a_box_without_end_have_the_bounds_of_their_type_and_others_the_whole_numbers_inside():
    def space(low, high):
        kind = type("Whole", (Push,), {"action_space": lambda self, params: Box(low, high, (1,), jnp.int32)})
        return sim.make_vec(kind(), 2, "numpy")

    venv = space(-np.inf, np.inf)
    assert venv.single_action_space == gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.int64)
    venv.reset(seed=0)
    venv.step(np.array([[-(2**31)], [2**31 - 1]]))
    with pytest.raises(InvalidInput, match="expected numbers that fit int32, got 2147483648"):
        venv.step(np.array([[0], [2**31]]))
    assert space(-0.5, 2.5).single_action_space == gymnasium.spaces.Box(0, 2, (1,), np.int64)


def test_actions_of_a_box_of_booleans_are_taken():
    space = Box(False, True, (1,), bool)

    def step(self, key, state, action, params):
        return Count.step(self, key, state, action[0].astype(jnp.int32), params)

    env = type("Flags", (Count,), {"action_space": lambda self, params: space, "step": step})()
    venv = sim.make_vec(env, 3, "numpy")
    venv.reset(seed=0)
    obs, *_ = venv.step(np.array([[True], [False], [True]]))
    np.testing.assert_array_equal(obs["count"], [2, 1, 2])


def test_calls_that_make_no_sense_are_refused():
    venv = vectors()
    with pytest.raises(InvalidInput, match="expected `reset` to be called first"):
        venv.step(np.zeros(3, int))
    for seed in (-1, 2**32, 1.5, [1, 2, 3], np.arange(3)):
        with pytest.raises(InvalidInput, match="seed: expected one integer from 0 to 4294967295, or None"):
            venv.reset(seed=seed)
    with pytest.raises(InvalidInput, match="options: expected reset_mask alone, got 'speed'"):
        venv.reset(options={"speed": 1})
    venv.reset(seed=0)
    with pytest.raises(InvalidInput, match=r"expected bool\[3\], got int64\[3\]"):
        venv.reset(options={"reset_mask": np.array([0, 1, 0])})
    venv.close()
    venv.close()
    for call in (venv.reset, lambda: venv.step(np.zeros(3, int))):
        with pytest.raises(Closed, match="was closed; make another"):
            call()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"env": "CartPoel-v1"}, "did you mean 'CartPole-v1'"),
        ({"env": "CartPole-v1", "num_envs": 0}, "num_envs: expected at least 1, got 0"),
        ({"env": "CartPole-v1", "engine": "fast"}, "engine: expected one of"),
        ({"env": "CartPole-v1", "autoreset": "never"}, "autoreset: expected one of"),
        ({"env": Count(), "size": 3}, "'size': options are for environments by name"),
        ({"env": "CartPole-v1", "size": 3}, "'size': expected an option of CartPole-v1, which has none"),
        ({"env": "Snake", "sise": 3}, "'sise': expected an option of Snake, which has size, packed"),
        ({"env": "Snake", "size": 4.5}, r"size: expected an integer from 4 to 16, got 4\.5"),
        ({"env": "Knob", "live_nbytes": "64"}, "live_nbytes: expected a positive multiple of 4, got '64'"),
        ({"env": "gymnax/CartPole-v1", "size": 3}, "size: gymnax's CartPole-v1 refuses these options"),
        ({"env": "CartPole-v1", "max_episode_steps": 9}, "max_episode_steps: a time limit is one of .* parameters"),
        ({"env": "CartPole-v1", "generator": "pcg"}, "generator: expected one of threefry, philox, got 'pcg'"),
        ({"env": "CartPole-v1", "num_envs": 10**12}, "num_envs: there is no memory for the bounds of 1000000000000"),
        (
            {"env": "CartPole-v1", "params": PENDULUM},
            r"expected a .*\.cartpole\.Params, .* got a .*pendulum\.Params",
        ),
    ],
)
def test_a_vector_environment_that_cannot_be_is_refused_before_anything_starts(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        sim.make_vec(**arguments)


def test_frames_are_given_of_every_environment_where_they_were_asked_for():
    venv = sim.make_vec("CartPole-v1", 3, "numpy", render_mode="rgb_array")
    venv.reset(seed=0)
    frames = venv.render()
    assert [(frame.shape, frame.dtype) for frame in frames] == [((240, 360, 3), np.uint8)] * 3
    assert not np.array_equal(frames[0], frames[1])
    with pytest.raises(InvalidInput, match='render: expected render_mode="rgb_array"'):
        sim.make_vec("CartPole-v1", 3, "numpy").render()
    with pytest.raises(InvalidInput, match="render_mode: Count has no picture, as it has no method render"):
        vectors(render_mode="rgb_array")
    with pytest.raises(InvalidInput, match="expected None or 'rgb_array', got 'human'"):
        vectors(render_mode="human")


def test_a_space_that_says_something_else_than_what_is_given_is_refused():
    env = type("Wrong", (Count,), {"observe": lambda self, state: {"start": jnp.zeros(2), "count": state[1]}})()
    with pytest.raises(InvalidInput, match=r"observation\['start'\]: its space says shape \(1,\), and it has \(2,\)"):
        sim.make_vec(env, 2)


def test_a_reset_or_a_space_of_another_form_is_told_as_by_compile():
    env = type("Three", (Count,), {"reset": lambda self, key, params: (*Count.reset(self, key, params), {})})()
    with pytest.raises(CompileError, match="`reset` must give two values, obs and state, got 3"):
        sim.make_vec(env, 2)
    with pytest.raises(CompileError, match=r"`action_space` cannot be traced: TypeError: 'Discrete' object is not cal"):
        sim.make_vec(type("Held", (Count,), {"action_space": Discrete(2)})(), 2)  # and no line: none is the author's


def test_spaces_of_several_parts_are_dictionaries_or_tuples_of_spaces():
    parts = {"start": Box(0.0, 1.0, (1,)), "count": Discrete(5)}
    ours = type("Plain", (Count,), {"observation_space": lambda self, params: parts})()
    assert sim.make_vec(ours, 2).observation_space == sim.make_vec(Count(), 2).observation_space
    env = type("Blind", (Count,), {"observation_space": lambda self, params: None})()
    told = "observation: expected one array for the space None, got a dict; give a dictionary or a tuple of drivetrain"
    with pytest.raises(InvalidInput, match=told):
        sim.make_vec(env, 2)


def test_wrappers_of_gymnasium_count_returns_and_normalise():
    venv = RecordEpisodeStatistics(sim.make_vec("CartPole-v1", 8, "native"))
    _, num_ended = play(venv, 100)
    assert len(venv.return_queue) == num_ended > 8
    np.testing.assert_array_equal(venv.return_queue, venv.length_queue)  # a point for each step
    obs, _ = NormalizeObservation(sim.make_vec("CartPole-v1", 8, "native")).reset(seed=0)
    assert abs(obs.mean()) < 0.2
