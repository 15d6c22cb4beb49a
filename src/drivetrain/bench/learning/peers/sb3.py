"""Stable-Baselines3 (PyTorch, eager) at the settings of the case."""

# The peer may be absent where types are checked.
# pyright: basic, reportMissingImports=false

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback

from drivetrain.bench.learning.peers.entry import Examination, Training, main, point_interval
from drivetrain.bench.learning.presets import PresetSettings
from drivetrain.bench.learning.run import Task
from drivetrain.bench.train.job import Job
from drivetrain.bench.train.peers import sb3_continuous, sb3_dqn, sb3_ppo
from drivetrain.bench.train.settings import PpoSettings
from drivetrain.train.interface import BoxActions, Interface


class Greedy:
    """A model's deterministic policy, with actions as the shared evaluator takes them."""

    def __init__(self, model: BaseAlgorithm, interface: Interface) -> None:
        self._model = model
        self._actions = interface.actions

    def act(self, obs: Any) -> NDArray[Any]:
        """Numbers from 0, or reals in -1..1 from the environment's bounds."""
        chosen, _ = self._model.predict(obs, deterministic=True)
        if not isinstance(self._actions, BoxActions):
            return chosen
        low, high = np.array(self._actions.low), np.array(self._actions.high)
        return 2 * (chosen.reshape(len(obs), -1) - low) / (high - low) - 1

    def explore(self, obs: Any, step: int, rng: np.random.Generator, noise: Any = None) -> NDArray[Any]:
        """Exploring is Stable-Baselines3's own business."""
        raise NotImplementedError


class EvaluateOnTheWay(BaseCallback):
    """Evaluates between a block of updates and the next rollout, every `interval` steps."""

    def __init__(self, task: Task, greedy: Greedy, examination: Examination) -> None:
        super().__init__()
        self.curve: list[tuple[int, float]] = []
        self._task = task
        self._greedy = greedy
        self._examination = examination
        self._interval = point_interval(task)

    def _on_rollout_start(self) -> None:
        if self.num_timesteps >= (len(self.curve) + 1) * self._interval:
            self.curve.append((self.num_timesteps, self._examination.on_the_way(self._greedy, self._task.seed)))

    def _on_step(self) -> bool:
        return True


def make(task: Task) -> BaseAlgorithm:
    """The model of a task."""
    case = task.details()
    settings = case.settings
    assert not isinstance(settings, PresetSettings), "settings of ours alone"
    job = Job(
        kind="fixed",
        algo=case.algo,
        env=case.env,
        seed=task.seed,
        total_steps=task.total_steps,
        settings=settings,
        num_envs=task.num_envs or 1,
    )
    makers = {"dqn": sb3_dqn.make_model, "ppo": sb3_ppo.make_model}
    return makers.get(case.algo, sb3_continuous.make_model)(job)


def num_updates(task: Task, model: BaseAlgorithm) -> int:
    """Updates of a trained model, which shows them nowhere else; PPO counts epochs."""
    settings = task.details().settings
    return model._n_updates * (settings.updates_per_epoch if isinstance(settings, PpoSettings) else 1)


def learn(task: Task, interface: Interface, examination: Examination) -> Training:
    """Train, and evaluate on the way."""
    torch.set_num_threads(1)
    model = make(task)
    greedy = Greedy(model, interface)
    callback = EvaluateOnTheWay(task, greedy, examination)
    model.learn(task.total_steps, callback=callback)
    return Training(
        num_steps=model.num_timesteps,
        num_updates=num_updates(task, model),
        policy=greedy,
        curve=callback.curve,
    )


if __name__ == "__main__":
    main(learn)
