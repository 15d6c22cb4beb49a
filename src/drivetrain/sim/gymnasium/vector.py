"""N environments of one simulator as Gymnasium's vector environment."""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from contextlib import nullcontext
from copy import deepcopy
from functools import cached_property
from typing import Any, cast

import jax
import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from drivetrain.core.errors import Closed, InvalidInput
from drivetrain.sim.api import Autoreset, Engine, Environment, Rollout, RolloutState, Tree, each
from drivetrain.sim.compiler import NUM_SEEDS, checked, compile
from drivetrain.sim.envs.drawing import Frame
from drivetrain.sim.forked import first_user
from drivetrain.sim.gymnasium.actions import check_of
from drivetrain.sim.gymnasium.arguments import (
    checked_mask,
    checked_render_mode,
    checked_seed,
    render_modes,
)
from drivetrain.sim.gymnasium.infos import batched, final
from drivetrain.sim.gymnasium.spaces import single_spaces
from drivetrain.sim.gymnax import adapted
from drivetrain.sim.held_keys import Kinds, as_keys
from drivetrain.sim.random import Generator, check_generator, first_key
from drivetrain.sim.registry import UnknownOption, make
from drivetrain.sim.trace import Once, told_of_params
from drivetrain.sim.varying import varied
from drivetrain.sim.width import Width

Array = npt.NDArray[Any]
Step = tuple[Tree, Array, Array, Array, dict[str, Any]]
MODES: dict[Autoreset, AutoresetMode] = {
    "same_step": AutoresetMode.SAME_STEP,
    "next_step": AutoresetMode.NEXT_STEP,
    "disabled": AutoresetMode.DISABLED,
}
NAMES: dict[AutoresetMode, Autoreset] = {mode: name for name, mode in MODES.items()}
FRAMES_PER_S = 30


