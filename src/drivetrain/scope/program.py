"""A profiled program: started with everything that makes its processes record, and otherwise as Python would.

drivetrain profile -> python SCRIPT, with DRIVETRAIN_SCOPE and PYTHONPATH set
                        -> startup/sitecustomize.py -> attach(): record, and hook what the program imports
"""

import atexit
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType

from drivetrain.core.errors import InvalidInput
from drivetrain.scope.hooks import garbage, imports
from drivetrain.scope.session import CALIBRATE_EVERY, create, end, join, leave

FOLDER_VARIABLE = "DRIVETRAIN_SCOPE"
_STARTUP = Path(__file__).parent / "startup"
_FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def run(folder: Path, command: list[str], *, calibrate_every: int = CALIBRATE_EVERY) -> int:
    """Run a Python program with recording on; returns what its process ended with, negative for a signal.

    The program keeps terminal, standard input and process group, so that Ctrl-C reaches it as ever.

    Args:
        folder: A new folder for the session.
        command: What follows `python` on the command line.
        calibrate_every: See `session`.

    Raises:
        InvalidInput: The folder is not empty, or calibrate_every leaves nothing recorded.
    """
    if not command:
        raise InvalidInput("profile: expected SCRIPT.py or -m MODULE, got nothing to run")
    create(folder, command, calibrate_every)
    path = os.pathsep.join(filter(None, [str(_STARTUP), os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, FOLDER_VARIABLE: str(folder.resolve()), "PYTHONPATH": path}
    process = subprocess.Popen([sys.executable, *command], env=environment)

    def forward(signum: int, frame: FrameType | None) -> None:
        process.send_signal(signum)

    before = {signum: signal.signal(signum, forward) for signum in _FORWARDED}
    # The terminal sends it to the program too, which decides what comes of it.
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        code = process.wait()
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
    end(folder, exit_code=code)
    return code


def attach(folder: str) -> None:
    """In a process of the program, before its first line: record, and watch for imports that can be hooked."""
    path = Path(folder)
    join(path)
    imports.install()
    garbage.install()
    atexit.register(leave, path)
