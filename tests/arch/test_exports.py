"""What packages export exists, and is exactly what their `__all__` says."""

import ast
import importlib

import pytest

CONTRACT = [
    ("drivetrain.replay", "Replay"),
    ("drivetrain.replay", "Sequences"),
    ("drivetrain.replay", "memory_report"),
    ("drivetrain.replay", "spec_of"),
    ("drivetrain.scope", "load"),
    ("drivetrain.scope", "mark_step"),
    ("drivetrain.scope", "operation"),
    ("drivetrain.scope", "pack"),
    ("drivetrain.scope", "phase"),
    ("drivetrain.scope", "session"),
    ("drivetrain.sim", "check_env"),
    ("drivetrain.sim", "compile"),
    ("drivetrain.sim", "explain"),
    ("drivetrain.sim", "from_gymnax"),
    ("drivetrain.sim", "make"),
    ("drivetrain.sim", "make_vec"),
    ("drivetrain.train", "load_policy"),
    ("drivetrain.train", "resume"),
    ("drivetrain.train", "train"),
    ("drivetrain.train", "train_seeds"),
]


@pytest.mark.parametrize(("package", "name"), CONTRACT)
def test_the_names_of_the_public_contract_are_exported(package, name):
    module = importlib.import_module(package)
    assert name in module.__all__
    assert callable(getattr(module, name))


def test_every_exported_name_exists_once(sources):
    exporting = [source for source in sources if declared(source.tree) is not None]
    assert exporting
    for source in exporting:
        module = importlib.import_module(source.module)
        assert len(set(module.__all__)) == len(module.__all__), source.name
        missing = [name for name in module.__all__ if not hasattr(module, name)]
        assert not missing, f"{source.name} exports what it does not have: {missing}"


def test_a_package_exports_exactly_what_it_imports_or_defines_in_public(sources):
    for source in sources:
        if source.path.name != "__init__.py":
            continue
        public = public_names(source.tree)
        exported = declared(source.tree) or set()
        assert exported == public, f"{source.name}: __all__ and public names differ by {sorted(exported ^ public)}"


def declared(tree: ast.Module) -> set[str] | None:
    """The strings of `__all__`, or None where a module has none."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            return set(ast.literal_eval(node.value))
    return None


def top_level(tree: ast.Module) -> list[ast.stmt]:
    """Statements that are carried out at the top of a module, those of its `with` blocks among them."""
    return [inner for node in tree.body for inner in (node.body if isinstance(node, ast.With) else [node])]


def public_names(tree: ast.Module) -> set[str]:
    """Names bound at the top of a package's `__init__`: from our own modules, or defined there."""
    names = set()
    for node in top_level(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("drivetrain"):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
    return {name for name in names if not name.startswith("_")}
