"""Whether GPUs are to be recorded: `drivetrain profile --gpu`."""

import os
from typing import Literal, get_args

from drivetrain.core.errors import CompileError, InvalidInput
from drivetrain.scope.cupti import build, headers
from drivetrain.scope.cupti.injection import INJECTION_VARIABLE, VARIABLE, Plan
from drivetrain.scope.notes import GPU_REFUSED

Mode = Literal["auto", "on", "off"]


def plan(mode: str) -> Plan:
    """Decide it; compiles the layer the first time.

    Args:
        mode: "auto" records where there is a driver and all that is needed, and says why where that lacks something;
            "on" refuses to run without; "off" does nothing.

    Raises:
        InvalidInput: Another mode, or "on" where GPUs cannot be recorded.
    """
    if mode not in get_args(Mode):
        raise InvalidInput(f"--gpu: expected {', '.join(get_args(Mode))}, got {mode!r}")
    if mode == "off" or (mode == "auto" and not headers.has_driver()):
        return Plan()
    lacking = _lacking()
    if lacking and mode == "on":
        raise InvalidInput(f"--gpu on: {lacking}; leave it out to profile without the GPU")
    if lacking:
        instead = "A trace of torch.profiler can be added instead: drivetrain report DIR --kineto FILE."
        return Plan(note=f"{GPU_REFUSED}: {lacking}. {instead}", takes_readings=True)
    cupti, layer = headers.find(), str(build.built())
    assert cupti is not None  # or it would not have been compiled
    environment = {VARIABLE: layer, INJECTION_VARIABLE: layer, headers.LIBRARY_VARIABLE: cupti.library}
    return Plan(environment=environment, takes_readings=True)


def _lacking() -> str:
    """What keeps GPUs from being recorded; empty where nothing does."""
    if not headers.has_driver():
        return "no NVIDIA driver (libcuda.so.1) can be loaded here"
    others = os.environ.get(INJECTION_VARIABLE)
    if others and others != os.environ.get(VARIABLE):
        return f"another tool uses {INJECTION_VARIABLE}={others}"
    try:
        build.built()
    except CompileError as error:
        return str(error)
    return ""
