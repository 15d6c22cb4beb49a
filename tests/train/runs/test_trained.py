"""A run's policy by itself: it acts as in the run's evaluations, on what the environment shows."""

import contextlib
import json
import os
import pickle
import re
import tempfile

import gymnasium
import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

import optax
import strange_envs
from gymnasium.vector.utils import iterate

from drivetrain.cli.main import main
from drivetrain.core.errors import FileFormatError, InvalidInput
from drivetrain.core.seeding import episode_seeds
from drivetrain.train import load_policy, resume, train
from drivetrain.train.evaluate import final_seeds

SMALL = {
    "hidden": (8,), "num_actors": 0, "warmup_steps": 40, "batch_size": 8, "envs_per_actor": 2, "total_steps": 80,
    "eval_episodes": 1, "final_eval_episodes": 2, "eval_max_steps": 200,
}  # fmt: skip
PPO = {"num_envs": 2, "rollout_length": 8, "batch_size": 16, "hidden": (8,), "num_actors": 0, "total_steps": 32}


def played(policy, seeds):
    """Returns of whole episodes, as anybody would play them."""
    totals = []
    with contextlib.closing(policy.make_env()) as env:
        for seed in seeds:
            observation, _ = env.reset(seed=seed)
            totals.append(0.0)
            ended = False
            while not ended:
                observation, reward, terminated, truncated, _ = env.step(policy(observation))
                totals[-1] += reward
                ended = terminated or truncated
    return totals


def test_what_it_comes_to_is_not_written_over_what_the_run_keeps(tmp_path, capsys):
    train("dqn", "CartPole-v1", run_dir=str(tmp_path / "run"), **SMALL)
    (tmp_path / "run" / "unreported.json").write_text("{}")  # as of a run that goes on
    for name in ("result.json", "config.json", "best/policy.npz", "unreported.json"):
        kept = (tmp_path / "run" / name).read_bytes()
        assert main(["eval", str(tmp_path / "run"), "--episodes", "1", "--json", str(tmp_path / "run" / name)]) == 2
        assert "expected a file of its own, got one of the run; choose another name" in capsys.readouterr().err
        assert (tmp_path / "run" / name).read_bytes() == kept
    assert main(["eval", str(tmp_path / "run"), "--episodes", "1", "--json", str(tmp_path / "run" / "eval.json")]) == 0


@pytest.mark.whole
@pytest.mark.parametrize(
    ("algo", "env", "settings"),
    [
        ("dqn", "CartPole-v1", {}),
        ("dqn", "CartPole-v1", {"frame_stack": 3, "noisy": True}),
        ("sac", "Pendulum-v1", {"normalize_observations": True}),
        ("dqn", "strange_envs:Nested-v0", {"num_step": 1}),
        ("dqn", "drivetrain/CartPole-v1", {"sim_engine": "xla"}),
    ],
)
@pytest.mark.parametrize("which", ["best", "last"])
def test_it_acts_as_in_evaluations(tmp_path, algo, env, settings, which):
    train(algo, env, run_dir=str(tmp_path), **SMALL, **settings)
    policy = load_policy(tmp_path, which)
    seeds = episode_seeds(policy.config.run.seed, "final", 2)
    returns = [episode.total_reward for episode in policy.evaluate(2)]
    assert played(policy, seeds) == pytest.approx(returns)
    assert played(pickle.loads(pickle.dumps(policy)), seeds) == pytest.approx(returns)
    assert 0 < policy.num_steps <= 80


def test_however_many_episodes_are_played_they_are_the_first_of_the_final_evaluation(tmp_path):
    result = train("dqn", "CartPole-v1", run_dir=str(tmp_path), **SMALL)
    policy = load_policy(tmp_path)
    seeds = final_seeds(policy.config, 9)
    assert seeds[:2] == episode_seeds(0, "final", 2)
    assert len(set(seeds)) == 9
    assert all(final_seeds(policy.config, num) == seeds[:num] for num in range(9))
    returns = [episode.total_reward for episode in policy.evaluate(9)]
    assert returns == pytest.approx(played(policy, seeds))
    assert tuple(returns[:2]) == result.returns
    assert [episode.total_reward for episode in policy.evaluate(1)] == returns[:1]


@pytest.mark.whole
def test_a_policy_acts_without_the_optimizer_that_it_was_learned_with(tmp_path, capsys):
    train("dqn", "CartPole-v1", run_dir=str(tmp_path), optimizer=lambda rate: optax.adamw(rate), **SMALL)
    config = (tmp_path / "config.json").read_text()
    policy = load_policy(tmp_path)
    assert len(policy.evaluate(1)) == 1
    assert policy.config.to_json() == config
    assert main(["eval", str(tmp_path), "--episodes", "1"]) == 0
    for again in ({"optimizer": optax.adamw}, {"optimizer": "optax:adamw"}):
        assert load_policy(tmp_path, **again).num_steps == policy.num_steps
    with pytest.raises(InvalidInput, match=r"optimizer of this run was given from Python: .*<lambda>.*give it again"):
        resume(tmp_path, total_steps=100)


