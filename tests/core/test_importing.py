"""Modules that a process which begins anew finds."""

import sys
import types

from drivetrain.core.importing import is_found_anew


def test_modules_of_files_are_found_and_those_made_in_memory_not_whoever_else_is_asked(monkeypatch):
    class OfAnotherTime:
        """Finds by `find_module`, as before Python 3.4."""

    monkeypatch.setattr(sys, "meta_path", [OfAnotherTime(), *sys.meta_path])
    monkeypatch.setitem(sys.modules, "made_in_memory", types.ModuleType("made_in_memory"))
    assert is_found_anew("json.decoder")
    assert not is_found_anew("made_in_memory")
