"""Configuration: overrides by name, checks with a sentence, and a config.json that comes back."""

import dataclasses
import json
import math
import re
import threading

import gymnasium
import numpy as np
import pytest

from drivetrain.core.errors import FileFormatError, InvalidInput
from drivetrain.train import train
from drivetrain.train.config import AGENTS, DQNConfig, RunConfig, SACConfig, TrainConfig, UpdateConfig, whole
from drivetrain.train.config.names import CALLED_ELSEWHERE
from drivetrain.train.config.presets import PRESETS, preset
from drivetrain.train.runs.requirements import describe
from drivetrain.train.runs.run import resolve

PLAIN = TrainConfig.default("dqn", "CartPole-v1")


def test_overrides_reach_the_part_that_has_the_field():
    config = PLAIN.override(total_steps=7_000, num_step=1, batch_size=32)
    assert (config.run.total_steps, config.replay.num_step, config.updates.batch_size) == (7_000, 1, 32)
    assert config.updates.gamma == PLAIN.updates.gamma


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("total_steps", 0), ("num_actors", -1), ("envs_per_actor", 0), ("seed", -1), ("tolerance", -1),
        ("capacity", 0), ("alpha", 1.5), ("beta", -0.1), ("num_step", 0), ("gamma", 1.01), ("learning_rate", 0.0),
        ("learning_rate", float("nan")), ("batch_size", 0), ("hidden", (64, 0)), ("target_tau", 0.0),
        ("target_interval", 0), ("update_ratio", -1), ("update_ratio", "a"), ("updates_per_call", 0),
        ("epsilon_end", 2.0), ("warmup_steps", -1), ("eval_episodes", 0), ("checkpoint_interval_s", 0.0),
        ("total_steps", 2**63), ("eval_episodes", 10**23), ("final_eval_episodes", 2**29), ("updates_per_call", 10**23),
        ("target_interval", 2**31), ("value_max", 1e39), ("eval_envs", 0), ("update_ratio", "1e9999"),
        ("value_max", -10.0), ("value_max", float("nan")), ("adam_epsilon", 1e-46), ("learning_rate", 1e39),
        ("noise_scale", 1e-46), ("num_actors", 10**400), ("envs_per_actor", 2**31), ("num_learners", 2**31),
    ],
)  # fmt: skip
def test_a_value_out_of_range_is_refused_by_a_sentence_naming_it(name, value):
    with pytest.raises(InvalidInput, match=rf"^{name}: expected .* got "):
        PLAIN.override(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("total_steps", "100"), ("total_steps", None), ("total_steps", 0.5), ("seed", True), ("seed", float("inf")),
        ("envs_per_actor", "many"), ("num_actors", 2.5), ("num_learners", [1]), ("device", np.array([4, 4])),
        ("learning_rate", "1e-3"), ("learning_rate", True), ("gamma", None), ("prioritized", "no"), ("csv", 1),
        ("hidden", "64"), ("hidden", 64), ("hidden", (64, 0.5)), ("wandb", 3), ("freeze_encoder_after", "never"),
        ("update_ratio", None), ("learning_rate", np.array([1e-3, 1e-4])), ("beta", np.array([0.4, 1.0])),
        ("hidden", np.array(64)),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_refused_by_a_sentence_naming_it(name, value):
    with pytest.raises(InvalidInput, match=rf"^{name}: expected .* got "):
        PLAIN.override(**{name: value})


@pytest.mark.parametrize(
    ("name", "meant"), [("total_timesteps", "total_steps"), ("lr", "learning_rate"), ("seeed", "seed")]
)
def test_an_unknown_setting_is_told_with_what_it_is_likely_to_mean(name, meant):
    with pytest.raises(InvalidInput, match=rf"unknown setting '{name}' for dqn: did you mean {meant}\? choose from"):
        PLAIN.override(**{name: 3})


@pytest.mark.parametrize(
    ("algo", "name", "meant"),
    [
        ("ppo", "n_envs", "num_envs"),
        ("sac", "num_envs", "envs_per_actor"),
        ("td3", "policy_noise", "target_noise"),
        ("sac", "callback", r"callbacks=\[\.\.\.\]"),
        ("ppo", "seeds", r"train_seeds\(\.\.\., seeds=\.\.\.\)"),
        ("td3", "env_id", "env"),
        ("ppo", "clip_vloss", "value_clip_range"),
        ("sac", "wandb_project_name", "wandb"),
        ("sac", "q_lr", "learning_rate"),
        ("dqn", "v_min", "value_min"),
        ("ppo", "log_std_init", "initial_log_std"),
        ("ppo", "normalize", "normalize_observations"),
        ("td3", "noise_std", "exploration_noise"),
        ("dqn", "prioritized_replay_alpha", "alpha"),
        ("dqn", "prioritized_replay_beta", "beta"),
        ("sac", "trained_agent", "init_from"),
    ],
)
def test_what_others_call_a_setting_is_what_the_algorithm_has_of_it(algo, name, meant):
    with pytest.raises(InvalidInput, match=rf"did you mean {meant}\?"):
        TrainConfig.default(algo, "Pendulum-v1").override(**{name: 3})


def test_what_others_have_and_an_algorithm_has_not_is_not_taken_for_something_that_sounds_alike():
    with pytest.raises(InvalidInput, match="unknown setting 'learning_starts' for ppo: choose from"):
        TrainConfig.default("ppo", "CartPole-v1").override(learning_starts=3)


def test_all_that_is_told_of_others_names_is_a_setting_of_ours():
    known = {
        entry.name
        for algo in AGENTS
        for part in TrainConfig.default(algo, "CartPole-v1").parts
        for entry in dataclasses.fields(getattr(TrainConfig.default(algo, "CartPole-v1"), part))
    }
    assert {ours for names in CALLED_ELSEWHERE.values() for ours in names.split()} <= known


def test_an_unknown_setting_is_refused_with_the_known_ones():
    with pytest.raises(InvalidInput, match=r"unknown setting 'batchsize'.*batch_size"):
        PLAIN.override(batchsize=3)


def test_a_saved_part_that_is_not_known_is_refused_and_not_left_out(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(PLAIN.to_dict() | {"cluster": {"num_machines": 3}}))
    with pytest.raises(FileFormatError, match=r"config\.json: .*unknown part 'cluster': written by a newer drivetrain"):
        TrainConfig.load(path)


def test_settings_that_are_no_configuration_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match="config: expected a TrainConfig, got dict; settings are arguments by name"):
        train("dqn", "CartPole-v1", config={"total_steps": 3}, run_dir=str(tmp_path))


