"""Steps of environments with goals, and the rows that a replay has of them."""

import numpy as np

SPEC = {
    "obs": {"observation": ((), "int64"), "achieved_goal": ((2,), "float32"), "desired_goal": ((2,), "float32")},
    "action": ((), "int64"),
}
WANTED = np.float32(-1.0)  # what nobody ever reaches


def reward_of(achieved, desired):
    return -np.abs(achieved - desired).sum(axis=-1)


def goal(env, step):
    """What an environment has reached before a step."""
    return np.stack([env * 1000.0 + step, step * 2.0], axis=-1).astype(np.float32)


def step_of(envs, steps, *, terminated=False, truncated=False):
    """A step of some environments; `steps` counts through an environment's whole life."""
    envs, steps = np.asarray(envs), np.asarray(steps)
    wanted = np.full((len(envs), 2), WANTED)
    return {
        "obs": {"observation": envs * 1000 + steps, "achieved_goal": goal(envs, steps), "desired_goal": wanted},
        "next_obs": {
            "observation": envs * 1000 + steps + 1,
            "achieved_goal": goal(envs, steps + 1),
            "desired_goal": wanted,
        },
        "action": envs + steps,
        "reward": reward_of(goal(envs, steps + 1), wanted),
        "terminated": np.broadcast_to(terminated, envs.shape).copy(),
        "truncated": np.broadcast_to(truncated, envs.shape).copy(),
    }


def rows_of(replay):
    """(env, step, achieved, wanted, next wanted, reward, terminated, truncated, discount) of each row, oldest first."""
    data = replay.read(replay.all_keys()).data
    columns = [
        data["obs"]["observation"] // 1000,
        data["obs"]["observation"] % 1000,
        data["next_obs"]["achieved_goal"],
        data["obs"]["desired_goal"],
        data["next_obs"]["desired_goal"],
        data["reward"],
        data["terminated"],
        data["truncated"],
        data["discount"],
    ]
    return list(zip(*columns, strict=True))
