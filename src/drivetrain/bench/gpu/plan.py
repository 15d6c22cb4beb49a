"""The parts of `drivetrain bench gpu`, in order of what a short loan of a GPU should give first, and what is done.

    Part -> run(folder, limit_s) -> Found -> FOLDER/parts.jsonl, as soon as it is there

A second command in the same folder goes on with what is left, so that a loan may be cut into commands.
"""

import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from drivetrain.bench.kept import Kept, describe_state, surroundings
from drivetrain.bench.machine import gpus
from drivetrain.bench.report import Case, Skipped, Target
from drivetrain.core.errors import RunError

FILE = "parts.jsonl"
GPU_DISTRIBUTIONS = (
    "nvidia-cuda-cupti",
    "nvidia-cuda-nvrtc",
    "cuda-core",
    "jax",
    "jax-cuda13-plugin",
    "jax-cuda12-plugin",
)
"""What parts depend on beside drivetrain."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a part came to."""

    cases: Sequence[Case] = ()
    skipped: Sequence[Skipped] = ()


@dataclass(frozen=True, kw_only=True)
class Part:
    """Something that is measured by itself.

    Attributes:
        name: On the command line.
        most_s: How long it may take; it is not begun with less time left.
        run: Does it, in a folder that stays, within so many seconds.
        missing: Why it cannot run here; empty where it can.
    """

    name: str
    most_s: float
    run: Callable[[Path, float], Found]
    missing: Callable[[], str] = lambda: ""

    @property
    def asked(self) -> dict[str, str]:
        """What it is known by among parts that were done."""
        return {"part": self.name}


def parts_in(folder: Path) -> Kept[Found]:
    """Parts that were done in a folder by this code, kept there.

    Raises:
        FileFormatError: Its file is something else.
    """
    machine = {"gpus": gpus(), **surroundings(GPU_DISTRIBUTIONS)}  # loans are of several
    conditions = {"commit": describe_state(), **machine}
    return Kept(folder / FILE, command="gpu", restored=_restored, conditions=conditions)


def carry_out(parts: Sequence[Part], folder: Path, limit_s: float) -> list[Skipped]:
    """Do what was not done in a folder, as far as the time allows; those that are left, with the reason.

    A part that fails is left for another command, and so are those that would not fit.
    """
    kept = parts_in(folder)
    until_s = time.monotonic() + limit_s
    left: list[Skipped] = []
    for part in parts:
        if kept.get(part.asked) is not None:
            print(f"{part.name}: done before", flush=True)
            continue
        left_s = until_s - time.monotonic()
        why = part.missing()
        if not why and left_s < part.most_s:
            why = f"may take {part.most_s:.0f} s, and {max(left_s, 0):.0f} of --limit-s were left"
        if not why:
            print(f"{part.name}: at most {part.most_s:.0f} s", flush=True)
            began_s = time.monotonic()
            try:
                found = part.run(folder, part.most_s)
                kept.add(part.asked, found)
            except RunError as error:
                why = str(error)
            except Exception as error:  # of a loan, the other parts are worth more than this one's reason
                traceback.print_exc()
                why = f"{type(error).__name__}: {error}"
            print(f"{part.name}: {time.monotonic() - began_s:.0f} s{', ' + why if why else ''}", flush=True)
        if why:
            left.append(Skipped(name=part.name, reason=why, remedy="drivetrain bench gpu, again in the same --folder"))
    return left


def _restored(entry: Any) -> Found:
    cases = [replace(Case(**case), targets=[Target(**one) for one in case["targets"]]) for case in entry["cases"]]
    return Found(cases=cases, skipped=[Skipped(**one) for one in entry["skipped"]])
