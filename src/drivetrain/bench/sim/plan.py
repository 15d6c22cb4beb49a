"""What `drivetrain bench sim` runs: trials of speed, comparisons with XLA, compilations; and what is aimed at."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from drivetrain.bench.process import Rival
from drivetrain.bench.report import Target
from drivetrain.bench.sim.contenders import APART, GYMNAX, OURS, OWN, SIMULATORS, XLA
from drivetrain.bench.sim.interfaces import inside_jit, on_bits, through_gymnasium, with_policy
from drivetrain.bench.sim.rounds import everybody
from drivetrain.bench.sim.scene import GYMNAX_PREFIX, POLICIES, Scene
from drivetrain.bench.sim.targets import (
    AHEAD,
    COUNTER_AHEAD,
    GYMNASIUM_AHEAD,
    GYMNAX_NAMES,
    MINATAR,
    ONE_THREAD,
    OUR_NAMES,
    RECORDED_AHEAD,
    TWO_PROCESSES,
    TWO_THREADS,
    TWO_THREADS_REPEATS,
)
from drivetrain.bench.sim.trial import Trial

ALL_GYMNAX = "gymnax, nothing recorded, N = 1,024"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """An engine beside XLA; see `equality.py`."""

    env: str
    engine: str
    num_envs: int = 64
    num_steps: int = 300

    @property
    def name(self) -> str:
        """In the table."""
        return f"equality, {self.engine}: {self.env}"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much is run.

    Attributes:
        trials: Of speed.
        comparisons: With XLA.
        compiled: Environments whose compilation is timed.
        num_rounds: How often everybody is timed.
        slice_s: How long each time.
    """

    trials: Sequence[Trial]
    comparisons: Sequence[Comparison]
    compiled: Sequence[str]
    num_rounds: int = 5
    slice_s: float = 0.3

    def names(self) -> list[str]:
        """All there is to choose from."""
        cases = [trial.full_name for trial in self.trials]
        return [*cases, *(each.name for each in self.comparisons), *map(compiling, self.compiled)]

    def only(self, names: Collection[str]) -> "Plan":
        """What has one of these names."""
        return replace(
            self,
            trials=[trial for trial in self.trials if trial.full_name in names],
            comparisons=[each for each in self.comparisons if each.name in names],
            compiled=[name for name in self.compiled if compiling(name) in names],
        )

    def without_gymnax(self) -> "Plan":
        """What simulates no environment of gymnax's."""
        return replace(
            self,
            trials=[each for each in self.trials if not any(scene.is_gymnax for _, scene in each.scenes.values())],
            comparisons=[each for each in self.comparisons if not each.env.startswith(GYMNAX_PREFIX)],
            compiled=[name for name in self.compiled if not name.startswith(GYMNAX_PREFIX)],
        )


def compiling(name: str) -> str:
    """The case of an environment's compilation."""
    return f"compiling {name}"


def full_plan(rivals: Sequence[Rival], share: float, *, all_equal: bool) -> Plan:
    """Everything that the page shows.

    Args:
        rivals: Who is installed.
        share: Of the targets against gymnax that holds on this processor: 1, or a half without AVX-512.
        all_equal: Compare every environment and engine with XLA, and millions of words.
    """
    gymnax = [rival for rival in (OURS, GYMNAX) if rival in rivals]
    compared = [*OUR_NAMES, *(f"gymnax/{name}" for name in GYMNAX_NAMES)]
    few = ["CartPole-v1", "Pendulum-v1", "gymnax/Breakout-MinAtar", "gymnax/Freeway-MinAtar"]
    return Plan(
        trials=[
            *(cartpole(num_envs, rivals) for num_envs in (1, 64, 1024, 16384)),
            *(counter(num_envs, rivals) for num_envs in (1024, 16384)),
            *(of_gymnax(name, gymnax, share) for name in GYMNAX_NAMES),
            *(recorded(name, "uint8", gymnax, RECORDED_AHEAD * share) for name in MINATAR),
            *(recorded(name, "float32", gymnax, None) for name in ("CartPole-v1", *MINATAR)),
            *(threads(env) for env in ("CartPole-v1", "gymnax/Breakout-MinAtar")),
            *(trial for num_envs in (64, 1024) for trial in through_gymnasium(num_envs, rivals)),
            *(inside_jit(num_envs) for num_envs in (1, 64, 1024)),
            *(on_bits(name) for name in ("Pong", "Breakout", "Snake")),
            *map(with_policy, POLICIES),
        ],
        comparisons=[
            *(
                Comparison(env=env, engine=engine)
                for engine in ("native", "numpy")
                for env in (compared if all_equal else few)
            ),
            *words(1024 if all_equal else 128),
        ],
        compiled=[f"gymnax/{name}" for name in GYMNAX_NAMES],
    )


