"""The README keeps its promises: commands first, links that lead somewhere, snippets that run."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
COMMANDS = [body.strip() for language, body in BLOCKS if language == "bash"]
SNIPPETS = [body for language, body in BLOCKS if language == "python"]


def test_the_first_command_stands_within_the_first_twenty_lines():
    fences = [number for number, line in enumerate(TEXT.splitlines(), 1) if line.startswith("```")]
    assert fences[0] <= 20
    assert BLOCKS[0][0] == "bash"


def test_two_commands_set_up_everything_and_end_in_the_job_and_in_the_tests():
    assert len(COMMANDS) == 2
    job, tests = COMMANDS
    assert job.endswith("drivetrain train dqn CartPole-v1")
    assert tests.endswith("/pytest")
    for command in COMMANDS:
        assert "\n" not in command
        assert command.startswith("python3 -m venv ")
        assert "pip install -c constraints.txt " in command
        assert "torch" not in command


@pytest.mark.parametrize("page", [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")], ids=lambda page: page.name)
def test_every_relative_link_of_a_page_leads_somewhere(page):
    targets = re.findall(r"\]\(([^)#:]+)\)", page.read_text())
    assert not [target for target in targets if not (page.parent / target).exists()]


def anchors(page):
    """What its headings are called in links to them."""
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


PAGES = [page for folder in (".", "docs", "design") for page in (ROOT / folder).glob("*.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_section_leads_to_a_heading(page):
    sections = re.findall(r"\]\(([^)#:]*\.md|)#([^)]+)\)", page.read_text())
    missing = [(to, section) for to, section in sections if section not in anchors(page.parent / to if to else page)]
    assert not missing


def test_the_table_of_extras_names_extras_that_exist():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = re.findall(r'pip install "\.\[(\w+)\]"', TEXT)
    assert set(named) == set(declared) - {"all"}


def test_there_is_a_snippet_for_the_replay_and_one_for_training():
    assert len(SNIPPETS) == 2
    assert "Replay(" in SNIPPETS[0]
    assert "train(" in SNIPPETS[1]


@pytest.mark.parametrize("snippet", SNIPPETS, ids=["replay", "train"])
def test_a_snippet_runs_as_a_script(snippet, tmp_path):
    script = tmp_path / "snippet.py"
    script.write_text(snippet)
    done = subprocess.run(
        [sys.executable, "-W", "error", script], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
