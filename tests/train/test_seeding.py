"""Seeds of episodes are disjoint by purpose, whatever the runs."""

import numpy as np

from drivetrain.core.seeding import StepStream, episode_seeds, stream


def test_episode_seeds_of_different_purposes_never_meet():
    seeds = {
        purpose: {number for run in range(20) for number in episode_seeds(run, purpose, 200)}
        for purpose in ("training", "selection", "final")
    }
    assert not seeds["training"] & seeds["selection"]
    assert not seeds["selection"] & seeds["final"]
    assert not seeds["training"] & seeds["final"]


def test_episode_seeds_are_distinct_and_fit_31_bits():
    seeds = episode_seeds(0, "final", 5_000)
    assert len(set(seeds)) == 5_000
    assert min(seeds) >= 0
    assert max(seeds) < 2**31


def test_more_episodes_of_a_run_are_played_on_seeds_of_the_same_purpose():
    assert all(number >> 28 == 2 for number in episode_seeds(3, "final", 1_000))


def test_streams_repeat_for_a_seed_and_differ_by_purpose_and_path():
    def draw(*arguments):
        return stream(*arguments).random(4)

    assert np.array_equal(draw(1, "exploration", 0, 0), draw(1, "exploration", 0, 0))
    others = [
        draw(2, "exploration", 0, 0),
        draw(1, "network"),
        draw(1, "exploration", 1, 0),
        draw(1, "exploration", 0, 1),
    ]
    assert not any(np.array_equal(draw(1, "exploration", 0, 0), other) for other in others)


def test_a_stream_of_steps_draws_the_same_at_a_step_whatever_was_drawn_before():
    def draw(rng):
        return rng.standard_normal(3, np.float32).tolist(), rng.integers(0, 5, 7).tolist(), rng.random()

    stepped = StepStream(1, "exploration", 2)
    first = [draw(stepped.at(step)) for step in (0, 1, 10**12)]
    stepped.at(4).random(1, np.float32)  # half of a word is left over
    assert [draw(stepped.at(step)) for step in (10**12, 1, 0)] == first[::-1]
    fresh = StepStream(1, "exploration", 2)
    assert draw(fresh.at(1)) == first[1]
    others = [draw(StepStream(*path).at(1)) for path in ((1, "exploration", 3), (2, "exploration", 2))]
    assert len({str(each) for each in [*first, *others]}) == 5


def test_steps_of_a_stream_do_not_overlap():
    stepped = StepStream(1, "exploration", 0)
    drawn = [stepped.at(step).integers(0, 2**63, 1_000) for step in range(20)]
    assert len(np.unique(drawn)) == 20_000
