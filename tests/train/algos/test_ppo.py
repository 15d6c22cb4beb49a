"""PPO: loss and gradient against float64 NumPy and finite differences, and what a rollout's call does."""

import dataclasses
from functools import partial

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

import jax
import jax.numpy as jnp
import scipy.special
import scipy.stats
from written_out import finite_differences, layer

from drivetrain.train.algos import ppo
from drivetrain.train.algos.advantages import Ends, gae, next_values
from drivetrain.train.config import PPOConfig, TrainConfig
from drivetrain.train.experience.rollout import Rollout
from drivetrain.train.interface import BoxActions, DiscreteActions, Image, Interface, Vector
from drivetrain.train.learner.sharing import ONE_LEARNER
from drivetrain.train.networks import initial_vector, pack

INPUTS, LENGTH, NUM_ENVS, BATCH = 3, 8, 2, 8
CONTINUOUS = BoxActions(low=(-1.0, -1.0), high=(1.0, 1.0), shape=(2,), dtype="float32")
INTERFACES = {
    "discrete": Interface(observations=Vector(shape=(INPUTS,)), actions=DiscreteActions(count=3, start=0)),
    "continuous": Interface(observations=Vector(shape=(INPUTS,)), actions=CONTINUOUS),
}
IMAGES = Interface(observations=Image(shape=(4, 44, 40), axes="KHW"), actions=INTERFACES["discrete"].actions)
SETTINGS = {
    "hidden": (5,), "batch_size": BATCH, "num_epochs": 3, "num_envs": NUM_ENVS, "rollout_length": LENGTH,
    "entropy_coefficient": 0.02, "num_actors": 1,
}  # fmt: skip
SCHEDULE = ppo.Schedule(jnp.float32(1e-3), jnp.float32(0.2))
KINDS = pytest.mark.parametrize("kind", ["discrete", "continuous"])
SINES = (
    lambda key, obs: {"w": 0.5 * jax.random.normal(key, (INPUTS, 4), jnp.float32)},
    lambda params, obs: jnp.sin(obs @ params["w"]),
)
TORSOS = pytest.mark.parametrize(
    "looking", [{}, {"torso": SINES}, {"torso": SINES, "share_torso": False}], ids=["no torso", "shared", "one each"]
)


def parts(kind, **settings):
    """(agent's configuration, networks, state)."""
    config = TrainConfig.default("ppo", "E").override(**SETTINGS | settings)
    agent = config.agent
    networks = ppo.networks_of(agent, INTERFACES[kind])
    return agent, networks, ppo.init(networks, agent, np.random.default_rng(0))


def make_rollout(kind, seed=1, truncated=0.1):
    rng = np.random.default_rng(seed)
    lead = (LENGTH, NUM_ENVS)

    def normal(*shape):
        return rng.normal(size=(*lead, *shape)).astype(np.float32)

    action = rng.integers(0, 3, lead).astype(np.int32) if kind == "discrete" else normal(2)
    ends = rng.random(lead) < 0.1, rng.random(lead) < truncated
    return Rollout(normal(INPUTS), action, normal(), *ends, normal(INPUTS))


def make_steps(kind, policy, seed=2):
    """A minibatch in float64 whose policy has moved on since it acted, so far that some ratios are clipped."""
    rng = np.random.default_rng(seed)
    obs, drift, value, advantage = (rng.normal(size=(BATCH, *shape)) for shape in ((INPUTS,), (), (), ()))
    action = rng.integers(0, 3, BATCH) if kind == "discrete" else rng.normal(size=(BATCH, 2))
    steps = ppo.Steps(obs, action, None, value, advantage)
    return steps._replace(log_prob=log_prob_and_entropy(policy, steps)[0] + 0.3 * drift)


def rows_of(steps, agent):
    """A whole minibatch as the loss takes it."""
    return steps, ppo.normalized(steps.advantage, agent)


def outputs_of(pieces, obs, head):
    return layer(pieces, head, np.tanh(layer(pieces, "hidden0", obs)))


