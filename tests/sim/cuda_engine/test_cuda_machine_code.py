"""Kernels are compiled for a Hopper GPU, and take no more of it than resources.json says."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("cuda.core", reason='needs the extra: pip install "drivetrain[cuda]"')

from comparing import Applied
from machine_code import KERNELS, RECORDED, compiler, disassembler, flow, measured, outermost, shortest_turn

from drivetrain.core.errors import CompileError
from drivetrain.sim.engines.cuda.kernel import source_of
from drivetrain.sim.engines.cuda.program import compile_program
from drivetrain.sim.trace import trace

MORE_REGISTERS = 4
MORE_INSTRUCTIONS = 1.05
"""Slack for changes that are meant; beyond it resources.json is written anew, and the change says why."""


@pytest.mark.release
@pytest.mark.parametrize(
    "kernel", range(len(KERNELS)), ids=[f"{name}{'' if record else '-bare'}" for name, record in KERNELS]
)
def test_kernels_take_no_more_registers_memory_and_instructions_than_recorded(kernel, tmp_path):
    recorded = json.loads(RECORDED.read_text())
    if disassembler() is None:
        pytest.skip('needs nvdisasm: pip install "drivetrain[test]"')
    if recorded["nvrtc"] != compiler():
        pytest.skip(f"recorded with NVRTC {recorded['nvrtc']}, here is {compiler()}, which may choose otherwise")
    name, record = KERNELS[kernel]
    before, now = recorded["kernels"][kernel], measured(name, record, tmp_path)
    assert (before["environment"], before["record"]) == (name, now["record"])
    assert now["registers"] <= before["registers"] + MORE_REGISTERS
    for memory in ("stack_nbytes", "spilled_nbytes"):
        assert now[memory] <= before[memory]
    for count in ("instructions_least", "instructions_most"):
        assert 0 < now[count] <= before[count] * MORE_INSTRUCTIONS


LOOPS = """
\t.text
.text.drivetrain_run:
        /*0000*/                   MOV R1, R2 ;
.L_x_0:
        /*0010*/               @P0 EXIT ;
        /*0020*/                   MOV R1, R2 ;
.L_x_1:
        /*0030*/                   MOV R1, R2 ;
        /*0040*/              @!P1 BRA `(.L_x_2) ;
        /*0050*/                   MOV R1, R2 ;
        /*0060*/                   MOV R1, R2 ;
.L_x_2:
        /*0070*/               @P2 BRA `(.L_x_1) ;
        /*0080*/                   BRA `(.L_x_0) ;
        /*0090*/                   RET.REL.NODEC R2 `(drivetrain_run) ;
"""


def test_the_loop_over_steps_is_found_inside_the_loop_over_tiles():
    after = flow(LOOPS)
    tiles = outermost(after, set(after))
    assert tiles == set(range(0x10, 0x90, 0x10))
    steps = outermost(after, tiles - {0x10})
    assert steps == set(range(0x30, 0x80, 0x10))
    assert shortest_turn(after, steps, 0x30) == 3


def test_a_source_that_nvrtc_refuses_is_told_with_its_first_error():
    with pytest.raises(CompileError, match=r"NVRTC refuses .* identifier \"nothing\" is undefined"):
        compile_program('extern "C" __global__ void f() { nothing(); }', "sm_90")


def test_tables_may_hold_infinities_and_nan():
    numbers = np.array([1, np.inf, -np.inf, np.nan, 2], np.float32)
    looked_up = Applied(lambda i: jnp.asarray(numbers)[i], np.int32(0))
    program, _ = compile_program(source_of(trace(looked_up, None, "disabled", ("obs",))), "sm_90")
    assert numbers.tobytes() in bytes(program.code)


def test_machine_code_is_kept_and_found_again(tmp_path):
    source = 'extern "C" __global__ void f(int* x) { *x = 7; }'
    first, said = compile_program(source, "sm_90", tmp_path / "kept")
    again, nothing = compile_program(source, "sm_90", tmp_path / "kept")
    assert "Function properties for f" in said
    assert nothing == ""
    assert bytes(first.code) == bytes(again.code)


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "kept").write_text("")
    with pytest.raises(CompileError, match="set DRIVETRAIN_CACHE to a folder"):
        compile_program('extern "C" __global__ void f() {}', "sm_90", tmp_path / "kept")
