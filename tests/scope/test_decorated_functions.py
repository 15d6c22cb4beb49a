"""What an operation decorates stays what it was; what is no function is refused."""

import asyncio
import inspect
from pathlib import Path

import pytest

from drivetrain import scope
from drivetrain.core.errors import InvalidInput


def test_a_recorded_method_binds_like_a_function():
    class Thing:
        @scope.operation("x")
        def itself(self, *, more=1):
            return self, more

        @scope.operation("x")
        @classmethod
        def kind(cls):
            return cls

        @scope.operation("x")
        @staticmethod
        def apart(what):
            return what

        @scope.operation("x")
        @staticmethod
        async def awaited(what):
            return what

    thing = Thing()
    assert Thing.kind() is thing.kind() is Thing
    assert Thing.apart(3) == thing.apart(3) == asyncio.run(thing.awaited(3)) == 3
    assert thing.itself(more=2) == (thing, 2)
    assert Thing.itself(thing) == (thing, 1)
    assert thing.itself.__self__ is thing
    assert str(inspect.signature(thing.itself)) == "(*, more=1)"


@pytest.mark.parametrize(
    ("what", "told"),
    [
        (property(print), "an object of class property; decorate the function in it"),
        (Path, "the class Path; decorate its methods"),
        (3, "an object of class int"),
    ],
)
def test_what_is_no_function_is_not_decorated(what, told):
    with pytest.raises(InvalidInput, match=f"expected a function, got {told}"):
        scope.operation("x")(what)
