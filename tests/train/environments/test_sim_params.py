"""Simulators with parameters of one's own, and with some that every training environment draws for itself."""

import contextlib

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the train extra")

import jax

from drivetrain.core.errors import CompileError, InvalidInput
from drivetrain.sim import make, make_vec
from drivetrain.train import resume, train
from drivetrain.train.actor.fused.actor import FusedActor
from drivetrain.train.config import TrainConfig
from drivetrain.train.environments.environment import Environment
from drivetrain.train.evaluate import make_evaluator
from drivetrain.train.policies.policy import first_published, make_policy
from drivetrain.train.run_dir.folder import label_of
from drivetrain.train.runs.requirements import describe

SMALL = {"hidden": (8,), "sim_engine": "xla", "eval_episodes": 3, "final_eval_episodes": 3, "envs_per_actor": 16}

OF_PPO = {"num_envs": 16, "num_actors": 1, "batch_size": 64}


def config_of(algo="dqn", env="drivetrain/CartPole-v1", **settings):
    return TrainConfig.default(algo, env).override(**SMALL | settings)


def vector_of(config):
    return first_published(config, describe(config), np.random.default_rng(0))


def params_of(config, path=(0, 0)):
    """Of an actor's kernel."""
    actor = FusedActor(config, describe(config), vector_of(config), lambda count: None, path)
    return actor._kernel.rollout.params


def evaluated(config):
    interface = describe(config)
    with contextlib.closing(make_evaluator(config, interface)) as evaluator:
        episodes = evaluator.play(make_policy(config, interface, vector_of(config)), [1, 2, 3])
        return [episode.total_reward for episode in episodes]


def test_a_number_is_that_of_every_environment_and_the_others_stay():
    params = params_of(config_of(sim_params={"gravity": 3, "max_steps": 7.0}))
    assert (params.gravity, params.max_steps, params.force) == (3.0, 7, 10.0)
    assert type(params.max_steps) is int


@pytest.mark.whole
def test_of_a_pair_every_environment_of_every_actor_draws_its_own_uniformly():
    config = config_of(sim_params={"gravity": [8, 12], "max_steps": [4, 6]}, envs_per_actor=2_000, num_step=1)
    first, again, other = (params_of(config, path) for path in ((0, 0), (0, 0), (1, 0)))
    assert first.gravity.shape == (2_000,)
    assert (first.gravity.min() >= 8, first.gravity.max() <= 12) == (True, True)
    assert np.histogram(first.gravity, 4, (8, 12))[0] == pytest.approx([500] * 4, abs=100)
    assert np.bincount(first.max_steps)[4:] == pytest.approx([667] * 3, abs=100)
    np.testing.assert_array_equal(first.gravity, again.gravity)
    assert (first.gravity != other.gravity).all()


def test_a_number_may_decide_how_many_choices_an_action_has():
    config = config_of("ppo", "drivetrain/own_simulators:Levers", sim_params={"levers": 3, "length": 1.0}, **OF_PPO)
    assert params_of(config)["levers"] == 3
    assert len(evaluated(config)) == 3


@pytest.mark.whole
@pytest.mark.parametrize("engine", ["native", "xla", "none"])
def test_numbers_hold_in_evaluations(engine):
    assert evaluated(config_of(sim_engine=engine, sim_params={"max_steps": 3})) == [3.0] * 3


@pytest.mark.whole
def test_what_is_drawn_in_training_is_as_the_simulator_has_it_in_evaluations():
    assert evaluated(config_of(sim_params={"max_steps": [3, 3]})) == evaluated(config_of())
    assert min(evaluated(config_of())) > 3


@pytest.mark.whole
def test_algorithms_without_kernels_step_simulators_with_numbers_of_ones_own():
    config = TrainConfig.default("sac", "drivetrain/Pendulum-v1").override(sim_params={"max_torque": 3.5})
    interface = describe(config)
    assert float(interface.actions.high[0]) == 3.5
    with contextlib.closing(Environment(config, interface)) as env:
        env.reset(seed=0)


@pytest.mark.whole
@pytest.mark.parametrize("name", ["Walk", "OfNamedTuple"])
def test_simulators_of_other_modules_with_parameters_of_any_form_are_learned_from_in_a_kernel(tmp_path, name):
    env = f"drivetrain/own_simulators:{name}"
    config = config_of("dqn", env, sim_params={"wind": [0.1, 0.5], "length": 5})
    assert config.fused_engine == "xla"
    params = params_of(config)
    params = params if isinstance(params, dict) else params._asdict()
    assert (len(set(params["wind"].tolist())), params["length"]) == (16, 5.0)
    settings = {**SMALL, "num_actors": 0, "warmup_steps": 200, "sim_params": {"wind": [0.1, 0.5]}}
    assert train("dqn", env, run_dir=str(tmp_path), total_steps=320, **settings).num_steps == 320


