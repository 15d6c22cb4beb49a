"""Classes of a script or notebook as environments: they stay what they are, and are known again."""

import pickle
import subprocess
import sys
import types

import pytest

pytest.importorskip("jax", reason="needs the train extra")

import cloudpickle
import gymnasium

from drivetrain.core.errors import InvalidInput
from drivetrain.train import train
from drivetrain.train.config import EnvironmentConfig, TrainConfig
from drivetrain.train.config.given import Given
from drivetrain.train.environments.making import make

NOTEBOOK = """
import gymnasium
from drivetrain.train import load_policy, train
from drivetrain.train.config import TrainConfig

class Pole(gymnasium.Wrapper):
    made, returns, level = 0, [], 1
    def __init__(self):
        Pole.made += 1
        super().__init__(gymnasium.make("CartPole-v1"))

returns = Pole.returns
settings = dict(total_steps=80, warmup_steps=60, batch_size=8, num_step=1, num_actors=0, hidden=(4,), eval_episodes=1,
                final_eval_episodes=1, time_report=False)
for env in (Pole, lambda: Pole()):
    config = TrainConfig.default("dqn", env).override(**settings)
    Pole.level = 2
    made = Pole.made
    for number in (1, 2):
        train("dqn", env, config=config, run_dir=f"{'class' if env is Pole else 'function'}{number}")
    assert Pole.made > made
load_policy("class1", env=Pole)
print(Pole.level, Pole.returns is returns)
"""


@pytest.mark.release
def test_a_class_of_a_script_stays_as_it_is_and_its_configuration_is_good_twice(tmp_path):
    done = subprocess.run([sys.executable, "-c", NOTEBOOK], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.endswith("2 True\n"), done.stderr


def test_a_class_of_a_script_travels_by_value_from_a_process_that_multiprocessing_has_spawned_too(monkeypatch):
    script = types.ModuleType("__mp_main__")  # as such a process has the script
    exec("import gymnasium\nclass Pole(gymnasium.Wrapper):\n    level = 3\n", script.__dict__)
    monkeypatch.setitem(sys.modules, "__mp_main__", script)
    given = Given("env", script.Pole)
    assert "__mp_main__" not in given.named_modules | cloudpickle.list_registry_pickle_by_value()
    monkeypatch.delitem(sys.modules, "__mp_main__")  # as a process of a run has none
    assert pickle.loads(pickle.dumps(given)).value.level == 3


def test_another_class_of_the_same_name_is_another_environment():
    def made():
        class Pole(gymnasium.Wrapper):
            pass

        return Pole

    first, second = made(), made()
    assert Given("env", first) == Given("env", first)
    assert Given("env", first).value is first
    with pytest.raises(InvalidInput, match=r"give config\.algo and config\.env again"):
        train("dqn", second, config=TrainConfig.default("dqn", first))


def test_what_an_environment_pickles_of_its_script_is_to_be_put_into_a_module():
    def serve():
        """What a process of the environment's own is to do, as one of the script, which a run's process is not."""

    serve.__module__, serve.__qualname__ = "__main__", "serve"
    with pytest.raises(
        InvalidInput, match=r"cannot be made: .*__main__.*; .* do not execute the script: put .* module"
    ):
        make(Given("env", lambda: pickle.dumps(serve)), EnvironmentConfig())
