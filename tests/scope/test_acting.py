"""Which jitted functions acted is told by what became of their results; what cannot be told is left alone."""

import numpy as np
from brute import thread_of, trace_of

from drivetrain.scope.profile import Profile
from drivetrain.scope.sites import FETCHED, NETWORK, SEVERAL, Site
from drivetrain.scope.states import StateSpace
from drivetrain.scope.timeline import timeline
from drivetrain.scope.trace.events import BEGIN, END

SITES = {
    "a": Site("jit act", "", "backend", presumed=NETWORK),
    "c": Site("jit critic", "", "backend", presumed=NETWORK),
    "t": Site("jit target", "", "backend", presumed=NETWORK),
    "m": Site("jit mix", "", "backend"),
    "r": Site("jit rollout", "", "backend", presumed=SEVERAL),
    "u": Site("jit update", "", "backend", presumed="backpropagation"),
    "v": Site("jax.Array value", "", "accelerator_sync", presumed=FETCHED),
    "s": Site("Env.step", "simulation", "simulator"),
    "w": Site("wrapper step", "simulation", "python"),
    "o": Site("mine", "mine", "python"),
}
SHORT = {"inference": "i", "backpropagation": "b", "simulation": "s", "other": "-", "mine": "o"}


def thread(order):
    """Sites in the order in which they are entered; in brackets behind a site, what is inside it."""
    events, open_sites = [], []
    for char, following in zip(order, order[1:] + " ", strict=True):
        if char in SITES:
            number = list(SITES).index(char)
            events.append((len(events), BEGIN, number))
            open_sites.append(number)
        if char == ")" or (char in SITES and following != "("):
            events.append((len(events), END, open_sites.pop()))
    return thread_of(events)


def operations(order):
    """The operation of each site that was entered, by its first letter."""
    trace = trace_of([thread(order)], 0, 10_000, tuple(SITES.values()))
    space = StateSpace(trace.sites)
    line = timeline(trace, trace.threads[0], space)
    assert np.diff(line.edge_ns).sum() == 10_000
    return "".join(SHORT[space.state(code).operation] for code in line.entered.tolist())


def test_a_network_whose_values_are_fetched_before_a_step_acts_and_waiting_for_them_belongs_to_it():
    assert operations("avsavs") == "iisiis"
    assert operations("avvvs") == "iiiis", "actions, their probabilities, values"


def test_a_function_that_multiplies_nothing_is_no_network_and_stands_in_nobodys_way():
    assert operations("amvs mavs") == "i-is-iis"


def test_a_network_that_an_update_follows_is_part_of_it_and_so_is_waiting_for_the_update():
    assert operations("avs tu avs tuv avs") == "iis bb iis bbb iis".replace(" ", "")
    assert operations("avs um avs") == "iisb-iis"


def test_a_step_that_asks_for_values_itself_has_them_of_the_network_before_it():
    assert operations("aw(s(v)) aw(s(v))") == "isssisss"
    assert operations("aw(s) aw(s)") == "-ss-ss", "nothing says what the step was taken with"


def test_two_networks_before_one_step_both_act_if_they_always_do():
    assert operations("acvvs acvvs") == "iiiisiiiis"
    assert operations("tavs avs avs") == "-iisiisiis", "once in a generation: adapting the weights, say"
    assert operations("avs utavs avs utavs") == "iis b-iis iis b-iis".replace(" ", ""), "an update in two parts"


def test_waiting_for_what_does_several_things_at_once_belongs_to_no_update_before_it():
    assert operations("rv uv rv uv") == "--bb--bb"
    assert operations("r(a)v uv") == "---bb", "traced, it shows what is inside"


def test_what_cannot_be_told_is_left_alone():
    assert operations("auvs auvs") == "-bbs-bbs", "acting that an update overtook, or targets and the update's loss?"
    assert operations("av") == "--", "no step was ever taken with it"
    assert operations("ts ts tvs") == "-s-s--s", "a function that mostly does not end in a step"


def test_a_program_that_says_itself_what_it_does_is_believed():
    assert operations("o(avs)o(tu)") == "ooosooo"


def test_what_waits_for_no_decision_shows_no_names_of_the_analysis():
    trace = trace_of([thread("avstumvs")], 0, 100, tuple(SITES.values()))
    rows = {row.operation for row in Profile(trace).breakdown()}
    assert rows == {"inference", "backpropagation", "simulation", "other"}
