"""Compiled programs beside their meaning, with faults planted: which fault is caught by which program.

    python tests/sim/mutation/native_checks.py NUMBER ...      tries the faults of these numbers, a line for each

A program of its own that forks for each fault, because a wrong kernel may write anywhere or never end: when the child
dies, the fault is caught.
"""

import functools
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import jax  # noqa: E402  the folders above come first
import numpy as np  # noqa: E402
from chance import Chance, Jumping  # noqa: E402
from comparing import EVERYTHING, Applied, assert_same, random_actions  # noqa: E402
from functions import FUNCTIONS  # noqa: E402
from layered import EXTRAS, gated, weights  # noqa: E402
from mutants import planted  # noqa: E402
from native_mutants import GENERATION, MUTANTS  # noqa: E402
from primitives import CASES  # noqa: E402

from drivetrain import sim  # noqa: E402
from drivetrain.sim.acting import Acting, Remembering, acting_of  # noqa: E402
from drivetrain.sim.api import RolloutState, Settings  # noqa: E402
from drivetrain.sim.engines import numpy as interpreter  # noqa: E402
from drivetrain.sim.engines.native.compilation import PRELUDE, lanes, load_kernel  # noqa: E402
from drivetrain.sim.engines.native.engine import Kernel, layout_of  # noqa: E402
from drivetrain.sim.engines.native.groups import write_groups  # noqa: E402
from drivetrain.sim.engines.native.kernel import write_kernel  # noqa: E402
from drivetrain.sim.engines.native.layout import Layout, step_inputs  # noqa: E402
from drivetrain.sim.engines.native.split import Split, split_of  # noqa: E402
from drivetrain.sim.engines.native.written import Form, Written  # noqa: E402
from drivetrain.sim.engines.toolchain import FLAGS, compiler  # noqa: E402
from drivetrain.sim.ir.importer import import_jaxpr  # noqa: E402
from drivetrain.sim.ir.passes.pipeline import simplified, vectorizable  # noqa: E402
from drivetrain.sim.ir.program import Block  # noqa: E402
from drivetrain.sim.trace import Traced, trace  # noqa: E402

MOST_SECONDS = 100
ELSEWHERE = "only in kernels of other processors"
NUM_STEPS = 3
PLAYED: dict[str, tuple[Callable[[], Any], int, Form]] = {
    "CartPole": (lambda: sim.make("CartPole-v1"), 21, "tiles"),
    "Knob": (lambda: sim.make("Knob", dead_nbytes=512, reset_rate=0.3), 21, "tiles"),
    "tiles in groups": (Chance, 21 + 16 * lanes(), "groups"),
    "work after a branch": (Jumping, 21, "groups"),
    "a tile without a partner": (lambda: sim.make("CartPole-v1"), 5 + 2 * lanes(), "pairs"),
    "pairs of tiles": (lambda: sim.make("CartPole-v1"), 5 + 3 * lanes(), "pairs"),
}
"""Environments, how many, and the form: more than one group or pair has, and a last tile that is not full.

Those in pairs have a policy with layers of many forms.
"""


@dataclass(frozen=True)
class Program:
    """Steps that are compiled with each fault."""

    name: str
    traced: Traced
    settings: Settings
    block: Block
    layout: Layout
    state: RolloutState
    actions: Any
    expected: Any
    form: Form
    shared: Any

    @functools.cached_property
    def clean(self) -> Written:
        """Its C++ without a fault."""
        return self.written()

    def written(self) -> Written:
        """Its C++ by the generator as it is now."""
        if self.form == "groups":
            split = split_of(self.block, step_inputs(self.block, self.layout).kept)
            return write_groups(self.block, self.layout, cast("Split", split))
        return write_kernel(self.block, self.layout, num_tiles=2 if self.form == "pairs" else 1)

    def run(self, written: Written) -> None:
        """Compile, run, and compare; raises where anything is wrong."""
        library = load_kernel(written.source, lanes(), effort=("-O0",))
        kernel = Kernel(self.traced, self.settings, library, lanes() * written.num_tiles)
        got = kernel(self.state, self.actions, self.shared)
        assert_same(self.expected, got)
        flags = [np.asarray(leaf) for leaf in jax.tree.leaves(got) if np.asarray(leaf).dtype == bool]
        assert all(leaf.view(np.uint8).max(initial=0) <= 1 for leaf in flags), "a Boolean that is neither 0 nor 1"


