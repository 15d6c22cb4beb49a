"""Evaluation on a compiled simulator: all lanes in one call, the same episodes as through Gymnasium.

seeds -> starts of so many environments -> policy, kernel, policy, kernel ... until all have ended -> episodes
"""

# JAX annotates parts of its interface only:
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from drivetrain import sim
from drivetrain.sim.api import RolloutState
from drivetrain.train.actor.fused.kernel import action_of
from drivetrain.train.actor.fused.layout import stored
from drivetrain.train.config import TrainConfig
from drivetrain.train.environments.faults import refuse, require_finite
from drivetrain.train.environments.sim_params import usual_params
from drivetrain.train.environments.spaces import decoder
from drivetrain.train.episode import Episode
from drivetrain.train.interface import Arrays, Interface, rows_of
from drivetrain.train.policies.policy import Policy
from drivetrain.train.telemetry.recording import EVALUATION, INFERENCE, SIMULATION

RECORD = ("reward", "terminated", "truncated", "final_obs")
"""What is recorded of every step: an episode's last observation, in place of the next one's start."""


class FusedEvaluator:
    """Plays whole episodes greedily; an `evaluate.Evaluating`.

    Args:
        config: The run's; it has a `fused_engine`.
        interface: What the environment looks like.
        num_lanes: Episodes that are played at a time.
        beat: Called before each step of all of them.
    """

    def __init__(
        self, config: TrainConfig, interface: Interface, num_lanes: int, beat: Callable[[], None] = lambda: None
    ) -> None:
        self._beat = beat
        engine = config.fused_engine
        assert engine is not None, "the run's environments are Gymnasium's"
        env: Any = sim.make(config.env, **config.environment.fresh_kwargs)
        self._env_id, self._interface, self._num_lanes = config.env, interface, num_lanes
        self._max_steps = config.run.most_eval_steps
        params = usual_params(env, config.environment)
        self._action, self._decode = action_of(env, params), decoder(interface.actions)
        self._rollout = sim.compile(env, num_lanes, 1, engine, params, RECORD)
        self._start = sim.compile(env, 1, 1, "xla", params).reset  # as `sim.make_vec` of one environment; never stepped

    @EVALUATION
    def play(self, policy: Policy, seeds: Sequence[int]) -> list[Episode]:
        """See `Evaluating`; simulators say nothing of success."""
        episodes: list[Episode] = []
        for first in range(0, len(seeds), self._num_lanes):
            episodes += self._played(policy, seeds[first : first + self._num_lanes])
        return episodes

    def begin_anew(self) -> None:
        """Nothing: a simulator's episode depends on its seed alone."""

    def close(self) -> None:
        """Nothing is held beyond memory."""

    @jax.transfer_guard("allow")  # actions are NumPy's, and engine xla takes them, too
    def _played(self, policy: Policy, seeds: Sequence[int]) -> list[Episode]:
        """One episode per seed, at most as many as lanes; the lanes beyond play the first one, too."""
        state, shown = self._begun([*seeds, *[seeds[0]] * (self._num_lanes - len(seeds))])
        totals, lanes = np.zeros(self._num_lanes), np.arange(self._num_lanes)
        lengths, playing = np.zeros(self._num_lanes, np.int64), lanes < len(seeds)
        act = INFERENCE(policy.act)
        obs = self._seen(shown, playing, 0)
        for step in range(1, self._max_steps + 1):
            self._beat()
            obs = rows_of(obs, np.where(playing, lanes, playing.argmax()))  # an episode that is over goes anywhere
            taken = np.array([self._decode(action) for action in act(obs)], self._action.dtype)
            with SIMULATION:
                state, steps = self._rollout(state, taken.reshape(1, self._num_lanes, *self._action.shape))
                reward = np.asarray(steps["reward"][0]).astype(np.float32)  # as Gymnasium's interface gives it
                ended = np.asarray(steps["terminated"] | steps["truncated"])[0]
            if (wrong := playing & ~np.isfinite(reward)).any():
                refuse(self._env_id, step, f"expected a finite number as reward, got {reward[wrong][0]}")
            obs = self._seen(jax.tree.map(lambda leaf: leaf[0], steps["final_obs"]), playing, step)
            totals += np.where(playing, reward, 0.0)
            lengths += playing
            playing &= ~ended
            if not playing.any():
                break
        return list(map(Episode, totals[: len(seeds)].tolist(), lengths.tolist()))

    def _seen(self, shown: Any, playing: NDArray[np.bool_], step: int) -> Arrays:
        """Observations of all lanes; those of episodes that go on, or have just ended, are numbers."""
        obs = stored(self._interface.observations, jax.tree.map(np.asarray, shown), (self._num_lanes,), np)
        require_finite(self._env_id, rows_of(obs, playing), [step] * int(playing.sum()))
        return obs

    @SIMULATION
    def _begun(self, seeds: Sequence[int]) -> tuple[RolloutState, Any]:
        """All lanes where environments of these seeds begin, and what they show."""
        each = [self._start(seed) for seed in seeds]

        def joined(*parts: Any) -> Any:
            return np.concatenate([np.asarray(part) for part in parts])

        env, keys, done, obs = jax.tree.map(joined, *[(one.env, one.keys, one.done, one.obs) for one in each])
        return RolloutState(env, keys, np.uint32(0), done, None), obs
