"""PPO's loss and gradient against PyTorch's autograd."""

import numpy as np
import pytest

pytest.importorskip("torch", reason='needs torch: pip install "drivetrain[torch]"')
pytest.importorskip("jax", reason="needs the train extra")

import jax
import torch
from test_ppo import KINDS, make_steps, parts, rows_of

from drivetrain.train.algos import ppo

pytestmark = pytest.mark.torch


def distribution_of(policy, features):
    """(torch's distribution, log probability of one action per row)."""
    if "mean.weight" in policy:
        mean = features @ policy["mean.weight"] + policy["mean.bias"]
        kind = torch.distributions.Independent(torch.distributions.Normal(mean, policy["log_std"].exp()), 1)
    else:
        kind = torch.distributions.Categorical(logits=features @ policy["logits.weight"] + policy["logits.bias"])
    return kind


def hidden(pieces, obs):
    return torch.tanh(obs @ pieces["hidden0.weight"] + pieces["hidden0.bias"])


@pytest.mark.release
@KINDS
def test_loss_and_gradient_equal_those_of_autograd(kind):
    with jax.enable_x64(True):
        agent, networks, state = parts(kind)
        params = jax.tree.map(lambda x: np.array(x, np.float64), state.params)
        steps = make_steps(kind, params.policy)
        (value, _), slopes = jax.value_and_grad(ppo.loss, has_aux=True)(
            params, rows_of(steps, agent), 0.2, networks, agent
        )
    leaves = [{name: torch.tensor(piece, requires_grad=True) for name, piece in part.items()} for part in params]
    policy, values = leaves
    obs, action, old, old_value, advantage = (torch.tensor(np.asarray(x)) for x in steps)
    target = advantage + old_value
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    chance = distribution_of(policy, hidden(policy, obs))
    ratio = (chance.log_prob(action) - old).exp()
    surrogate = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
    v = (hidden(values, obs) @ values["value.weight"] + values["value.bias"])[:, 0]
    loss = -surrogate + 0.5 * torch.nn.functional.mse_loss(v, target) - 0.02 * chance.entropy().mean()
    loss.backward()
    assert float(value) == pytest.approx(loss.item(), rel=1e-9)
    for part, got in zip(leaves, slopes, strict=True):
        assert all(np.allclose(part[name].grad.numpy(), got[name], atol=1e-9) for name in part)
