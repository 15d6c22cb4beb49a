"""gymnax: environments in JAX, which are stepped in jitted functions: by themselves, or together with what learns."""

from types import ModuleType
from typing import Any, cast

from drivetrain.scope._native import Wrapped
from drivetrain.scope.hooks.jax import saw
from drivetrain.scope.sites import Site
from drivetrain.scope.spans import span


def install(module: ModuleType) -> None:
    """Hook the step of all environments, which is a jitted function by itself."""
    cls: Any = vars(module)["Environment"]
    site = Site("gymnax step", "", "backend", presumed="simulation")
    own = cast(dict[str, Any], vars(cls))
    cls.step = Wrapped(own["step"], span(site, collapses=True), saw("simulation"))
