"""What a replay is made of: checked once, stored in its segment and its files."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from drivetrain.core.errors import FileFormatError, InvalidInput
from drivetrain.replay import arguments, checks, frames
from drivetrain.replay.checks import INITIAL_PRIORITIES, WEIGHTS_BY
from drivetrain.replay.memory import MemoryReport, report
from drivetrain.replay.schema import Schema, Spec
from drivetrain.replay.sequences import Sequences, require_sequences

InitialPriority = Literal["running_max", "buffer_max", "given"] | float
"""Where the priority of a new row comes from; see Replay."""

ALPHA_MEANING = "0: uniform, 1: proportional to priority"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a replay is made of; stored in its segment and its files."""

    capacity: int
    prioritized: bool
    alpha: float
    num_step: int
    gamma: float
    seed: int
    share_next_obs: bool
    frame_stack: int
    sequence: Sequences | None
    schema: Schema
    initial_priority: str | float = "running_max"  # defaults: what files from before these have
    weights_by: str = "batch"

    @classmethod
    def of(cls, *, spec: Any, **values: Any) -> "Settings":
        """Settings from the arguments of Replay."""
        if not isinstance(spec, Mapping):
            raise InvalidInput(
                f'spec: expected a dict such as {{"obs": ((4,), "float32")}}, got {spec!r}; '
                "that of an environment is spec_of(env), and Replay.for_env(env, capacity) goes by it"
            )
        if values["sequence"] is not None:
            require_sequences(values["sequence"], values["num_step"])
        stack = frames.stack_of(values["share_next_obs"], values["frame_stack"])
        return cls.checked(**values, schema=Schema.from_spec(cast(Spec, spec), stack, values["sequence"]))

    @classmethod
    def checked(cls, **values: Any) -> "Settings":
        """Settings from a caller or a file.

        Raises:
            InvalidInput: A value does not fit.
        """
        fraction, integer = arguments.require_fraction, arguments.require_int
        initial = values.get("initial_priority", cls.initial_priority)
        return cls(
            capacity=integer("capacity", values["capacity"], least=1, most=2**32 - 1),
            prioritized=arguments.require_bool("prioritized", values["prioritized"]),
            alpha=fraction("alpha", values["alpha"], meaning=ALPHA_MEANING),
            num_step=integer("num_step", values["num_step"], least=1, most=100_000),
            gamma=fraction("gamma", values["gamma"], meaning="the discount per step"),
            seed=integer("seed", values["seed"], least=0, most=2**64 - 1),
            share_next_obs=arguments.require_bool("share_next_obs", values["share_next_obs"]),
            frame_stack=integer("frame_stack", values["frame_stack"], least=1, most=frames.MAX_STACK),
            sequence=values["sequence"],
            schema=values["schema"],
            initial_priority=checks.require_initial_priority(initial, values["prioritized"], values["schema"]),
            weights_by=arguments.require_one_of("weights_by", values.get("weights_by", cls.weights_by), WEIGHTS_BY),
        )

    @property
    def window(self) -> int:
        """Steps that an environment's open window has at most."""
        return self.schema.steps if self.sequence else self.num_step

    @property
    def window_nbytes(self) -> int:
        """Bytes that a writer keeps of one environment's open windows, about."""
        step_nbytes, sequence = self.schema.row_stride + 8 * self.schema.num_refs, self.sequence
        if not sequence:
            return step_nbytes * self.num_step if self.num_step > 1 else 0
        num_open = -(-sequence.num_steps // sequence.num_new_steps) if sequence.initial else 0
        return step_nbytes * (1 + num_open)

    @property
    def stack_shift(self) -> int:
        """Frames by which the stack of `next_obs` is that of `obs` moved on; 0 where they have none in common."""
        return self.num_step if not self.sequence and self.num_step < self.frame_stack else 0

    def native(self) -> dict[str, Any]:
        """What the native table needs to know."""
        initial, sequence = self.initial_priority, self.sequence
        stack = self.schema.frame_stack
        num_steps = self.capacity * (sequence.num_new_steps if sequence else 1)
        return {
            "capacity": self.capacity,
            "row_stride": self.schema.row_stride,
            "prioritized": self.prioritized,
            "alpha": self.alpha,
            "seed": self.seed,
            "initial": INITIAL_PRIORITIES.index(initial) if isinstance(initial, str) else len(INITIAL_PRIORITIES),
            "initial_priority": 0.0 if isinstance(initial, str) else initial,
            "weights_by_buffer": self.weights_by == "buffer",
            "num_frames": frames.num_frames(num_steps, stack, self.window) if stack else 0,
            "frame_stride": self.schema.frame_stride,
            "num_refs": self.schema.num_refs,
            "frame_stack": stack,
            "steps": self.schema.steps,
            "stack_shift": self.stack_shift,
        }

    def with_capacity(self, capacity: Any) -> "Settings":
        """The same for another number of rows.

        Raises:
            InvalidInput: It is out of range.
        """
        return self.checked(**{**self.__dict__, "capacity": capacity})

    def ways_to_take_less(self) -> list[str]:
        """How a replay of the same steps would need less room, for messages."""
        ways = ["use a smaller capacity or smaller fields"]
        if not self.schema.frame_stack and any(field.name.split("/")[0] == "obs" for field in self.schema.fields):
            ways.append("store each observation once (share_next_obs, frame_stack)")
        return ways

    def memory(self) -> MemoryReport:
        """Where the memory of such a replay goes."""
        return report(self.capacity, self.schema, self.native())

    def to_json(self) -> dict[str, Any]:
        """JSON-able form; `from_json` inverts it."""
        sequence = self.sequence.to_json() if self.sequence else None
        return {**self.__dict__, "sequence": sequence, "schema": self.schema.to_json()}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Settings":
        """The settings that `to_json` wrote, of this or an older version.

        Raises:
            InvalidInput: A value does not fit.
        """
        values = {"share_next_obs": False, "frame_stack": 1, "sequence": None, **values}  # new in format 2
        stack = frames.stack_of(values["share_next_obs"], values["frame_stack"])
        sequence = Sequences.from_json(values["sequence"])
        schema = Schema.from_json(values["schema"], stack, sequence)
        return cls.checked(**{**values, "sequence": sequence, "schema": schema})

    @classmethod
    def of_file(cls, path: Path, values: dict[str, Any]) -> "Settings":
        """The settings in a file's header.

        Raises:
            FileFormatError: They are those of no replay.
        """
        try:
            return cls.from_json(values)
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise FileFormatError(f"{path}: its settings make no sense ({error})") from error
