"""Importing a part brings what the part needs, and no framework that it does not."""

import json
import subprocess
import sys

import pytest

FRAMEWORKS = {"jax", "jaxlib", "torch", "gymnasium", "optax", "tensorboardX"}
# Modules beyond NumPy's own and what Python's pathlib and dataclasses are made of, which changes with Python (NumPy
# brings most of the latter, but not in 2.0); counts, because times depend on the machine.
MOST_MODULES = {
    "drivetrain.core.segments": 53,
    "drivetrain.replay": 83,
    "drivetrain.scope": 23,
    "drivetrain.cli.main": 53,
}


def modules_after(statement: str) -> set[str]:
    code = f"import sys, json; {statement}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("module", MOST_MODULES)
def test_a_light_module_brings_no_framework_and_few_modules(module):
    loaded = modules_after(f"import {module}")
    frameworks = {name.partition(".")[0] for name in loaded} & FRAMEWORKS
    assert not frameworks
    added = loaded - modules_after("import numpy, json, pathlib, dataclasses")
    assert len(added) <= MOST_MODULES[module], f"{module} brings {len(added)} modules: {sorted(added)}"


def test_the_replay_asks_by_name_for_what_it_does_without_in_two_places_only(sources):
    asking = [
        source.module
        for source in sources
        if source.module.startswith(("drivetrain.core", "drivetrain.replay")) and "import_module" in source.text
    ]
    assert asking == ["drivetrain.replay.dtypes", "drivetrain.replay.slab"]
    modules = modules_after("from drivetrain.replay import Replay; Replay(4, {'x': ((), 'u1')}).new_batch(2)")
    assert "torch" not in modules
    assert "ml_dtypes" not in modules


def test_recording_does_without_numpy():
    assert "numpy" not in modules_after("from drivetrain import scope; scope.operation('x')")


def test_the_command_line_answers_help_without_importing_numpy():
    loaded = modules_after(
        "import drivetrain.cli.main as m; sys.stdout = sys.stderr; m.main(['--help']); sys.stdout = sys.__stdout__"
    )
    assert "numpy" not in loaded
    assert "rich" not in loaded


def test_a_verb_is_imported_only_when_it_is_chosen():
    loaded = modules_after("import drivetrain.cli.main as m; m.load_verb('doctor')")
    assert {name for name in loaded if name.startswith("drivetrain.cli.")} == {
        "drivetrain.cli.main",
        "drivetrain.cli.doctor",
        "drivetrain.cli.flags",
    }
