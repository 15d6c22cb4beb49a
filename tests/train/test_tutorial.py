"""docs/tutorial.md: its files and commands work, in shorter runs than it has."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs/tutorial.md").read_text()
FILES = dict(re.findall(r"```python (\S+)\n(.*?)```", PAGE, re.DOTALL))
COMMANDS = [
    line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines() if line.strip()
]
SHORT = ["--total-steps", "1500", "--eval-interval-steps", "500", "--final-eval-episodes", "2", "--num-actors", "0"]


def shortened(command: str) -> list[str]:
    """A command of the tutorial, with a run of a few seconds."""
    words = shlex.split(command.replace("40000", "2500"))
    if words[1] != "train" or "--show-config" in words:
        return words
    if "--total-steps" in words:
        del words[words.index("--total-steps") : words.index("--total-steps") + 2]
    return words + SHORT


def run(words: list[str], folder: Path) -> str:
    """What it prints; as the installed command does, it finds no module of the folder by itself."""
    code = "import sys; sys.path.remove(''); from drivetrain.cli.main import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, *words[1:]], cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


@pytest.mark.slow  # eight short runs
def test_the_commands_of_the_tutorial_work_in_their_order(tmp_path):
    pytest.importorskip("matplotlib", reason="needs the plot extra")
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    for command in COMMANDS:
        run(shortened(command), tmp_path)
    assert {path.name for path in tmp_path.glob("*.png")} == {"cartpole.png", "docking.png"}
    done = subprocess.run([sys.executable, "watch.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.stdout.endswith(" 1.0\n"), done.stderr


@pytest.mark.release
def test_its_environment_and_network_train_from_the_folder_they_lie_in(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (command,) = [command for command in COMMANDS if "--torso" in command]
    assert "mean return" in run(shortened(command), tmp_path)
    assert (tmp_path / "runs/waves/best/policy.npz").exists()


@pytest.mark.release
def test_its_script_trains_an_environment_given_as_a_function(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text.replace("total_steps=20_000", "total_steps=1_500, final_eval_episodes=2"))
    done = subprocess.run(
        [sys.executable, "train_docking.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    *_, line = done.stdout.splitlines()
    mean_return, run_dir = line.split()
    assert float(mean_return) <= 100
    assert (tmp_path / run_dir / "result.json").exists()
