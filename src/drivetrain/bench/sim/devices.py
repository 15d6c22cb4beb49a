"""Where the comparisons of `--paper` are made, by whom and at which sizes: on one core, or on a GPU."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from drivetrain.bench.process import Rival
from drivetrain.bench.sim.cases import UNFUSED, XLA_UNFUSED
from drivetrain.bench.sim.contenders import CUDA, OF_THE_PAPER, OF_THE_PAPER_ON_GPU, OURS, XLA
from drivetrain.bench.sim.rounds import OPEN_TIMEOUT_S
from drivetrain.bench.sim.scene import Scene
from drivetrain.bench.sim.trial import Trial
from drivetrain.bench.worker import Worker
from drivetrain.core.errors import InvalidInput, RunError


@dataclass(frozen=True, kw_only=True)
class Device:
    """Where the comparisons are made.

    Attributes:
        name: As `--device` has it.
        words: In a title.
        rivals: Who takes part; by names that are the same on every device.
        nums_envs: Of the curves over N.
        knob_nums_envs: Of those along `Knob`, one each.
        torch_nums_envs: Of XLA beside PyTorch.
        num_calls: That follow each other before anybody waits.
        by_clock: Per second of the clock, not of CPU time.
        text: For the sentences under the tables: what the numbers are of.
    """

    name: str
    words: str
    rivals: Sequence[Rival]
    nums_envs: Sequence[int]
    knob_nums_envs: Sequence[int]
    torch_nums_envs: Sequence[int]
    num_calls: int
    by_clock: bool
    text: str

    def named(self, name: str) -> Rival:
        """Who has this name here."""
        return next(rival for rival in self.rivals if rival.name == name)

    def trial(self, group: str, name: str, scenes: Mapping[str, Scene]) -> Trial:
        """A case: contender -> scene, or its form -> scene, of ours and XLA."""
        forms = {UNFUSED: OURS.name, XLA_UNFUSED: XLA.name}
        everybody = {
            who: (self.named(forms.get(who, who)), replace(scene, num_calls=self.num_calls))
            for who, scene in scenes.items()
        }
        return Trial(group=group, name=name, scenes=everybody, by_clock=self.by_clock)


CPU = Device(
    name="cpu",
    words="one core",
    rivals=OF_THE_PAPER,
    nums_envs=(1, 16, 64, 256, 1024, 4096, 16384),
    knob_nums_envs=(64, 1024, 16384),
    torch_nums_envs=(1, 64, 1024, 16384),
    num_calls=1,
    by_clock=False,
    text="One core on every side.",
)
GPU = Device(
    name="gpu",
    words="a GPU",
    rivals=OF_THE_PAPER_ON_GPU,
    nums_envs=(1, 64, 1024, 4096, 16384, 2**16, 2**18, 2**20),
    knob_nums_envs=(1024, 16384, 2**18),
    torch_nums_envs=(1, 1024, 16384, 2**18),
    num_calls=16,
    by_clock=True,
    text="One GPU, by the clock.",
)


def device_of(asked: Literal["auto", "cpu", "gpu"]) -> Device:
    """The device that was asked for; auto: a GPU where the engine `cuda` runs, and the CPU elsewhere, which is said.

    Raises:
        InvalidInput: A GPU was asked for, and the engine does not run.
    """
    if asked == "cpu":
        return CPU
    why = why_no_gpu()
    if why and asked == "gpu":
        raise InvalidInput(f"--device gpu: our engine `cuda` does not run here: {why}")
    if why:
        print(f"on the CPU, as no GPU can be used: {why}", flush=True)
    return CPU if why else GPU


def why_no_gpu() -> str:
    """Why the engine `cuda` does not run here, as a process that tries it finds; empty where it does."""
    if (skipped := CUDA.missing()) is not None:
        return f"{skipped.reason}; to have it: {skipped.remedy}"
    worker = Worker.start(CUDA)
    try:
        said = worker.ask(Scene(env="CartPole-v1", num_envs=1, num_steps=1).as_request(), timeout_s=OPEN_TIMEOUT_S)
    except RunError as error:
        return str(error)
    finally:
        worker.end()
    return str(said.get("missing", ""))
