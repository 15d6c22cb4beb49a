"""What `help` says of classes whose fields are explained by strings below them."""

import importlib
import inspect
import pydoc
from dataclasses import dataclass
from typing import NamedTuple

import pytest

from drivetrain.core.docstrings import explained, with_fields

PUBLIC = {
    "drivetrain.replay": ("Sequences", "Sample", "PriorityStats", "MemoryReport"),
    "drivetrain.replay.limiter": ("RateLimit",),
    "drivetrain.scope.profile": ("Row",),
    "drivetrain.sim.api": ("RolloutState", "Rollout"),
    "drivetrain.sim.policies": ("Made",),
    "drivetrain.train.callbacks": ("Event",),
    "drivetrain.train.config": None,
    "drivetrain.train.run_dir.results": ("Result",),
    "drivetrain.train.runs.seeds": ("Outcome", "SeedsResult"),
}
"""Module: classes; None: all that it exports."""


@with_fields
@dataclass(frozen=True, kw_only=True)
class Boat:
    """Something that floats.

    Where it is said.
    """

    length: float = 3.0
    """In metres,
    at the waterline."""
    name: str = ""
    num_oars: int = 2
    """Of one side."""

    def row(self) -> None:
        """Move on."""


class Pier(NamedTuple):
    """Where boats lie."""

    berth: int
    """Counted from the shore."""


def test_help_shows_what_the_fields_of_a_class_are():
    assert inspect.getdoc(Boat).splitlines() == [
        "Something that floats.",
        "",
        "Where it is said.",
        "",
        "Attributes:",
        "    length: In metres, at the waterline.",
        "    num_oars: Of one side.",
    ]
    assert " |      length: In metres, at the waterline." in pydoc.render_doc(Boat, renderer=pydoc.plaintext)
    assert Boat(length=2.0).__doc__ == Boat.__doc__
    assert "berth: Counted from the shore." in with_fields(Pier).__doc__


def test_without_a_source_or_a_docstring_of_its_own_a_class_says_what_it_said(monkeypatch):
    made = {}
    exec("class Unseen:\n    'Made here.'\n    x: int\n    'A number.'", made)
    assert with_fields(made["Unseen"]).__doc__ == "Made here."
    monkeypatch.setattr(Boat, "__doc__", None)
    assert with_fields(Boat).__doc__ is None


@pytest.mark.parametrize("module", PUBLIC)
def test_public_classes_show_their_fields_with_the_strings_below_them(module):
    if "train" in module:
        pytest.importorskip("gymnasium", reason="needs the train extra")
    if "sim" in module:
        pytest.importorskip("jax", reason="needs the sim extra")
    module = importlib.import_module(module)
    names = PUBLIC[module.__name__] or [name for name in module.__all__ if inspect.isclass(getattr(module, name))]
    for kind in [getattr(module, name) for name in names]:
        assert explained(kind), kind
        listed = inspect.getdoc(kind).partition("\nAttributes:\n")[2]
        assert all(f"    {field}: " in listed for field in explained(kind)), kind
