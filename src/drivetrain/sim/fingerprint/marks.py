"""The fingerprint of what a trace starts from: everything that can be reached, JAX's settings, versions, our files."""

from dataclasses import dataclass
from typing import Any

from drivetrain.sim.fingerprint import trusted
from drivetrain.sim.fingerprint.code import Escape
from drivetrain.sim.fingerprint.jax_state import settings
from drivetrain.sim.fingerprint.walk import Walk
from drivetrain.sim.own_code import SIM, own_hash


@dataclass(frozen=True)
class Fingerprint:
    """Of everything that a trace depends on.

    Attributes:
        digest: The same in every process in which the trace would give the same program.
        kinds: The classes that were met, in the same order wherever the digest is the same.
    """

    digest: str
    kinds: tuple[type[Any], ...]


def fingerprint(*roots: Any) -> Fingerprint | None:
    """Of a trace that starts from these objects; None where something that they reach cannot be followed."""
    try:
        return followed(*roots)
    except (Escape, RecursionError):
        return None


def followed(*roots: Any) -> Fingerprint:
    """The same, with the reason where there is none.

    Raises:
        Escape: What cannot be followed, and where it is used.
    """
    walk = Walk()
    digest = walk.hexdigest([own_hash(SIM), *trusted.versions(), *settings()], *roots)
    return Fingerprint(digest, tuple(walk.classes))
