"""pyproject.toml, constraints.txt and the table of extras say the same."""

import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from drivetrain.core.extras import EXTRAS


@pytest.fixture(scope="module")
def project(root):
    return tomllib.loads((root / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def pins(root):
    lines = (root / "constraints.txt").read_text().splitlines()
    requirements = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(pin.name): str(pin.specifier) for pin in requirements}


def test_the_table_of_extras_is_that_of_the_project(project):
    declared = {
        extra: {requirement.name for requirement in map(Requirement, lines) if requirement.name != "drivetrain"}
        for extra, lines in project["project"]["optional-dependencies"].items()
    }
    assert declared.pop("all") == set()
    assert {extra: set(distributions) for extra, distributions in EXTRAS.items()} == declared


def test_everything_the_project_asks_for_is_pinned_within_its_range(project, pins):
    extras = project["project"]["optional-dependencies"].values()
    lines = [*project["project"]["dependencies"], *project["build-system"]["requires"], *(x for e in extras for x in e)]
    for requirement in map(Requirement, lines):
        if requirement.name == "drivetrain":
            continue
        pin = pins[canonicalize_name(requirement.name)]
        assert pin.startswith("=="), f"{requirement.name}{pin}"
        assert requirement.specifier.contains(pin.removeprefix("==")), f"{requirement} is pinned to {pin}"


def test_neither_core_nor_train_nor_the_tests_ask_for_torch(project):
    extras = project["project"]["optional-dependencies"]
    lines = [*project["project"]["dependencies"], *extras["train"], *extras["test"]]
    assert not [line for line in lines if Requirement(line).name in ("torch", "stable-baselines3", "sbx-rl")]
