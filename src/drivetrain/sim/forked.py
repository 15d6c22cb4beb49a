"""Forked processes, into which XLA's threads do not come along: whoever waits for them there waits for ever."""

import functools
import os
import sys

from drivetrain.core.errors import InvalidInput


@functools.cache
def first_user() -> int:
    """The process that used XLA first, as far as is known: this one, or one that it was forked from."""
    return os.getpid()


def refuse_after_fork() -> None:
    """Say what to do in place of waiting for ever; the process that asks first may use XLA from then on.

    Raises:
        InvalidInput: This process was forked from one in which XLA had been used, by simulators or by others.
    """
    if first_user() != os.getpid():
        raise InvalidInput(
            "a simulator in a forked process: expected a process started anew, since JAX was used before the fork and "
            'its threads are missing here; use context="spawn" (of gymnasium.make_vec: vector_kwargs={"context": '
            '"spawn"}), or step all environments in the process that was forked, by sim.make_vec there'
        )


def _before_fork() -> None:
    # Asked of what is imported anyway: a fork must neither import nor begin anything. JAX has no public way to ask.
    is_used = getattr(sys.modules.get("jax._src.xla_bridge"), "backends_are_initialized", None)
    if is_used is not None and is_used():
        first_user()


os.register_at_fork(before=_before_fork)
