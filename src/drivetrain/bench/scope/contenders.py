"""What takes part in `drivetrain bench scope`: programs to be recorded, and the tools that can record them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from drivetrain.bench.process import Rival
from drivetrain.bench.report import Skipped
from drivetrain.bench.train.contenders import OURS as OURS_TRAIN
from drivetrain.bench.train.contenders import SB3, SBX

FOLDER = Path(__file__).parent / "programs"
PYTORCH = Rival(name="PyTorch", module="", requires=("torch", "gymnasium"), install=SB3.install)


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program to be recorded.

    Attributes:
        name: In tables.
        script: Its file; it writes its window (bench/scope/window.py).
        arguments: Its command line.
        framework: What must be installed for it.
        is_quick: Part of a quick run.
        num_beside: Steps in place of the last argument where other tools stand beside ours; 0: as many.
    """

    name: str
    script: Path
    arguments: tuple[str, ...] = ()
    framework: Rival | None = None
    is_quick: bool = False
    num_beside: int = 0

    def beside_tools(self) -> "Program":
        """The same program for less long: a tool is compared by whole runs, and some take minutes for their report."""
        if not self.num_beside:
            return replace(self, name=f"{self.name}, whole")
        arguments = (*self.arguments[:-1], str(self.num_beside))
        return replace(self, name=f"{self.name}, {self.num_beside:,} steps", arguments=arguments)

    def missing(self) -> Skipped | None:
        """The reason why it cannot run here; None when it can."""
        absent = None if self.framework is None else self.framework.missing()
        return None if absent is None else Skipped(name=self.name, reason=absent.reason, remedy=absent.remedy)


def _program(
    framework: Rival, script: str, algo: str, env: str, num_steps: int, num_beside: int, *, is_quick: bool = False
) -> Program:
    return Program(
        name=f"{framework.name} {algo} {env}",
        script=FOLDER / f"{script}.py",
        arguments=(algo, env, str(num_steps)),
        framework=framework,
        is_quick=is_quick,
        num_beside=num_beside,
    )


_MUJOCO = replace(SB3, requires=(*SB3.requires, "mujoco"))

PROGRAMS: Sequence[Program] = (
    _program(SB3, "with_sb3", "DQN", "CartPole-v1", 8_000, 2_000),
    _program(SB3, "with_sb3", "PPO", "CartPole-v1", 10_240, 4_096),
    _program(SB3, "with_sb3", "A2C", "CartPole-v1", 6_000, 2_000, is_quick=True),
    _program(SB3, "with_sb3", "SAC", "Pendulum-v1", 800, 250),
    _program(SB3, "with_sb3", "TD3", "Pendulum-v1", 800, 300),
    _program(SB3, "with_sb3", "DDPG", "Pendulum-v1", 1_000, 300),
    _program(_MUJOCO, "with_sb3", "PPO", "HalfCheetah-v5", 6_144, 2_048),
    _program(_MUJOCO, "with_sb3", "SAC", "HalfCheetah-v5", 800, 250),
    _program(_MUJOCO, "with_sb3", "TD3", "HalfCheetah-v5", 800, 300),
    _program(SBX, "with_sbx", "DQN", "CartPole-v1", 8_000, 2_000),
    _program(SBX, "with_sbx", "PPO", "CartPole-v1", 8_192, 4_096),
    _program(SBX, "with_sbx", "SAC", "Pendulum-v1", 1_200, 300),
    _program(PYTORCH, "with_torch", "Q-learning", "CartPole-v1", 3_000, 1_000, is_quick=True),
    _program(OURS_TRAIN, "with_ours", "dqn", "CartPole-v1", 20_000, 8_000, is_quick=True),
)


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A profiler that runs a program unchanged.

    Attributes:
        rival: Its name, and what must be installed.
        before: Words of Python's command line before the script.
        between: Words between the script and its arguments.
        report: A second command that makes the report a user would look at; empty where the first leaves it.
        needs: What a program must use for the tool to see it; empty for any.
    """

    rival: Rival
    before: tuple[str, ...]
    between: tuple[str, ...] = ()
    report: tuple[str, ...] = ()
    needs: str = ""

    def fits(self, program: Program) -> bool:
        """Whether it has anything to say of a program."""
        framework = program.framework
        return not self.needs or (framework is not None and self.needs in framework.requires)

    def command(self, program: Program) -> list[str]:
        """What follows `python`."""
        return [*self.before, str(program.script), *self.between, *program.arguments]


def _rival(name: str) -> Rival:
    return Rival(name=name, module=name, requires=(name,), install=f"pip install {name}")


RECORDING = "recording"
CALIBRATE_EVERY = 2
"""Half of the blocks are muted, where it is one of 10 by default: most of them are held out to tell the truth, and the
correction sees about as many as it would by default (held_out.py)."""
_PROFILE = ("-m", "drivetrain.cli.main", "profile", "-o", RECORDING)
OURS = Tool(
    rival=Rival(name="ours", module="drivetrain", requires=(), install=""),
    before=_PROFILE,
    report=("-m", "drivetrain.cli.main", "report", RECORDING, "--html", "report.html"),
)
"""As anybody runs it."""
JUDGED = replace(OURS, before=(*_PROFILE, "--calibrate-every", str(CALIBRATE_EVERY)), report=())
"""For the truth about its corrections."""
TOOLS: Sequence[Tool] = (
    Tool(rival=_rival("pyinstrument"), before=("-m", "pyinstrument", "-r", "html", "-o", "report.html")),
    Tool(rival=_rival("viztracer"), before=("-m", "viztracer", "--quiet", "-o", "report.json", "--")),
    Tool(rival=_rival("scalene"), before=("-m", "scalene", "run", "--cpu-only", "-o", "report.json"), between=("---",)),
    Tool(
        rival=Rival(name="torch.profiler", module="torch", requires=("torch",), install=SB3.install),
        before=(str(FOLDER / "under_torch_profiler.py"),),
        needs="torch",
    ),
)
