"""What recording may change in a process beside what its spans cost: an error that every corrected number has.

Costs of spans are known within hundredths of a percent of a program's time where spans are rare. That caches are
colder, or memory lies elsewhere, is in none of them; recorded blocks beside muted ones say how much of it there can be.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from drivetrain.scope.calibration.regression import slowdown
from drivetrain.scope.trace.blocks import Blocks
from drivetrain.scope.trace.events import Trace

_EXPECTED_SD = 0.02
"""Of a program's time, where its blocks do not say: corrections by blocks of other programs were off by -3.9% to +4.7%
(design/scope.md), read as a 95% interval."""


@dataclass(frozen=True)
class Unseen:
    """What recording may change in a process beside what spans cost: caches, branches, where memory lies. Taken to be
    nothing, with an error.
    """

    se: float
    """A share of the time that the process ran."""
    factor: str
    """Processes of one factor are wrong together."""


def unseen(trace: Trace, blocks: Sequence[Blocks]) -> list[Unseen]:
    """Per process: how far its recorded and muted blocks exclude such a change.

    Their scatter is the program's own, too, and the machine's. Where they say less than programs before, those hold.

    Args:
        trace: What was recorded.
        blocks: Of each of its threads.
    """
    found: list[Unseen] = []
    for number in range(len(trace.processes)):
        own = [slowdown(blocks[i]) for i, thread in enumerate(trace.threads) if thread.process == number]
        weight = sum(1 / max(one.se_ns, 1e-6) ** 2 for one in own if one is not None)
        factor = f"unseen in {number}" if weight else "unseen everywhere"
        found.append(Unseen((weight + 1 / _EXPECTED_SD**2) ** -0.5, factor))
    return found
