"""One environment of a simulator as Gymnasium's `Env`."""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

import functools
import os
from typing import Any

import gymnasium
import jax
import numpy as np

from drivetrain.core.errors import InvalidInput
from drivetrain.sim.api import Engine, Tree, each
from drivetrain.sim.compiler import NUM_SEEDS
from drivetrain.sim.engines.arrays import on_host
from drivetrain.sim.envs.drawing import Frame
from drivetrain.sim.forked import refuse_after_fork
from drivetrain.sim.gymnasium.arguments import RENDER_MODES, checked_seed
from drivetrain.sim.gymnasium.spaces import check_index
from drivetrain.sim.gymnasium.vector import FRAMES_PER_S, SimVectorEnv
from drivetrain.sim.random import Generator


@functools.cache
def first_maker() -> int:
    """The process in which one was made first: this one, or one that it was forked from."""
    return os.getpid()


class SimEnv(gymnasium.Env[Any, Any]):
    """A batch of one environment that the caller restarts: for tools that know no vector environments.

    Of a batch of N one step costs little more than of one: `sim.make_vec` where it can be used. Arguments are those
    of `sim.make_vec` but `num_envs` and `autoreset`.
    """

    # Gymnasium reads it from the class, and declares it without ClassVar: what some environment can. That of an
    # environment says what this one can.
    metadata: dict[str, Any] = {"render_modes": RENDER_MODES, "render_fps": FRAMES_PER_S}  # noqa: RUF012

    def __init__(
        self,
        env: Any,
        engine: Engine = "native",
        *,
        params: Tree = None,
        generator: Generator = "threefry",
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        """Nothing is compiled before the first `reset`."""
        for name in set(options) & {"num_envs", "autoreset"}:
            raise InvalidInput(
                f"{name}: expected none, since this is one environment, which its caller restarts, got "
                f"{options[name]!r}; give it to gymnasium.make_vec or sim.make_vec"
            )
        if first_maker() == os.getpid():  # else it is a worker of Gymnasium's, which passes on errors of `reset` alone
            refuse_after_fork()
        self.batch = SimVectorEnv(
            env,
            1,
            engine,
            params=params,
            autoreset="disabled",
            generator=generator,
            render_mode=render_mode,
            **options,
        )
        self.render_mode = render_mode
        self.metadata = {**self.metadata, "render_modes": self.batch.metadata["render_modes"]}
        self.observation_space = self.batch.single_observation_space
        self.action_space = self.batch.single_action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Tree, dict[str, Any]]:
        """Start an episode; see `SimVectorEnv.reset`. There are no options: give None, or {}."""
        if options:
            raise InvalidInput(
                f"options: expected none, since a reset always restarts this one environment, got "
                f"{', '.join(map(repr, options))}; leave them out"
            )
        seed = checked_seed(seed)
        super().reset(seed=seed)
        start = int(self.np_random.integers(NUM_SEEDS)) if seed is None else seed
        obs, infos = self.batch.reset(seed=start)
        return each(lambda x: x[0], obs), infos

    def step(self, action: Any) -> tuple[Tree, float, bool, bool, dict[str, Any]]:
        """Take one step; see `SimVectorEnv.step`."""
        state = self.batch.state
        if state is not None and bool(np.asarray(state.done)[0]):
            raise InvalidInput("step: the episode has ended; call `reset`")
        check_index(self.action_space, action)
        actions = of_one(self.action_space, action)
        row, _ = self.batch.stepped(actions)
        first = {name: each(lambda x: x[0], part) for name, part in row.items()}
        ends = bool(first["terminated"]), bool(first["truncated"])
        return first["obs"], float(np.float32(first["reward"])), *ends, first["info"]

    def render(self) -> Frame:
        """A picture of the state; see `SimVectorEnv.render`."""
        return self.batch.render()[0]

    def close(self) -> None:
        """Let kernel and state go."""
        self.batch.close()


def of_one(space: gymnasium.Space[Any], action: Any) -> Tree:
    """A batch of one action: arrays, which lists are taken for, as Gymnasium's spaces take them."""

    def row(x: Any) -> Any:
        return on_host("action", x)[None]

    several = isinstance(space, gymnasium.spaces.Dict | gymnasium.spaces.Tuple)
    return jax.tree.map(row, action, is_leaf=lambda x: isinstance(x, list)) if several else row(action)
