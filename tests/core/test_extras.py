"""A failed import becomes the sentence that says what to install."""

import subprocess
import sys

import pytest

from drivetrain.core.errors import MissingExtra
from drivetrain.core.extras import missing_extra, naming_extra


@pytest.mark.parametrize(
    ("module", "command"),
    [
        ("jax", 'pip install "drivetrain[train]"'),
        ("gymnasium.vector", 'pip install "drivetrain[train]"'),
        ("torch", 'pip install "drivetrain[torch]"'),
        ("sbx", 'pip install "drivetrain[bench]"'),
    ],
)
def test_a_missing_module_of_an_extra_names_the_extra(module, command):
    error = missing_extra(ModuleNotFoundError(f"No module named {module!r}", name=module))
    assert module.partition(".")[0] in str(error)
    assert str(error).endswith(command)


def test_a_missing_module_of_no_extra_stays_what_it_is():
    assert missing_extra(ModuleNotFoundError("No module named 'drivetrain.nowhere'", name="drivetrain.nowhere")) is None


def test_a_module_that_is_there_but_lacks_a_name_is_no_missing_extra():
    assert missing_extra(ImportError("cannot import name 'nowhere' from 'jax'", name="jax")) is None


def told_without(module, statement, imports="pass"):
    """What a program prints and complains of whose statement misses a module, as if that were not installed."""
    program = f"""
import sys
sys.modules[{module!r}] = None
from drivetrain.core.errors import MissingExtra
{imports}
try:
    {statement}
except MissingExtra as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    return done.stdout, done.stderr


@pytest.mark.parametrize(
    "use",
    [
        "train('dqn', 'CartPole-v1')",
        "train_seeds('dqn', 'CartPole-v1', seeds=[1])",
        "resume('run')",
        "load_policy('run')",
    ],
)
def test_a_python_program_is_told_the_extra_that_it_lacks(use):
    imports = "from drivetrain.train import load_policy, resume, train, train_seeds"
    said = 'this needs gymnasium, which is not installed: pip install "drivetrain[train]"\n'
    assert told_without("gymnasium", use, imports) == (said, "")


@pytest.mark.parametrize("statement", ["from drivetrain import sim", "from drivetrain.sim.spaces import Box"])
def test_whoever_imports_simulators_without_jax_is_told_their_own_extra(statement):
    said = 'this needs jax, which is not installed: pip install "drivetrain[sim]"\n'
    assert told_without("jax", statement) == (said, "")


@pytest.mark.release
@pytest.mark.parametrize("use", ["sim.from_gymnax('Catch-bsuite')", "sim.make('gymnax/Catch-bsuite')"])
def test_whoever_asks_for_an_environment_of_gymnax_without_it_is_told_its_extra(use):
    said = 'this needs gymnax, which is not installed: pip install "drivetrain[gymnax]"\n'
    assert told_without("gymnax", use, "from drivetrain import sim") == (said, "")


@pytest.mark.whole
def test_whoever_imports_the_vec_env_of_stable_baselines3_without_it_is_told_the_extra_that_brings_it():
    said = 'this needs stable_baselines3, which is not installed: pip install "drivetrain[bench]"\n'
    assert told_without("stable_baselines3", "import drivetrain.sim.gymnasium.sb3") == (said, "")


@pytest.mark.parametrize("use", ["pack", "load"])
def test_whoever_packs_a_recording_or_reads_a_packed_one_without_pyarrow_is_told_its_extra(use, tmp_path):
    (tmp_path / "trace.parquet").touch()
    said = 'this needs pyarrow, which is not installed: pip install "drivetrain[scope]"\n'
    assert told_without("pyarrow", f"scope.{use}({str(tmp_path)!r})", "from drivetrain import scope") == (said, "")


@pytest.mark.parametrize("module", ["config", "callbacks"])
def test_settings_and_events_without_what_they_are_sent_by_name_the_extra(module):
    said = 'this needs cloudpickle, which is not installed: pip install "drivetrain[train]"\n'
    assert told_without("cloudpickle", f"import drivetrain.train.{module}") == (said, "")


def test_around_other_failed_imports_nothing_changes():
    with pytest.raises(ModuleNotFoundError, match="nowhere") as raised, naming_extra():
        import drivetrain.nowhere  # noqa: F401
    assert not isinstance(raised.value, MissingExtra)
