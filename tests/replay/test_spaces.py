"""Replays for Gymnasium environments: every space of fixed size goes in and comes out as the environment gives it."""

import gymnasium
import numpy as np
import pytest
from filled import slots_of
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from drivetrain.core.errors import InvalidInput
from drivetrain.replay import Replay, memory_report, spec_of

DTYPES = ["float16", "float32", "float64", "uint8", "int16", "bool"]
BOXES = [spaces.Box(0, 1, (2, 3), np.dtype(dtype).type) for dtype in DTYPES]
NESTED = spaces.Dict(
    {
        "boxes": spaces.Tuple(BOXES),
        "scalar": spaces.Box(-1, 1, (), np.float32),
        "inner": spaces.Dict({"count": spaces.Discrete(5, start=2), "pair": spaces.Tuple([spaces.Discrete(3)] * 2)}),
        "many": spaces.MultiDiscrete([[3, 4], [5, 6]]),
        "bits": spaces.MultiBinary([2, 2]),
        "walker/joints": spaces.Tuple([spaces.Discrete(3), spaces.Dict({"left/knee": spaces.Box(0, 1, (2,))})]),
        "walker/velocity": spaces.Box(0, 1, (3,)),
        "tuple_of_dicts": spaces.Tuple([spaces.Dict({"x": spaces.Box(0, 1, (1,))}), spaces.MultiBinary(3)]),
    }
)


class Random(gymnasium.Env):
    """Gives whatever its observation space samples."""

    def __init__(self, observation_space=NESTED, action_space=None):
        self.observation_space = observation_space
        self.action_space = action_space or spaces.Tuple([spaces.Box(-1, 1, (2,)), spaces.Discrete(4)])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 1.0, False, False, {}


def assert_equal(actual, expected):
    """The same nesting, values and dtypes."""
    if isinstance(expected, dict):
        assert set(actual) == set(expected)
        for key in expected:
            assert_equal(actual[key], expected[key])
    elif isinstance(expected, tuple):
        assert isinstance(actual, tuple)
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            assert_equal(one, other)
    else:
        np.testing.assert_array_equal(actual, expected)
        assert actual.dtype == expected.dtype


def step_of(obs, action, next_obs, num_envs, **flags):
    no = np.zeros(num_envs, bool)
    values = {"reward": np.ones(num_envs), "terminated": no, "truncated": no, **flags}
    return {"obs": obs, "action": action, "next_obs": next_obs, **values}


@pytest.mark.parametrize("num_step", [1, 2])
def test_nested_observations_and_actions_of_a_vector_environment_come_out_as_they_went_in(num_step, tmp_path):
    envs = SyncVectorEnv([Random] * 3)
    with Replay.for_env(envs, 64, num_step=num_step, shared=True) as replay:
        writer = replay.writer(3)
        first, _ = envs.reset(seed=1)
        action = envs.action_space.sample()
        second, reward, terminated, truncated, _ = envs.step(action)
        flags = {"reward": reward, "terminated": terminated}
        writer.add(**step_of(first, action, second, 3, truncated=np.full(3, num_step == 1), **flags))
        if num_step == 2:
            writer.add(**step_of(second, action, first, 3, truncated=np.ones(3, bool), **flags))
        replay.save(tmp_path / "file")
        for copy in (replay, Replay.attach(replay.handle()), Replay.load(tmp_path / "file")):
            data, _, keys = copy.sample(3 * num_step, num_batches=2)
            inserted = np.argsort(slots_of(keys[1]))  # by environment: the row of its first step, then of its second
            rows = inserted[::num_step]
            one = copy._schema.nest([array[1, rows] for array in copy._schema.flatten(data).values()])
            assert_equal(one["obs"], first)
            assert_equal(one["action"], action)
            assert_equal(one["next_obs"], second if num_step == 1 else first)
            assert truncated.sum() == 0
            assert copy._schema == replay._schema
    envs.close()


def test_tuples_may_be_written_as_lists_and_into_given_samples():
    replay = Replay(16, {"obs": [((2,), "float32"), [((), "bool"), {"x": ((), "uint8")}]], "action": ((), "int64")})
    obs = [np.ones((4, 2), np.float32), [np.zeros(4, bool), {"x": np.arange(4, dtype=np.uint8)}]]
    replay.writer(4).add(**step_of(obs, np.arange(4), obs, 4))
    sample = replay.sample(4)
    position, (flag, inner) = sample.data["next_obs"]
    assert (position.shape, flag.dtype, sorted(inner["x"].tolist())) == ((4, 2), np.dtype(bool), [0, 1, 2, 3])
    assert replay.sample(4, out=sample) is sample
    assert (sample.data["obs"][1][1]["x"] == sample.data["action"]).all()
    names = [field.name for field in replay._schema.fields][:4]
    assert names == ["obs/0", "obs/1/0", "obs/1/1/x", "action"]


