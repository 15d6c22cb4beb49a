"""Tests marked `gpu`, of the checkout that this is called in, or else imported from: pytest -m gpu."""

import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

from drivetrain.bench.gpu.plan import Found, Part
from drivetrain.bench.process import LOG_NAME, lacking, last_words
from drivetrain.bench.report import Case
from drivetrain.bench.scope.trial import finish
from drivetrain.core.errors import RunError

NAME = "tests"
MARK = "mark.gpu"
LOG = "tests.txt"


def missing() -> str:
    """Why they cannot run; empty where they can."""
    if not marked():
        return "the tests are in no installed package: run it in a checkout"
    return lacking("pytest", "hypothesis", "pytest_timeout", "xdist")


def checkout() -> Path:
    """The working directory if it is a checkout, else where this file is, which is one where nothing is installed."""
    here = Path.cwd()
    return here if all((here / part).is_dir() for part in ("src/drivetrain", "tests")) else Path(__file__).parents[4]


def marked() -> list[Path]:
    """Files of tests that need a GPU."""
    files = sorted((checkout() / "tests").rglob("test_*.py"))
    return [file for file in files if MARK in file.read_text()]


def run(folder: Path, limit_s: float) -> Found:
    """Run them; what pytest printed stays as tests.txt.

    Raises:
        RunError: They could not be run to their end.
    """
    with tempfile.TemporaryDirectory(prefix="drivetrain-bench-") as name:
        made = Path(name)
        root = checkout()
        words = ["-m", "pytest", "-m", "gpu", "-n", "0", "-v", "-p", "no:cacheprovider", f"--rootdir={root}"]
        words += ["-c", str(root / "pyproject.toml"), f"--junitxml={made / 'junit.xml'}", *map(str, marked())]
        try:
            finish(words, made, limit_s)
        except RunError:
            if not (made / "junit.xml").exists():  # stopped, or never begun; tests that fail are counted
                raise RunError(f"pytest -m gpu did not end: {last_words(made)}") from None
        finally:
            (folder / LOG).write_bytes((made / LOG_NAME).read_bytes())
        return Found(cases=cases((made / "junit.xml").read_text()))


def cases(junit: str) -> list[Case]:
    """How many passed, failed and were skipped; which, in the details."""
    found = [(_ending(case), f"{case.get('classname')}::{case.get('name')}") for case in _cases(junit)]
    numbers = Counter(ending for ending, _ in found)
    return [
        Case(
            name="tests that need a GPU: failed",
            unit="tests",
            better="lower",
            group="Tests that need a GPU",
            samples={"ours": [numbers["failed"]]},
            references={name: [numbers[name]] for name in ("passed", "skipped")},
            details={ending: [name for end, name in found if end == ending] for ending in ("failed", "skipped")},
        )
    ]


def _cases(junit: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(junit).iter("testcase"))


def _ending(case: ElementTree.Element) -> str:
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    return "skipped" if case.find("skipped") is not None else "passed"


PART = Part(name=NAME, most_s=500, run=run, missing=missing)
