"""Whether episodes succeeded, where the environment says so: in rows, results and what is printed."""

import json
import math

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

pytest.importorskip("jax", reason="needs the train extra")

import jax

from drivetrain.cli.main import main
from drivetrain.cli.train import show
from drivetrain.train import train, train_seeds
from drivetrain.train.episode import Episode, succeeded, success_of, success_rate

SMALL = {
    "hidden": (4,), "warmup_steps": 50, "batch_size": 8, "total_steps": 200, "log_interval_steps": 50,
    "eval_interval_steps": 100, "eval_episodes": 4, "final_eval_episodes": 8, "capacity": 100, "time_report": False,
}  # fmt: skip


class Parity(gymnasium.Env):
    """Three steps; says in the last one that it has succeeded if its seed is even, and before that it has not."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.is_even = self.np_random.random() < 0.5 if seed is None else seed % 2 == 0
        self.num_steps = 0
        return np.zeros(2, np.float32), {"is_success": True}

    def step(self, action):
        self.num_steps += 1
        is_last = self.num_steps == 3
        return np.ones(2, np.float32), 1.0, is_last, False, self.said(is_last and self.is_even)

    def said(self, has_succeeded):
        return {"is_success": has_succeeded}


class Silent(Parity):
    def said(self, has_succeeded):
        return {}


@pytest.mark.release
@pytest.mark.parametrize("num_actors", [0, 1])
def test_rows_results_and_what_is_printed_tell_the_share_of_episodes_that_succeeded(tmp_path, capsys, num_actors):
    result = train("dqn", Parity, run_dir=str(tmp_path), num_actors=num_actors, **SMALL)
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    trained = [row["success_rate"] for row in rows if "success_rate" in row]
    assert trained
    assert all("episode_return" in row for row in rows if "success_rate" in row)
    assert 0.2 < np.mean(trained) < 0.8
    evaluated = {row["eval_success_rate"] for row in rows if "eval_return" in row}
    assert len(evaluated) == 1, "the same seeds each time"
    assert evaluated <= {0.0, 0.25, 0.5, 0.75, 1.0}
    assert result.success_rate in {count / 8 for count in range(9)}
    assert json.loads((tmp_path / "result.json").read_text())["success_rate"] == result.success_rate
    show(result)
    sentence = f"evaluation episodes, {result.success_rate:.0%} of which succeeded\n"
    assert sentence in capsys.readouterr().out


def test_evaluating_a_run_again_finds_the_same_episodes_successful(tmp_path, capsys):
    result = train("dqn", "test_success:Parity", run_dir=str(tmp_path / "run"), num_actors=0, **SMALL)
    capsys.readouterr()
    found = tmp_path / "found.json"
    assert main(["eval", str(tmp_path / "run"), "--episodes", "8", "--json", str(found)]) == 0
    assert f"over 8 episodes, {result.success_rate:.0%} of which succeeded\n" in capsys.readouterr().out
    assert json.loads(found.read_text())["success_rate"] == result.success_rate


def test_the_table_of_several_seeds_has_a_column_of_their_success(tmp_path):
    settings = {**SMALL, "num_actors": 0, "total_steps": 100}
    found = train_seeds("dqn", "test_success:Parity", seeds=[1, 2], run_dir=str(tmp_path / "told"), **settings)
    rates = [result.success_rate for result in found.results.values()]
    assert found.success_rate == np.mean(rates)
    header, first, second, last = found.table().splitlines()
    assert header.split()[:3] == ["seed", "return", "succeeded"]
    assert [line.split()[2] for line in (first, second)] == [f"{rate:.0%}" for rate in rates]
    assert last.endswith(f" of 2 seeds, of whose episodes {found.success_rate:.0%} succeeded")
    untold = train_seeds("dqn", "test_success:Silent", seeds=[1], run_dir=str(tmp_path / "untold"), **settings)
    assert untold.success_rate is None
    assert "succeeded" not in untold.table()


def test_where_nothing_is_said_of_success_nothing_is_told(tmp_path, capsys):
    result = train("dqn", Silent, run_dir=str(tmp_path), num_actors=0, **SMALL)
    assert result.success_rate is None
    assert "success_rate" not in (tmp_path / "metrics.jsonl").read_text()
    show(result)
    assert "succe" not in capsys.readouterr().out


class Tensor:
    """In the form of PyTorch's."""

    def item(self):
        return 0.5


@pytest.mark.parametrize(
    ("info", "value"),
    [
        ({"is_success": True}, 1.0),
        ({"is_success": np.bool_(False)}, 0.0),
        ({"success": np.array([0.25])}, 0.25),
        ({"success": 1}, 1.0),
        ({"success": jax.numpy.array([True])}, 1.0),
        ({"is_success": Tensor()}, 0.5),
        ({"is_success": 0.0, "success": 1.0}, 0.0),
        ({"is_success": None, "success": True}, 1.0),
        ({"is_success": 9, "success": True}, 1.0),
    ],
)
def test_success_is_a_truth_or_a_number_in_between(info, value):
    assert success_of(info) == value


@pytest.mark.parametrize(
    "info",
    [
        {},
        None,
        {"success": "yes"},
        {"is_success": np.ones(2)},
        {"success": math.nan},
        {"success": 10**400},
        {"success": 9},
        {"success": -1.0},
    ],
)
def test_what_is_neither_is_nothing(info):
    assert math.isnan(success_of(info))


def test_a_rate_is_of_the_episodes_of_which_something_is_said():
    episodes = [Episode(0.0, 3, 1.0), Episode(0.0, 3), Episode(0.0, 3, 0.0), Episode(0.0, 3, 1.0), Episode(0.0, 3, 0.0)]
    assert success_rate(episodes) == 0.5
    assert success_rate([Episode(0.0, 3)]) is None
    assert succeeded(None) == ""
