"""What a compiled step takes and gives, worked out once for all calls; and a kernel's call on a caller's arrays.

    state, actions, shared ─flat─▶ leaves in a kernel's order ─taken─▶ its inputs ─launch─▶ outputs ─▶ state, trajectory

A call of a short step is mostly what Python does around it: one walk through the caller's trees is what is left of it.
"""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import jax
import jax.core
import numpy as np

from drivetrain.core.errors import InvalidInput
from drivetrain.sim.api import RolloutState, Settings, Tree, describe
from drivetrain.sim.engines.arrays import Form, checked_array
from drivetrain.sim.trace import Shapes

KEY, ENDED = jax.ShapeDtypeStruct((2,), np.dtype("uint32")), jax.ShapeDtypeStruct((), np.dtype("bool"))
"""Of an environment: its key's words, and whether its episode has ended."""
STEP = jax.ShapeDtypeStruct((), np.dtype("uint32"))
"""How many steps all environments have taken."""


class Memory(Protocol):
    """Where the arrays of a kernel's call lie."""

    def taken(self, leaf: Any, form: Form) -> Any:
        """A caller's array in this memory; see `checked_array`."""
        ...

    def empty(self, form: Form) -> Any:
        """A new array."""
        ...


Taken = Callable[[Any, Form], Any]
Launch = Callable[[Any, Sequence[Any], Sequence[Any]], Sequence[Any]]
"""(first step's number; keys, done, state, actions, shared; state, done, records to be written) -> what was written."""


class Part:
    """A pytree of arrays that calls take or give."""

    def __init__(self, name: Any, shapes: Tree, leading: tuple[int, ...]) -> None:
        """Of one environment and step.

        Args:
            name: What callers know it by, or a pair of names where it is a pair of trees of theirs.
            shapes: Of its leaves.
            leading: The axes before them.
        """
        leaves, self.structure = jax.tree.flatten(shapes)
        self.name, self.num_leaves = name, len(leaves)
        self.parts: list[Part] = []
        if isinstance(name, str):
            numbered = jax.tree.unflatten(self.structure, range(self.num_leaves))
            paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(numbered)]
            pairs = zip(paths, leaves, strict=True)
            self.forms = [Form.of(name + jax.tree_util.keystr(path), leaf, leading) for path, leaf in pairs]
        else:
            self.parts = [Part(*each, leading) for each in zip(name, shapes, strict=True)]
            self.forms = [form for part in self.parts for form in part.forms]

    def flat(self, tree: Tree) -> list[Any]:
        """The leaves of a caller's pytree.

        Raises:
            InvalidInput: It has another structure.
        """
        leaves, found = jax.tree.flatten(tree)
        if found == self.structure:
            return leaves
        if self.parts:
            return [leaf for part, each in zip(self.parts, tree, strict=True) for leaf in part.flat(each)]
        if self.structure.num_nodes > 1:
            raise InvalidInput(f"{self.name}: expected {self.structure}, got {found}")
        got = "none" if tree is None else f"a {type(tree).__name__}"
        raise InvalidInput(f"{self.name}: expected one array {describe(self.forms[0])}, got {got}")

    def tree(self, leaves: Sequence[Any]) -> Tree:
        """The pytree of such leaves."""
        return self.structure.unflatten(leaves)


class Given(NamedTuple):
    """A caller's arguments, dense and in the traced types."""

    state: list[Any]
    keys: Any
    step: Any
    """A number in Python, or a value of a program that JAX traces."""
    done: Any
    actions: list[Any]
    shared: list[Any]


