"""Both sides of `drivetrain bench learning` do the same work at the same settings."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from drivetrain.bench.learning.cases import CASES
from drivetrain.bench.learning.contests import SIMULATORS, case_named
from drivetrain.bench.learning.peers.entry import SEEDS
from drivetrain.bench.learning.peers.ours import overrides
from drivetrain.bench.learning.run import Task, run_side
from drivetrain.bench.learning.sides import AGAINST_SB3
from drivetrain.bench.tied import VARIABLE
from drivetrain.bench.train.peers.ours_continuous import PACE
from drivetrain.bench.train.settings import ContinuousSettings, DqnSettings, PpoSettings
from drivetrain.core.errors import RunError
from drivetrain.core.seeding import episode_seeds
from drivetrain.train.config.presets import preset
from drivetrain.train.ledger.rules import Rules

NAMES = [case.name for case in CASES]
OFF_POLICY = [case for case in CASES if not isinstance(case.settings, PpoSettings)]
OFF_POLICY_NAMES = [case.name for case in OFF_POLICY]
PPO = [case for case in CASES if case not in OFF_POLICY]
OURS = AGAINST_SB3[0]
CARTPOLE = case_named("dqn CartPole-v1")


def task(case, num_actors):
    return Task(case=case.name, seed=1, num_actors=num_actors, total_steps=case.total_steps)


def configured(case, num_actors):
    return preset(case.algo, case.env).override(**overrides(task(case, num_actors)))


@pytest.mark.parametrize("num_actors", [0, None])
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_ours_takes_the_steps_and_updates_of_the_case(case, num_actors):
    rules = Rules.of(configured(case, num_actors))
    assert (rules.total_steps, rules.due(rules.total_steps)) == case.work


@pytest.mark.parametrize("case", OFF_POLICY, ids=OFF_POLICY_NAMES)
def test_the_form_with_processes_differs_by_its_environments_and_pace_alone(case):
    alone, processes = configured(case, 0), configured(case, None)
    assert (alone.agent, alone.replay) == (processes.agent, processes.replay)
    default = preset(case.algo, case.env)
    assert (alone.run.num_actors, alone.run.envs_per_actor) == (0, 1)
    assert processes.run.num_actors == default.run.num_actors
    assert processes.run.envs_per_actor == default.run.envs_per_actor
    pace = {name: getattr(default.updates, name) for name in PACE}
    same = replace(alone.updates, **pace)
    assert processes.updates == same


@pytest.mark.parametrize("case", OFF_POLICY, ids=OFF_POLICY_NAMES)
def test_the_settings_of_the_case_reach_our_configuration(case):
    config, settings = configured(case, 0), case.settings
    assert config.agent.hidden == settings.hidden
    assert config.agent.learning_rate == settings.learning_rate
    assert config.updates.gamma == settings.gamma
    assert config.updates.batch_size == settings.batch_size
    assert config.replay.capacity == settings.buffer_size
    assert (config.replay.prioritized, config.replay.num_step) == (False, 1)
    if isinstance(settings, ContinuousSettings):
        assert config.agent.target_tau == settings.tau
        assert getattr(config.agent, "exploration_noise", None) == settings.action_noise
    else:
        assert (config.agent.double, config.agent.dueling, config.agent.target_tau) == (False, False, 1.0)


@pytest.mark.parametrize("num_actors", [0, None])
@pytest.mark.parametrize("case", PPO, ids=lambda case: case.name)
def test_the_settings_of_ppo_reach_our_configuration(case, num_actors):
    config, settings = configured(case, num_actors), case.settings
    rollout, agent = config.rollout, config.agent
    assert (rollout.num_envs, rollout.rollout_length) == (settings.num_envs, settings.n_steps)
    assert (agent.batch_size, agent.num_epochs) == (settings.batch_size, settings.n_epochs)
    assert (agent.gamma, agent.gae_lambda) == (settings.gamma, settings.gae_lambda)
    assert agent.learning_rate_at(0.5) == settings.learning_rate * (0.5 if settings.linear else 1)
    assert agent.clip_range_at(0.5) == settings.clip_range * (0.5 if settings.linear else 1)
    assert (agent.activation, agent.hidden) == ("tanh", (64, 64))
    assert (agent.value_clip_range, agent.target_kl) == (None, None)  # Stable-Baselines3's defaults


def test_a_run_of_ppo_ends_with_its_last_whole_rollout():
    work = {case.env: case.work for case in PPO}
    assert work == {"CartPole-v1": (391 * 256, 391 * 20), "Pendulum-v1": (25 * 4_096, 25 * 10 * 64)}


def test_the_target_is_copied_as_often_as_the_peer_copies_it():
    copied = {case.env: configured(case, 0).agent.target_interval for case in CASES if case.algo == "dqn"}
    assert copied == {"CartPole-v1": 128, "LunarLander-v3": 250}
    assert DqnSettings().num_updates_between_copies() == 5  # within a block, where nobody copies


@pytest.mark.parametrize("case", SIMULATORS.cases, ids=lambda case: case.name)
def test_on_simulators_every_side_has_the_preset_of_the_case_and_its_steps_and_updates(case):
    configs = [simulated(case, side) for side in SIMULATORS.sides]
    for config in configs:
        rules = Rules.of(config)
        assert (rules.total_steps, rules.due(rules.total_steps)) == case.work
        assert config.envs_per_actor == configs[0].envs_per_actor
        for part in ("environment", "replay", "updates", "rollout", "agent"):
            assert getattr(config, part) == getattr(configs[0], part)


def simulated(case, side):
    """The configuration of a side's run."""
    asked = Task(
        case=case.name, seed=1, num_actors=side.num_actors, total_steps=case.total_steps, sim_engine=side.sim_engine
    )
    return preset(case.algo, case.env).override(**overrides(asked))


