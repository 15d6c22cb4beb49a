"""The native replay equals the NumPy oracle after any sequence of calls: same keys, same rows, same draws."""

import pickle
import tempfile
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from filled import slots_of
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from drivetrain.core.errors import Closed, NotEnoughData
from drivetrain.replay import Replay, Sample, files
from drivetrain.replay.reference import ReferenceReplay, ReferenceWriter

SPEC = {
    "obs": {"pixels": ((3,), "uint8"), "speed": ((), "float32")},
    "action": ((), "int64"),
    "next_action": ((), "int16"),  # of a window's last step
}
CAPACITIES = [1, 2, 15, 16, 17, 129, 300]
FRACTIONS = st.sampled_from([0.0, 0.4, 0.6, 1.0])
PRIORITIES = st.one_of(
    st.floats(0, 10, width=32), st.sampled_from([0.0, 1e-30, 1e-6, 1.0, 8191.0, 1e5, 1e12, 3.4028234663852886e38])
)


def parts_of(path):
    """How often a file was added to, and written in the first place."""
    if not path.exists():
        return 0
    with files.opened(path) as saved:
        return saved.commits[0].number


def random_step(rng, num_envs, ends):
    step = {
        "obs": {"pixels": rng.integers(0, 256, (num_envs, 3), np.uint8), "speed": rng.random(num_envs, np.float32)},
        "action": rng.integers(-9, 9, num_envs),
        "next_action": rng.integers(-9, 9, num_envs).astype(np.int16),
        "next_obs": {
            "pixels": rng.integers(0, 256, (num_envs, 3), np.uint8),
            "speed": rng.random(num_envs, np.float32),
        },
        "reward": rng.standard_normal(num_envs).astype(np.float32 if ends & 4 else np.float64),
        "terminated": np.full(num_envs, bool(ends & 1)),
        "truncated": np.full(num_envs, bool(ends & 2)),
    }
    if num_envs > 1:  # only some of them end
        step["terminated"] &= rng.random(num_envs) < 0.7
        step["truncated"] &= rng.random(num_envs) < 0.7
    return step


def assert_same_sample(native, oracle):
    np.testing.assert_array_equal(native.keys, oracle.keys)
    np.testing.assert_allclose(native.weights, oracle.weights, rtol=1e-5)
    assert native.data.keys() == oracle.data.keys()
    for name in ("pixels", "speed"):
        np.testing.assert_array_equal(native.data["obs"][name], oracle.data["obs"][name])
        np.testing.assert_array_equal(native.data["next_obs"][name], oracle.data["next_obs"][name])
    for name in {"action", "next_action", "terminated", "truncated"} & native.data.keys():
        np.testing.assert_array_equal(native.data[name], oracle.data[name])
    for name in ("reward", "discount"):  # a compiler may fuse a multiplication and an addition
        np.testing.assert_allclose(native.data[name], oracle.data[name], rtol=1e-6, atol=1e-6)


