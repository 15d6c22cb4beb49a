"""What an operation decorates stays what it was; what is no function is refused."""

import asyncio
import inspect
from pathlib import Path

import pytest
from programs import entered, profiled_text

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


def test_a_function_that_cloudpickle_takes_to_another_process_by_value_keeps_its_operation(tmp_path):
    pytest.importorskip("cloudpickle")
    text = """
import cloudpickle, subprocess, sys
from drivetrain import scope

@scope.operation("recursive")
def factorial(n):
    return 1 if n < 2 else n * factorial(n - 1)

class Simulator:
    @scope.operation("method")
    def step(self):
        return factorial(3)

    @classmethod
    @scope.operation("of the class")
    def name(cls):
        return cls.__name__

# As vector environments hand what a script defines to processes that do not run it.
text = "import cloudpickle, sys; one, f = cloudpickle.load(sys.stdin.buffer); print(one.step(), one.name(), f(4))"
subprocess.run([sys.executable, "-c", text], input=cloudpickle.dumps([Simulator(), factorial]), check=True)
"""
    assert profiled_text(tmp_path / "run.scope", text).stdout == b"6 Simulator 24\n"
    counts = entered(tmp_path / "run.scope")
    assert [counts[name] for name in ("recursive", "method", "of the class")] == [3 + 4, 1, 1]
