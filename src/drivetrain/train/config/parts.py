"""The parts of a configuration beside the algorithm's own: the run; off-policy, the replay and the updates."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from drivetrain.core.docstrings import with_fields
from drivetrain.core.errors import InvalidInput
from drivetrain.core.seeding import MOST_EPISODES

Precision = Literal["float32", "bfloat16"]
"""What the factors of products are rounded to."""

CARRIED_OUT = ("run", "simulator")
"""The parts of how a run is carried out."""
OF_ANOTHER_KIND = ("precision", "eval_max_steps", "init_from", "save_replay", "scratch_dir")
"""Settings that say of what they are not like the rest of their part."""

_MOST_STEPS = 2**62  # the ledger counts in 64 bits
_SMALLEST, _LARGEST = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)  # what learners compute in
_MOST_EVAL_STEPS = 10_000
MOST_UPDATES = 2**20
"""Of one call; their samples, or their order, lie in memory together."""
MOST = 2**31 - 1
"""Of what learners count and index by 32 bits."""


def decides(part: str, name: str) -> bool:
    """Whether a setting decides what is learned, or what evaluations measure, and not only how a run is carried out."""
    return (part in CARRIED_OUT) == (name in OF_ANOTHER_KIND)


@with_fields
@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """How long a run is, how many processes work on it, and how often they report."""

    total_steps: int = 50_000
    """Environment steps of the whole run, over all actors."""
    num_actors: int | Literal["cores", "auto"] = "cores"
    """Actor processes; 0 runs everything in one process, in a reproducible order. "cores": one for each core that
    the learners leave, off-policy as many of them as the n-step windows left open by their environments fit into the
    warm-up; "auto": as many as are best by a short measurement of environments and updates."""
    num_learners: int | Literal["worthwhile", "auto"] = "worthwhile"
    """Learners that share each batch, on as many CPU cores or GPUs; the algorithm is the same up to rounding.
    "worthwhile": one; in runs of many large updates, with processes and not deterministic, as many as are best beside
    the actors by a short measurement. "auto": as num_actors."""
    device: Literal["auto", "cpu", "gpu"] = "auto"
    """What learners compute on; auto: GPUs where JAX sees some."""
    precision: Precision = "float32"
    """Of the products in learners' layers, forward and backward: "bfloat16" rounds their factors, and sums up in
    float32. All else, and acting, is float32. For GPUs, and CPUs with AMX; on others it is slower than float32."""
    oversubscribe: bool = False
    """Allow several learners where they and the actors are more than the cores; "auto" sets it where that is best."""
    envs_per_actor: int | Literal["auto"] = "auto"
    """Environments that one actor steps together, sharing one evaluation of the network. "auto": 8, of compiled
    simulators 32, or what num_envs of an on-policy algorithm comes to."""
    seed: int = 0
    """Seed of every random stream of the run."""
    init_from: str | None = None
    """Folder of a run of the same algorithm, spaces and network, whose last networks this one begins with, and what
    it normalises by; optimizers, replay, counters and random streams are new. None: networks are drawn."""
    deterministic: bool = False
    """The same bits for a seed, whatever the number of actor processes that share equally many environments, and
    after a resume. Actors and learner then take turns after every step of all environments, whatever `tolerance`
    says, and the network acts on one observation at a time, which is slower."""
    run_dir: str | None = None
    """Folder for the results; must be empty or absent. None: a new one in runs/, named by algorithm, environment and
    time."""
    checkpoint_interval_s: float = 10.0
    """Seconds between checkpoints; the first is written at the end of warm-up."""
    step_timeout_s: float = 300.0
    """Seconds after which an actor, or the evaluator, is started anew, one of whose environments does not come back:
    from being made, a reset or a step; and after which one that is made to see what it looks like is refused."""
    log_interval_steps: int = 1_000
    """Environment steps between rows of metrics.jsonl; on-policy rounded up to whole rollouts."""
    csv: bool = False
    """Write the rows to metrics.csv, too."""
    wandb: str | None = None
    """Project of Weights & Biases that the rows go to, too; needs the extra `wandb`."""
    time_report: bool = True
    """Record what each process spends its time on: a table at the end, and report.html."""
    eval_interval_steps: int = 2_500
    """Environment steps between evaluations that select the best policy."""
    eval_episodes: int = 20
    """Episodes of each such evaluation."""
    eval_envs: int = 20
    """Environments on which evaluations play at a time; no more are made than there are episodes to play."""
    eval_max_steps: int | None = None
    """Steps after which an evaluation episode is cut off. None: after 10,000, and where Gymnasium knows a limit of the
    environment's (max_episode_steps), by that alone."""
    final_eval_episodes: int = 100
    """Episodes of the evaluation at the end, on seeds used for nothing else."""

    def __post_init__(self) -> None:
        require(self, "total_steps", 1 <= self.total_steps <= _MOST_STEPS, "in 1..2^62")
        valid = _is_within(0, self.num_actors) or self.num_actors in ("cores", "auto")
        require(self, "num_actors", valid, '0 (sequential), a count below 2^31, "cores" or "auto"')
        valid = _is_within(1, self.num_learners) or self.num_learners in ("worthwhile", "auto")
        require(self, "num_learners", valid, 'in 1..2^31 - 1, "worthwhile" or "auto"')
        require(self, "device", self.device in ("auto", "cpu", "gpu"), '"auto", "cpu" or "gpu"')
        require(self, "precision", self.precision in ("float32", "bfloat16"), '"float32" or "bfloat16"')
        valid = self.envs_per_actor == "auto" or _is_within(1, self.envs_per_actor)
        require(self, "envs_per_actor", valid, 'in 1..2^31 - 1, or "auto"')
        require(self, "seed", self.seed >= 0, "at least 0")
        require(self, "checkpoint_interval_s", self.checkpoint_interval_s > 0, "more than 0 s")
        require(self, "step_timeout_s", self.step_timeout_s > 0, "more than 0 s")
        require(self, "log_interval_steps", self.log_interval_steps >= 1, "at least 1")
        require(self, "init_from", self.init_from is None or _is_path(self.init_from), "the folder of a run, or None")
        require(self, "run_dir", self.run_dir is None or _is_path(self.run_dir), "a folder, or None")
        require(self, "wandb", self.wandb != "", "the name of a project, or None")
        require(self, "eval_interval_steps", self.eval_interval_steps >= 1, "at least 1")
        require(self, "eval_episodes", 1 <= self.eval_episodes <= MOST_EPISODES, f"in 1..{MOST_EPISODES}")
        require(self, "eval_envs", _is_within(1, self.eval_envs), "in 1..2^31 - 1")
        require(self, "eval_max_steps", self.eval_max_steps is None or self.eval_max_steps >= 1, "at least 1, or None")
        valid = 1 <= self.final_eval_episodes <= MOST_EPISODES
        require(self, "final_eval_episodes", valid, f"in 1..{MOST_EPISODES}")

    @property
    def in_one_order(self) -> bool:
        """Whether all is done in one order, so that a seed gives the same bits each time."""
        return self.deterministic or self.num_actors == 0

    @property
    def most_eval_steps(self) -> int:
        """Steps of an evaluation's episode, where the environment does not end it before."""
        return _MOST_EVAL_STEPS if self.eval_max_steps is None else self.eval_max_steps


