"""A hand-written loop, Q-learning with a target network and a replay of lists, that imports no RL library."""

# The peer may be absent where types are checked.
# pyright: basic, reportMissingImports=false

import random
import sys

import gymnasium
import numpy as np
import torch

from drivetrain.bench.scope.window import window

BATCH_SIZE = 64
GAMMA = 0.99


def network() -> torch.nn.Module:
    """Values of CartPole's two actions."""
    return torch.nn.Sequential(
        torch.nn.Linear(4, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2)
    )


def main(env_name: str, num_steps: int, device: str = "cpu") -> None:
    """Step, act, learn, in turn."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    if device != "cpu":
        torch.set_default_device(device)
    rng = random.Random(1)
    env = gymnasium.make(env_name)
    values, target = network(), network()
    target.load_state_dict(values.state_dict())
    optimizer = torch.optim.Adam(values.parameters(), lr=1e-3)
    rows: list[tuple] = []
    with window():
        obs, _ = env.reset(seed=1)
        for step in range(num_steps):
            with torch.no_grad():
                greedy = int(values(torch.as_tensor(obs)).argmax())
            action = rng.randrange(2) if rng.random() < 0.1 else greedy
            next_obs, reward, terminated, truncated, _ = env.step(action)
            rows.append((obs, action, reward, next_obs, terminated))
            obs = env.reset()[0] if terminated or truncated else next_obs
            if len(rows) >= BATCH_SIZE:
                learn(rng.sample(rows, BATCH_SIZE), values, target, optimizer)
            if step % 200 == 0:
                target.load_state_dict(values.state_dict())


def learn(batch: list[tuple], values: torch.nn.Module, target: torch.nn.Module, optimizer: torch.optim.Adam) -> None:
    """One update."""
    obs, action, reward, next_obs, terminated = (torch.as_tensor(np.array(part)) for part in zip(*batch, strict=True))
    with torch.no_grad():
        goal = reward.float() + GAMMA * ~terminated * target(next_obs).amax(1)
    taken = values(obs).gather(1, action[:, None])[:, 0]
    loss = torch.nn.functional.smooth_l1_loss(taken, goal)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


if __name__ == "__main__":
    main(sys.argv[2], int(sys.argv[3]), *sys.argv[4:])
