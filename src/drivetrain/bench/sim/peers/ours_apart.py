"""Our engine `native` in two processes at once, each with half of the environments on one thread.

this process    half of the environments ─▶ a Slice ┐
a second one    the other half           ─▶ a Slice ┴▶ the steps of both, by the longer clock

They share nothing but the machine, so that two threads of one kernel cannot be expected to give more.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, TextIO

from drivetrain.bench.serving import NotOffered, serve
from drivetrain.bench.sim.contenders import OURS
from drivetrain.bench.sim.peers.entry import Session
from drivetrain.bench.sim.peers.ours import simulator
from drivetrain.bench.sim.scene import from_request
from drivetrain.bench.tied import VARIABLE


class Both:
    """Carries out requests here and in another process at the same time."""

    def __init__(self, session: Session, other: TextIO) -> None:
        """`other` is where the process of `ours.py` reads and answers."""
        self.session, self.other = session, other

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out one request."""
        if request["do"] == "open":
            scene = from_request(request["scene"])
            request = {**request, "scene": asdict(replace(scene, num_envs=scene.num_envs // 2))}
        self.other.write(json.dumps(request) + "\n")
        self.other.flush()
        here = self.session.answer(request)
        there = json.loads(self.other.readline())
        if "missing" in there:
            raise NotOffered(there["missing"])
        if "error" in there:
            raise RuntimeError(f"the other process: {there['error']}")
        if request["do"] == "open":
            return {"open_s": max(here["open_s"], there["open_s"])}
        return {
            "num_steps": here["num_steps"] + there["num_steps"],
            "cpu_s": here["cpu_s"],  # of all its children, too
            "wall_s": max(here["wall_s"], there["wall_s"]),
        }


def main() -> None:
    """Be a contender's process, with another one in the same group, which ends when this one hangs up."""
    ours, theirs = socket.socketpair()
    with theirs:
        words = [sys.executable, "-P", "-W", "ignore", "-m", OURS.module, str(theirs.fileno()), OURS.form]
        subprocess.Popen(words, pass_fds=(theirs.fileno(),), env={**os.environ, VARIABLE: str(os.getpid())})
    serve(Both(Session(lambda scene: simulator(scene, "native")), ours.makefile("rw")).answer)


if __name__ == "__main__":
    main()