def test_parts_made_by_hand_take_what_settings_take():
    parts = {"updates": UpdateConfig(update_ratio=0.25), "agent": DQNConfig(hidden=[8, np.int64(4)])}
    config = resolve("dqn", "CartPole-v1", TrainConfig(algo="dqn", env="CartPole-v1", **parts), {"seed": 3})
    assert config == PLAIN.override(update_ratio="1/4", hidden=(8, 4), seed=3)
    with pytest.raises(InvalidInput, match=r"^csv: expected True or False, got 'yes'"):
        resolve("dqn", "CartPole-v1", dataclasses.replace(PLAIN, run=RunConfig(csv="yes")), {})


def test_no_time_out_at_all_may_be_asked_for():
    assert describe(PLAIN.override(step_timeout_s=float("inf"))).num_actions == 2


def test_an_unknown_algorithm_is_refused_with_the_known_ones():
    with pytest.raises(InvalidInput, match="unknown algorithm 'sarsa': choose from dqn, ddpg, td3, sac"):
        TrainConfig.default("sarsa", "CartPole-v1")


def test_the_settings_of_another_algorithm_are_refused():
    with pytest.raises(InvalidInput, match=r"unknown setting 'epsilon_end' for sac: choose from .*target_entropy"):
        TrainConfig.default("sac", "Pendulum-v1").override(epsilon_end=0.1)
    with pytest.raises(InvalidInput, match="agent: DQNConfig is not for the algorithm 'sac'"):
        TrainConfig(algo="sac", env="Pendulum-v1", agent=DQNConfig())


