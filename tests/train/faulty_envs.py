"""Pendulums that break in the ways that environments do; FAULT says how, FAULT_STEP when, over all steps."""

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import gymnasium
import numpy as np
from gymnasium.envs.classic_control import PendulumEnv

from drivetrain.core.seeding import episode_seeds


class Faulty(PendulumEnv):
    """Breaks at the step of its process that FAULT_STEP names, and at every later one."""

    num_steps = 0

    def step(self, action):
        Faulty.num_steps += 1
        observation, reward, *rest = super().step(action)
        if Faulty.num_steps >= int(os.environ["FAULT_STEP"]):
            observation, reward = FAULTS[os.environ["FAULT"]](observation, reward)
        return observation, reward, *rest

    def close(self):
        """Takes its process with it where it hangs, too, once it was stepped."""
        if os.environ.get("FAULT") == "hang" and Faulty.num_steps:
            os._exit(3)


class NeverMade(PendulumEnv):
    """Waits for a simulator that does not answer."""

    def __init__(self):
        time.sleep(1000)


class Threaded(PendulumEnv):
    """Has a thread that nobody ends."""

    thread = None

    def step(self, action):
        if self.thread is None:
            self.thread = threading.Thread(target=time.sleep, args=(1000,), name="simulator")
            self.thread.start()
        return super().step(action)


class Forgetful(PendulumEnv):
    """Has a helper that closing forgets. FAULT_MARK collects the numbers of their processes."""

    helper = None

    def step(self, action):
        if self.helper is None:
            self.helper = subprocess.Popen(["sleep", "1000"])
            with open(os.environ["FAULT_MARK"], "a") as file:
                file.write(f"{self.helper.pid}\n")
        return super().step(action)


def hang_once(observation, reward):
    """Not in the process that is started after. The mark is the number of a process that only it knows of."""
    mark = os.environ["FAULT_MARK"]
    if not os.path.exists(mark):
        helper = subprocess.Popen(["sleep", "1000"])
        with open(mark, "w") as file:
            file.write(str(helper.pid))
        time.sleep(1000)
    return observation, reward


def complain(observation, reward):
    raise RuntimeError("the rod broke")


def interrupt(observation, reward):
    raise KeyboardInterrupt("no more")


def paint(observation, reward):
    raise RuntimeError("\x1b]0;owned\x07\x1b[31mred, \udcff")  # the last as in the name of a file that is no UTF-8


class OfAnotherLibrary:
    """An array of a library that NumPy cannot have it from, as one of PyTorch's that has a gradient."""

    def __array__(self, *args, **kwargs):
        raise RuntimeError("can't call numpy() on a tensor that requires grad")

    def __float__(self):
        raise RuntimeError("no number")


def cancel(observation, reward):
    raise asyncio.CancelledError("the simulator went away")


FAULTS = {
    "cancel": cancel,
    "nan": lambda observation, reward: (observation * np.float32(np.nan), reward),
    "infinite": lambda observation, reward: (observation, np.inf),
    "shape": lambda observation, reward: (observation[:2], reward),
    "dtype": lambda observation, reward: (np.array(["a", "b", "c"]), reward),
    "nothing": lambda observation, reward: (None, reward),
    "text": lambda observation, reward: (observation, "much"),
    "number as text": lambda observation, reward: (observation, "1"),
    "number as bytes": lambda observation, reward: (observation, b"1"),
    "array of text": lambda observation, reward: (observation, np.array(["1"])),
    "foreign observation": lambda observation, reward: (OfAnotherLibrary(), reward),
    "foreign reward": lambda observation, reward: (observation, OfAnotherLibrary()),
    "huge reward": lambda observation, reward: (observation, 10**5_000),
    "exit": lambda observation, reward: sys.exit(),
    "leave": lambda observation, reward: os._exit(0),
    "kill": lambda observation, reward: os.kill(os.getpid(), signal.SIGKILL),
    "raise": complain,
    "interrupt": interrupt,
    "paint": paint,
    "hang": hang_once,
}


class Stuck(PendulumEnv):
    """Is made and reset, and never comes back from a step."""

    def step(self, action):
        time.sleep(1000)


class StuckAtLast(PendulumEnv):
    """Never comes back from the first of a run's last episodes."""

    def reset(self, *, seed=None, options=None):
        if seed in episode_seeds(0, "final", 1):
            time.sleep(1000)
        return super().reset(seed=seed, options=options)


class Helped(PendulumEnv):
    """Has a process of multiprocessing's beside it, which it forgets to end."""

    def __init__(self):
        super().__init__()
        if multiprocessing.current_process().name != "MainProcess" or "pytest" in sys.modules:
            return
        context = multiprocessing.get_context("spawn")
        helper = context.Process(target=time.sleep, args=(1000,))
        helper.start()
        sys.stdout.write(f"helper {helper.pid}\n")
        sys.stdout.flush()


gymnasium.register("Stuck-v0", Stuck, max_episode_steps=50)
gymnasium.register("StuckAtLast-v0", StuckAtLast, max_episode_steps=50)
gymnasium.register("Helped-v0", Helped, max_episode_steps=50)
gymnasium.register("Faulty-v0", Faulty, max_episode_steps=50)
gymnasium.register("Threaded-v0", Threaded, max_episode_steps=50)
gymnasium.register("Forgetful-v0", Forgetful, max_episode_steps=50)
