"""The engine `native`: compiles a step to a kernel and runs it over tiles, on as many threads as asked."""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy.typing as npt

from drivetrain.core._native import Tiles, addresses
from drivetrain.sim.api import RolloutState, Runner, Settings, Tree
from drivetrain.sim.engines.arrays import any_traced
from drivetrain.sim.engines.custom_call.library import enter, handlers
from drivetrain.sim.engines.custom_call.program import Program, program_of
from drivetrain.sim.engines.native.compilation import effort_for, lanes, load_kernel, num_registers
from drivetrain.sim.engines.native.forms import form_for, write_forms
from drivetrain.sim.engines.native.kept import kept_source
from drivetrain.sim.engines.native.layout import Layout
from drivetrain.sim.engines.native.written import Written, kernels_of, text_of
from drivetrain.sim.engines.recycled import Recycled
from drivetrain.sim.engines.signature import Signature, call_kernel
from drivetrain.sim.engines.toolchain import digest_of
from drivetrain.sim.ir.importer import import_jaxpr
from drivetrain.sim.ir.passes.pipeline import simplified, vectorizable
from drivetrain.sim.ir.program import Block
from drivetrain.sim.recalling import Recalled
from drivetrain.sim.trace import Shapes, Traced

Array = npt.NDArray[Any]


def build(traced: Traced | Recalled, settings: Settings) -> Runner:
    """Compile, or find compiled; the result runs without JAX.

    Raises:
        CompileError: See `source_of` and `compilation.load_kernel`.
        SourceGone: The step was recalled, and its source is no longer there.
    """
    num_lanes, written = lanes(), written_for(traced, settings)
    return Kernel(traced, settings, load(written), num_lanes * written.num_tiles)


def load(written: Written) -> ctypes.CDLL:
    """A kernel, compiled now or before with the effort that its size allows."""
    return load_kernel(written.source, lanes(), effort_for(written.num_characters))


def written_for(traced: Traced | Recalled, settings: Settings) -> Written:
    """The kernel of a step, written now or before, in the form for its settings."""
    forms = kernels_of(kept_source(traced, source_of, f".{num_registers()}.cpp"))
    return form_for(forms, -(-settings.num_envs // lanes()), settings.num_threads)


def source_of(traced: Traced) -> str:
    """C++ of a traced step, in every form that is good for some number of environments.

    Raises:
        CompileError: It is not in the representation, or needs more memory than there is for a kernel.
    """
    return text_of(write_forms(*lowered(traced)))


def lowered(traced: Traced) -> tuple[Block, Layout]:
    """A traced step in the form that kernels are written from.

    Raises:
        CompileError: It is not in the representation.
    """
    imported = simplified(import_jaxpr(traced.jaxpr, traced.name))
    layout = layout_of(imported, traced)
    return vectorizable(imported, layout.shared), layout


def layout_of(imported: Block, traced: Shapes) -> Layout:
    """Which of the step's inputs and outputs are state, actions, records and shared."""
    num_state = len(jax.tree.leaves(traced.state))
    first_shared = 3 + num_state + len(jax.tree.leaves(traced.action))
    return Layout(
        state=imported.inputs[2 : 2 + num_state],
        actions=imported.inputs[3 + num_state : first_shared],
        record=imported.outputs[num_state + 1 :],
        shared=imported.inputs[first_shared:],
    )


class Kernel:
    """A loaded kernel with the shapes it takes. Calls share nothing, so threads may call at the same time."""

    def __init__(self, traced: Shapes, settings: Settings, library: ctypes.CDLL, num_at_once: int) -> None:
        """Threads, if there are to be several, are the caller and a pool of helpers; in a program of JAX, XLA's.

        Args:
            num_at_once: Environments that a turn of the kernel steps.
        """
        self.traced, self.settings = traced, settings
        self.signature = Signature(traced, settings)
        self.digest, self.run = digest_of(library), library.drivetrain_run
        self.run.argtypes = [ctypes.c_int64] * 4 + [ctypes.c_uint32, ctypes.c_void_p]
        self.run.restype = None
        self.address = ctypes.cast(self.run, ctypes.c_void_p).value or 0
        self.num_turns = -(-settings.num_envs // num_at_once)
        self.tiles = Tiles(min(settings.num_threads, self.num_turns))
        self.memory = Recycled(len(self.signature.outputs))

    def __call__(self, state: RolloutState, actions: Tree, shared: Tree = ()) -> tuple[RolloutState, dict[str, Tree]]:
        """See `Runner`; inside a program that JAX traces, an operation of it."""
        leaves = self.signature.flat(state, actions, shared)
        inside = any_traced((state.step, *leaves))
        memory, launch = (self.program, self.program.launch) if inside else (self.memory, self.launch)
        return call_kernel(self.signature, memory, launch, leaves, state.step)

    @functools.cached_property
    def program(self) -> Program:
        """What the kernel is in programs of JAX."""
        handler = handlers("native.cpp", "drivetrain_native", "cpu")
        enter(handler, self.digest, self.run)
        counts = {"num_tiles": self.num_turns, "num_threads": self.settings.num_threads}
        return program_of("drivetrain_native", self.digest, self.traced, self.settings, **counts)

    def launch(self, number: int, inputs: Sequence[Array], outputs: Sequence[Array]) -> Sequence[Array]:
        """Run all turns."""
        settings, pointers = self.settings, addresses([*inputs, *outputs])
        self.tiles.run(self.address, self.num_turns, settings.num_envs, settings.num_steps, number, pointers)
        return outputs
