"""Actors on compiled simulators: the transitions of the Gymnasium path, the policy that learns, whole runs."""

# Over 400 lines: the kernel's actor held against the one through Gymnasium, with what both are made from.

import os
import signal
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("jax", reason="needs the train extra")

import jax

from drivetrain import sim
from drivetrain.core.errors import InvalidInput, RunError
from drivetrain.train import resume, train
from drivetrain.train.actor.fused.acting import Draws
from drivetrain.train.actor.fused.actor import FusedActor
from drivetrain.train.actor.fused.episodes import Counting
from drivetrain.train.actor.fused.evaluation import FusedEvaluator
from drivetrain.train.actor.fused.kernel import compiled
from drivetrain.train.config import TrainConfig
from drivetrain.train.episode import Episode
from drivetrain.train.evaluate import Evaluator
from drivetrain.train.experience.experience import make_experience, writers
from drivetrain.train.policies.distributions import Categorical, DiagonalGaussian, MultiCategorical
from drivetrain.train.policies.policy import first_published, make_policy
from drivetrain.train.run_dir.checkpoint import load_checkpoint
from drivetrain.train.runs.requirements import describe

SMALL = {
    "hidden": (16,), "eval_interval_steps": 500, "eval_episodes": 2, "final_eval_episodes": 2, "eval_max_steps": 50,
    "log_interval_steps": 500, "sim_engine": "xla",
}  # fmt: skip
OF = {
    "dqn": {"envs_per_actor": 4, "grant_length": 8, "warmup_steps": 200, "batch_size": 16},
    "ppo": {"num_envs": 4, "rollout_length": 8, "batch_size": 16, "num_epochs": 2, "num_actors": 1},
}


def config_of(algo, env, **settings):
    return TrainConfig.default(algo, env).override(**SMALL | OF[algo] | settings)


class Notes:
    """A writer that keeps all that it is given, for any number of environments."""

    def __init__(self, count=0):
        self.count = count
        self.steps = []
        self.parts = []

    def add(self, **step):
        self.steps.append({name: np.array(array) for name, array in step.items()})

    def add_some(self, where, /, **step):
        self.parts.append([where.tolist(), len(step["reward"])])

    def all(self, name):
        return np.stack([step[name] for step in self.steps])


class Played:
    """A fused actor, whose writers are noted."""

    def __init__(self, algo, env, *, seed=0, **settings):
        self.config = config_of(algo, env, **settings)
        self.interface = describe(self.config)
        self.vector = first_published(self.config, self.interface, np.random.default_rng(seed))
        self.writers = []
        self.actor = FusedActor(self.config, self.interface, self.vector, self.writer, (0, 0))

    def writer(self, count):
        self.writers.append(Notes(count))
        return self.writers[-1]

    def take(self, num_calls, start=0):
        """All transitions of so many calls, and the episodes that ended."""
        notes, episodes = self.writers[-1], []
        notes.steps.clear()
        for _ in range(num_calls):
            episodes += self.actor.step(self.actor.steps_per_call, start)
        return notes, episodes


@pytest.fixture(scope="module")
def cart():
    """DQN on CartPole, acting by its network alone, on normalised observations."""
    settings = {"normalize_observations": True, "normalize_rewards": True}
    played = Played("dqn", "drivetrain/CartPole-v1", epsilon_start=0.0, epsilon_end=0.0, **settings)
    played.vector[-8:] = [0.02, 0.0, -0.01, 0.1, 3.0, 2.0, 5.0, 0.5]
    return played


class Car(NamedTuple):
    """Transitions of the same actions, by a fused actor and through Gymnasium."""

    played: Played
    fused: Notes
    gymnasium: Notes


@pytest.fixture(scope="module")
def car():
    """DQN on MountainCar, acting at random: no episode is anything but truncated, at step 200."""
    played = Played("dqn", "drivetrain/MountainCar-v0", epsilon_start=1.0, epsilon_end=1.0, grant_length=128)
    notes, _ = played.take(2)
    return Car(played, notes, through_gymnasium(played, notes.all("action")))


