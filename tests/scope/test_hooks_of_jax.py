"""What jitted functions are for shows while they are traced; policies of SBX are acting."""

import pytest
from programs import entered, profiled, profiled_text

from drivetrain import scope
from drivetrain.scope import _native
from drivetrain.scope.sites import NETWORK, Site, table
from drivetrain.scope.spans import span
from drivetrain.scope.trace.events import BEGIN

pytest.importorskip("jax", reason='needs JAX: pip install "drivetrain[train]"')
pytest.importorskip("gymnasium")


def operations(folder):
    """Operation -> nanoseconds in native code."""
    return {row.operation: row.raw_ns for row in scope.load(folder).breakdown() if row.time_class == "backend"}


def within(folder):
    """Site -> the operations that its spans were in."""
    profile = scope.load(folder)
    found = {}
    for thread, line in zip(profile.trace.threads, profile.timelines, strict=True):
        begins = thread.site[thread.kind == BEGIN]
        for site, code in zip(begins.tolist(), line.entered.tolist(), strict=True):
            name = profile.trace.sites[site].name.split(",")[0]
            found.setdefault(name, set()).add(profile.space.state(code).operation)
    return found


# A package of the shape of flax.linen, as far as the hook knows it: what is under test is the hook.
FLAX = """
class Module:
    def init(self, key):
        import jax
        return jax.random.normal(key, (4, 2))

    def apply(self, params, x):
        return self.method(params, x)

class Dense(Module):
    def method(self, params, x):
        return x @ params
"""
LOOP = """
import gymnasium, jax, jax.numpy as jnp, numpy as np
from functools import partial
from flax.linen.module import Dense
from drivetrain import scope
from drivetrain.scope import _native
from drivetrain.scope.sites import Site, table
from drivetrain.scope.spans import span
from drivetrain.scope.trace.events import BEGIN

net = Dense()
params = net.init(jax.random.key(0))
act = jax.jit(lambda params, obs: net.apply(params, obs).argmax(-1))
target = jax.jit(lambda params, obs: net.apply(params, obs).max(-1))
mix = jax.jit(lambda old, new: 0.9 * old + 0.1 * new)

def loss(params, obs, goal):
    return ((net.apply(params, obs).max(-1) - goal) ** 2).mean()

@partial(jax.jit, static_argnames=("rate",))
def update(params, obs, goal, rate=0.1):
    return params - rate * jax.grad(loss)(params, obs, goal)

env = gymnasium.make("CartPole-v1")
obs, _ = env.reset(seed=1)
old = params
for step in range(12):
    obs, reward, ended, cut, _ = env.step(int(act(params, obs)))
    if ended or cut:
        obs, _ = env.reset()
    if step % 3 == 0:
        batch = np.stack([obs] * 8)
        params = update(params, batch, target(old, batch))
        old = mix(old, params)

def network(weights, obs):  # of no library, with a matrix product in an inner function, which JAX traces once
    return jnp.dot(obs, weights)

@jax.jit
def policy(weights, obs):
    return network(weights, obs).argmax(-1)

@jax.jit
def goals(weights, obs):
    return network(weights, obs).max(-1)

@jax.jit
def remember(memory, obs):
    return memory.at[0].set(obs)

@jax.jit
def learn(weights, obs, goal):
    return weights - jax.grad(lambda w: ((network(w, obs).max(-1) - goal) ** 2).mean())(weights)

weights, memory = jnp.ones((4, 2)), jnp.zeros((8, 4))
for step in range(6):
    action = policy(weights, obs)
    memory = remember(memory, obs)
    obs, *_ = env.step(int(action))
    if step % 2:
        weights = learn(weights, memory, goals(weights, memory))
with scope.operation("mine"):
    update(params, batch, target(old, batch))
with scope.operation("mine"):
    jax.value_and_grad(loss)(params, batch, np.ones(8))
jax.value_and_grad(loss)(params, batch, np.ones(8))
with scope.operation("values"):
    assert np.asarray(params).shape == np.array(params).shape == memoryview(params).shape == (4, 2)
    assert float(params[0, 0]) == params[0, 0].item() and params.block_until_ready() is params
try:
    act(params, np.ones(3))
except TypeError as error:
    import traceback
    assert not [line for line in traceback.format_exception(error) if "drivetrain" in line]
print(float(params.sum()))
"""


