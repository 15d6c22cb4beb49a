"""Normalisation: what is counted, what follows from it, and who normalises by it."""

import numpy as np
import pytest
import strange_envs
from gymnasium.spaces import Box, Dict, MultiBinary
from one_sample import errors_of

pytest.importorskip("jax", reason="needs the train extra")

from drivetrain.core.errors import InvalidInput
from drivetrain.replay import Sample
from drivetrain.train import train
from drivetrain.train.actor.actor import Actor
from drivetrain.train.config import TrainConfig
from drivetrain.train.evaluate import policy_of
from drivetrain.train.experience.experience import writers
from drivetrain.train.experience.rollout import RolloutBuffer
from drivetrain.train.interface import BoxActions, Categories, Entries, Image, Interface, Vector, entries_of
from drivetrain.train.learner.learner import Learner
from drivetrain.train.learner.on_policy.learner import RolloutLearner
from drivetrain.train.normalization import Moments, MomentsBoard, Normalization, Statistics
from drivetrain.train.policies.policy import make_policy, num_published
from drivetrain.train.run_dir.checkpoint import load_checkpoint, load_replay, load_saved_policy
from drivetrain.train.runs.requirements import describe

ACTIONS = BoxActions(low=(-1.0,), high=(1.0,), shape=(1,), dtype="float32")
PLAIN = Interface(observations=Vector(shape=(3,)), actions=ACTIONS)
MIXED = Interface(
    observations=Entries(
        entries=(
            ("body", Vector(shape=(3,))),
            ("camera", Image(shape=(40, 40), axes="HW")),
            ("dial", Categories(counts=(4,), starts=(0,))),
            ("past", Vector(shape=(2, 2))),
            ("switches", Vector(shape=(5,), dtype="int8", is_binary=True)),
        ),
        paths=(("body",), ("camera",), ("dial",), ("past",), ("switches",)),
    ),
    actions=ACTIONS,
)
BOTH = {"normalize_observations": True, "normalize_rewards": True}
SMALL = {
    "warmup_steps": 64, "batch_size": 16, "hidden": (8,), "envs_per_actor": 4, "eval_episodes": 2,
    "final_eval_episodes": 2, "eval_max_steps": 20,
}  # fmt: skip


def config_of(algo="sac", env="Pendulum-v1", **settings):
    small = (
        {"hidden": (8,)} if algo == "ppo" else {name: SMALL[name] for name in ("warmup_steps", "batch_size", "hidden")}
    )
    return TrainConfig.default(algo, env).override(
        **{**small, "num_actors": 1, "envs_per_actor": 4, **BOTH, **settings}
    )


def history(num_steps, num_envs, seed=0):
    """Observations far from 0, rewards and ends of episodes: [num_steps, num_envs, ...] each."""
    rng = np.random.default_rng(seed)
    obs = (rng.normal(size=(num_steps, num_envs, 3)) * [1, 100, 0] + [1e4, -3, 7]).astype(np.float32)
    return obs, rng.normal(2, 5, (num_steps, num_envs)).astype(np.float32), rng.random((num_steps, num_envs)) < 0.2


def table_of(config, obs, rewards, ended, num_actors=1, interface=PLAIN):
    """The moments of a history whose environments are shared out to actors."""
    normalization = Normalization.of(config, interface)
    tables = []
    for columns in np.split(np.arange(rewards.shape[1]), num_actors):
        moments = Moments(normalization, len(columns))
        for step in range(len(rewards)):
            moments.add(obs[step, columns], rewards[step, columns], ended[step, columns])
        tables.append(moments.table)
    return np.concatenate(tables)


def discounted(rewards, ended, gamma):
    """The discounted return of the episode so far, at every step of one environment after another."""
    found = []
    for column in range(rewards.shape[1]):
        total = 0.0
        for reward, end in zip(rewards[:, column], ended[:, column], strict=True):
            total = gamma * total + float(reward)
            found.append(total)
            total = 0.0 if end else total
    return np.array(found)


def test_statistics_are_those_of_all_that_was_seen():
    config = config_of(gamma=0.9)
    obs, rewards, ended = history(50, 4)
    statistics = Statistics(config, PLAIN)
    statistics.take(table_of(config, obs, rewards, ended))
    every = obs.reshape(-1, 3).astype(np.float64)
    mean, inverse = statistics.parameters.reshape(2, 3)
    assert np.allclose(mean, every.mean(0), rtol=1e-6)
    assert np.allclose(inverse, 1 / np.sqrt(every.var(0) + 1e-8), rtol=1e-5)
    deviation = discounted(rewards, ended, 0.9).std()
    assert np.allclose(statistics.rewards(np.float32([1.0, -2.0])), [1 / deviation, -2 / deviation], rtol=1e-5)


