"""What an operation decorates stays what it was; what is no function is refused."""

import asyncio
import copy
import inspect
import math
import pickle
import pydoc
import threading
import time
from pathlib import Path

import pytest
from programs import alone, entered, profiled_text

from drivetrain import scope
from drivetrain.core.errors import InvalidInput
from drivetrain.scope import summing


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


def test_help_shows_what_a_decorated_function_says_of_itself():
    @scope.operation("load")
    def load(path):
        """Reads a file."""

    class Loader:
        read = load

    for decorated in (load, Loader.read, Loader().read):
        assert "Reads a file." in pydoc.render_doc(decorated)


@pytest.mark.parametrize("who", ["main", "gone"])
def test_a_generator_that_another_thread_ends_takes_it_out_of_nothing(tmp_path, who):
    @scope.operation("load")
    def numbers():
        while True:
            yield 1

    def begin_it():
        suspended.append(numbers())
        next(suspended[0])
        begun_by.append(threading.get_ident())

    def end_it():
        if who == "gone" and threading.get_ident() != begun_by[0]:
            return  # another will have its number
        with scope.operation("load"), scope.phase("end"):
            suspended.pop().close()
            time.sleep(0.05)

    def run(function):
        thread = threading.Thread(target=function)
        thread.start()
        thread.join()

    suspended, begun_by = [], []
    with scope.session(tmp_path / "run.scope"):
        begin_it() if who == "main" else run(begin_it)
        for _ in range(1000):
            if suspended:
                run(end_it)
    if suspended:
        pytest.skip("threads of this system do not get the number of one that is gone")
    rows = scope.load(tmp_path / "run.scope").breakdown()
    assert sum(row.raw_ns for row in rows if row.phase == "end" and row.operation == "load") > 50e6


def test_sums_that_are_refused_beside_a_recording_leave_it_as_it_is(tmp_path):
    with scope.session(tmp_path / "run.scope"):
        summing.create(tmp_path / "sums.scope")
        with pytest.raises(InvalidInput, match="one session at a time"):
            summing.join(tmp_path / "sums.scope", name="one")
        with scope.operation("after"):
            pass
    assert entered(tmp_path / "run.scope")["after"] == 1


def test_a_recorded_function_can_be_called_by_what_is_deleted_together_with_it():
    text = """
import gc
from drivetrain import scope

def make():
    @scope.operation("x")
    def step():
        return "called"

    around = []

    class Last:
        __slots__ = ()  # no part of a cycle: deleted once what holds it is taken apart

        def __del__(self, step=step):
            print(step())

    around += [around, Last()]

gc.disable()
make()
gc.collect()
empty = type(scope.operation("x")(print)).__new__(type(scope.operation("x")(print)))
print(repr(empty))
"""
    done = alone(text)
    assert (done.stdout.split(), done.stderr) == ([b"called", b"None"], b"")


class Net:
    """Called like a function, which it is not."""

    def __call__(self, *numbers):
        return len(numbers)


def test_what_is_no_method_where_it_is_an_attribute_of_a_class_is_none_when_it_is_decorated():
    class Thing:
        hypot = scope.operation("x")(math.hypot)
        net = scope.operation("x")(scope.operation("y")(Net()))
        of_another = scope.operation("x")([1, 2, 1].count)
        own = scope.operation("x")(lambda self: self)

    thing = Thing()
    assert (thing.hypot(3, 4), thing.net(1, 2), thing.of_another(1)) == (5.0, 2, 2)
    assert thing.own() is thing


class Holds:
    """What is decorated in each of its objects."""

    def __init__(self):
        self.act = scope.operation("act")(self.itself)
        self.net = scope.operation("net")(Net())
        self.function = recorded_in_module
        self.other = scope.operation("other")(in_module)

    def itself(self):
        return self


@scope.operation("module")
def recorded_in_module():
    pass


def in_module():
    pass


@pytest.mark.parametrize("again", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_what_an_object_has_decorated_of_its_own_is_its_copys_own_and_decorated_there(tmp_path, again):
    holds = Holds()
    copied = again(holds)
    with scope.session(tmp_path / "run.scope"):
        assert copied.act() is copied
        assert copied.net(1, 2) == 2
        assert copied.other() is None
    assert copied.net.__wrapped__ is not holds.net.__wrapped__
    assert copied.function is recorded_in_module
    counts = entered(tmp_path / "run.scope")
    assert [counts[name] for name in ("act", "net", "other")] == [1, 1, 1]
