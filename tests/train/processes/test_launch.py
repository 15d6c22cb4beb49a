"""A process of a run that cannot be begun leaves nothing behind, and one that ends says why."""

import os
import shutil
import signal
import subprocess
from types import SimpleNamespace

import pytest

pytest.importorskip("jax", reason="needs the train extra")

from whole_run import FLAGS

from drivetrain.core.errors import RunError
from drivetrain.train.processes.launch import Child, kill_all

ASSIGNED = {"role": "actor", "index": 0, "config": None}


class Gone:
    def begin(self, *told, **how):
        raise RunError("the process that begins the others was killed by SIGTERM")


class Ended:
    """Begins processes that write a text and end with an exit code."""

    def __init__(self, words, code):
        self._words, self._code = words, code

    def begin(self, *told, stdout, **how):
        stdout.write(self._words)
        return SimpleNamespace(wait=lambda: self._code, how_ended=lambda: f"ended with exit code {self._code}")


class Kept:
    """Begins processes that the kernel keeps, though they are killed."""

    pid = 2**22 + 1  # which none has

    def begin(self, *told, **how):
        return self

    def kill(self):
        pass

    def poll(self):
        return None

    def wait(self, timeout=None):
        assert timeout is not None, "it would be waited for as long as that takes"
        raise subprocess.TimeoutExpired("", timeout)


def test_a_child_that_the_kernel_keeps_counts_as_ended_once_it_is_killed(tmp_path):
    (tmp_path / "logs").mkdir()
    children = [Child(Kept(), SimpleNamespace(**ASSIGNED, run_dir=tmp_path)) for _ in range(2)]
    assert [child.exit_code() for child in children] == [None, None]
    children[0].kill("it hangs")
    assert children[0].exit_code() == -signal.SIGKILL
    told = rf"was ended: it hangs; process {Kept.pid} is there until the kernel has what it waits for"
    assert children[0].describe_end().startswith(told)
    kill_all(children)
    assert children[1].exit_code() == -signal.SIGKILL
    for child in children:
        child.inbox.close()


class Noting(Ended):
    """Notes the variables of a process that says nothing."""

    def __init__(self):
        super().__init__(b"", 0)

    def begin(self, *told, environment, **how):
        self.variables = environment
        return super().begin(*told, **how)


@pytest.mark.parametrize("role", ["actor", "evaluator", "learner"])
@pytest.mark.parametrize("asked", ["", "cuda,cpu"])
def test_jax_finds_gpus_where_a_run_learns_and_nowhere_else_unless_the_caller_says_so(
    role, asked, tmp_path, monkeypatch
):
    monkeypatch.setenv("JAX_PLATFORMS", asked)
    monkeypatch.delenv("XLA_PYTHON_CLIENT_PREALLOCATE", raising=False)
    (tmp_path / "logs").mkdir()
    server, config = Noting(), SimpleNamespace(num_learners=1)
    Child(server, SimpleNamespace(role=role, index=0, run_dir=tmp_path, config=config)).inbox.close()
    told = {name: value for name, value in server.variables.items() if name.startswith(("JAX", "XLA_PYTHON"))}
    others = {"JAX_PLATFORMS": asked or "cpu", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    assert told == ({} if role == "learner" else others)  # it has the variables of this process


def test_a_child_that_cannot_be_begun_leaves_no_pipe_open(tmp_path):
    (tmp_path / "logs").mkdir()
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(RunError, match="killed by SIGTERM"):
        Child(Gone(), SimpleNamespace(**ASSIGNED, run_dir=tmp_path))
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    ("words", "code", "reason", "told"),
    [
        (b"OSError: of a helper\nclosing\n", 1, "RuntimeError: joint 3 broke", "1: RuntimeError: joint 3 broke"),
        (b"loading\nF0000 Check failed: it.ok()\n\n", 6, "", "6: F0000 Check failed: it.ok()"),
        (b"", 3, "", "3"),
        (b"well\n", 0, "", "0: it left in the midst of its work"),
    ],
)
def test_how_a_process_ended_is_what_it_reports_of_that_or_the_last_that_it_wrote(tmp_path, words, code, reason, told):
    (tmp_path / "logs").mkdir()
    child = Child(Ended(words, code), SimpleNamespace(**ASSIGNED, run_dir=tmp_path))
    child.inbox.close()
    child.reason = reason
    assert child.describe_end() == f"ended with exit code {told}"


def test_logs_that_somebody_removes_are_begun_anew_and_what_takes_their_place_is_named(tmp_path):
    assigned = SimpleNamespace(**ASSIGNED, run_dir=tmp_path)
    for _ in range(2):
        child = Child(Ended(b"the pole broke\n", 1), assigned)
        child.inbox.close()
        assert child.last_words() == "the pole broke"
        shutil.rmtree(tmp_path / "logs")
        assert child.last_words() == ""
        assert child.describe_end() == "ended with exit code 1"
    (tmp_path / "logs").touch()
    with pytest.raises(RunError, match=r"logs/actor-0.log: cannot be written: .*xist"):
        Child(Ended(b"", 1), assigned)


BREAKS_IN_THE_LEARNER = """
import sys
import jax, optax

def sgd(learning_rate):
    def update(gradients, state, params=None):
        if "drivetrain.train.processes.roles.learner" in sys.modules:
            raise ValueError("joint 3 broke")
        return jax.tree.map(lambda slope: -learning_rate * slope, gradients), state
    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)
"""


@pytest.mark.release
def test_the_reason_of_a_learners_end_is_its_exception_and_not_what_jax_adds_to_that(start, monkeypatch, tmp_path):
    (tmp_path / "steps.py").write_text(BREAKS_IN_THE_LEARNER)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    code, _, err = start(*FLAGS, "--optimizer", "steps:sgd").end()
    assert code == 1
    assert "the learner ended with exit code 1: ValueError: joint 3 broke" in err
    assert "JAX has removed" not in err
