"""Our engines `torch` and `torch_compiled` on tensors that lie on a GPU and stay there: as on the CPU."""

# JAX is typed in part, PyTorch is an extra.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from typing import Any, cast

import jax
import numpy as np

from drivetrain.bench.serving import NotOffered
from drivetrain.bench.sim.peers.entry import Simulator, serve_simulator
from drivetrain.bench.sim.peers.ours import engine_asked, offered, random_actions
from drivetrain.bench.sim.scene import Scene
from drivetrain.sim.api import Engine
from drivetrain.sim.engines.tensors.words import torch
from drivetrain.sim.engines.torch import TensorRunner, tensors_of


def simulator(scene: Scene, engine: Engine, device: str = "cuda") -> Simulator:
    """Steps of tensors on a device, which is waited for after the last call.

    Raises:
        NotOffered: PyTorch has no such device, or the engine does not compile the environment.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise NotOffered(f"PyTorch {torch.__version__} finds no GPU")
    torch.set_default_device(device)
    rollout = offered(scene, engine)
    actions = random_actions(rollout.env, rollout.params, scene.num_steps, scene.num_envs)
    return going_on(cast("TensorRunner", rollout.runner), rollout.reset(seed=0), actions, scene, device)


def going_on(runner: TensorRunner, start: Any, actions: Any, scene: Scene, device: str) -> Simulator:
    """Calls that go on from where the last one left."""
    given = runner.signature.given(start, jax.tree.map(np.asarray, actions), ())
    carried, words, number, rows, alike = tensors_of(given)

    def run() -> int:
        nonlocal carried, number
        for _ in range(scene.num_calls):
            carried, number, _ = runner.advanced(carried, words, number, rows, alike)
        if device == "cuda":
            torch.cuda.synchronize()
        return scene.num_calls * scene.num_steps * scene.num_envs

    return run


if __name__ == "__main__":
    serve_simulator(lambda scene: simulator(scene, engine_asked()))
