"""Which instructions a process uses changes nothing that is drawn; what names none is refused."""

import pytest
from children import run_script

DRAWS = """
import hashlib
import numpy as np
from drivetrain.replay import Replay, simd_level
from filled import filled_replay

digest, rng = hashlib.sha256(), np.random.default_rng(0)
for capacity in (1, 15, 1000, 30_000):
    for options in ({}, {"alpha": 1.0, "weights_by": "buffer"}, {"prioritized": False}):
        replay = filled_replay(capacity, seed=1, **options)
        if replay._settings.prioritized:
            keys = replay.all_keys()
            replay.update_priorities(keys, rng.exponential(size=capacity) ** 4)
            replay.update_priorities(keys[::3], rng.random(len(keys[::3]), np.float32))
        for mode in ("stratified", "iid"):
            sample = replay.sample(min(capacity, 700), num_batches=3, beta=0.7, mode=mode)
            for array in (sample.keys, sample.weights, sample.data["x"]):
                digest.update(array.tobytes())
print(simd_level(), digest.hexdigest())
"""

REFUSED = """
from drivetrain.core.errors import InvalidInput
from drivetrain.replay import Replay, simd_level

for call in (simd_level, lambda: Replay(8, {"x": ((), "uint8")})):
    try:
        call()
    except InvalidInput as error:
        print(error)
"""


@pytest.mark.whole
def test_draws_and_weights_are_the_same_bits_with_all_instructions(monkeypatch):
    monkeypatch.delenv("DRIVETRAIN_SIMD", raising=False)
    found = {None: run_script(DRAWS).split()}
    for wanted in ("", "baseline", "avx2", "avx512"):
        monkeypatch.setenv("DRIVETRAIN_SIMD", wanted)
        found[wanted] = run_script(DRAWS).split()
    assert len({digest for _, digest in found.values()}) == 1
    levels = {wanted: level for wanted, (level, _) in found.items()}
    assert levels[None] == levels[""] == levels["avx512"]  # the best there is
    assert levels["baseline"] in ("baseline", "neon")


@pytest.mark.parametrize("name", ["avx-512", "AVX2", "sse", "1"])
def test_a_name_of_no_instructions_is_refused(monkeypatch, name):
    monkeypatch.setenv("DRIVETRAIN_SIMD", name)
    lines = run_script(REFUSED).splitlines()
    assert len(lines) == 2
    assert all(f"DRIVETRAIN_SIMD: expected baseline, avx2 or avx512, got '{name}'; leave it unset" in x for x in lines)
