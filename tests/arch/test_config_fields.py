"""A configuration field that nobody reads is a lie to whoever sets it.

A field counts as read where it is loaded from something called a config outside the class that
declares it, or inside a property of that class which itself counts as read. Checks in
`__post_init__` do not count.
"""

import ast
from collections.abc import Iterable, Iterator

RECEIVER = "config"


def test_every_config_field_of_train_is_read_somewhere(sources):
    trees = [source.tree for source in sources]
    configs = [
        (source, node)
        for source in sources
        if source.module.startswith("drivetrain.train")
        for node in config_classes(source.tree)
    ]
    assert configs, "found no config dataclass in drivetrain.train"
    unread = [f"{source.name}: {node.name}.{name}" for source, node in configs for name in unread_fields(node, trees)]
    assert not unread


EXAMPLE = """
@dataclass(frozen=True, kw_only=True)
class SomeConfig:
    read: int = 1
    checked_only: int = 2
    derived: int = 3
    derived_in_vain: int = 4
    forgotten: int = 5
    read_from_something_else: int = 6

    def __post_init__(self):
        if self.checked_only < 0: raise ValueError
    @property
    def doubled(self): return 2 * self.derived
    @property
    def tripled(self): return 3 * self.derived_in_vain

def use(config, other): return config.read + self._config.doubled + other.read_from_something_else
def write(config): config.forgotten = 3
"""


def test_an_unread_field_is_noticed():
    tree = ast.parse(EXAMPLE)
    (config,) = config_classes(tree)
    unread = set(unread_fields(config, [tree]))
    assert unread == {"checked_only", "derived_in_vain", "forgotten", "read_from_something_else"}


def config_classes(tree: ast.Module) -> Iterator[ast.ClassDef]:
    """Dataclasses whose name ends in Config."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name.endswith("Config"):
            yield from (node for decorator in node.decorator_list if "dataclass" in ast.unparse(decorator))


def unread_fields(config: ast.ClassDef, trees: Iterable[ast.Module]) -> Iterator[str]:
    """Fields of a config class that no code in `trees` reads."""
    inside = set(ast.walk(config))
    read = {node.attr for tree in trees for node in ast.walk(tree) if node not in inside and is_read(node, RECEIVER)}
    methods = {node.name: node for node in config.body if isinstance(node, ast.FunctionDef)}
    waiting = [name for name in methods if name in read]
    while waiting:  # a method that is read passes it on to what it reads of itself
        inner = {node.attr for node in ast.walk(methods.pop(waiting.pop())) if is_read(node, "self")}
        waiting += [name for name in inner - read if name in methods]
        read |= inner
    for node in config.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id not in read:
            yield node.target.id


def is_read(node: ast.AST, receiver: str) -> bool:
    """Whether a node loads an attribute of something whose name ends in `receiver`."""
    if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
        return False
    owner = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
    return owner.endswith(receiver)