@pytest.mark.parametrize(
    ("algo", "name", "value"),
    [
        ("ddpg", "exploration_noise", -0.1), ("ddpg", "noise_correlation", 1.0), ("td3", "noise_correlation", -0.1),
        ("sac", "noise_correlation", float("nan")), ("td3", "policy_delay", 0), ("td3", "target_noise", float("inf")),
        ("td3", "target_noise_clip", -1.0), ("sac", "initial_temperature", 0.0),
        ("sac", "target_entropy", float("nan")), ("sac", "learning_rate", 0.0), ("ddpg", "hidden", (0,)),
        ("td3", "target_tau", 1.5), ("td3", "policy_delay", 2**31), ("sac", "initial_temperature", 1e-46),
        ("sac", "target_entropy", 1e39), ("ppo", "num_epochs", 2**31), ("ppo", "rollout_length", 10**400),
        ("ppo", "num_envs", 2**31), ("ppo", "entropy_coefficient", 1e39), ("ppo", "value_coefficient", -1.0),
    ],
)  # fmt: skip
def test_a_setting_of_an_algorithm_out_of_range_is_refused_by_name(algo, name, value):
    with pytest.raises(InvalidInput, match=rf"^{name}: expected .* got "):
        TrainConfig.default(algo, "Pendulum-v1").override(**{name: value})


def test_no_two_parts_of_a_run_share_a_field_name():
    for algo in AGENTS:
        config = TrainConfig.default(algo, "E")
        parts = [getattr(config, part) for part in config.parts]
        names = [field.name for part in parts for field in dataclasses.fields(part)]
        assert len(names) == len(set(names))


def test_continuous_algorithms_start_from_the_papers_settings():
    config = preset("sac", "Anything-v0")
    assert isinstance(config.agent, SACConfig)
    assert (config.updates.batch_size, config.updates.update_ratio, config.replay.prioritized) == (256, 1, False)


def test_a_warm_up_too_short_for_a_first_batch_is_refused():
    with pytest.raises(InvalidInput, match=r"warmup_steps: expected at least 80 .*got 79"):
        PLAIN.override(num_actors=1, envs_per_actor=8, num_step=3, batch_size=64, warmup_steps=79)
    PLAIN.override(num_actors=1, envs_per_actor=8, num_step=3, batch_size=64, warmup_steps=80)


def test_a_replay_too_small_for_a_batch_is_refused_with_what_else_could_be_less():
    with pytest.raises(InvalidInput, match=r"capacity: expected at least 80 \(a batch of 64, .* or lower batch_size"):
        PLAIN.override(num_actors=1, envs_per_actor=8, num_step=3, batch_size=64, capacity=79)
    PLAIN.override(num_actors=1, envs_per_actor=8, num_step=3, batch_size=64, capacity=80)


def test_windows_of_one_step_hold_nothing_back_and_are_not_told_of():
    with pytest.raises(InvalidInput) as caught:
        PLAIN.override(num_actors=1, num_step=1, batch_size=64, warmup_steps=63)
    told = "warmup_steps: expected at least 64 (a batch of 64), got 63; raise it, or lower batch_size"
    assert str(caught.value) == told


@pytest.mark.parametrize("algo", AGENTS)
def test_config_json_is_resolved_and_comes_back_equal_by_any_path(tmp_path, monkeypatch, algo):
    monkeypatch.setenv("HOME", str(tmp_path))
    ratio = {} if algo == "ppo" else {"update_ratio": "3/7"}
    config = preset(algo, "CartPole-v1").override(seed=3, hidden=(32, 16), **ratio)
    path = tmp_path / "config.json"
    path.write_text(config.to_json())
    assert isinstance(json.loads(path.read_text())["run"]["num_actors"], int)
    for given in (path, str(path), "~/config.json"):
        assert TrainConfig.load(given) == config.resolved()


