"""Modules that a run names: its processes import them, and do not execute the script."""

import functools
import importlib
import importlib.util
import pickle
import re
import sys

import pytest

pytest.importorskip("jax", reason="needs the train extra")

import cloudpickle
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

from drivetrain.core.errors import InvalidInput
from drivetrain.core.processes import succeeds_anew
from drivetrain.sim.envs.snake import Snake
from drivetrain.train import train
from drivetrain.train.config import EnvironmentConfig, TrainConfig
from drivetrain.train.config.given import Given
from drivetrain.train.environments.making import make
from drivetrain.train.runs.requirements import describe, require_learner


@pytest.mark.parametrize("script", ["__main__", "__mp_main__"])  # the second where multiprocessing has spawned us
def test_what_is_named_as_the_script_s_own_is_refused_for_processes_alone(monkeypatch, script):
    main = sys.modules["__main__"]
    monkeypatch.setitem(sys.modules, script, main)
    monkeypatch.setattr(main, "Mine", CartPoleEnv, raising=False)
    monkeypatch.setattr(main, "torso", (lambda key, obs: {}, lambda params, obs: obs), raising=False)
    for env, settings, setting in [
        (f"{script}:Mine", {}, "env"),
        ("CartPole-v1", {"torso": f"{script}:torso"}, "torso"),
    ]:
        config = TrainConfig.default("dqn", env).override(**settings)
        interface = describe(config)
        require_learner(config.override(num_actors=0), interface)
        with pytest.raises(InvalidInput, match=rf"{setting}: '{script}:.* is of the script .*give the object itself"):
            require_learner(config.override(num_actors=1), interface)


@pytest.mark.whole
def test_a_simulator_of_the_script_is_refused_for_processes_without_a_remedy_that_simulators_have_not(monkeypatch):
    monkeypatch.setattr(sys.modules["__main__"], "Board", Snake, raising=False)
    config = TrainConfig.default("dqn", "drivetrain/__main__:Board")
    interface = describe(config)
    require_learner(config.override(num_actors=0), interface)
    with pytest.raises(InvalidInput, match="do not execute; put it into a module and name it drivetrain/module:name, "):
        require_learner(config.override(num_actors=1), interface)


@pytest.mark.parametrize(
    ("name", "torso", "call"),
    [
        ("unguarded:Mine", {}, "train('dqn', 'CartPole-v1', num_actors=0, total_steps=400)"),
        ("unguarded:Unguarded-v0", {}, "train_seeds('dqn', 'CartPole-v1', seeds=[1], num_actors=0, total_steps=400)"),
        ("CartPole-v1", {"torso": "unguarded:torso"}, "resume('run')"),
    ],
)
def test_a_module_that_begins_a_run_when_a_run_imports_it_is_refused(tmp_path, monkeypatch, name, torso, call):
    (tmp_path / "unguarded.py").write_text(
        "import gymnasium.envs.classic_control, drivetrain.train\n"
        "class Mine(gymnasium.envs.classic_control.CartPoleEnv): pass\n"
        "gymnasium.register('Unguarded-v0', Mine, max_episode_steps=20)\n"
        "torso = lambda key, obs: {}, lambda params, obs: obs\n"
        f"drivetrain.train.{call}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(gymnasium.registry, "Unguarded-v0", raising=False)
    called = call.partition("(")[0]
    with pytest.raises(InvalidInput, match=rf"{called} is called by .*for a run \(unguarded\).*below `if __name__ =="):
        train("dqn", name, run_dir=str(tmp_path / "run"), **torso)
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "runs").exists()


