"""`check_env` finds what makes of a step or a reset something else than a function of its arguments."""

import datetime
import functools
import gc
import itertools
import logging
import random
import sys
import time
import types
from time import time as now

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from breaking import Good, changed, refused, with_result

from drivetrain import sim
from drivetrain.core.errors import CompileError

rng = np.random.default_rng(0)


def test_an_attribute_that_a_step_changes_is_named():
    def step(self, *arguments):
        self.num_steps = getattr(self, "num_steps", 0) + 1
        return Good.step(self, *arguments)

    refused(changed(step=step, num_steps=0), "changes the attribute 'num_steps'; keep what changes in the state")


def test_random_numbers_and_counters_from_outside_are_told():
    counter = itertools.count()
    for noise in (rng.normal, lambda: next(counter), lambda: rng.normal(size=1000)):
        env = with_result(2, lambda reward, noise=noise: reward + jnp.sum(jnp.asarray(noise())))
        refused(env, "traced a second time it is another program; take random numbers from the key")


def paid(more, jitted=False):
    """The good environment with a reward of what is read elsewhere, by a step that is compiled or not."""

    def step(self, *arguments):
        obs, after, reward, *rest = Good.step(self, *arguments)
        return obs, after, reward + more(self), *rest

    return changed(step=functools.partial(jax.jit, static_argnums=0)(step) if jitted else step)


def tells_the_time(env):
    import time as clock

    return clock.time()  # as float32 the same for two minutes


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (tells_the_time, "time.time"),
        (lambda env: now(), "time.time"),
        (lambda env: rng.bit_generator.lock is not None and time.time(), "time.time"),
        (lambda env: datetime.date.today().year, "date.today"),
        (lambda env: datetime.datetime.now(datetime.UTC).year, "datetime.now"),
    ],
)
def test_a_clock_is_told_with_the_line_that_reads_it(more, told):
    line = more.__code__.co_firstlineno + (3 if more is tells_the_time else 0)
    refused(
        paid(more), rf"`step` is impure: it reads {told}, a clock \(.*test_impurities.py:{line}\); count steps in the"
    )


def test_a_length_of_time_and_a_clock_that_only_a_log_reads_are_none_of_the_steps():
    def logged(env):
        logging.getLogger(__name__).warning("a step is traced")
        return datetime.timedelta(seconds=3).total_seconds()

    sim.check_env(paid(logged), num_steps=1)


def test_a_clock_that_is_read_whenever_garbage_is_collected_is_none_of_the_steps():
    def timed(phase, info):
        time.perf_counter()

    before = gc.get_threshold()
    gc.callbacks.append(timed)
    gc.set_threshold(1)
    try:
        sim.check_env(paid(lambda env: 0.0), num_steps=1)
        assert gc.isenabled()
    finally:
        gc.callbacks.remove(timed)
        gc.set_threshold(*before)


@pytest.mark.parametrize("draws", [np.random.default_rng, lambda: np.random, lambda: random])
def test_draws_that_come_out_the_same_are_told_too(draws):
    generator = draws()  # made now, where it is one: who runs tests freezes what older ones have left behind
    told = "`step` is impure: it draws from `random` or numpy.random; take random numbers from the key, with jax.ran"
    refused(paid(lambda env: generator.random() < 2), told)


def test_what_jax_has_traced_before_is_looked_at_each_time():
    def counted(env):
        env.num_steps = vars(env).get("num_steps", 0) + 1
        return 0.0

    for more, told in ((lambda env: rng.normal(), "it is another program"), (counted, "changes the attribute 'num_st")):
        env = paid(more, jitted=True)
        for _ in range(2):
            refused(env, f"`step` is impure: .*{told}")


def test_attributes_of_classes_and_of_what_attributes_hold_are_looked_at():
    def counted(env):
        type(env).num_steps += 1
        return 0.0

    def written(env):
        env.table.values[500] += 1
        return 0.0

    env = paid(counted)
    type(env).num_steps = 0
    refused(env, "changes the attribute 'num_steps'")
    env = paid(written)
    env.table = types.SimpleNamespace(values=np.zeros(2000))  # of which a text shows the ends
    refused(env, "changes the attribute 'table'")


def test_who_watches_calls_goes_on_watching_them():
    seen = []
    before = sys.getprofile()
    sys.setprofile(watcher := lambda frame, event, called: seen.append(event))
    try:
        with pytest.raises(CompileError, match="a clock"):
            sim.check_env(paid(tells_the_time))
        assert sys.getprofile() is watcher
    finally:
        sys.setprofile(before)
    assert seen


def test_prints_are_told():
    refused(with_result(2, lambda reward: (jax.debug.print("{}", reward), reward)[1]), "impure: it prints or calls")


def test_a_reset_that_is_impure_is_told_as_a_step_is():
    def drawing(self, key, params):
        obs, (x, time) = Good.reset(self, key, params)
        return obs, (x + np.random.uniform(-0.1, 0.1), time)

    def counting(self, key, params):
        self.num_starts += 1
        return Good.reset(self, key, params)

    def printing(self, key, params):
        jax.debug.print("{}", params)
        return Good.reset(self, key, params)

    refused(changed(reset=drawing), "`reset` is impure: traced a second time it is another program; take random numb")
    refused(changed(reset=counting, num_starts=0, __init__=begun), "`reset` is impure: it changes .*'num_starts'; keep")
    refused(changed(reset=printing), "`reset` is impure: it prints or calls back into Python")


def begun(self):
    self.num_starts = 0
