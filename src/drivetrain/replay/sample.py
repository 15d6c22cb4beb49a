"""What sampling gives: the rows of a batch, their importance weights, and their keys."""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt


class Sample(NamedTuple):
    """Transitions drawn from a replay; leading axes `[B]`, or `[U, B]` with `num_batches=U`.

    The arrays are copies of the caller's own: neither inserts nor other samples change them. They
    begin at multiples of 64 bytes of one block of memory, which is used for another sample only
    after the caller has let go of all of them, and of every view of them.
    """

    data: dict[str, Any]
    """The fields of the spec, `next_obs` if there is `obs`, `reward` (n-step return), `terminated` and
    `truncated` of the window's last step, and `discount`: gamma^n, 0 after termination. Of sequences
    all of these per step, `[B, T, ...]`, and `mask`: where there is a step."""
    weights: npt.NDArray[np.float32]
    """Importance weights, divided by the largest of each batch, or that there can be (`weights_by`);
    all 1 in a uniform replay."""
    keys: npt.NDArray[np.uint64]
    """Opaque names of the rows, for `update_priorities`."""

    def map(self, function: Callable[[Any], Any]) -> "Sample":
        """A sample whose arrays are what `function` makes of these, in the same nesting.

        `sample.map(torch.from_dlpack)` and `sample.map(jax.dlpack.from_dlpack)` give tensors that share
        this sample's memory where the framework can; that memory lives as long as any of them.
        """
        return Sample(_mapped(self.data, function, ""), function(self.weights), function(self.keys))


def _mapped(value: Any, function: Callable[[Any], Any], name: str) -> Any:
    if isinstance(value, dict):
        return {key: _mapped(inner, function, f"{name}/{key}") for key, inner in cast(dict[str, Any], value).items()}
    if isinstance(value, tuple):
        inside = enumerate(cast(tuple[Any, ...], value))
        return tuple(_mapped(inner, function, f"{name}/{index}") for index, inner in inside)
    try:
        return function(value)
    except Exception as error:
        error.add_note(f'in field "{name[1:]}"')
        raise
