"""Whoever has JAX forbid arrays of unlike ranks or kinds, or NumPy's, forbids it to their own code, and not to ours."""

import pytest

pytest.importorskip("jax", reason="needs the train extra")

import jax
import numpy as np
import optax
from test_given import SINES, SMALL

from drivetrain.train import load_policy, train


@pytest.mark.release
def test_jax_may_forbid_arrays_of_unlike_ranks_and_kinds_to_the_caller_alone(tmp_path):
    with jax.numpy_rank_promotion("raise"), jax.numpy_dtype_promotion("strict"):
        result = train("sac", "Pendulum-v1", run_dir=str(tmp_path), torso=SINES, optimizer=optax.adamw, **SMALL)
        assert load_policy(tmp_path, torso=SINES, optimizer=optax.adamw)(np.zeros(3, np.float32)).shape == (1,)
    assert result.num_updates == 10


@pytest.mark.release
def test_variables_by_which_jax_forbids_them_do_not_reach_the_learner(tmp_path, monkeypatch):
    monkeypatch.setenv("JAX_NUMPY_RANK_PROMOTION", "raise")
    monkeypatch.setenv("JAX_NUMPY_DTYPE_PROMOTION", "strict")
    result = train("dqn", "CartPole-v1", run_dir=str(tmp_path), **SMALL | {"num_actors": 1})
    assert result.num_updates == 10


@pytest.mark.release
def test_jax_may_refuse_arrays_that_nobody_has_put_on_a_device_to_the_caller_alone(tmp_path):
    with jax.transfer_guard("disallow"):
        result = train("sac", "Pendulum-v1", run_dir=str(tmp_path), torso=SINES, **SMALL)
    assert result.num_updates == 10
