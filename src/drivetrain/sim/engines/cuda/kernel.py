"""A whole kernel as CUDA C++: one thread per environment, 32 neighbours a tile, K steps inside.

The text between the opening and the end is what `native` writes. What a value is (thread.hpp) and how threads reach
memory (warp.hpp) are its own; what is computed (rare.hpp, prelude.hpp) is shared, which is why bits are equal.
"""

from pathlib import Path

from drivetrain.core.errors import CompileError
from drivetrain.sim.engines.native.engine import lowered
from drivetrain.sim.engines.native.kept import kept_source
from drivetrain.sim.engines.native.kernel import write_kernel
from drivetrain.sim.ir.passes.scalars import MOST_ELEMENTS
from drivetrain.sim.recalling import Recalled
from drivetrain.sim.trace import Traced

NAME = "drivetrain_run"
THREADS = 128
"""Of a block: four warps, so that a few environments spread over many processors."""
CHUNK = 8
"""32-bit words of each environment's row that a warp brings into order at once: a sector of memory."""
MOST_SCRATCH_NBYTES = 32768
"""Of a thread's local memory; the driver keeps as much for every thread that can be resident, 270,000 on an H200."""
SIZES = f"#define THREADS {THREADS}\n#define CHUNK {CHUNK}\n#define IN_REGISTERS {MOST_ELEMENTS}"
FROM_HOST = "#define FIRST_STEP uint32_t first_step\n#define READ_FIRST_STEP"
FROM_DEVICE = (
    "#define FIRST_STEP const uint32_t* counted\n#define READ_FIRST_STEP const uint32_t first_step = *counted;"
)
"""How a kernel is told the first step's number: as a number; inside a program of JAX as an array, like all others."""
OWN, SHARED = Path(__file__).parent, Path(__file__).parents[1] / "native"
PRELUDE = (OWN / "thread.hpp", SHARED / "rare.hpp", SHARED / "prelude.hpp", OWN / "warp.hpp")
TILES = (
    "for (int64_t tile = (int64_t)blockIdx.x * (THREADS / LANES) + threadIdx.x / LANES; tile * LANES < num_envs; "
    "tile += (int64_t)gridDim.x * (THREADS / LANES))"
)


def source_of(traced: Traced | Recalled, first_step: str = FROM_HOST) -> str:
    """CUDA C++ of a traced step, with its prelude; written now or before.

    Args:
        first_step: How the kernel is told its number.

    Raises:
        CompileError: It is not in the representation, or needs too much local memory.
        SourceGone: The step was recalled, and its source is no longer there.
    """
    prelude = [SIZES, first_step, *(path.read_text() for path in PRELUDE)]
    return "\n".join([*prelude, kept_source(traced, own_source_of, ".cu")])


def own_source_of(traced: Traced) -> str:
    """The same without its prelude.

    Raises:
        CompileError: It is not in the representation, or needs too much local memory.
    """
    block, layout = lowered(traced)
    names = [f"p{k}" for k in range(layout.num_arrays)]
    opening = (opening_of(names), f"READ_FIRST_STEP\n  void* const p[] = {{{', '.join(names)}}};\n  {TILES}")
    written = write_kernel(block, layout, opening=opening, tables="static __device__ const")
    if written.scratch_nbytes > MOST_SCRATCH_NBYTES:
        raise CompileError(
            f"one environment needs {written.scratch_nbytes} bytes while it steps, and the limit of a thread on a GPU "
            f"is {MOST_SCRATCH_NBYTES}: make its arrays smaller, those between state and observation, too, "
            'or compile with engine="native"'
        )
    return written.source


def opening_of(names: list[str]) -> str:
    """The function: numbers of environments and steps, the first step's number, and a pointer per array."""
    arrays = ", ".join(f"void* {name}" for name in names)
    return (
        f'extern "C" __global__ void __launch_bounds__(THREADS) {NAME}(int64_t num_envs, int64_t num_steps, '
        f"FIRST_STEP, {arrays})"
    )
