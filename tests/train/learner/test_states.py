"""States of learners as arrays of a checkpoint, and back."""

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

import jax
import jax.numpy as jnp
import optax

from drivetrain.core.errors import FileFormatError
from drivetrain.train import resume, train
from drivetrain.train.learner.states import owned, restored, saved
from drivetrain.train.run_dir.archives import load_archive, save_archive


def a_state(seed):
    rng = np.random.default_rng(seed)
    return {
        "weight": jnp.asarray(rng.normal(size=(3, 4)), jnp.float32),
        "mean": jnp.asarray(rng.normal(size=(3, 4)), jnp.bfloat16),
        "small": jnp.asarray(rng.normal(size=5), jnp.float8_e4m3fn),
        "key": jax.random.key(seed),
        "scalar": jnp.asarray(seed, jnp.bfloat16),
        "count": jnp.int32(seed),
    }


def equal(state, other):
    plain, theirs = saved(state), saved(other)
    return plain.keys() == theirs.keys() and all(np.array_equal(plain[name], theirs[name]) for name in plain)


def test_every_kind_of_number_comes_back_from_a_file_with_its_bits(tmp_path):
    state = a_state(7)
    save_archive(tmp_path / "state.npz", "state", saved(state), {})
    back = restored(a_state(1), load_archive(tmp_path / "state.npz", "state")[0])
    assert equal(state, back)
    assert jax.tree.map(lambda leaf: leaf.dtype, back) == jax.tree.map(lambda leaf: leaf.dtype, state)
    assert jax.random.bits(back["key"]) == jax.random.bits(state["key"])


def test_an_owned_state_is_a_copy_of_the_same_kinds():
    state = a_state(7)
    copy = owned(state)
    assert equal(state, copy)
    assert jax.tree.map(lambda leaf: leaf.dtype, copy) == jax.tree.map(lambda leaf: leaf.dtype, state)


@pytest.mark.parametrize("wrong", ["absent", "of another shape", "of another kind"])
def test_a_state_of_another_structure_is_refused_by_name(wrong):
    arrays = saved(a_state(7))
    if wrong == "absent":
        del arrays["state/mean"]
    else:
        arrays["state/mean"] = (
            np.zeros((4, 3), np.uint16) if wrong == "of another shape" else np.zeros((3, 4), np.int16)
        )
    with pytest.raises(
        FileFormatError, match=r"state/mean: expected uint16\[3, 4\], got .*; go on with the torso, the opt"
    ):
        restored(a_state(7), arrays)


def test_a_state_that_had_more_than_it_has_now_is_refused_by_name():
    before = {**a_state(7), "optimizer": dict.fromkeys(("mu", "nu", "count", "rate"), jnp.float32(0))}
    with pytest.raises(
        FileFormatError,
        match=r"state/optimizer/count, state/optimizer/mu, state/optimizer/nu and 1 more: expected nothing of that",
    ):
        restored(a_state(7), saved(before))
    beside = {"params": np.zeros(3), "encoder/actor/torso.weight": np.zeros(3)}  # what is no part of the state
    assert equal(restored(a_state(1), {**saved(a_state(7)), **beside}), a_state(7))


SMALL = {
    "num_actors": 0, "envs_per_actor": 2, "warmup_steps": 40, "hidden": (8,), "batch_size": 4, "update_ratio": "1/4",
    "eval_interval_steps": 1_000, "eval_episodes": 1, "final_eval_episodes": 1, "capacity": 100, "updates_per_call": 2,
    "eval_max_steps": 20,
}  # fmt: skip


def half_adam(rate):
    return optax.adam(rate, mu_dtype=jnp.bfloat16)


def noisy(rate):
    return optax.noisy_sgd(rate, key=jax.random.key(0))


@pytest.mark.release
@pytest.mark.parametrize("optimizer", [half_adam, noisy])
def test_a_run_whose_optimizer_has_halves_or_random_streams_is_taken_up_again(tmp_path, optimizer):
    begun = train("dqn", "CartPole-v1", run_dir=str(tmp_path), optimizer=optimizer, total_steps=80, **SMALL)
    assert begun.num_updates == 10
    assert resume(str(tmp_path), total_steps=120, optimizer=optimizer).num_updates == 20


@pytest.mark.whole
def test_a_run_is_not_taken_up_with_another_optimizer_than_it_was_begun_with(tmp_path):
    train("dqn", "CartPole-v1", run_dir=str(tmp_path), optimizer=optax.adam, total_steps=80, **SMALL)
    with pytest.raises(FileFormatError, match=r"state/optimizer.*; go on with the torso, the optimizer"):
        resume(str(tmp_path), total_steps=120, optimizer=half_adam)


@pytest.mark.whole
def test_a_run_is_not_taken_up_with_an_optimizer_that_keeps_less(tmp_path):
    train("dqn", "CartPole-v1", run_dir=str(tmp_path), optimizer=optax.adamw, total_steps=80, **SMALL)
    with pytest.raises(FileFormatError, match=r"state/optimizer/1/0/count, .*; go on with the torso, the optimizer"):
        resume(str(tmp_path), total_steps=120, optimizer=optax.sgd)


def of_width(width):
    def init(key, obs):
        return {"weight": jax.random.normal(key, (obs.shape[-1], width))}

    return init, lambda params, obs: jnp.tanh(obs @ params["weight"])


@pytest.mark.parametrize("num_actors", [0, 1])
def test_a_torso_of_another_size_is_refused_before_anything_starts_and_the_run_is_as_it_was(tmp_path, num_actors):
    train("dqn", "CartPole-v1", run_dir=str(tmp_path), torso=of_width(9), total_steps=80, **SMALL)
    before = [(tmp_path / name).read_text() for name in ("config.json", "result.json")]
    with pytest.raises(FileFormatError, match=r"expected a policy of \d+ parameters .* or the torso has changed"):
        resume(str(tmp_path), total_steps=120, torso=of_width(7), num_actors=num_actors)
    assert [(tmp_path / name).read_text() for name in ("config.json", "result.json")] == before