@pytest.mark.parametrize("num_cores", [1, 2, 9, 16, 31, 64, 400])
def test_settings_are_found_and_read_again_on_machines_of_any_number_of_cores(monkeypatch, num_cores):
    saved = [preset(*key).resolved().to_dict() for key in PRESETS]
    monkeypatch.setattr(whole, "num_cores", lambda: num_cores)
    for key, data in zip(PRESETS, saved, strict=True):
        assert TrainConfig.from_dict(data).to_dict() == data
        found = preset(*key)
        assert 1 <= found.num_actors <= max(1, num_cores)
        assert found.override(num_actors=1).num_actors == 1
    usual = TrainConfig.default("sac", "Pendulum-v1").override(num_step=1)
    assert usual.num_actors == max(1, num_cores - 1)


@pytest.mark.parametrize(
    ("settings", "num_actors"),
    [({}, 7), ({"num_learners": 3}, 5), ({"num_learners": 9}, 1), ({"num_learners": 3, "oversubscribe": True}, 7)],
)
def test_usual_actors_take_the_cores_that_learners_leave(monkeypatch, settings, num_actors):
    monkeypatch.setattr(whole, "num_cores", lambda: 8)
    usual = TrainConfig.default("sac", "Pendulum-v1").override(num_step=1, batch_size=9)
    assert usual.override(**settings).num_actors == num_actors


def test_usual_actors_of_rollouts_have_as_many_environments_each_as_are_asked_for(monkeypatch):
    monkeypatch.setattr(whole, "num_cores", lambda: 8)
    usual = TrainConfig.default("ppo", "CartPole-v1")
    assert [usual.override(envs_per_actor=each).num_actors for each in ("auto", 1, 2, 8)] == [8, 8, 4, 1]
    with pytest.raises(InvalidInput, match="got 8 for 8 actors of 3 environments each"):
        usual.override(envs_per_actor=3)


def test_numbers_without_end_are_text_in_config_json_which_has_none(tmp_path):
    endless = {"checkpoint_interval_s": math.inf, "max_gradient_norm": math.inf}
    config = TrainConfig.default("dqn", "CartPole-v1").override(**endless)
    path = tmp_path / "config.json"
    path.write_text(config.to_json())
    held = json.loads(config.to_json(), parse_constant=pytest.fail)
    assert (held["run"]["checkpoint_interval_s"], held["agent"]["max_gradient_norm"]) == ("inf", "inf")
    assert TrainConfig.load(path) == config.resolved()
    path.write_text(config.to_json().replace('"inf"', "Infinity"))  # as runs have it that were begun before
    assert TrainConfig.load(path) == config.resolved()
    with pytest.raises(InvalidInput, match="learning_rate: expected a number, got 'fast'"):
        config.override(learning_rate="fast")


@pytest.mark.parametrize("schedule", [lambda progress: progress, "lin_3e-4"])
@pytest.mark.parametrize(
    ("algo", "name", "remedy"),
    [
        (
            "sac",
            "learning_rate",
            r"optimizer=lambda rate: optax\.adam\(optax\.linear_schedule\(rate, 0, num_updates\)\)",
        ),
        ("ppo", "learning_rate", 'learning_rate_schedule="linear", by which it falls to 0'),
        ("ppo", "clip_range", 'clip_range_schedule="linear", by which it falls to 0'),
        ("dqn", "gamma", "(>|')"),
    ],
)
def test_a_schedule_in_the_place_of_a_number_is_answered_with_where_it_goes(algo, name, remedy, schedule):
    with pytest.raises(InvalidInput, match=f"^{name}: expected a number, got .*{remedy}$"):
        TrainConfig.default(algo, "CartPole-v1").override(**{name: schedule})


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "Expecting value: line 1 column 1 (char 0)"),
        ("[1, 2]", "its content: expected an object of settings, got [1, 2]"),
        ("{}", "algo: expected text, got null"),
        ('{"algo": "dqn", "env": 3}', "env: expected text, got 3"),
        ('{"algo": "dqn", "env": "E", "run": 3}', "run: expected an object of settings, got 3"),
        ('{"algo": "dqn", "env": "E", "run": {}, "replay": {}}', "it lacks the part 'agent'; use an older copy"),
        (
            '{"algo": "dqn", "env": "E", "environment": {"env_kwargs": [1]}}',
            "env_kwargs: expected an object of settings, got [1]",
        ),
    ],
)
def test_a_foreign_config_json_is_refused_with_what_is_wrong_with_it(tmp_path, text, sentence):
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(FileFormatError, match=re.escape(f"{path}: expected the config.json of a run: {sentence}")):
        TrainConfig.load(path)


