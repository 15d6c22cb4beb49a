"""The cases against Stable-Baselines3, cheapest first."""

from collections.abc import Sequence
from dataclasses import replace

from drivetrain.bench.learning.case import LearningCase, Settings
from drivetrain.bench.train.settings import PENDULUM, ContinuousSettings, DqnSettings, PpoSettings

# Random actions: the mean of 100 episodes, rounded. Good: 500 ends an episode of CartPole; -150 is about
# what the zoo lists for Pendulum; 200 counts as solved in LunarLander; 5,000 is about what SAC's and TD3's
# papers show for HalfCheetah after 100,000 steps.
_RANGES = {
    "CartPole-v1": (24.0, 500.0),
    "Pendulum-v1": (-1_200.0, -150.0),
    "LunarLander-v3": (-190.0, 200.0),
    "HalfCheetah-v5": (-280.0, 5_000.0),
}
_ZOO = "RL Baselines3 Zoo, hyperparams/"

_LUNAR_LANDER = DqnSettings(
    learning_rate=6.3e-4,
    batch_size=128,
    buffer_size=50_000,
    learning_starts=128,
    target_update_interval=250,
    train_freq=4,
    gradient_steps=4,
    exploration_fraction=0.12,
    exploration_final_eps=0.1,
)
_DDPG_AND_TD3 = ContinuousSettings(
    learning_rate=1e-3,
    learning_starts=10_000,
    gamma=0.98,
    buffer_size=200_000,
    hidden=(400, 300),
    action_noise=0.1,
)


def _case(algo: str, env: str, total_steps: int, settings: Settings, source: str, num_seeds: int = 5) -> LearningCase:
    low, high = _RANGES[env]
    return LearningCase(
        algo=algo,
        env=env,
        total_steps=total_steps,
        settings=settings,
        source=_ZOO + source,
        low=low,
        high=high,
        num_seeds=num_seeds,
    )


CASES: Sequence[LearningCase] = (
    _case("ppo", "CartPole-v1", 100_000, PpoSettings(), "ppo.yml, CartPole-v1"),
    _case(
        "ppo",
        "Pendulum-v1",
        100_000,
        PENDULUM,
        "ppo.yml, Pendulum-v1, without its state-dependent exploration (gSDE), which ours does not have",
    ),
    _case("dqn", "CartPole-v1", 50_000, DqnSettings(), "dqn.yml, CartPole-v1"),
    *(
        _case(
            algo,
            "Pendulum-v1",
            20_000,
            _DDPG_AND_TD3,
            f"{algo}.yml, Pendulum, and Stable-Baselines3's defaults; updates after every step, where versions "
            "of the file have as many after every episode",
        )
        for algo in ("ddpg", "td3")
    ),
    _case(
        "sac",
        "Pendulum-v1",
        20_000,
        ContinuousSettings(learning_rate=1e-3, learning_starts=256),
        "sac.yml, Pendulum-v1, and Stable-Baselines3's defaults; 256 steps before the first update (a batch, "
        "which ours waits for) instead of 100",
    ),
    _case(
        "dqn",
        "LunarLander-v3",
        100_000,
        _LUNAR_LANDER,
        "dqn.yml, LunarLander-v2; 128 steps before the first update (a batch, which ours waits for) instead of 0",
    ),
    _case(
        "td3",
        "HalfCheetah-v5",
        100_000,
        replace(_DDPG_AND_TD3, gamma=0.99, buffer_size=1_000_000),
        "td3.yml, HalfCheetah, at a tenth of its steps",
        num_seeds=3,
    ),
    _case(
        "sac",
        "HalfCheetah-v5",
        100_000,
        ContinuousSettings(learning_rate=3e-4, learning_starts=10_000),
        "sac.yml, HalfCheetah, and Stable-Baselines3's defaults, at a tenth of its steps",
        num_seeds=3,
    ),
)
