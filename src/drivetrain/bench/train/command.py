"""`drivetrain bench train`: our training against SB3's, SBX's and CleanRL's, on the work of one algorithm.

    same algorithm    DQN, DDPG, TD3, SAC or PPO, RL-zoo settings, equal steps and updates
    time to target    DQN: our defaults against RL-zoo settings, until the mean return is reached

Times run from just before the environment and the network are made until training ends, over all
processes; compilation is in them, evaluation and the imports of the main process are not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from drivetrain.bench.effort import as_asked, require_at_least
from drivetrain.bench.kept import Kept, conditions
from drivetrain.bench.machine import origin_of
from drivetrain.bench.process import Rival
from drivetrain.bench.publish import Outputs, present, publish
from drivetrain.bench.report import Case, Report, Skipped, left_out
from drivetrain.bench.train.cases import (
    Row,
    continuous_rows,
    image_rows,
    make_cases,
    ppo_rows,
    same_algorithm_rows,
    target_rows,
)
from drivetrain.bench.train.contenders import DISTRIBUTIONS, OURS, PEERS_OF, Runner, on_atari, probe_threads
from drivetrain.bench.train.job import Job, Outcome
from drivetrain.bench.train.plan import PROBE_STEPS, QUICK_STEPS, SETTINGS, STEPS, Plan, Threads
from drivetrain.bench.train.rounds import measure
from drivetrain.bench.train.run import run_rival
from drivetrain.bench.train.weaknesses import ON_IMAGES, QUICK_WEAKNESS, WEAKNESSES
from drivetrain.core.errors import InvalidInput, MissingExtra
from drivetrain.core.outputs import require_folders


class Effort(NamedTuple):
    """Seeds and steps of the same-algorithm rows, and seeds of the time-to-target rows."""

    rounds: int
    steps: int
    target_seeds: int


@dataclass(frozen=True, kw_only=True)
class Options(Outputs):
    """Measure training against Stable-Baselines3, SBX and CleanRL, each run in a fresh process."""

    algo: str = "dqn"
    """The algorithm."""
    env: str = "CartPole-v1"
    """The environment."""
    quick: bool = False
    """A minute rather than half an hour, of one seed, where no more is asked for; the numbers then mean little."""
    rounds: int | None = None
    """Seeds of the same-algorithm rows; by default 3."""
    steps: int | None = None
    """Environment steps of each of their runs; by default 5,000 on Pong, else 50,000 of DQN, 100,000 of PPO, 20,000 of
    the others, and of a quick run 2,000."""
    keep: Path | None = None
    """Keep every run in this file, and take from it those of the same code, job and machine: a stopped command goes
    on, and a later one with more rounds adds to them."""
    target_seeds: int | None = None
    """Seeds of the time-to-target rows, which DQN on CartPole has; by default 5; 0 leaves them out."""

    def check(self) -> None:
        """Refuse what cannot be run. Not at construction: tyro would turn the sentence into a box.

        Raises:
            InvalidInput: No settings for the algorithm and environment, or a flag is out of range.
        """
        if (self.algo, self.env) not in SETTINGS:
            known = ", ".join(f"--algo {algo} --env {env}" for algo, env in SETTINGS)
            raise InvalidInput(f"{self.algo} on {self.env} has no settings to compare by: use {known}")
        effort = self.effort()
        require_at_least(1, rounds=effort.rounds)
        require_at_least(0, target_seeds=effort.target_seeds)
        settings = SETTINGS[self.algo, self.env]
        if settings.num_updates(effort.steps) < 1:
            least = f"{settings.learning_starts:,}"
            raise InvalidInput(f"--steps: expected more than the {least} before the first update, got {effort.steps:,}")
        require_folders(self.json, self.markdown, self.keep)

    def effort(self) -> Effort:
        """How much is run."""
        full = Effort(3, self._of(STEPS, 20_000), 5)
        return as_asked(Effort(1, QUICK_STEPS, 1) if self.quick else full, self)

    def plan(self) -> Plan:
        """What is run for these options."""
        effort = self.effort()
        plan = Plan(
            algo=self.algo,
            env=self.env,
            settings=SETTINGS[self.algo, self.env],
            fixed_steps=effort.steps,
            probe_steps=self._of(PROBE_STEPS, 3_000),
            fixed_seeds=range(1, effort.rounds + 1),
            target_seeds=range(1, effort.target_seeds + 1) if (self.algo, self.env) == ("dqn", "CartPole-v1") else (),
        )
        return plan.quickened() if self.quick else plan

    def _of(self, numbers: Mapping[str, int], otherwise: int) -> int:
        return numbers.get(self.env, numbers.get(self.algo, otherwise))


def run(options: Options, words: Sequence[str]) -> int:
    """Measure, print the page, and write what was asked for; the exit code.

    Args:
        options: What to measure.
        words: The command line after `drivetrain bench`, for the report.

    Raises:
        InvalidInput: The options cannot be run; nothing was.
        MissingExtra: We cannot train here ourselves.
        FileFormatError: The file of kept runs is something else.
        RunError: A run of ours failed, or a contender did other work than asked for.
    """
    options.check()
    ours = on_atari(OURS) if options.plan().on_images else OURS
    if (missing := ours.missing()) is not None:
        raise MissingExtra(f"training is {missing.reason}: {missing.remedy}")
    report = make_report(options, words, runner_of(run_rival, options.keep))
    publish(report, options)
    return 0


def runner_of(run: Runner, file: Path | None) -> Runner:
    """The same runner, which takes from the file what is there and adds what it runs; no file: the runner itself.

    Raises:
        InvalidInput: Runs of this code could not be known again.
        FileFormatError: The file is something else.
    """
    if file is None:
        return run
    kept = Kept(file, command="train", restored=lambda saved: Outcome(**saved), conditions=conditions(DISTRIBUTIONS))

    def run_once(rival: Rival, job: Job) -> Outcome:
        return kept.once({"rival": rival.module, "job": asdict(job)}, lambda: run(rival, job))

    return run_once


def make_report(options: Options, words: Sequence[str], run_one: Runner) -> Report:
    """Run everybody who is here, and gather it."""
    plan, origin = options.plan(), origin_of(words, DISTRIBUTIONS)
    peers, absent = present([on_atari(peer) if plan.on_images else peer for peer in PEERS_OF[options.algo]])
    threads, probe, unfit = choose_threads(plan, peers, run_one)
    peers = [peer for peer in peers if peer.name in threads]
    fixed, fixed_failures = measure_same_algorithm(plan, peers, threads, run_one, quick=options.quick)
    target, target_failures = measure_to_target(plan, peers, threads, run_one)
    return Report(
        title=f"{options.algo} on {options.env}, against Stable-Baselines3, SBX and CleanRL",
        origin=replace(origin, machine={**origin.machine, "threads": dict(threads), "thread_probe": dict(probe)}),
        weaknesses=[
            *([QUICK_WEAKNESS] if options.quick else []),
            *(ON_IMAGES if plan.on_images else WEAKNESSES)[options.algo],
        ],
        cases=[*fixed, *target],
        skipped=[*absent, *left_out(unfit), *fixed_failures, *target_failures],
    )


def choose_threads(
    plan: Plan, peers: Sequence[Rival], run_one: Runner
) -> tuple[Threads, Mapping[str, Any], Mapping[str, str]]:
    """Each peer's better number of threads, the measurement behind it, and the reasons of those that failed."""
    if plan.probe_steps == 0 or not peers:
        return {peer.name: 1 for peer in peers}, {}, {}
    print(f"choosing the peers' threads: {plan.probe_steps:,} steps each", flush=True)
    by_cpu = plan.algo == "dqn"  # what its goal is in; the others' goals are in wall time
    return probe_threads(
        peers,
        plan.fixed_job(plan.probe_steps),
        run_one,
        lambda outcome: outcome.cpu_s if by_cpu else outcome.wall_s,
    )


