"""Distributional DQN, noisy layers and their preset, against NumPy written out, finite differences and PyTorch."""

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

import jax
import jax.numpy as jnp
from written_out import ACTIONS, BATCH, INPUTS, assert_close, discrete_batch, finite_differences, layer, to_numpy

from drivetrain.core.errors import InvalidInput
from drivetrain.train import train
from drivetrain.train.algos import dqn
from drivetrain.train.algos.losses import projected
from drivetrain.train.config import DQNConfig, TrainConfig
from drivetrain.train.config.presets import preset, preset_for
from drivetrain.train.interface import DiscreteActions, Interface, Vector
from drivetrain.train.networks import Noisy, initial_vector, unpack
from drivetrain.train.policies.policy import make_policy, policy_network
from drivetrain.train.policies.q_networks import action_logits, atoms, q_network, q_values

CONFIG = DQNConfig(hidden=(8,), dueling=True, noisy=True, num_atoms=7, value_min=-2.0, value_max=4.0)
NETWORK = q_network(Vector(shape=(INPUTS,)), ACTIONS, CONFIG)
INTERFACE = Interface(observations=Vector(shape=(INPUTS,)), actions=DiscreteActions(count=ACTIONS, start=0))


def fresh_state():
    first, second = (NETWORK.initial(np.random.default_rng(seed)) for seed in (0, 9))
    return dqn.init(first, CONFIG)._replace(target=second)


def noises():
    return dqn.Noises(*np.random.default_rng(7).normal(size=(3, NETWORK.num_noise)).astype(np.float32))


def softmax(logits):
    exponential = np.exp(logits - logits.max(-1, keepdims=True))
    return exponential / exponential.sum(-1, keepdims=True)


def with_noise(pieces, noise):
    """Weights with factorised noise, layer by layer and number by number."""
    noisy, start = dict(pieces), 0
    for name, num_in, num_out in NETWORK.layers:
        e = np.float64(noise[start : start + num_in + num_out])
        f = np.sign(e) * np.sqrt(np.abs(e))
        start += num_in + num_out
        weight, bias = pieces[f"{name}.weight"].copy(), pieces[f"{name}.bias"].copy()
        for j in range(num_out):
            bias[j] += pieces[f"{name}.bias.sigma"][j] * f[num_in + j]
            for i in range(num_in):
                weight[i, j] += pieces[f"{name}.weight.sigma"][i, j] * f[i] * f[num_in + j]
        noisy |= {f"{name}.weight": weight, f"{name}.bias": bias}
    return noisy


def logits_of(pieces, noise, obs):
    """Dueling logits [BATCH, ACTIONS, atoms] in float64."""
    noisy = with_noise(pieces, noise)
    features = np.maximum(layer(noisy, "hidden0", np.asarray(obs, np.float64)), 0)
    advantage = layer(noisy, "action", features).reshape(BATCH, ACTIONS, 7)
    return layer(noisy, "value", features)[:, None] + advantage - advantage.mean(1, keepdims=True)


def projection_row_by_row(probabilities, reward, discount, z):
    """Algorithm 1 of Bellemare et al. 2017."""
    spacing, out = z[1] - z[0], np.zeros_like(probabilities)
    for row in range(len(reward)):
        for j, probability in enumerate(probabilities[row]):
            place = (np.clip(reward[row] + discount[row] * z[j], z[0], z[-1]) - z[0]) / spacing
            lower, upper = int(np.floor(place)), int(np.ceil(place))
            if lower == upper:
                out[row, lower] += probability
            else:
                out[row, lower] += probability * (upper - place)
                out[row, upper] += probability * (place - lower)
    return out


def target_of(state, batch, drawn):
    z = np.linspace(-2, 4, 7)
    online, target = to_numpy(state.params), to_numpy(state.target)
    chosen = (softmax(logits_of(online, drawn.chooser, batch.next_obs)) * z).sum(-1).argmax(-1)
    probabilities = softmax(logits_of(target, drawn.target, batch.next_obs))[np.arange(BATCH), chosen]
    return projection_row_by_row(probabilities, batch.reward, batch.discount, z)


def test_a_projection_worked_out_by_hand():
    # z = 0, 1, 2; 0.5 + 0.5 z = 0.5, 1, 1.5: halves of the ends go to both neighbours
    got = projected(jnp.array([[0.2, 0.4, 0.4]]), jnp.array([0.5]), jnp.array([0.5]), np.float32([0, 1, 2]))
    assert np.allclose(got, [[0.1, 0.1 + 0.4 + 0.2, 0.2]])


