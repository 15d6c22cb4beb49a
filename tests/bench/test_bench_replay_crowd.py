"""Several on one buffer: members, scenes, and the cases made of them."""

import time

import pytest

from drivetrain.bench.replay.contenders import NUMPY, OURS
from drivetrain.bench.replay.crowd import FEED_KEYS_EVERY, Crowd, make_turn, play
from drivetrain.bench.replay.layouts import LAYOUTS
from drivetrain.bench.replay.peers.entry import fill_store
from drivetrain.bench.replay.peers.ours import OurCompany, OurStore, join, make_replay
from drivetrain.bench.replay.rounds import Measured
from drivetrain.bench.replay.scene_cases import actor_cases, contention_cases, throughput_cases
from drivetrain.bench.replay.scenes import (
    Play,
    Scene,
    actors_and_learners,
    contention,
    crowd_group,
    measure_play,
    several,
    throughput,
)
from drivetrain.bench.replay.store import Sharing
from drivetrain.bench.serving import NotOffered

LAYOUT, CAPACITY = LAYOUTS["obs 4"], 2**11


def crowd(**changes):
    return Crowd(LAYOUT, CAPACITY, Sharing(OurCompany, join, **changes), fill_store)


def member(role, buffer=0):
    return {"role": role, "buffer": buffer}


def test_a_member_plays_from_the_start_on_and_counts_its_turns():
    moments = []
    start = time.monotonic() + 0.05
    result = play(lambda: moments.append(time.monotonic()), start, 0.01)
    assert result["turns"] == len(moments) - 1  # the first is there to prepare
    assert min(moments[1:]) >= start


def test_a_member_that_comes_too_late_still_takes_one_turn():
    assert play(lambda: None, time.monotonic() - 1.0, 0.01)["turns"] == 1


@pytest.mark.parametrize("how", ["threads", "processes"])
def test_members_play_on_one_buffer(how):
    ours = crowd()
    before = ours.company(0).replay.num_inserted
    results = ours.rate(how, [member("insert 64"), member("learn 256")], 0.02)
    assert [result["turns"] > 0 for result in results] == [True, True]
    assert all(result["cpu_s"] > 0 for result in results)
    inserted = ours.company(0).replay.num_inserted - before
    assert inserted == 64 * (results[0]["turns"] + 1)  # all members' steps came into this one


def test_processes_of_an_earlier_scene_are_used_again():
    ours = crowd()
    ours.rate("processes", [member("sample 256")], 0.001)
    ours.rate("processes", [member("sample 256"), member("insert 1")], 0.001)
    assert len(ours.processes[0]) == 2


def test_apart_means_on_a_buffer_of_ones_own():
    ours = crowd()
    before = ours.company(0).replay.num_inserted
    ours.rate("processes", [member("sample 256"), member("insert 64", buffer=1)], 0.005)
    assert ours.company(0).replay.num_inserted == before
    assert ours.company(1).replay.num_inserted > ours.company(1).replay.capacity


def test_who_is_not_made_for_threads_says_so():
    with pytest.raises(NotOffered, match="threads"):
        crowd(threads=False).rate("threads", [member("sample 256")], 0.001)


def test_a_feeder_inserts_and_updates_every_turn_and_draws_now_and_then():
    drawn, updated, inserted = [], [], []

    class Counting(OurStore):
        def sampler(self, batch_size):
            sample = super().sampler(batch_size)
            return lambda: drawn.append(1) or sample()

        def updater(self, batch_size):
            updater = super().updater(batch_size)
            return type(updater)(updater.prepare, lambda *a: updated.append(1) or updater.update(*a))

        def inserter(self, num_envs):
            inserter = super().inserter(num_envs)
            return type(inserter)(inserter.prepare, lambda step: inserted.append(1) or inserter.insert(step))

    store = Counting(make_replay(LAYOUT, CAPACITY))
    fill_store(OurStore(store.replay), LAYOUT, CAPACITY)
    turn = make_turn(store, LAYOUT, "feed")
    for _ in range(FEED_KEYS_EVERY + 1):
        turn()
    assert (len(drawn), len(updated), len(inserted)) == (2, FEED_KEYS_EVERY + 1, FEED_KEYS_EVERY + 1)


def test_scenes_are_played_in_worker_processes_and_who_cannot_is_noted():
    scenes = [several("learn 256", 2, "threads"), several("insert 64", 2, "processes")]
    little = Play(group=crowd_group("little", "obs 4", CAPACITY), scenes=scenes, seconds=0.005)
    measured = measure_play(little, [OURS, NUMPY], num_rounds=2)
    assert [len(measured.rounds[scene.name]["ours"]) for scene in scenes] == [2, 2]
    cases = throughput_cases(little, measured)
    assert [case.name for case in cases] == [
        "little, obs 4, 2^11 rows: learn 256, 2 threads [calls/s]",
        "little, obs 4, 2^11 rows: insert 64, 2 processes [calls/s]",
    ]
    assert all(case.value("ours") > 0 and case.ratios() == {} for case in cases)
    assert cases[0].notes == ["NumPy: a buffer of one thread of one process"]


def turns(*rates):
    return [{"turns": rate, "seconds": 2.0, "cpu_s": 1.0} for rate in rates]


def test_contention_compares_each_rate_with_its_rate_alone():
    played = {
        "feeder alone": {"ours": [turns(200), turns(200)]},
        "sampler alone": {"ours": [turns(100), turns(100)]},
        "together": {"ours": [turns(160, 70), turns(160, 70)], "cpprb": [turns(16, 7)]},
        "apart": {"ours": [turns(180, 90)]},
    }
    feeder, sampler = (case.as_json() for case in contention_cases(contention(), Measured(rounds=played)))
    assert (feeder["ours"], feeder["peers"]["cpprb"], feeder["ratio"]) == (80.0, 8.0, 10.0)
    assert feeder["references"] == {"ours, alone": 100.0, "ours, apart": 90.0}
    assert [(t["aim"], t["got"], t["met"]) for t in feeder["targets"]] == [(0.75, 0.8, True)]
    assert [(t["aim"], t["got"], t["met"]) for t in sampler["targets"]] == [(0.75, 0.7, False)]
    assert sampler["references"]["ours, apart"] == 45.0


def test_actors_and_learners_are_counted_apart():
    play = actors_and_learners(2)
    (scene,) = play.scenes
    assert scene.name == "1 actor, 1 learner"
    inserts, updates = actor_cases(play, Measured(rounds={scene.name: {"ours": [turns(300, 20)]}}))
    assert (inserts.value("ours"), updates.value("ours")) == (150.0, 10.0)


def test_the_scenes_grow_with_the_processes_there_are():
    names = [scene.name for scene in throughput(16).scenes]
    assert "learn 256, 16 processes" in names
    assert "insert 64, 8 threads" in names
    assert len(names) == 2 * 2 * 5
    assert [len(scene.members) for scene in actors_and_learners(30).scenes] == [2, 3, 6, 12, 18, 24, 30]
    assert [scene.name for scene in throughput(3).scenes][:3] == [
        "learn 256, 1 thread",
        "learn 256, 2 threads",
        "learn 256, 3 threads",
    ]


def test_a_scene_nobody_played_makes_no_case():
    scene = Scene(name="learn 256, 2 threads", how="threads", members=[member("learn 256")] * 2)
    nobody = Play(group=crowd_group("nobody", "obs 4", CAPACITY), scenes=[scene])
    assert throughput_cases(nobody, Measured(rounds={scene.name: {}})) == []
    assert contention_cases(nobody, Measured(rounds={scene.name: {}})) == []
