"""`sim.compile`: from an environment to a rollout on the engine of one's choice."""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

import importlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, cast, get_args

import jax
import jax.numpy as jnp
import numpy as np

from drivetrain.core.errors import InvalidInput, MissingExtra
from drivetrain.core.extras import install_command, naming_extra
from drivetrain.sim.acting import Policy, Remembering, acting_of, observing
from drivetrain.sim.api import (
    RECORDABLE,
    RECORDABLE_OF_POLICY,
    Autoreset,
    Engine,
    Environment,
    Rollout,
    RolloutState,
    Runner,
    Settings,
    Tree,
)
from drivetrain.sim.devices import differing_like
from drivetrain.sim.engines.arrays import is_traced
from drivetrain.sim.finding import built, marked, slow_file
from drivetrain.sim.forked import refuse_after_fork
from drivetrain.sim.gymnax import adapted
from drivetrain.sim.held_keys import as_words, is_one
from drivetrain.sim.narrowing import Narrow, Narrowed, checked_narrow
from drivetrain.sim.policies import check_given
from drivetrain.sim.random import Generator, check_generator, first_key
from drivetrain.sim.recalling import Recalled
from drivetrain.sim.trace import Traced, told_of_params, trace
from drivetrain.sim.transition import first
from drivetrain.sim.varying import Varied, carrying, varied
from drivetrain.sim.width import Width

KEPT = ("native", "cuda")
"""Engines that need no trace where the source of their kernel is kept."""


def compile(
    env: Any,
    num_envs: int,
    num_steps: int,
    engine: Engine = "native",
    params: Tree = None,
    record: Sequence[str] = ("obs", "reward", "terminated", "truncated"),
    *,
    autoreset: Autoreset = "same_step",
    num_threads: int = 1,
    narrow_obs: Narrow | None = None,
    generator: Generator = "threefry",
    stream: Any = None,
    policy: Policy | None = None,
    policy_params: Tree = (),
) -> Rollout:
    """Compile num_steps steps of num_envs environments into one call.

    Args:
        env: Anything of the form of `sim.api.Environment`, or an environment of gymnax.
        num_envs: N, at least 1.
        num_steps: K, at least 1.
        engine: "xla": `vmap` and `scan`, what all others are tested against. "native": one C++ kernel,
            compiled by the system's compiler and kept on disk. "cuda": one CUDA kernel, one thread per
            environment, with the bits of "native". "numpy": the program interpreted. "torch": the same by
            PyTorch on the CPU. "torch_compiled": the same through `torch.compile`, which compiles at the
            first call.
        params: Of the environment; its defaults when None. They become constants, but for leaves with an axis more
            than the defaults have, [num_envs, ...]: those are rows, one for each environment.
        record: What the trajectory holds: any of obs, reward, terminated, truncated, final_obs, info; with a policy
            also of action, obs_before (what it saw) and its extras. With () nothing is written.
        autoreset: As in Gymnasium: "same_step", "next_step" or "disabled".
        num_threads: Of the native engine.
        narrow_obs: How observations are recorded: None, as they are; "bool", whether an element is not 0; "uint8",
            by value; "bits", as `numpy.packbits` of each flattened leaf.
        generator: "threefry": the environment gets JAX's keys. "philox": it gets counters, for environments that
            draw with `sim.random`; starts and draws are others, and cost less.
        stream: Of the engine "cuda": what calls are put on, in its order; they return before the work is done. An
            object with `__cuda_stream__`, or the handle as a number; the default stream when None.
        policy: Who acts: `policy(params, obs, key)` of ONE environment gives an action, or (action, extras), where
            extras are a dictionary of arrays, as log_prob and value. It sees observations as the environment gives
            them. Its key in step t is `fold_in(fold_in(keys[i], t), 3)`, or a counter under "philox"; those of the
            environment are as without it. `sim.policies` makes some.
        policy_params: A pytree with the structure, shapes and types of its parameters. Their values are arguments of
            each call, `rollout(state, policy=params)`, one for all environments.

    Returns:
        The call: `rollout.reset(seed)` gives first states, `rollout(state, actions)` the states after num_steps steps
        and what was recorded on the way, `[num_steps, num_envs, ...]`.

    Raises:
        InvalidInput: An argument does not fit.
        CompileError: The environment or the policy cannot be compiled; the message says what to change.
        MissingExtra: The engine needs PyTorch, or what the extra "cuda" brings.
    """
    settings = checked(num_envs, num_steps, engine, record, autoreset, num_threads, stream, policy is not None)
    check_generator(generator)
    engine = cast("Engine", chosen("engine", engine, get_args(Engine)))
    env = cast("Environment", adapted(env))
    params = env.default_params if params is None else params
    narrow = None if narrow_obs is None else checked_narrow(narrow_obs)
    check_given(policy, policy_params)
    acting = acting_of(policy, policy_params, generator, narrow)
    seen = env if acting is None else Remembering(env)
    stepped = seen if narrow is None else Narrowed(seen, narrow)
    params, differing = varied(env, params, settings.num_envs)
    one = params if differing is None else differing.of(0)
    carried = "state.env" if acting is None else ("state.env", "state.obs")
    settings = replace(settings, carried=carried if differing is None else (carried, "params"))
    with told_of_params(env, params):
        runner = built(
            builder(engine),
            settings,
            lambda: trace(stepped, one, autoreset, settings.record, generator, differing, acting),
            lambda: marked(env, one, settings, generator, narrow, differing, acting),
            slow_file(env) if engine in KEPT else None,
        )
    runner = runner if differing is None else carrying(runner, differing)
    runner = runner if acting is None else observing(runner, acting, settings.num_envs)
    return Rollout(
        env=env,
        params=params,
        engine=engine,
        settings=settings,
        start=Start(stepped, params, settings, engine, generator, differing, acting is not None),
        runner=runner,
        has_policy=acting is not None,
    )


