"""DQN: its gradient, its target network, and U updates in one call against U single ones."""

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

import jax
import jax.numpy as jnp
from written_out import assert_one_call_equals_single_updates, discrete_batch

from drivetrain.train.algos import dqn
from drivetrain.train.config import DQNConfig
from drivetrain.train.learner.updates import Algorithm, compile_updates
from drivetrain.train.networks import MLP, initial_vector, pack, unpack
from drivetrain.train.networks.joined import packed

NETWORK = MLP(num_inputs=3, hidden=(8,), heads=(("action", 2),))
CONFIG = DQNConfig(hidden=(8,), max_gradient_norm=1e9)
ALGORITHM = Algorithm(
    init=lambda rng: fresh_state(),
    update=lambda state, batch, learners: dqn.update(state, batch, NETWORK, CONFIG, learners),
    policy=lambda state: packed(NETWORK, state.params),
)


def fresh_state(config=CONFIG, seed=0):
    state = dqn.init(unpack(NETWORK, initial_vector(NETWORK, np.random.default_rng(seed))), config)
    other = initial_vector(NETWORK, np.random.default_rng(seed + 100))
    return state._replace(target=unpack(NETWORK, jnp.array(other)))


def flat(pieces):
    return np.asarray(pack(NETWORK, pieces), np.float64)


def graded(state, batch, config):
    """(loss, gradient as a vector)."""
    function = jax.value_and_grad(dqn.loss, has_aux=True)
    (value, _), slopes = function(state.params, state.target, batch, NETWORK, config)
    return float(value), flat(slopes)


def numpy_q(vector, obs):
    """The network in float64, written out again."""
    hidden = np.maximum(obs @ vector[:24].reshape(3, 8) + vector[24:32], 0)
    return hidden @ vector[32:48].reshape(8, 2) + vector[48:]


def numpy_loss(vector, target, batch, *, double, delta=1.0):
    """The loss in float64, written out again, row by row."""
    fixed, total = fresh_target_choice(vector, target, batch, double), 0.0
    for row in range(5):
        error = abs(numpy_q(vector, batch.obs[row])[batch.action[row]] - fixed[row])
        total += batch.weights[row] * (error**2 / 2 if error <= delta else delta * (error - delta / 2))
    return total / 5


def fresh_target_choice(vector, target, batch, double):
    next_q = numpy_q(target, batch.next_obs)
    chosen = (numpy_q(vector, batch.next_obs) if double else next_q).argmax(1)
    return batch.reward + batch.discount * next_q[np.arange(5), chosen]


@pytest.mark.whole
@pytest.mark.parametrize("double", [True, False])
def test_loss_and_gradient_equal_an_independent_form_and_its_finite_differences(double):
    config = DQNConfig(hidden=(8,), double=double)
    state, batch = fresh_state(config), discrete_batch(1)
    value, gradient = graded(state, batch, config)
    vector, target = flat(state.params), flat(state.target)
    y = fresh_target_choice(vector, target, batch, double)  # held fixed: no gradient through the target
    assert value == pytest.approx(numpy_loss(vector, target, batch, double=double), rel=1e-5)

    def loss_at(changed):
        error = np.abs(numpy_q(changed, batch.obs)[np.arange(5), batch.action] - y)
        return (batch.weights * np.where(error <= 1, error**2 / 2, error - 0.5)).mean()

    step = 1e-6
    numeric = [(loss_at(vector + step * e) - loss_at(vector - step * e)) / (2 * step) for e in np.eye(len(vector))]
    assert np.allclose(gradient, numeric, atol=1e-4)


def test_double_and_plain_targets_differ_where_the_networks_disagree():
    state, plain = fresh_state(), DQNConfig(hidden=(8,), double=False)
    for seed in range(5):
        batch = discrete_batch(seed)
        online, target = flat(state.params), flat(state.target)
        agree = numpy_q(online, batch.next_obs).argmax(1) == numpy_q(target, batch.next_obs).argmax(1)
        agree |= batch.discount == 0
        losses = [graded(state, batch, form)[0] for form in (CONFIG, plain)]
        assert (losses[0] == losses[1]) == agree.all()


def test_an_update_returns_the_absolute_td_error_of_each_row():
    state, batch = fresh_state(), discrete_batch(3)
    _, td_errors, _ = dqn.update(state, batch, NETWORK, CONFIG)
    vector, target = flat(state.params), flat(state.target)
    q = numpy_q(vector, batch.obs)[np.arange(5), batch.action]
    assert np.allclose(td_errors, np.abs(q - fresh_target_choice(vector, target, batch, True)), atol=1e-5)


def test_the_first_step_of_adam_moves_each_parameter_by_the_learning_rate():
    state, batch = fresh_state(), discrete_batch(4)
    _, gradient = graded(state, batch, CONFIG)
    after = dqn.update(state, batch, NETWORK, CONFIG)[0].params
    moved = (flat(after) - flat(state.params))[np.abs(gradient) > 1e-4]
    expected = -CONFIG.learning_rate * np.sign(gradient)[np.abs(gradient) > 1e-4]
    assert np.allclose(moved, expected, rtol=1e-2, atol=1e-7)


@pytest.mark.parametrize(("count", "padded"), [(4, 0), (3, 1), (1, 3)])
def test_one_call_of_several_updates_equals_single_updates(count, padded):
    assert_one_call_equals_single_updates(ALGORITHM, count, padded, discrete_batch)


def test_a_remainder_does_not_compile_a_second_time():
    updates = compile_updates(ALGORITHM)
    state, *_ = updates(fresh_state(), discrete_batch(6, 4), np.int32(4))
    updates(state, discrete_batch(7, 4), np.int32(1))
    assert updates._cache_size() == 1


def test_a_hard_target_is_copied_exactly_every_interval_and_not_in_between():
    config = DQNConfig(hidden=(8,), target_interval=3, target_tau=1.0)
    state = fresh_state(config)
    before = flat(state.target)
    for index in range(1, 7):
        state = dqn.update(state, discrete_batch(index), NETWORK, config)[0]
        if index % 3:
            assert np.array_equal(flat(state.target), before)
        else:
            assert np.array_equal(flat(state.target), flat(state.params))
            before = flat(state.target)


def test_a_soft_target_moves_by_its_share_at_every_update():
    config = DQNConfig(hidden=(8,), target_interval=1, target_tau=0.25)
    state = fresh_state(config)
    after = dqn.update(state, discrete_batch(8), NETWORK, config)[0]
    assert np.allclose(flat(after.target), 0.75 * flat(state.target) + 0.25 * flat(after.params), atol=1e-6)
