"""Runs programs in processes of their own, by themselves and under `drivetrain profile`."""

import os
import subprocess
import sys
from collections import Counter

from drivetrain import scope
from drivetrain.scope.trace.events import BEGIN
from strictness import STRICT


def alone(text, *arguments, stdin=b"", check=True):
    """The finished process of a script of this text, in which warnings are errors."""
    done = subprocess.run(
        [sys.executable, *STRICT, "-c", text, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        input=stdin,
        capture_output=True,
        check=False,
    )
    return checked(done) if check else done


def checked(done):
    """The same, if it ended well."""
    if done.returncode != 0:
        raise AssertionError(f"exit code {done.returncode}\n{done.stderr.decode()}")
    return done


def profiled(folder, *command, check=True, stdin=b"", cwd=None, python_path=(), pass_fds=()):
    """The finished process of `drivetrain profile -o FOLDER COMMAND`."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, python_path), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-m", "drivetrain.cli.main", "profile", "-o", str(folder), *map(str, command)],
        env=environment,
        input=stdin,
        capture_output=True,
        cwd=cwd,
        pass_fds=pass_fds,
        check=False,
    )
    return checked(done) if check else done


def profiled_text(folder, text, *, calibrate_every=0, **how):
    """The same for a script of this text; every step is recorded unless told otherwise, so calls can be counted."""
    script = folder.with_suffix(".py")
    script.write_text(text)
    return profiled(folder, "--calibrate-every", calibrate_every, script, **how)


def entered(folder):
    """How often each site was entered, in all threads."""
    trace = scope.load(folder).trace
    counts = Counter()
    for thread in trace.threads:
        counts.update(trace.sites[site].name for site in thread.site[thread.kind == BEGIN].tolist())
    return counts