class SimVectorEnv(VectorEnv[Any, Any, Any]):
    """What `sim.make_vec` makes; the arguments are explained there. Not safe for threads.

    Environment i starts from `split(key(seed), num_envs)[i]`, as `Rollout.reset` says. `reset` without a seed draws
    one from `np_random`, so a seeded first `reset` decides all later ones.

    Attributes:
        env: The simulator.
        params: Its parameters.
        state: Where the environments stand, None before the first `reset`.
        autoreset_mode: How episodes restart, as Gymnasium's own vector environments say it beside `metadata`.
    """

    def __init__(
        self,
        env: Any,
        num_envs: int = 1,
        engine: Engine = "native",
        *,
        params: Tree = None,
        autoreset: Autoreset | AutoresetMode = "next_step",
        num_threads: int = 1,
        generator: Generator = "threefry",
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        """Nothing is compiled yet."""
        if "max_episode_steps" in options:
            raise InvalidInput(
                "max_episode_steps: a time limit is one of the environment's parameters: give params=, as "
                "dataclasses.replace(env.default_params, max_steps=100)"
            )
        if options and not isinstance(env, str):
            raise UnknownOption(
                f"unexpected keyword argument {next(iter(options))!r}: options are for environments by name; give them "
                "to your own"
            )
        self.env = cast("Environment", adapted(make(env, **options) if isinstance(env, str) else env))
        params = self.env.default_params if params is None else params
        mode: Autoreset = NAMES[autoreset] if isinstance(autoreset, AutoresetMode) else autoreset
        record = ("obs", "reward", "terminated", "truncated", "info")
        record = (*record, "final_obs") if mode == "same_step" else record
        self._settings = checked(num_envs, 1, engine, record, mode, num_threads)
        check_generator(generator)
        first_user()  # spaces are made by JAX; forks of this process are refused by who makes this, or at `reset`
        self._engine: Engine = engine
        self._generator: Generator = generator
        self._width = Width()
        self.num_envs = num_envs
        modes = render_modes(self.env)
        self.autoreset_mode = MODES[self._settings.autoreset]
        self.metadata = {
            "autoreset_mode": self.autoreset_mode,
            "render_modes": modes,
            "render_fps": FRAMES_PER_S,
        }
        self.render_mode = checked_render_mode(render_mode, self.env)
        self.params, self._differing = varied(self.env, params, num_envs)
        with told_of_params(self.env, self.params):
            self.single_observation_space, self.single_action_space = single_spaces(
                self.env, self.params, self._differing, generator
            )
        try:
            self.observation_space = batch_space(self.single_observation_space, num_envs)
            self.action_space = batch_space(self.single_action_space, num_envs)
        except MemoryError as error:
            raise InvalidInput(f"num_envs: there is no memory for the bounds of {num_envs} environments") from error
        self._checked = check_of(self.action_space)
        self.state: RolloutState | None = None

    @cached_property
    def rollout(self) -> Rollout:
        """The compiled step; made when it is first needed, which is at the first `reset`."""
        settings = self._settings
        with self._width.held():
            return compile(
                self.env,
                settings.num_envs,
                1,
                self._engine,
                self.params,
                settings.record,
                autoreset=settings.autoreset,
                num_threads=settings.num_threads,
                generator=self._generator,
            )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Tree, dict[str, Any]]:
        """Start episodes: all, or those of `options["reset_mask"]`.

        The others keep the observations of their last step. With an autoreset these are the arrays that `step`
        returned: what the caller has written into them shows.

        Args:
            seed: 0 to 2^32 - 1; None goes on with what the last seed began.
            options: None, or {"reset_mask": bool[num_envs]} for some of the environments.

        Returns:
            Observations of all environments, and an empty dictionary.

        Raises:
            InvalidInput: The seed or an option does not fit.
            Closed: After `close`.
        """
        self._require_open()
        mask = checked_mask(options, self.num_envs)
        if mask is not None:
            self._state()
        seed = checked_seed(seed)
        super().reset(seed=seed)
        fresh = self.rollout.reset(int(self.np_random.integers(NUM_SEEDS)) if seed is None else seed)
        fresh = jax.tree.map(np.array, fresh)  # XLA's memory is not ours to write
        state = fresh if mask is None else restarted(mask, fresh, self._state())
        self.state = state
        return jax.tree.map(np.array, state.obs), {}

    def step(self, actions: Any) -> Step:
        """Take one step in every environment.

        Args:
            actions: Of `action_space`. Real numbers beyond their bounds are left to the environment, integers are not.

        Returns:
            Observations, rewards, terminations, truncations, each [num_envs, ...], and infos in Gymnasium's vector
            format.

        Raises:
            InvalidInput: The actions do not fit, nothing was reset yet, or episodes have ended that nobody restarts.
            Closed: After `close`.
        """
        row, was_done = self.stepped(actions)
        autoreset, ended = self._settings.autoreset, row["terminated"] | row["truncated"]
        restarted_now = {"same_step": ended, "next_step": was_done}.get(autoreset)
        infos = batched(row["info"], np.ones_like(ended) if restarted_now is None else ~restarted_now)
        if autoreset == "same_step":
            infos |= final(ended, row["final_obs"], row["info"])
        shared = autoreset == "disabled"  # with `reset`, which keeps the others
        obs = each(np.array, row["obs"]) if shared else row["obs"]
        return obs, row["reward"].astype(np.float32, copy=False), row["terminated"], row["truncated"], infos

    def stepped(self, actions: Any) -> tuple[dict[str, Tree], Array]:
        """What was recorded of one step, [num_envs, ...] each, and whose episode had ended before it; see `step`."""
        self._require_open()
        state = self._state()
        rows = each(lambda x: x[None], self._checked(actions))
        was_done, autoreset = np.asarray(state.done), self._settings.autoreset
        if autoreset == "disabled" and was_done.any():
            raise InvalidInput(
                f"step: the episode of environment {int(np.argmax(was_done))} has ended; restart it by "
                'reset(options={"reset_mask": terminated | truncated})'
            )
        is_xla = self._engine == "xla"
        with jax.transfer_guard("allow") if is_xla else nullcontext():  # what comes and goes is NumPy's here
            self.state, trajectory = self.rollout(state, rows)
            own = np.array if is_xla else np.asarray  # XLA's memory is not the caller's to write to
            row = {name: each(lambda x: own(x)[0], part) for name, part in trajectory.items()}
        return row, was_done

    @jax.transfer_guard_host_to_device("allow")  # states are NumPy's here, and pictures ask JAX what they show
    def render(self) -> tuple[Frame, ...]:
        """A frame uint8[height, width, 3] of every environment, with render_mode="rgb_array".

        After a step of `autoreset="same_step"` that ended an episode it shows the next one's start.

        Raises:
            InvalidInput: No frames were asked for, or nothing was reset yet.
            Closed: After `close`.
        """
        self._require_open()
        if self.render_mode is None:
            raise InvalidInput('render: expected render_mode="rgb_array" when the environment was made')
        env: Any = self.env
        states = jax.tree.map(np.asarray, self._state().env)
        one = [as_keys(jax.tree.map(lambda x, k=k: x[k], states), self._kinds) for k in range(self.num_envs)]
        each = self._differing
        params = [self.params if each is None else each.of(k) for k in range(self.num_envs)]
        return tuple(np.asarray(env.render(*pair), np.uint8) for pair in zip(one, params, strict=True))

    def close_extras(self, **kwargs: Any) -> None:
        """Let kernel and state go."""
        self.state = None
        self.__dict__.pop("rollout", None)

    def __getstate__(self) -> dict[str, Any]:
        """All but the compiled step, which is made anew, or found on the disk, where it is needed next."""
        return {name: value for name, value in vars(self).items() if name != "rollout"}

    def __deepcopy__(self, memo: dict[int, Any]) -> "SimVectorEnv":
        """A copy that goes its own way; the compiled step serves both."""
        other = object.__new__(type(self))
        memo[id(self)] = other
        shared = {"rollout": self.rollout} if "rollout" in vars(self) else {}
        vars(other).update(deepcopy(self.__getstate__(), memo), **shared)
        return other

    def _require_open(self) -> None:
        if self.closed:
            raise Closed("the vector environment was closed; make another")

    @cached_property
    def _kinds(self) -> Kinds:
        """Of the keys in a state, which the environment's `render` is given again."""
        one = self.params if self._differing is None else self._differing.of(0)
        once, words = Once(self.env, one), jax.ShapeDtypeStruct((2,), np.uint32)
        jax.eval_shape(lambda words: once.reset(cast("jax.Array", first_key(words, self._generator)), one), words)
        return once.kinds

    def _state(self) -> RolloutState:
        if self.state is None:
            raise InvalidInput("expected `reset` to be called first; it was not")
        return self.state


def restarted(mask: Array, fresh: RolloutState, state: RolloutState) -> RolloutState:
    """The state with some environments as in another, and their keys; steps are counted on."""

    def chosen(x: Any, y: Any) -> Array:
        x, y = np.asarray(x), np.asarray(y)
        return np.where(mask.reshape(-1, *(1,) * (x.ndim - 1)), x, y)

    parts = (fresh.env, fresh.keys, fresh.done, fresh.obs), (state.env, state.keys, state.done, state.obs)
    env, keys, done, obs = jax.tree.map(chosen, *parts)
    return RolloutState(env, keys, state.step, done, obs)
