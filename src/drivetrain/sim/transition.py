"""One step of one environment with autoreset: the function that every engine runs.

Keys are those of `sim.random.keys_of_step`: under threefry, step t of environment i uses key = fold_in(keys[i], t),
and key_step, key_reset = split(key), as gymnax does; so gymnax's own `step(key, ...)` gives the same states.
"""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from typing import Any, cast

import jax
import jax.numpy as jnp

from drivetrain.sim.api import Autoreset, Environment, Tree
from drivetrain.sim.random import Key


def select(condition: jax.Array, x: Tree, y: Tree) -> Tree:
    """X where the scalar condition holds, else y, for every leaf."""
    return jax.tree.map(
        lambda a, b: jax.lax.select(condition, jnp.asarray(a, jnp.asarray(b).dtype), jnp.asarray(b)), x, y
    )


def strong(tree: Tree) -> Tree:
    """Leaves as arrays whose types no longer give way in promotions, so that every step sees the same."""
    return jax.tree.map(lambda x: jax.lax.convert_element_type(x, jnp.asarray(x).dtype), tree)


def first(env: Environment, params: Tree, key: Key) -> tuple[Tree, Tree]:
    """Observation and state at the start, for one environment."""
    obs, state = env.reset(cast("jax.Array", key), params)
    return strong(obs), strong(state)


def advance(
    env: Environment,
    params: Tree,
    autoreset: Autoreset,
    keys: tuple[Key, Key],
    state: Tree,
    done: jax.Array,
    action: Tree,
) -> tuple[Tree, jax.Array, dict[str, Any]]:
    """One step of one environment.

    Args:
        autoreset: "same_step": an episode's end is followed by the next one's start in the same step,
            `final_obs` is the observation before. "next_step": the step after an end resets, ignores
            its action and gives reward 0. "disabled": nobody resets.
        keys: Of this step's own draws, and of the next episode's start.
        done: Whether the step before ended an episode.

    Returns:
        The state, whether this step ended an episode, and everything that can be recorded.
    """
    key_step, key_reset = keys
    obs, after, reward, terminated, truncated, info = env.step(cast("jax.Array", key_step), state, action, params)
    terminated, truncated = jnp.asarray(terminated, bool), jnp.asarray(truncated, bool)
    reward, final_obs = jnp.asarray(reward), obs
    ended = terminated | truncated
    if autoreset == "same_step":
        fresh_obs, fresh = first(env, params, key_reset)
        obs, after = select(ended, fresh_obs, obs), select(ended, fresh, after)
    elif autoreset == "next_step":
        fresh_obs, fresh = first(env, params, key_reset)
        obs, after = select(done, fresh_obs, obs), select(done, fresh, after)
        final_obs = obs
        reward = jnp.where(done, jnp.zeros_like(reward), reward)
        terminated, truncated = terminated & ~done, truncated & ~done
        ended = ended & ~done
    record = {
        "obs": obs,
        "reward": reward,
        "terminated": terminated,
        "truncated": truncated,
        "final_obs": final_obs,
        "info": info,
    }
    return strong(after), ended, strong(record)
