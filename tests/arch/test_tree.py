"""The tree tells the story: names, sizes, docstrings, and what must not be written anywhere."""

import ast
import re

MOST_LINES = 400
REASON = re.compile(r"^\s*(#|//) Over 400 lines: \S", re.MULTILINE)
VAGUE_NAMES = {"utils", "util", "common", "helpers", "helper", "base", "misc"}
HOST_PATH = re.compile(r"(?<![\w.])/(tmp|work|root|home)\b")


def test_no_module_has_a_name_that_says_nothing(root):
    paths = [path for folder in ("src", "cpp", "tests") for path in (root / folder).rglob("*")]
    vague = [str(path.relative_to(root)) for path in paths if path.stem in VAGUE_NAMES]
    assert not vague


def test_a_file_beyond_400_lines_gives_its_reason(root):
    paths = [p for folder in ("src", "cpp", "tests") for p in (root / folder).rglob("*")]
    texts = {p: p.read_text() for p in paths if p.suffix in (".py", ".pyi", ".hpp", ".cpp")}
    assert texts
    silent = [
        str(path.relative_to(root))
        for path, text in texts.items()
        if text.count("\n") > MOST_LINES and not REASON.search(text)
    ]
    assert not silent, "shorten these, or write '# Over 400 lines: <why>' near the top"


def test_every_public_thing_has_a_docstring(sources):
    silent = [f"{source.name}:{line} {name}" for source in sources for line, name in undocumented(source.tree)]
    assert not silent


def test_a_missing_docstring_is_noticed():
    tree = ast.parse('"""Module."""\nclass Open:\n    """Doc."""\n    def method(self): ...\ndef _private(): ...')
    assert list(undocumented(tree)) == [(4, "method")]


def undocumented(tree: ast.Module):
    """Line and name of public modules, classes, functions and methods that say nothing of themselves."""
    if tree.body and not ast.get_docstring(tree):
        yield 1, "the module"
    yield from undocumented_members(tree)


def undocumented_members(parent: ast.Module | ast.ClassDef):
    for node in parent.body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
            continue
        if not ast.get_docstring(node):
            yield node.lineno, node.name
        if isinstance(node, ast.ClassDef):
            yield from undocumented_members(node)


def test_no_path_of_somebodys_machine_is_written_down(root):
    folders = ("src", "cpp", "docs", "examples", "design")
    paths = [path for folder in folders if (root / folder).exists() for path in (root / folder).rglob("*")]
    paths += [*root.glob("*.md"), root / "constraints.txt", root / "pyproject.toml"]
    suffixes = (".py", ".pyi", ".hpp", ".cpp", ".md", ".txt", ".toml", ".json")
    found = [
        f"{path.relative_to(root)}:{number}: {line.strip()}"
        for path in paths
        if path.suffix in suffixes
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if HOST_PATH.search(line)
    ]
    assert not found


def test_no_duration_is_taken_from_the_wall_clock(sources):
    found = [f"{source.name}:{line}" for source in sources for line in wall_clock_reads(source.tree)]
    assert not found, "use time.monotonic(), time.perf_counter() or time.process_time()"


def test_a_wall_clock_read_is_noticed():
    tree = ast.parse("import time\nfrom time import time as now\nstart = time.time()\nfine = time.monotonic()")
    assert list(wall_clock_reads(tree)) == [2, 3]


def wall_clock_reads(tree: ast.Module):
    """Lines that call `time.time()` or import it by name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            yield from (node.lineno for alias in node.names if alias.name in ("time", "time_ns"))
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ("time.time", "time.time_ns"):
            yield node.lineno