@pytest.mark.parametrize(("low", "high"), [(1e8, 1e8 + 1), (1e6, 1e6 + 3), (-1e6 - 3, -1e6)])
def test_atoms_that_float32_does_not_tell_apart_are_refused(low, high):
    one = TrainConfig.default("dqn", "CartPole-v1").override(value_min=low, value_max=high)
    with pytest.raises(
        InvalidInput, match=r"^value_max: expected so far above value_min .* num_atoms returns .* apart"
    ):
        one.override(num_atoms=51)
    few = one.override(value_max=low + 50 * np.spacing(np.float32(abs(low) + 100)), num_atoms=51)
    assert (np.diff(atoms(few.agent)) > 0).all()


def test_a_projection_keeps_all_probability_and_ends_in_the_extremes():
    got = projected(jnp.array([[0.3, 0.3, 0.4]] * 2), jnp.array([50.0, -50.0]), jnp.ones(2), np.float32([0, 1, 2]))
    assert np.allclose(got, [[0, 0, 1], [1, 0, 0]])


@pytest.mark.whole
def test_the_loss_and_its_gradient_equal_an_independent_form_and_its_finite_differences():
    state, batch, drawn = fresh_state(), discrete_batch(1), noises()
    graded = jax.jit(jax.value_and_grad(dqn.loss, has_aux=True), static_argnums=(3, 4))
    (value, (excess, q)), slopes = graded(state.params, state.target, batch, NETWORK, CONFIG, drawn)
    y = target_of(state, batch, drawn)

    def losses(pieces):
        chosen = softmax(logits_of(pieces, drawn.online, batch.obs))[np.arange(BATCH), batch.action]
        return -(y * np.log(chosen)).sum(-1)

    def loss(pieces):
        return (batch.weights * losses(pieces)).mean()

    pieces = to_numpy(state.params)
    assert float(value) == pytest.approx(loss(pieces), rel=1e-5)
    assert_close(slopes, finite_differences(loss, pieces))
    entropy = -(y * np.log(np.where(y > 0, y, 1))).sum(-1)
    assert np.allclose(excess, losses(pieces) - entropy, atol=1e-4)
    assert (np.asarray(excess) > -1e-5).all()
    z = np.linspace(-2, 4, 7)
    chosen = softmax(logits_of(pieces, drawn.online, batch.obs))[np.arange(BATCH), batch.action]
    assert np.allclose(q, (chosen * z).sum(-1), atol=1e-4)


@pytest.mark.torch
def test_the_gradient_equals_that_of_torch():
    torch = pytest.importorskip("torch", reason="needs the torch extra")
    state, batch, drawn = fresh_state(), discrete_batch(2), noises()
    graded = jax.jit(jax.grad(dqn.loss, has_aux=True), static_argnums=(3, 4))
    slopes, _ = graded(state.params, state.target, batch, NETWORK, CONFIG, drawn)
    y = torch.tensor(target_of(state, batch, drawn))
    pieces = {name: torch.tensor(piece, requires_grad=True) for name, piece in to_numpy(state.params).items()}
    noisy, start = {}, 0
    for name, num_in, num_out in NETWORK.layers:
        e = torch.tensor(np.float64(drawn.online[start : start + num_in + num_out]))
        f = e.sign() * e.abs().sqrt()
        start += num_in + num_out
        outer = torch.outer(f[:num_in], f[num_in:])
        noisy[f"{name}.weight"] = pieces[f"{name}.weight"] + pieces[f"{name}.weight.sigma"] * outer
        noisy[f"{name}.bias"] = pieces[f"{name}.bias"] + pieces[f"{name}.bias.sigma"] * f[num_in:]
    features = torch.relu(layer(noisy, "hidden0", torch.tensor(np.float64(batch.obs))))
    advantage = layer(noisy, "action", features).reshape(BATCH, ACTIONS, 7)
    logits = layer(noisy, "value", features)[:, None] + advantage - advantage.mean(1, keepdim=True)
    chosen = logits.log_softmax(-1)[torch.arange(BATCH), torch.tensor(batch.action)]
    (torch.tensor(np.float64(batch.weights)) * -(y * chosen).sum(-1)).mean().backward()
    assert_close(slopes, {name: piece.grad.numpy() for name, piece in pieces.items()})


