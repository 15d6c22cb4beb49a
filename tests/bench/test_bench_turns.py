"""Rounds are fair: everybody takes part in each, and everybody begins equally often."""

import pytest

from drivetrain.bench.turns import in_turn


@pytest.mark.parametrize("contenders", [(), ("a",), ("a", "b", "c")])
def test_everybody_takes_part_in_every_round(contenders):
    for number in range(7):
        assert sorted(in_turn(contenders, number)) == list(contenders)


def test_each_begins_once_before_anybody_begins_again():
    assert [in_turn("abc", number)[0] for number in range(6)] == [*"abcabc"]
    assert in_turn("abc", 1) == ["b", "c", "a"]
