"""Simulators and frameworks of others are found, each told from what is around it."""

import re
import shutil
import zipfile

import pytest
from programs import entered, profiled, profiled_text

from drivetrain import scope
from drivetrain.cli.main import main


def times(folder):
    return {(row.operation, row.time_class): row.raw_ns for row in scope.load(folder).breakdown()}


@pytest.mark.whole
def test_the_arcade_learning_environment_is_recorded_without_gymnasium(folder):
    pytest.importorskip("ale_py", reason='needs ALE: pip install "drivetrain[atari]"')
    text = """
import inspect
import ale_py
from ale_py.roms import get_rom_path

assert not inspect.isbuiltin(ale_py.ALEInterface.act) and inspect.isroutine(ale_py.ALEInterface.act)
assert "act" in ale_py.ALEInterface.act.__name__
ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
ale = ale_py.ALEInterface()
ale.loadROM(get_rom_path("pong"))
ale.reset_game()
total = sum(ale.act(ale_py.Action.FIRE) for _ in range(30))
assert isinstance(total, (int, float)) and ale.getFrameNumber() > 0
try:
    ale.act()
except TypeError:
    pass
else:
    raise AssertionError("an action is missing")
"""
    profiled_text(folder, text)
    counts = entered(folder)
    assert counts["ALEInterface.act"] == 31
    assert counts["ALEInterface.reset_game"] >= 1
    assert times(folder)["simulation", "simulator"] > 0
    assert scope.load(folder).num_steps() == 31
    assert scope.load(folder).transitions()["simulation"]["simulator"] >= 32
    assert not scope.load(folder).trace.notes


def test_simulators_that_the_command_line_names_are_recorded_in_whatever_they_are_made(folder, tmp_path):
    (tmp_path / "physics.py").write_text(
        """
import ctypes
import math

lib = ctypes.CDLL(None)
lib.labs.argtypes, lib.labs.restype = [ctypes.c_long], ctypes.c_long
fast = math.hypot


def advance(state):
    "One step."
    return state + 1


class World:
    def step(self, action, *, scale=1):
        return action * scale

    @staticmethod
    def reset(seed):
        return seed

    distance = math.hypot  # no method: a builtin does not bind
"""
    )
    script = tmp_path / "play.py"
    script.write_text(
        """
import inspect, pickle
import physics

world = physics.World()
for _ in range(5):
    assert physics.advance(1) == 2
    assert world.step(2, scale=3) == 6
    assert physics.World.reset(7) == world.reset(7) == 7
    assert physics.fast(3, 4) == world.distance(3, 4) == 5.0
    assert physics.lib.labs(-3) == 3
assert physics.lib.labs.argtypes and physics.advance.__doc__ == "One step."
assert str(inspect.signature(world.step)) == "(action, *, scale=1)"
assert pickle.loads(pickle.dumps(physics.advance)) is physics.advance
"""
    )
    paths = ["advance", "fast", "World.step", "World.reset", "World.distance", "lib.labs"]
    options = [word for path in paths for word in ("--simulator", f"physics:{path}")]
    profiled(folder, "--calibrate-every", 0, *options, script)
    counts = entered(folder)
    assert {path: counts[f"physics.{path}"] for path in paths} == {
        path: 10 if path == "World.reset" else 5 for path in paths
    }
    assert times(folder)["simulation", "simulator"] > 0
    assert scope.load(folder).num_steps() == 35


def test_a_simulator_in_a_zip_file_is_recorded_and_the_modules_beside_it_are_left_alone(folder, tmp_path):
    program = tmp_path / "app.pyz"
    with zipfile.ZipFile(program, "w") as file:  # one loader for all of them
        file.writestr("sim.py", "def step():\n    return 1")
        file.writestr("beside.py", "def step():\n    return 2")
        text = "import sim, beside, importlib\nassert sim.step() + beside.step() + importlib.reload(sim).step() == 4"
        file.writestr("__main__.py", text)
    profiled(folder, "--simulator", "sim:step", program)
    assert not scope.load(folder).trace.notes
    assert entered(folder)["sim.step"] == 2


IN_FRONT = """
import importlib.machinery, sys

class First(importlib.machinery.PathFinder):  # as of import hooks that check types
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return super().find_spec(name, path, target) if name == "sim" else None

sys.meta_path.insert(0, First)
sys.modules["torch"] = None  # is not to be imported
import sim
assert sim.step() == 1
"""


def test_a_module_that_a_finder_of_the_programs_own_has_is_noted_as_that_and_not_as_never_imported(folder, tmp_path):
    (tmp_path / "sim.py").write_text("def step():\n    return 1")
    script = tmp_path / "play.py"
    script.write_text(IN_FRONT)
    profiled(folder, "--simulator", "sim:step", script)
    (note,) = scope.load(folder).trace.notes
    assert re.fullmatch(r"Process \d+: sim was not hooked: it was imported past the recording, .*", note)