def test_more_than_ten_in_a_tuple_keep_their_order():
    replay = Replay(4, {"obs": [((), f"S{size + 1}") for size in range(12)]})
    obs = tuple(np.array([b"x"], f"S{size + 1}") for size in range(12))
    replay.writer().add(
        obs=obs, next_obs=obs, reward=np.ones(1), terminated=np.ones(1, bool), truncated=np.ones(1, bool)
    )
    assert [array.dtype.itemsize for array in replay.sample(1).data["obs"]] == list(range(1, 13))


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Blackjack-v1", "FrozenLake-v1", "Pendulum-v1"])
def test_environments_of_gymnasium_fill_a_replay(env_id):
    envs = gymnasium.make_vec(
        env_id, num_envs=2, vectorization_mode="sync", vector_kwargs={"autoreset_mode": AutoresetMode.DISABLED}
    )
    with Replay.for_env(envs, capacity=64, prioritized=False) as replay:
        writer = replay.writer(2)
        obs, _ = envs.reset(seed=0)
        for _ in range(10):
            action = envs.action_space.sample()
            next_obs, reward, terminated, truncated, _ = envs.step(action)
            writer.add(**step_of(obs, action, next_obs, 2, reward=reward, terminated=terminated, truncated=truncated))
            ended = terminated | truncated
            obs = envs.reset(options={"reset_mask": ended})[0] if ended.any() else next_obs
        assert len(replay) == 20
        data = replay.sample(20).data
        rows = replay._schema.flatten({"obs": data["obs"]})
        for row in range(20):
            one = replay._schema.nest([rows.get(field.name, data["reward"])[row] for field in replay._schema.fields])
            assert envs.single_observation_space.contains(one["obs"])
            assert envs.single_action_space.contains(data["action"][row])
    envs.close()


def test_a_single_environment_serves_as_well_as_its_vector_form():
    with Replay.for_env(gymnasium.make("CartPole-v1"), capacity=8) as single:
        with Replay.for_env(gymnasium.make_vec("CartPole-v1", num_envs=3), capacity=8) as vector:
            assert single._schema == vector._schema
        assert [(f.dtype, f.shape) for f in single._schema.fields][:2] == [(np.float32, (4,)), (np.int64, ())]
    assert Replay.for_env(gymnasium.make("CartPole-v1")).capacity == 2**20


def test_the_spec_of_an_environment_may_have_more_fields_and_tells_its_memory():
    env = gymnasium.make("CartPole-v1")
    spec = spec_of(env) | {"log_prob": ((), "float32")}
    with Replay(8, spec) as told:
        told.writer(1).add(
            obs=np.ones((1, 4), np.float32), action=np.ones(1, int), reward=np.ones(1), log_prob=np.full(1, -2, "f4"),
            next_obs=np.ones((1, 4), np.float32), terminated=np.ones(1, bool), truncated=np.zeros(1, bool),
        )  # fmt: skip
        assert told.sample(1).data["log_prob"] == -2
    said = {region.name: region.nbytes for region in memory_report(4096, spec, num_step=1).regions}
    assert (said["obs"], said["log_prob"]) == (4096 * 16, 4096 * 4)


@pytest.mark.parametrize(
    ("space", "name"),
    [
        (spaces.Text(5), "Text"),
        (spaces.Sequence(spaces.Discrete(2)), "Sequence"),
        (spaces.Graph(spaces.Box(0, 1, (2,)), None), "Graph"),
        (spaces.OneOf([spaces.Discrete(2), spaces.Box(0, 1, (2,))]), "OneOf"),
        ("Box", "str"),
    ],
)
def test_spaces_without_a_fixed_size_are_refused_in_one_sentence(space, name):
    nested = spaces.Dict({"a": spaces.Tuple([spaces.Discrete(2)])})
    nested.spaces["b"] = space
    with pytest.raises(
        InvalidInput, match=rf"^for_env: obs/b: expected Box, .* or Tuple, got {name}, whose items.*wrap"
    ):
        Replay.for_env(Random(nested), 8)
    with pytest.raises(InvalidInput, match=rf"for_env: action: .* got {name}"):
        Replay.for_env(Random(spaces.Discrete(2), space), 8)


def test_what_has_no_spaces_is_no_environment():
    with pytest.raises(
        InvalidInput, match=r"with observation_space \(or single_observation_space\), got str; make it by"
    ):
        Replay.for_env("CartPole-v1")


@pytest.mark.parametrize(
    ("obs", "message"),
    [
        ((np.zeros((2, 2), np.float32),), "missing next_obs/1, obs/1"),
        ((np.zeros((2, 2), np.float32), np.zeros(2, bool), np.zeros(2)), "not declared in the spec: next_obs/2, obs/2"),
        (np.zeros((2, 2), np.float32), "missing .*; not declared in the spec: next_obs, obs"),
        (
            (np.zeros((2, 3), np.float32), np.zeros(2, bool)),
            r'field "obs/0": expected float32\[2, 2\], got float32\[2, 3\]',
        ),
    ],
)
def test_a_tuple_that_does_not_fit_is_refused(obs, message):
    replay = Replay(8, {"obs": [((2,), "float32"), ((), "bool")]})
    values = step_of(obs, None, obs, 2)
    del values["action"]
    with pytest.raises(InvalidInput, match=message):
        replay.writer(2).add(**values)
    assert len(replay) == 0


@pytest.mark.parametrize("spec", [{"x": []}, {"x": [(4,), "float32"]}, {"x": [3]}, [((4,), "float32")]])
def test_a_list_that_holds_no_specs_is_refused(spec):
    with pytest.raises(InvalidInput, match="spec"):
        Replay(8, spec)


@pytest.mark.parametrize("spec", [BOXES[0], spaces.Dict(x=BOXES[0]), {"x": spaces.Discrete(3)}, {"x": np.zeros(2)}])
def test_a_space_or_an_array_in_place_of_a_spec_is_answered_with_what_makes_one(spec):
    with pytest.raises(InvalidInput, match=r"^spec.*: expected .* spec_of\(env\)"):
        Replay(8, spec)


@pytest.mark.parametrize("tuples", [["action"], ["obs/0"], ["obs", "x"], [3], ["obs", "obs"]])
def test_a_file_cannot_make_a_tuple_of_what_is_none(tuples):
    schema = Replay(8, {"obs": [((2,), "float32")], "action": {"a": ((), "int8")}})._schema
    stored = schema.to_json()
    assert type(schema).from_json(stored) == schema
    with pytest.raises(InvalidInput):
        type(schema).from_json({**stored, "tuples": tuples})
