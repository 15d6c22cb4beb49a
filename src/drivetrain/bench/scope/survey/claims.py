"""What RL-Scope found (MLSys 2021, sections 4.1 to 4.4), what the runs say, and whether it still holds.

A claim is judged only by loads that ran; where a GPU would be needed and none was used, it is said.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from drivetrain.bench.scope.survey.loads import OFF_POLICY, ON_POLICY, WALKER, Load
from drivetrain.bench.scope.survey.outcome import Outcome
from drivetrain.bench.train.contenders import SB3, SBX

NO_GPU = "not measured: nothing ran on a GPU"
Outcomes = Mapping[str, tuple[Load, Sequence[Outcome]]]
"""Name of a load -> the load and its runs."""
LEAST_ON_OVER_OFF = 3.5
LEAST_BETWEEN_BACKENDS = 2.3
WALKER_SHARES = {"A2C": 67.0, "PPO": 46.0, "DDPG": 11.0, "SAC": 14.0}
"""Percent of the time that was simulation, read off its figures."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A claim beside our number.

    Attributes:
        claim: What RL-Scope says.
        unit: Of both numbers.
        theirs: Its number; None where it gives none.
        ours: Ours; None where nothing that ran tells.
        holds: Whether the claim holds in our runs; None where they cannot tell.
        because: What the numbers are of, or what is missing.
    """

    claim: str
    unit: str
    theirs: float | None
    ours: float | None
    holds: bool | None
    because: str


def findings(outcomes: Outcomes) -> list[Finding]:
    """All claims, in the order of the paper."""
    envs = list(dict.fromkeys(load.env for load, _ in outcomes.values() if load.algo))
    return [
        *(found for env in envs if (found := on_over_off(outcomes, env)) is not None),
        *(found for algo in WALKER_SHARES if (found := walker_share(outcomes, algo)) is not None),
        between_backends(outcomes),
        between_simulators(outcomes),
        waiting_for_workers(outcomes),
        gpu_share(outcomes),
        nvml_inflation(outcomes),
    ]


def on_over_off(outcomes: Outcomes, env: str) -> Finding | None:
    """How much more of its time an on-policy algorithm simulates, by the means over algorithms."""
    on = _shares(outcomes, lambda load: load.env == env and load.algo in ON_POLICY)
    off = _shares(outcomes, lambda load: load.env == env and load.algo in OFF_POLICY)
    if not on or not off:
        return None
    ratio = statistics.mean(on.values()) / statistics.mean(off.values())
    return Finding(
        claim=f"On-policy algorithms spend at least 3.5 times the share of off-policy ones in simulation ({env})",
        unit="×",
        theirs=LEAST_ON_OVER_OFF,
        ours=ratio,
        holds=ratio >= LEAST_ON_OVER_OFF,
        because=f"the mean of {_listed(on)} over that of {_listed(off)}",
    )


def walker_share(outcomes: Outcomes, algo: str) -> Finding | None:
    """Simulation's share on Walker2d, algorithm by algorithm."""
    shares = _shares(outcomes, lambda load: load.env == WALKER and load.algo == algo)
    if not shares:
        return None
    (share,) = shares.values()
    theirs = WALKER_SHARES[algo]
    return Finding(
        claim=f"{algo} on Walker2D spends about {theirs:.0f}% of its time in simulation",
        unit="%",
        theirs=theirs,
        ours=share,
        holds=abs(share - theirs) <= 10,
        because="within 10 points of it, or not; its Walker2D is PyBullet's, ours MuJoCo's",
    )


def between_backends(outcomes: Outcomes) -> Finding:
    """The largest ratio of time per step between equal algorithms on PyTorch and on JAX."""
    ratios: dict[str, float] = {}
    for load, runs in outcomes.values():
        other = outcomes.get(load.name.replace(SB3.name, SBX.name, 1))
        if load.framework == SB3.name and other is not None and other[0] is not load:
            ratios[f"{load.algo} {load.env}"] = _us_per_step(runs) / _us_per_step(other[1])
    claim = "Equivalent implementations on two frameworks differ by up to 2.3 times in time"
    if not ratios:
        return Finding(claim=claim, unit="×", theirs=LEAST_BETWEEN_BACKENDS, ours=None, holds=None,
                       because=f"needs {SB3.name} and {SBX.name}")  # fmt: skip
    widest = max(ratios, key=lambda name: max(ratios[name], 1 / ratios[name]))
    ratio = max(ratios[widest], 1 / ratios[widest])
    slower = SB3.name if ratios[widest] > 1 else SBX.name
    return Finding(
        claim=claim,
        unit="×",
        theirs=LEAST_BETWEEN_BACKENDS,
        ours=ratio,
        holds=ratio >= LEAST_BETWEEN_BACKENDS,
        because=f"{widest}, where {slower} takes longer per step; {SB3.name} over {SBX.name} in all: "
        + ", ".join(f"{name} {value:.2g}" for name, value in ratios.items()),
    )


