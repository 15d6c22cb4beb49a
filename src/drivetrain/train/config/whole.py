"""All of a run's configuration in one value: defaults, overrides by name, config.json."""

import dataclasses
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from drivetrain.core.docstrings import with_fields
from drivetrain.core.errors import InvalidInput
from drivetrain.core.machine import num_cores
from drivetrain.train.config.agents import AGENTS, AgentConfig, DQNConfig
from drivetrain.train.config.environment import EnvironmentConfig
from drivetrain.train.config.given import named, plain, require_again
from drivetrain.train.config.names import unknown
from drivetrain.train.config.on_policy import PPOConfig, RolloutConfig
from drivetrain.train.config.parts import ReplayConfig, RunConfig, UpdateConfig
from drivetrain.train.config.saved import reading, require_form, require_parts
from drivetrain.train.config.simulator import SimulatorConfig, require_params
from drivetrain.train.config.values import fitting

_OFF_POLICY_PARTS = ("run", "environment", "replay", "updates", "agent")
_ON_POLICY_PARTS = ("run", "environment", "rollout", "agent")
_ENVS_PER_ACTOR, _FUSED_ENVS_PER_ACTOR = 8, 32  # in a kernel one more costs next to nothing


@with_fields
@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """All of a run's configuration, with the conditions that span its parts."""

    algo: str
    """The algorithm: "dqn", "ddpg", "td3", "sac" or "ppo"."""
    env: str
    """Gymnasium's id of the environment; "module:Id" imports the module first, "module:name" calls a function of
    it; or Given."""
    run: RunConfig = field(default_factory=RunConfig)
    """How long, how many processes, how often to look."""
    environment: EnvironmentConfig = field(default_factory=EnvironmentConfig)
    """How the environment is wrapped."""
    simulator: SimulatorConfig = field(default_factory=SimulatorConfig)
    """DQN and PPO alone: whether a kernel steps it together with the policy."""
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    """Off-policy alone: what is remembered, and how it is drawn."""
    updates: UpdateConfig = field(default_factory=UpdateConfig)
    """Off-policy alone: how much is learned from it."""
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    """On-policy alone: how much is gathered before it is learned from."""
    agent: AgentConfig
    """The algorithm's settings, of the type that `algo` names."""

    @classmethod
    def default(cls, algo: str, env: str | Callable[[], Any]) -> "TrainConfig":
        """The dataclasses' defaults; `presets.preset` knows better ones.

        Raises:
            InvalidInput: There is no such algorithm.
        """
        env = named("env", env)
        if algo not in AGENTS:
            raise InvalidInput(f"unknown algorithm {algo!r}: choose from {', '.join(AGENTS)}")
        return cls(algo=plain(algo), env=env, agent=AGENTS[algo]())

    def __post_init__(self) -> None:
        expected = AGENTS.get(self.algo)
        if expected is None or type(self.agent) is not expected:
            raise InvalidInput(f"agent: {type(self.agent).__name__} is not for the algorithm {self.algo!r}")
        if self.on_policy:
            self._check_rollouts()
        else:
            self._check_replay()
        if self.batch_size % self.num_learners:
            raise InvalidInput(
                f"num_learners: expected a divisor of batch_size ({self.batch_size}), got {self.num_learners}; "
                "each learner takes an equal share of a batch"
            )
        if self.run.deterministic:
            self._check_deterministic()
        self._check_simulator()
        if self.run.precision != "float32" and self.agent.torso != "auto":
            raise InvalidInput(
                f"precision: expected float32 beside a torso of your own, got {self.run.precision}; it computes as its "
                "functions say: round there, and leave precision out"
            )

    def _check_deterministic(self) -> None:
        if self.is_open:
            raise InvalidInput(
                'deterministic: expected num_actors and num_learners as numbers, got "auto"; what is measured is '
                "another number each time"
            )
        if not self.on_policy and not self.replay.save_replay:
            raise InvalidInput(
                "deterministic: expected save_replay; without the replay a resumed run would learn from other steps"
            )
        if not self.on_policy and self.updates.grant_length > 1:
            raise InvalidInput(
                f"grant_length: expected 1 beside deterministic, whose rounds are one step of all environments, got "
                f"{self.updates.grant_length}; leave one of them out"
            )

    def _check_simulator(self) -> None:
        require_params(self.env, self.environment, self.fused_engine)
        asked = self.simulator.sim_engine
        if self.fused_engine is None:
            if asked not in ("auto", "none"):
                raise InvalidInput(
                    f"sim_engine: expected auto or none for {self.env!r}, which is no simulator to be compiled, got "
                    f"{asked}; environments called drivetrain/NAME or gymnax/NAME are"
                )
            return
        settings, kept = self.environment, "what a compiled simulator does"
        unfit = {
            "leave_out": bool(settings.leave_out),
            "frame_stack": settings.frame_stack > 1,
            "atari": settings.atari,
            "deterministic": self.run.deterministic,
            "freeze_encoder_after": not self.on_policy and self.updates.freeze_encoder_after is not None,
            'num_actors or num_learners "auto"': self.is_open,
        }
        for name in (name for name, is_asked in unfit.items() if is_asked):
            raise InvalidInput(
                f"{name}: not among {kept}, and {self.env!r} is one; leave it out, or step it through Gymnasium with "
                "sim_engine none"
            )

    def _check_replay(self) -> None:
        needed, updates, span = self.num_rows_before_learning, self.updates, self.replay.num_step
        steps = updates.warmup_steps if updates.update_ratio > 0 else needed
        held = f", and the {span}-step windows still open in each environment" if span > 1 else ""
        for name, got in (("warmup_steps", steps), ("capacity", self.replay.capacity)):
            if got < needed:
                raise InvalidInput(
                    f"{name}: expected at least {needed} (a batch of {updates.batch_size}{held}), got {got}; raise it, "
                    f"or lower batch_size{', num_step or the actors' if held else ''}"
                )
        self._check_freezing()
        self._check_hindsight()

    def _check_hindsight(self) -> None:
        unfit = {
            "deterministic": self.run.deterministic,
            "freeze_encoder_after": self.updates.freeze_encoder_after is not None,
            "frame_stack": self.environment.frame_stack > 1,
            "a compiled simulator": self.fused_engine is not None,
        }
        for name in (name for name, is_asked in unfit.items() if is_asked and self.in_hindsight):
            raise InvalidInput(f"hindsight_goals: expected 0 beside {name}; leave one of them out")

    def _check_freezing(self) -> None:
        after = self.updates.freeze_encoder_after
        if after is None:
            return
        if after <= self.updates.warmup_steps:
            raise InvalidInput(
                f"freeze_encoder_after: expected more than warmup_steps ({self.updates.warmup_steps}), after which "
                f"the encoder begins to learn, got {after}"
            )
        if not self.replay.save_replay:
            raise InvalidInput(
                "freeze_encoder_after: expected save_replay beside it, as the replay is converted in the checkpoint; "
                "leave out one of them"
            )
        if self.environment.normalize_observations:
            raise InvalidInput(
                "freeze_encoder_after: expected no normalize_observations beside it, as stored embeddings cannot "
                "follow statistics that change; leave out one of them"
            )

    def _check_rollouts(self) -> None:
        assert isinstance(self.agent, PPOConfig)
        num_steps, num_envs, batch_size = self.steps_per_rollout, self.rollout.num_envs, self.agent.batch_size
        if num_envs != max(1, self.num_actors) * self.envs_per_actor:
            asked = "" if self.run.envs_per_actor == "auto" else f" of {self.envs_per_actor} environments each"
            raise InvalidInput(
                f"num_envs: expected as many environments for every actor, got {num_envs} for {self.num_actors} "
                f"actors{asked}; change num_envs, num_actors or envs_per_actor"
            )
        if num_steps % batch_size:
            raise InvalidInput(
                f"batch_size: expected a divisor of the rollout, {num_steps} steps ({self.rollout.rollout_length} of "
                f"each of {num_envs} environments), got {batch_size}; change it, rollout_length or num_envs"
            )

    @property
    def on_policy(self) -> bool:
        """Whether the algorithm learns from rollouts of its latest policy, rather than from a replay."""
        return isinstance(self.agent, PPOConfig)

    @property
    def in_hindsight(self) -> bool:
        """Whether steps are remembered with other goals, too."""
        return not self.on_policy and self.replay.hindsight_goals > 0

    @property
    def batch_size(self) -> int:
        """Rows of one update, over all learners."""
        return self.agent.batch_size if isinstance(self.agent, PPOConfig) else self.updates.batch_size

    @property
    def gamma(self) -> float:
        """The discount of one step."""
        return self.agent.gamma if isinstance(self.agent, PPOConfig) else self.updates.gamma

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that the algorithm has; the others stay at their defaults, unread."""
        parts = _ON_POLICY_PARTS if self.on_policy else _OFF_POLICY_PARTS
        return (*parts, "simulator") if isinstance(self.agent, PPOConfig | DQNConfig) else parts

    @property
    def owners(self) -> dict[str, str]:
        """Every setting that the algorithm has, with the part that it is of."""
        return {entry.name: part for part in self.parts for entry in dataclasses.fields(getattr(self, part))}

    @property
    def settings(self) -> dict[str, Any]:
        """Every setting that the algorithm has, with its value."""
        return {name: getattr(getattr(self, part), name) for name, part in self.owners.items()}

    @property
    def fused_engine(self) -> Literal["native", "xla"] | None:
        """What compiles environment and policy into one kernel for the actors; None: they step through Gymnasium."""
        return self.simulator.engine_for(self.env) if "simulator" in self.parts else None

    @property
    def num_rows_before_learning(self) -> int:
        """Steps after which a batch can surely be drawn: windows hold back num_step - 1 rows."""
        return self.updates.batch_size + self.num_envs * (self.replay.num_step - 1)

    @property
    def num_actors(self) -> int:
        """Actor processes: as asked; or one for each core that the learners leave, also until "auto" is settled.

        Off-policy, as many as whose open windows warm-up and replay have room for. On-policy actors and learner wait
        for each other, so actors may take all cores; as many of them as share the environments evenly.
        """
        asked, each, num_envs = self.run.num_actors, self.run.envs_per_actor, self.rollout.num_envs
        if isinstance(asked, int):
            return asked
        if not self.on_policy:
            shared = self.run.device == "gpu" or self.run.oversubscribe  # learners compute elsewhere, or beside actors
            return max(1, min(num_cores() - (1 if shared else self.num_learners), self._most_actors))
        if asked == "auto" and isinstance(each, int):
            return max(1, num_envs // each)
        even = [count for count in range(1, num_cores() + 1) if num_envs % count == 0]
        return max([count for count in even if num_envs // count == each] or even)

    @property
    def _most_actors(self) -> int:
        """Off-policy: with whose open windows there surely is a batch when learning begins."""
        updates, held_back = self.updates, self.envs_per_actor * (self.replay.num_step - 1)
        room = min(self.replay.capacity, updates.warmup_steps if updates.update_ratio > 0 else self.replay.capacity)
        return (room - updates.batch_size) // held_back if held_back else num_cores()

    @property
    def num_learners(self) -> int:
        """Learners: as asked; 1 until "auto" or "worthwhile" is settled."""
        return self.run.num_learners if isinstance(self.run.num_learners, int) else 1

    @property
    def is_open(self) -> bool:
        """Whether `sizing` is asked to settle something: "auto" actors or learners."""
        return "auto" in (self.run.num_actors, self.run.num_learners)

    @property
    def weighs_learners(self) -> bool:
        """Whether `sizing` may measure of itself what several learners gain: where they are left to us.

        Sequential runs have one, and so have deterministic ones, whose bits depend on how many there are.
        """
        kept = self.run.in_one_order or self.fused_engine is not None
        return self.run.num_learners == "worthwhile" and not kept

    @property
    def envs_per_actor(self) -> int:
        """Environments of each actor, or of a sequential run: as asked, or what is usual."""
        if self.run.envs_per_actor != "auto":
            return self.run.envs_per_actor
        if self.on_policy:
            return self.rollout.num_envs // max(1, self.num_actors)
        return _ENVS_PER_ACTOR if self.fused_engine is None else _FUSED_ENVS_PER_ACTOR

    @property
    def num_envs(self) -> int:
        """Environments of all actors."""
        return max(1, self.num_actors) * self.envs_per_actor

    @property
    def steps_per_rollout(self) -> int:
        """On-policy: environment steps between two rounds of updates, over all actors."""
        return self.rollout.rollout_length * self.rollout.num_envs

    @property
    def grant_length(self) -> int:
        """Steps that each environment takes between two looks at the ledger and the weights."""
        return self.rollout.rollout_length if self.on_policy else self.updates.grant_length

    @property
    def steps_per_grant(self) -> int:
        """The same, over all environments of an actor."""
        return self.envs_per_actor * self.grant_length

    @property
    def updates_per_rollout(self) -> int:
        """On-policy: updates that a rollout calls for."""
        assert isinstance(self.agent, PPOConfig)
        return self.agent.num_epochs * self.steps_per_rollout // self.agent.batch_size

    @property
    def total_steps(self) -> int:
        """Environment steps of the run; rounded up to whole rollouts, if deterministic to steps of all environments."""
        return self._rounded(self.run.total_steps)

    @property
    def switch_at(self) -> int | None:
        """The step after which encoders are frozen, rounded likewise; None: not before the run is over."""
        after = None if self.on_policy else self.updates.freeze_encoder_after
        return None if after is None or self._rounded(after) >= self.total_steps else self._rounded(after)

    def _rounded(self, num_steps: int) -> int:
        together = self.num_envs * self.grant_length if self.on_policy or self.run.deterministic else 1
        return -(-num_steps // together) * together

    def resolved(self) -> "TrainConfig":
        """A copy without anything left to choose: as many actors, environments and steps as there will be."""
        chosen = ("num_actors", "num_learners", "envs_per_actor", "total_steps")
        return self.override(**{name: getattr(self, name) for name in chosen})

    def override(self, **fields: Any) -> "TrainConfig":
        """A copy with fields of any part replaced by name.

        Raises:
            InvalidInput: No part has a field of that name, or its value is of another type or out of range.
        """
        parts: dict[str, Any] = {part: getattr(self, part) for part in self.parts}
        changes: dict[str, dict[str, Any]] = {part: {} for part in self.parts}
        owners = self.owners
        if "atari" in fields and fitting(self.environment, "atari", fields["atari"]) is False:
            fields = {**EnvironmentConfig.of_atari(), **fields}  # those of a preset go with it
        for name, value in fields.items():
            if name not in owners:
                raise unknown(name, self.algo, owners)
            changes[owners[name]][name] = fitting(parts[owners[name]], name, value)
        replaced = {part: dataclasses.replace(config, **changes[part]) for part, config in parts.items()}
        return dataclasses.replace(self, **replaced)

    def to_json(self) -> str:
        """The text of config.json."""
        return json.dumps(self.to_dict(), indent=2) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """JSON-able, resolved, one object per part; a number without end, which JSON lacks, is the text "inf"."""
        resolved = self.resolved()
        parts = {part: dataclasses.asdict(getattr(resolved, part)) for part in self.parts}
        finite = {part: {name: _finite(value) for name, value in fields.items()} for part, fields in parts.items()}
        return json.loads(json.dumps({"algo": self.algo, "env": self.env, **finite}, default=str))

    @classmethod
    def from_dict(cls, data: Any, /, **again: Any) -> "TrainConfig":
        """The configuration that `to_dict` wrote.

        Args:
            data: What it wrote, read back.
            again: Settings that were Python objects (`env`, `torso`, `optimizer`), which it only mentions.

        Raises:
            NotGivenAgain: A setting was a Python object, and is not given again.
            InvalidInput: It is of another form, lacks a part, or a value is out of range or not of this version's
                fields.
        """
        require_form(data)
        # Of runs from before there were these settings.
        data = {"environment": {}, "simulator": {"sim_engine": "none"}, **data}
        parts = cls.default(data["algo"], "").parts
        require_parts(data, {"algo", "env", "simulator", *parts})
        fields: dict[str, Any] = {name: value for part in parts for name, value in data[part].items()}
        fields = require_again({"env": data["env"], **fields}, again)
        return cls.default(data["algo"], fields.pop("env")).override(**fields)

    @classmethod
    def load(cls, path: str | Path, /, **again: Any) -> "TrainConfig":
        """Read a config.json.

        Args:
            path: The file.
            again: As in `from_dict`.

        Raises:
            FileFormatError: It is absent, no JSON, or not of this version's fields.
            NotGivenAgain: As in `from_dict`.
        """
        with reading(path) as data:
            return cls.from_dict(data, **again)


def _finite(value: Any) -> Any:
    return str(value) if isinstance(value, float) and math.isinf(value) else value
