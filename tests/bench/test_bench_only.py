"""`--only`: what is asked for by parts of its name, in every bench alike."""

import pytest

from drivetrain.bench.gpu.command import Options as Gpu
from drivetrain.bench.only import named
from drivetrain.bench.replay.command import Options as Replay
from drivetrain.bench.scope.command import Options as Scope
from drivetrain.bench.sim.command import Options as Sim
from drivetrain.cli import bench
from drivetrain.core.errors import InvalidInput

NAMES = ["CartPole, N = 64", "CartPole, N = 1,024", "compiling gymnax/CartPole-v1", "equality, native: Pong"]


@pytest.mark.parametrize(
    ("asked", "numbers"),
    [
        ("", [0, 1, 2, 3]),
        ("CartPole", [0, 1, 2]),
        ("CartPole, N", [0, 1]),
        ("N = 1,024", [1]),
        ("equality, native: Pong", [3]),
        ("compiling,equality", [2, 3]),
        (" equality , compiling,", [2, 3]),
    ],
)
def test_a_name_is_found_by_a_part_of_it_or_by_one_of_several_and_may_have_commas_itself(asked, numbers):
    assert named(NAMES, asked, kind="case") == [NAMES[number] for number in numbers]


@pytest.mark.parametrize(("asked", "part"), [("Go", "Go"), ("CartPole,Go", "Go")])
def test_each_part_that_is_in_no_name_is_refused(asked, part):
    with pytest.raises(InvalidInput, match=f"--only '{part}' is in the name of no case: CartPole, N = 64; "):
        named(NAMES, asked, kind="case")


def test_of_many_names_some_are_listed():
    with pytest.raises(InvalidInput, match=r"no case: of 100 some are 0; 9; 18; .*; 99$"):
        named([str(number) for number in range(100)], "x", kind="case")
    assert named([], "", kind="case") == []


def test_every_bench_takes_several_parts():
    assert [part.name for part in Gpu(only="tests,record").chosen()] == ["recording", "tests"]
    assert [name.split(",")[0] for name in Replay(only="contention,tree of 2^17").plan().names()] == [
        "tree of 2^17 leaves",
        "contention",
    ]
    assert {program.name.split()[0] for program in Scope(only="SBX, ours").programs()} == {"SBX", "ours"}
    quick = Sim(quick=True, only="equality, native: CartPole-v1").names(None)
    assert quick == ["equality, native: CartPole-v1"]
    assert len(Sim(quick=True, only="compiling,equality").names(None)) == 4


@pytest.mark.parametrize("what", ["gpu", "replay", "scope", "sim"])
def test_a_part_that_is_in_no_name_is_refused_beside_others(what):
    with pytest.raises(InvalidInput, match="--only 'Go' is in the name of no "):
        bench.run([what, "--only", "e,Go"])
