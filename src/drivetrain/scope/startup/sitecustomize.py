"""What Python runs by itself at the start of every process of a profiled program, because `drivetrain profile` puts
this folder at the head of PYTHONPATH. It starts recording, steps aside, and then runs the sitecustomize that it stands
in front of. Whatever goes wrong, the program runs as it would have.
"""

import sys

_before = set(sys.modules)

import contextlib  # noqa: E402
import importlib.machinery  # noqa: E402
import importlib.util  # noqa: E402
import os  # noqa: E402


def _make_way() -> None:
    """Forget what recording has imported of the standard library where the program has modules of the same names.

    Raises:
        OSError: Its folder cannot be read, or is gone.
    """
    if sys.flags.safe_path:
        return
    program = sys.argv[0]
    has_file = program not in ("", "-", "-c", "-m")
    place = os.path.realpath(program) if has_file else os.getcwd()
    place = place if os.path.isdir(place) else os.path.dirname(place)
    beside = {name.partition(".")[0] for name in os.listdir(place)} & sys.stdlib_module_names
    for name in beside & set(sys.modules) - _before:
        spec = importlib.machinery.PathFinder.find_spec(name, [place])
        if spec is None or spec.loader is None or spec.origin == getattr(sys.modules[name], "__file__", None):
            continue  # no module; or the standard library itself is run
        for module in [one for one in sys.modules if one.partition(".")[0] == name]:
            del sys.modules[module]


def _place_of_next() -> int:
    """Where in `sys.path` the next sitecustomize lies; behind everything where there is none."""
    with contextlib.suppress(Exception):
        find = importlib.machinery.PathFinder.find_spec
        return next(place for place, path in enumerate(sys.path) if find("sitecustomize", [path]))
    return len(sys.path)


_here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [path for path in sys.path if os.path.abspath(path) != _here]

_folder = os.environ.get("DRIVETRAIN_SCOPE")
if _folder and os.path.isdir(_folder):
    try:
        from drivetrain.scope import program

        program.attach(_folder)
    except Exception as _error:  # nothing may keep the program from running, not even our own mistake
        try:
            # As scope/notes.py does, which may be just what could not be imported.
            _name = os.path.join(_folder, f"{os.getpid()}.not-captured")
            _what = f"Process {os.getpid()} ({sys.executable}) was not captured: {type(_error).__name__}: {_error}"
            if "subinterpreters" in str(_error):  # the process is; its native code is one for all of its interpreters
                _what = f"Process {os.getpid()}: what its subinterpreters did counts as the code around their calls."
            with open(_name, "w", encoding="utf-8", errors="backslashreplace") as _file:
                _file.write(f"{_what}\n")
        except OSError:  # a full disk
            pass

with contextlib.suppress(Exception):  # a folder that is gone, say; nothing may keep the program from running
    _make_way()

_own = sys.modules.pop("sitecustomize", None)
_spec = importlib.util.find_spec("sitecustomize")
if _spec is not None and _spec.loader is not None:
    _module = importlib.util.module_from_spec(_spec)
    sys.modules["sitecustomize"] = _module
    _spec.loader.exec_module(_module)
elif _own is not None:
    sys.modules["sitecustomize"] = _own

# Programs that make their children's PYTHONPATH of their own sys.path take this folder along. It stands before the
# next sitecustomize, as system Pythons have one, which the children would find in place of this.
sys.path.insert(_place_of_next(), _here)