def through_gymnasium(played, actions):
    """Transitions of the same environments, stepped one at a time by Gymnasium's interface; the same first seed."""
    from drivetrain.core.seeding import episode_seeds

    (seed,) = episode_seeds(played.config.run.seed, "training", 1, 0, 0, 0)
    envs = sim.make_vec(played.config.env, actions.shape[1], "xla", autoreset="same_step")
    obs, _ = envs.reset(seed=seed)
    notes = Notes()
    for action in actions:
        next_obs, reward, terminated, truncated, infos = envs.step(action)
        final = np.array(next_obs)
        for index in np.flatnonzero(terminated | truncated):
            final[index] = infos["final_obs"][index]
        step = {"reward": reward, "terminated": terminated, "truncated": truncated}
        shape = (len(action), -1)
        notes.add(obs=obs.reshape(shape), action=action, next_obs=final.reshape(shape), **step)
        obs = next_obs
    return notes


def require_alike(fused, gymnasium):
    for field in ("obs", "action", "reward", "next_obs", "terminated", "truncated"):
        np.testing.assert_allclose(fused.all(field), gymnasium.all(field), rtol=1e-5, atol=1e-6, err_msg=field)


@pytest.mark.whole
def test_the_same_actions_give_the_transitions_of_the_gymnasium_path(car):
    require_alike(car.fused, car.gymnasium)
    assert car.fused.all("truncated").any()


@pytest.mark.slow  # compiles more kernels
@pytest.mark.parametrize("engine", ["native", "xla"])
@pytest.mark.parametrize("env", ["drivetrain/CartPole-v1", "drivetrain/Breakout"])
def test_of_episodes_that_terminate_they_do_too(env, engine):
    played = Played("dqn", env, epsilon_start=0.5, grant_length=16, sim_engine=engine)
    notes, _ = played.take(4)
    require_alike(notes, through_gymnasium(played, notes.all("action")))
    assert notes.all("terminated").any()