def test_on_simulators_the_peer_alone_goes_through_gymnasium_and_one_form_has_processes():
    configs = [simulated(SIMULATORS.cases[0], side) for side in SIMULATORS.sides]
    assert [config.fused_engine for config in configs] == ["native", "native", None]
    assert [config.num_actors for config in configs] == [0, 1, 0]


def test_a_run_at_another_preset_does_not_count_for_the_case():
    case = case_named("dqn drivetrain/CartPole-v1")
    other = replace(case, settings=replace(case.settings, env="drivetrain/Breakout"))
    assert case.conditions() != other.conditions()
    assert json.loads(json.dumps(case.conditions())) == case.conditions()
    assert case.conditions()["settings"]["envs_per_actor"] == 32


@pytest.mark.slow  # two processes, which import JAX and compile
def test_a_short_run_on_a_simulator_answers_on_each_side():
    case = SIMULATORS.cases[0].quickened()
    for side in (SIMULATORS.sides[0], SIMULATORS.peer):
        learned = run_side(side, case, 1)
        assert (learned.num_steps, learned.num_updates) == case.work
        assert len(learned.returns) == 100
        assert all(1 <= value <= 500 for value in learned.returns)


def test_policies_are_judged_on_seeds_that_no_run_trains_or_watches_itself_with():
    assert len(set(SEEDS)) == 100
    for seed in range(20):
        assert not set(SEEDS) & set(episode_seeds(seed, "training", 1_000))
        assert not set(SEEDS) & set(episode_seeds(seed, "selection", 10))
    assert min(SEEDS) > 10_000  # Stable-Baselines3 resets with the run's seed


@pytest.mark.release
def test_a_short_run_of_ours_answers_with_its_returns_and_its_way():
    settings = DqnSettings(hidden=(8,), learning_starts=256, batch_size=16)
    case = replace(CARTPOLE, total_steps=512, settings=settings)
    assert case.work == (512, 128)
    with pytest.raises(RunError, match=r"ours: expected \(512, 128\) environment steps and updates, got \(512, 0\)"):
        run_side(OURS, case, 1)  # the process knows the case by its name, and there its settings are others
    learned = run_side(OURS, CARTPOLE.quickened(), 1)
    assert (learned.num_steps, learned.num_updates) == (1_280, 256)
    assert len(learned.returns) == 100
    assert all(1 <= value <= 500 for value in learned.returns)
    assert learned.curve[-1][0] == 1_280
    assert learned.cpu_s > 0


def test_a_run_whose_command_is_gone_ends(tmp_path):
    task(CARTPOLE, 0).save(tmp_path / "task.json")
    words = [sys.executable, "-m", OURS.rival.module, str(tmp_path / "task.json"), str(tmp_path / "learned.json")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), VARIABLE: "1"}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "died before this process had started" in done.stderr
    assert not (tmp_path / "learned.json").exists()
