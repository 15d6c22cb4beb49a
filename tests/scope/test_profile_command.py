"""`drivetrain profile` runs programs as Python would, and follows their processes."""

import importlib.metadata
import os
import signal

import pytest
from programs import entered, profiled, profiled_text

from drivetrain import scope
from drivetrain.cli.main import main


@pytest.mark.whole
def test_a_script_sees_what_python_would_show_it_and_its_exit_code_is_ours(folder, tmp_path):
    (tmp_path / "beside.py").write_text("name = 'beside'")
    text = """
import argparse, beside, os, sys
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("-o")
print(__name__, beside.name, os.path.basename(sys.argv[0]), parser.parse_args(), sys.stdin.read())
sys.exit(7)
"""
    done = profiled_text(folder, text, check=False, stdin=b"input")
    assert done.returncode == 7
    assert done.stdout.decode().splitlines()[0] == "__main__ beside run.py Namespace(lr=None, o=None) input"
    assert scope.load(folder).trace.about["exit_code"] == 7
    again = profiled(tmp_path / "two", folder.with_suffix(".py"), "--lr", "0.1", "-o", "x", check=False)
    assert b"Namespace(lr=0.1, o='x')" in again.stdout


def test_a_program_has_the_descriptors_that_it_would_inherit_and_none_of_ours(folder):
    here, there = os.pipe()
    os.write(there, b"passed on")
    os.close(there)
    text = f"""
import contextlib, os
inherited = []
for descriptor in range(256):
    with contextlib.suppress(OSError):  # it is not open
        if os.get_inheritable(descriptor):
            inherited.append(descriptor)
assert inherited == [0, 1, 2, {here}], inherited
print(open("/dev/fd/{here}").read())
"""
    with open(here, "rb"):
        assert profiled_text(folder, text, pass_fds=[here]).stdout == b"passed on\n"


def test_a_program_that_takes_the_recording_away_ends_as_it_would_have(folder):
    done = profiled_text(folder, f"import shutil, sys; shutil.rmtree({str(folder)!r}); sys.exit(5)", check=False)
    assert done.returncode == 5
    assert b"Traceback" not in done.stderr


def test_a_module_runs_with_relative_imports_and_the_command_for_its_report_can_be_copied(tmp_path):
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "near.py").write_text("value = 3")
    (package / "__main__.py").write_text("from .near import value\nprint(__package__, value)")
    folder = tmp_path / "my runs" / ("of a long name" * 10)
    done = profiled(folder, "-m", "pack", cwd=tmp_path)
    assert done.stdout == b"pack 3\n"
    last = done.stderr.decode().splitlines()[-1]
    assert last == f"profile: {folder}; show it again: drivetrain report '{folder}'"


def test_an_uncaught_exception_is_shown_as_ever_and_the_profile_is_readable(folder):
    done = profiled_text(folder, "def f():\n    return 1 / 0\nf()\n", check=False)
    assert done.returncode == 1
    lines = done.stderr.decode().splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert "ZeroDivisionError: division by zero" in lines
    assert sum(row.raw_ns for row in scope.load(folder).breakdown()) == scope.load(folder).wall_ns


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL])
def test_a_program_that_a_signal_ends_ends_us_by_the_same(folder, signum):
    done = profiled_text(folder, f"import os\nos.kill(os.getpid(), {int(signum)})", check=False)
    assert done.returncode == -signum
    assert scope.load(folder).trace.num_events > 0


@pytest.fixture
def customized(tmp_path):
    """A sitecustomize of the user's, in a folder of its own, that says as `customized` where it lies."""
    place = tmp_path / "site"
    place.mkdir()
    (place / "sitecustomize.py").write_text("import builtins\nbuiltins.customized = __file__")
    return place / "sitecustomize.py"


def test_the_sitecustomize_of_the_user_runs_too(folder, customized):
    done = profiled_text(folder, "print(customized)", python_path=[customized.parent])
    assert done.stdout.decode().strip() == str(customized)


def test_children_that_are_given_our_path_are_followed_where_there_is_another_sitecustomize(folder, customized):
    text = """
import os, subprocess, sys
environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
subprocess.run([sys.executable, "-c", "print(customized)"], env=environment, check=True)
"""
    done = profiled_text(folder, text, python_path=[customized.parent])
    assert done.stdout.decode().strip() == str(customized)
    assert len(scope.load(folder).trace.processes) == 2


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_of_multiprocessing_are_followed_to_their_end(folder, method):
    text = f"""
import multiprocessing as mp
from drivetrain import scope

def work(pipe):
    with scope.operation("in the child"):
        pipe.send(1)

if __name__ == "__main__":
    context = mp.get_context({method!r})
    here, there = context.Pipe()
    child = context.Process(target=work, args=(there,))
    child.start()
    assert here.recv() == 1
    child.join()
    assert child.exitcode == 0
"""
    profiled_text(folder, text)
    assert entered(folder)["in the child"] == 1
    assert entered(folder)["Connection.recv"] >= 1
    profile = scope.load(folder)
    waited = [row for row in profile.breakdown() if row.time_class == "wait"]
    assert waited
    assert any(thread.num_events > 0 and thread.process > 0 for thread in profile.trace.threads)


