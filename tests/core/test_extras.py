"""A failed import becomes the sentence that says what to install."""

import pytest

from drivetrain.core.extras import missing_extra


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
