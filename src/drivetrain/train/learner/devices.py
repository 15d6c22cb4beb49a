"""What the learners compute on: as many CPU devices as there are learners, or GPUs.

    environment_of(config, learns=True) -> a new process -> prepare_devices(config) -> jax.devices()
    reserve_devices(config) -> environments and torsos, which may use JAX -> prepare_devices(config): a sequential run
    environment_of(config, learns=False) -> one that does not learn; leaving_gpus(config): in the one that starts a run

XLA takes its number of threads from the environment when it is loaded, and its number of CPU devices from JAX
when it is first used.
"""

# JAX annotates parts of its interface only:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import contextlib
import os
from collections.abc import Generator, Mapping
from importlib.util import find_spec
from typing import Any, cast

from drivetrain.core.errors import InvalidInput
from drivetrain.core.machine import available_memory, num_cores
from drivetrain.core.processes import said_anew, succeeds_anew
from drivetrain.core.threads import one_thread_environment
from drivetrain.core.words import size
from drivetrain.train.config import TrainConfig, is_simulator

_QUESTION = "import jax; print(len(jax.devices('gpu')))"  # an error where there is none
MIN_WORK = 2_000_000
"""Rows of a batch times parameters below which several learners are refused: an estimate of where they begin to
gain. An exchange takes about 0.1 ms, as long as 1 million of these take a DQN learner on one core
(design/training-learners.md)."""
_NBYTES_PER_PARAMETER = 4 * 5  # float32: itself, its gradient, two moments of Adam, the target network's
_REMEDY = 'install JAX for it (pip install "jax[cuda13]"), or use device "auto" or "cpu"'


def require_platforms(config: TrainConfig) -> None:
    """Refuse a JAX_PLATFORMS in the environment whose devices JAX does not find, before an environment may use it.

    Asked in a process of its own, and only where it names something else than CPUs and the run may use that.

    Raises:
        InvalidInput: It is such.
    """
    platforms = os.environ.get("JAX_PLATFORMS", "")
    if platforms in ("", "cpu") or config.run.device == "cpu" or succeeds_anew("import jax; jax.devices()"):
        return
    raise InvalidInput(
        f"JAX_PLATFORMS: expected devices that JAX finds here, got {platforms!r}; unset that variable of the "
        'environment, or install JAX for them (GPUs: pip install "jax[cuda13]")'
    )


def require_room_for_network(num_parameters: int) -> None:
    """Refuse a network that does not fit before anybody draws its weights, as to measure its updates.

    Raises:
        InvalidInput: It does not.
    """
    needed, available = num_parameters * _NBYTES_PER_PARAMETER, available_memory()
    if needed > available:
        raise InvalidInput(
            f"the network would have {num_parameters:,} parameters, which take {size(needed)} to learn, and "
            f"{size(available)} of memory are available; use narrower layers or smaller observations"
        )


def require_devices(config: TrainConfig, num_parameters: int, cores: int) -> None:
    """Refuse learners that cannot work or would not gain, before anything starts.

    Whether JAX sees GPUs is asked in a process of its own, and only where the run insists on them.

    Args:
        config: The run's.
        num_parameters: Of the acting network.
        cores: That this machine has for us.

    Raises:
        InvalidInput: There are too few GPUs or cores for the learners, or too little work.
    """
    if config.run.device == "gpu":
        said = said_anew(_QUESTION)
        _require_enough(config, int(said.split()[-1]) if said else 0)  # others may print before
    wanted = config.num_learners
    if wanted == 1:
        return
    if not gains(config, num_parameters):
        raise InvalidInput(
            f"num_learners: expected 1, got {wanted}; batches of {config.batch_size} rows for a network of "
            f"{num_parameters:,} parameters are so little work that learners would wait for each other most of the time"
        )
    beside = 0 if config.on_policy else config.num_actors  # on-policy actors wait while learners work
    if config.run.device != "gpu" and wanted + beside > cores and not config.run.oversubscribe:
        who = f"{wanted} learners" + (f" and {beside} actors" if beside else "")
        raise InvalidInput(
            f"num_learners: {who} are more than the {cores} cores here; "
            "a learner that shares its core holds up all of them: use fewer, or set oversubscribe (--oversubscribe) "
            "where actors are mostly idle"
        )