def test_simulators_of_other_modules_are_made_with_options_and_stepped_without_a_kernel():
    config = TrainConfig.default("dqn", "drivetrain/own_simulators:Walk").override(
        sim_engine="none", env_kwargs={"num_steps": 3}
    )
    with contextlib.closing(Environment(config, describe(config))) as env:
        env.reset(seed=0)
        assert [env.step(0)[3] for _ in range(3)] == [False, False, True]


@pytest.mark.whole
@pytest.mark.parametrize("engine", ["none", "xla"])
def test_options_go_to_the_simulators_own_class_whatever_they_are_called(engine):
    options = {"name": "X", "params": 1.0, "engine": "diesel", "max_episode_steps": 7, "render_mode": "always"}
    config = config_of(env="drivetrain/own_simulators:Optional", sim_engine=engine, env_kwargs=options)
    assert max(evaluated(config)) <= 7
    of_params = config.override(env_kwargs={}, sim_params={"length": 1.0})
    assert evaluated(config) == evaluated(of_params.override(env_kwargs={"max_episode_steps": 7}))
    simulator = make(config.env, **options)
    assert (simulator.name, simulator.engine, simulator.render_mode) == ("X", "diesel", "always")


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        (
            "Walk",
            {"num_stebs": 3},
            r"got an unexpected keyword argument 'num_stebs': expected options of .*num_steps=30",
        ),
        (
            "OfNamedTuple",
            {"length": 3},
            r"got an unexpected keyword argument 'length': .*parameters .* go into params",
        ),
        ("State", {}, r"missing a required argument: 'position'"),
    ],
)
def test_options_that_a_simulator_of_ones_own_does_not_have_are_refused(name, options, sentence):
    with pytest.raises(InvalidInput, match=f"own_simulators:{name}: {sentence}"):
        make(f"own_simulators:{name}", **options)


@pytest.mark.parametrize("engine", ["native", "xla"])
@pytest.mark.parametrize("name", ["Branching", "Raising"])
def test_what_cannot_be_traced_is_told_neither_to_go_without_a_kernel_nor_to_use_another(tmp_path, name, engine):
    with pytest.raises(InvalidInput, match=r"do not go into one kernel .* `step` cannot be traced") as caught:
        train("dqn", f"drivetrain/own_simulators:{name}", num_actors=0, run_dir=str(tmp_path), sim_engine=engine)
    assert "sim_engine" not in str(caught.value)


def test_what_only_the_native_engine_cannot_compile_is_told_to_use_another(tmp_path):
    with pytest.raises(InvalidInput, match=r"do not go into one kernel .*`pure_callback`.*; use sim_engine xla$"):
        train("dqn", "drivetrain/own_simulators:Calling", num_actors=0, run_dir=str(tmp_path))


def test_a_space_where_a_function_is_expected_is_told():
    with pytest.raises(CompileError, match="`action_space`") as caught:
        make_vec("own_simulators:WithProperty", 2)
    with pytest.raises(InvalidInput) as told:
        describe(TrainConfig.default("dqn", "drivetrain/own_simulators:WithProperty"))
    name = "'drivetrain/own_simulators:WithProperty'"
    assert str(told.value) == f"environment {name} cannot be made: {caught.value}"  # with no place in files of ours


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("drivetrain/own_simulators:Wolk", "expected module:Name .*got 'own_simulators:Wolk' .*no attribute 'Wolk'"),
        ("drivetrain/nowhere_to_be_found:Walk", "expected module:Name .*No module named 'nowhere_to_be_found'"),
        ("drivetrain/own_simulators:np", "own_simulators:np: expected a class or function .*got module"),
        ("drivetrain/own_simulators:State", "expected an environment in JAX with reset, step, .*got State without"),
        (
            "drivetrain/own_simulators:TwoActions",
            "real-valued Box actions, got Dict.*; give one of drivetrain.sim.spaces from its",
        ),
        (
            "drivetrain/own_simulators:Unbounded",
            r"with finite bounds, got Box.*; give the Box of its action_space some$",
        ),
        ("own_simulators:Walk", "it returned Walk, a simulator: such are named, as drivetrain/own_simulators:Walk"),
    ],
)
def test_what_makes_no_simulator_is_refused_in_one_sentence(name, sentence):
    env_kwargs = {"position": 0, "time": 0} if name.endswith("State") else {}
    with pytest.raises(InvalidInput, match=sentence) as caught:
        describe(TrainConfig.default("dqn", name).override(env_kwargs=env_kwargs))
    assert "\n" not in str(caught.value)


