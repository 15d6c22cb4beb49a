"""What the survey runs: programs that know nothing of any profiler, each with what it is an example of."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from drivetrain.bench.process import Rival
from drivetrain.bench.scope.contenders import FOLDER, PYTORCH, Program
from drivetrain.bench.train.contenders import SB3, SBX

ON_POLICY = ("A2C", "PPO")
OFF_POLICY = ("DQN", "DDPG", "TD3", "SAC")
PENDULUM, HALF_CHEETAH, WALKER, PONG = "Pendulum-v1", "HalfCheetah-v5", "Walker2d-v5", "ALE/Pong-v5"


@dataclass(frozen=True, kw_only=True)
class Load:
    """A program and where it stands in the survey.

    Attributes:
        program: What is run.
        framework: As claims call it.
        algo: The algorithm; empty for a program that is none of the list.
        env: The simulator.
        num_processes: That simulate or act; 1 for a program in one process.
    """

    program: Program
    framework: str
    algo: str
    env: str
    num_processes: int = 1

    @property
    def name(self) -> str:
        """In tables."""
        return self.program.name


def loads() -> list[Load]:
    """Everything, whether it can run here or not."""
    found = [_load(SB3, "with_sb3", algo, env, steps) for algo, env, steps in _STEPS]
    found += [
        _load(SBX, "with_sbx", algo, env, _STEPS_OF_SBX.get((algo, env), steps))
        for algo, env, steps in _STEPS
        if algo != "A2C"  # SBX has none
    ]
    return [*found, _subprocesses("PPO", WALKER, 16_384, num_processes=2), _self_play(num_workers=3)]


# Steps are whole numbers of an on-policy algorithm's rollouts, and so are their halves.
_STEPS: Sequence[tuple[str, str, int]] = (
    *((algo, env, 6_000) for algo in ("A2C",) for env in (PENDULUM, HALF_CHEETAH, WALKER)),
    *((algo, env, 8_192) for algo in ("PPO",) for env in (PENDULUM, HALF_CHEETAH, WALKER)),
    *((algo, env, 1_200) for algo in ("DDPG", "TD3", "SAC") for env in (PENDULUM, HALF_CHEETAH, WALKER)),
    ("A2C", PONG, 3_200),
    ("PPO", PONG, 4_096),
    ("DQN", PONG, 2_000),
)
_STEPS_OF_SBX = {("PPO", PONG): 2_048, ("DQN", PONG): 800}
"""Where a step takes it several times as long."""
_NEEDS = {PENDULUM: (), HALF_CHEETAH: ("mujoco",), WALKER: ("mujoco",), PONG: ("ale_py", "cv2")}
_INSTALL = {"mujoco": 'pip install "drivetrain[mujoco]"', "ale_py": 'pip install "drivetrain[atari]"'}


def _needing(framework: Rival, env: str) -> Rival:
    needs = _NEEDS[env]
    installs = [framework.install, *(_INSTALL[name] for name in needs if name in _INSTALL)]
    return replace(framework, requires=(*framework.requires, *needs), install=" && ".join(installs))


def _load(framework: Rival, script: str, algo: str, env: str, num_steps: int) -> Load:
    before = (framework.name,) if env == PONG else ()
    after = ("auto",) if framework is SB3 and env != PONG else ()
    program = Program(
        name=f"{framework.name} {algo} {env}",
        script=_script("with_atari" if env == PONG else script),
        arguments=(*before, algo, env, str(num_steps), *after),
        framework=_needing(framework, env),
        is_quick=framework is SB3 and env == PENDULUM and algo in ("A2C", "SAC"),
    )
    return Load(program=program, framework=framework.name, algo=algo, env=env)


def _subprocesses(algo: str, env: str, num_steps: int, *, num_processes: int) -> Load:
    program = Program(
        name=f"{SB3.name} {algo} {env}, {num_processes} subprocesses",
        script=_script("with_sb3_subprocesses"),
        arguments=(algo, env, str(num_steps), str(num_processes)),
        framework=_needing(SB3, env),
    )
    return Load(program=program, framework=SB3.name, algo=algo, env=env, num_processes=num_processes)


def _self_play(*, num_workers: int) -> Load:
    program = Program(
        name=f"self-play, {num_workers} workers",
        script=_script("self_play"),
        arguments=(str(num_workers), "60"),
        framework=PYTORCH,
    )
    return Load(program=program, framework="PyTorch", algo="", env="Connect Four", num_processes=num_workers)


def _script(name: str) -> Path:
    return FOLDER / f"{name}.py"