def between_simulators(outcomes: Outcomes) -> Finding:
    """How far the share of simulation of one algorithm differs between simulators."""
    claim = "With one algorithm the share of simulation differs with the simulator"
    shares = _shares(outcomes, lambda load: load.algo == "PPO" and load.num_processes == 1)
    if len(shares) < 2 or not min(shares.values()):
        return Finding(claim=claim, unit="×", theirs=None, ours=None, holds=None, because="needs PPO on two simulators")
    ratio = max(shares.values()) / min(shares.values())
    return Finding(claim=claim, unit="×", theirs=None, ours=ratio, holds=ratio >= 2,
                   because=f"largest over smallest, holds from 2 on: {_listed(shares)}")  # fmt: skip


def waiting_for_workers(outcomes: Outcomes) -> Finding:
    """Self-play: how long the process that learns waits for those that play."""
    claim = "In self-play by many processes, playing takes nearly all of the time, and the learner waits"
    load, runs = next(((load, runs) for load, runs in outcomes.values() if not load.algo), (None, ()))
    if load is None:
        return Finding(claim=claim, unit="%", theirs=None, ours=None, holds=None, because="needs PyTorch")
    share = 100 * statistics.median(run.waiting for run in runs)
    return Finding(
        claim=claim,
        unit="%",
        theirs=None,
        ours=share,
        holds=share >= 50,
        because=f"of the learner's time it waited; {load.num_processes} workers at a time; holds from a half on",
    )


def gpu_share(outcomes: Outcomes) -> Finding:
    """How long a GPU works for PPO, in the program for which it works longest."""
    shares = {
        load.name: 100 * statistics.median(gpus)
        for load, runs in outcomes.values()
        if load.algo == "PPO" and (gpus := [run.gpu.busy for run in runs if run.gpu is not None])
    }
    most = max(shares.values(), default=None)
    return Finding(
        claim="The GPU is busy for at most 5% of PPO's time, on every simulator",
        unit="%",
        theirs=5.0,
        ours=most,
        holds=None if most is None else most <= 5.0,
        because=f"the largest: {_listed(shares)}" if shares else NO_GPU,
    )


def nvml_inflation(outcomes: Outcomes) -> Finding:
    """How far NVML's reading is above the time that a GPU works, for self-play."""
    gpus = [run.gpu for load, runs in outcomes.values() if not load.algo for run in runs if run.gpu is not None]
    inflations = [gpu.inflation for gpu in gpus if gpu.inflation is not None]
    ratio = statistics.median(inflations) if inflations else None
    return Finding(
        claim="Under self-play NVML reads 100% while kernels of 16 workers run for 20 of 5,000 seconds",
        unit="×",
        theirs=250.0,
        ours=ratio,
        holds=None if ratio is None else ratio >= 2,
        because="its reading over the share that is busy; holds from 2 on" if inflations else NO_GPU,
    )


def simulation_percent(runs: Sequence[Outcome]) -> float:
    """Median share of simulation."""
    return 100 * statistics.median(run.operations.get("simulation", 0.0) for run in runs)


def _us_per_step(runs: Sequence[Outcome]) -> float:
    return statistics.median(run.us_per_step for run in runs)


def _shares(outcomes: Outcomes, wanted: Callable[[Load], bool]) -> dict[str, float]:
    """Algorithm (and simulator) -> simulation's share in percent, of loads on PyTorch that run in one process."""
    found = [
        (load, simulation_percent(runs))
        for load, runs in outcomes.values()
        if wanted(load) and load.framework == SB3.name and load.num_processes == 1
    ]
    with_env = len({load.env for load, _ in found}) > 1
    return {f"{load.algo} {load.env}" if with_env else load.algo: share for load, share in found}


def _listed(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {share:.0f}%" for name, share in shares.items())
