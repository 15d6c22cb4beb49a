"""Several seeds: one run each, one after the other, whatever becomes of the others."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

from gymnasium.envs.classic_control import CartPoleEnv
from whole_run import ENDLESS, SMALL, read

from drivetrain.cli.main import main
from drivetrain.core.errors import InvalidInput, RunError
from drivetrain.train import train, train_seeds
from drivetrain.train.config import TrainConfig
from drivetrain.train.run_dir.checkpoint import load_checkpoint
from drivetrain.train.run_dir.results import Result
from drivetrain.train.runs import seeds as seeds_module
from drivetrain.train.runs.seed_lists import checked_seeds, parse_seeds
from drivetrain.train.runs.seeds import run_seeds, seed_configs


@pytest.mark.parametrize(
    ("text", "seeds"),
    [("1..5", (1, 2, 3, 4, 5)), ("1,2,5", (1, 2, 5)), ("7", (7,)), ("0..1, 9", (0, 1, 9)), ("3..3", (3,))],
)
def test_seeds_are_read_as_ranges_and_lists(text, seeds):
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("5..1", r"the smaller first, got '5..1': write 1..5"),
        ("a", r"expected as 1..5 or 1,2,5, got 'a'"),
        ("1..2..3", "got '1..2..3'"),
        ("-1", "got '-1'"),
        ("1,", "got '1,'"),
        ("", "got ''"),
        ("1,1..2", "expected each once, got 1 twice"),
        ("9" * 5_000, "got one of 5,000 digits"),
        ("1..1001", "at most 1,000 of them"),
    ],
)
def test_what_is_no_list_of_seeds_is_refused_with_what_is_one(text, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        parse_seeds(text)


@pytest.mark.parametrize("seeds", [[], [1.5], [True], [-1], ["1"], [2, 2]])
def test_numbers_that_are_no_seeds_are_refused(seeds):
    with pytest.raises(InvalidInput, match="seeds: expected"):
        checked_seeds(seeds)
    assert checked_seeds(np.array([3, 1])) == (3, 1)


def test_a_seed_and_seeds_together_are_refused_before_anything_starts(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "dqn", "CartPole-v1", "--seeds", "1..2", "--seed=3"]) == 2
    assert "--seeds: expected no --seed beside it" in capsys.readouterr().err
    assert main(["train", "dqn", "CartPole-v1", "--seeds", "1", "2", "3"]) == 2
    assert "--seeds: expected one word, got 1 2 3: write 1,2,3" in capsys.readouterr().err
    assert main(["train", "dqn", "CartPole-v1", "--preset", "rainbow", "5"]) == 2
    assert "rainbow,5" not in capsys.readouterr().err
    with pytest.raises(InvalidInput, match="seed: expected none beside seeds, got 3"):
        train_seeds("dqn", "CartPole-v1", seeds="1..2", seed=3)
    assert main(["train", "dqn", "CartPole-v1", "--show-config", "--seeds=4..5"]) == 0
    assert '"seeds": [' in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.whole
def test_each_seed_gives_what_it_gives_alone_in_a_folder_of_its_own(tmp_path):
    settings = {**SMALL, "total_steps": 400, "num_actors": 0}
    found = train_seeds("dqn", "CartPole-v1", seeds=[4, 2], run_dir=str(tmp_path / "all"), **settings)
    alone = train("dqn", "CartPole-v1", seed=2, run_dir=str(tmp_path / "alone"), **settings)
    assert found.run_dir == tmp_path / "all"
    assert list(found.results) == [4, 2]
    assert found.results[2].returns == alone.returns
    assert found.results[2].run_dir == tmp_path / "all" / "seed-2"
    theirs = load_checkpoint(found.results[2].run_dir)[0]["params"]
    assert (theirs == load_checkpoint(alone.run_dir)[0]["params"]).all()
    with pytest.raises(InvalidInput, match="has seed-2 already; leave these seeds out"):
        train_seeds("dqn", "CartPole-v1", seeds="2..3", run_dir=str(tmp_path / "all"), **settings)
    with pytest.raises(InvalidInput, match="is the folder of a run"):
        train_seeds("dqn", "CartPole-v1", seeds="1..2", run_dir=str(tmp_path / "alone"), **settings)


def test_all_seeds_lie_where_they_were_asked_for_whoever_goes_elsewhere(tmp_path, monkeypatch, start_instead):
    class Elsewhere(CartPoleEnv):
        def __init__(self):
            super().__init__()
            os.chdir("/")

    monkeypatch.chdir(tmp_path)
    start_instead()
    assert train_seeds("dqn", Elsewhere, seeds="1..2", run_dir="all", num_actors=1).run_dir == tmp_path / "all"
    config = TrainConfig.default("dqn", "CartPole-v1").override(scratch_dir="scratch")
    assert {one.replay.scratch_dir for one in seed_configs(config, (1, 2))} == {str(tmp_path / "scratch")}


@pytest.fixture
def start_instead(monkeypatch):
    """Has runs reach 100 times their seed without running; those of some seeds fail, or cannot begin."""

    def replace(failing=(), unfit=()):
        def start(config, *, ready, callbacks=()):
            seed = config.run.seed
            if seed in unfit:
                raise InvalidInput("unfit")
            ready(config, None)
            if seed in failing:
                raise failing[seed]
            counts = {"num_steps": 10, "num_updates": 5, "update_ratio": 0.5, "learning_s": 1.0}
            sizes = {"checkpoint_nbytes": 1, "replay_nbytes": 0}
            return Result(run_dir=Path(config.run.run_dir), returns=(100.0 * seed,), **counts, **sizes)

        monkeypatch.setattr(seeds_module, "start", start)

    return replace


@pytest.mark.parametrize("reader_leaves_at", [1, 2])
def test_a_reader_who_goes_away_ends_all_seeds_and_is_no_failure_of_theirs(start_instead, tmp_path, reader_leaves_at):
    start_instead({})
    config = TrainConfig.default("dqn", "CartPole-v1").override(run_dir=str(tmp_path))
    told = []

    def began(config, interface):
        told.append(config.run.seed)
        if len(told) == reader_leaves_at:
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        list(run_seeds(seed_configs(config, (7, 8, 9)), began=began))
    assert told == [7, 8][:reader_leaves_at]


def test_a_seed_whose_run_fails_does_not_lose_the_others(start_instead, tmp_path, capsys):
    failing = {2: RunError("the learner was killed"), 4: RuntimeError("the pole broke")}
    start_instead(failing, unfit=[5])
    found = train_seeds("dqn", "CartPole-v1", seeds="1..5", run_dir=str(tmp_path))
    assert list(found.results) == [1, 3]
    assert found.failures[2] is failing[2]
    assert found.failures[4] is failing[4]
    assert isinstance(found.failures[5], InvalidInput)
    assert found.mean_return == 200.0
    assert found.interquartile_mean == (200.0, 100.0, 300.0)
    assert main(["train", "dqn", "CartPole-v1", "--seeds", "1..5", "--run-dir", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert "seed 3 (3 of 5): " in out
    assert [line.split()[:2] for line in out.splitlines()[-6:-1]] == [
        ["1", "100.0"], ["2", "failed"], ["3", "300.0"], ["4", "failed"], ["5", "failed"],
    ]  # fmt: skip
    summed_up = "mean return 200.0, interquartile mean 200.0 (95% interval over seeds 100.0..300.0) of 2 seeds"
    assert out.splitlines()[-1] == summed_up
    assert "seed 2 failed: the learner was killed" in err
    assert "seed 4 failed: RuntimeError: the pole broke" in err
    assert err.count("Traceback") == 1, "of what nobody raised on purpose"


def test_a_first_run_that_cannot_begin_is_a_mistake_and_not_a_failure(start_instead, tmp_path, capsys):
    start_instead(unfit=[1])
    with pytest.raises(InvalidInput, match="unfit"):
        train_seeds("dqn", "CartPole-v1", seeds="1..2", run_dir=str(tmp_path))
    assert main(["train", "dqn", "CartPole-v1", "--seeds", "1..2", "--run-dir", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "drivetrain: error: unfit\n"


def test_seeds_that_all_fail_are_one_error(start_instead, tmp_path, capsys):
    start_instead({1: RunError("one"), 2: RunError("two")})
    with pytest.raises(RunError, match=r"no seed finished.*the first: one"):
        train_seeds("dqn", "CartPole-v1", seeds="1..2", run_dir=str(tmp_path))
    assert main(["train", "dqn", "CartPole-v1", "--seeds", "1..2", "--run-dir", str(tmp_path)]) == 1
    assert "mean return" not in capsys.readouterr().out


@pytest.mark.whole
def test_ctrl_c_ends_the_run_that_is_going_on_and_begins_no_other(start):
    run = start(*ENDLESS, "--seeds", "1..3")
    run.wait_until(lambda: '"checkpoint_s"' in read(run.run_dir / "seed-1" / "metrics.jsonl"))
    run.process.send_signal(signal.SIGINT)
    code, out, err = run.end()
    assert code == 130, err
    assert "Traceback" not in err
    assert [path.name for path in run.run_dir.iterdir()] == ["seed-1"]
    assert out.splitlines()[-1].startswith("seed 1 (1 of 3): ")
    assert load_checkpoint(run.run_dir / "seed-1")[1]["num_steps"] > 0