class Signature:
    """Of a compiled step with its sizes."""

    def __init__(self, traced: Shapes, settings: Settings) -> None:
        """Nothing of it changes."""
        num_envs, num_steps = settings.num_envs, settings.num_steps
        self.num_steps = num_steps
        self.state = Part(settings.carried, traced.state, (num_envs,))
        self.actions = Part("actions", traced.action, (num_steps, num_envs))
        self.shared = Part("policy", traced.shared, ())
        self.record = Part("record", traced.record, (num_steps, num_envs))
        keys, done = Form.of("state.keys", KEY, (num_envs,)), Form.of("state.done", ENDED, (num_envs,))
        self.inputs = [keys, done, *self.state.forms, *self.actions.forms, *self.shared.forms]
        self.outputs = [*self.state.forms, done, *self.record.forms]
        self.structure = jax.tree.structure((0, 0, traced.state, traced.action, traced.shared))

    def flat(self, state: RolloutState, actions: Tree, shared: Tree) -> list[Any]:
        """The leaves of a caller's arguments, as they are, in the order of `inputs`.

        Raises:
            InvalidInput: Something has another structure.
        """
        leaves, found = jax.tree_util.tree_flatten((state.keys, state.done, state.env, actions, shared))
        if found == self.structure:
            return leaves
        env, actions, shared = self.state.flat(state.env), self.actions.flat(actions), self.shared.flat(shared)
        return [state.keys, state.done, *env, *actions, *shared]

    def taken(self, leaves: Sequence[Any], taken: Taken = checked_array) -> list[Any]:
        """Leaves in the order of `inputs`, each gone through a function.

        Raises:
            InvalidInput: Something has another shape or type.
        """
        try:
            return [taken(leaf, form) for leaf, form in zip(leaves, self.inputs, strict=True)]
        except InvalidInput as error:
            self.refuse_other_number(leaves[0], error)
            raise

    def refuse_other_number(self, keys: Any, error: InvalidInput) -> None:
        """Say of a state that it is one of another number of environments, in place of which array does not fit."""
        got, expected = list(np.shape(keys)), list(self.inputs[0].shape)
        if got[1:] == expected[1:] and got[0] != expected[0]:
            raise InvalidInput(
                f"state: expected one of {expected[0]} environments, for which this rollout was compiled, got one of "
                f"{got[0]}; begin with its own `reset`, or compile for as many"
            ) from error

    def given(self, state: RolloutState, actions: Tree, shared: Tree, taken: Taken = checked_array) -> Given:
        """A caller's arguments by what they are.

        Raises:
            InvalidInput: Something has another structure, shape or type.
        """
        keys, done, *rest = self.taken(self.flat(state, actions, shared), taken)
        first, last = self.state.num_leaves, self.state.num_leaves + self.actions.num_leaves
        return Given(rest[:first], keys, checked_step(state.step), done, rest[first:last], rest[last:])

    def steps_after(self, number: Any) -> Any:
        """How many steps were taken after a call that began at `number`: a uint32, which begins anew."""
        step = number + self.num_steps
        return step if isinstance(step, jax.core.Tracer) else np.uint32(step % 2**32)


def call_kernel(
    signature: Signature, memory: Memory, launch: Launch, leaves: Sequence[Any], step: Any
) -> tuple[RolloutState, dict[str, Tree]]:
    """Run a kernel on a caller's arrays.

    Args:
        signature: The kernel's.
        memory: Where its arrays lie.
        launch: What runs it.
        leaves: The caller's arguments by `Signature.flat`.
        step: How many steps the environments have taken.

    Raises:
        InvalidInput: Something has another shape or type.
    """
    number, num_leaves = checked_step(step), signature.state.num_leaves
    inputs = signature.taken(leaves, memory.taken)
    results = launch(number, inputs, [memory.empty(form) for form in signature.outputs])
    env, done = signature.state.tree(results[:num_leaves]), results[num_leaves]
    trajectory = signature.record.tree(results[num_leaves + 1 :])
    return RolloutState(env, inputs[0], signature.steps_after(number), done, None), trajectory


def checked_step(step: Any) -> Any:
    """How many steps were taken, as a number in Python, or as a program's value, which nobody can look at."""
    if isinstance(step, jax.core.Tracer):
        if step.shape != () or step.dtype.kind not in "iu":
            raise InvalidInput(f"state.step: expected uint32[], got {describe(step)}")
        return step
    try:
        number = operator.index(step)
    except TypeError:
        number = -1
    if not 0 <= number < 2**32:
        raise InvalidInput(f"state.step: expected a uint32, got {step!r}")
    return number
