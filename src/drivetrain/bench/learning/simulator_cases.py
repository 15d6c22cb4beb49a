"""The cases on compiled simulators, at our own presets: fused against the same through Gymnasium, cheapest first."""

from collections.abc import Sequence

from drivetrain.bench.learning.case import LearningCase
from drivetrain.bench.learning.presets import PresetSettings

# Random actions: the mean of 100 episodes, rounded. Good: 500 ends an episode of CartPole; in Breakout what a run of
# PPO and one of DQN had reached in so many steps before anything was compared.
_CARTPOLE = (24.0, 500.0)
_BREAKOUT_BY_PPO, _BREAKOUT_BY_DQN = (0.5, 10.6), (0.5, 12.0)
_PRESET = "our preset"


def _case(
    algo: str, env: str, total_steps: int, source: str, between: tuple[float, float], num_seeds: int
) -> LearningCase:
    return LearningCase(
        algo=algo,
        env=env,
        total_steps=total_steps,
        settings=PresetSettings(algo=algo, env=env),
        source=source,
        low=between[0],
        high=between[1],
        num_seeds=num_seeds,
    )


CASES: Sequence[LearningCase] = (
    _case("ppo", "drivetrain/CartPole-v1", 100_000, _PRESET, _CARTPOLE, 5),
    _case("dqn", "drivetrain/CartPole-v1", 50_000, _PRESET, _CARTPOLE, 5),
    _case("ppo", "drivetrain/Breakout", 262_144, "our preset for 1,000,000 steps", _BREAKOUT_BY_PPO, 3),
    _case("dqn", "drivetrain/Breakout", 250_000, _PRESET, _BREAKOUT_BY_DQN, 3),
)
