"""Imports and compilation go without garbage collection, and leave it as it was."""

import gc

import pytest
from lone_process import run_in_child

from drivetrain.core.garbage import uncollected


def test_nothing_is_collected_meanwhile_and_everything_as_before_afterwards():
    before = gc.get_freeze_count()
    with uncollected():
        assert not gc.isenabled()
        with uncollected():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() == before


def test_who_has_switched_it_off_finds_it_off():
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_an_error_leaves_it_as_it_was():
    with pytest.raises(KeyError), uncollected():
        raise KeyError
    assert gc.isenabled()


def test_what_stays_for_good_is_never_looked_at_again():
    shown = run_in_child(
        "import gc, weakref\n"
        "from drivetrain.core.garbage import uncollected\n"
        "class Node: pass\n"
        "def cycle():\n"
        "    node = Node(); node.itself = node\n"
        "    return weakref.ref(node)\n"
        "with uncollected(for_good=True): kept = cycle()\n"
        "later = cycle()\n"
        "gc.collect()\n"
        "print(kept() is not None, later() is None, gc.isenabled())\n"
    )
    assert shown == "True True True\n"
