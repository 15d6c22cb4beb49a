"""What a number of actors and learners would come to, from a few measured times. Pure arithmetic.

For each environment step, after warm-up, in seconds:

    acting    (E step + act(E)) / (E n)       of an actor's E environments, n actors at it at once
    learning  ratio * update(M)
    cores     CPU time of both / cores

Off-policy, actors and learner overlap as far as the tolerance lets them, and the slowest of the three counts, a little
more where actors and learner are equally slow, for then either waits for the other now and then; in one process they
overlap altogether. A rollout and its updates, rounds, or lock-step: acting and learning take turns. What
it leaves out stands in design/training-sizing.md.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from drivetrain.train.config import TrainConfig
from drivetrain.train.ledger.rules import Rules

Bound = Literal["actor", "learner", "core"]
"""What holds a run up most."""
_CLEARLY = 1.05  # by how much the cores have to be what is short
_EVENLY = 8.0  # how little the faster of two that wait for each other adds: at equal speed a twelfth
_NO_TIME = 1e-9  # seconds; for what was too short to be measured


class Updating(NamedTuple):
    """What one update takes, drawing its batch and publishing included."""

    wall_s: float
    """Seconds."""
    cpu_s: float
    """Seconds of all learners' cores together."""

    @property
    def num_computing(self) -> float:
        """Cores that are taken meanwhile, on average: those of the learners; one where GPUs compute."""
        return self.cpu_s / self.wall_s if self.wall_s > 0 else 0.0


@dataclass(frozen=True, kw_only=True)
class Measurements:
    """What was measured for a run on this machine."""

    step_s: float
    """Seconds that one environment takes for a step, with its share of resets and of writing the step down."""
    step_cpu_s: float
    """Of these, computing; the rest is waiting, and takes no core."""
    act_s: Mapping[int, float]
    """Environments of an actor: seconds to choose their actions."""
    updates: Mapping[int, Updating]
    """Learners: what an update takes with so many."""
    cores: int
    """That this machine has for us."""


class Estimate(NamedTuple):
    """What a setting would come to."""

    config: TrainConfig
    """The setting, resolved."""
    steps_per_s: float
    """Environment steps per second after warm-up."""
    bound: Bound
    """What holds it up."""

    @property
    def num_processes(self) -> int:
        """Actors and learners."""
        return self.config.num_actors + self.config.num_learners


class _Acting(NamedTuple):
    """Acting, in seconds per environment step."""

    wall_s: float
    """With all actors at it."""
    computing_s: float
    """Of a core."""
    num_computing: float
    """Actors that compute at once, on average."""


def estimate(config: TrainConfig, measured: Measurements) -> Estimate:
    """Environment steps per second of a setting.

    Args:
        config: Resolved: num_actors, num_learners and envs_per_actor are what is judged.
        measured: Has `act_s` for its environments per actor, and `updates` for its learners.
    """
    rules = Rules.of(config)
    acting = _acting(config, rules, measured)
    learning_s = _learning_s(config, rules, measured, acting)
    cores_s = acting.computing_s + float(rules.ratio) * measured.updates[config.num_learners].cpu_s
    cores_s = 0.0 if config.on_policy else cores_s / measured.cores
    overlap = _overlap(config, rules)
    total_s = _beside(learning_s, overlap * acting.wall_s) + (1 - overlap) * acting.wall_s
    bound: Bound = "learner" if learning_s > acting.wall_s else "actor"
    if cores_s > _CLEARLY * max(learning_s, acting.wall_s):
        bound = "core"
    return Estimate(config, 1 / max(total_s, cores_s, _NO_TIME), bound)


def _beside(one_s: float, other_s: float) -> float:
    """What two take that wait for each other: the slower one's time where the other is much faster, else some more.

    The norm of both of a high degree. Two stations with room for few between them lose most where they are balanced
    (Lazowska et al. 1984, chapter 5); how much was measured (design/training-sizing.md).
    """
    return (one_s**_EVENLY + other_s**_EVENLY) ** (1 / _EVENLY)


def _acting(config: TrainConfig, rules: Rules, measured: Measurements) -> _Acting:
    """Actors that wait need no core; those that compute queue for the cores, as far as they meet.

    The balanced bound of a closed queue (Lazowska et al. 1984, chapter 5): of n - 1 others, the share that computes
    stands before each.
    """
    envs = config.envs_per_actor
    batch_s = envs * measured.step_s + measured.act_s[envs]
    computing_s = envs * measured.step_cpu_s + measured.act_s[envs]
    busy = min(max(1, config.num_actors), _most_granted(rules, envs))
    share = min(1.0, computing_s / batch_s) if batch_s > 0 else 1.0
    others_s = max(0.0, busy / measured.cores - 1) * share * computing_s
    wall_s = max((batch_s + others_s) / busy, computing_s / min(busy, measured.cores))
    return _Acting(wall_s / envs, computing_s / envs, busy * share)


def _learning_s(config: TrainConfig, rules: Rules, measured: Measurements, acting: _Acting) -> float:
    """Seconds that the learner takes per environment step."""
    update = measured.updates[config.num_learners]
    learning_s = float(rules.ratio) * update.wall_s
    alone = config.on_policy or config.num_learners == 1
    if not alone and acting.num_computing + update.num_computing > measured.cores:
        learning_s += acting.computing_s  # a learner whose core an actor has holds up the others
    return learning_s


def _most_granted(rules: Rules, envs: int) -> int:
    """Actors that can be at a step at once: a grant is given while at most `tolerance` updates are owed."""
    if rules.steps_per_rollout > 1 or rules.ratio == 0:
        return 1 << 30
    return math.ceil((rules.tolerance + 1) / (rules.ratio * envs))


def _overlap(config: TrainConfig, rules: Rules) -> float:
    """The share of acting that may happen while the learner is at a call, in 0..1.

    A call of n updates, which stand for n / ratio steps, leaves room for tolerance - n updates, and one grant.
    """
    if config.on_policy:
        return 0.0
    if rules.ratio == 0 or config.num_actors == 0:
        return 1.0
    per_grant = float(rules.ratio * config.envs_per_actor)
    call = min(rules.updates_per_call, rules.tolerance + max(1.0, per_grant))
    return min(1.0, max(0.0, (rules.tolerance - call + per_grant) / call))
