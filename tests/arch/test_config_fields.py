"""A configuration field that nobody reads is a lie to whoever sets it.

A field counts as read where it is loaded from something annotated as a config, outside the class
that declares it, or inside a method of that class which itself counts as read. Checks in
`__post_init__` do not count, here or in a config that contains this one.
"""

import ast
from collections.abc import Iterable, Iterator
from typing import TypeGuard


def test_every_config_field_of_train_is_read_somewhere(sources):
    trees = [source.tree for source in sources]
    configs = [
        (source, node)
        for source in sources
        if source.module.startswith("drivetrain.train")
        for node in config_classes(source.tree)
    ]
    assert configs, "found no config dataclass in drivetrain.train"
    reads = reads_of_configs(trees)
    unread = [f"{source.name}: {node.name}.{name}" for source, node in configs for name in unread_fields(node, reads)]
    assert not unread


EXAMPLE = """
@dataclass(frozen=True, kw_only=True)
class PartConfig:
    read: int = 1
    checked_only: int = 2
    derived: int = 3
    derived_in_vain: int = 4
    forgotten: int = 5
    of_something_else: int = 6

    def __post_init__(self):
        if self.checked_only < 0: raise ValueError
    @property
    def doubled(self): return 2 * self.derived
    @property
    def tripled(self): return 3 * self.derived_in_vain

@dataclass(frozen=True, kw_only=True)
class WholeConfig:
    part: PartConfig
    def __post_init__(self):
        if self.part.checked_only < 1: raise ValueError

def use(config: WholeConfig, other): return config.part.read + self._part.doubled + other.of_something_else
def write(part): part.forgotten = 3
"""


def test_an_unread_field_is_noticed():
    tree = ast.parse(EXAMPLE)
    part, whole = config_classes(tree)
    reads = reads_of_configs([tree])
    assert set(unread_fields(part, reads)) == {"checked_only", "derived_in_vain", "forgotten", "of_something_else"}
    assert set(unread_fields(whole, reads)) == set()


def config_classes(tree: ast.Module) -> Iterator[ast.ClassDef]:
    """Dataclasses whose name ends in Config."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name.endswith("Config"):
            yield from (node for decorator in node.decorator_list if "dataclass" in ast.unparse(decorator))


def reads_of_configs(trees: Iterable[ast.Module]) -> list[ast.Attribute]:
    """Every place in `trees`, checks left out, that reads an attribute of something that goes by a config's name."""
    receivers = config_receivers(trees)
    return [node for tree in trees for node in unchecked_nodes(tree) if is_read(node, receivers)]


def unread_fields(config: ast.ClassDef, reads: Iterable[ast.Attribute]) -> Iterator[str]:
    """Fields of a config class that are read nowhere outside it."""
    inside = set(ast.walk(config))
    read = {node.attr for node in reads if node not in inside}
    methods = {node.name: node for node in config.body if isinstance(node, ast.FunctionDef)}
    waiting = [name for name in methods if name in read]
    while waiting:  # a method that is read passes it on to what it reads of itself
        inner = {node.attr for node in ast.walk(methods[waiting.pop()]) if is_read(node, {"self"})}
        waiting += [name for name in inner - read if name in methods]
        read |= inner
    for node in config.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id not in read:
            yield node.target.id


def config_receivers(trees: Iterable[ast.Module]) -> set[str]:
    """Names under which configs go about: fields and parameters annotated with a config class."""
    annotated = [
        (node.target.id if isinstance(node, ast.AnnAssign) else node.arg, node.annotation)
        for tree in trees
        for node in ast.walk(tree)
        if (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)) or isinstance(node, ast.arg)
    ]
    return {name for name, annotation in annotated if annotation and ast.unparse(annotation).endswith("Config")}


def unchecked_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those of `__post_init__`, where fields are only checked."""
    for child in ast.iter_child_nodes(tree):
        if not (isinstance(child, ast.FunctionDef) and child.name == "__post_init__"):
            yield child
            yield from unchecked_nodes(child)


def is_read(node: ast.AST, receivers: set[str]) -> TypeGuard[ast.Attribute]:
    """Whether a node loads an attribute of something that goes by one of these names."""
    if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
        return False
    owner = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
    return owner.lstrip("_") in receivers