def seen(pieces, obs, otherwise):
    """What is made of observations by a torso of one's own; what there is otherwise without one."""
    return np.sin(obs @ pieces["torso.w"]) if "torso.w" in pieces else otherwise


def log_prob_and_entropy(pieces, steps):
    """By SciPy."""
    obs = seen(pieces, steps.obs, steps.obs)
    if "mean.weight" in pieces:
        mean, std = outputs_of(pieces, obs, "mean"), np.exp(pieces["log_std"])
        return scipy.stats.norm.logpdf(steps.action, mean, std).sum(-1), scipy.stats.norm.entropy(scale=std).sum()
    p = scipy.special.softmax(outputs_of(pieces, obs, "logits"), -1)
    return np.log(p[np.arange(BATCH), steps.action]), scipy.stats.entropy(p, axis=-1).mean()


def written_loss(policy, value, steps, config, clip_range=0.2):
    """The paper's objective, minus, in NumPy."""
    advantage = (steps.advantage - steps.advantage.mean()) / (steps.advantage.std(ddof=1) + 1e-8)
    log_prob, entropy = log_prob_and_entropy(policy, steps)
    ratio = np.exp(log_prob - steps.log_prob)
    surrogate = np.minimum(ratio * advantage, np.clip(ratio, 1 - clip_range, 1 + clip_range) * advantage)
    features = seen(value, steps.obs, seen(policy, steps.obs, steps.obs))
    v, target = outputs_of(value, features, "value")[:, 0], steps.advantage + steps.value
    error = (v - target) ** 2
    if (limit := config.value_clip_range) is not None:
        error = np.maximum(error, (steps.value + np.clip(v - steps.value, -limit, limit) - target) ** 2)
    return -surrogate.mean() + 0.5 * error.mean() - 0.02 * entropy


@KINDS
@TORSOS
@pytest.mark.parametrize("value_clip_range", [None, 0.3])
def test_loss_and_gradient_equal_an_independent_form_and_its_finite_differences(kind, looking, value_clip_range):
    with jax.enable_x64(True):
        agent, networks, state = parts(kind, value_clip_range=value_clip_range, **looking)
        params = jax.tree.map(lambda x: np.array(x, np.float64), state.params)
        rng = np.random.default_rng(4)
        params = jax.tree.map(lambda x: x + 0.3 * rng.normal(size=x.shape), params)
        steps = make_steps(kind, params.policy)
        graded = jax.jit(jax.value_and_grad(ppo.loss, has_aux=True), static_argnums=(3, 4))
        (value, metrics), slopes = graded(params, rows_of(steps, agent), 0.2, networks, agent)
    assert 0 < float(metrics["clip_fraction"]) < 1
    assert float(value) == pytest.approx(written_loss(params.policy, params.value, steps, agent), rel=1e-9)
    for name, expected in (
        ("policy", finite_differences(lambda p: written_loss(p, params.value, steps, agent), params.policy)),
        ("value", finite_differences(lambda v: written_loss(params.policy, v, steps, agent), params.value)),
    ):
        got = getattr(slopes, name)
        assert got.keys() == expected.keys()
        assert all(np.allclose(got[piece], expected[piece], atol=1e-7) for piece in expected), name


