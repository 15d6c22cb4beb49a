"""What a compiled kernel takes: registers and memory from the compiler's words, instructions from its disassembly.

A step's instructions are counted twice: least is the shortest way through one turn of the loop over steps: nobody
resets, no rare function is called. most is every instruction inside that loop, whatever branch it belongs to;
subroutines, to which far sines and quotients go, are outside. `python tests/sim/cuda_engine/machine_code.py` writes
resources.json anew.
"""

import importlib.metadata
import json
import re
import subprocess
import tempfile
from collections import defaultdict, deque
from pathlib import Path

from on_host import CLASSIC

from drivetrain import sim
from drivetrain.sim.api import RECORDABLE
from drivetrain.sim.engines.cuda.kernel import source_of
from drivetrain.sim.engines.cuda.program import compile_program
from drivetrain.sim.trace import trace

INSTRUCTION = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(?:\{\s*)?(@!?U?P[T\d]+\s+)?([A-Z0-9_.]+)\s*(.*?)\s*[;}]")
LABEL = re.compile(r"^(\.L_x_\d+):")
TARGET = re.compile(r"`\((\.L_x_\d+)\)")
ENDS = ("EXIT", "RET", "KILL")


def disassembler():
    """Path of nvdisasm, from its wheel; None where that is not installed."""
    try:
        files = importlib.metadata.files("nvidia-cuda-nvdisasm") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    return next((str(path.locate()) for path in files if path.name == "nvdisasm"), None)


def used(said):
    """Registers, bytes of stack and bytes spilled, from what the compiler says of the kernel."""
    kernel = said[said.index("Function properties for drivetrain_run") :]
    stack, stores, loads = map(
        int, re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+)", kernel).groups()
    )
    return {
        "registers": int(re.search(r"Used (\d+) registers", kernel)[1]),
        "stack_nbytes": stack,
        "spilled_nbytes": stores + loads,
    }


def instructions_per_step(code, path):
    """The fewest in one turn of the loop over steps, and all inside it."""
    file = path / "kernel.cubin"
    file.write_bytes(code)
    done = subprocess.run([disassembler(), str(file)], capture_output=True, text=True, check=True, timeout=120)
    after = flow(done.stdout)
    tiles = outermost(after, set(after))
    steps = outermost(after, tiles - entries(after, tiles))
    (head,) = entries(after, steps)
    return {"instructions_least": shortest_turn(after, steps, head), "instructions_most": len(steps)}


def flow(text):
    """For each instruction of the kernel, by its address, those that may come next."""
    body = text[text.index("\n.text.drivetrain_run:") :]
    places, rows, waiting = {}, [], []
    for line in body.splitlines():
        if label := LABEL.match(line):
            waiting.append(label[1])
        elif found := INSTRUCTION.match(line):
            places.update(dict.fromkeys(waiting, int(found[1], 16)))
            waiting = []
            rows.append((int(found[1], 16), bool(found[2]), found[3], found[4]))
    after = {}
    for (here, is_conditional, name, operands), (following, *_) in zip(rows, [*rows[1:], (None,)], strict=True):
        kind = name.partition(".")[0]
        target = TARGET.search(operands)
        jumps = [places[target[1]]] if kind == "BRA" and target and target[1] in places else []
        is_conditional = is_conditional or (kind == "BRA" and not operands.startswith("`"))
        goes_on = following is not None and (is_conditional or kind not in (*ENDS, "BRA"))
        after[here] = [*jumps, *([following] if goes_on else [])]
    return after


def outermost(after, inside):
    """The largest set of instructions, of some, that lead back to each other."""
    before = defaultdict(list)
    for here, following in after.items():
        for there in following:
            before[there].append(here)
    best, left = set(), set(inside)
    while left:
        start = min(left)
        loop = reached(after, start, inside) & reached(before, start, inside)
        best = max(best, loop, key=len)
        left -= loop | {start}
    return best


def reached(after, start, inside):
    """Everything that comes after an instruction, without leaving some."""
    found, waiting = set(), [start]
    while waiting:
        new = [there for there in after[waiting.pop()] if there in inside and there not in found]
        found.update(new)
        waiting += new
    return found


def entries(after, loop):
    """Instructions of a loop that one outside leads to."""
    return {there for here, following in after.items() if here not in loop for there in following if there in loop}


def shortest_turn(after, loop, head):
    """Instructions from the head of a loop back to it."""
    length, waiting = {head: 0}, deque([head])
    while waiting:
        here = waiting.popleft()
        for there in after[here]:
            if there == head:
                return length[here] + 1
            if there in loop and there not in length:
                length[there] = length[here] + 1
                waiting.append(there)
    raise AssertionError("a loop leads back to its head")


RECORDED = Path(__file__).with_name("resources.json")
KERNELS = [*((name, RECORDABLE[:4]) for name in CLASSIC), ("CartPole-v1", ())]
"""Environment, and what its kernel records."""


def measured(name, record, folder):
    """What the kernel of an environment takes on a Hopper GPU."""
    env = sim.make(name)
    program, said = compile_program(source_of(trace(env, env.default_params, "same_step", record)), "sm_90")
    return {"record": list(record), **used(said), **instructions_per_step(program.code, folder)}


def compiler():
    """The version that the counts belong to."""
    return importlib.metadata.version("nvidia-cuda-nvrtc")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as aside:
        rows = [{"environment": name, **measured(name, record, Path(aside))} for name, record in KERNELS]
    command = "python tests/sim/cuda_engine/machine_code.py"
    whole = {"command": command, "arch": "sm_90", "nvrtc": compiler(), "kernels": rows}
    RECORDED.write_text(json.dumps(whole, indent=1) + "\n")