@pytest.mark.release
def test_numpy_and_jax_give_the_same_q_for_the_same_noise():
    pieces, obs = NETWORK.initial(np.random.default_rng(0)), discrete_batch(3).obs
    noise = noises().online
    q = q_values(NETWORK, NETWORK.perturbed(pieces, noise, np), obs, CONFIG, np)
    in_jax = jax.tree.map(jnp.array, pieces)
    assert np.allclose(q, q_values(NETWORK, NETWORK.perturbed(in_jax, noise, jnp), obs, CONFIG, jnp), atol=1e-5)
    assert not np.allclose(q, q_values(NETWORK, pieces, obs, CONFIG, np), atol=1e-3)


def test_exploring_draws_new_noise_at_every_step_and_evaluating_none():
    config = TrainConfig.default("dqn", "E").override(
        hidden=(8,), noisy=True, noise_scale=5.0, epsilon_start=0.0, epsilon_end=0.0, num_actors=1
    )
    network = policy_network(config, INTERFACE)
    assert isinstance(network, Noisy)
    policy = make_policy(config, INTERFACE, initial_vector(network, np.random.default_rng(0)))
    obs, rng = np.random.default_rng(1).normal(size=(64, INPUTS)).astype(np.float32), np.random.default_rng(2)
    explored = [policy.explore(obs, 0, rng) for _ in range(8)]
    assert any(not np.array_equal(explored[0], other) for other in explored[1:])
    assert np.array_equal(policy.act(obs), policy.act(obs))


def test_initial_noise_has_the_scale_of_the_paper():
    pieces = unpack(NETWORK, initial_vector(NETWORK, np.random.default_rng(0)))
    assert np.allclose(pieces["hidden0.weight.sigma"], 0.5 / np.sqrt(INPUTS))
    assert np.allclose(pieces["action.bias.sigma"], 0.5 / np.sqrt(8))


@pytest.mark.whole
def test_each_update_draws_noise_of_its_own_and_a_state_fixes_it():
    state = fresh_state()
    first, again = dqn.draw(state, NETWORK), dqn.draw(state, NETWORK)
    later = dqn.draw(state._replace(num_updates=jnp.int32(1)), NETWORK)
    assert np.array_equal(first.online, again.online)
    assert not np.array_equal(first.online, first.target)
    assert not np.array_equal(first.online, later.online)


def test_one_atom_is_plain_dqn():
    config = DQNConfig(hidden=(8,), dueling=True)
    network = q_network(Vector(shape=(INPUTS,)), ACTIONS, config)
    pieces = network.initial(np.random.default_rng(0))
    logits = action_logits(network, pieces, discrete_batch(4).obs, config, np)
    assert np.array_equal(logits[..., 0], q_values(network, pieces, discrete_batch(4).obs, config, np))
    assert len(atoms(CONFIG)) == 7


def test_rainbow_is_a_variant_of_an_environments_settings_that_flags_can_change():
    rainbow, plain = preset("dqn", "CartPole-v1", "rainbow"), preset("dqn", "CartPole-v1")
    assert (rainbow.agent.num_atoms, rainbow.agent.noisy, rainbow.agent.dueling) == (51, True, True)
    assert rainbow.agent.hidden == plain.agent.hidden
    assert preset_for("dqn", "CartPole-v1", "rainbow").verified == "not verified"  # which the plain settings are
    assert rainbow.override(num_atoms=11).agent.num_atoms == 11
    assert preset("dqn", "drivetrain/CartPole-v1", "rainbow").agent == rainbow.agent  # compiled, with the same rewards


def test_an_unknown_variant_is_refused_with_those_there_are():
    with pytest.raises(InvalidInput, match=r"preset: expected one of those for dqn \(rainbow\), got 'snow'"):
        preset("dqn", "CartPole-v1", "snow")
    with pytest.raises(InvalidInput, match=r"preset: expected one of those for sac \(none\)"):
        preset("sac", "Pendulum-v1", "rainbow")


@pytest.mark.release
def test_a_rainbow_run_trains_and_evaluates(tmp_path):
    result = train(
        "dqn",
        "CartPole-v1",
        preset="rainbow",
        num_actors=0,
        hidden=(16,),
        total_steps=400,
        warmup_steps=200,
        updates_per_call=8,
        eval_episodes=1,
        final_eval_episodes=1,
        run_dir=str(tmp_path / "run"),
    )
    assert (result.num_steps, result.num_updates) == (400, 100)


@pytest.mark.slow
def test_rainbow_learns_cartpole(tmp_path):
    result = train("dqn", "CartPole-v1", preset="rainbow", num_actors=0, seed=1, run_dir=str(tmp_path / "run"))
    assert result.mean_return >= 475
