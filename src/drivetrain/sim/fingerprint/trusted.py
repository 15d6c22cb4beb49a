"""What is taken at its word: functions of JAX, NumPy and the standard library whose result is given by their arguments.

A name here says that what is called gives the same for the same arguments and settings of JAX, and calls nothing but
itself and what it is given. Whatever reads a clock, a file, the environment or a generator of random numbers is not
here, and so is nothing that finds something by a name made up at run time.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import builtins
import functools
import sys
import sysconfig
from types import BuiltinFunctionType, FunctionType
from typing import Any

import jax

PACKAGES = ("jax", "jaxlib", "numpy", "ml_dtypes", "opt_einsum")
ROOTS = frozenset(PACKAGES) | {"builtins"} | sys.stdlib_module_names
"""Packages whose code is not followed; only what is listed below may be reached of them."""
STANDARD = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
WHOLE = (
    "jax.lax", "jax.nn", "jax.nn.initializers", "jax.numpy", "jax.numpy.fft", "jax.numpy.linalg", "jax.ops",
    "jax.random", "jax.scipy.linalg", "jax.scipy.special", "jax.scipy.stats", "jax.tree", "jax.tree_util", "jax.typing",
    "abc", "cmath", "collections.abc", "enum", "itertools", "math", "numbers", "numpy", "numpy.linalg", "numpy.typing",
    "typing", "typing_extensions",
)  # fmt: skip
"""Modules of which all is listed but `BUT`."""
BUT = {
    "numpy": ("load", "loadtxt", "genfromtxt", "fromfile", "memmap", "open_memmap", "geterr", "geterrcall",
              "getbufsize", "get_printoptions", "set_printoptions", "printoptions", "get_include", "show_config",
              "show_runtime", "seterr", "seterrcall", "setbufsize", "errstate", "empty", "empty_like", "datetime64",
              "save", "savez", "savez_compressed", "savetxt", "frompyfunc", "test"),
    "jax.numpy": ("load", "save", "savez", "fromfile", "from_dlpack", "get_printoptions", "set_printoptions",
                  "printoptions", "frompyfunc"),
    "jax.tree_util": ("register_dataclass", "register_pytree_node", "register_pytree_node_class", "register_static",
                      "register_pytree_with_keys", "register_pytree_with_keys_class"),
    "typing": ("get_type_hints",),
    "typing_extensions": ("get_type_hints",),
}  # fmt: skip
SOME = {
    "jax": ("Array ShapeDtypeStruct checkpoint closure_convert custom_gradient custom_jvp custom_vjp eval_shape grad "
            "hessian jacfwd jacrev jit jvp linearize named_call named_scope remat typeof value_and_grad vjp vmap"),
    "jax.dtypes": "bfloat16 canonicalize_dtype finfo iinfo issubdtype prng_key result_type",
    "collections": "Counter OrderedDict defaultdict deque namedtuple",
    "copy": "copy deepcopy replace",
    "dataclasses": ("FrozenInstanceError MISSING _HAS_DEFAULT_FACTORY _replace asdict astuple dataclass field fields "
                    "is_dataclass replace"),
    "functools": "partial reduce total_ordering update_wrapper wraps",
    "operator": ("abs add and_ contains eq floordiv ge getitem gt index inv invert is_ is_not itemgetter le lshift lt "
                 "matmul mod mul ne neg not_ or_ pos pow rshift sub truediv truth xor"),
    "types": "MappingProxyType NoneType SimpleNamespace",
    "builtins": ("abs all any bin bool bytes callable chr classmethod complex dict divmod enumerate filter float hex "
                 "int isinstance issubclass iter len list map max min next object oct ord pow print property range "
                 "repr reversed round slice sorted staticmethod str sum super tuple type zip"),
}  # fmt: skip
BUILT_IN = frozenset({"_abc", "_functools", "_operator", "cmath", "itertools", "jaxlib", "math", "numpy", "typing"})
"""Modules whose functions in C may stand under any listed name; those of `builtins` only under their own."""
CONTENTS = (dict, list, set, frozenset, functools.partial, type(jax.lax.add_p))
"""What is not listed by its place, because something else may have been put into it."""
CLOSURES = frozenset({"abc", "collections", "contextlib", "dataclasses", "functools", "reprlib"})
"""Modules of the standard library whose functions inside functions are followed through what they close over."""
KINDS = frozenset(PACKAGES) | {"abc", "builtins", "collections", "dataclasses", "enum", "functools", "nanobind",
                               "typing", "typing_extensions"}  # fmt: skip
"""Packages of the classes of what is listed, so that a stand-in for a function is no function; nanobind's is that of
classes written in C++, as the keys of paths in `jax.tree_util` are."""


def root(name: Any) -> str:
    """The package of a module's name."""
    return str(name).partition(".")[0]


def is_trusted(x: Any) -> bool:
    """Whether a function or class belongs to a package whose code is not followed."""
    name = x.__globals__.get("__name__") if isinstance(x, FunctionType) else getattr(x, "__module__", None)
    own = root(name)
    return own in PACKAGES or (own in ROOTS and is_standard(own))


def is_standard(package: str) -> bool:
    """Whether what is loaded under a name of the standard library is that, and no file of the user's."""
    path = getattr(sys.modules.get(package), "__file__", None)
    return path is None or (path.startswith(STANDARD) and "-packages" not in path)


def listed() -> dict[int, str]:
    """Names of what may be reached, by identity: in the modules as they are now."""
    found: dict[int, str] = {}
    for name in WHOLE:
        module = sys.modules.get(name)
        for key, value in vars(module).items() if module is not None else ():
            if key not in BUT.get(name, ()) and type(value) not in CONTENTS:
                found.setdefault(id(value), f"{name}.{key}")
    for name, keys in SOME.items():
        module = sys.modules.get(name)
        found |= (
            {id(vars(module)[key]): f"{name}.{key}" for key in keys.split() if key in vars(module)} if module else {}
        )
    errors = {
        id(x): f"builtins.{k}"
        for k, x in vars(builtins).items()
        if isinstance(x, type) and issubclass(x, BaseException)
    }
    return {**found, **errors, id(Ellipsis): "...", id(NotImplemented): "NotImplemented"}


def described(x: Any, place: str) -> str | None:
    """What something listed calls itself, and where it was found; None where it is a stand-in."""
    inner = x
    while not isinstance(inner, FunctionType | type):
        further = getattr(inner, "__wrapped__", None) or getattr(inner, "func", None) or getattr(inner, "fun", None)
        if further is None:
            break
        inner = further
    if isinstance(inner, FunctionType | type) and not is_trusted(inner):
        return None
    if root(type(x).__module__) not in KINDS:
        return None
    if isinstance(x, BuiltinFunctionType) and root(x.__module__) not in BUILT_IN:
        return place if place == f"{x.__module__}.{x.__name__}" else None
    name = getattr(x, "__qualname__", None) or getattr(x, "__name__", None) or getattr(x, "_name", None) or place
    return f"{type(x).__qualname__} {getattr(x, '__module__', '')} {name}"


@functools.cache
def versions() -> tuple[str, ...]:
    """Of what is trusted."""
    return sys.version, *(f"{name} {getattr(sys.modules.get(name), '__version__', '')}" for name in PACKAGES)