@pytest.mark.whole
@pytest.mark.parametrize(
    ("algo", "env", "settings"),
    [
        ("dqn", "CartPole-v1", {}),
        ("dqn", "CartPole-v1", {"frame_stack": 3}),
        ("sac", "Pendulum-v1", {"normalize_observations": True}),
        ("dqn", "strange_envs:Nested-v0", {"num_step": 1}),
        ("ppo", "strange_envs:Oblong-v0", {}),
        ("dqn", "strange_envs:Shifted-v0", {}),
    ],
)
def test_a_batch_is_acted_on_as_each_of_its_observations(tmp_path, algo, env, settings):
    small = {**PPO, "eval_max_steps": 5} if algo == "ppo" else SMALL
    train(algo, env, run_dir=str(tmp_path), **{**small, **settings})
    policy = load_policy(tmp_path)
    with contextlib.closing(gymnasium.vector.SyncVectorEnv([policy.make_env] * 3)) as envs:
        observations, _ = envs.reset(seed=0)
        for _ in range(4):
            each = list(iterate(envs.observation_space, observations))
            actions = policy.batch(observations)
            assert envs.action_space.contains(actions)
            expected = np.array([policy(observation) for observation in each])
            assert (actions.shape, actions.dtype) == (expected.shape, expected.dtype)
            np.testing.assert_allclose(actions, expected, rtol=1e-5, atol=1e-6)
            observations, *_ = envs.step(actions)


def test_what_is_no_batch_of_observations_is_refused(tmp_path):
    train("dqn", "CartPole-v1", run_dir=str(tmp_path), **SMALL)
    policy = load_policy(tmp_path)
    for given, said in (
        (np.zeros((0, 4)), r"float64\[0, 4\]"),
        (np.zeros(4), r"float64\[4\]"),
        (np.zeros((3, 5)), r"float64\[3, 5\]"),
        ((np.zeros((2, 4)), {}), "a tuple of 2 entries"),
        (3.0, r"float64\[\]"),
        (None, r"object\[\]"),
    ):
        sentence = rf"observations: expected those of several .*, each of Box.*got {said}; one by itself is `policy"
        with pytest.raises(InvalidInput, match=sentence):
            policy.batch(given)
    with pytest.raises(InvalidInput, match=r"got float64\[3, 4\]; .*`policy.batch` takes those of several"):
        policy(np.zeros((3, 4)))
    with pytest.raises(InvalidInput, match=r"observations: expected finite numbers in an observation, got \[ 0\., nan"):
        policy.batch(np.array([[0, 0, 0, 0], [0, np.nan, 0, 0]], np.float32))


def test_what_lies_in_the_folder_of_a_run_is_told_with_the_folder_to_give(tmp_path):
    train("dqn", "CartPole-v1", run_dir=str(tmp_path / "run"), **SMALL)
    for part in ("best/policy.npz", "best", "checkpoint"):
        with pytest.raises(InvalidInput, match=rf"and .*run/{part} is none, but in that of one; give {tmp_path}/run$"):
            load_policy(tmp_path / "run" / part)
    with pytest.raises(InvalidInput, match=r"and .*run/other is none$"):
        load_policy(tmp_path / "run" / "other")


@pytest.mark.whole
def test_returns_of_rewards_that_no_float32_is_are_those_of_the_run(tmp_path):
    result = train("dqn", "drivetrain/own_simulators:Rich", sim_engine="native", run_dir=str(tmp_path), **SMALL)
    assert [one.total_reward for one in load_policy(tmp_path).evaluate(2)] == list(result.returns)


@pytest.mark.whole
def test_actions_are_those_that_the_environment_takes(tmp_path):
    train("ppo", strange_envs.Oblong, run_dir=str(tmp_path), **PPO, eval_max_steps=5)
    policy = load_policy(tmp_path, env=strange_envs.Oblong)
    action = policy(5)
    assert strange_envs.Oblong.action_space.contains(action)
    assert np.array_equal(pickle.loads(pickle.dumps(policy))(5), action)