def test_statistics_do_not_depend_on_how_actors_share_the_environments():
    config = config_of()
    tables = [table_of(config, *history(30, 4), num_actors=count) for count in (1, 2, 4)]
    assert tables[0].tobytes() == tables[1].tobytes() == tables[2].tobytes()


def test_what_is_normalised_has_mean_0_and_deviation_1_and_nothing_is_beyond_10():
    config = config_of()
    obs, rewards, ended = history(200, 4)
    statistics = Statistics(config, PLAIN)
    statistics.take(table_of(config, obs, rewards, ended))
    scaled = statistics.observations(obs)
    assert scaled.dtype == np.float32
    assert np.allclose(scaled.mean((0, 1)), 0, atol=1e-3)
    assert np.allclose(scaled.std((0, 1)), [1, 1, 0], atol=1e-3), "the third number never changes"
    assert statistics.observations(np.float32([[1e9, -1e9, 7]])).tolist() == [[10, -10, 0]]
    assert np.array_equal(obs, history(200, 4)[0]), "the observations themselves stay"


def test_images_bytes_and_categories_are_left_alone_and_the_rest_of_a_dict_is_normalised():
    config, rng = config_of(), np.random.default_rng(0)
    rows = MIXED.zero_observations(2)
    for array in rows.values():
        array[:] = rng.integers(0, 4, array.shape)
    moments = Moments(Normalization.of(config, MIXED), 2)
    for factor in (1, 2, 5):
        moments.add({name: factor * array for name, array in rows.items()}, np.ones(2), np.zeros(2, bool))
    statistics = Statistics(config.override(envs_per_actor=2), MIXED)
    statistics.take(moments.table)
    scaled = statistics.observations(rows)
    assert all(np.array_equal(scaled[name], rows[name]) for name in ("camera", "dial", "switches"))
    seen = np.concatenate([factor * rows["past"] for factor in (1, 2, 5)])
    expected = (rows["past"] - seen.mean(0)) / np.sqrt(seen.var(0) + 1e-8)
    assert np.allclose(scaled["past"], expected, atol=1e-4)
    assert scaled["past"].shape == rows["past"].shape


@pytest.mark.parametrize("normalised", [{"normalize_rewards": False}, {"normalize_observations": False}])
def test_observations_and_rewards_are_normalised_each_by_itself(normalised):
    config = config_of(**normalised)
    obs, rewards, ended = history(20, 4)
    statistics = Statistics(config, PLAIN)
    statistics.take(table_of(config, obs, rewards, ended))
    assert np.array_equal(statistics.observations(obs), obs) == config.environment.normalize_rewards
    assert np.array_equal(statistics.rewards(rewards), rewards) == config.environment.normalize_observations


def test_before_anything_is_seen_observations_and_rewards_stay_as_they_are():
    statistics = Statistics(config_of(), PLAIN)
    assert statistics.is_empty
    assert statistics.observations(np.float32([[1, -2, 3]])).tolist() == [[1, -2, 3]]
    assert statistics.rewards(np.float32([3])).tolist() == [3]


def test_a_return_of_several_steps_is_limited_to_what_as_many_rewards_come_to():
    config = config_of(gamma=0.5)
    statistics = Statistics(config, PLAIN)
    huge = np.float32([1e9, -1e9])
    statistics.take(table_of(config, *history(20, 4)))
    assert statistics.rewards(huge).tolist() == [10, -10]
    assert statistics.rewards(huge, num_steps=3).tolist() == [17.5, -17.5]


def test_environments_without_real_numbers_are_refused():
    config = config_of("dqn", "FrozenLake-v1", num_step=1)
    with pytest.raises(
        InvalidInput, match=r"'FrozenLake-v1' shows no numbers that could be, but categories, which stay"
    ):
        describe(config)
    describe(config.override(normalize_observations=False))


@pytest.mark.whole
def test_whole_numbers_are_normalised_too_within_dicts_and_alone(tmp_path):
    class Counted(strange_envs.Ending):
        observation_space = Dict(far=Box(-30_000, 30_000, (2,), np.int16), lit=Box(0, 1, (3,), np.bool_))

    class Far(strange_envs.Ending):
        observation_space = Counted.observation_space["far"]

    for env, kept in ((Counted, ["float32", "uint8"]), (Far, ["float32"])):
        interface = describe(config_of("dqn", env))
        assert [entry.dtype for entry in entries_of(interface.observations).values()] == kept
        assert Normalization.of(config_of("dqn", env), interface).num_inputs == 2
    result = train(
        "dqn", Far, run_dir=str(tmp_path), **SMALL, num_actors=0, total_steps=120, normalize_observations=True
    )
    moments = load_checkpoint(result.run_dir)[0]["moments"]
    assert np.isfinite(moments).all()


