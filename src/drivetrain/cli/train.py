"""`drivetrain train ALGO ENV`: the command line of `drivetrain.train.train`."""

import dataclasses
import os
from fractions import Fraction
from typing import Any

import tyro

from drivetrain.core.errors import InvalidInput
from drivetrain.core.threads import one_thread_environment, prepare_computation
from drivetrain.train.config import DQNConfig, ReplayConfig, RunConfig, TrainConfig
from drivetrain.train.presets import preset

_USAGE = "drivetrain train ALGO ENV [--total-steps N] [--num-actors auto] [--seed S] [--run-dir D] ..."
_REGISTRY: Any = tyro.constructors.ConstructorRegistry()


def _fraction(info: Any) -> Any:
    """How tyro reads and shows the one field type it does not know."""
    if info.type is not Fraction:
        return None
    return tyro.constructors.PrimitiveConstructorSpec[Fraction](
        nargs=1,
        metavar="FRACTION",
        instance_from_str=lambda args: Fraction(args[0]),
        is_instance=lambda value: isinstance(value, Fraction),
        str_from_instance=lambda value: [str(value)],
    )


_REGISTRY.primitive_rule(_fraction)


def run(argv: list[str]) -> int:
    """Train, and print what came of it."""
    config = parse(argv)
    if config.num_actors == 0:  # everything happens in this process, whose frameworks load below
        os.environ.update(one_thread_environment(os.environ))
        prepare_computation()
    from drivetrain.train.run import start

    heading = f"{config.algo} on {config.env}: {describe(config)}"
    result = start(config, quiet=False, ready=lambda: print(heading, flush=True))
    from drivetrain.train.evaluate import interval

    low, high = interval(result.returns)
    print(
        f"mean return {result.mean_return:.1f} (95% interval {low:.1f}..{high:.1f}) of the best policy "
        f"over {len(result.returns)} evaluation episodes\n"
        f"{result.steps_per_s:,.0f} environment steps/s, {result.updates_per_s:,.0f} updates/s, "
        f"{result.update_ratio:.4f} updates per step after warm-up\n"
        f"run directory: {result.run_dir}"
    )
    return 0


def parse(argv: list[str]) -> TrainConfig:
    """The configuration a command line asks for; flags change the environment's preset."""
    if "-h" in argv or "--help" in argv:
        base = preset("dqn", argv[1] if len(argv) > 2 else "ENV")
    elif len(argv) < 2 or argv[0].startswith("-") or argv[1].startswith("-"):
        raise InvalidInput(f"expected an algorithm and an environment first: {_USAGE}")
    else:
        base = preset(argv[0], argv[1])
    flags = tyro.cli(
        _Flags,
        prog="drivetrain train ALGO ENV",
        description="Train a policy with parallel actors and a learner.",
        args=argv[2:] if argv[0] not in ("-h", "--help") else argv,
        default=_Flags(run=base.run, replay=base.replay, dqn=base.dqn),
        config=(tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes),
        registry=_REGISTRY,
    )
    return dataclasses.replace(base, run=flags.run, replay=flags.replay, dqn=flags.dqn)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Flags:
    """The parts whose fields are flags."""

    run: RunConfig
    replay: ReplayConfig
    dqn: DQNConfig


def describe(config: TrainConfig) -> str:
    """One line on how the run is carried out."""
    if config.num_actors == 0:
        return "sequential, in one process"
    actors = f"{config.num_actors} actor{'s' if config.num_actors > 1 else ''}"
    chosen = " (chosen for the cores of this machine)" if config.run.num_actors == "auto" else ""
    return f"{actors} x {config.run.envs_per_actor} environments{chosen}, 1 learner, 1 evaluator"
