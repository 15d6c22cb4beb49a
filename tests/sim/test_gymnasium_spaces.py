"""Spaces of simulators as Gymnasium's: bounds within what a type holds."""

import jax
import numpy as np
import pytest
from gymnasium.vector.utils import batch_space

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
