"""The bench's truth comes from blocks that the correction has not seen."""

from dataclasses import asdict

import pytest
from planted import program_in_blocks

from drivetrain.bench.scope.cases import is_inside
from drivetrain.bench.scope.held_out import held_out
from drivetrain.scope.profile import Profile


def test_what_is_held_out_says_nothing_of_itself_to_the_correction():
    # Planted: 400 ns a span everywhere; then 800 where the truth looks.
    trace, _ = program_in_blocks(5, rounds=200, every=2)
    profile = Profile(trace)
    whole = held_out(profile, 7)
    assert abs(whole.bias) <= whole.half_width + whole.error
    assert {type(value) for value in asdict(whole).values()} == {float, int}, "a report is written of them"
    blocks = profile.correction.blocks[0]
    dearer = (blocks.round % 3 != 0) & (blocks.mask == 0)
    blocks.cpu_ns[dearer] += 400 * blocks.spans[dearer, 0]
    moved = held_out(profile, 7)
    assert moved.half_width == pytest.approx(whole.half_width, rel=0.05), "which every third round alone decides"
    assert moved.inflation - whole.inflation == pytest.approx(0.06, abs=0.02)
    assert moved.bias - whole.bias == pytest.approx(moved.inflation - whole.inflation, rel=0.1), "what is not corrected"


@pytest.mark.release
def test_the_stated_interval_holds_what_blocks_it_has_not_seen_say():
    inside, compatible, widths = 0, 0, []
    for seed in range(16):
        trace, _ = program_in_blocks(seed, rounds=160, every=2, tails=0.05, unseen=0.01 * (-1) ** seed)
        found = held_out(Profile(trace), 7)
        inside += abs(found.bias) <= found.half_width
        compatible += is_inside(found)
        widths.append(found.half_width)
        assert found.error < found.half_width, "the truth is known well enough to judge it"
    assert inside >= 14
    assert compatible >= 15
    assert max(widths) < 0.05
