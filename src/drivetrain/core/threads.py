"""One computation thread per process: what has to be in the environment before a framework loads.

A learner whose framework starts a thread per core beside busy actors runs an 8 ms update in
64-341 ms; so every process of ours computes in one thread unless it is told otherwise.
"""

from collections.abc import Mapping

from drivetrain.core._native import flush_denormals

_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
_XLA_FLAGS = ("--xla_cpu_multi_thread_eigen=false", "intra_op_parallelism_threads=1")
# Without this, XLA cuts each device's loops into a task per thread of all devices: they then wait for each
# other in every loop, and two devices took 1.4 times as long for a SAC update.
_OF_SEVERAL = "--xla_disable_hlo_passes=cpu-parallel-task-assigner"


def one_thread_environment(environ: Mapping[str, str], *, num_devices: int = 1) -> dict[str, str]:
    """The environment variables that keep a new process at one computation thread per device.

    Args:
        environ: The present environment. What it says about XLA is kept, ours is appended.
        num_devices: CPU devices that XLA will have.

    Returns:
        Only the variables to set, for `Popen(env=...)` or `os.environ.update(...)`. They act on
        frameworks imported afterwards.
    """
    present = environ.get("XLA_FLAGS", "").split()
    wanted = _XLA_FLAGS if num_devices == 1 else (*_XLA_FLAGS, _OF_SEVERAL)
    missing = [flag for flag in wanted if flag not in present]
    # XLA's own thread pools; their size also fixes the bits of its results.
    return {**_ONE_THREAD, "PJRT_NPROC": str(num_devices), "XLA_FLAGS": " ".join(present + missing)}


def prepare_computation() -> None:
    """Round denormal numbers to zero in this thread and in those it starts later.

    Adam's moments decay into denormals (27% of them after 5,600 CartPole updates), and each costs
    a trap into microcode; flushing them made the whole update 1.17-1.25 times faster.
    """
    flush_denormals()
