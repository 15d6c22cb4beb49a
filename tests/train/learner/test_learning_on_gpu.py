"""Runs that learn on a GPU: one process uses it, and the others leave it alone."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

from drivetrain.core.processes import succeeds_anew
from drivetrain.train import train

pytestmark = pytest.mark.gpu

SMALL = {
    "hidden": (16,), "batch_size": 16, "eval_episodes": 2, "final_eval_episodes": 3, "device": "gpu", "num_actors": 2,
}  # fmt: skip
OFF_POLICY = {"total_steps": 2_000, "warmup_steps": 200, "envs_per_actor": 4, "eval_interval_steps": 500}
ON_POLICY = {"total_steps": 2_048, "rollout_length": 32, "num_envs": 8, "eval_interval_steps": 1_000}


@pytest.fixture(autouse=True)
def _gpu():
    if not succeeds_anew("import jax; jax.devices('gpu')"):
        pytest.skip('needs a GPU and JAX for it: pip install "jax[cuda13]"')


@pytest.mark.parametrize(
    ("algo", "env", "settings"), [("dqn", "CartPole-v1", OFF_POLICY), ("ppo", "drivetrain/CartPole-v1", ON_POLICY)]
)
def test_a_run_with_processes_learns_on_the_gpu(algo, env, settings, tmp_path):
    result = train(algo, env, run_dir=str(tmp_path / "run"), **SMALL, **settings)
    assert result.num_updates > 0
    assert len(result.returns) == SMALL["final_eval_episodes"]
    assert np.isfinite(result.returns).all()


@pytest.mark.parametrize("algo", ["dqn", "sac"])
def test_updates_on_the_gpu_are_those_of_the_cpu_up_to_rounding(algo):
    found, script = {}, Path(__file__).with_name("updates_process.py")
    for platform in ("cpu", "cuda"):
        environment = {**os.environ, "JAX_PLATFORMS": platform, "PYTHONPATH": os.pathsep.join(sys.path)}
        words = [sys.executable, str(script), algo]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=250)
        assert done.returncode == 0, done.stderr
        found[platform] = json.loads(done.stdout.splitlines()[-1])
    assert [found[platform]["on"] for platform in ("cpu", "cuda")] == ["cpu", "gpu"]
    np.testing.assert_allclose(found["cuda"]["errors"], found["cpu"]["errors"], rtol=1e-3, atol=1e-4)
    # Not of each weight: Adam takes a whole step where rounding gives a slope that is none.
    assert np.abs(np.subtract(found["cuda"]["policy"], found["cpu"]["policy"])).mean() < 1e-5
