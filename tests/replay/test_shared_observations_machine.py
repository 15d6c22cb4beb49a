"""With shared observations the native replay equals the oracle too: bytes, keys, and which rows leave early."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import settings
from hypothesis.stateful import initialize, rule
from stacks import Stacks, stack_fields, stack_spec
from test_state_machine import CAPACITIES, FRACTIONS, NativeAgainstOracle


class SharingAgainstOracle(NativeAgainstOracle):
    @initialize(
        stack=st.sampled_from([1, 2, 4]),
        capacity=st.sampled_from(CAPACITIES),
        prioritized=st.booleans(),
        alpha=FRACTIONS,
        num_step=st.sampled_from([1, 1, 2, 5]),
        shared=st.booleans(),
        seed=st.sampled_from([0, 2**64 - 1]),
        num_envs=st.sampled_from([1, 2, 5, 40]),
        initial_priority=st.sampled_from(["running_max", "running_max", "buffer_max", "given"]),
    )
    def create(self, stack, capacity, num_envs, shared, **settings):
        self.stack, self.break_rate = stack, 0.2
        if not settings["prioritized"]:
            settings["initial_priority"] = "running_max"
        options = {"gamma": 0.9, "share_next_obs": True, "frame_stack": stack, **settings}
        self.start(capacity, stack_spec(stack), num_envs, shared, options)

    @rule(rate=st.sampled_from([0.0, 0.05, 0.5]))
    def change_how_often_chains_break(self, rate):
        self.break_rate = rate

    def new_writer(self, num_envs):
        room = self.oracle.frames.num_frames // (self.oracle.num_step + self.stack)
        num_envs = min(num_envs, room) if self.oracle.num_step > 1 else num_envs
        super().new_writer(num_envs)
        self.stacks = Stacks(num_envs, self.stack, np.random.default_rng(0))

    def random_step(self, rng, ends):
        obs, next_obs = self.stacks.step(rng, break_rate=self.break_rate)
        some = rng.random((2, self.num_envs)) < 0.7
        return {
            "obs": stack_fields(obs),
            "action": rng.integers(-9, 9, self.num_envs),
            "next_obs": stack_fields(next_obs),
            "reward": rng.standard_normal(self.num_envs),
            "terminated": some[0] & bool(ends & 1),
            "truncated": some[1] & bool(ends & 2),
        }


SharingAgainstOracle.TestCase.settings = settings(max_examples=15, stateful_step_count=40)
test_sharing_replays_equal_the_oracle_after_any_sequence_of_calls = SharingAgainstOracle.TestCase


@pytest.mark.slow  # the same and many more sequences
class test_sharing_replays_equal_the_oracle_after_any_of_many_sequences_of_calls(SharingAgainstOracle.TestCase):
    settings = settings(max_examples=120, stateful_step_count=40)


del NativeAgainstOracle