@with_fields
@dataclass(frozen=True, kw_only=True)
class ReplayConfig:
    """What is remembered, and how it is drawn."""

    capacity: int = 100_000
    """Transitions that are kept; the oldest are overwritten. In hindsight a step is 1 + hindsight_goals of them (2 if
    the strategy is "final")."""
    prioritized: bool = True
    """Draw by priority (Schaul et al. 2016) rather than uniformly."""
    alpha: float = 0.6
    """Priority exponent: p = |TD error|^alpha."""
    beta: float = 0.4
    """Importance-correction exponent at the start; rises linearly to 1 at the end of the run."""
    num_step: int = 3
    """Rewards summed before bootstrapping."""
    hindsight_goals: int = 0
    """Rows that each step has besides its own, for other goals, which its episode has reached (hindsight experience
    replay, Andrychowicz et al. 2017; 4 did best there). For environments with goals; 0: none."""
    hindsight_strategy: Literal["future", "episode", "final"] = "future"
    """What a step's other goals are: what its episode has reached at this step or a later one, at any, or at its last,
    which is one goal. Rewards of several steps are for one goal, so that num_step above 1 needs "final"."""
    save_replay: bool = True
    """Keep the replay in checkpoints; without it a resumed run first gathers warmup_steps anew."""
    scratch_dir: str | None = None
    """Folder on a local disk that holds the replay while the run lasts, for more than there is memory; None: memory."""

    def __post_init__(self) -> None:
        require(self, "capacity", self.capacity >= 1, "at least 1 transition")
        require(self, "alpha", 0 <= self.alpha <= 1, "in 0..1")
        require(self, "beta", 0 <= self.beta <= 1, "in 0..1")
        require(self, "num_step", self.num_step >= 1, "at least 1")
        require(self, "hindsight_goals", 0 <= self.hindsight_goals <= 2**16, "in 0..2^16")
        has_one_goal = self.hindsight_goals == 0 or self.hindsight_strategy == "final"
        one = "1 beside hindsight_goals, as rewards of several steps are for one goal, or hindsight_strategy final"
        require(self, "num_step", self.num_step == 1 or has_one_goal, one)
        require(self, "scratch_dir", self.scratch_dir != "", "a folder, or None")

    def beta_at(self, progress: float) -> float:
        """The correction exponent after a share `progress` in 0..1 of the run."""
        return self.beta + (1.0 - self.beta) * min(max(progress, 0.0), 1.0)


