"""Runs a hook right after the program has imported the module it is for, and never imports that module itself."""

import functools
import importlib
import importlib.machinery
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

from drivetrain.core.errors import DrivetrainError
from drivetrain.scope.hooks import named
from drivetrain.scope.notes import leave_note
from drivetrain.scope.process import recording_into

# The module that has to be there -> the file in this folder whose install(module) hooks it.
HOOKS = {
    "_multiprocessing": "system_waits",
    "_socket": "system_waits",
    "ale_py": "ale",
    "asyncio.events": "asyncio",
    "cloudpickle.cloudpickle": "cloudpickle",
    "drivetrain.replay.buffer": "drivetrain",
    "envpool.python.envpool": "envpool",
    "flax.linen.module": "flax",
    "gymnasium": "gymnasium",
    "gymnax.environments.environment": "gymnax",
    "jax": "jax",
    "multiprocessing.connection": "waiting",
    "multiprocessing.popen_fork": "waiting",
    "multiprocessing.process": "multiprocessing_end",
    "multiprocessing.resource_tracker": "waiting",
    "multiprocessing.synchronize": "waiting",
    "sbx.common.policies": "sbx",
    "select": "system_waits",
    "selectors": "waiting",
    "stable_baselines3": "sb3",
    "subprocess": "waiting",
    "threading": "waiting",
    "time": "system_waits",
    "tianshou.algorithm.algorithm_base": "tianshou",
    "tianshou.data.buffer.base": "tianshou",
    "tianshou.data.buffer.buffer_base": "tianshou",
    "tianshou.env.venvs": "tianshou",
    "tianshou.policy.base": "tianshou",
    "torch": "torch",
}


_come: set[str] = set()
"""Modules with a hook that were here, or that a finder of ours was asked for."""


class Finder:
    """Stands first among the finders; finds what the others find, with a hook behind its execution.

    Without the base class of importlib.abc, whose import takes as long as all of ours.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """See importlib; None for all modules without a hook."""
        if not _is_hooked(fullname):
            return None
        _come.add(fullname)
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                _hook_after_execution(spec)
                return spec
        return None


def install() -> None:
    """Hook what is imported already, and from here on what the program imports."""
    for name in _unhooked():
        _come.add(name)
        run_hook(name, sys.modules[name])
    sys.meta_path.insert(0, Finder())


def note_missed() -> None:
    """Say what else has been imported: a program may put a finder of its own in front of ours.

    Not other names of modules that have come, as packages keep for those who knew them by these.
    """
    hooked = {id(sys.modules.get(name)) for name in _come}
    for name in _unhooked():
        if id(sys.modules[name]) in hooked:
            continue
        if name in named.by_module():
            _note_as_found(name)
        _note(name, f"{name} was not hooked: it was imported past the recording, as by an import hook of the program's")


def _unhooked() -> list[str]:
    """Modules with a hook that are here and have none; not those that a program forbids by None in their place."""
    here: list[tuple[str, ModuleType | None]] = list(sys.modules.items())
    return [name for name, module in here if module is not None and name not in _come and _is_hooked(name)]


def run_hook(name: str, module: ModuleType) -> None:
    """Hook a module; a version of it that does not fit is noted in the session, and left as it is."""
    if name in HOOKS:
        _try(name, name, lambda: importlib.import_module(f"drivetrain.scope.hooks.{HOOKS[name]}").install(module))
    if name in named.by_module():
        _note_as_found(name)
        _try(name, f"{name}.named", lambda: named.install(name, module))


def _note_as_found(name: str) -> None:
    if (folder := recording_into()) is not None:
        named.note_as_found(folder, name)


def _try(name: str, cause: str, install: Callable[[], None]) -> bool:
    """Hook a module, or note why it is not and give False; one that does not fit keeps no other from being tried."""
    try:
        install()
        return True
    except Exception as error:  # the program must run on, whatever a framework has become
        told = isinstance(error, DrivetrainError)  # by the sentence itself
        _note(cause, str(error) if told else f"{name} was not hooked: {type(error).__name__}: {error}")
        return False


def _note(cause: str, why: str) -> None:
    if (folder := recording_into()) is not None:
        leave_note(folder, f"{os.getpid()}.{cause}", f"Process {os.getpid()}: {why}")


def _is_hooked(name: str) -> bool:
    return name in HOOKS or name in named.by_module()


def _hook_after_execution(spec: importlib.machinery.ModuleSpec) -> None:
    execute: Callable[[ModuleType], None] | None = getattr(spec.loader, "exec_module", None)
    is_told = isinstance(execute, functools.partial) and execute.func is _execute_and_hook
    if execute is None or is_told:  # a zip file has one loader for all its modules
        return
    hooked = functools.partial(_execute_and_hook, execute)
    if not _try(spec.name, spec.name, lambda: setattr(spec.loader, "exec_module", hooked)):  # slots, or a type of C
        _note_as_found(spec.name)


def _execute_and_hook(execute: Callable[[ModuleType], None], module: ModuleType) -> None:
    name = module.__name__  # which the module may change, as it may put another in its place
    execute(module)
    if _is_hooked(name):
        run_hook(name, sys.modules.get(name, module))
