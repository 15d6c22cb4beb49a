"""A replay of sequences equals the oracle after any sequence of calls: same windows, keys and draws."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import settings
from hypothesis.stateful import initialize
from stacks import Stacks, stack_fields, stack_spec
from test_shared_observations_machine import SharingAgainstOracle
from test_state_machine import FRACTIONS

from drivetrain.replay import Sequences
from drivetrain.replay.reference_sequences import ReferenceSequenceWriter


class SequencesAgainstOracle(SharingAgainstOracle):
    @initialize(
        stack=st.sampled_from([1, 2, 4]),
        capacity=st.sampled_from([1, 2, 15, 17, 40]),
        lengths=st.sampled_from([(1, 0, None), (3, 0, None), (2, 3, 1), (4, 2, 3), (5, 0, 2), (7, 0, 7)]),
        prioritized=st.booleans(),
        shared=st.booleans(),
        seed=st.sampled_from([0, 2**64 - 1]),
        num_envs=st.sampled_from([1, 2, 5, 40]),
        alpha=FRACTIONS,
        initial_priority=st.sampled_from(["running_max", "running_max", "buffer_max", "given", "given", 2.5]),
        weights_by=st.sampled_from(["batch", "buffer"]),
    )
    def create(self, stack, capacity, lengths, num_envs, shared, **settings):
        self.stack, self.break_rate = stack, 0.2
        if not settings["prioritized"]:
            settings["initial_priority"] = "running_max"
        length, burn_in, period = lengths
        self.sequence = Sequences(length=length, burn_in=burn_in, period=period, initial=("state",))
        spec = {**stack_spec(stack), "state": {"h": ((2,), "float32"), "c": ((), "int16")}}
        options = {"gamma": 0.9, "frame_stack": stack, "sequence": self.sequence, **settings}
        self.start(capacity, spec, num_envs, shared, options)

    def new_writer(self, num_envs):
        room = self.oracle.frames.num_frames // (self.sequence.num_steps + self.stack)
        self.num_envs = min(num_envs, room) if self.sequence.num_steps > 1 else num_envs
        oracle = ReferenceSequenceWriter(self.oracle, self.num_envs, self.sequence)
        self.writers = self.native.writer(self.num_envs), oracle
        self.stacks = Stacks(self.num_envs, self.stack, np.random.default_rng(0))

    def random_step(self, rng, ends):
        obs, next_obs = self.stacks.step(rng, break_rate=self.break_rate)
        some = rng.random((2, self.num_envs)) < 0.3
        return {
            "obs": stack_fields(obs),
            "action": rng.integers(-9, 9, self.num_envs),
            "state": {
                "h": rng.random((self.num_envs, 2), np.float32),
                "c": rng.integers(0, 99, self.num_envs).astype(np.int16),
            },
            "next_obs": stack_fields(next_obs),
            "reward": rng.standard_normal(self.num_envs),
            "terminated": some[0] & bool(ends & 1),
            "truncated": some[1] & bool(ends & 2),
        }

    def check_more(self, native, oracle):
        for name in ("h", "c"):
            np.testing.assert_array_equal(native.data["state"][name], oracle.data["state"][name])
        np.testing.assert_array_equal(native.data["mask"], oracle.data["mask"])


SequencesAgainstOracle.TestCase.settings = settings(max_examples=15, stateful_step_count=40)
test_sequences_equal_the_oracle_after_any_sequence_of_calls = SequencesAgainstOracle.TestCase


@pytest.mark.slow  # the same and many more sequences
class test_sequences_equal_the_oracle_after_any_of_many_sequences_of_calls(SequencesAgainstOracle.TestCase):
    settings = settings(max_examples=120, stateful_step_count=40)


del SharingAgainstOracle