@with_fields
@dataclass(frozen=True, kw_only=True)
class UpdateConfig:
    """How much is learned from what is remembered: the same for every off-policy algorithm."""

    gamma: float = 0.99
    """Discount per environment step."""
    batch_size: int = 64
    """Transitions per update."""
    warmup_steps: int = 1_000
    """Environment steps before the first update."""
    update_ratio: Fraction = Fraction(1, 2)
    """Updates per environment step after warm-up, kept exactly. An integer, "1/4" or 0.25."""
    updates_per_call: int = 32
    """Most updates compiled into one call of the learner."""
    tolerance: int = 64
    """Updates that the learner may owe before actors wait for it; 0 is lock-step."""
    grant_length: int = 1
    """Steps that each environment takes between two looks at the ledger and the weights; a kernel takes them in one
    call. Updates may be owed for so many steps more."""

    freeze_encoder_after: int | None = None
    """Environment steps after which the encoders of images are frozen, and the replay keeps what they give in place of
    images: less memory and shorter updates (SEER, Chen et al. 2021). None: never."""

    def __post_init__(self) -> None:
        require(self, "gamma", 0 <= self.gamma <= 1, "in 0..1")
        require(self, "batch_size", self.batch_size >= 1, "at least 1")
        require(self, "warmup_steps", self.warmup_steps >= 0, "at least 0")
        require(self, "update_ratio", self.update_ratio >= 0, "at least 0")
        require(self, "updates_per_call", 1 <= self.updates_per_call <= MOST_UPDATES, f"in 1..{MOST_UPDATES}")
        require(self, "tolerance", self.tolerance >= 0, "at least 0 updates")
        require(self, "grant_length", self.grant_length >= 1, "at least 1")


def _is_within(least: int, value: object) -> bool:
    """Whether a value is a whole number that is large enough, and not too large to count by."""
    return isinstance(value, int) and least <= value <= MOST


def _is_path(text: str) -> bool:
    """Whether a system can have a folder of that name."""
    return text != "" and "\0" not in text


def within_float32(value: float) -> bool:
    """Whether float32 has such a number."""
    return abs(value) <= _LARGEST


def positive_in_float32(value: float) -> bool:
    """Whether a number is above 0 in float32, too, and has an end there."""
    return _SMALLEST <= value <= _LARGEST


def require(config: object, name: str, holds: bool, expected: str) -> None:
    """Raise the sentence about a field whose value is out of range."""
    if not holds:
        value = getattr(config, name)
        raise InvalidInput(f"{name}: expected {expected}, got {value if isinstance(value, Fraction) else repr(value)}")