@pytest.mark.whole
@pytest.mark.parametrize("algo", ["dqn", "ppo"])
def test_a_run_learns_from_environments_that_differ_and_goes_on(tmp_path, algo):
    of = {
        "dqn": {"warmup_steps": 200, "envs_per_actor": 4},
        "ppo": {"num_envs": 4, "envs_per_actor": 4, "rollout_length": 16, "batch_size": 32},
    }
    settings = {**SMALL, **of[algo], "num_actors": 0, "sim_params": {"gravity": [8, 12]}, "total_steps": 640}
    assert train(algo, "drivetrain/CartPole-v1", run_dir=str(tmp_path), **settings).num_steps == 640
    assert label_of(tmp_path) == f"{algo} on drivetrain/CartPole-v1 (gravity [8, 12])"
    assert resume(tmp_path, total_steps=1_280).num_steps == 1_280


@pytest.mark.parametrize(
    ("algo", "env", "params", "sentence"),
    [
        ("dqn", "CartPole-v1", {"gravity": 3}, "expected none for 'CartPole-v1', which is no simulator.* env_kwargs"),
        ("sac", "drivetrain/Pendulum-v1", {"gravity": [8, 12]}, r"expected one number for gravity, got \[8, 12\]"),
        ("dqn", "drivetrain/CartPole-v1", {"gravity": "much"}, "expected a number for gravity, or .* got 'much'"),
        ("dqn", "drivetrain/CartPole-v1", {"gravity": [12, 8]}, r"or \[low, high\], got \[12, 8\], whose low is above"),
        ("dqn", "drivetrain/CartPole-v1", {"gravity": [8]}, r"or \[low, high\], got \[8\]"),
        ("dqn", "drivetrain/CartPole-v1", {"gravity": float("nan")}, "expected values by name that JSON has, .*nan"),
        ("dqn", "drivetrain/CartPole-v1", {"gravity": True}, "got True"),
        ("dqn", "drivetrain/CartPole-v1", {"gravity": 10**400}, "expected a number for gravity, or .* got 1000"),
        ("dqn", "drivetrain/CartPole-v1", {"gravity": 1e39}, r"expected a number of at most 3.403e\+38, got 1e\+39"),
        ("ppo", "drivetrain/CartPole-v1", {"gravity": [3, 1e39]}, r"expected a number of at most 3.403e\+38, got"),
        ("dqn", "drivetrain/CartPole-v1", {"max_steps": 2**31}, r"expected a number of at most 2.147e\+09, got"),
        ("dqn", "drivetrain/CartPole-v1", {"max_steps": -3e9}, r"expected a number of at least -2.147e\+09, got -30"),
        ("dqn", "drivetrain/CartPole-v1", {"weight": 1}, "no parameter 'weight': choose from gravity, "),
        ("ppo", "gymnax/CartPole-v1", {"weight": [1, 2]}, "no parameter 'weight': choose from .*gravity, "),
        ("dqn", "drivetrain/own_simulators:OfAnyParams", {"a.b": 1}, "'a.b': choose from length, wind, max_steps$"),
        ("dqn", "drivetrain/own_simulators:OfAnyParams", {"gusts": 1}, r"gusts of Walk is no single .*\(env_kwargs\)$"),
        ("dqn", "drivetrain/CartPole-v1", {"max_steps": 2.5}, "max_steps of CartPole-v1: expected a whole number"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_in_one_sentence(algo, env, params, sentence):
    with pytest.raises(InvalidInput, match=f"sim_params: .*{sentence}") as caught:
        describe(TrainConfig.default(algo, env).override(sim_params=params))
    told = str(caught.value)
    assert "\n" not in told
    assert "cannot be made" not in told
    assert "drivetrain envs" not in told


@pytest.mark.parametrize(
    ("env", "params", "sentence"),
    [
        ("drivetrain/own_simulators:OfCheckedParams", {"length": [5, 6]}, "do not hold a number for each environment"),
        (
            "drivetrain/Pendulum-v1",
            {"max_torque": [1, 3]},
            "the actions of Pendulum-v1 depend on max_torque, .* one num",
        ),
        ("drivetrain/own_simulators:Levers", {"notches": [2, 5]}, "the actions of Walk depend on notches, .* one num"),
    ],
)
def test_pairs_that_cannot_be_drawn_are_refused_in_one_sentence(tmp_path, env, params, sentence):
    with pytest.raises(InvalidInput, match=f"sim_params: .*{sentence}") as caught:
        train("ppo", env, num_actors=0, run_dir=str(tmp_path / "run"), sim_engine="xla", sim_params=params)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()
    settings = {"num_envs": 16, "num_actors": 1, "batch_size": 64, "sim_params": dict.fromkeys(params, 5)}
    assert 5 in jax.tree.leaves(params_of(config_of("ppo", env, **settings)))
