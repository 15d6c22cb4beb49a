"""How runs begin: when the first checkpoint comes, and what one leaves that cannot begin."""

import math

import pytest

pytest.importorskip("jax", reason="needs the train extra")

from gymnasium.envs.classic_control import CartPoleEnv

from drivetrain.core.errors import InvalidInput, RunError
from drivetrain.replay import Replay
from drivetrain.train import train
from drivetrain.train.telemetry.progress import Display

SMALL = {"num_actors": 0, "total_steps": 400, "envs_per_actor": 3, "warmup_steps": 200, "hidden": (16,)}


@pytest.mark.parametrize(
    "fails_at", ["the making of the third", "the first reset of the second", "the evaluator's making"]
)
def test_a_run_that_cannot_begin_leaves_no_environment_no_replay_and_no_bar(tmp_path, monkeypatch, fails_at):
    made, closed, left = [], [], []

    class Failing(CartPoleEnv):
        def __init__(self):
            super().__init__()
            if len(made) == {"the making of the third": 3, "the evaluator's making": 4}.get(fails_at):
                raise FileNotFoundError("level.bin")
            made.append(self)

        def reset(self, **options):
            if fails_at.startswith("the first reset") and self is made[2]:
                raise FileNotFoundError("level.bin")
            return super().reset(**options)

        def close(self):
            closed.append(self)

    for kind in (Replay, Display):
        close = kind.close
        monkeypatch.setattr(kind, "close", lambda self, close=close: (left.append(type(self)), close(self)))
    with pytest.raises((RunError, InvalidInput), match=r"level\.bin"):
        train("dqn", Failing, run_dir=str(tmp_path / "run"), **SMALL)
    assert len(made) == {"the making of the third": 3}.get(fails_at, 4)  # one that its spaces were read from
    assert {id(env) for env in closed} == {id(env) for env in made}
    assert left == [Replay, Display]


@pytest.mark.whole
def test_the_first_checkpoint_comes_with_the_end_of_the_warm_up_if_there_never_is_another(tmp_path):
    saved = []

    def note(event):
        if event.kind == "checkpoint":
            saved.append(event.num_steps)

    settings = {**SMALL, "checkpoint_interval_s": math.inf, "capacity": 1_000}
    train("dqn", "CartPole-v1", run_dir=str(tmp_path), callbacks=[note], **settings)
    assert len(saved) == 2
    assert 200 <= saved[0] < 300
    assert saved[1] == 400
