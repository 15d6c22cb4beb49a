"""Policies of actions that are not one number: pairs, and integers in a box."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from drivetrain import sim
from drivetrain.core.errors import CompileError, InvalidInput
from drivetrain.sim.spaces import Box, Discrete


class Parts:
    """A space of several."""

    def __init__(self, *spaces):
        self.spaces = spaces

    def sample(self, key):
        keys = jax.random.split(key, len(self.spaces))
        return tuple(space.sample(each) for space, each in zip(self.spaces, keys, strict=True))


class Taken:
    """Observes the sum of the parts of its action."""

    name = "Taken"
    default_params = None

    def __init__(self, space):
        self.space = space

    def reset(self, key, params):
        return jnp.zeros(2), jnp.int32(0)

    def step(self, key, state, action, params):
        total = sum(jnp.sum(x).astype(jnp.float32) for x in jax.tree.leaves(action))
        return jnp.stack([total, 0.0]), state + 1, total, False, state >= 9, {}

    def action_space(self, params):
        return self.space

    def observation_space(self, params):
        return Box(-9.0, 9.0, (2,))


PAIR = Taken(Parts(Discrete(2), Box(-1.0, 1.0, (3,))))
ACTION = (jnp.int32(1), jnp.full(3, 0.5))


@pytest.mark.parametrize("engine", ["xla", "numpy"])
@pytest.mark.parametrize(
    ("policy", "extras"),
    [
        (sim.policies.uniform(PAIR), ()),
        (sim.policies.constant(ACTION), ()),
        (sim.policies.scripted(lambda obs: ACTION), ()),
        (lambda params, obs, key: ACTION, ()),
        (lambda params, obs, key: (ACTION, {}), ()),
        (lambda params, obs, key: (ACTION, {"seen": obs[0]}), ("seen",)),
    ],
    ids=["uniform", "constant", "scripted", "bare", "with none", "with extras"],
)
def test_policies_act_where_an_action_is_a_pair(policy, extras, engine):
    params = policy.init(jax.random.key(0)) if isinstance(policy, sim.policies.Made) else ()
    rollout = sim.compile(PAIR, 2, 3, engine, policy=policy, policy_params=params, record=("action", "reward", *extras))
    _, trajectory = rollout(rollout.reset(), policy=params)
    first, second = trajectory["action"]
    assert (first.shape, second.shape) == ((3, 2), (3, 2, 3))
    np.testing.assert_allclose(trajectory["reward"], first + np.sum(second, axis=-1), rtol=1e-5)
    assert set(trajectory) == {"action", "reward", *extras}


def test_a_pair_that_is_neither_an_action_nor_an_action_with_extras_says_what_to_give():
    with pytest.raises(CompileError, match=r"got extras of type .*; give \(action, \{\}\) where an action is itself a"):
        sim.compile(PAIR, 2, 3, "numpy", policy=lambda params, obs, key: (jnp.int32(0), (obs, obs)))


@pytest.mark.parametrize("make", [sim.policies.mlp, sim.policies.linear])
@pytest.mark.parametrize("head", [None, "gaussian", "categorical"])
@pytest.mark.parametrize(
    ("env", "got"),
    [
        (PAIR, r"PyTreeDef\(\(\*, \*\)\)"),
        (Taken(Box(0, 3, (2,), jnp.int32)), r"int32\[2\]"),
        (Taken(Box(0, 1, (2,), bool)), r"bool\[2\]"),
    ],
)
def test_networks_refuse_actions_whose_probabilities_they_do_not_have(make, head, env, got):
    told = f"env: expected discrete actions, or one array of real ones, got {got}, .* Taken gives; .*of your own"
    with pytest.raises(InvalidInput, match=told):
        make(env, head=head)


@pytest.mark.parametrize(
    ("space", "policy", "told"),
    [
        (
            Box(-1.0, 1.0, (2,)),
            sim.policies.constant([0.5, -0.25]),
            r"Taken, float32\[2\], got \['float32\[\]', 'float32\[\]'\]; give one array, as by jnp.stack, or \(action",
        ),
        (
            Parts(Discrete(2), Discrete(3)),
            sim.policies.constant(np.int32(1)),
            r"Taken, \('int32\[\]', 'int32\[\]'\), got int32\[\]; give all of its parts",
        ),
    ],
)
def test_an_action_of_another_structure_is_told_by_types_and_shapes(space, policy, told):
    with pytest.raises(CompileError, match=f"policy: expected an action like those of {told}"):
        sim.compile(Taken(space), 2, 2, policy=policy, policy_params=policy.init(jax.random.key(0)))


def test_an_action_space_of_gymnasium_s_is_told_with_what_to_give_where_a_policy_is_made_for_it():
    spaces = pytest.importorskip("gymnasium.spaces", reason='needs the extra: pip install "drivetrain[train]"')
    told = r"`action_space` cannot be traced.* whose sample\(key\) draws with JAX, as drivetrain\.sim\.spaces"
    with pytest.raises(CompileError, match=told):
        sim.policies.mlp(Taken(spaces.Discrete(2)))
    listed = Taken(None)
    listed.action_space = Discrete(2)  # and no method
    with pytest.raises(CompileError, match=r"action_space.*not callable; .* as drivetrain\.sim\.spaces do"):
        sim.policies.uniform(listed)