def test_bits_are_not_normalised_alone_or_beside_numbers():
    class Lit(strange_envs.Ending):
        observation_space = MultiBinary(5)

    class Both(strange_envs.Ending):
        observation_space = Dict(lit=MultiBinary(2), x=Box(-1, 1, (2,), np.float32))

    with pytest.raises(InvalidInput, match="shows no numbers that could be"):
        describe(config_of("dqn", Lit))
    assert Normalization.of(config_of("dqn", Both), describe(config_of("dqn", Both))).num_inputs == 2


def test_a_successor_goes_on_from_what_an_actor_has_told():
    config = config_of(num_actors=2, envs_per_actor=2)
    obs, rewards, ended = history(30, 4)
    board = MomentsBoard.create(config, PLAIN)
    view = MomentsBoard.attach(board.handle(), config, PLAIN)
    assert not view.read().any()
    whole = table_of(config, obs, rewards, ended, num_actors=2)
    board.publish_all(whole)
    assert np.array_equal(view.read(), whole)
    assert np.array_equal(view.of(1), whole[2:])
    more = Moments(Normalization.of(config, PLAIN), 2)
    more.table[:] = view.of(1)
    more.add(obs[0, 2:], rewards[0, 2:], ended[0, 2:])
    view.publish(1, more.table)
    assert board.read()[:, 0].tolist() == [30, 30, 31, 31]
    view.close()
    board.close()


def test_a_policy_takes_observations_as_the_environment_gives_them():
    config = config_of()
    plain = config.override(normalize_observations=False)
    obs, rewards, ended = history(20, 4)
    statistics = Statistics(config, PLAIN)
    statistics.take(table_of(config, obs, rewards, ended))
    weights = np.random.default_rng(0).normal(size=num_published(plain, PLAIN)).astype(np.float32)
    policy = make_policy(config, PLAIN, np.concatenate([weights, statistics.parameters]))
    bare = make_policy(plain, PLAIN, weights)
    assert np.array_equal(policy.act(obs[0]), bare.act(statistics.observations(obs[0])))
    drawn = [p.explore(rows, 100, np.random.default_rng(1)) for p, rows in
             ((policy, obs[0]), (bare, statistics.observations(obs[0])))]  # fmt: skip
    assert np.array_equal(*drawn)


@pytest.mark.release
def test_a_learner_learns_from_raw_rows_as_one_without_normalisation_from_normalised_ones():
    config = config_of(num_step=3, updates_per_call=2, prioritized=True)
    plain = config.override(normalize_observations=False, normalize_rewards=False)
    obs, rewards, ended = history(20, 4)
    learner, other = Learner(config, PLAIN), Learner(plain, PLAIN)
    table = table_of(config, obs, rewards, ended)
    learner.observe(table)
    statistics = Statistics(config, PLAIN)
    statistics.take(table)

    def sample(rows, reward):
        rng = np.random.default_rng(1)
        data = {"obs": rows[:2, :, None].repeat(4, 2).reshape(2, 16, 3), "reward": reward[:2].repeat(4, 1)}
        data["next_obs"] = data["obs"][:, ::-1]
        data["action"] = rng.uniform(-1, 1, (2, 16, 1)).astype(np.float32)
        data["discount"] = np.full((2, 16), 0.9, np.float32)
        return Sample(data, np.ones((2, 16), np.float32), np.zeros((2, 16), np.uint64))

    errors = errors_of(learner, sample(obs, rewards))
    normalized = sample(statistics.observations(obs), statistics.rewards(rewards, 3))
    assert errors.tobytes() == errors_of(other, normalized).tobytes()
    assert learner.learned.vector[: len(other.learned.vector)].tobytes() == other.learned.vector.tobytes()
    assert np.array_equal(learner.learned.vector[len(other.learned.vector) :], statistics.parameters)


