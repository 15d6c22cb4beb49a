"""`drivetrain envs` prints its list, and nothing else."""

import contextlib
import os
import signal
from pathlib import Path

import pytest

pytest.importorskip("gymnasium", reason="needs the train extra")

import gymnasium

from drivetrain.cli import main as command
from drivetrain.train.environments import environment


class Chatty(gymnasium.Env):
    """Warns as a library of C does, on standard error and into a file of the working folder."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self):
        os.write(2, b"a setting of the model is deprecated\n")
        Path("CHATTY_LOG.TXT").write_text("a setting of the model is deprecated\n")


@pytest.fixture
def only_chatty(monkeypatch):
    """The one environment that is registered, beside those that the list itself registers."""
    monkeypatch.setattr(environment, "_gymnax_ids", list)
    before = dict(gymnasium.registry)
    gymnasium.registry.clear()
    gymnasium.register("Chatty-v0", entry_point=Chatty)
    yield
    del gymnasium.registry["Chatty-v0"]
    gymnasium.registry.update(before)


def test_what_environments_say_and_write_while_they_are_looked_at_is_not_in_the_list_nor_the_folder(
    only_chatty, tmp_path, monkeypatch, capfd
):
    monkeypatch.chdir(tmp_path)
    assert command.main(["envs"]) == 0
    said = capfd.readouterr()
    assert "Chatty-v0" in said.out
    assert said.err == ""
    assert list(tmp_path.iterdir()) == []
    os.write(2, b"afterwards\n")
    assert capfd.readouterr().err == "afterwards\n"
    assert Path.cwd() == tmp_path


class Interrupted(Chatty):
    """Ctrl-C comes while it is made, and is swallowed as by a library that loads native code."""

    def __init__(self):
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        raise ImportError("Encountered an error while initializing the extension.")


@pytest.mark.usefixtures("pythons_own_interrupts")
def test_ctrl_c_that_an_environment_has_swallowed_ends_the_list(only_chatty, capsys):
    gymnasium.registry["Chatty-v0"].entry_point = Interrupted
    assert command.main(["envs", "--all"]) == 130
    assert capsys.readouterr() == ("", "")
