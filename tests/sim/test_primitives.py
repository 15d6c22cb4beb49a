"""Whatever JAX primitive an environment uses, engines give what XLA gives: random numbers to the bit."""

import pytest
from comparing import applied, assert_same
from primitives import CASES

pytestmark = pytest.mark.usefixtures("compiled_as_large_ones")


@pytest.mark.parametrize("name", CASES)
def test_primitives_give_on_every_engine_what_xla_gives(name):
    function, batches = CASES[name]()
    expected = applied(function, *batches, engine="xla")
    for engine in ("numpy", "native"):
        assert_same(expected, applied(function, *batches, engine=engine), f"{engine}: ")