def test_replays_filled_in_both_ways_draw_the_same_n_step_rows(car):
    samples = []
    for steps in (car.fused.steps, car.gymnasium.steps):
        replay = make_experience(car.played.config, car.played.interface, shared=False)
        writer = writers(replay, 0)(4)
        for step in steps:
            writer.add(**step)
        samples.append(replay.sample(64))
        replay.close()
    for ours, theirs in zip(jax.tree.leaves(samples[0]), jax.tree.leaves(samples[1]), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_after_a_truncation_the_last_observation_is_stored_and_the_next_episode_begins_in_the_next_row(car):
    step, env = (int(index[0]) for index in np.nonzero(car.fused.all("truncated")[:-1]))
    assert not car.fused.all("terminated")[step, env]
    last, first = car.fused.all("next_obs")[step, env], car.fused.all("obs")[step + 1, env]
    assert first[1] == 0.0
    assert -0.6 <= first[0] <= -0.4  # MountainCar begins at rest, in the valley
    assert not np.array_equal(last, first)


@pytest.mark.whole
def test_greedy_actions_are_those_of_the_policy_that_is_evaluated_on_normalised_observations_too(cart):
    notes, _ = cart.take(4)
    obs = notes.all("obs")
    policy = make_policy(cart.config, cart.interface, cart.vector)
    assert np.array_equal(notes.all("action").reshape(-1), policy.act(obs.reshape(-1, 4)))


def test_the_moments_of_what_was_acted_on_are_kept_for_every_environment(cart):
    before = cart.actor.moments.table.copy()
    obs = cart.take(1)[0].all("obs")
    count, means = cart.actor.moments.table[:, 0], cart.actor.moments.table[:, 1:5]
    assert np.array_equal(count, before[:, 0] + len(obs))
    expected = (before[:, 1:5] * before[:, :1] + obs.sum(0)) / count[:, None]
    np.testing.assert_allclose(means, expected, rtol=1e-4, atol=1e-6)


def test_new_weights_are_acted_by_from_the_next_call_on(cart):
    policy = make_policy(cart.config, cart.interface, cart.vector)
    before = cart.vector.copy()
    for bias in ([5.0, 0.0], [0.0, 5.0]):
        cart.vector[:] = 0.0
        cart.vector[-10:-8] = bias
        cart.vector[-4:] = 1.0
        notes, _ = cart.take(1)
        assert (notes.all("action") == int(np.argmax(bias))).all()
        assert np.array_equal(notes.all("action")[0], policy.act(notes.all("obs")[0]))
    cart.vector[:] = before


def test_with_epsilon_1_all_actions_are_taken_about_equally_often(car):
    counts = np.bincount(car.fused.all("action").ravel(), minlength=3)
    assert counts.sum() == 1024
    assert counts.min() > 250  # binomial: mean 341, deviation 15


def test_of_the_last_grant_exactly_the_granted_steps_are_written(cart):
    num_writers = len(cart.writers)
    cart.writers[-1].steps.clear()
    whole = cart.writers[-1]
    cart.actor.step(10, 0)  # of 32: two steps of all four environments, and one of the first two
    assert [len(step["reward"]) for step in whole.steps] == [4, 4]
    assert whole.parts == [[[True, True, False, False], 4]]
    assert [(fresh.count, fresh.steps) for fresh in cart.writers[num_writers:]] == [(4, [])]


def test_an_episode_that_starts_with_nan_is_the_environments_fault(cart, monkeypatch):
    block = cart.actor._taken(0)
    obs, ended = block.obs.copy(), block.terminated.copy()
    obs[3, 1, 0], ended[2, 1] = np.nan, True
    monkeypatch.setattr(cart.actor, "_taken", lambda start: block._replace(obs=obs, terminated=ended))
    with pytest.raises(RunError, match="the start of an episode: expected finite numbers in an observation, got"):
        cart.actor.step(cart.actor.steps_per_call, 0)


def test_steps_beyond_the_last_grant_are_nobodys_fault(cart, monkeypatch):
    block = cart.actor._taken(0)
    reward = block.reward.copy()
    reward[3:] = np.nan
    monkeypatch.setattr(cart.actor, "_taken", lambda start: block._replace(reward=reward))
    cart.actor.step(10, 0)  # of 32: three rows, the third in part
    with pytest.raises(RunError, match="expected a finite number as reward, got nan"):
        cart.actor.step(13, 0)


def test_a_seed_and_a_path_fix_where_environments_begin(cart, monkeypatch):
    monkeypatch.setattr("drivetrain.train.actor.fused.actor.compiled", lambda *_: cart.actor._kernel)

    def begun(seed, path):
        config = cart.config.override(seed=seed)
        return FusedActor(config, cart.interface, cart.vector, Notes, path)._state.obs

    first = begun(0, (0, 0))
    assert np.array_equal(first, begun(0, (0, 0)))
    for other in (begun(1, (0, 0)), begun(0, (1, 0)), begun(0, (0, 1))):
        assert not np.isin(other, first).any()


@pytest.mark.whole
def test_ppo_writes_a_whole_rollout_as_step_by_step_writing_would(monkeypatch):
    config = config_of("ppo", "drivetrain/Pendulum-v1", rollout_length=256, num_envs=2, batch_size=64)
    interface = describe(config)
    vector = first_published(config, interface, np.random.default_rng(0))
    buffers = [make_experience(config, interface, shared=False) for _ in range(2)]
    steps = Notes()
    kernel = compiled(config, interface, vector, *[np.random.default_rng(0)] * 2)
    monkeypatch.setattr("drivetrain.train.actor.fused.actor.compiled", lambda *_: kernel)
    for make_writer in (writers(buffers[0], 0), lambda count: steps):
        FusedActor(config, interface, vector, make_writer, (0, 0)).step(512, 0)
    writer = writers(buffers[1], 0)(2)
    for step in steps.steps:
        writer.add(**step)
    truncated = buffers[0].rollout.truncated
    assert truncated[199].all()
    for name in ("obs", "action", "reward", "terminated", "truncated"):
        assert np.array_equal(*(getattr(buffer.rollout, name) for buffer in buffers)), name
    for row in (199, 255):
        assert np.array_equal(*(buffer.rollout.last_obs[row] for buffer in buffers))
    assert np.abs(buffers[0].rollout.action).max() > 1.0  # unclipped in the rollout; the environment takes the bound


@pytest.mark.parametrize(
    ("distribution", "outputs"),
    [
        (Categorical(3), {"logits": np.linspace(-1, 1, 30, dtype=np.float32).reshape(10, 3)}),
        (MultiCategorical((2, 3)), {"logits": np.linspace(-1, 1, 50, dtype=np.float32).reshape(10, 5)}),
        (DiagonalGaussian(2), {"mean": np.ones((10, 2), np.float32), "log_std": np.float32([-1.0, 0.5])}),
    ],
)
def test_a_distribution_makes_the_same_of_the_same_draws_in_numpy_and_in_jax(distribution, outputs):
    class Same:
        """The draws of a key, as NumPy's arrays."""

        def __init__(self):
            self.draws = Draws(jax.random.key(7))

        def standard_exponential(self, size, dtype):
            return np.array(self.draws.standard_exponential(size, dtype))

        def standard_normal(self, size, dtype):
            return np.array(self.draws.standard_normal(size, dtype))

    by_numpy = distribution.sample(outputs, Same())
    by_jax = distribution.sample(outputs, Draws(jax.random.key(7)), jax.numpy)
    np.testing.assert_allclose(by_jax, by_numpy, rtol=1e-6)


@pytest.mark.whole
def test_evaluations_play_the_episodes_of_the_gymnasium_path(cart):
    policy, seeds = make_policy(cart.config, cart.interface, cart.vector), list(range(7))
    evaluators = FusedEvaluator(cart.config, cart.interface, 3), Evaluator(cart.config, cart.interface, 1)
    episodes = [evaluator.play(policy, seeds) for evaluator in evaluators]
    assert episodes[0] == episodes[1]
    assert len(set(episodes[0])) > 1


@given(st.data())
def test_episodes_are_counted_over_blocks_as_step_by_step(data):
    num_envs = data.draw(st.integers(1, 4))
    counting, totals, lengths = Counting(num_envs), np.zeros(num_envs), np.zeros(num_envs, int)
    for _ in range(data.draw(st.integers(1, 4))):
        num_steps = data.draw(st.integers(1, 6))
        flags = data.draw(st.lists(st.booleans(), min_size=num_steps * num_envs, max_size=num_steps * num_envs))
        ended = np.array(flags).reshape(num_steps, num_envs)
        reward = np.arange(num_steps * num_envs, dtype=np.float32).reshape(num_steps, num_envs) - 3
        expected = []
        for step in range(num_steps):
            totals, lengths = totals + reward[step], lengths + 1
            for env in np.flatnonzero(ended[step]):
                assert counting.length_at(step, int(env), ended) == lengths[env]
                expected.append(Episode(totals[env], lengths[env]))
                totals[env] = lengths[env] = 0
        assert sorted(counting.add(reward, ended)) == sorted(expected)


@pytest.mark.parametrize(
    ("algo", "env", "settings", "sentence"),
    [
        ("dqn", "drivetrain/Snake", {"frame_stack": 2}, r"frame_stack: .*'drivetrain/Snake'.*sim_engine none"),
        ("dqn", "gymnax/CartPole-v1", {"deterministic": True, "grant_length": 1}, r"deterministic: .*sim_engine none"),
        ("dqn", "drivetrain/Breakout", {"freeze_encoder_after": 9_000}, r"freeze_encoder_after: .*sim_engine none"),
        ("ppo", "drivetrain/CartPole-v1", {"num_actors": "auto"}, r'num_actors or num_learners "auto": .*none'),
        ("dqn", "CartPole-v1", {}, r"sim_engine: expected auto or none for 'CartPole-v1'.*got xla.*drivetrain/NAME"),
        ("dqn", "drivetrain/Knob", {"sim_engine": "cuda"}, 'sim_engine: expected "auto" or .* or "none", got .cuda.'),
        ("dqn", "CartPole-v1", {"sim_engine": "auto", "deterministic": True}, r"grant_length: expected 1 beside det"),
    ],
)  # fmt: skip
def test_what_no_kernel_does_is_refused_before_anything_starts(algo, env, settings, sentence):
    with pytest.raises(InvalidInput, match=sentence) as caught:
        config_of(algo, env, **settings)
    assert "\n" not in str(caught.value)


def test_only_dqn_and_ppo_have_an_engine_for_simulators():
    with pytest.raises(InvalidInput, match="unknown setting 'sim_engine' for sac"):
        TrainConfig.default("sac", "drivetrain/Pendulum-v1").override(sim_engine="xla")
    assert TrainConfig.default("sac", "drivetrain/Pendulum-v1").fused_engine is None
    assert TrainConfig.default("dqn", "drivetrain/CartPole-v1").fused_engine == "native"
    assert TrainConfig.default("dqn", "CartPole-v1").fused_engine is None


def test_runs_from_before_there_were_kernels_go_on_through_gymnasium():
    data = TrainConfig.default("dqn", "drivetrain/CartPole-v1").to_dict()
    del data["simulator"]
    assert TrainConfig.from_dict(data).fused_engine is None


@pytest.mark.release
def test_a_sequential_run_on_an_environment_of_gymnax_takes_exactly_its_steps(tmp_path):
    pytest.importorskip("gymnax", reason="needs the gymnax extra")
    settings = SMALL | OF["dqn"] | {"num_actors": 0, "total_steps": 610}
    done = train("dqn", "gymnax/Catch-bsuite", run_dir=str(tmp_path / "run"), **settings)
    assert (done.num_steps, done.num_updates) == (610, int(410 * TrainConfig.default("dqn", "").updates.update_ratio))


@pytest.mark.release
@pytest.mark.parametrize("algo", ["dqn", "ppo"])
def test_a_torso_that_expects_a_batch_finds_one_in_the_kernel(tmp_path, algo):
    def init(key, obs):
        return {"w": 0.1 * jax.random.normal(key, (obs.shape[-1], 8))}

    def apply(params, obs):
        halves = jax.numpy.concatenate([obs[:, :2], obs[:, 2:]], 1)
        return jax.numpy.tanh(halves.reshape(len(obs), -1) @ params["w"])

    settings = SMALL | OF[algo] | {"num_actors": 0, "total_steps": 512, "torso": (init, apply)}
    result = train(algo, "drivetrain/CartPole-v1", run_dir=str(tmp_path / "run"), **settings)
    assert result.num_steps == 512


@pytest.mark.slow  # two runs more
@pytest.mark.parametrize("algo", ["dqn", "ppo"])
def test_a_sequential_run_repeats_its_bits_and_is_resumed(tmp_path, algo):
    settings = SMALL | OF[algo] | {"num_actors": 0, "total_steps": 640}
    done = [train(algo, "drivetrain/CartPole-v1", run_dir=str(tmp_path / name), **settings) for name in ("a", "b")]
    assert done[0].returns == done[1].returns
    first, second = (load_checkpoint(tmp_path / name)[0] for name in ("a", "b"))
    assert all(np.array_equal(array, second[name]) for name, array in first.items())
    assert resume(tmp_path / "a", total_steps=800).num_steps == 800


@pytest.mark.slow  # processes, which import JAX and compile
@pytest.mark.parametrize("algo", ["dqn", "ppo"])
def test_a_killed_actor_is_started_again_and_the_run_finishes_exactly(start, algo):
    flags = {
        "dqn": ["--warmup-steps", "200", "--envs-per-actor", "4", "--grant-length", "8", "--total-steps", "20000"],
        "ppo": ["--num-envs", "8", "--rollout-length", "64", "--total-steps", "51200"],
    }[algo]
    run = start(
        *flags, "--hidden", "16", "--batch-size", "16", "--num-actors", "2", "--eval-episodes", "2",
        "--final-eval-episodes", "2", "--eval-interval-steps", "1000000", what=(algo, "drivetrain/CartPole-v1"),
    )  # fmt: skip
    run.wait_until_learning()
    pid = next(iter(run.children("actor-1")))
    os.kill(pid, signal.SIGKILL)
    out, err = run.process.communicate(timeout=500)
    assert run.process.returncode == 0, err
    assert "actor 1 was killed by SIGKILL" in err
    assert "mean return" in out
