"""`drivetrain bench learning`: run what is missing, keep it, and make the page of everything kept."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from drivetrain.bench.learning.case import LearningCase
from drivetrain.bench.learning.contests import CONTESTS, Contest
from drivetrain.bench.learning.page import as_markdown
from drivetrain.bench.learning.records import add, counting, load, make_record
from drivetrain.bench.learning.run import run_side
from drivetrain.bench.learning.sides import Side, chosen
from drivetrain.bench.machine import Origin, origin_of
from drivetrain.bench.publish import present
from drivetrain.core.aside import save_text
from drivetrain.core.errors import InvalidInput, RunError
from drivetrain.core.outputs import require_folders

DISTRIBUTIONS = (
    *("jax", "jaxlib", "optax", "gymnasium", "numpy", "scipy"),
    *("torch", "stable-baselines3", "box2d", "mujoco"),
)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Compare the returns that we and others learn at equal settings, steps and updates.

    Finished runs are kept, and not run again: stop the command at any time, and start it again.
    """

    against: Literal["sb3", "gymnasium"] = "sb3"
    """Ours against Stable-Baselines3; or actors on compiled simulators against the same through Gymnasium."""
    json: Path = Path("learning.json")
    """The file of kept runs; made if it is absent."""
    markdown: Path | None = None
    """Write the page of all kept runs to this file."""
    cases: tuple[str, ...] = ()
    """Only cases with one of these words in their name, such as dqn or Pendulum."""
    sides: tuple[str, ...] = ()
    """Only these of: ours, ours-processes, sb3, sb3-eight; on simulators: fused, fused-processes, gymnasium."""
    seeds: str | None = None
    """Which seeds, such as 1..5 or 7; by default as many as a case needs for a verdict."""
    quick: bool = False
    """A few hundred updates of each case, of one seed where no more are asked for: minutes rather than many hours, and
    nothing is kept."""

    @property
    def contest(self) -> Contest:
        """Who is compared with whom."""
        return CONTESTS[self.against]

    def check(self) -> None:
        """Refuse what cannot be run. Not at construction: tyro would turn the sentence into a box.

        Raises:
            InvalidInput: A case or side does not exist, a flag cannot be read, a folder is missing.
            FileFormatError: The file of kept runs is none.
        """
        self.contest.matching(self.cases)
        chosen(self.sides, self.contest.sides)
        if self.seeds is not None:
            seeds_of(self.seeds)
        if self.quick and self.markdown is not None:
            raise InvalidInput("--quick: expected no --markdown, as nothing is kept to make a page of; leave one out")
        require_folders(self.json, self.markdown)
        load(self.json)

    def seeds_for(self, case: LearningCase) -> Sequence[int]:
        """The seeds that are run of a case."""
        if self.seeds is not None:
            return seeds_of(self.seeds)
        return range(1, 2 if self.quick else case.num_seeds + 1)


def seeds_of(text: str) -> Sequence[int]:
    """The seeds that a text such as "1..5" or "7" names.

    Raises:
        InvalidInput: It names none.
    """
    first, _, last = text.partition("..")
    try:
        seeds = range(int(first), int(last or first) + 1)
    except ValueError:
        seeds = range(0)
    if not seeds or seeds[0] < 0:
        raise InvalidInput(f"--seeds: expected a seed such as 3, or a range such as 1..5, got {text!r}")
    return seeds


def run(options: Options, words: Sequence[str]) -> int:
    """Run what is missing, write and print the page; the exit code, 1 where a run failed.

    Args:
        options: What to compare.
        words: The command line after `drivetrain bench`, for the records.

    Raises:
        InvalidInput: The options cannot be run; nothing was.
    """
    options.check()
    origin = origin_of(words, DISTRIBUTIONS)
    sides = chosen(options.sides, options.contest.sides)
    here, _ = present(list(dict.fromkeys(side.rival for side in sides)))
    able = [side for side in sides if side.rival in here]
    failed = carry_out(options, able, origin)
    if options.quick:
        return int(failed > 0)
    page = as_markdown(load(options.json), options.contest)
    if options.markdown is not None:
        save_text(options.markdown, page)
    print(page)
    return int(failed > 0)


def carry_out(options: Options, sides: Sequence[Side], origin: Origin) -> int:
    """Do the runs that are missing, each kept as soon as it is done; how many failed."""
    failed = 0
    for case, seed, side in planned(options, sides):
        if not options.quick and is_kept(options.json, case, side, seed):
            continue
        label = f"{case.name:<22} seed {seed:<3} {side.name:<15}"
        try:
            learned = run_side(side, case, seed)
            said = (*learned.returns, *(mean for _, mean in learned.curve))
            if strange := [number for number in said if not math.isfinite(number)]:
                raise RunError(f"{side.name}: expected finite returns, got {strange[0]}: its policy has diverged")
        except RunError as error:
            failed += 1
            print(f"{label} failed: {error}", flush=True)
            continue
        if not options.quick:
            add(options.json, make_record(case, side.name, seed, learned, origin))
        mean = sum(learned.returns) / len(learned.returns)
        print(f"{label} return {mean:8.1f}   {learned.cpu_s:6.0f} CPU-s", flush=True)
    return failed


def planned(options: Options, sides: Sequence[Side]) -> Iterator[tuple[LearningCase, int, Side]]:
    """Every run asked for that there can be: case by case, the sides of a seed one after the other."""
    for case in options.contest.matching(options.cases):
        for seed in options.seeds_for(case):
            for side in [side for side in sides if side.can_run(case)]:
                yield case.quickened() if options.quick else case, seed, side


def is_kept(path: Path, case: LearningCase, side: Side, seed: int) -> bool:
    """Whether the file has this run; read anew, as another command may have added it."""
    return any(run["seed"] == seed for run in counting(load(path), case, side.name))