def test_another_name_of_a_module_that_was_hooked_is_no_module_that_was_missed(folder):
    """Tianshou keeps `tianshou.data.buffer.base` so."""
    profiled_text(folder, 'import sys, threading\nsys.modules["envpool.python.envpool"] = threading')
    assert not scope.load(folder).trace.notes


LOADERS = """
import importlib.machinery, sys

class Loader:
    __slots__ = ()

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        module.step = lambda: 1

class Finder:
    def find_spec(self, name, path, target=None):
        return importlib.machinery.ModuleSpec(name, Loader()) if name == "made" else None

sys.meta_path.append(Finder())
import made
assert made.step() == 1
"""


def test_a_module_whose_loader_cannot_be_changed_is_imported_as_ever_and_named(folder):
    script = folder.with_suffix(".py")
    script.write_text(LOADERS)
    profiled(folder, "--simulator", "made:step", script)
    (note,) = scope.load(folder).trace.notes
    assert re.fullmatch(r"Process \d+: made was not hooked: AttributeError: .*exec_module.*", note)


@pytest.mark.parametrize(
    "text",
    [
        "def step(): return 1\n__name__ = 'of.another.name'",
        "import sys, types\nother = sys.modules[__name__] = types.ModuleType('other')\nother.step = lambda: 1",
    ],
)
def test_a_simulator_of_a_module_that_calls_itself_otherwise_or_puts_another_in_its_place_is_found(
    folder, tmp_path, text
):
    (tmp_path / "sim.py").write_text(text)
    script = tmp_path / "play.py"
    script.write_text("import sim\nassert sim.step() == 1")
    profiled(folder, "--simulator", "sim:step", script)
    assert not scope.load(folder).trace.notes
    assert entered(folder)["sim.step"] == 1


def test_a_simulator_whose_module_nobody_imports_is_noted(folder, tmp_path):
    script = tmp_path / "play.py"
    script.write_text("import json")
    options = ["--simulator", "phisics:step", "--simulator", "phisics:World.step", "--simulator", "json:dumps"]
    done = profiled(folder, *options, script)
    assert scope.load(folder).trace.notes == ("--simulator phisics:step: no process has imported phisics",)
    assert b"no process has imported phisics" in done.stderr


@pytest.mark.parametrize("name", ["World.step", "advance", "Wall.step"])
def test_a_name_that_leads_nowhere_is_noted_as_that(folder, tmp_path, name):
    (tmp_path / "physics.py").write_text("class World: pass")
    script = tmp_path / "play.py"
    script.write_text("import physics\nprint('ran')")
    assert profiled(folder, "--simulator", f"physics:{name}", script).stdout == b"ran\n"
    (note,) = scope.load(folder).trace.notes
    assert re.fullmatch(rf"Process \d+: --simulator physics:{name}: module physics has no '{name}'", note)


def test_names_of_what_is_not_called_for_each_step_are_noted_and_left_alone(folder, tmp_path):
    later = "a generator or coroutine, which runs after its call; name what it calls for each step"
    told = {
        "bodies:World": ("class World: pass", "a class; name one of its methods, as bodies:World.step"),
        "facts:gravity": ("gravity = 9.81", "an object of class float"),
        "flows:states": ("def states(): yield 1", later),
        "remote:receive": ("async def receive(): pass", later),
    }
    modules = [name.partition(":")[0] for name in told]
    for module, (text, _) in zip(modules, told.values(), strict=True):
        (tmp_path / f"{module}.py").write_text(text)
    script = tmp_path / "play.py"
    script.write_text(f"import {', '.join(modules)}\nclass Mine(bodies.World): pass\nprint('ran')")
    options = [word for name in told for word in ("--simulator", name)]
    assert profiled(folder, *options, script).stdout == b"ran\n"
    said = [note.partition(": --simulator ")[2] for note in scope.load(folder).trace.notes]
    wanted = "expected a function or a method of instances, got"
    assert said == [f"{name}: {wanted} {what}" for name, (_, what) in told.items()]


def test_a_name_that_is_refused_keeps_none_of_the_same_module_from_being_recorded(folder, tmp_path):
    text = "class World:\n    @classmethod\n    def reset(cls): pass\ndef advance(): pass\ngravity = 9.81\n"
    (tmp_path / "physics.py").write_text(text)
    script = tmp_path / "play.py"
    script.write_text("import physics\nphysics.advance()")
    names = ["World.reset", "gravity", "nowhere", "advance"]
    profiled(folder, *(word for name in names for word in ("--simulator", f"physics:{name}")), script)
    assert entered(folder)["physics.advance"] == 1
    (note,) = scope.load(folder).trace.notes
    wanted = "expected a function or a method of instances, got"
    assert note.partition(": ")[2].split("; ") == [
        f"--simulator physics:World.reset: {wanted} a classmethod",
        f"--simulator physics:gravity: {wanted} an object of class float",
        "--simulator physics:nowhere: module physics has no 'nowhere'",
    ]