def quick_plan(rivals: Sequence[Rival], share: float) -> Plan:
    """A minute or two of it: it shows that everything runs, and little about who is ahead."""
    gymnax = [rival for rival in (OURS, GYMNAX) if rival in rivals]
    return Plan(
        trials=[
            cartpole(64, rivals),
            counter(1024, rivals),
            of_gymnax("Breakout-MinAtar", gymnax, share),
            recorded("Breakout-MinAtar", "uint8", gymnax, RECORDED_AHEAD * share),
        ],
        comparisons=[
            Comparison(env="CartPole-v1", engine="native", num_envs=16),
            Comparison(env="random words, philox", engine="native", num_envs=16, num_steps=64),
            Comparison(env="random words, threefry", engine="numpy", num_envs=16, num_steps=16),
        ],
        compiled=["gymnax/CartPole-v1"],
        num_rounds=2,
        slice_s=0.05,
    )


def cartpole(num_envs: int, rivals: Sequence[Rival]) -> Trial:
    """Everybody's CartPole."""
    target = Target(against=OWN.name, aim=GYMNASIUM_AHEAD)
    scene = Scene(env="CartPole-v1", num_envs=num_envs)
    return Trial(
        group="CartPole, nothing recorded",
        name=f"N = {num_envs:,}",
        scenes=everybody([rival for rival in SIMULATORS if rival in rivals], scene),
        targets=[target] if num_envs >= 1024 else [],
    )


def counter(num_envs: int, rivals: Sequence[Rival]) -> Trial:
    """Our CartPole with Philox, on both engines, and Gymnasium's, whose generator costs little, too."""
    scene = Scene(env="CartPole-v1", num_envs=num_envs, generator="philox")
    return Trial(
        group="Our CartPole with the counter generator, nothing recorded",
        name=f"Philox, N = {num_envs:,}",
        scenes=everybody([rival for rival in (OURS, XLA, OWN) if rival in (OURS, XLA, *rivals)], scene),
        targets=[
            Target(against=XLA.name, aim=COUNTER_AHEAD),
            Target(against=OWN.name, aim=GYMNASIUM_AHEAD),
        ],
    )


def of_gymnax(name: str, rivals: Sequence[Rival], share: float) -> Trial:
    """One of gymnax's, against gymnax."""
    aim = AHEAD.get(name)
    return Trial(
        group=ALL_GYMNAX,
        name=name,
        scenes=everybody(rivals, Scene(env=f"gymnax/{name}", num_envs=1024)),
        targets=[] if aim is None else [Target(against=GYMNAX.name, aim=aim * share)],
    )


def recorded(name: str, dtype: str, rivals: Sequence[Rival], aim: float | None) -> Trial:
    """One of gymnax's with every observation written."""
    return Trial(
        group=f"gymnax, {dtype} observations recorded, N = 1,024",
        name=f"{name}, {dtype}",
        scenes=everybody(
            rivals, Scene(env=f"gymnax/{name}", num_envs=1024, record="uint8" if dtype == "uint8" else "float32")
        ),
        targets=[] if aim is None else [Target(against=GYMNAX.name, aim=aim)],
    )


def threads(env: str) -> Trial:
    """Two threads of the native engine beside one, and beside what two processes that share nothing give."""
    scene = Scene(env=env, num_envs=16384)
    two = replace(scene, num_threads=2)
    return Trial(
        group="Two threads beside one, by the clock, N = 16,384",
        name=f"2 threads, {env}",
        scenes={OURS.name: (OURS, two), ONE_THREAD: (OURS, scene), TWO_PROCESSES: (APART, scene)},
        targets=[Target(against=ONE_THREAD, aim=TWO_THREADS)],
        by_clock=True,
        repeats=TWO_THREADS_REPEATS,
    )


def words(num_envs: int) -> list[Comparison]:
    """Random words of both generators, on both engines."""
    return [
        Comparison(env=f"random words, {generator}", engine=engine, num_envs=num_envs, num_steps=64)
        for engine in ("native", "numpy")
        for generator in ("threefry", "philox")
    ]