def test_what_is_no_observation_and_no_run_is_refused(tmp_path):
    result = train("dqn", "CartPole-v1", run_dir=str(tmp_path / "run"), **SMALL)
    policy = load_policy(str(tmp_path / "run"))
    for observation in (np.zeros(3, np.float32), "up", None, np.zeros((2, 4), np.float32)):
        with pytest.raises(InvalidInput, match=r"observation: expected one of 'CartPole-v1', of Box.*make_env"):
            policy(observation)
    for number in (np.nan, np.inf):
        with pytest.raises(InvalidInput, match=r"observation: expected finite numbers in an observation, got \[ *0., "):
            policy(np.array([0, number, 0, 0], np.float32))
    with pytest.raises(InvalidInput, match="expected the folder of a run"):
        load_policy(tmp_path / "nothing")
    with pytest.raises(InvalidInput, match=r"expected the folder of a run, and a+ is none: File name too long"):
        load_policy("a" * 300)
    for given, sentence in [
        (result, "got Result; give its run_dir"),
        (None, "got None"),
        ("~no-such-user/x", "no user's"),
    ]:
        with pytest.raises(InvalidInput, match=f"run_dir: expected a path, .*{sentence}"):
            load_policy(given)
    with pytest.raises(InvalidInput, match="which: expected one of best, last, got 'newest'"):
        load_policy(tmp_path / "run", "newest")
    (tmp_path / "run" / "best" / "policy.npz").unlink()
    with pytest.raises(FileFormatError):
        load_policy(tmp_path / "run")
    assert isinstance(policy.make_env(), gymnasium.Env)


class Going(strange_envs.Ending):
    """Goes to the folder of temporary files whenever an episode begins."""

    def reset(self, **options):
        os.chdir(tempfile.gettempdir())
        return super().reset(**options)


@pytest.mark.whole
def test_environments_that_go_elsewhere_leave_the_caller_where_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("first", "second"):
        train("dqn", Going, run_dir=name, **SMALL)
    resume("first", total_steps=100, env=Going)
    policy = load_policy("second", env=Going)
    assert len(policy.evaluate(1)) == 1
    assert os.getcwd() == str(tmp_path)
    assert sorted(os.listdir()) == ["first", "second"]


@pytest.mark.whole
def test_a_folder_may_be_named_from_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    result = train("ppo", "CartPole-v1", run_dir="~/runs/of mine", **PPO)
    assert result.run_dir == tmp_path / "runs" / "of mine"
    assert load_policy("~/runs/of mine")(np.zeros(4, np.float32)) in (0, 1)
    with pytest.raises(InvalidInput, match="is finished"):
        resume("~/runs/of mine")
    with pytest.raises(InvalidInput, match="run_dir: expected a folder, or None"):
        train("ppo", "CartPole-v1", run_dir="a\0b", **PPO)


def test_a_run_in_a_folder_that_was_removed_is_refused_in_a_sentence(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(InvalidInput, match="the folder in which this was called does not exist any more; `cd` to one"):
        train("ppo", "CartPole-v1", run_dir=str(tmp_path / "run"), **PPO)


class Steered(strange_envs.Shifted):
    """Takes a real number within bounds that a later version of its module may change."""

    high = 2.0

    def __init__(self):
        self.action_space = gymnasium.spaces.Box(-1.0, self.high, (1,), np.float32)

    def step(self, action):
        return self.observe(0), float(action[0]), False, False, {}


@pytest.mark.whole
def test_an_environment_that_is_another_by_now_is_not_played(tmp_path, monkeypatch, capsys):
    train("td3", Steered, run_dir=str(tmp_path), **SMALL)
    monkeypatch.setattr(Steered, "high", 3.0)
    has_changed = r"checkpoint: its action space was Box\(-1.0, 2.0, \(1,\), float32\), and is Box\(-1.0, 3.0, "
    with pytest.raises(InvalidInput, match=has_changed):
        load_policy(tmp_path, env=Steered)
    assert main(["eval", str(tmp_path), "--env", f"{__name__}:Steered"]) == 2
    assert "evaluate with the environment as it was" in capsys.readouterr().err
    (tmp_path / "checkpoint" / "manifest.json").unlink()
    load_policy(tmp_path, env=Steered)  # nothing says what it was


@pytest.mark.whole
@pytest.mark.parametrize("shown", ["low=(-2.0,), high=(2.0,)", "low=(np.float64(-2.0),), high=(np.float64(2.0),)"])
def test_numpy_1_and_2_may_write_bounds_of_actions_each_in_its_way(tmp_path, shown):
    train("td3", "Pendulum-v1", run_dir=str(tmp_path), **SMALL)
    manifest = tmp_path / "checkpoint" / "manifest.json"
    kept = json.loads(manifest.read_text())
    was = re.sub(r"low=.*, high=.*,\)(?=, shape)", shown, kept["interface"]["actions"])
    manifest.write_text(json.dumps({**kept, "interface": {**kept["interface"], "actions": was}}))
    assert len(load_policy(tmp_path).evaluate(1)) == 1
    assert resume(tmp_path, total_steps=84).num_steps == 84
