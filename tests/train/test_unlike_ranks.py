"""Whoever has JAX forbid arrays of unlike ranks or kinds, or NumPy's, forbids it to their own code, and not to ours."""

import pytest

pytest.importorskip("jax", reason="needs the train extra")

import jax
import jax.numpy as jnp
import numpy as np
import optax
from test_given import SINES, SMALL

from drivetrain.core.errors import InvalidInput
from drivetrain.train import load_policy, train
from drivetrain.train.config import TrainConfig
from drivetrain.train.policies.policy import policy_network
from drivetrain.train.runs.requirements import describe


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


@pytest.mark.release
@pytest.mark.parametrize("engine", ["native", "xla"])
def test_jax_may_refuse_them_where_a_simulator_is_learned_from(tmp_path, engine):
    with jax.transfer_guard("disallow"):
        result = train("dqn", "drivetrain/CartPole-v1", run_dir=str(tmp_path), sim_engine=engine, **SMALL)
    assert result.num_updates == 10


@pytest.mark.parametrize(
    "torso",
    [
        (lambda key, obs: jax.random.normal(key, (obs.shape[-1], 8)), lambda weight, obs: obs @ weight),
        (lambda key, obs: {}, lambda params, obs: obs * jnp.linspace(0.0, 1.0, obs.shape[-1])),
    ],
)
def test_a_torso_whose_numbers_are_of_64_bits_by_a_setting_of_the_callers_is_told_which(torso):
    config = TrainConfig.default("dqn", "CartPole-v1").override(torso=torso)
    with jax.enable_x64(True), pytest.raises(InvalidInput, match="jax_enable_x64 is on: leave it off, or give"):
        policy_network(config, describe(config))