def builder(engine: Engine) -> Callable[[Traced | Recalled, Settings], Runner]:
    """What compiles for an engine; its module is only imported now.

    Raises:
        MissingExtra: It needs what is not installed, or another version of it.
    """
    try:
        with naming_extra():
            return importlib.import_module(f"drivetrain.sim.engines.{engine}").build
    except ImportError as error:  # of a cuda.core that another package has brought: before 1.0 it had other names
        if isinstance(error, ModuleNotFoundError) or not (error.name or "").startswith("cuda."):
            raise
        needed = f"the engine {engine!r} needs another version: {error}; {install_command('cuda')}"
        raise MissingExtra(needed) from error


class Start:
    """First states, by XLA on every engine."""

    def __init__(
        self, env: Environment, params: Tree, settings: Settings, engine: Engine, generator: Generator,
        differing: Varied | None = None, remembers: bool = False,
    ) -> None:  # fmt: skip
        """Compiled at the first call."""
        self.num_envs, self.with_obs, self.engine = settings.num_envs, "obs" in settings.record, engine
        self.remembers = remembers
        self.width = Width()
        self.rows = () if differing is None else differing.rows

        def one(words: jax.Array, rows: tuple[jax.Array, ...]) -> tuple[Tree, Tree]:
            return as_words(first(env, params if differing is None else differing.params(rows),
                                  first_key(words, generator)))  # fmt: skip

        self.first = jax.jit(jax.vmap(one))
        self.compiled = jax.jit(self.state)  # in one call, since Gymnasium's interface resets at every episode's end

    def __call__(self, seed: Any) -> RolloutState:
        """See `Rollout.reset`."""
        refuse_after_fork()
        check_seed(seed)
        is_word = isinstance(seed, int)  # of an array JAX makes what it can, as of a traced one
        if is_traced(seed) and seed.dtype.itemsize == 8:  # of a program with numbers of 64 bits
            seed = seed.astype(np.uint32)
        with self.width.held(), jax.transfer_guard_host_to_device("allow"):  # a seed is no array of the caller's
            whole = self.compiled(np.uint32(seed), self.rows) if is_word else self.state(seed, self.rows)
        return whole if self.engine == "xla" or is_traced(whole) else self.on_host(whole)

    def on_host(self, whole: RolloutState) -> RolloutState:
        """As NumPy's arrays; waited for, since NumPy ends the process where JAX found no memory for one."""
        try:
            return jax.tree.map(np.asarray, jax.block_until_ready(whole))
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error):
                raise
            raise InvalidInput(
                f"num_envs: expected as many as there is memory for, got {self.num_envs}, whose first states do not "
                f"fit ({error}); take fewer"
            ) from error

    def state(self, seed: Any, rows: tuple[Any, ...]) -> RolloutState:
        """Where all environments begin."""
        words = jax.random.key_data(jax.random.split(jax.random.key(seed), self.num_envs))
        obs, state = self.first(words, rows)
        done = jnp.zeros(self.num_envs, bool)
        if self.remembers:
            state, obs = state
        seen = obs if self.remembers or self.with_obs else None
        state, done, seen = differing_like(seed, (state, done, seen))
        return RolloutState(state, words, jnp.uint32(0), done, seen)