class NativeAgainstOracle(RuleBasedStateMachine):
    @initialize(
        capacity=st.sampled_from(CAPACITIES),
        prioritized=st.booleans(),
        alpha=FRACTIONS,
        num_step=st.integers(1, 5),
        gamma=st.sampled_from([0.0, 0.9, 0.99, 1.0]),
        shared=st.booleans(),
        seed=st.sampled_from([0, 1, 2**64 - 1]),
        num_envs=st.sampled_from([1, 2, 5, 40]),
        initial_priority=st.sampled_from(["running_max", "running_max", "buffer_max", "given", 0.0, 2.5]),
        weights_by=st.sampled_from(["batch", "buffer"]),
    )
    def create(self, capacity, num_envs, shared, **settings):
        if not settings["prioritized"]:
            settings["initial_priority"] = "running_max"
        self.start(capacity, SPEC, num_envs, shared, settings)

    def start(self, capacity, spec, num_envs, shared, settings):
        self.given = settings.get("initial_priority") == "given"
        self.native = Replay(capacity, spec, shared=shared, **settings)
        self.oracle = ReferenceReplay(capacity, spec, **settings)
        self.shared, self.prioritized = shared, settings["prioritized"]
        self.attached, self.spare, self.keys = [], None, []
        self.folder, self.saved = tempfile.TemporaryDirectory(), None
        self.path = Path(self.folder.name) / "replay"
        self.new_writer(num_envs)
        self.add(0, [0, 1, 0, 0, 6] * 3, [1.0, 0.5])

    def new_writer(self, num_envs):
        self.num_envs = num_envs
        self.writers = self.native.writer(num_envs), ReferenceWriter(self.oracle, num_envs)

    def check_more(self, native, oracle):
        """Of fields that only some replays have."""

    def random_step(self, rng, ends):
        return random_step(rng, self.num_envs, ends)

    @rule(num_envs=st.sampled_from([1, 2, 5, 40]))
    def replace_the_writer(self, num_envs):
        self.new_writer(num_envs)

    @rule(
        seed=st.integers(0, 99),
        ends=st.lists(st.integers(0, 7), min_size=1, max_size=15),
        priorities=st.lists(PRIORITIES, min_size=1, max_size=4),
    )
    def add(self, seed, ends, priorities):
        rng = np.random.default_rng(seed)
        for end in ends:
            step = self.random_step(rng, end)
            if self.given:
                step["priority"] = rng.choice(np.array(priorities, np.float32), self.num_envs)
            for writer in self.writers:
                writer.add(**step)

    @rule(
        batch_size=st.sampled_from([1, 2, 5, 15, 33, 129]),
        num_batches=st.sampled_from([None, 1, 3, 9]),
        mode=st.sampled_from(["stratified", "iid"]),
        beta=FRACTIONS,
        reuse=st.booleans(),
    )
    def sample(self, batch_size, num_batches, mode, beta, reuse):
        options = {"mode": mode, "beta": beta, "num_batches": num_batches}
        if len(self.oracle) < batch_size:
            with pytest.raises(NotEnoughData):
                self.native.sample(batch_size, **options)
            self.oracle.block = self.native._table.stats()["random_block"]  # words taken are not given back
            return
        expected = self.oracle.sample(batch_size, **options)
        fits = reuse and self.spare is not None and self.spare.keys.shape == expected.keys.shape
        out = self.spare if fits else None
        native = self.native.sample(batch_size, out=out, **options)
        assert native is out or not fits
        assert_same_sample(native, expected)
        self.check_more(native, expected)
        self.spare = native
        self.keys.append(expected.keys)

    @precondition(lambda self: self.prioritized and self.keys)
    @rule(
        age=st.integers(1, 6), values=st.lists(PRIORITIES, min_size=1, max_size=8), dtype=st.sampled_from(["f4", "f8"])
    )
    def update(self, age, values, dtype):
        keys = self.keys[-min(age, len(self.keys))]
        priorities = np.resize(np.array(values, dtype), keys.shape)
        assert self.native.update_priorities(keys, priorities) == self.oracle.update_priorities(keys, priorities)

    @precondition(lambda self: self.keys)
    @rule(age=st.integers(1, 6), seed=st.integers(0, 99), names=st.sampled_from([["action"], ["reward", "action"]]))
    def write_fields_anew(self, age, seed, names):
        keys, rng = self.keys[-min(age, len(self.keys))], np.random.default_rng(seed)
        fields = {field.name: field for field in self.oracle.schema.fields if field.name in names}
        shapes = {name: (*keys.shape, *field.sampled_shape) for name, field in fields.items()}
        new = {name: rng.integers(-9, 9, shape).astype(fields[name].dtype) for name, shape in shapes.items()}
        renewed = self.native.update_fields(keys, **new)
        np.testing.assert_array_equal(renewed, self.oracle.update_fields(keys, **new))
        self.keys.append(renewed)

    @precondition(lambda self: self.prioritized)
    @rule(alpha=FRACTIONS)
    def change_alpha_for_later_updates(self, alpha):
        self.native.set_alpha(alpha, rescale=False)
        self.oracle.alpha = alpha
        assert self.native.alpha == alpha

    @precondition(lambda self: self.prioritized and self.keys)
    @rule(age=st.integers(1, 6))
    def ask_for_priorities(self, age):
        keys = self.keys[-min(age, len(self.keys))]
        np.testing.assert_allclose(self.native.priorities(keys), self.oracle.priorities(keys), rtol=1e-5, atol=1e-9)
        np.testing.assert_array_equal(self.native.all_keys(), self.oracle.all_keys())
        stats, leaves = self.native.priority_stats(), self.oracle.leaves[self.oracle.leaves > 0].astype(float)
        expected = len(leaves), *((leaves.min(), leaves.max(), leaves.sum()) if len(leaves) else (np.nan, np.nan, 0.0))
        assert stats.count == expected[0]
        np.testing.assert_allclose([stats.minimum, stats.maximum, stats.sum], expected[1:], rtol=1e-12)

    @rule()
    def read_all_rows(self):
        keys, oracle = self.native.all_keys(), self.oracle
        np.testing.assert_array_equal(keys, oracle.all_keys())
        fields = [oracle.rows[field.name][slots_of(keys)] for field in oracle.schema.fields]
        expected = Sample(oracle.schema.nest(fields), np.ones(len(keys), np.float32), keys)
        native = self.native.read(keys)
        assert_same_sample(native, expected)
        self.check_more(native, expected)

    @rule(keeps=st.integers(0, 3))
    def clear(self, keeps):
        if keeps == 0:  # or too little is left for the others
            self.native.clear()
            self.oracle.clear()

    @precondition(lambda self: self.prioritized and self.keys)
    @rule(age=st.integers(1, 6), value=PRIORITIES)
    def update_one_row_many_times(self, age, value):
        keys = np.repeat(self.keys[-min(age, len(self.keys))].ravel()[:1], 1500)
        priorities = np.linspace(0, value, 1500, dtype=np.float32)
        assert self.native.update_priorities(keys, priorities) == self.oracle.update_priorities(keys, priorities)

    @rule(incremental=st.sampled_from([True, True, False]))
    def save(self, incremental):
        num_parts = parts_of(self.path)
        nbytes = self.native.save(self.path, incremental=incremental)
        self.saved = self.oracle.reloaded()
        assert (nbytes < self.path.stat().st_size) == (parts_of(self.path) > max(1, num_parts))
        assert incremental or parts_of(self.path) == 1

    @precondition(lambda self: self.saved)
    @rule(capacity=st.sampled_from([None, None, *CAPACITIES]))
    def load(self, capacity):
        self.native = Replay.load(self.path, capacity=capacity, shared=self.shared)
        self.oracle = self.saved.reloaded(capacity)
        self.attached.clear()
        self.keys.clear()
        self.new_writer(self.num_envs)

    @precondition(lambda self: self.shared)
    @rule()
    def go_on_through_an_attached_one(self):
        self.attached.append(self.native)  # the owner stays
        self.native = Replay.attach(pickle.loads(pickle.dumps(self.native.handle())))
        self.new_writer(self.num_envs)

    @invariant()
    def state_is_the_same(self):
        if not hasattr(self, "native"):
            return
        stats = self.native._table.stats()
        assert len(self.native) == stats["size"] == len(self.oracle)
        assert (stats["next_slot"], stats["num_used"]) == (self.oracle.next_slot, self.oracle.num_used)
        assert self.native.num_inserted == self.oracle.num_inserted
        assert self.native.num_dropped == self.oracle.num_dropped
        assert stats["random_block"] == self.oracle.block
        if self.prioritized:
            assert stats["max_priority"] == np.float32(self.oracle.max_priority)
            assert stats["unit_exponent"] == self.oracle.unit_exponent
            assert stats["total_units"] == int(self.oracle.units().sum())
        assert self.native._table.is_consistent()

    def teardown(self):
        if not hasattr(self, "native"):
            return
        self.folder.cleanup()
        self.native.close()
        self.native.close()  # again: nothing happens
        for call in (
            lambda: self.native.sample(1),
            lambda: self.writers[0].add(**self.random_step(np.random.default_rng(0), 0)),
            lambda: self.native.writer(),
            lambda: len(self.native),
        ):
            with pytest.raises(Closed):
                call()


NativeAgainstOracle.TestCase.settings = settings(max_examples=40, stateful_step_count=40)
test_native_equals_oracle_after_any_sequence_of_calls = NativeAgainstOracle.TestCase


@pytest.mark.slow  # the same and many more sequences
class test_native_equals_oracle_after_any_of_many_sequences_of_calls(NativeAgainstOracle.TestCase):
    settings = settings(max_examples=300, stateful_step_count=40)