def test_a_subprocess_that_cannot_record_runs_on_and_is_named(folder, tmp_path):
    other = tmp_path / "other" / "drivetrain"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("raise ImportError('an installation of another kind')")
    text = f"""
import os, subprocess, sys
path = os.pathsep.join([os.environ["PYTHONPATH"].split(os.pathsep)[0], {str(other.parent)!r}])
subprocess.run([sys.executable, "-c", "print('ran')"], env={{**os.environ, "PYTHONPATH": path}}, check=True)
"""
    assert profiled_text(folder, text).stdout == b"ran\n"
    (note,) = scope.load(folder).trace.notes
    assert "was not captured: ImportError: an installation of another kind" in note


def test_no_framework_is_imported_that_the_program_does_not_import(folder):
    done = profiled_text(folder, "import sys\nprint({'jax', 'torch', 'gymnasium', 'numpy'} & set(sys.modules))")
    assert done.stdout.decode().strip() == "set()"


def test_simulators_are_told_from_wrappers_and_steps_are_counted(folder):
    pytest.importorskip("gymnasium")
    text = """
import inspect, pickle, weakref
import gymnasium

class Mine(gymnasium.Env):
    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        return 0, {}
    def step(self, action):
        return 0, 0.0, False, False, {}

for env in (gymnasium.make("CartPole-v1"), Mine()):
    env.reset(seed=0)
    for _ in range(50):
        _, _, terminated, truncated, _ = env.step(0)
        if terminated or truncated:
            env.reset()
assert inspect.signature(Mine.step) == inspect.Signature([inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    for n in ("self", "action")])
assert weakref.ref(Mine.step)() is Mine.step
venv = gymnasium.make_vec("CartPole-v1", num_envs=3, vectorization_mode="sync")
venv.reset(seed=0)
for step in range(10):
    venv.step([step % 2] * 3)  # an episode lasts longer than that: a reset would be a step less
apart = gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="async", vector_kwargs={"context": "fork"})
apart.reset(seed=0)
for step in range(10):
    apart.step([step % 2] * 2)
apart.close()
"""
    profiled_text(folder, text)
    counts = entered(folder)
    assert counts["Mine.step"] == 50
    assert counts["CartPoleEnv.step"] == 50 + 30 + 20
    profile = scope.load(folder)
    assert profile.num_steps() == profile.num_recorded_steps() == 120, "a step of three, or of two, is one"
    rows = {(row.operation, row.time_class) for row in profile.breakdown()}
    assert {("simulation", "simulator"), ("simulation", "python"), ("other", "python")} <= rows
    assert profile.transitions()["simulation"]["simulator"] >= 130


@pytest.mark.release
def test_jitted_functions_and_waiting_are_recorded_and_unchanged(folder):
    pytest.importorskip("jax")
    text = """
import functools
import jax, jax.numpy as jnp
from drivetrain import scope

@jax.jit
def double(x):
    return 2 * x

@functools.partial(jax.jit, static_argnames="n")
def power(x, n):
    return double(x) ** n

with scope.operation("inference"):
    for _ in range(5):
        y = jax.block_until_ready(power(jnp.ones(3), n=2))
assert y.tolist() == [4.0, 4.0, 4.0]
assert double.__name__ == "double" and "mul" in double.lower(1.0).as_text()
assert jax.grad(lambda x: power(x, n=2))(1.0) == 8.0

@jax.jit
def step(total, x):
    return total + double(x), None

assert jax.lax.scan(step, 0.0, jnp.ones(3))[0] == 6.0  # JAX keeps weak references to what it traces
assert jax.vmap(double)(jnp.ones(3)).tolist() == [2.0, 2.0, 2.0]
"""
    profiled_text(folder, text)
    counts = {name.split(",")[0]: number for name, number in entered(folder).items()}
    assert counts["jit power"] == 6
    assert counts["jax.block_until_ready"] == 5
    rows = {(row.operation, row.time_class) for row in scope.load(folder).breakdown()}
    assert {("inference", "backend"), ("inference", "accelerator_sync")} <= rows


@pytest.mark.whole
def test_a_training_run_of_ours_is_followed_into_its_processes_and_told_apart(folder, tmp_path):
    pytest.importorskip("jax")
    run_dir = tmp_path / "run"
    command = ["-m", "drivetrain.cli.main", "train", "dqn", "CartPole-v1", "--total-steps", "1500", "--num-actors", "1"]
    profiled(folder, *command, "--run-dir", run_dir)
    profile = scope.load(folder)
    assert len(profile.trace.processes) >= 4, "supervisor, actor, learner, evaluator"
    rows = {(row.operation, row.time_class) for row in profile.breakdown()}
    assert rows >= {
        ("simulation", "simulator"),
        ("inference", "backend"),
        ("replay", "backend"),
        ("backpropagation", "backend"),
    }
    assert profile.num_steps() >= 1500 / 8


