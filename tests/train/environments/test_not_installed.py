"""Environments that lack a module: the sentence says how to have it."""

import sys

import pytest

pytest.importorskip("jax", reason="needs the train extra")

from drivetrain.core.errors import InvalidInput
from drivetrain.train.config import TrainConfig
from drivetrain.train.runs.requirements import describe


@pytest.mark.parametrize(
    ("env_id", "module", "extra"), [("HalfCheetah-v5", "mujoco", "mujoco"), ("LunarLander-v3", "Box2D", "box2d")]
)
def test_environments_of_gymnasium_name_our_extra_and_not_gymnasiums(monkeypatch, env_id, module, extra):
    monkeypatch.setitem(sys.modules, module, None)
    for name in [name for name in sys.modules if name.startswith(f"gymnasium.envs.{extra}")]:
        monkeypatch.delitem(sys.modules, name)
    sentence = (
        rf'this needs {module}, which is not installed: pip install "drivetrain\[{extra}\]"; `drivetrain envs` lists'
    )
    with pytest.raises(InvalidInput, match=sentence) as refused:
        describe(TrainConfig.default("ppo", env_id))
    assert "gymnasium[" not in str(refused.value)


@pytest.mark.parametrize(
    "env_id", ["no_such_module:Env-v0", "no_such_package.envs:make", "drivetrain/no_such_module:Sim"]
)
def test_an_environments_module_that_is_not_found_is_looked_for_in_another_folder(env_id):
    with pytest.raises(
        InvalidInput, match=r"No module named 'no_such_\w+'.*; go to the folder that it lies in, or install it, or name"
    ):
        describe(TrainConfig.default("dqn", env_id))


def test_a_module_that_an_environments_own_module_lacks_is_to_be_installed(monkeypatch, tmp_path):
    (tmp_path / "lacking_env.py").write_text("import no_such_physics")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InvalidInput, match="No module named 'no_such_physics'; install it, or name its folder"):
        describe(TrainConfig.default("dqn", "lacking_env:make"))


def test_one_that_finds_nothing_to_draw_by_without_a_display_says_what_it_needs(monkeypatch, tmp_path):
    (tmp_path / "OpenGL").mkdir()  # as PyOpenGL raises it, where no library of EGL or OSMesa is
    (tmp_path / "OpenGL" / "drawing_env.py").write_text("make = lambda: None.glGetError")
    monkeypatch.syspath_prepend(tmp_path / "OpenGL")
    sentence = r"has no attribute 'glGetError' .*; without a display set MUJOCO_GL to egl or osmesa"
    with pytest.raises(InvalidInput, match=sentence):
        describe(TrainConfig.default("dqn", "drawing_env:make"))
