"""Python text in a process of one thread, which may fork without a warning."""

import os
import subprocess
import sys


def run_in_child(text, env=None):
    """Run Python text in a process of one thread, which may fork; returns its standard output."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path), **(env or {})}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", text], capture_output=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()
