"""gymnax itself, unmodified: `jit(scan(vmap(env.step)))`, as its documentation rolls out many environments.

Settings: one jitted call for all K steps with the state donated, so that XLA need not copy it; one key per step,
split for the environments; supplied actions on the device; recorded is the scan's output, nothing else is
computed for it. XLA drops what nobody reads, rewards among it, here as in our own engines.
"""

# JAX is typed in part, gymnax ships no stubs.
# pyright: reportMissingTypeStubs=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from typing import Any

import gymnax
import jax

from drivetrain.bench.serving import NotOffered
from drivetrain.bench.sim.peers.entry import Simulator, serve_simulator
from drivetrain.bench.sim.peers.ours import random_actions
from drivetrain.bench.sim.scene import Scene


def simulator(scene: Scene) -> Simulator:
    """K steps of N environments per call."""
    if scene.short_name not in gymnax.registered_envs:
        raise NotOffered("gymnax has no such environment")
    env, params = gymnax.make(scene.short_name)
    step = jax.vmap(env.step, in_axes=(0, 0, 0, None))

    def body(carry: Any, action: Any) -> Any:
        key, state = carry
        key, here = jax.random.split(key)
        obs, state, *_ = step(jax.random.split(here, scene.num_envs), state, action, params)
        recorded = () if scene.record == "nothing" else jax.tree.map(lambda x: x.astype(scene.record), obs)
        return (key, state), recorded

    run_all = jax.jit(lambda carry, actions: jax.lax.scan(body, carry, actions), donate_argnums=0)
    key, start = jax.random.split(jax.random.key(0))
    carry = key, jax.vmap(env.reset, in_axes=(0, None))(jax.random.split(start, scene.num_envs), params)[1]
    actions = random_actions(env, params, scene.num_steps, scene.num_envs)

    def run() -> int:
        nonlocal carry
        carry, recorded = run_all(carry, actions)
        jax.block_until_ready((carry, recorded))
        return scene.num_envs * scene.num_steps

    return run


if __name__ == "__main__":
    serve_simulator(simulator)
