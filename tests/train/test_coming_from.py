"""docs/coming-from.md: the settings it names are settings, and its examples are understood."""

import dataclasses
import inspect
import re
from pathlib import Path

import numpy as np
import pytest

from drivetrain import sim
from drivetrain.cli.train import parse
from drivetrain.train.config import AGENTS, DQNConfig, TrainConfig
from drivetrain.train.runs.run import resolve

PAGE = (Path(__file__).parents[2] / "docs/coming-from.md").read_text()
ROWS = [line.split(" | ") for line in PAGE.splitlines() if re.match(r"\| (\w+: )?`|\| RL", line)]
NOT_SETTINGS = {"drivetrain", "metrics.jsonl", "runs"}
FLAGS_OF_EVAL = {"video", "watch", "which"}
OTHER_FLAGS = {"show_config", "preset", "callbacks", "seeds"} | FLAGS_OF_EVAL
SCRIPTS = [row for row in ROWS if row[0].endswith(".py`")]


def settings() -> set[str]:
    """The names of all settings of all algorithms."""
    parts = [
        getattr(TrainConfig.default(algo, "CartPole-v1"), field.name)
        for algo in AGENTS
        for field in dataclasses.fields(TrainConfig)
    ]
    return {field.name for part in parts if dataclasses.is_dataclass(part) for field in dataclasses.fields(part)}


def arguments_of_simulators() -> set[str]:
    """What rollouts and vector environments are made with."""
    return {name for make in (sim.compile, sim.make_vec) for name in inspect.signature(make).parameters}


def named(cell: str) -> set[str]:
    """The names of settings in the code of a table's cell: `name`, `name=value`, `--name value`."""
    spans = re.findall(r"`([^`]+)`", cell)
    flags = {flag.removeprefix("no-").replace("-", "_") for span in spans for flag in re.findall(r"--([a-z-]+)", span)}
    words = {m[1] for span in spans if (m := re.match(r"([a-z_]+)(=|$)", span))}
    return (flags | words) - NOT_SETTINGS


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_what_the_table_calls_a_setting_is_one(row):
    assert not named(row[1]) - settings() - OTHER_FLAGS - arguments_of_simulators()


def test_the_tables_name_most_of_what_they_promise():
    assert len(ROWS) > 25
    assert len(set().union(*(named(row[1]) for row in ROWS))) > 25


def test_the_example_is_understood():
    call = re.search(r'train\((".*)\)', PAGE)
    assert call is not None
    config = eval(f"resolve_like({call[1]})", {"resolve_like": lambda algo, env, **kw: resolve(algo, env, None, kw)})
    assert (config.run.total_steps, config.updates.updates_per_call) == (50_000, 128)
    assert config.updates.update_ratio * 2 == 1


@pytest.mark.parametrize("row", SCRIPTS, ids=lambda row: row[0])
def test_what_a_script_has_without_a_flag_is_a_command_here(row):
    (words,) = re.findall(r"`([^`]+)`", row[1])
    config = parse(["dqn", "CartPole-v1", *words.split()])
    assert isinstance(config.agent, DQNConfig)
    assert config.agent.max_gradient_norm == float("inf")
    assert len(SCRIPTS) == 3


def test_its_optimizer_has_a_rate_for_the_critics_and_one_for_the_actor():
    jax, optax = pytest.importorskip("jax"), pytest.importorskip("optax")
    from drivetrain.train.learner.optimizers import optimizer_of

    text = re.search(r"def own_rates.*?whose\)\n", PAGE, re.DOTALL)
    assert text is not None
    known: dict = {"optax": optax}
    exec(text[0], known)
    config = resolve("sac", "Pendulum-v1", None, {"optimizer": known["own_rates"], "learning_rate": 1e-3})
    for head, rate in (("q", 1e-3), ("mean", 3e-4)):
        params = {"hidden0.weight": jax.numpy.zeros((2, 2)), f"{head}.weight": jax.numpy.zeros((2, 1))}
        own = optimizer_of(config.agent)
        moved, *_ = own.step(jax.tree.map(jax.numpy.ones_like, params), own.init(params), params)
        assert all(np.allclose(piece, -rate, rtol=1e-5) for piece in moved.values())  # Adam's first step is its rate
