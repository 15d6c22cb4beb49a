"""Whether a step is traced, or found by its fingerprint as one that was traced before.

built ─ traced slowly before? ─no─▶ trace ─▶ engine
                │yes
           fingerprint ─kept─▶ what the trace told ─▶ engine
                └─not kept, or none─▶ trace ─▶ engine, and kept
"""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false

import contextlib
import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from drivetrain.core.caches import kernel_cache
from drivetrain.sim.acting import Acting
from drivetrain.sim.api import Environment, Runner, Settings, Tree, name_of
from drivetrain.sim.engines.native.kept import SourceGone
from drivetrain.sim.fingerprint import Fingerprint, fingerprint, installed, traced_for
from drivetrain.sim.kept_files import write_kept
from drivetrain.sim.narrowing import Narrow
from drivetrain.sim.random import Generator
from drivetrain.sim.recalling import Recalled, recall, remember
from drivetrain.sim.trace import Traced
from drivetrain.sim.varying import Varied

SLOW_TRACE_S = 0.04
"""CPU time of this thread; 0: whatever it takes. Recalling takes 0.025 to 0.04 seconds of a quiet core, and many
environments are traced in less. Either way a kept kernel is there well within a tenth of a second."""


def built(
    build: Callable[[Traced | Recalled, Settings], Runner],
    settings: Settings,
    traced_now: Callable[[], Traced],
    mark_now: Callable[[], Fingerprint | None],
    slow: Path | None,
) -> Runner:
    """What an engine makes of a step: of one that was traced before where that can be told, else of a trace.

    Only what was seen to trace slowly is looked for, since a fingerprint takes as long as tracing a small environment.
    A trace is kept when what it starts from has the same fingerprint after it as before.

    Args:
        slow: Is there when this environment was seen to trace slowly; None where nothing is kept.
    """
    traced: Traced | None = None
    if slow is None or not (SLOW_TRACE_S == 0 or os.path.exists(slow)):
        start_s = time.thread_time()
        traced = traced_now()
        if slow is None or time.thread_time() - start_s < SLOW_TRACE_S:
            return build(traced, settings)
        with contextlib.suppress(OSError):  # kernels are kept in the same folder, and say so where they cannot
            write_kept(slow, "")
    mark = mark_now()
    if mark is None:
        return build(traced or traced_now(), settings)
    recalled = recall(mark)
    if recalled is not None:
        with contextlib.suppress(SourceGone):
            return build(recalled, settings)
    modules = installed()
    with traced_for(mark.digest):
        traced = traced_now()
    runner = build(traced, settings)
    if mark_now() == mark:
        remember(mark, traced, modules)
    return runner


def slow_file(env: Environment) -> Path:
    """What says that environments of this class and name trace slowly."""
    named = f"{type(env).__module__} {type(env).__qualname__} {name_of(env)}"
    return kernel_cache() / f"{hashlib.sha256(named.encode()).hexdigest()}.slow"


def marked(
    env: Environment, params: Tree, settings: Settings, generator: Generator, narrow: Narrow | None,
    differing: Varied | None, acting: Acting | None,
) -> Fingerprint | None:  # fmt: skip
    """The fingerprint of what `trace` is asked for.

    What differs between environments is known to a trace by its shape, so that other draws are found again. Two shapes
    may hang on the numbers of the first environment: an action's, and a state's that no step restarts.
    """
    rows: Any = None
    if differing is not None:
        action = shapes_of_action(env, params)
        if action is None:
            return None
        rows = [differing.places, *((row.shape[1:], row.dtype) for row in differing.rows), action]
        params = params if settings.autoreset == "disabled" else differing.undrawn
    policy = None if acting is None else [acting.policy, acting.params]
    return fingerprint(env, params, [settings.autoreset, settings.record, generator, narrow], rows, policy)


def shapes_of_action(env: Environment, params: Tree) -> Tree:
    """Shapes and types of an action; None where the author's code gives none, of which a trace says why."""
    try:
        with jax.transfer_guard_host_to_device("allow"):
            return jax.eval_shape(env.action_space(params).sample, jax.eval_shape(jax.random.key, 0))
    except Exception:
        return None
