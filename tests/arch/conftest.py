"""The sources, parsed once for all tests of the architecture."""

import ast
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Source:
    path: Path
    text: str
    tree: ast.Module

    @property
    def name(self) -> str:
        """Relative to the repository, for messages."""
        return str(self.path.relative_to(ROOT))

    @property
    def module(self) -> str:
        """Dotted, as it is imported."""
        dotted = ".".join(self.path.relative_to(ROOT / "src").with_suffix("").parts)
        return dotted.removesuffix(".__init__")


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def sources() -> list[Source]:
    paths = sorted((ROOT / "src").rglob("*.py"))
    texts = [path.read_text() for path in paths]
    return [Source(path, text, ast.parse(text)) for path, text in zip(paths, texts, strict=True)]
