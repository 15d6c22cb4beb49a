"""DQN's updates against PyTorch's Huber loss, clipping and Adam: blocks as Stable-Baselines3 does them."""

import numpy as np
import pytest

pytest.importorskip("torch", reason='needs torch: pip install "drivetrain[torch]"')
pytest.importorskip("jax", reason="needs the train extra")

import jax
import torch

from drivetrain.train.algos import dqn
from drivetrain.train.config import DQNConfig
from drivetrain.train.learner.updates import Algorithm, Batch, compile_updates
from drivetrain.train.networks import MLP
from drivetrain.train.networks.joined import packed

pytestmark = pytest.mark.torch

NETWORK = MLP(num_inputs=4, hidden=(16, 16), heads=(("action", 2),))
NUM_UPDATES = 6
BLOCK = 3  # updates between copies to the target


def make_batches(rng):
    lead = (NUM_UPDATES, 32)
    obs, next_obs = rng.normal(size=(2, *lead, 4))
    reward = 8 * rng.normal(size=lead)  # errors on both sides of Huber's corner, gradients on both of the limit
    reward[::2] /= 20
    return Batch(obs, rng.integers(0, 2, lead), reward, next_obs, rng.choice([0.0, 0.99], lead), np.ones(lead))


def torch_network(pieces):
    """The same network, and the same parameters, as torch's."""
    layers = [torch.nn.Linear(a, b, dtype=torch.float64) for _, a, b in NETWORK.layers]
    for (name, _, _), layer in zip(NETWORK.layers, layers, strict=True):
        layer.load_state_dict(
            {"weight": torch.tensor(pieces[f"{name}.weight"].T), "bias": torch.tensor(pieces[f"{name}.bias"])}
        )
    return torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1], torch.nn.ReLU(), layers[2])


def pieces_of(net):
    """Its parameters, named as ours."""
    return {
        name: value.detach().numpy().T
        for (layer, _, _), linear in zip(NETWORK.layers, net[::2], strict=True)
        for name, value in ((f"{layer}.weight", linear.weight), (f"{layer}.bias", linear.bias))
    }


def torch_updates(pieces, batches, config):
    """(parameters, gradient norms) after all batches, by torch's functions alone."""
    net, target = torch_network(pieces), torch_network(pieces)
    adam = torch.optim.Adam(net.parameters(), lr=config.learning_rate, eps=config.adam_epsilon)
    norms = []
    for index in range(NUM_UPDATES):
        obs, action, reward, next_obs, discount, _ = (torch.tensor(each[index]) for each in batches)
        with torch.no_grad():
            y = reward + discount * target(next_obs).max(1).values
        loss = torch.nn.functional.smooth_l1_loss(net(obs).gather(1, action[:, None])[:, 0], y)
        adam.zero_grad()
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(net.parameters(), config.max_gradient_norm)))
        adam.step()
        if (index + 1) % BLOCK == 0:
            target.load_state_dict(net.state_dict())
    return pieces_of(net), norms


@pytest.mark.whole
def test_blocks_of_updates_between_copies_of_the_target_equal_those_of_torch():
    config = DQNConfig(
        hidden=NETWORK.hidden,
        double=False,
        learning_rate=2.3e-3,
        max_gradient_norm=0.17,
        target_interval=BLOCK,
        target_tau=1.0,
    )
    rng = np.random.default_rng(0)
    batches = make_batches(rng)
    with jax.enable_x64(True):
        start = {name: piece.astype(np.float64) for name, piece in NETWORK.initial(rng).items()}
        algorithm = Algorithm(
            init=lambda rng: dqn.init(start, config),
            update=lambda state, batch, learners: dqn.update(state, batch, NETWORK, config, learners),
            policy=lambda state: packed(NETWORK, state.params),
        )
        state, *_ = compile_updates(algorithm)(algorithm.init(rng), batches, np.int32(NUM_UPDATES))
    expected, norms = torch_updates(start, batches, config)
    assert min(norms) < config.max_gradient_norm < max(norms)
    for name, piece in expected.items():
        assert np.abs(piece - start[name]).max() > 1e-3
        assert np.allclose(state.params[name], piece, rtol=0, atol=1e-7), name  # torch adds 1e-6 to a norm it clips by
        assert np.array_equal(state.params[name], state.target[name])
