"""Spaces of simulators as Gymnasium's: bounds within what a type holds."""

import jax
import numpy as np
import pytest
from gymnasium.vector.utils import batch_space

from drivetrain.core.errors import InvalidInput
from drivetrain.sim.gymnasium.spaces import space_of
from drivetrain.sim.spaces import Box, Discrete, MultiDiscrete


@pytest.mark.parametrize(("dtype", "given"), [(bool, [True, False]), (np.uint8, [0, 255]), (np.int32, [-(2**31), 5])])
def test_a_box_without_bounds_has_room_for_all_that_its_type_holds(dtype, given):
    space = space_of("observation", Box(-np.inf, np.inf, (2,), dtype), jax.ShapeDtypeStruct((2,), dtype))
    assert space.contains(np.array(given, dtype))


@pytest.mark.parametrize(("dtype", "n"), [("uint8", 256), ("int8", 128), ("uint16", 65536), ("uint8", 255)])
def test_as_many_choices_as_a_type_has_numbers_are_a_space_that_holds_all_of_them(dtype, n):
    last = np.asarray(n - 1, dtype)
    one = space_of("observation", Discrete(n), jax.ShapeDtypeStruct((), dtype))
    assert one.contains(last)
    assert not one.contains(n)
    assert batch_space(one, 3).contains(np.full(3, last))
    several = space_of("observation", MultiDiscrete((n, 2)), jax.ShapeDtypeStruct((2,), dtype))
    assert several.contains(np.asarray([n - 1, 1], dtype))
    assert batch_space(several, 3).contains(np.asarray([[n - 1, 1]] * 3, dtype))


def test_what_gymnasium_has_no_box_for_is_told_with_its_place():
    half = jax.ShapeDtypeStruct((2,), "bfloat16")
    with pytest.raises(InvalidInput, match=r"observation\['x'\]: Gymnasium has no such Box: .*bfloat16"):
        space_of("observation", {"x": Box(-1, 1, (2,), half.dtype)}, {"x": half})
    with pytest.raises(InvalidInput, match=r"observation: Gymnasium has no such Box: .*nan"):
        space_of("observation", Box(np.nan, 1, (2,)), jax.ShapeDtypeStruct((2,), "float32"))


def test_bounds_beyond_float32_are_none():
    space = space_of("observation", Box(-1e300, 1e300, (2,)), jax.ShapeDtypeStruct((2,), "float32"))
    assert np.isinf([space.low, space.high]).all()


def test_a_tuple_is_no_dictionary_of_as_many_parts():
    one = jax.ShapeDtypeStruct((), "float32")
    with pytest.raises(InvalidInput, match="observation: expected a dictionary or tuple of 2 parts, as its space says"):
        space_of("observation", {"x": Box(0, 1, ()), "y": Box(0, 1, ())}, (one, one))