@pytest.mark.release
@pytest.mark.torch
def test_a_hand_written_pytorch_loop_is_told_apart_without_annotations(folder):
    pytest.importorskip("torch", reason='needs torch: pip install "drivetrain[torch]"')
    text = """
import gymnasium, torch
torch.set_num_threads(1)
env = gymnasium.make("CartPole-v1")
net = torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
target = torch.nn.Linear(4, 2)
optimizer = torch.optim.Adam(net.parameters())
obs, _ = env.reset(seed=0)
for _ in range(20):
    with torch.no_grad():
        action = int(net(torch.as_tensor(obs)).argmax())
    obs, _, terminated, truncated, _ = env.step(action)
    if terminated or truncated:
        obs, _ = env.reset()
    batch = torch.ones(64, 4)
    with torch.no_grad():
        goal = target(batch)
    loss = (net(batch) - goal).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
scripted = torch.jit.script(net)
assert torch.equal(scripted(batch), net(batch))
"""
    profiled_text(folder, text)
    counts = entered(folder)
    assert counts["torch forward"] >= 61
    assert counts["Tensor.backward"] == counts["torch backward"] == counts["Adam.step"] == 20
    rows = {(row.operation, row.time_class): row.raw_ns for row in scope.load(folder).breakdown()}
    assert rows.keys() >= {("inference", "backend"), ("backpropagation", "backend"), ("optimizer", "backend")}


@pytest.mark.release
@pytest.mark.torch
def test_stable_baselines3_is_told_apart_also_with_environments_in_subprocesses(folder):
    pytest.importorskip("stable_baselines3", reason='needs SB3: pip install "drivetrain[bench]"')
    text = """
import torch
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import SubprocVecEnv
if __name__ == "__main__":
    torch.set_num_threads(1)
    DQN("MlpPolicy", "CartPole-v1", seed=0, learning_starts=50, device="cpu").learn(100)
    venv = make_vec_env("CartPole-v1", 2, seed=0, vec_env_cls=SubprocVecEnv)
    PPO("MlpPolicy", venv, seed=0, n_steps=32, n_epochs=1, device="cpu").learn(64)
    venv.close()
"""
    profiled_text(folder, text)
    profile = scope.load(folder)
    operations = {row.operation for row in profile.breakdown() if row.time_class != "idle"}
    assert operations >= {"simulation", "inference", "replay", "backpropagation", "optimizer", "other"}
    simulated = {row.process for row in profile.breakdown() if row.time_class == "simulator"}
    assert len(simulated) >= 3, "the environments of the subprocesses"
    counts = entered(folder)
    assert profile.num_steps() == counts["VecEnv.step"] == 100 + 32
    assert counts["DQN.train"] >= 1
    assert counts["PPO.train"] == 1


def test_what_cannot_be_run_is_one_line_and_leaves_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["profile", "absent.py"]) == 2
    assert main(["profile", "--fast", "absent.py"]) == 2
    assert main(["profile", "-m"]) == 2
    assert main(["profile", ""]) == 2
    assert main(["profile", "-o", "--gpu", "off", "program.py"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 5
    assert all(line.startswith("drivetrain: error: profile:") for line in lines)
    assert not list(tmp_path.iterdir())
    assert main(["profile", "-o", "", __file__]) == 2
    assert capsys.readouterr().err == "drivetrain: error: -o: expected a new folder, got ''\n"
    assert not list(tmp_path.iterdir())
    for number in ("9" * 5_000, "9e9"):
        assert main(["profile", "--calibrate-every", number, __file__]) == 2
    long, none = capsys.readouterr().err.splitlines()
    assert long.endswith("--calibrate-every: expected a number of blocks, got one of 5,000 digits")
    assert none.endswith("--calibrate-every: expected a number of blocks, got '9e9'")
    assert main(["profile", "--help"]) == 0
    assert capsys.readouterr().out.startswith("usage: drivetrain profile [OPTIONS] SCRIPT.py [ARGS...]")


def test_a_folder_that_lets_no_recording_be_made_is_one_line_with_the_remedy(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "profiles").write_text("")
    assert main(["profile", __file__]) == 2
    said = "profile: cannot make a folder in profiles: Not a directory; name another by -o DIR"
    assert capsys.readouterr().err == f"drivetrain: error: {said}\n"


def test_operators_of_a_pytorch_that_is_not_there_are_refused_with_the_extra_to_install(
    folder, tmp_path, monkeypatch, capsys
):
    def version(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    (script := tmp_path / "script.py").write_text("print(1)")
    assert main(["profile", "--torch-operators", "-o", str(folder), str(script)]) == 2
    said = 'this needs torch, which is not installed: pip install "drivetrain[torch]"'
    assert capsys.readouterr() == ("", f"drivetrain: error: --torch-operators: {said}\n")
    assert not folder.exists()
