"""Numbers as people read them."""

import pytest

from drivetrain.core.words import counted, duration, fraction, reward, size


@pytest.mark.parametrize(
    ("nbytes", "words"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (3 * 2**29, "1.50 GiB"),
        (1000 * 2**60, "1,000.00 EiB"),
        (10**400, f"{10**400 // 2**60:,} EiB"),
    ],
)
def test_a_size_has_the_unit_that_suits(nbytes, words):
    assert size(nbytes) == words


@pytest.mark.parametrize(
    ("seconds", "words"), [(90, "90 s"), (0.9996, "1 s"), (0.0015, "1.5 ms"), (0.0009996, "1 ms"), (2.5e-6, "2.5 us")]
)
def test_so_has_a_duration(seconds, words):
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("amount", "words"), [(0, "0.0"), (195.26, "195.3"), (-1, "-1.0"), (0.5, "0.5"), (-0.04837, "-0.0484")]
)
def test_a_small_return_is_not_rounded_to_nothing(amount, words):
    assert reward(amount) == words


@pytest.mark.parametrize(("text", "value"), [("1/4", (1, 4)), ("0.1", (1, 10)), ("3", (3, 1)), ("5e-2", (1, 20))])
def test_a_fraction_is_what_is_written(text, value):
    assert fraction(text).as_integer_ratio() == value


@pytest.mark.parametrize("text", ["a", "", "1/", "1e9999", "1e-9999", "1" * 101, f"1e{'9' * 5000}"])
def test_what_is_no_fraction_or_could_not_be_read_is_refused(text):
    with pytest.raises(ValueError, match=r"Fraction|digits|int"):
        fraction(text)


def test_one_is_singular():
    assert [counted(count, "actor") for count in (0, 1, 2)] == ["0 actors", "1 actor", "2 actors"]