def with_packages(tmp_path, **files):
    """A folder of stand-in packages: a_b_c="text" is module a.b.c."""
    for name, text in files.items():
        *packages, module = name.split("_")
        where = tmp_path / "packages"
        for package in packages:
            where /= package
            where.mkdir(parents=True, exist_ok=True)
            (where / "__init__.py").touch()
        (where / f"{module}.py").write_text(text)
    return [tmp_path / "packages"]


@pytest.mark.release
def test_a_hand_written_loop_is_told_apart_by_what_its_functions_do_while_they_are_traced(folder, tmp_path):
    path = with_packages(tmp_path, flax_linen_module=FLAX)
    profiled_text(folder, LOOP, python_path=path)
    assert not scope.load(folder).trace.notes
    assert operations(folder).keys() >= {"inference", "backpropagation", "mine"}
    found = within(folder)
    assert found["jit update"] == {"backpropagation", "mine"}
    assert found["jit <lambda>"] == {"inference", "backpropagation", "mine", "other"}
    assert found["jit policy"] == {"inference"}
    assert found["jit goals"] == found["jit learn"] == {"backpropagation"}
    assert found["jit remember"] == {"other"}, "between acting and the step, and no network"
    assert entered(folder)["jax.Array value"] >= 12 + 6
    rows = {(row.operation, row.time_class) for row in scope.load(folder).breakdown()}
    assert rows >= {("values", "accelerator_sync"), ("inference", "accelerator_sync")}


def test_what_a_function_is_for_is_learned_while_it_is_muted_and_holds_for_what_came_before(folder):
    inside = span(Site("jit of this test", "", "backend"))
    with scope.session(folder, calibrate_every=0):
        with inside:
            pass
        before = _native.mute(_native.MUTE_ALL)
        with inside:
            assert _native.inside() == [inside.site]
            table.presume(inside.site, "backpropagation")
        _native.mute(before)
        assert _native.inside() == []
        with scope.operation("mine"), inside:
            pass
    assert span(Site("jit of this test", "", "backend")).site == inside.site
    assert within(folder)["jit of this test"] == {"backpropagation", "mine"}


LIKE_NAMED = """
import functools, jax, jax.numpy as jnp
weights, x = jnp.ones((4, 2)), jnp.ones((3, 4))
three = lambda o: o @ weights, lambda s: s * 0.9, jax.grad(lambda w: (w ** 2).sum())
act, decay, learn = (jax.jit(jax.vmap(function)) for function in three)

class Network:
    def __call__(self, x):
        return x @ weights

class Loss:
    def __call__(self, w):
        return jax.grad(lambda w: (w ** 2).sum())(w)

def loss(w):
    return ((w @ weights) ** 2).sum()

class Odd:
    __code__ = "no code"
    def __call__(self, x):
        return x

functions = Network(), functools.partial(Loss()), loss, jax.grad(loss), jax.vmap(loss), Odd()
for jitted in (act, decay, learn, *map(jax.jit, functions), jax.jit(loss)):
    jitted(x)
jax.pmap(loss)(x[None])
"""


@pytest.mark.release
def test_what_was_seen_of_a_jitted_function_is_not_presumed_of_another_that_is_named_like_it(folder):
    profiled_text(folder, LIKE_NAMED)
    assert not scope.load(folder).trace.notes
    sites = [site for site in scope.load(folder).trace.sites if site.name.startswith("jit ") and "line" in site.name]
    assert {site.name.removeprefix("jit "): site.presumed for site in sites} == {
        "<lambda>, line 4 of __main__": NETWORK,
        "<lambda>, line 4 of __main__ (2)": "",
        "<lambda>, line 4 of __main__ (3)": "backpropagation",
        "Network, line 8 of __main__": NETWORK,
        "Loss, line 12 of __main__": "backpropagation",
        "loss, line 15 of __main__": NETWORK,
        "loss, line 15 of __main__ (2)": "backpropagation",
        "loss, line 15 of __main__ (3)": NETWORK,
        "loss, line 15 of __main__ (4)": NETWORK,
        "Odd, line 20 of __main__": "",
    }


