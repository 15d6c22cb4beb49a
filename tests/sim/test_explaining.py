"""`sim.explain` says what a kernel would be like, and compiles none."""

import dataclasses

import numpy as np
import pytest

from drivetrain import sim
from drivetrain.core.errors import CompileError, InvalidInput
from drivetrain.sim.engines import toolchain


@pytest.fixture
def no_compiler(monkeypatch):
    def refuse(*_):
        raise AssertionError("nothing has to be compiled")

    monkeypatch.setattr(toolchain, "compiler", refuse)


@pytest.mark.usefixtures("no_compiler")
def test_cartpole_has_17_bytes_of_numbers_and_sinks_its_random_start():
    said = sim.explain(sim.make("CartPole-v1"))
    assert said.state_nbytes == 5 * 4
    assert said.recorded_nbytes == 4 * 4 + 4 + 1 + 1
    assert (said.kept, said.scratch_nbytes) == (0, 0)
    (branch,) = said.sunk
    assert branch[0] > 10
    assert branch[1] >= 4
    assert said.num_equations > 50
    assert said.num_simplified <= said.num_imported


def test_large_state_is_kept_and_what_is_read_once_is_fused():
    said = sim.explain(sim.make("Knob", live_nbytes=1024, flops_per_byte=2))
    assert said.state_nbytes == 1024 + 4
    assert said.fused > 0
    assert said.scratch_nbytes >= 1024


def test_without_restarts_nothing_is_sunk():
    said = sim.explain(sim.make("CartPole-v1"), autoreset="disabled")
    assert said.sunk == ()
    assert "nothing: no condition" in str(said)


def test_it_reads_as_a_few_lines():
    lines = str(sim.explain(sim.make("CartPole-v1"), record=())).splitlines()
    assert lines[0] == "CartPole-v1"
    assert [line.split()[0] for line in lines[1:]] == ["program", "state", "sunk", "fused", "kept", "loops", "most"]
    assert "20 bytes per environment, 0 recorded" in lines[2]
    assert "random hashes" in lines[3]


def test_what_cannot_be_traced_is_said_as_by_compile():
    class Odd:
        name = "Odd"
        default_params = None

        def reset(self, key, params):
            return key, 1.0 if key else 2.0

        step = action_space = observation_space = reset

    with pytest.raises(CompileError, match="Odd"):
        sim.explain(Odd())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"autoreset": "never"}, "autoreset: expected one of same_step, next_step, disabled, got 'never'"),
        ({"record": ("observations",)}, r"record: expected distinct names from obs, .* got \('observations',\)"),
        ({"params": {"gravity": 1.0}}, "params: expected a Params, as default_params of CartPole-v1 is, got a dict"),
    ],
)
def test_arguments_are_refused_as_by_compile(arguments, told):
    with pytest.raises(InvalidInput, match=told):
        sim.explain(sim.make("CartPole-v1"), **arguments)


def test_one_record_may_be_named_as_for_compile():
    assert sim.explain(sim.make("CartPole-v1"), record="reward").recorded_nbytes == 4


def test_parameters_are_taken_as_by_compile():
    env = sim.make("CartPole-v1")
    rows = dataclasses.replace(env.default_params, gravity=np.full(8, 9.8), mass_pole=np.full(8, 0.1))
    said = sim.explain(env, rows)
    assert said.state_nbytes == 5 * 4 + 2 * 4  # both travel with the state
    whole = dataclasses.replace(env.default_params, gravity=10)
    assert sim.explain(env, whole) == sim.explain(env, dataclasses.replace(whole, gravity=10.0))
    with pytest.raises(InvalidInput, match=r"params\.gravity: expected numbers that fit float32, got 1e"):
        sim.explain(env, dataclasses.replace(whole, gravity=1e300))
    uneven = dataclasses.replace(rows, mass_pole=np.full(3, 0.1))
    with pytest.raises(InvalidInput, match=r"params\.mass_pole: expected one value, or 8 rows, one for each .*, got 3"):
        sim.explain(env, uneven)
