"""Spaces of simulators as Gymnasium's: bounds within what a type holds."""

import jax
import numpy as np
import pytest

from drivetrain.sim.gymnasium.spaces import space_of
from drivetrain.sim.spaces import Box


@pytest.mark.parametrize(("dtype", "given"), [(bool, [True, False]), (np.uint8, [0, 255]), (np.int32, [-(2**31), 5])])
def test_a_box_without_bounds_has_room_for_all_that_its_type_holds(dtype, given):
    space = space_of("observation", Box(-np.inf, np.inf, (2,), dtype), jax.ShapeDtypeStruct((2,), dtype))
    assert space.contains(np.array(given, dtype))
