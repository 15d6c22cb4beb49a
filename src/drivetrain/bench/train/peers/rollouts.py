"""The callback that SB3 and SBX share: evaluates between a block of updates and the next rollout."""

# The peer may be absent where types are checked.
# pyright: basic, reportMissingImports=false

from collections.abc import Callable

from stable_baselines3.common.callbacks import BaseCallback

from drivetrain.bench.train.evaluation import Layers
from drivetrain.bench.train.peers.entry import Target


class EvaluateBetweenRollouts(BaseCallback):
    """Asks `target` at the start of a rollout, when the weights have just been updated."""

    def __init__(self, target: Target, layers: Callable[[], Layers]) -> None:
        super().__init__()
        self.target = target
        self.layers = layers

    def _on_rollout_start(self) -> None:
        if self.target.is_due(self.num_timesteps):
            self.target.check(self.num_timesteps, self.layers())

    def _on_step(self) -> bool:
        """False ends the training; the clock was stopped when the target was reached."""
        return not self.target.reached
