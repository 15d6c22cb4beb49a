"""What the user sees of a run: a progress bar on a terminal, plain lines elsewhere."""

import contextlib
import math
import time

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from drivetrain.core.printable import printable
from drivetrain.core.words import counted, reward
from drivetrain.scope.report.console import Console
from drivetrain.train.telemetry.metrics import Row

_LINE_INTERVAL_S = 5.0
_RATE_WINDOW_S = 60.0  # over which the remaining time is estimated


class Display:
    """Shows rows of metrics as they come, on standard error.

    Args:
        total_steps: Environment steps of the run.
    """

    def __init__(self, total_steps: int) -> None:
        self._total_steps = total_steps
        self._line_s = time.monotonic()
        self._shown: Row = {}
        self._follows = ""  # what comes when all steps are taken
        self._console = Console(stderr=True)
        self._live: Live | None = None
        self._bar = Progress(
            TextColumn("{task.completed:,.0f} of {task.total:,.0f} steps"),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            console=self._console,
            speed_estimate_period=_RATE_WINDOW_S,
        )
        self._task = self._bar.add_task("train", total=total_steps)
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._live = Live(Group(self._bar, Text("starting")), console=self._console)
            self._live.start()

    def show(self, row: Row) -> None:
        """Show a row; what it lacks keeps its last value. One of an evaluation may be of steps that are long past."""
        num_steps = max(row["num_steps"], self._shown.get("num_steps", 0))
        self._shown = {**self._shown, **{k: v for k, v in row.items() if not math.isnan(v)}, "num_steps": num_steps}
        if self._live is not None:
            self._bar.update(self._task, completed=self._shown["num_steps"])
            self._redraw(self._live)
        elif time.monotonic() - self._line_s > _LINE_INTERVAL_S:
            self._line_s = time.monotonic()
            steps = f"{self._shown['num_steps']:,.0f}/{self._total_steps:,} steps"
            self.note(f"{steps}  {_numbers(self._shown)}")

    def evaluating(self, num_episodes: int) -> None:
        """All steps are taken, and the last evaluations go on, for so many episodes; to be told of again and again.

        They may take longer than all before: where lines are written, one says so after as long as between others.
        """
        line_is_due = time.monotonic() - self._line_s > _LINE_INTERVAL_S
        if self._follows or (self._live is None and not line_is_due):
            return
        episodes = counted(num_episodes, "episode")
        self._follows = f"all steps are taken; the best policy is evaluated over {episodes} (final_eval_episodes)"
        if self._live is not None:
            self._redraw(self._live)
        else:
            self.note(self._follows)

    def note(self, sentence: str) -> None:
        """Say something that happened, beside the progress."""
        with contextlib.suppress(OSError):  # a log on a full disk, or one that nobody reads any more, ends no run
            self._console.print(printable(sentence, keep="\n\t"), highlight=False, markup=False, soft_wrap=True)

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._live is not None:
            with contextlib.suppress(OSError):
                self._live.stop()

    def _redraw(self, live: Live) -> None:
        below = "\n".join(filter(None, (_numbers(self._shown), self._follows)))
        with contextlib.suppress(OSError):
            live.update(Group(self._bar, Text(below)))


def _numbers(row: Row) -> str:
    returns = {name: reward(row[name]) for name in ("episode_return", "eval_return") if name in row}
    formats = {
        "episode_return": "return {}",
        "eval_return": "evaluated {}",
        "eval_success_rate": "succeeded {:.0%}",
        "steps_per_s": "{:,.0f} steps/s",
        "updates_per_s": "{:,.0f} updates/s",
        "update_ratio": "ratio {:.3f}",
    }
    return "  ".join(text.format(returns.get(name, row[name])) for name, text in formats.items() if name in row)
