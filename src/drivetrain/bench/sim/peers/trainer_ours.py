"""PPO of `drivetrain train` on a compiled simulator: its actor and its learner, in turn, as in a sequential run.

Settings: those of `ppo_settings.py`; one call is a rollout, which the kernel takes in one, and its updates. Weights go
as in a run, as the published vector. Evaluations, checkpoints and metrics are left out, as they are of all.
"""

# The learner's state is JAX's.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

import numpy as np

from drivetrain.bench.sim.peers.entry import Simulator, serve_simulator
from drivetrain.bench.sim.peers.ppo_settings import settings_for
from drivetrain.bench.sim.scene import Scene
from drivetrain.train.actor.actor import make_actor
from drivetrain.train.config import TrainConfig
from drivetrain.train.experience.experience import make_experience, writers
from drivetrain.train.learner.learner import make_learner
from drivetrain.train.runs.requirements import describe


def config_for(scene: Scene, sim_engine: str) -> TrainConfig:
    """The run's, with everybody's settings."""
    settings = settings_for(scene.num_envs)
    return TrainConfig.default("ppo", f"drivetrain/{scene.env}").override(
        sim_engine=sim_engine,
        num_actors=0,
        num_envs=settings.num_envs,
        rollout_length=settings.n_steps,
        batch_size=settings.batch_size,
        num_epochs=settings.n_epochs,
        gamma=settings.gamma,
        gae_lambda=settings.gae_lambda,
        learning_rate=settings.learning_rate,
        clip_range=settings.clip_range,
        max_gradient_norm=settings.max_grad_norm,
        value_coefficient=settings.vf_coef,
        entropy_coefficient=settings.ent_coef,
        hidden=settings.hidden,
        activation=settings.activation,
    )


def training(scene: Scene, sim_engine: str = "auto") -> Simulator:
    """A rollout and its updates."""
    config = config_for(scene, sim_engine)
    interface = describe(config)
    learner = make_learner(config, interface)
    rollout = make_experience(config, interface, shared=False)
    vector = np.array(learner.learned.vector)
    actor = make_actor(
        config, interface, vector, writers(rollout, 0), index=0, path=(0, 0), episodes=None, num_steps=0, encoders=None
    )

    def run() -> int:
        for start in range(0, config.steps_per_rollout, actor.steps_per_call):
            actor.step(actor.steps_per_call, start)
        learner.learn(rollout, config.updates_per_rollout, 0.0)
        vector[:] = learner.learned.vector
        return config.steps_per_rollout

    return run


if __name__ == "__main__":
    serve_simulator(training)
