"""Settings that are Python objects: environments, torsos and optimizers from functions."""

import functools
import importlib
import pickle
import subprocess
import sys
import threading
from contextlib import nullcontext

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

import gymnasium
import jax
import jax.numpy as jnp
import optax
from strange_envs import Pictures

from drivetrain.core.errors import InvalidInput
from drivetrain.train import load_policy, resume, train
from drivetrain.train.config import TrainConfig
from drivetrain.train.config.given import Given
from drivetrain.train.environments.making import make
from drivetrain.train.environments.spaces import ACTIONS_OF
from drivetrain.train.experience.rollout import RolloutBuffer
from drivetrain.train.learner.learner import Learner
from drivetrain.train.learner.optimizers import optimizer_of
from drivetrain.train.learner.sharing import ONE_LEARNER
from drivetrain.train.learner.updates import Batch
from drivetrain.train.policies.policy import make_policy, num_published, policy_network
from drivetrain.train.runs.requirements import describe
from drivetrain.train.runs.tried import require_updates
from drivetrain.train.telemetry.curves import evaluations

SMALL = {
    "num_actors": 0, "total_steps": 80, "envs_per_actor": 2, "warmup_steps": 40, "hidden": (8,), "batch_size": 4,
    "update_ratio": "1/4", "eval_interval_steps": 80, "eval_episodes": 1, "final_eval_episodes": 2,
    "capacity": 100, "updates_per_call": 2, "eval_max_steps": 20,
}  # fmt: skip


def cartpole():
    return gymnasium.make("CartPole-v1", max_episode_steps=20)


def sines_init(key, obs):
    return {"w": jax.random.normal(key, (obs.shape[-1], 6)), "more": [jnp.zeros(6)]}


def sines_apply(params, obs):
    return jnp.sin(obs @ params["w"] + params["more"][0])


SINES = (sines_init, sines_apply)


def rmsprop(learning_rate):
    return optax.rmsprop(learning_rate)


@pytest.mark.whole
def test_a_lambda_can_make_the_environment_of_a_run_with_processes(tmp_path):
    steps = 20
    make = lambda: gymnasium.make("CartPole-v1", max_episode_steps=steps)  # noqa: E731
    result = train("dqn", make, run_dir=str(tmp_path), **{**SMALL, "num_actors": 1})
    assert max(result.returns) <= 20
    assert '"env": "given from Python: ' in (tmp_path / "config.json").read_text()


def test_a_run_on_a_function_is_evaluated_when_the_function_is_given_again(tmp_path):
    train("dqn", cartpole, run_dir=str(tmp_path), **SMALL)
    with pytest.raises(InvalidInput, match=r"env of this run was given from Python: cartpole.*--env module:name"):
        load_policy(tmp_path)
    assert len(load_policy(tmp_path, env=cartpole).evaluate(2)) == 2
    assert len(load_policy(tmp_path, env="test_given:cartpole").evaluate(2)) == 2
    with pytest.raises(InvalidInput, match="env of this run was given from Python: cartpole"):
        resume(tmp_path, total_steps=100)
    assert resume(tmp_path, total_steps=100, env=cartpole).num_steps == 100


def test_a_run_on_a_function_has_its_report_and_can_be_plotted_without_being_given_it(tmp_path):
    train("dqn", cartpole, run_dir=str(tmp_path), **SMALL)
    label = "dqn on given from Python: cartpole"
    assert f"Where the time of {label} went" in (tmp_path / "report.html").read_text()
    assert evaluations(tmp_path).label == label


def test_a_setting_that_the_run_s_file_holds_is_not_changed_by_giving_another(tmp_path):
    data = TrainConfig.default("dqn", "CartPole-v1").to_dict()
    assert TrainConfig.from_dict(data, env="CartPole-v1", optimizer=None).env == "CartPole-v1"
    for again in ({"env": "Acrobot-v1"}, {"optimizer": "optax:lion"}, {"env": cartpole}):
        with pytest.raises(InvalidInput, match=r"of this run is '\w+[-\w]*' and stays so, got .*; leave it out"):
            TrainConfig.from_dict(data, **again)


@pytest.mark.parametrize("name", ["toal_steps", "path", "data", "quiet"])
def test_a_setting_that_no_run_has_is_not_given_again_without_a_word(tmp_path, name):
    (tmp_path / "config.json").write_text(TrainConfig.default("dqn", "CartPole-v1").to_json())
    for take in (resume, load_policy):
        with pytest.raises(InvalidInput, match=f"unknown setting '{name}': env, torso and optimizer are given again"):
            take(tmp_path, **{name: 3})


