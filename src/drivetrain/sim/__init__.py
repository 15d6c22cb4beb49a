"""Simulators compiled from ordinary JAX environments: K steps of N environments in one call."""

from drivetrain.sim import random
from drivetrain.sim.check import check_env
from drivetrain.sim.compiler import compile
from drivetrain.sim.explaining import explain
from drivetrain.sim.gymnax import from_gymnax
from drivetrain.sim.registry import make

__all__ = ["check_env", "compile", "explain", "from_gymnax", "make", "random"]
