"""`drivetrain train ALGO ENV`: the command line of `drivetrain.train.train`."""

import dataclasses
import json
import os
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import tyro

from drivetrain.core.errors import InvalidInput
from drivetrain.core.threads import prepare_computation
from drivetrain.replay.memory import readable
from drivetrain.train.config import TrainConfig
from drivetrain.train.devices import device_environment
from drivetrain.train.presets import preset, preset_for

if TYPE_CHECKING:
    from drivetrain.train.run import Result

_USAGE = "drivetrain train ALGO ENV [--total-steps N] [--num-actors auto] [--seed S] [--run-dir D] ..."
_SHOW = "--show-config"
_PRESET = "--preset"
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
    """Train, and print what came of it; or print the configuration alone."""
    config = parse([word for word in argv if word != _SHOW])
    if _SHOW in argv:
        known = preset_for(config.algo, config.env)
        shown = {"preset": {"source": known.source, "verified": known.verified}, **json.loads(config.to_json())}
        print(json.dumps(shown, indent=2))
        return 0
    if config.num_actors == 0:  # everything happens in this process, whose frameworks load below
        prepare_this_process(config)
    from drivetrain.train.run import start

    heading = f"{config.algo} on {config.env}: {describe(config)}"
    show(start(config, quiet=False, ready=lambda: print(heading, flush=True)))
    return 0


def show(result: "Result") -> None:
    """Print what a finished run has achieved."""
    from drivetrain.train.evaluate import interval

    low, high = interval(result.returns)
    print(
        f"mean return {result.mean_return:.1f} (95% interval {low:.1f}..{high:.1f}) of the best policy "
        f"over {len(result.returns)} evaluation episodes\n"
        f"{result.steps_per_s:,.0f} environment steps/s, {result.updates_per_s:,.0f} updates/s, "
        f"{result.update_ratio:.4f} updates per step after warm-up\n"
        f"checkpoint: {readable(result.checkpoint_nbytes)}, of which replay {readable(result.replay_nbytes)}\n"
        f"run directory: {result.run_dir}"
    )


def prepare_this_process(config: TrainConfig) -> None:
    """For a run in this process, whose frameworks load later: as its children would be."""
    os.environ.update(device_environment(config, os.environ))
    prepare_computation()


def parse(argv: list[str]) -> TrainConfig:
    """The configuration a command line asks for; flags change the environment's preset."""
    argv, name = _without_preset(argv)
    args = argv[2:]
    if "-h" in argv or "--help" in argv:
        names = [word for word in argv[:2] if not word.startswith("-")]
        base = preset(names[0] if names else "dqn", names[1] if len(names) > 1 else "ENV")
        args = ["--help"]
    elif len(argv) < 2 or argv[0].startswith("-") or argv[1].startswith("-"):
        raise InvalidInput(f"expected an algorithm and an environment first: {_USAGE}")
    else:
        base = preset(argv[0], argv[1], name)
    parts: dict[str, Any] = {part: getattr(base, part) for part in base.parts}
    # Each part is a field of its own type, so that --help lists what the algorithm has and nothing else.
    types: list[tuple[str, type[Any]]] = [(part, type(config)) for part, config in parts.items()]
    flags_of: Any = dataclasses.make_dataclass("Flags", types, frozen=True, kw_only=True)
    flags = tyro.cli(
        flags_of,
        prog="drivetrain train ALGO ENV",
        description=(
            f"Train a policy with parallel actors and a learner. {_PRESET} NAME: start from a variant, as rainbow "
            f"for dqn. {_SHOW}: print the settings and do nothing."
        ),
        args=args,
        default=flags_of(**parts),
        config=(tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes),
        registry=_REGISTRY,
    )
    return dataclasses.replace(base, **{part: getattr(flags, part) for part in parts})


def _without_preset(argv: list[str]) -> tuple[list[str], str | None]:
    """The words without `--preset NAME`, which decides what the others change; and NAME."""
    if _PRESET not in argv:
        return argv, None
    index = argv.index(_PRESET)
    if index + 1 == len(argv):
        raise InvalidInput(f"{_PRESET}: expected a name after it, as rainbow for dqn")
    return argv[:index] + argv[index + 2 :], argv[index + 1]


def describe(config: TrainConfig) -> str:
    """One line on how the run is carried out."""
    if config.num_actors == 0:
        return "sequential, in one process"
    actors = f"{config.num_actors} actor{'s' if config.num_actors > 1 else ''}"
    chosen = " (chosen for the cores of this machine)" if config.run.num_actors == "auto" else ""
    num_learners = config.run.num_learners
    learners = f"{num_learners} learner{'s' if num_learners > 1 else ''}"
    return f"{actors} x {config.envs_per_actor} environments{chosen}, {learners}, 1 evaluator"