def test_a_name_of_no_simulator_is_refused(tmp_path, capsys):
    script = tmp_path / "play.py"
    script.touch()
    for name in ("physics", "physics:", ":step", "__main__:step", "physics:a-b"):
        assert main(["profile", "--simulator", name, str(script)]) == 2
        assert "--simulator: expected MODULE:FUNCTION" in capsys.readouterr().err
    assert main(["profile", "--simulator"]) == 2


@pytest.mark.release
@pytest.mark.torch
def test_tianshou_is_told_apart_also_with_environments_in_subprocesses(folder):
    pytest.importorskip("tianshou", reason='needs Tianshou: pip install "drivetrain[bench]"')
    text = """
import gymnasium, torch
from tianshou.algorithm import DQN
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, CollectStats, PrioritizedVectorReplayBuffer
from tianshou.env import DummyVectorEnv, SubprocVectorEnv
from tianshou.trainer import OffPolicyTrainerParams
from tianshou.utils.net.common import Net

def make():
    return gymnasium.make("CartPole-v1")

if __name__ == "__main__":
    torch.set_num_threads(1)
    training, test = SubprocVectorEnv([make] * 2), DummyVectorEnv([make])
    training.seed(0), test.seed(0)
    net = Net(state_shape=(4,), action_shape=2, hidden_sizes=[16])
    policy = DiscreteQLearningPolicy(model=net, action_space=make().action_space, eps_training=0.1)
    algorithm = DQN(policy=policy, optim=AdamOptimizerFactory(lr=1e-3), gamma=0.9, target_update_freq=10)
    buffer = PrioritizedVectorReplayBuffer(200, buffer_num=2, alpha=0.6, beta=0.4)
    collector = Collector[CollectStats](algorithm, training, buffer, exploration_noise=True)
    algorithm.run_training(OffPolicyTrainerParams(
        training_collector=collector, test_collector=Collector[CollectStats](algorithm, test), max_epochs=1,
        epoch_num_steps=40, collection_step_num_env_steps=10, update_step_num_gradient_steps_per_sample=0.5,
        batch_size=8, test_step_num_episodes=1))
    training.close()
"""
    profiled_text(folder, text)
    profile = scope.load(folder)
    assert not profile.trace.notes
    counts = entered(folder)
    assert counts["OffPolicyAlgorithm.update"] == counts["Adam.step"] >= 20
    assert counts["Tianshou buffer"] >= 40
    assert profile.num_steps() == counts["Tianshou vector step"] >= 20
    assert counts["CartPoleEnv.step"] >= 40
    found = times(folder)
    assert found.keys() >= {
        ("simulation", "python"),
        ("simulation", "simulator"),
        ("inference", "backend"),
        ("replay", "python"),
        ("backpropagation", "backend"),
        ("optimizer", "backend"),
    }
    simulated = {row.process for row in profile.breakdown() if row.time_class == "simulator"}
    assert len(simulated) >= 3, "two environments in subprocesses, one in the process itself"


@pytest.mark.torch
@pytest.mark.slow  # compiles against PyTorch's headers, the first time
def test_operators_of_pytorch_are_told_from_the_python_between_them(folder, tmp_path_factory, monkeypatch):
    pytest.importorskip("torch", reason='needs torch: pip install "drivetrain[torch]"')
    if shutil.which("ninja") is None or shutil.which("c++") is None:
        pytest.skip("needs a C++ compiler and Ninja")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    script = folder.with_suffix(".py")
    script.write_text("""
import time, torch
torch.set_num_threads(1)

class Slow(torch.nn.Module):
    def forward(self, x):
        end = time.perf_counter() + 0.01
        while time.perf_counter() < end:  # Python between operators
            pass
        return torch.relu(x) + 1

net, x = Slow(), torch.ones(3)
for _ in range(10):
    net(x)
torch.ones(3) * 2  # outside modules, too
try:
    torch.ones(3) @ torch.ones(4)
except RuntimeError:
    pass
assert torch.equal(torch.jit.script(torch.nn.ReLU())(x), x)
""")
    profiled(folder, "--torch-operators", script)
    assert not scope.load(folder).trace.notes
    found = times(folder)
    assert found["inference", "python"] > 0.09e9
    assert 0 < found["inference", "backend"] < found["inference", "python"]
    assert found["other", "backend"] > 0
    assert entered(folder)["torch operator"] >= 24
    assert scope.load(folder).transitions()["inference"]["backend"] >= 20
