"""Our own SAC, TD3 and DDPG, through the public `drivetrain.train.train`, sequential or with its processes."""

from fractions import Fraction
from typing import Any

from drivetrain.bench.train.evaluation import Layers
from drivetrain.bench.train.job import Job
from drivetrain.bench.train.peers.entry import Training, main
from drivetrain.bench.train.peers.ours_dqn import RUN_DIR, dense_layers, prepare, run_settings, train_through
from drivetrain.bench.train.settings import ContinuousSettings
from drivetrain.bench.train.stopwatch import Stopwatch
from drivetrain.train.config import TrainConfig
from drivetrain.train.networks import unpack
from drivetrain.train.policies.policy import policy_network
from drivetrain.train.run_dir.checkpoint import load_saved_policy
from drivetrain.train.runs.requirements import describe

PACE = ("updates_per_call", "tolerance")  # how learning and acting take turns; ours to choose with processes


def overrides(job: Job) -> dict[str, Any]:
    """The job in terms of our configuration: turn by turn without processes, at our default pace with them."""
    assert isinstance(job.settings, ContinuousSettings)
    fields = run_settings(job) | {"save_replay": False} | shared(job.total_steps, job.settings)
    if job.num_actors == 0:
        return fields | {"envs_per_actor": 1}
    fields = {name: value for name, value in fields.items() if name not in PACE}
    # An actor waits most of the time here, so that it needs no core of its own beside several learners.
    return fields | {"oversubscribe": job.num_learners > 1}


def shared(total_steps: int, settings: ContinuousSettings) -> dict[str, Any]:
    """The shared settings in our names."""
    noise = {} if settings.action_noise is None else {"exploration_noise": settings.action_noise}
    return noise | {
        "total_steps": total_steps,
        "warmup_steps": settings.learning_starts,
        "update_ratio": Fraction(1),
        "updates_per_call": 1,
        "tolerance": 1,
        "capacity": settings.buffer_size,
        "prioritized": False,
        "num_step": 1,
        "hidden": settings.hidden,
        "gamma": settings.gamma,
        "learning_rate": settings.learning_rate,
        "batch_size": settings.batch_size,
        "target_tau": settings.tau,
        "adam_epsilon": 1e-8,
    }


def layers_of(config: TrainConfig) -> Layers:
    """The policy's kernels and biases; of a distribution, its mean."""
    pieces = unpack(policy_network(config, describe(config)), load_saved_policy(RUN_DIR, "last").vector)
    return dense_layers({name: piece for name, piece in pieces.items() if not name.startswith("log_std.")})


def run(job: Job, watch: Stopwatch) -> Training:
    """Train."""
    return train_through(job, watch, overrides(job), layers_of)


if __name__ == "__main__":
    main(run, prepare)