def test_a_module_that_begins_a_run_when_a_process_of_a_run_unpickles_what_is_its_is_refused(tmp_path, monkeypatch):
    (tmp_path / "unguarded_too.py").write_text(
        "import gymnasium.envs.classic_control, os\n"
        "class Mine(gymnasium.envs.classic_control.CartPoleEnv): pass\n"
        "if os.environ.get('IN_A_RUN'):\n"
        "    import drivetrain.train\n"
        "    drivetrain.train.train('dqn', Mine, num_actors=0, total_steps=400)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    there = pickle.dumps(Given("env", importlib.import_module("unguarded_too").Mine))
    monkeypatch.delitem(sys.modules, "unguarded_too")
    monkeypatch.setenv("IN_A_RUN", "1")
    with pytest.raises(InvalidInput, match=r"train is called by a module that is imported for a run \(given from Py"):
        _ = pickle.loads(there).value
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def init(key, obs):\n    retrun 1", r"SyntaxError: .*{file}, line 2\)"),
        ("init = no_such_name", r"NameError: name 'no_such_name' is not defined \(.*{file}, line 1\)"),
        ("import jax\njax.no_such_name", r"AttributeError: .*no_such_name.* \(.*, line \d+\)"),
        ("raise ValueError", r"ValueError \(.*{file}, line 1\)"),
        ("raise SystemExit(3)", r"SystemExit: 3 \(.*{file}, line 1\)"),
    ],
)
@pytest.mark.parametrize("setting", ["torso", "optimizer", "env"])
def test_a_module_of_ones_own_that_raises_is_told_with_the_place_in_one_sentence(
    tmp_path, monkeypatch, setting, text, told
):
    (tmp_path / "unripe_module.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    given = {"env": "CartPole-v1", setting: "unripe_module:x"}
    with pytest.raises(InvalidInput, match=f"{told.format(file='unripe_module.py')}; mend it") as caught:
        train("dqn", given.pop("env"), run_dir=tmp_path / "run", num_actors=0, **given)
    assert "\n" not in str(caught.value)
    assert "frozen" not in str(caught.value)


@pytest.mark.parametrize(
    ("module", "told"),
    [
        ("boat.py", "got 'boat.py', a file; in its folder name it boat"),
        ("./envs/boat.py", "got './envs/boat.py', a file; in its folder name it boat"),
        (".boat", "got '.boat'; give all of its name"),
    ],
)
def test_a_file_or_a_relative_name_in_place_of_a_module_is_refused_with_the_module_s_name(tmp_path, module, told):
    for settings in ({"env": f"{module}:x"}, {"env": f"drivetrain/{module}:x"}, {"torso": f"{module}:x"}):
        given = {"env": "CartPole-v1"} | settings
        with pytest.raises(InvalidInput, match=f"expected a module as `import` names it, {told}"):
            train("dqn", given.pop("env"), run_dir=tmp_path / "run", num_actors=0, **given)


def test_what_a_module_has_that_no_process_would_find_is_refused_for_processes_alone(tmp_path, monkeypatch):
    file = tmp_path / "unlisted_boat.py"
    file.write_text("from gymnasium.envs.classic_control import CartPoleEnv\nclass Boat(CartPoleEnv): pass\n")
    spec = importlib.util.spec_from_file_location("loaded_by_path", file)
    boat = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "loaded_by_path", boat)
    spec.loader.exec_module(boat)
    for env in (boat.Boat, lambda: boat.Boat(), functools.partial(boat.Boat, sutton_barto_reward=True)):
        config = TrainConfig.default("dqn", env)
        interface = describe(config)
        require_learner(config.override(num_actors=0), interface)
        with pytest.raises(
            InvalidInput, match=r"env: 'given .*' needs the module 'loaded_by_path', which .*cannot imp"
        ):
            require_learner(config.override(num_actors=1), interface)
    monkeypatch.syspath_prepend(tmp_path)
    listed = importlib.import_module("unlisted_boat").Boat
    require_learner(TrainConfig.default("dqn", listed).override(num_actors=1), interface)
    cloudpickle.register_pickle_by_value(boat)
    try:
        config = TrainConfig.default("dqn", lambda: boat.Boat()).override(num_actors=1)
        require_learner(config, interface)
    finally:
        cloudpickle.unregister_pickle_by_value(boat)
    assert pickle.loads(pickle.dumps(config.env)) == config.env


def test_a_module_of_a_folder_that_was_left_is_refused_with_that_folder(tmp_path, monkeypatch):
    (tmp_path / "left_boat.py").write_text(
        "from gymnasium.envs.classic_control import CartPoleEnv\nclass Boat(CartPoleEnv): pass\n"
    )
    monkeypatch.setattr(sys, "path", ["", *sys.path])  # as of a notebook
    monkeypatch.chdir(tmp_path)
    boat = importlib.import_module("left_boat")
    given = [TrainConfig.default("dqn", env).override(num_actors=1) for env in (boat.Boat, "left_boat:Boat")]
    interface = describe(given[0])
    for config in given:
        require_learner(config, interface)
    monkeypatch.chdir("/")
    for config in given:
        where = re.escape(str(tmp_path))
        with pytest.raises(InvalidInput, match=rf"needs the module 'left_boat', which .* its folder '{where}' is not"):
            require_learner(config, interface)


def test_an_id_that_is_a_class_of_its_module_as_well_is_made_as_it_is_registered_each_time(tmp_path, monkeypatch):
    (tmp_path / "swinging.py").write_text(
        "import gymnasium\nfrom gymnasium.envs.classic_control import PendulumEnv\n"
        "class Swing(PendulumEnv): pass\n"
        "gymnasium.register('Swing', 'swinging:Swing', max_episode_steps=50)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    try:
        for _ in range(2):
            assert make("swinging:Swing", EnvironmentConfig()).has_wrapper_attr("_max_episode_steps")
    finally:
        gymnasium.registry.pop("Swing", None)


def test_a_module_of_a_relative_folder_is_found_by_processes_whoever_went_elsewhere(tmp_path, monkeypatch):
    """As programs under Hydra, which begin runs in folders of their own."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "of_a_relative_folder.py").write_text("found = True\n")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, "lib"])
    monkeypatch.setattr(sys, "path_importer_cache", dict(sys.path_importer_cache))
    importlib.import_module("of_a_relative_folder")
    assert succeeds_anew("import of_a_relative_folder")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert succeeds_anew("import of_a_relative_folder")
    del sys.modules["of_a_relative_folder"]
