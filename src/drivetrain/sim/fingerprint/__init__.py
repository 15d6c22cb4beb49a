"""Whether an environment is one that was traced before, without tracing it.

    environment, params, policy ─walk─▶ everything that a trace can reach ─┐
    JAX's settings, versions, our own files ──────────────────────────────┴─▶ fingerprint, or None

    marks.py      the fingerprint
    code.py       what bytecode names
    walk.py       from object to object; what cannot be followed escapes
    values.py     how arrays, containers and the like are written down
    trusted.py    what is taken at its word in place of being followed
    installed.py  whether that is what was installed
    jax_state.py  what only JAX knows

Two traces of one fingerprint are of the same program. None means nothing but that a trace has to tell.
"""

from drivetrain.sim.fingerprint.code import Escape
from drivetrain.sim.fingerprint.installed import installed, same
from drivetrain.sim.fingerprint.jax_state import traced_for
from drivetrain.sim.fingerprint.marks import Fingerprint, fingerprint, followed

__all__ = ["Escape", "Fingerprint", "fingerprint", "followed", "installed", "same", "traced_for"]
