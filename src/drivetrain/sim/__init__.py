"""Simulators compiled from ordinary JAX environments: K steps of N environments in one call."""

from drivetrain.sim.compiler import compile
from drivetrain.sim.gymnax import from_gymnax
from drivetrain.sim.registry import make

__all__ = ["compile", "from_gymnax", "make"]
