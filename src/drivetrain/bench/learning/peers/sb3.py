"""Stable-Baselines3 (PyTorch, eager) at the settings of the case."""

# The peer may be absent where types are checked.
# pyright: basic, reportMissingImports=false

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3 import DDPG, PPO, SAC, TD3
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.noise import NormalActionNoise

from drivetrain.bench.learning.case import ContinuousSettings, PpoSettings
from drivetrain.bench.learning.peers.entry import Examination, Training, main, point_interval
from drivetrain.bench.learning.run import Task
from drivetrain.bench.train.job import Job
from drivetrain.bench.train.peers.sb3_dqn import make_model
from drivetrain.train.interface import BoxActions, Interface

CONTINUOUS = {"sac": SAC, "td3": TD3, "ddpg": DDPG}


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

    def explore(self, obs: Any, step: int, rng: np.random.Generator) -> NDArray[Any]:
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


def make_continuous(task: Task, settings: ContinuousSettings) -> BaseAlgorithm:
    """SAC, TD3 or DDPG; what is not named is the same by default on both sides."""
    env = make_vec_env(task.details().env, n_envs=1, seed=task.seed)
    num_actions = env.action_space.shape[0]
    noise = {}
    if settings.action_noise is not None:
        sigma = np.full(num_actions, settings.action_noise)
        noise["action_noise"] = NormalActionNoise(np.zeros(num_actions), sigma)
    return CONTINUOUS[task.details().algo](
        "MlpPolicy",
        env,
        learning_rate=settings.learning_rate,
        batch_size=settings.batch_size,
        buffer_size=min(settings.buffer_size, task.total_steps),  # never full: the same, in less memory
        learning_starts=settings.learning_starts,
        gamma=settings.gamma,
        tau=settings.tau,
        train_freq=1,
        gradient_steps=1,
        policy_kwargs={"net_arch": list(settings.hidden)},
        seed=task.seed,
        device="cpu",
        **noise,
    )


def make_ppo(task: Task, settings: PpoSettings) -> PPO:
    """PPO with the networks, tanh units and Adam that it has by default."""

    def scheduled(start: float) -> Any:
        return (lambda remaining: remaining * start) if settings.linear else start

    return PPO(
        "MlpPolicy",
        make_vec_env(task.details().env, n_envs=settings.n_envs, seed=task.seed),
        learning_rate=scheduled(settings.learning_rate),
        n_steps=settings.n_steps,
        batch_size=settings.batch_size,
        n_epochs=settings.n_epochs,
        gamma=settings.gamma,
        gae_lambda=settings.gae_lambda,
        clip_range=scheduled(settings.clip_range),
        ent_coef=settings.ent_coef,
        vf_coef=settings.vf_coef,
        max_grad_norm=settings.max_grad_norm,
        policy_kwargs={"net_arch": list(settings.hidden)},
        seed=task.seed,
        device="cpu",
    )


def make(task: Task) -> BaseAlgorithm:
    """The model of a task."""
    case = task.details()
    if isinstance(case.settings, PpoSettings):
        return make_ppo(task, case.settings)
    if isinstance(case.settings, ContinuousSettings):
        return make_continuous(task, case.settings)
    job = Job(kind="fixed", env=case.env, seed=task.seed, total_steps=task.total_steps, settings=case.settings)
    return make_model(job)


def num_updates(task: Task, model: BaseAlgorithm) -> int:
    """Updates of a trained model, which shows them nowhere else; PPO counts epochs."""
    settings = task.details().settings
    batches = settings.learning_starts // settings.batch_size if isinstance(settings, PpoSettings) else 1
    return model._n_updates * batches


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
