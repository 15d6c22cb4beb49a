"""What counts as time that a process is at its environments: what they take, and neither compilers nor disks."""

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

from drivetrain.train.actor.actor import make_actor
from drivetrain.train.config import TrainConfig
from drivetrain.train.policies.policy import first_published
from drivetrain.train.processes.roles import actor as acting
from drivetrain.train.processes.roles import evaluator as evaluating
from drivetrain.train.runs.requirements import describe

SMALL = {"hidden": (4,), "num_actors": 1, "envs_per_actor": 2, "warmup_steps": 50, "batch_size": 8}


class Notes:
    """A ledger of a run that stops, a writer, and what is made of environments: who is told what, in order."""

    rules, stopping = None, True

    def __init__(self):
        self.events = []

    def note_work(self, index):
        self.events.append("work")

    def note_rest(self, index):
        self.events.append("rest")

    def add(self, **step):
        self.events.append("write")

    def made(self, *given, **named):
        self.events.append("made")
        return SimpleNamespace(moments=None, close=lambda: self.events.append("closed"))


@pytest.mark.parametrize(("env", "works"), [("CartPole-v1", 2), ("drivetrain/CartPole-v1", 1)])
def test_what_an_actor_writes_is_no_time_of_its_environments(env, works):
    config = TrainConfig.default("dqn", env).override(**SMALL).resolved()
    interface, notes = describe(config), Notes()
    told = {"beat": lambda: notes.note_work(0), "rest": lambda: notes.note_rest(0)}
    where = {"index": 0, "path": (0, 0), "episodes": None, "num_steps": 0, "encoders": None}
    vector = first_published(config, interface, np.random.default_rng(0))
    actor = make_actor(config, interface, vector, lambda count, hindsight=None: notes, **where, **told)
    if works == 1:
        assert notes.events == [], "a kernel that is compiled is no environment"
    notes.events.clear()
    actor.step(2, 0)
    assert notes.events[: works + 2] == ["work"] * works + ["rest", "write"]
    actor.close()


@pytest.mark.parametrize(("role", "makes"), [(acting, "make_actor"), (evaluating, "Selection")])
def test_a_process_is_at_no_environment_before_that_says_so(monkeypatch, role, makes):
    notes = Notes()
    config = TrainConfig.default("dqn", "CartPole-v1").override(**SMALL).resolved()
    monkeypatch.setattr(role.Ledger, "attach", lambda *_: notes)
    monkeypatch.setattr(role, "attach_weights", lambda _: SimpleNamespace(vector=None))
    monkeypatch.setattr(role, makes, notes.made)
    assigned = {"config": config, "ledger": None, "rules": None, "interface": None, "run_dir": None, "index": 0}
    if role is evaluating:
        monkeypatch.setattr(role, "has_best_policy", lambda _: True)
        role.run(SimpleNamespace(**assigned, evaluated=None), None)
    else:
        monkeypatch.setattr(role, "attach_gathered", lambda _: None)
        told = {"origin": SimpleNamespace(encoder_frozen=False, num_steps=0), "stream_path": (0, 0), "episodes": None}
        role._assigned_actor(SimpleNamespace(**assigned, **told), notes, SimpleNamespace(vector=None), None)
    assert notes.events[0] == "made"
