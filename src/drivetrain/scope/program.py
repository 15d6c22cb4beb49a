"""A profiled program: started with everything that makes its processes record, and otherwise as Python would.

drivetrain profile -> python SCRIPT, with DRIVETRAIN_SCOPE and PYTHONPATH set
                        -> startup/sitecustomize.py -> attach(): record, and hook what the program imports
"""

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

from drivetrain.core.bystander import Bystander
from drivetrain.core.errors import InvalidInput
from drivetrain.scope.cupti import injection
from drivetrain.scope.cupti.readings import Readings
from drivetrain.scope.hooks import garbage, imports, named, torch_operators
from drivetrain.scope.notes import GPU_REFUSED, leave_note
from drivetrain.scope.process import is_here, leave, require_main_interpreter
from drivetrain.scope.session import CALIBRATE_EVERY, create, end, join, read_about

FOLDER_VARIABLE = "DRIVETRAIN_SCOPE"
_STARTUP = Path(__file__).parent / "startup"
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


NO_HOOKS: Mapping[str, str] = {named.VARIABLE: "", torch_operators.VARIABLE: ""}
NO_GPU = injection.Plan()


def asked_hooks(simulators: Sequence[str], *, operators: bool) -> Mapping[str, str]:
    """The environment that tells a program's processes what to hook beside what is found by itself.

    Args:
        simulators: Functions that simulate, as MODULE:FUNCTION or MODULE:CLASS.METHOD.
        operators: Whether to record each operator of PyTorch, rather than modules whole.

    Raises:
        InvalidInput: A simulator has no such name, or operators cannot be recorded here.
    """
    names = named.joined([named.checked(name) for name in simulators])
    return {named.VARIABLE: names, torch_operators.VARIABLE: str(torch_operators.built()) if operators else ""}


def run(
    folder: Path,
    command: list[str],
    hooks: Mapping[str, str] = NO_HOOKS,
    *,
    gpu: injection.Plan = NO_GPU,
    calibrate_every: int = CALIBRATE_EVERY,
) -> int:
    """Run a Python program with recording on; returns what its process ended with, negative for a signal.

    The program keeps terminal, standard input, all else that is open for it, and process group, so that Ctrl-C reaches
    it as ever; signals that this process alone is sent are passed on.

    Args:
        folder: A new folder for the session.
        command: What follows `python` on the command line.
        hooks: What is to be hooked beside what is found by itself: see `asked_hooks`.
        gpu: What is to be done about GPUs: see `cupti.plan.plan`.
        calibrate_every: See `session`.

    Raises:
        InvalidInput: The folder is not empty, or calibrate_every leaves nothing recorded.
    """
    if not command:
        raise InvalidInput("profile: expected SCRIPT.py or -m MODULE, got nothing to run")
    create(folder, command, calibrate_every)
    path = os.pathsep.join(filter(None, [str(_STARTUP), os.environ.get("PYTHONPATH", "")]))
    if gpu.note:
        leave_note(folder, "gpu-plan", gpu.note)
    named.note_all_as_missing(folder, hooks.get(named.VARIABLE, ""))
    environment = {**os.environ, **hooks, **gpu.environment, FOLDER_VARIABLE: str(folder.resolve()), "PYTHONPATH": path}
    process: subprocess.Popen[bytes] | None = None
    early: list[int] = []
    with Bystander(_FORWARDED) as bystander:

        def forward(signum: int, frame: FrameType | None) -> None:
            if process is None:
                early.append(signum)
            # What a terminal or `timeout` sends, the program gets too, and decides what comes of it: not twice.
            elif not bystander.was_told_of(signum):
                process.send_signal(signum)

        # What we ignore, as `nohup` and shells ask that start something behind, the program has to inherit.
        ignored = [signum for signum in _FORWARDED if signal.getsignal(signum) is signal.SIG_IGN]
        before = {signum: signal.signal(signum, forward) for signum in _FORWARDED if signum not in ignored}
        try:
            # What was opened for the program stays open, as `<(...)` of a shell; what we open is not inherited.
            process = subprocess.Popen([sys.executable, *command], env=environment, close_fds=False)
            before.update({signum: signal.signal(signum, forward) for signum in ignored})
            if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:  # which nobody is told exit codes with
                before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for signum in early:  # also those of the group, which the program was no part of yet
                process.send_signal(signum)
            with Readings(folder) if gpu.takes_readings else contextlib.nullcontext():
                code = process.wait()
                ended_ns = time.monotonic_ns()  # NVML may take its time to say the last
        finally:
            for signum, handler in before.items():
                signal.signal(signum, handler)
    with contextlib.suppress(OSError):  # of a full disk, say: how the program ended is told in any case
        end(folder, end_ns=ended_ns, exit_code=code, program=process.pid)
    return code


def attach(folder: str) -> None:
    """In a process of the program, before its first line: record, and watch for imports that can be hooked.

    Raises:
        InvalidInput: It runs on another machine than the session, or in a subinterpreter of a process that records.
        OSError: The folder cannot be written; nothing is recorded.
    """
    path = Path(folder)
    require_main_interpreter()
    session = read_about(path)
    if "end_ns" in session:  # what the program has left running starts others
        return
    if not is_here(session):  # as with schedulers that pass on the environment
        raise InvalidInput(
            "it runs on another machine, whose clock is not the session's; run `drivetrain profile` there"
        )
    join(path)
    try:
        injection.attach()
    except Exception as error:  # everything else can be recorded all the same
        leave_note(path, "gpu-attach", f"{GPU_REFUSED}: {error}")
    imports.install()
    garbage.install()
    atexit.register(leave, path)
    atexit.register(imports.note_missed)
