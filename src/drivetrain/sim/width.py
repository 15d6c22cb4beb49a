"""JAX's setting of 64 bits, as it was when a rollout was compiled: what XLA traces for it later has numbers as wide."""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax


class Width:
    """The setting where this is made."""

    def __init__(self) -> None:
        """Looked at now."""
        self.is_wide = bool(jax.config.read("jax_enable_x64"))

    def held(self) -> AbstractContextManager[Any]:
        """A block in which the setting is that again."""
        is_same = bool(jax.config.read("jax_enable_x64")) == self.is_wide
        return nullcontext() if is_same else jax.enable_x64(self.is_wide)