@pytest.mark.release
def test_a_rollout_is_learned_from_as_it_was_acted_on_and_the_first_as_it_will_be():
    settings = {"num_envs": 4, "rollout_length": 8, "batch_size": 16, "num_epochs": 1}
    config = config_of("ppo", **settings)
    plain = config.override(normalize_observations=False, normalize_rewards=False)
    learner, other = RolloutLearner(config, PLAIN), RolloutLearner(plain, PLAIN)
    statistics, acted_by = Statistics(config, PLAIN), None
    obs, rewards, ended = history(24, 4)
    for rollout in range(3):
        rows = slice(8 * rollout, 8 * rollout + 8)
        table = table_of(config, obs[: rows.stop], rewards[: rows.stop], ended[: rows.stop])
        learner.observe(table)
        statistics.take(table)
        acted_by = statistics.parameters if acted_by is None else acted_by
        source, same = (RolloutBuffer.create(config, PLAIN, shared=False) for _ in range(2))
        source.rollout.obs[:] = source.rollout.last_obs[:] = obs[rows]
        source.rollout.reward[:] = rewards[rows]
        same.rollout.obs[:] = same.rollout.last_obs[:] = statistics.observations(obs[rows], acted_by)
        same.rollout.reward[:] = statistics.rewards(rewards[rows])
        for one, memory in ((learner, source), (other, same)):
            one.learn(memory, config.updates_per_rollout, 0.5)
        assert learner.learned.vector[: len(other.learned.vector)].tobytes() == other.learned.vector.tobytes()
        acted_by = statistics.parameters
        assert np.array_equal(learner.learned.vector[len(other.learned.vector) :], acted_by)


def test_an_actor_counts_what_it_acts_on_and_writes_what_the_environments_gave():
    config = config_of("ppo", num_envs=4, rollout_length=64, batch_size=64)
    interface = describe(config)
    vector = RolloutLearner(config, interface).learned.vector
    buffer = RolloutBuffer.create(config, interface, shared=False)
    actor = Actor(config, interface, make_policy(config, interface, vector), writers(buffer, 0))
    for start in range(0, 256, 4):
        actor.step(4, start)
    actor.close()
    rollout = buffer.rollout
    ended = rollout.terminated | rollout.truncated
    expected = table_of(config, rollout.obs, rollout.reward, ended, interface=interface)
    assert np.array_equal(actor.moments.table, expected)
    assert rollout.reward.min() < -1, "rewards are Pendulum's"


@pytest.mark.release
def test_a_saved_policy_has_the_statistics_of_its_run_and_acts_on_raw_observations(tmp_path):
    settings = {**SMALL, **BOTH, "total_steps": 256, "updates_per_call": 8, "eval_interval_steps": 100}
    result = train("sac", "scaled_envs:pendulum", run_dir=str(tmp_path), num_actors=2, tolerance=0, **settings)
    assert min(result.returns) < -1_000, "returns are as the environment counts them"
    config = TrainConfig.load(tmp_path / "config.json")
    interface = describe(config)
    arrays, _ = load_checkpoint(tmp_path)
    statistics = Statistics(config, interface)
    statistics.restore(arrays)
    assert arrays["moments"][:, 0].sum() == 256
    assert np.array_equal(arrays["params"][-6:], statistics.parameters)
    with load_replay(tmp_path, shared=False) as replay:
        seen = replay.sample(256, beta=1.0).data
    assert np.abs(seen["obs"]).max() > 500
    assert seen["reward"].min() < -1_000
    saved = load_saved_policy(tmp_path, "best")
    known = np.array_split(saved.vector[-6:], 2)
    bare = make_policy(config.override(normalize_observations=False), interface, saved.vector[:-6])
    raw = seen["obs"][:32]
    by_hand = np.clip((raw - known[0]) * known[1], -10, 10)
    assert np.array_equal(policy_of(config, interface, saved).act(raw), bare.act(by_hand))


@pytest.mark.slow  # eight runs of some seconds each
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(("algo", "env", "reached", "missed"), [
    ("ppo", "scaled_envs:cart_pole", 300, 200), ("sac", "scaled_envs:pendulum", -250_000, -350_000),
])  # fmt: skip
def test_numbers_thousands_of_times_as_large_are_learned_from_with_normalisation_alone(
    tmp_path, algo, env, reached, missed, seed
):
    settings = {"num_actors": 0, "eval_episodes": 10, "final_eval_episodes": 20, "seed": seed}
    if algo == "ppo":
        settings |= {"total_steps": 20_000, "num_envs": 8, "rollout_length": 64, "batch_size": 128, "num_epochs": 8}
        settings |= {"learning_rate": 1e-3, "gae_lambda": 0.9, "gamma": 0.98, "eval_interval_steps": 5_000}
    else:
        settings |= {"total_steps": 4_000, "hidden": (64, 64), "batch_size": 128, "warmup_steps": 500}
        settings |= {"learning_rate": 2e-3, "update_ratio": 1, "prioritized": False, "num_step": 1}
        settings |= {"envs_per_actor": 4, "updates_per_call": 8, "tolerance": 16, "eval_interval_steps": 1_000}
    means = [
        train(algo, env, run_dir=str(tmp_path / str(on)), **settings, **dict.fromkeys(BOTH, on)).mean_return
        for on in (True, False)
    ]
    assert means[0] > reached
    assert means[1] < missed, "these settings do without it: make the numbers larger"
