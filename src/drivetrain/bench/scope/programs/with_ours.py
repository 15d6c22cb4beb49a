"""drivetrain's own trainer in one process, compilation included."""

import os
import sys

from drivetrain.bench.scope.window import window
from drivetrain.core.threads import one_thread_environment, prepare_computation
from drivetrain.train import train


def main(algo: str, env: str, num_steps: int) -> None:
    """Train in this very process."""
    os.environ.update(one_thread_environment(os.environ))
    prepare_computation()
    with window():
        train(algo, env, total_steps=num_steps, num_actors=0, seed=1, run_dir="run", final_eval_episodes=1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