ALONE = """
import jax, numpy as np
from flax.linen.module import Dense
from gymnax.environments.environment import Environment

net, env = Dense(), Environment()
params = net.init(jax.random.key(0))
step = jax.jit(jax.vmap(env.step))
act = jax.jit(net.apply)

@jax.jit
def train(params, state):
    gradient = jax.grad(lambda p: (net.apply(p, state) ** 2).sum())(params)
    return params - gradient, step(state)

state = np.ones((5, 4))
for _ in range(3):
    act(params, state)
    state = step(state)
train(params, state)
"""
GYMNAX = """
import jax

class Environment:
    @jax.jit
    def advance(state):
        return state * 0.5

    def step(self, state):
        return Environment.advance(state)
"""


@pytest.mark.release
def test_a_simulator_in_a_jitted_function_is_simulation_and_one_that_also_learns_is_neither(folder, tmp_path):
    path = with_packages(tmp_path, flax_linen_module=FLAX, gymnax_environments_environment=GYMNAX)
    profiled_text(folder, ALONE, python_path=path)
    assert not scope.load(folder).trace.notes
    found = within(folder)
    assert found["jit Environment.step"] == {"simulation"}
    assert found["jit train"] == {"other"}, "also where the step was traced before, alone"
    assert found["jit Module.apply"] == {"other"}, "which nobody can tell without a simulator that is seen"


SBX = """
class BaseJaxPolicy:
    @staticmethod
    def select_action(params, obs):
        return params * obs

    def predict(self, obs):
        return self._predict(self.prepare_obs(obs))

    def prepare_obs(self, obs):
        return obs

class Policy(BaseJaxPolicy):
    def _predict(self, obs):
        return BaseJaxPolicy.select_action(2.0, obs)
"""


def test_policies_of_sbx_are_inference(folder, tmp_path):
    path = with_packages(tmp_path, sbx_common_policies=SBX)
    text = """
import inspect
from sbx.common.policies import BaseJaxPolicy, Policy

class Mine(Policy):
    def _predict(self, obs):
        return super()._predict(obs)

assert [float(Mine().predict(i)) for i in range(4)] == [0.0, 2.0, 4.0, 6.0]
assert str(inspect.signature(Policy.predict)) == "(self, obs)"
"""
    profiled_text(folder, text, python_path=path)
    assert entered(folder)["SBX policy"] == 4, "methods that call each other are one span"
    assert within(folder)["SBX policy"] == {"inference"}


@pytest.mark.torch
@pytest.mark.slow  # imports and compiles three of SBX's algorithms
def test_sbx_itself_acts_and_learns_by_name(folder):
    pytest.importorskip("sbx", reason='needs SBX: pip install "drivetrain[bench]"')
    script = folder.with_suffix(".py")
    script.write_text("""
from sbx import DQN, PPO, SAC
SAC("MlpPolicy", "Pendulum-v1", learning_starts=20).learn(60)
DQN("MlpPolicy", "CartPole-v1", learning_starts=20).learn(60)
PPO("MlpPolicy", "CartPole-v1", n_steps=32, batch_size=16, n_epochs=2).learn(64)
""")
    profiled(folder, "--calibrate-every", 0, script)
    assert not scope.load(folder).trace.notes
    found = within(folder)
    assert found["jit BaseJaxPolicy.sample_action"] == {"inference"}
    assert found["jit PPOPolicy._predict_all"] == {"inference"}
    assert found["jit PPO._one_update"] == {"backpropagation"}
    assert found["jit SAC._train"] == {"backpropagation"}
    assert operations(folder).keys() >= {"inference", "backpropagation"}
