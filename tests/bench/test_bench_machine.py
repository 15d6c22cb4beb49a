"""What a benchmark says about where it ran."""

import shutil
import subprocess

import pytest

import drivetrain
from drivetrain.bench.machine import describe_commit, describe_machine, describe_versions, origin_of


def test_the_processor_is_named_on_x86_and_on_arm(tmp_path):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("model name\t: Some  Processor\nflags\t\t: fpu avx2 avx512f\n")
    assert describe_machine(cpuinfo)["cpu"] == "Some Processor"
    assert describe_machine(cpuinfo)["simd"] == ["avx2", "avx512f"]
    cpuinfo.write_text("CPU implementer\t: 0x41\nFeatures\t: fp asimd\n")
    assert describe_machine(cpuinfo)["cpu"] == "0x41"
    assert describe_machine(cpuinfo)["simd"] == ["asimd"]


def test_cores_and_memory_are_counted():
    machine = describe_machine()
    assert machine["cores"] >= 1
    assert machine["memory_gib"] > 0


def test_only_installed_distributions_have_a_version():
    versions = describe_versions(["numpy", "no-such-distribution"])
    assert versions["drivetrain"] == drivetrain.__version__
    assert set(versions) == {"drivetrain", "numpy"}


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_the_commit_says_when_the_checkout_has_changes(tmp_path):
    def git(*arguments):
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    (tmp_path / "machine.py").write_text("1")
    git("add", ".")
    git("commit", "-m", "first")
    clean = describe_commit(tmp_path)
    assert len(clean) == 40
    (tmp_path / "machine.py").write_text("2")
    assert describe_commit(tmp_path) == f"{clean}+dirty"


def test_outside_a_checkout_the_commit_is_the_wheel(tmp_path):
    assert describe_commit(tmp_path) == f"wheel {drivetrain.__version__}"


def test_the_command_can_be_typed_again_and_more_may_be_said_of_the_machine():
    origin = origin_of(["train", "--json", "a b.json"], ["numpy"], gpus=["one"])
    assert origin.command == "drivetrain bench train --json 'a b.json'"
    assert origin.machine["gpus"] == ["one"]
    assert origin.machine["cores"] == describe_machine()["cores"]
    assert set(origin.versions) == {"drivetrain", "numpy"}
