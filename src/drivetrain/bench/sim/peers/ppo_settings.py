"""The settings of PPO that every learner of this bench has."""

from drivetrain.bench.train.settings import PpoSettings

NUM_MINIBATCHES = 4


def settings_for(num_envs: int) -> PpoSettings:
    """Four epochs of four minibatches, as in CleanRL's file: updates that do not drown the environments."""
    return PpoSettings(num_envs=num_envs, batch_size=num_envs * 32 // NUM_MINIBATCHES, n_epochs=4, linear=False)
