"""Hyperparameters of the compared algorithms, in Stable-Baselines3's terms."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class DqnSettings:
    """Hyperparameters of vanilla DQN, in SB3's terms: everybody's row of the same-algorithm case.

    The defaults are RL Baselines3 Zoo's tuned ones for CartPole-v1 (`hyperparams/dqn.yml`).

    Attributes:
        target_update_interval: Environment steps between copies to the target network. Training
            happens in blocks, so during a block's `gradient_steps` updates the target stands still.
        train_freq: Environment steps between two blocks of updates.
        gradient_steps: Updates in a block.
        max_grad_norm: SB3's own default; SBX does not clip.
    """

    learning_rate: float = 2.3e-3
    batch_size: int = 64
    buffer_size: int = 100_000
    learning_starts: int = 1_000
    gamma: float = 0.99
    target_update_interval: int = 10
    train_freq: int = 256
    gradient_steps: int = 128
    exploration_fraction: float = 0.16
    exploration_final_eps: float = 0.04
    max_grad_norm: float = 10.0
    hidden: tuple[int, ...] = (256, 256)

    @property
    def activation(self) -> Literal["relu", "tanh"]:
        """Everybody's default."""
        return "relu"

    @property
    def squashed(self) -> bool:
        """Its actions are discrete."""
        return False

    def num_steps(self, total_steps: int) -> int:
        """Environment steps of a run: SB3 finishes the block in which `total_steps` falls."""
        return -(-total_steps // self.train_freq) * self.train_freq

    def num_warmup_steps(self) -> int:
        """Environment steps that earn no update: SB3 trains after the first block beyond the start."""
        return self.learning_starts // self.train_freq * self.train_freq

    def num_updates(self, total_steps: int) -> int:
        """Updates of a run of `total_steps`."""
        learned = self.num_steps(total_steps) - self.num_warmup_steps()
        return max(0, learned) // self.train_freq * self.gradient_steps

    def num_updates_between_copies(self) -> int:
        """Updates in `target_update_interval` environment steps; fewer than a block count as none."""
        return self.target_update_interval * self.gradient_steps // self.train_freq


@dataclass(frozen=True, kw_only=True)
class PpoSettings:
    """Hyperparameters of PPO: everybody's row of the same-algorithm case.

    The defaults are RL Baselines3 Zoo's tuned ones for CartPole-v1 (`hyperparams/ppo.yml`).

    Attributes:
        linear: Learning rate and clip range fall to 0 over the run.
        log_std_init: Of real-valued actions, in the environment's units.
        half_range: Half the range of such an action, by which ours are scaled.
    """

    num_envs: int = 8
    n_steps: int = 32
    batch_size: int = 256
    n_epochs: int = 20
    gamma: float = 0.98
    gae_lambda: float = 0.8
    learning_rate: float = 1e-3
    clip_range: float = 0.2
    linear: bool = True
    ent_coef: float = 0.0
    vf_coef: float = 0.5
    max_grad_norm: float = 0.5
    log_std_init: float = 0.0
    half_range: float = 1.0
    hidden: tuple[int, ...] = (64, 64)

    @property
    def activation(self) -> Literal["relu", "tanh"]:
        """Everybody's default."""
        return "tanh"

    @property
    def squashed(self) -> bool:
        """Actions are clipped to their bounds."""
        return False

    @property
    def learning_starts(self) -> int:
        """Environment steps before the first update: one rollout."""
        return self.steps_per_rollout

    @property
    def steps_per_rollout(self) -> int:
        """Environment steps between two rounds of updates."""
        return self.num_envs * self.n_steps

    @property
    def updates_per_epoch(self) -> int:
        """Minibatches of a rollout."""
        return self.steps_per_rollout // self.batch_size

    def num_steps(self, total_steps: int) -> int:
        """Environment steps of a run: whole rollouts."""
        return -(-total_steps // self.steps_per_rollout) * self.steps_per_rollout

    def num_updates(self, total_steps: int) -> int:
        """Gradient updates of a run, one per minibatch."""
        num_rollouts = self.num_steps(total_steps) // self.steps_per_rollout
        return num_rollouts * self.n_epochs * self.updates_per_epoch


@dataclass(frozen=True, kw_only=True)
class ContinuousSettings:
    """Hyperparameters of SAC, TD3 and DDPG, in Stable-Baselines3's terms; one update after each step.

    Attributes:
        learning_starts: Environment steps, with uniform random actions, before the first update.
        tau: Share of the way that targets move at every update.
        action_noise: Standard deviation of the exploration noise on actions in -1..1; None for SAC,
            which samples its policy.
    """

    learning_rate: float
    learning_starts: int
    gamma: float = 0.99
    buffer_size: int = 1_000_000
    hidden: tuple[int, ...] = (256, 256)
    batch_size: int = 256
    tau: float = 0.005
    action_noise: float | None = None

    @property
    def activation(self) -> Literal["relu", "tanh"]:
        """Everybody's default."""
        return "relu"

    @property
    def squashed(self) -> bool:
        """The policy's outputs go through tanh to the bounds of the actions."""
        return True

    def num_steps(self, total_steps: int) -> int:
        """Environment steps of a run."""
        return total_steps

    def num_updates(self, total_steps: int) -> int:
        """Updates of a run of `total_steps`."""
        return max(0, total_steps - self.learning_starts)


Settings = DqnSettings | PpoSettings | ContinuousSettings
PENDULUM = PpoSettings(
    num_envs=4,
    n_steps=1_024,
    batch_size=64,
    n_epochs=10,
    gamma=0.9,
    gae_lambda=0.95,
    linear=False,
    half_range=2.0,
)
"""RL Baselines3 Zoo's for Pendulum-v1, without its state-dependent exploration (gSDE)."""
