"""What the names of a module or class mean, as one digest: every function's place counts, and no order does."""

from typing import Any

import pytest

from drivetrain.core._native import functions_digest


def one():
    return 1


def two():
    return 2


def test_the_order_of_names_and_what_is_no_function_do_not_count():
    assert functions_digest({"a": one, "b": two}) == functions_digest({"b": two, "size": 3, "a": one, "kind": int})
    assert functions_digest({}) == functions_digest({"a": 1, "of": int}) == bytes(24)


def test_another_function_name_or_code_counts():
    before = functions_digest({"a": one, "b": two})
    for changed in ({"a": two, "b": one}, {"a": one}, {"a": one, "c": two}, {"a": one, "b": two, "c": one}):
        assert functions_digest(changed) != before


def test_code_put_into_a_function_counts(monkeypatch):
    before = functions_digest({"a": one})
    monkeypatch.setattr(one, "__code__", two.__code__)
    assert functions_digest({"a": one}) != before


def test_of_a_class_its_own_methods_count():
    class Parent:
        def act(self):
            return 1

    class Child(Parent):
        pass

    assert functions_digest(Child) == bytes(24)
    assert functions_digest(Parent) == functions_digest(dict(vars(Parent))) != bytes(24)


def test_anything_else_is_refused():
    neither: Any = [one]
    with pytest.raises(TypeError, match="a dict or a class"):
        functions_digest(neither)
