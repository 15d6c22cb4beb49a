"""What a trace told, kept on disk by the environment's fingerprint, so that a kernel is found again without a trace.

A file holds the name of the program's source, the shapes that go in and come out, and what the trusted modules were
like. Its last line is the hash of the rest; a file that is damaged, or of other modules, is as good as none.
"""

# JAX is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import jax
import numpy as np
from jax.tree_util import default_registry

from drivetrain.core.caches import kernel_cache
from drivetrain.sim.api import Tree
from drivetrain.sim.fingerprint import Escape, Fingerprint, installed, same
from drivetrain.sim.kept_files import read_kept, write_kept
from drivetrain.sim.trace import Traced

TREES = ("state", "action", "record", "shared")
CONTAINERS: dict[str, type[Any]] = {kind.__name__: kind for kind in (dict, list, tuple, type(None))}
PLAIN = (str, int, float, bool, type(None))


@dataclass(frozen=True, kw_only=True)
class Recalled:
    """A step of one environment that was traced before; see `Traced`."""

    digest: str
    state: Tree
    action: Tree
    record: dict[str, Tree]
    shared: Tree = ()


def path_of(mark: Fingerprint) -> Path:
    """Where it is kept."""
    return kernel_cache() / f"{mark.digest}.json"


def recall(mark: Fingerprint) -> Recalled | None:
    """What an earlier trace of the same fingerprint told; None where there was none, or JAX is no longer the same."""
    text = read_kept(path_of(mark))
    if text is None:
        return None
    try:
        kept = json.loads(text)
        if not same(installed(), kept["installed"]):
            return None
        trees = {name: shapes_from(kept[name], mark.kinds) for name in TREES}
        return Recalled(digest=str(kept["program"]), **trees)
    except (ValueError, KeyError, IndexError, TypeError):  # a file of another form
        return None


def remember(mark: Fingerprint, traced: Traced, modules: dict[str, str]) -> None:
    """Keep what a trace told; nothing where its shapes cannot be written down, or there is no place.

    Args:
        modules: What the trusted modules were like before the trace.
    """
    try:
        trees = {name: shapes_to(getattr(traced, name), mark.kinds) for name in TREES}
    except Escape:
        return
    told = {"program": traced.digest, **trees, "installed": modules}
    with contextlib.suppress(OSError):  # kernels are kept in the same folder, and say so where they cannot
        write_kept(path_of(mark), json.dumps(told) + "\n")


def shapes_to(tree: Tree, kinds: tuple[type[Any], ...]) -> Any:
    """A pytree of shapes as what JSON can hold: [structure, leaves].

    Raises:
        Escape: A class, or what it keeps beside its leaves, cannot be written down.
    """
    structure = jax.tree.structure(tree)
    leaves = jax.tree.leaves(tree)
    written = [structure_to(structure, kinds), [[list(leaf.shape), np.dtype(leaf.dtype).name] for leaf in leaves]]
    if jax.tree.structure(shapes_from(json.loads(json.dumps(written)), kinds)) != structure:
        raise Escape("a structure that does not come back as it was")
    return written


def structure_to(structure: Any, kinds: tuple[type[Any], ...]) -> Any:
    """A leaf is 0; a node is [its class, by name or by number among those met, what it keeps beside, parts]."""
    node = cast("tuple[type[Any], Any] | None", structure.node_data())
    if node is None:
        return 0
    kind, beside = node
    if CONTAINERS.get(kind.__name__) is kind:
        which: str | int = kind.__name__
    elif kind in kinds:
        which = kinds.index(kind)
    else:
        raise Escape(f"the class {kind.__qualname__}")
    return [which, beside_to(beside, kinds), [structure_to(part, kinds) for part in structure.children()]]


def beside_to(x: Any, kinds: tuple[type[Any], ...]) -> Any:
    """What a node keeps beside its leaves: plain values in lists and tuples, and the class of a named tuple."""
    if isinstance(x, tuple | list):
        return [type(x).__name__, [beside_to(each, kinds) for each in x]]
    if isinstance(x, type) and x in kinds:
        return ["class", kinds.index(x)]
    if type(x) in PLAIN:
        return ["plain", x]
    raise Escape(f"a {type(x).__qualname__} beside leaves")


def shapes_from(written: Any, kinds: tuple[type[Any], ...]) -> Tree:
    """The reverse of `shapes_to`."""
    structure, leaves = written
    shapes = [jax.ShapeDtypeStruct(tuple(shape), np.dtype(name)) for shape, name in leaves]
    return jax.tree.unflatten(structure_from(structure, kinds), shapes)


def structure_from(written: Any, kinds: tuple[type[Any], ...]) -> Any:
    """The reverse of `structure_to`."""
    if written == 0:
        return jax.tree.structure(0)
    which, beside, parts = written
    kind = CONTAINERS[which] if isinstance(which, str) else kinds[which]
    children = [structure_from(part, kinds) for part in parts]
    node = (kind, beside_from(beside, kinds))
    return jax.tree_util.PyTreeDef.from_node_data_and_children(default_registry, node, children)


def beside_from(written: Any, kinds: tuple[type[Any], ...]) -> Any:
    """The reverse of `beside_to`."""
    what, x = written
    if what in ("tuple", "list"):
        return CONTAINERS[what](beside_from(each, kinds) for each in x)
    return kinds[x] if what == "class" else x