NUM_SEEDS = 2**32
"""From 0 on."""


def check_seed(seed: Any) -> None:
    """Refuse what no key can be made of; an integer may be an array's or a traced one."""
    is_integer = getattr(getattr(seed, "dtype", None), "kind", "") in ("i", "u") and np.shape(seed) == ()
    if not (isinstance(seed, int) or is_integer):
        if is_one(seed) or (getattr(seed, "dtype", None) == np.uint32 and seed.shape[-1:] == (2,)):  # of either kind
            raise InvalidInput("seed: expected an integer, got a random key; draw one from it, jax.random.bits(key)")
        raise InvalidInput(f"seed: expected an integer, got {seed!r}")
    if not is_traced(seed) and not 0 <= int(seed) < NUM_SEEDS:
        raise InvalidInput(f"seed: expected one integer from 0 to {NUM_SEEDS - 1}, got {seed!r}")


def chosen(name: str, given: Any, choices: Sequence[str]) -> str:
    """The one of some choices that is given, as it stands there: members of enumerations format and hash otherwise."""
    for choice in choices:
        if choice == given:
            return choice
    raise InvalidInput(f"{name}: expected one of {', '.join(choices)}, got {given!r}")


def checked(num_envs: Any, num_steps: Any, engine: str, record: Any, autoreset: str, num_threads: Any,
            stream: Any = None, has_policy: bool = False) -> Settings:  # fmt: skip
    """The arguments, if each of them makes sense."""
    counts: list[int] = []
    for name, value in (("num_envs", num_envs), ("num_steps", num_steps), ("num_threads", num_threads)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise InvalidInput(f"{name}: expected an integer of at least 1, got {value!r}")
        if value < 1:
            raise InvalidInput(f"{name}: expected at least 1, got {value}")
        counts.append(int(value))
    chosen("engine", engine, get_args(Engine))
    autoreset = chosen("autoreset", autoreset, get_args(Autoreset))
    if stream is not None and engine != "cuda":
        raise InvalidInput(f'stream: expected None, since only the engine "cuda" has streams, got one with {engine!r}')
    if not isinstance(record, Iterable):
        raise InvalidInput(f"record: expected names, as (), got {record!r}")
    names = (record,) if isinstance(record, str) else tuple(cast("Iterable[str]", record))
    unknown = [name for name in names if name not in RECORDABLE and not has_policy]  # those of a policy: `check_acts`
    if unknown or len(set(names)) != len(names):
        more = f" (with policy= also {', '.join(RECORDABLE_OF_POLICY)} and its extras)"
        raise InvalidInput(f"record: expected distinct names from {', '.join(RECORDABLE)}{more}, got {names}")
    return Settings(num_envs=counts[0], num_steps=counts[1], record=names, autoreset=cast("Autoreset", autoreset),
                    num_threads=counts[2], stream=stream)  # fmt: skip
