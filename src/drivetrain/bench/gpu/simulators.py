"""Steps per second of the engine `cuda`, beside XLA on the same GPU (programs/rollouts.py)."""

import json
import tempfile
from pathlib import Path
from typing import Any

from drivetrain.bench.gpu.plan import Found, Part
from drivetrain.bench.gpu.recorded import PROGRAMS
from drivetrain.bench.process import lacking
from drivetrain.bench.report import Case, left_out
from drivetrain.bench.scope.trial import finish
from drivetrain.bench.sim.contenders import CUDA
from drivetrain.core.errors import RunError

NAME = "simulators"
GRAPH, NUM_LAUNCHES = "cuda in a graph", 64
"""Single steps replayed as one CUDA graph (graphs.py): how programs/rollouts.py says so, and how many."""
IN_A_GRAPH = f"ours, {NUM_LAUNCHES} calls as one CUDA graph"
NUM_ROUNDS = 3
SCENES = (
    ("CartPole-v1", 2**20, 64),
    ("CartPole-v1", 2**20, 1),
    ("CartPole-v1", 4096, 64),
    ("Pendulum-v1", 2**18, 64),
    ("Breakout", 2**14, 64),
)
"""Environment, N, K."""


def run(folder: Path, limit_s: float) -> Found:
    """Every scene in a process of its own; those that fail are left out and named.

    Raises:
        RunError: All of them failed.
    """
    cases: list[Case] = []
    failed: dict[str, str] = {}
    for env, num_envs, num_steps in SCENES:
        words = [env, str(num_envs), str(num_steps), str(NUM_ROUNDS), "said.json"]
        name = f"{env}, N = {num_envs:,}, K = {num_steps}"
        try:
            with tempfile.TemporaryDirectory(prefix="drivetrain-bench-") as made:
                finish([str(PROGRAMS / "rollouts.py"), *words], Path(made), limit_s / len(SCENES))
                cases += cases_of(name, json.loads((Path(made) / "said.json").read_text()))
        except RunError as error:
            failed[name] = str(error)
    if not cases:
        raise RunError("; ".join(dict.fromkeys(failed.values())))
    return Found(cases=cases, skipped=left_out(failed))


def cases_of(name: str, said: Any) -> list[Case]:
    """One for each form of recording. XLA is a peer only where it ran on the GPU, too."""
    rates = said["rates"]
    recorded = dict.fromkeys(key.partition(", ")[2] for key in rates)
    peer = "our xla" if said["xla on"] == "gpu" else f"our xla on {said['xla on']}"
    return [
        Case(
            name=f"{name}, {what} recorded",
            unit="M steps/s",
            better="higher",
            group="Simulators on the GPU, by the clock",
            samples={"ours": _millions(rates[f"cuda, {what}"])},
            references={
                **({IN_A_GRAPH: _millions(rates[f"{GRAPH}, {what}"])} if f"{GRAPH}, {what}" in rates else {}),
                peer: _millions(rates[f"xla, {what}"]),
            },
        )
        for what in recorded
    ]


def _millions(rates: list[float]) -> list[float]:
    return [rate / 1e6 for rate in rates]


PART = Part(name=NAME, most_s=130, run=run, missing=lambda: lacking(*CUDA.requires))
