"""A program that was compiled before is not simplified again; one that differs in anything is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import Applied

from drivetrain import sim
from drivetrain.core.errors import CompileError
from drivetrain.sim.engines.native import engine
from drivetrain.sim.engines.native.kept import kept_source
from drivetrain.sim.trace import trace

NUMBER = np.float32(0)


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("DRIVETRAIN_CACHE", str(tmp_path / "kernels"))
    return tmp_path / "kernels"


def traced(function, record=("obs",)):
    env = Applied(function, NUMBER)
    return trace(env, None, "disabled", record)


def test_a_second_compilation_writes_no_source(monkeypatch):
    one = sim.compile(sim.make("CartPole-v1"), 3, 2, "native")

    def refuse(_):
        raise AssertionError("the source is kept")

    monkeypatch.setattr(engine, "source_of", refuse)
    two = sim.compile(sim.make("CartPole-v1"), 5, 4, "native")
    assert one.runner.run is not two.runner.run
    with pytest.raises(AssertionError, match="the source is kept"):
        sim.compile(sim.make("CartPole-v1"), 3, 2, "native", record=("obs",))


def test_a_damaged_source_is_written_again(folder):
    program, written = traced(lambda x: x + 1), []

    def write(_):
        written.append(1)
        return "int the_source;\n"

    assert kept_source(program, write) == kept_source(program, write) == "int the_source;\n"
    (path,) = folder.glob("*.cpp")
    path.write_text(path.read_text().replace("the_source", "another"))
    assert kept_source(program, write) == "int the_source;\n"
    path.write_bytes(b"\xff\xfe")
    assert kept_source(program, write) == "int the_source;\n"
    assert len(written) == 3


def test_programs_that_differ_in_a_number_a_table_or_a_record_are_others():
    table = jnp.arange(100.0)

    @jax.custom_jvp
    def looked_up(x):
        return table[jnp.int32(x)]

    looked_up.defjvp(lambda primals, tangents: (looked_up(*primals), tangents[0]))
    programs = [traced(lambda x, c=c: x + c) for c in (0.1, np.nextafter(np.float32(0.1), np.float32(1)), 2)]
    programs += [traced(lambda x: x + 0.1, ()), traced(looked_up)]
    table = jnp.arange(100.0) + 1
    programs.append(traced(looked_up))
    hashes = [program.digest for program in programs]
    assert len(set(hashes)) == len(hashes)
    assert traced(lambda x: x + 2).digest == hashes[2]


def test_a_folder_that_cannot_be_written_is_named(folder):
    folder.write_text("")
    with pytest.raises(CompileError, match="set DRIVETRAIN_CACHE to a folder"):
        kept_source(traced(lambda x: x - 1), lambda _: "")