def program(name: str, env: Any, start: Callable[[], RolloutState], actions: Any, num_envs: int, num_steps: int,
            form: Form = "tiles", acting: Acting | None = None, shared: Any = ()) -> Program:  # fmt: skip
    """An environment's steps, with what they give by the meaning of operations."""
    record = EVERYTHING if acting is None else (*EVERYTHING, "action", *EXTRAS)
    settings = Settings(num_envs=num_envs, num_steps=num_steps, record=record, autoreset="same_step", num_threads=1)
    traced = trace(env, env.default_params, "same_step", record, "threefry", None, acting)
    block = simplified(import_jaxpr(traced.jaxpr))
    state = start()
    with np.errstate(all="ignore"):
        expected = interpreter.build(traced, settings)(state, actions, shared)
    layout = layout_of(block, traced)
    lowered = vectorizable(block, layout.shared)
    return Program(name, traced, settings, lowered, layout, state, actions, expected, form, shared)


def of_function(name: str, function: Callable[..., Any], batches: Any) -> Program:
    """One function of arrays."""
    batches = tuple(np.asarray(batch) for batch in batches)
    env, num_envs = Applied(function, *(batch[0] for batch in batches)), len(batches[0])

    def start() -> RolloutState:
        nothing = np.zeros(num_envs, bool)
        return RolloutState(np.zeros(num_envs, np.int32), np.zeros((num_envs, 2), np.uint32), 0, nothing, None)

    return program(name, env, start, tuple(batch[None] for batch in batches), num_envs, 1)


def played(name: str, make: Callable[[], Any], num_envs: int, form: Form) -> Program:
    """Several steps of an environment, some of whose episodes end."""
    if form == "pairs":
        return with_policy(name, make(), num_envs, form)
    env = make()

    def start() -> RolloutState:
        rollout = sim.compile(env, num_envs, 24, "numpy", record=EVERYTHING)
        after, _ = rollout(rollout.reset(seed=3), random_actions(env, 24, num_envs))
        return RolloutState(after.env, after.keys, after.step, after.done, None)

    actions = random_actions(env, NUM_STEPS, num_envs, seed=1)
    return program(name, env, start, actions, num_envs, NUM_STEPS, form)


def with_policy(name: str, env: Any, num_envs: int, form: Form) -> Program:
    """The same with a policy in the loop."""
    params = weights()

    def start() -> RolloutState:
        rollout = sim.compile(env, num_envs, 24, "numpy", policy=gated, policy_params=params)
        after, _ = rollout(rollout.reset(seed=3), policy=params)
        return RolloutState((after.env, after.obs), after.keys, after.step, after.done, None)

    acting = acting_of(gated, params)
    return program(name, Remembering(env), start, (), num_envs, NUM_STEPS, form, acting, params)


def every_program() -> list[Program]:
    """Small ones first: most faults end there."""
    small = [of_function(function.__name__, function, batches) for function, batches in FUNCTIONS]
    large = [of_function(name, *case()) for name, case in CASES.items()]
    return [*small, *(played(name, *how) for name, how in PLAYED.items()), *large]


def compiled_here() -> str:
    """What of the prelude this machine's kernels have: other vectors have other lines."""
    command, _ = compiler()
    text = "\n".join(path.read_text() for path in PRELUDE)
    return subprocess.run([*command, *FLAGS, f"-DLANES={lanes()}", "-E", "-P", "-x", "c++", "-"], input=text,
                          capture_output=True, text=True, check=True).stdout  # fmt: skip


def caught_by(programs: list[Program], number: int) -> str:
    """The first program that shows a fault, by a difference or an error; empty if none does.

    Or that no kernel of this machine has it.
    """
    clean = [each.clean for each in programs]
    is_generated = number < len(GENERATION)
    here = "" if is_generated else compiled_here()
    with planted(MUTANTS[number]):
        if not is_generated and compiled_here() == here:
            return ELSEWHERE
        for each, before in zip(programs, clean, strict=True):
            try:
                written = each.written()
                if not is_generated or written != before:
                    each.run(written)
            except Exception as error:  # whatever goes wrong: the fault is noticed
                return f"{each.name} ({type(error).__name__})"
    return ""


def tried_apart(programs: list[Program], number: int) -> str:
    """`caught_by` in a child, which may die."""
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(MOST_SECONDS)  # ends a child that hangs
        os.write(sending, caught_by(programs, number).encode())
        os._exit(0)
    os.close(sending)
    with os.fdopen(receiving) as said:
        answer = said.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return answer if code == 0 else f"ended by {code}"


def main() -> None:
    """Try some faults."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DRIVETRAIN_CACHE"] = folder
        programs = every_program()
        for each in programs:
            each.run(each.clean)
        for number in map(int, sys.argv[1:]):
            sys.stdout.write(f"{number}\t{tried_apart(programs, number)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
