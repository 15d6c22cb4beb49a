"""A program that was compiled before is not simplified again; one that differs in anything is."""

import os
from pathlib import Path

import jax
import jax.extend
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


@pytest.mark.whole
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


def test_constants_that_jax_writes_into_the_program_tell_programs_apart(monkeypatch):
    before = jax.config.jax_use_simplified_jaxpr_constants
    jax.config.update("jax_use_simplified_jaxpr_constants", True)
    try:
        tables = [np.arange(4, dtype=np.float32) + shift for shift in (0, 10)]
        plain = [traced(lambda x, t=t: jnp.asarray(t)[jnp.int32(x)]).digest for t in tables]
        within = [traced(lambda x, t=t: jax.jit(lambda y: jnp.asarray(t)[jnp.int32(y)])(x)).digest for t in tables]
        given = [traced(lambda x, t=t: jnp.asarray(t) * 1).digest for t in tables]
    finally:
        jax.config.update("jax_use_simplified_jaxpr_constants", before)
    assert len({*plain, *within, *given}) == 6


@pytest.mark.whole
def test_a_kernel_that_was_kept_is_not_used_where_random_numbers_are_others():
    env = sim.make("CartPole-v1")
    sim.compile(env, 2, 3, "native", record=("obs",))
    with jax.threefry_partitionable(False):
        for _ in range(2):
            with pytest.raises(CompileError, match="jax_threefry_partitionable is off"):
                sim.compile(env, 2, 3, "native", record=("obs",))


def test_a_folder_that_cannot_be_looked_into_is_named(folder, monkeypatch):
    folder.mkdir()
    exists = os.path.exists

    def refuse(path):
        if str(path).startswith(str(folder)):
            raise PermissionError(13, "Permission denied", str(path))
        return True

    monkeypatch.setattr(Path, "exists", refuse)
    assert exists(folder)
    sim.compile(sim.make("CartPole-v1"), 2, 2, "native")


def test_primitives_of_one_name_that_do_other_things_make_other_programs():
    def scaled_by(factor):
        made = jax.extend.core.Primitive("scaled")
        made.def_impl(lambda x: jax.lax.fori_loop(0, 2, lambda i, y: y * factor, x))
        made.def_abstract_eval(lambda x: x)
        return made

    hashes = [traced(scaled_by(factor).bind).digest for factor in (2.0, 3.0, 2.0)]
    assert hashes[0] == hashes[2] != hashes[1]
    inside = [traced(jax.jit(scaled_by(factor).bind)).digest for factor in (2.0, 3.0)]
    assert inside[0] != inside[1]