def measure_same_algorithm(
    plan: Plan, peers: Sequence[Rival], threads: Threads, run_one: Runner, *, quick: bool
) -> tuple[list[Case], list[Skipped]]:
    """The algorithm at equal steps and updates; a quick run has fewer rows."""
    rows = rows_of(plan, [peer.name for peer in peers], quick=quick)
    contenders = plan.same_algorithm(peers, threads, rows)
    print(f"same algorithm: {plan.fixed_steps:,} steps, {len(plan.fixed_seeds)} rounds", flush=True)
    results, failed = measure(contenders, plan.fixed_seeds, run_one)
    return make_cases(rows, results), left_out(failed)


def rows_of(plan: Plan, peers: Sequence[str], *, quick: bool) -> list[Row]:
    """The comparisons of the plan's algorithm."""
    if plan.algo == "dqn":
        return image_rows(plan.env, peers) if plan.on_images else same_algorithm_rows(plan.env, peers, quick=quick)
    if plan.algo == "ppo":
        return ppo_rows(plan.env, peers, quick=quick, on_images=plan.on_images)
    return continuous_rows(plan.algo, plan.env, peers, quick=quick)


def measure_to_target(
    plan: Plan, peers: Sequence[Rival], threads: Threads, run_one: Runner
) -> tuple[list[Case], list[Skipped]]:
    """Our defaults against tuned settings, until the target is reached."""
    if not plan.target_seeds:
        return [], []
    rows = target_rows(plan.env, [peer.name for peer in peers], plan.target_return)
    print(f"to mean return {plan.target_return:g}: {len(plan.target_seeds)} rounds", flush=True)
    results, failed = measure(plan.to_target(peers, threads), plan.target_seeds, run_one)
    return make_cases(rows, results), left_out(failed)