def gains(config: TrainConfig, num_parameters: int) -> bool:
    """Whether updates are large enough for a second learner to be worth the exchange of gradients."""
    return config.batch_size * num_parameters >= MIN_WORK


def has_cpus_only(config: TrainConfig) -> bool:
    """Whether learners can compute on nothing but CPUs, as is known before JAX is loaded: nothing else is asked for, or
    JAX has no plugin for it (https://docs.jax.dev/en/latest/installation.html).
    """
    return config.run.device == "cpu" or (config.run.device == "auto" and find_spec("jax_plugins") is None)


def prepare_devices(config: TrainConfig) -> None:
    """Settle what JAX will compute on; for the process that learns, before its first computation.

    Raises:
        InvalidInput: There are fewer devices than learners, or not of the kind asked for; or JAX has
            been used in this process and can no longer be configured.
    """
    import jax

    if config.run.device == "cpu":
        jax.config.update("jax_platforms", "cpu")
    if config.num_learners > 1:
        try:
            jax.config.update("jax_num_cpu_devices", config.num_learners)
        except RuntimeError as error:
            if jax.device_count() >= config.num_learners:  # an earlier part of this run has set them up
                return
            raise InvalidInput(
                f"num_learners: {config.num_learners} learners in one process have to be set up before JAX is "
                "first used in it; start from a fresh process, or use actor processes (num_actors of at least 1)"
            ) from error
    found = cast("list[Any]", jax.devices())
    if config.run.device == "cpu" and found[0].platform != "cpu":
        raise InvalidInput(
            f"device: expected to learn on the CPU, and JAX was first used in this process for {found[0].platform}; "
            "start from a fresh process, with JAX_PLATFORMS=cpu, or use actor processes (num_actors of at least 1)"
        )
    if config.run.device == "gpu" or found[0].platform == "gpu":
        _require_enough(config, sum(device.platform == "gpu" for device in found))


def environment_of(config: TrainConfig, environ: Mapping[str, str], *, learns: bool) -> dict[str, str]:
    """The variables to set for a new process of a run: one thread for each device, and GPUs for who learns alone.

    What others use JAX for is small. A process takes three quarters of a GPU's memory at its first operation there, and
    keeps them (https://docs.jax.dev/en/latest/gpu_memory_allocation.html): learner and actors would share the rest.

    Args:
        config: The run's.
        environ: The present environment. What it says of JAX's platforms is for all processes, and kept; on GPUs those
            that do not learn then take the memory that they need.
        learns: Whether the process does.
    """
    if learns:
        return one_thread_environment(environ, num_devices=config.num_learners)
    kept = {"JAX_PLATFORMS": "cpu", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    off_gpus = {name: environ.get(name) or usual for name, usual in kept.items()}
    return one_thread_environment(environ) | off_gpus


@contextlib.contextmanager
def leaving_gpus(config: TrainConfig) -> Generator[None]:
    """In the process that starts a run in which others learn: what JAX computes there for simulators, torsos and
    optimizers it computes on the CPU, as others do that do not learn. The caller's JAX is not configured by that.
    """
    uses_jax = is_simulator(config.env) or config.agent.optimizer != "adam" or config.agent.torso != "auto"
    if config.num_actors == 0 or not uses_jax:
        yield
        return
    import jax

    with contextlib.nullcontext() if jax.config.values["jax_platforms"] else jax.default_device("cpu"):
        yield


def reserve_devices(config: TrainConfig) -> None:
    """In the process of a sequential run, before its environment or a torso uses JAX: CPUs where it is to be CPUs, and
    devices for several learners.

    Where their number is to be measured, as many as there are cores, if JAX can still have them.

    Raises:
        InvalidInput: As `prepare_devices`.
    """
    if config.num_actors > 0:
        return
    if config.run.num_learners == "auto":
        import jax

        with contextlib.suppress(RuntimeError):
            jax.config.update("jax_num_cpu_devices", num_cores())
    if config.num_learners > 1 or config.run.device == "cpu":
        prepare_devices(config)


def _require_enough(config: TrainConfig, num_gpus: int) -> None:
    wanted = config.num_learners
    if num_gpus == 0:
        raise InvalidInput(f"device: expected a GPU, and JAX sees none here; {_REMEDY}")
    if num_gpus < wanted:
        raise InvalidInput(f"num_learners: expected at most {num_gpus}, one for each GPU here, got {wanted}")