def test_an_absent_config_json_is_told_as_such(tmp_path):
    with pytest.raises(FileFormatError, match=r"expected the config\.json of a run: No such file or directory$"):
        TrainConfig.load(tmp_path / "config.json")


@pytest.mark.parametrize("algo", ["dqn", "ppo"])
@pytest.mark.parametrize("value", [None, "x", [1, [2]], {"a": "b"}, 10**400], ids=type)
def test_a_setting_that_somebody_changed_by_hand_is_taken_or_refused_in_our_words(tmp_path, algo, value):
    path = tmp_path / "config.json"
    whole = TrainConfig.default(algo, "CartPole-v1").to_dict()
    refused = 0
    for part, settings in whole.items():
        for name in settings if isinstance(settings, dict) else ():
            path.write_text(json.dumps({**whole, part: {**settings, name: value}}))
            try:
                TrainConfig.load(path)
            except FileFormatError:
                refused += 1
    assert refused > 10


def test_exploration_and_importance_schedules_run_linearly_to_their_ends():
    config = PLAIN.override(epsilon_start=1.0, epsilon_end=0.1, exploration_steps=100, beta=0.4)
    assert [config.agent.epsilon_at(step) for step in (0, 50, 100, 10_000)] == pytest.approx([1.0, 0.55, 0.1, 0.1])
    assert [config.replay.beta_at(share) for share in (0.0, 0.5, 1.0)] == pytest.approx([0.4, 0.7, 1.0])
    assert PLAIN.override(exploration_steps=0, epsilon_end=0.2).agent.epsilon_at(0) == 0.2


@pytest.mark.parametrize("num_actors", [0, 1])
@pytest.mark.parametrize(
    "settings", [{"hidden": (2**40,)}, {"hidden": (2**20, 2**20)}, {"hidden": (2**20,), "num_atoms": 10**6}]
)
def test_a_network_that_does_not_fit_is_refused_before_anything_is_made(tmp_path, monkeypatch, settings, num_actors):
    monkeypatch.setattr(
        "drivetrain.train.sizing.choose._updates", lambda *_, **__: pytest.fail("its updates were measured")
    )
    with pytest.raises(InvalidInput, match=r"would have [\d,]+ parameters, which take [\d,.]+ [TPE]iB to learn, and"):
        train("dqn", "CartPole-v1", run_dir=str(tmp_path / "run"), num_actors=num_actors, **settings)
    assert list(tmp_path.iterdir()) == []


class HeldEnv(gymnasium.Env):
    """Cannot be pickled."""

    def __init__(self):
        self.lock = threading.Lock()


class SeveralEnvs:
    """In the form of Stable-Baselines3's vector environments."""

    num_envs = 4

    def reset(self): ...

    def step(self, actions): ...


class Simulator:
    """In the form of `drivetrain.sim.api.Environment`."""

    default_params = None

    def reset(self, key, params): ...

    def step(self, key, state, action, params): ...


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            gymnasium.make("CartPole-v1"),
            r"an environment itself; give 'CartPole-v1', or lambda: gymnasium.make\('CartPole-v1'\)",
        ),
        (gymnasium.spec("CartPole-v1"), "EnvSpec; give 'CartPole-v1', or lambda: "),
        (HeldEnv(), r"an environment itself; give a function that makes one, as lambda: MyEnv\(size=3\)"),
        (SeveralEnvs(), "several environments at once; give a function that makes one; .*envs_per_actor"),
        (Simulator(), "a simulator itself; simulators are named: give 'drivetrain/.*'drivetrain/module:Name'"),
        (3, "int; give a function"),
    ],
)
def test_an_environment_that_is_no_function_is_refused_with_what_to_give(given, told):
    expected = "env: expected an id, or a function that makes an environment each time it is called, got"
    with pytest.raises(InvalidInput, match=f"{expected} {told}"):
        TrainConfig.default("dqn", given)