@KINDS
def test_many_rows_are_learned_from_part_by_part_as_from_all_at_once(kind, monkeypatch):
    with jax.enable_x64(True):
        agent, networks, state = parts(kind, batch_size=1_024, num_epochs=2, num_envs=2, rollout_length=1_024)
        state = jax.tree.map(lambda x: np.float64(x) if x.dtype == np.float32 else x, state)
        rng = np.random.default_rng(3)
        small = [make_rollout(kind, seed) for seed in range(2_048 // (LENGTH * NUM_ENVS))]
        rollout = jax.tree.map(lambda *parts: np.concatenate(parts), *small)
        rollout = rollout._replace(reward=rng.normal(size=rollout.reward.shape))
        schedule = ppo.Schedule(np.float64(1e-3), np.float64(0.2))
        new, told = jax.jit(lambda: ppo.learn(state, rollout, schedule, networks, agent))()
        monkeypatch.setattr("drivetrain.train.learner.parts.parts_of", lambda num_rows: 1)
        at_once, told_at_once = jax.jit(lambda: ppo.learn(state, rollout, schedule, networks, agent))()
    for got, expected in zip(jax.tree.leaves(new.params), jax.tree.leaves(at_once.params), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)
    for name in ("loss", "approx_kl", "clip_fraction", "explained_variance"):
        np.testing.assert_allclose(jax.tree.leaves(told[name])[0], jax.tree.leaves(told_at_once[name])[0], rtol=1e-9)


@pytest.mark.whole
def test_the_objective_of_two_steps_worked_out_by_hand():
    agent, networks, state = parts("discrete", normalize_advantages=False, entropy_coefficient=0.0)
    params = jax.tree.map(jnp.zeros_like, state.params)  # every action has probability 1/3, every value is 0
    log_prob = jnp.log(jnp.array([1 / 6, 1 / 3]))  # ratios 2 and 1
    steps = ppo.Steps(jnp.ones((2, INPUTS)), jnp.array([0, 1]), log_prob, jnp.array([1.0, 0.0]), jnp.array([3.0, -1.0]))
    value, metrics = ppo.loss(params, rows_of(steps, agent), 0.25, networks, agent)
    # -(min(2 * 3, 1.25 * 3) + min(1 * -1, 1 * -1)) / 2 = -1.375;  targets 4 and -1: (16 + 1) / 2 = 8.5
    assert float(metrics["policy_loss"]) == pytest.approx(-1.375, rel=1e-5)
    assert float(metrics["value_loss"]) == pytest.approx(8.5, rel=1e-5)
    assert float(value) == pytest.approx(-1.375 + 0.5 * 8.5, rel=1e-5)
    assert float(metrics["entropy"]) == pytest.approx(np.log(3), rel=1e-5)
    assert float(metrics["clip_fraction"]) == 0.5
    assert float(metrics["approx_kl"]) == pytest.approx((1 - np.log(2)) / 2, rel=1e-4)


@KINDS
@TORSOS
@pytest.mark.parametrize("truncated", [0.0, 0.3])
def test_a_rollout_is_prepared_with_the_values_of_the_true_next_observations(kind, looking, truncated):
    agent, networks, state = parts(kind, **looking)
    rollout = make_rollout(kind, truncated=truncated)
    steps = jax.jit(ppo.prepare, static_argnums=(2, 3))(state.params, rollout, networks, agent)
    policy, value = (jax.tree.map(np.float64, pieces) for pieces in state.params)
    values, last_values = (
        outputs_of(value, seen(value, obs, seen(policy, obs, obs)), "value")[..., 0]
        for obs in (rollout.obs, rollout.last_obs)
    )
    ends = Ends(rollout.terminated, rollout.truncated)
    following = next_values(values, last_values, ends)
    expected = gae(rollout.reward, values, following, ends, agent.gamma, agent.gae_lambda)
    assert np.allclose(steps.advantage, np.ravel(expected), atol=1e-4)
    assert np.allclose(steps.value, values.ravel(), atol=1e-5)
    first = jax.tree.map(lambda x: np.asarray(x)[:BATCH], steps)
    assert np.allclose(first.log_prob, log_prob_and_entropy(policy, first)[0], atol=1e-4)


@pytest.mark.release
@KINDS
def test_one_call_equals_its_updates_one_by_one(kind):
    agent, networks, state = parts(kind)
    rollout = make_rollout(kind)
    single = jax.jit(ppo.update, static_argnums=(3, 4))
    steps = jax.jit(ppo.prepare, static_argnums=(2, 3))(state.params, rollout, networks, agent)
    progress = ppo.Progress(state.params, state.optimizer, jnp.bool_(True))
    for key in jax.random.split(jax.random.fold_in(state.key, 0), agent.num_epochs):
        order = jax.random.permutation(key, LENGTH * NUM_ENVS)
        assert sorted(order.tolist()) == list(range(LENGTH * NUM_ENVS))
        for chosen in order.reshape(-1, BATCH):
            batch = jax.tree.map(lambda x, chosen=chosen: x[chosen], steps)
            progress, _ = single(progress, batch, SCHEDULE, networks, agent)
    new, metrics = jax.jit(ppo.learn, static_argnums=(3, 4))(state, rollout, SCHEDULE, networks, agent)
    assert jax.tree.all(jax.tree.map(lambda a, b: np.allclose(a, b, atol=1e-5), new.params, progress.params))
    assert int(new.num_updates) == 3 * LENGTH * NUM_ENVS // BATCH
    assert float(metrics["num_epochs"]) == 3
    never = dataclasses.replace(agent, target_kl=1e6)
    same, _ = jax.jit(ppo.learn, static_argnums=(3, 4))(state, rollout, SCHEDULE, networks, never)
    assert jax.tree.all(jax.tree.map(lambda a, b: np.allclose(a, b, atol=1e-5), same.params, new.params))


@pytest.mark.whole
def test_every_rollout_is_shuffled_anew_and_a_state_fixes_how():
    agent, networks, state = parts("discrete")
    learn = jax.jit(ppo.learn, static_argnums=(3, 4))
    rollout = make_rollout("discrete")
    first, again = (learn(state, rollout, SCHEDULE, networks, agent)[1]["policy_loss"] for _ in range(2))
    later = learn(state._replace(num_updates=jnp.int32(6)), rollout, SCHEDULE, networks, agent)[1]["policy_loss"]
    assert float(first) == float(again)
    assert float(first) != float(later)


@pytest.mark.release
def test_target_kl_leaves_out_the_rest_of_a_rollout():
    agent, networks, state = parts("continuous", target_kl=1e-3, num_epochs=20)
    endless = dataclasses.replace(agent, target_kl=1e6)
    rollout, fast = make_rollout("continuous"), SCHEDULE._replace(learning_rate=jnp.float32(0.05))
    learn = jax.jit(ppo.learn, static_argnums=(3, 4))
    stopped, metrics = learn(state, rollout, fast, networks, agent)
    assert 0 < float(metrics["num_epochs"]) < 20
    assert float(metrics["approx_kl"]) <= 1.5e-3
    assert int(stopped.num_updates) == 20 * LENGTH * NUM_ENVS // BATCH  # as the ledger counts them
    free, _ = learn(state, rollout, fast, networks, endless)
    assert not np.allclose(pack(networks.policy, free.params.policy), pack(networks.policy, stopped.params.policy))


def test_what_is_told_of_a_rollout_is_of_the_updates_done_whatever_those_left_out_came_to():
    told = {"loss": jnp.array([[1.0, 3.0], [jnp.inf, jnp.nan]]), "done": jnp.array([[1.0, 1.0], [0.0, 0.0]])}
    steps = ppo.Steps(None, None, None, jnp.zeros(4), jnp.arange(4.0))
    found = ppo.summary(told, steps, SCHEDULE, num_batches=2)
    assert (float(found["loss"]), float(found["num_epochs"])) == (2.0, 1.0)


@pytest.mark.whole
def test_linear_schedules_fall_to_zero_with_the_run():
    linear = PPOConfig(learning_rate_schedule="linear", clip_range_schedule="linear", learning_rate=0.4)
    assert [linear.learning_rate_at(progress) for progress in (0.0, 0.25, 1.0)] == [0.4, pytest.approx(0.3), 0.0]
    assert [linear.clip_range_at(progress) for progress in (0.0, 0.5, 1.0)] == [0.2, 0.1, 0.0]
    assert PPOConfig().learning_rate_at(0.9) == 3e-4
    config = TrainConfig.default("ppo", "E").override(learning_rate_schedule="linear", **SETTINGS)
    algorithm = ppo.make(config, INTERFACES["discrete"])
    state, rollout = algorithm.init(np.random.default_rng(0)), make_rollout("discrete")
    new, metrics = jax.jit(partial(algorithm.learn, learners=ONE_LEARNER))(state, rollout, np.float32(1.0))
    assert float(metrics["learning_rate"]) == 0.0
    assert jax.tree.all(jax.tree.map(np.array_equal, new.params, state.params))


def test_the_published_weights_are_the_first_that_the_seed_draws():
    _, networks, state = parts("continuous", initial_log_std=-0.5)
    drawn = initial_vector(networks.policy, np.random.default_rng(0))
    assert np.array_equal(pack(networks.policy, state.params.policy), drawn)
    assert state.params.policy["log_std"].tolist() == [-0.5, -0.5]
    assert np.linalg.norm(state.params.policy["mean.weight"]) == pytest.approx(0.01 * np.sqrt(2), rel=1e-5)


def test_a_torso_that_learns_is_one_for_policy_and_value_unless_it_is_said_otherwise():
    agent = TrainConfig.default("ppo", "E").override(**SETTINGS).agent
    shared, apart = (
        ppo.init(ppo.networks_of(each, IMAGES), each, np.random.default_rng(0)).params
        for each in (agent, dataclasses.replace(agent, share_torso=False))
    )
    assert (
        {name for name in apart.value if name.startswith("torso.")}
        == {name for name in shared.policy if name.startswith("torso.")}
        != set()
    )
    assert not any(name.startswith("torso.") for name in shared.value)
    assert shared.policy.keys() == apart.policy.keys()  # what actors are sent is the same
    assert jax.tree.all(jax.tree.map(np.array_equal, shared.policy, apart.policy))
    assert ppo.networks_of(agent, INTERFACES["discrete"]).torso is None  # there is nothing that learns


@pytest.mark.release
def test_policy_and_value_of_images_move_the_torso_they_share():
    agent = TrainConfig.default("ppo", "E").override(**SETTINGS | {"entropy_coefficient": 0.0}).agent
    networks = ppo.networks_of(agent, IMAGES)
    params = ppo.init(networks, agent, np.random.default_rng(0)).params
    rng = np.random.default_rng(1)
    obs = rng.integers(0, 256, (BATCH, 4, 44, 40)).astype(np.uint8)
    value, advantage = (rng.normal(size=BATCH).astype(np.float32) for _ in range(2))
    steps = ppo.Steps(obs, rng.integers(0, 3, BATCH), np.full(BATCH, -np.log(3), np.float32), value, advantage)
    slopes = {}
    for name, settings in (
        ("both", {}),
        ("value", {"value_coefficient": 1.0}),
        ("policy", {"value_coefficient": 0.0}),
    ):
        chosen = dataclasses.replace(agent, **settings)
        slopes[name] = jax.grad(lambda p, c=chosen: ppo.loss(p, rows_of(steps, c), 0.2, networks, c)[0])(params).policy
    for name in (name for name in params.policy if name.startswith("torso.")):
        of_policy, of_value = slopes["policy"][name], slopes["value"][name] - slopes["policy"][name]
        assert np.abs(of_policy).max() > 0
        assert np.abs(of_value).max() > 0
        scale = np.abs(slopes["both"][name]).max()
        assert np.allclose(slopes["both"][name], of_policy + 0.5 * of_value, atol=1e-4 * scale), name


def test_a_rollout_is_learned_from_where_jax_refuses_words_as_keys():
    agent, networks, state = parts("discrete")
    with jax.legacy_prng_key("error"):
        after, _ = jax.eval_shape(
            lambda state, rollout: ppo.learn(state, rollout, SCHEDULE, networks, agent), state, make_rollout("discrete")
        )
    assert after == jax.eval_shape(lambda: state)