def test_what_cannot_be_pickled_is_refused_before_anything_starts(tmp_path):
    lock = threading.Lock()
    with pytest.raises(InvalidInput, match=r"env: .*cannot be sent to the run's processes \(.*lock.*module:name"):
        train("dqn", lambda: lock and cartpole(), run_dir=str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_a_function_that_makes_no_environment_is_refused_in_one_sentence():
    with pytest.raises(InvalidInput, match=r"cannot be made: .*returns a gymnasium.Env, and it returned int"):
        describe(TrainConfig.default("dqn", lambda: 3))


def test_a_name_of_what_is_no_function_is_refused_likewise():
    with pytest.raises(InvalidInput, match=r"expected path of the module os to be a function that .*, got module"):
        describe(TrainConfig.default("dqn", "os:path"))


def test_given_objects_travel_by_value_and_are_equal_by_content():
    first, same, other = (Given("env", functools.partial(divmod, x)) for x in (7, 7, 8))
    assert first == same
    assert hash(first) == hash(same)
    assert first != other
    assert first != str(first)
    there = pickle.loads(pickle.dumps(first))
    assert there == first
    assert there.value(2) == (3, 1)


def test_a_module_and_function_name_an_environment_on_the_command_line():
    interface = describe(TrainConfig.default("dqn", "test_given:cartpole"))
    assert interface.num_actions == 2


def config_with(algo="dqn", env="CartPole-v1", **settings):
    return TrainConfig.default(algo, env).override(num_actors=1, hidden=(8,), **settings)


@pytest.mark.parametrize("torso", [SINES, "test_given:SINES"], ids=["object", "name"])
def test_actors_act_by_the_users_torso_as_the_learner_has_it(torso):
    config = config_with(torso=torso)
    interface = describe(config)
    network = policy_network(config, interface)
    learner = Learner(config, interface)
    obs = np.random.default_rng(1).normal(size=(5, 4)).astype(np.float32)
    vector = learner.learned.vector
    pieces = dict(zip([name for name, _ in network.layout], split(network, vector), strict=True))
    features = np.sin(obs @ pieces["torso.w"] + pieces["torso.more/0"])
    hidden = np.maximum(features @ pieces["hidden0.weight"] + pieces["hidden0.bias"], 0)
    q = hidden @ pieces["action.weight"] + pieces["action.bias"]
    assert np.array_equal(make_policy(config, interface, vector).act(obs), q.argmax(-1))


def split(network, vector):
    ends = np.cumsum([np.prod(shape, dtype=int) for _, shape in network.layout])
    return [part.reshape(shape) for part, (_, shape) in zip(np.split(vector, ends[:-1]), network.layout, strict=True)]


@pytest.mark.release
def test_a_torso_of_ones_own_learns_in_an_actor_critic_and_under_ones_own_optimizer(tmp_path):
    result = train("sac", "Pendulum-v1", run_dir=str(tmp_path), torso=SINES, optimizer=optax.adamw, num_step=2, **SMALL)
    assert result.num_updates == 10


def test_images_reach_a_torso_of_ones_own_as_they_are_stored():
    def apply(params, obs):
        assert (obs.dtype, obs.shape[1:]) == (jnp.uint8, (40, 44, 3))
        return obs[:, 0, :, 0].astype(jnp.float32) * params

    config = TrainConfig.default("dqn", Pictures).override(torso=(lambda key, obs: jnp.ones(44), apply), hidden=())
    assert num_published(config, describe(config)) == 44 + 3 * (44 + 1)


@pytest.mark.parametrize(
    ("torso", "sentence"),
    [
        (3, r"expected a pair \(init, apply\).*got int"),
        ("no_such_module:x", "torso: expected module:name"),
        ("optax.adamw", "torso: expected module:name .*got 'optax.adamw'; name both, as optax:adamw names"),
        ((sines_init, lambda params, obs: obs[0]), r"apply gave .* not float32\[1, num_features\]"),
        ((lambda key, obs: jnp.zeros(2, jnp.int32), sines_apply), "not float32 alone|raised"),
        ((sines_init, lambda params, obs: 1 / 0), "it raised ZeroDivisionError"),
        (
            (sines_init, lambda params, obs: obs.mean(0, keepdims=True)),
            r"gave float32\[1, 4\] for a batch of one and float32\[1, 4\] for one of three",
        ),
        ((sines_init, lambda params, obs: obs[:, :0]), r"gave float32\[1, 0\] for a batch of one"),
        ((lambda key, obs: {"a": {"b": jnp.ones(2)}, "a/b": jnp.ones(3)}, lambda params, obs: obs), "only 1 names"),
    ],
)
def test_a_torso_that_does_not_fit_is_refused_in_one_sentence(torso, sentence):
    config = config_with(torso=torso)
    with pytest.raises(InvalidInput, match=sentence) as caught:
        policy_network(config, describe(config))
    assert "\n" not in str(caught.value)


def test_the_users_optimizer_steps_the_parameters_along_the_clipped_gradient():
    config = config_with(optimizer=optax.sgd, learning_rate=0.5)
    own = optimizer_of(config.agent, max_norm=1.0)
    moved, _, norm = own.step(jnp.array([3.0, 4.0]), own.init(jnp.zeros(2)), jnp.ones(2))
    assert np.allclose(moved, [0.7, 0.6])
    assert norm == 5
    with pytest.raises(InvalidInput, match=r"optimizer: expected a function .* gave int"):
        optimizer_of(config.override(optimizer=lambda rate: 3).agent)


@pytest.mark.parametrize("algo", ACTIONS_OF)
def test_every_algorithm_keeps_the_state_of_an_optimizer_of_ones_own(algo):
    few = {"num_envs": 2, "rollout_length": 4} if algo == "ppo" else {}
    env = "CartPole-v1" if algo == "dqn" else "Pendulum-v1"
    config = config_with(algo, env, optimizer=optax.adamw, batch_size=4, **few)
    interface = describe(config)
    algorithm = importlib.import_module(f"drivetrain.train.algos.{algo}").make(config, interface)
    state = algorithm.init(np.random.default_rng(0))
    if algo == "ppo":
        rollout = RolloutBuffer.create(config, interface, shared=False).rollout
        after, _ = jax.eval_shape(lambda *given: algorithm.learn(*given, 0.5, ONE_LEARNER), state, rollout)
    else:
        obs, row = interface.zero_observations(4), jnp.zeros(4)
        batch = Batch(obs, interface.zero_actions(4), row, obs, row, row)
        after, *_ = jax.eval_shape(lambda state: algorithm.update(state, batch, ONE_LEARNER), state)
    assert jax.eval_shape(lambda: state) == after


@pytest.mark.parametrize("algo", ["dqn", "td3", "ppo"])
def test_an_optimizer_may_keep_the_parameters_it_began_with(tmp_path, algo):
    def pulled_back(rate):  # as optax.contrib's prodigy and dowg keep them
        return optax.GradientTransformation(
            lambda params: params,
            lambda slopes, first, params: (
                jax.tree.map(lambda g, a, p: -rate * g + 1e-3 * (a - p), slopes, first, params),
                first,
            ),
        )

    few = {"num_envs": 2, "rollout_length": 4, "total_steps": 16} if algo == "ppo" else {}
    settings = {name: value for name, value in SMALL.items() if algo != "ppo" or name in PPO_TAKES} | few
    env = "CartPole-v1" if algo == "dqn" else "Pendulum-v1"
    assert train(algo, env, run_dir=str(tmp_path), optimizer=pulled_back, **settings).num_updates > 1


@pytest.mark.parametrize(
    ("optimizer", "sentence"),
    [
        ("optax:no_such_thing", "optimizer: expected module:name of something that can be imported"),
        ("adamw", "optimizer: expected module:name .*; name both, as optax:adamw names"),
        (lambda rate: 3, r"optimizer: expected a function .* gave int"),
        (optax.adam(1e-3), "got a transformation itself; give a function of the rate, as `lambda rate: optax.adam"),
        (lambda rate: 1 / 0, "does not fit: it raised ZeroDivisionError"),
        (
            lambda rate: optax.lbfgs(rate),
            r"does not fit: it raised \w+: .*; expected a function from a learning rate to",
        ),
        (
            lambda rate: optax.GradientTransformation(lambda p: 0, lambda g, s, p: (g, [s])),
            "its state changes|carry output must have the same",
        ),
    ],
    ids=["absent", "no module", "no optimizer", "made", "raising", "needing more", "growing"],
)
@pytest.mark.parametrize("algo", ["dqn", "ppo"])
def test_an_optimizer_that_cannot_work_is_refused_in_one_sentence_before_anything_starts(
    tmp_path, algo, optimizer, sentence
):
    with pytest.raises(InvalidInput, match=sentence) as caught:
        train(algo, "CartPole-v1", run_dir=str(tmp_path / "run"), optimizer=optimizer)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.release
@pytest.mark.parametrize("algo", ["sac", "ppo"])
def test_an_optimizer_that_goes_by_the_names_of_an_algorithms_parameters_is_taken(tmp_path, algo):
    def by_name(rate):
        def labels(params):
            return jax.tree_util.tree_map_with_path(lambda path, _: str(path[-1].key).endswith("bias"), params)

        return optax.multi_transform({True: optax.sgd(rate), False: optax.adam(rate)}, labels)

    few = {"num_envs": 2, "rollout_length": 4, "total_steps": 16} if algo == "ppo" else {}
    settings = {name: value for name, value in SMALL.items() if algo == "sac" or name in PPO_TAKES} | few
    assert train(algo, "Pendulum-v1", run_dir=str(tmp_path), optimizer=by_name, **settings).num_updates > 0


PPO_TAKES = {"num_actors", "hidden", "batch_size", "eval_interval_steps", "eval_episodes", "final_eval_episodes"}


def test_an_optimizer_that_needs_a_number_as_rate_is_refused_where_the_rate_is_scheduled(tmp_path):
    def needs_number(rate):
        return optax.sgd(float(rate))

    with pytest.raises(InvalidInput, match=r"optimizer: .* does not fit: it raised ConcretizationTypeError"):
        train("ppo", "CartPole-v1", run_dir=str(tmp_path / "run"), optimizer=needs_number)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("inject", [True, False])
def test_an_optimizer_that_keeps_its_first_rate_is_refused_where_the_rate_is_scheduled(tmp_path, inject):
    def sgd(rate):
        return optax.inject_hyperparams(optax.sgd)(learning_rate=rate) if inject else optax.sgd(rate)

    config = TrainConfig.default("ppo", "CartPole-v1").override(num_actors=1, optimizer=sgd)
    require_updates(config.override(learning_rate_schedule="constant"), interface := describe(config))
    refused = pytest.raises(InvalidInput, match=r"keeps the rate that it was begun with.* with a constant")
    with refused if inject else nullcontext():
        require_updates(config.override(learning_rate_schedule="linear"), interface)


@pytest.mark.whole
def test_the_temperature_of_sac_is_stepped_by_adam_whatever_steps_the_networks():
    def decaying(rate):
        return optax.adamw(rate, weight_decay=100.0)

    reached = []
    for optimizer in ("adam", decaying):
        config = config_with("sac", "Pendulum-v1", optimizer=optimizer, batch_size=4, initial_temperature=0.01)
        interface = describe(config)
        algorithm = importlib.import_module("drivetrain.train.algos.sac").make(config, interface)
        obs, row = interface.zero_observations(4), jnp.zeros(4)
        batch = Batch(obs, interface.zero_actions(4), row, obs, row, row)
        update = jax.jit(algorithm.update, static_argnums=2)
        state, *_ = update(algorithm.init(np.random.default_rng(0)), batch, ONE_LEARNER)
        reached.append(float(state.log_alpha))
    assert np.isclose(*reached)


class Market(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, prices):
        self.prices = prices

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.prices[:4], {}

    def step(self, action):
        return self.prices[:4], 0.0, False, False, {}


def test_what_a_function_has_captured_is_in_a_process_once_for_all_its_environments():
    prices = np.ones(10, np.float32)
    config = TrainConfig.default("dqn", lambda: Market(prices))
    there = pickle.loads(pickle.dumps(config.override(num_actors=1)))  # as in a process of the run
    first, second = (make(there.env, there.environment).unwrapped for _ in range(2))
    assert first is not second
    assert first.prices is second.prices
    assert first.prices is not prices


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_function_that_returns_one_environment_twice_is_refused(wrapped):
    env = Market(np.ones(4, np.float32))
    config = TrainConfig.default("dqn", lambda: gymnasium.wrappers.TimeLimit(env, 9) if wrapped else env)
    make(config.env, config.environment)
    with pytest.raises(InvalidInput, match=r"expected another environment each time .*; make it within the function"):
        make(config.env, config.environment)


@jax.jit
def compiled_init(key, obs):
    return sines_init(key, obs)


@pytest.mark.parametrize("as_given", [True, False])
def test_functions_under_jit_are_a_torso(as_given):
    compiled_apply = jax.jit(lambda params, obs: sines_apply(params, obs))  # travels by value
    config = config_with(torso=(compiled_init, compiled_apply) if as_given else "test_given:COMPILED", batch_size=4)
    interface = describe(config)
    require_updates(config, interface)
    plain, own = (policy_network(config.override(torso=torso), interface) for torso in (SINES, config.agent.torso))
    assert own.layout == plain.layout
    pieces, obs = own.initial(np.random.default_rng(0)), np.ones((3, 4), np.float32)
    assert np.allclose(own.apply(pieces, obs, jnp)["action"], plain.apply(pieces, obs, jnp)["action"])


COMPILED = (compiled_init, jax.jit(sines_apply))


def test_an_actor_without_a_torso_of_the_users_own_imports_no_jax():
    code = "import sys; from drivetrain.train.processes.roles import actor, evaluator; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
