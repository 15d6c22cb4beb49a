"""The rows of `drivetrain bench train`: which contender stands beside which, in which quantity."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from drivetrain.bench.report import Case, Target
from drivetrain.bench.train.contenders import ONE_ENV
from drivetrain.bench.train.job import Outcome
from drivetrain.bench.train.rounds import Results, details_of

WHOLE = "CPU-s with imports"
UNITS = ("CPU-s", WHOLE, "wall s")
PPO_UNITS = ("steps/s", "CPU-s", WHOLE)
CONTINUOUS_UNITS = ("wall s", "updates/s", "CPU-s", WHOLE)
GOAL = {"SB3": 5.0, "SBX": 2.0}  # same algorithm, CPU-seconds: how far ahead we promise to be


@dataclass(frozen=True, kw_only=True)
class Row:
    """One comparison: a form of ours, the form of the peers it stands beside, and what to know."""

    name: str
    ours: str
    peers: Mapping[str, str]  # peer -> label of its form
    notes: Sequence[str]
    goal: Mapping[str, float]
    units: Sequence[str] = UNITS


def same_algorithm_rows(env: str, peers: Sequence[str], *, quick: bool) -> list[Row]:
    """Vanilla DQN on equal terms, from the strictest comparison to the usual one.

    A quick run has the last row alone, and promises nothing.
    """
    one = {peer: f"{peer}, 1 env" for peer in peers}
    eight = {peer: f"{peer}, 8 envs" for peer in peers if peer not in ONE_ENV}
    forms = [
        ("1 environment on all sides", "ours sequential, 1 env", one, "one environment, sequential"),
        ("8 environments on all sides", "ours sequential, 8 envs", eight, "8 environments, sequential"),
        ("8 environments, ours parallel", "ours parallel, 8 envs", eight, "8 environments, our processes"),
        ("zoo peers, ours sequential", "ours sequential, 8 envs", one, "peers 1 environment, ours 8"),
        ("zoo peers, ours parallel", "ours parallel, 8 envs", one, "peers 1 environment, ours 8"),
    ]
    goal = {} if quick else GOAL
    rows = [
        Row(name=f"dqn {env}, same algorithm: {name}", ours=ours, peers=theirs, notes=(note,), goal=goal)
        for name, ours, theirs, note in forms
    ]
    return rows[-1:] if quick else rows


def image_rows(env: str, peers: Sequence[str]) -> list[Row]:
    """Vanilla DQN on images, where the tuned settings step one environment; nothing is promised."""
    return [
        Row(
            name=f"dqn {env}, same algorithm: ours {form}",
            ours=ours,
            peers={peer: f"{peer}, 1 env" for peer in peers},
            notes=(note, "an update of 32 images after every fourth step on all sides"),
            goal={},
        )
        for form, ours, note in (
            ("sequential", "ours sequential, 1 env", "one environment on all sides"),
            ("parallel", "ours parallel, 8 envs", "one environment for the peers, our processes and 8 for ours"),
        )
    ]


def ppo_rows(env: str, peers: Sequence[str], *, quick: bool, on_images: bool = False) -> list[Row]:
    """PPO on equal terms, sequential and with processes; a quick run promises nothing.

    On images, where there is enough to share, by two learners, too.
    """
    return [
        Row(
            name=f"ppo {env}, same algorithm: ours {form}",
            ours=f"ours {form}",
            peers={peer: peer for peer in peers},
            notes=("as many environments on all sides; rollouts, epochs and minibatches alike",),
            goal={} if quick else dict.fromkeys(peers, 1.0),
            units=PPO_UNITS,
        )
        for form in ("sequential", "parallel", *(["2 learners"] if on_images else []))
    ]


def continuous_rows(algo: str, env: str, peers: Sequence[str], *, quick: bool) -> list[Row]:
    """SAC, TD3 or DDPG with one update per step, in our forms; a quick run promises nothing."""
    goals = {("sac", "Pendulum-v1"): {"SB3": 2.2, "SBX": 1.5}}
    if env == "HalfCheetah-v5":
        goals = {("sac", env): {"SB3": 2.5, "SBX": 1.7}, ("td3", env): {"SB3": 2.5, "SBX": 1.7}}
    return [
        Row(
            name=f"{algo} {env}, same algorithm: ours {form}",
            ours=f"ours {form}",
            peers={peer: peer for peer in peers},
            notes=(note, "an update of one batch per step on all sides"),
            goal={} if quick else goals.get((algo, env), {}),
            units=CONTINUOUS_UNITS,
        )
        for form, note in (
            ("sequential", "one environment on all sides; ours updates in one thread"),
            ("sequential, 2 learners", "one environment on all sides; ours updates in two threads"),
            ("parallel", "one environment for the peers, the default processes and environments for ours"),
            ("2 learners", "one environment for the peers, one actor of 8 and two learners for ours"),
        )
    ]


def target_rows(env: str, peers: Sequence[str], target_return: float) -> list[Row]:
    """Time to the target: each side with the settings it recommends."""
    return [
        Row(
            name=f"dqn {env}, time to mean return {target_return:g}",
            ours="ours, defaults",
            peers={peer: f"{peer}, zoo" for peer in peers},
            notes=("our defaults against RL-zoo settings",),
            goal={},
        )
    ]


def make_cases(rows: Sequence[Row], results: Results) -> list[Case]:
    """One case per row and unit; rows without a run of ours are left out."""
    return [make_case(row, unit, results) for row in rows for unit in row.units if results.get(row.ours)]


def make_case(row: Row, unit: str, results: Results) -> Case:
    """One quantity of one row."""
    outcomes = {"ours": results[row.ours]}
    outcomes |= {peer: results.get(label, []) for peer, label in row.peers.items()}
    present = {name: runs for name, runs in outcomes.items() if runs}
    return Case(
        name=f"{row.name} [{unit}]",
        unit=unit,
        better="higher" if unit.endswith("/s") else "lower",
        samples={name: [quantity(run, unit) for run in runs] for name, runs in present.items()},
        targets=[Target(against=peer, aim=aim) for peer, aim in row.goal.items()] if unit == row.units[0] else (),
        notes=[*row.notes, *notes_on_reaching(present), *notes_on_returns(present)],
        details={name: details_of(runs) for name, runs in present.items()},
    )


def quantity(outcome: Outcome, unit: str) -> float:
    """The value of one run in a unit."""
    values = {
        "CPU-s": outcome.cpu_s,
        WHOLE: outcome.import_cpu_s + outcome.cpu_s,
        "wall s": outcome.wall_s,
        "steps/s": outcome.num_steps / outcome.wall_s,
        "updates/s": outcome.num_updates / outcome.wall_s,
    }
    return values[unit]


def notes_on_reaching(outcomes: Mapping[str, Sequence[Outcome]]) -> list[str]:
    """How many runs reached the target; one that did not counts with its whole, too short, time."""
    notes: list[str] = []
    for name, runs in outcomes.items():
        if any(run.reached is not None for run in runs):
            notes.append(f"{name}: {sum(run.reached is True for run in runs)} of {len(runs)} reached it")
    return notes


def notes_on_returns(outcomes: Mapping[str, Sequence[Outcome]]) -> list[str]:
    """The final policies' mean returns where all had the same steps: who is fast by learning less would show it."""
    notes: list[str] = []
    for name, runs in outcomes.items():
        returns = [run.mean_return for run in runs if run.mean_return is not None and run.reached is None]
        if returns:
            notes.append(f"{name}: mean returns at the end {', '.join(f'{each:.0f}' for each in returns)}")
    return notes
