"""`drivetrain train ALGO ENV`: the command line of `drivetrain.train.train`."""

import contextlib
import ctypes
import dataclasses
import itertools
import json
import os
import sys
import traceback
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from drivetrain.cli.flags import read_flags
from drivetrain.core.errors import DrivetrainError, InvalidInput
from drivetrain.core.threads import one_thread_environment, prepare_computation
from drivetrain.core.words import counted, reward, size
from drivetrain.scope.report.console import console
from drivetrain.train.config import AGENTS, TrainConfig
from drivetrain.train.config.names import called_elsewhere
from drivetrain.train.config.parts import decides
from drivetrain.train.config.presets import Preset, preset, preset_for
from drivetrain.train.episode import succeeded
from drivetrain.train.learner.devices import reserve_devices
from drivetrain.train.runs.remarks import remark
from drivetrain.train.runs.seed_lists import parse_seeds

if TYPE_CHECKING:
    from drivetrain.train.interface import Interface
    from drivetrain.train.run_dir.results import Result
    from drivetrain.train.runs.seeds import Outcome
    from drivetrain.train.sizing.choose import Sizing

_ALGORITHMS = ", ".join(AGENTS)
_SHOW = "--show-config"
_PRESET = "--preset"
_SEED = "--seed"
_SEEDS = "--seeds"
_ATARI = ("--atari", "--no-atari")
_BESIDE = (_PRESET, _SEEDS, _SHOW)
"""What is taken out of the words before the settings are read."""


def run(argv: list[str]) -> int:
    """Train, and print what came of it; or print the configuration alone."""
    settings = [word for word in argv if word.replace("_", "-") != _SHOW]
    is_shown = len(settings) < len(argv)
    words, listed = _taken_out(settings, _SEEDS, "seeds after it, as 1..5 or 1,2,5")
    if listed is not None and any(word.partition("=")[0] == _SEED for word in words):
        raise InvalidInput(f"{_SEEDS}: expected no {_SEED} beside it; leave one of them out")
    config = parse(words)
    seeds = None if listed is None else parse_seeds(listed)
    name = _preset_in(words)[1]
    known = preset_for(config.algo, config.env, name)
    shown: dict[str, Any] = {} if seeds is None else {"seeds": seeds}
    shown["preset"] = {
        "source": known.source,
        "verified": verified(config, preset(config.algo, config.env, name), known),
    }
    once = config.weighs_learners and seeds is not None  # for all seeds: they are compared
    if config.is_open or (once and not is_shown):
        with printed_aside() if is_shown else contextlib.nullcontext():
            config, reason = sized(config)
        if reason is not None:
            shown["sized"] = reason
            note(f"sized: {reason}")
    if is_shown:
        require_named(config)
        shown |= config.to_dict()
        if config.weighs_learners:  # settled when the run begins
            shown["run"]["num_learners"] = config.run.num_learners
        print(json.dumps(shown, indent=2))
        return 0
    prepare_this_process(config)
    if seeds is not None:
        return run_all(config, seeds)
    from drivetrain.train.runs.run import start

    show(start(config, ready=announce), on_policy=config.on_policy)
    return 0


def verified(config: TrainConfig, meant: TrainConfig, known: Preset) -> str:
    """The returns that we reached with settings of an environment.

    Args:
        config: The run's.
        meant: What it began from.
        known: What we know of that.

    Returns:
        What `known` says, unless it is of something else: of other settings that decide what is learned. Where steps
        are fewer or more than it means, how many it means.
    """
    own, usual = config.settings, meant.settings
    changed = [name for name, part in config.owners.items() if decides(part, name) and own[name] != usual[name]]
    if changed:
        return f"not verified with {', '.join(changed)}"
    is_known = known.verified != Preset.verified and config.run.total_steps != meant.run.total_steps
    return f"with total_steps {meant.run.total_steps:,}: {known.verified}" if is_known else known.verified


def announce(config: TrainConfig, interface: "Interface") -> None:
    """Say what begins, how it is carried out, and what will not come to pass."""
    print(f"{config.algo} on {config.env}: {describe(config)}", flush=True)
    remark(config, interface)


def note(words: str) -> None:
    """Tell the user beside what is printed of the run."""
    print(words, file=sys.stderr, flush=True)


def run_all(config: TrainConfig, seeds: Sequence[int]) -> int:
    """Train from each seed in turn, and print what they reach together; 1 if one failed."""
    from drivetrain.train.runs.seeds import SeedsResult, run_seeds, seed_configs

    configs = seed_configs(config, seeds)
    folder = Path(configs[0].run.run_dir or "").parent
    outcomes: list[Outcome] = []

    def began(config: TrainConfig, interface: "Interface") -> None:
        if not outcomes:
            announce(config, interface)
        print(f"seed {config.run.seed} ({len(outcomes) + 1} of {len(configs)}): {config.run.run_dir}", flush=True)

    try:
        for outcome in run_seeds(configs, began=began):
            outcomes.append(outcome)
            if outcome.error is not None:
                complain(outcome.seed, outcome.error)
    finally:  # after Ctrl-C, too
        if outcomes:
            print(SeedsResult(run_dir=folder, outcomes=tuple(outcomes)).table())
    return 1 if any(outcome.error for outcome in outcomes) else 0


def complain(seed: int, error: Exception) -> None:
    """Say at once why a seed's run ended; what was not raised on purpose comes with its traceback."""
    from drivetrain.train.runs.seeds import sentence

    if not isinstance(error, DrivetrainError):
        traceback.print_exception(error)
    note(f"seed {seed} failed: {sentence(error)}")


def sized(config: TrainConfig) -> "Sizing":
    """Numbers for what is left to us, and why: to be shown, and before a sequential run prepares this process."""
    from drivetrain.train.runs.requirements import describe as interface_of
    from drivetrain.train.sizing.choose import settle

    reserve_devices(config)
    return settle(config, interface_of(config))


def require_named(config: TrainConfig) -> None:
    """Refuse to show settings for an environment that there is none of; it is not made."""
    from drivetrain.train.environments.making import require_named

    require_named(config.env, config.environment)


@contextlib.contextmanager
def printed_aside() -> Generator[None]:
    """Send what environments print when they are made to standard error, from C too: what is shown is read as JSON."""
    sys.stdout.flush()
    stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        ctypes.CDLL(None).fflush(None)  # C keeps what it prints until the program's end, unless it is for a terminal
        os.dup2(stdout, 1)
        os.close(stdout)


def show(result: "Result", *, on_policy: bool = False) -> None:
    """Print what a finished run has achieved, and where its time went.

    Args:
        result: Of the run.
        on_policy: Leave out what such a run has not: a ratio that is kept, and a replay.
    """
    from drivetrain.train.evaluate import interval
    from drivetrain.train.telemetry import time_report
    from drivetrain.train.telemetry.recording import never_failing

    low, high = interval(result.returns)
    nbytes, replay_nbytes = size(result.checkpoint_nbytes), size(result.replay_nbytes)
    ratio = "" if on_policy else f", {result.update_ratio:.4f} updates per step after warm-up"
    of_replay = "" if on_policy else f", of which replay {replay_nbytes}"
    checkpoint = f"{nbytes}{of_replay}" if result.checkpoint_nbytes else "none could be written"
    print(
        f"mean return {reward(result.mean_return)} (95% interval {reward(low)}..{reward(high)}) of the best policy "
        f"over {len(result.returns)} evaluation episodes{succeeded(result.success_rate)}\n"
        f"{result.steps_per_s:,.0f} environment steps/s, {result.updates_per_s:,.0f} updates/s{ratio}\n"
        f"checkpoint: {checkpoint}\n"
        f"run directory: {result.run_dir}",
        flush=True,
    )
    with never_failing():
        time_report.show(result.run_dir, console())


def prepare_this_process(config: TrainConfig) -> None:
    """Where this process computes itself, whose frameworks load later: as the children of a run are prepared.

    It does for all of a sequential run, and for a deterministic run's switch to stored embeddings.
    """
    if config.num_actors > 0 and not (config.run.deterministic and config.switch_at is not None):
        return
    os.environ.update(one_thread_environment(os.environ, num_devices=config.num_learners))
    prepare_computation()


def parse(argv: list[str]) -> TrainConfig:
    """The configuration a command line asks for; flags change the environment's preset."""
    argv, name = _preset_in(argv)
    helps = "-h" in argv or "--help" in argv
    names = list(itertools.takewhile(lambda word: not word.startswith("-"), argv[:2]))
    if len(names) < 2 and not helps:
        raise InvalidInput(
            "expected an algorithm and an environment first, as `drivetrain train dqn CartPole-v1`; algorithms are "
            f"{_ALGORITHMS}; `drivetrain train --help` says more"
        )
    algo, env = [*names, *("dqn", "ENV")[len(names) :]]
    base = preset(algo, env, name)
    switches = [flag for flag in (word.replace("_", "-") for word in argv) if flag in _ATARI]
    if switches[-1:] == ["--no-atari"]:
        base = base.override(atari=False)  # flags are read one by one: what a preset has for it would stay
    parts: dict[str, Any] = {**({"command": _Command()} if helps else {}), **{p: getattr(base, p) for p in base.parts}}
    # Each part is a field of its own type, so that --help lists what the algorithm has and nothing else.
    types: list[tuple[str, type[Any]]] = [(part, type(config)) for part, config in parts.items()]
    flags_of: Any = dataclasses.make_dataclass("Flags", types, frozen=True, kw_only=True)
    flags = read_flags(
        flags_of,
        ["--help"] if helps else argv[2:],
        prog="drivetrain train ALGO ENV",
        meant=lambda name: called_elsewhere(name, base.owners),
        beside=_BESIDE,
        description=_DESCRIPTION.format(algo, f" on {env}" if len(names) > 1 else ""),
        default=flags_of(**parts),
        config=(tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes),
    )
    return dataclasses.replace(base, **{part: getattr(flags, part) for part in base.parts})


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Command:
    """Beside the settings: what they start from, and what is done with them."""

    # For --help alone: `run` takes these out of the words before the settings are read.
    preset: str | None = None
    """Start from a variant of the algorithm, as rainbow for dqn."""
    seeds: str | None = None
    """Train from each of these seeds, one after the other, and sum up: 1..5, or 1,2,5. In place of --seed."""
    show_config: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print the settings, and do nothing."""


_DESCRIPTION = f"""Train a policy with parallel actors and a learner.

ALGO: {_ALGORITHMS}. `drivetrain train ALGO --help` shows its settings.

ENV: an id of Gymnasium's, as CartPole-v1 (`drivetrain envs` lists them); of your own module:Id, or module:function; of
compiled simulators drivetrain/NAME, drivetrain/module:Name, or gymnax/NAME.

Below: the settings of {{}}{{}}, with their defaults."""


def _preset_in(argv: list[str]) -> tuple[list[str], str | None]:
    """The words without the variant that they name; and its name."""
    return _taken_out(argv, _PRESET, "a name after it, as rainbow for dqn")


def _taken_out(argv: list[str], flag: str, expected: str) -> tuple[list[str], str | None]:
    """The words without `flag VALUE` or `flag=VALUE`, which is no setting of a run; and VALUE."""
    index = next((index for index, word in enumerate(argv) if word.partition("=")[0] == flag), None)
    if index is None:
        return argv, None
    value, num_words = argv[index].partition("=")[2], 1
    if argv[index] == flag:
        value, num_words = (argv[index + 1] if index + 1 < len(argv) else ""), 2
    if not value:
        raise InvalidInput(f"{flag}: expected {expected}")
    rest = argv[:index] + argv[index + num_words :]
    numbers = [*itertools.takewhile(lambda word: word[:1].isdigit(), [value, *argv[index + num_words :]])]
    if len(numbers) > 1:  # 1 2 3, or 1..3 5
        raise InvalidInput(f"{flag}: expected one word, got {' '.join(numbers)}: write {','.join(numbers)}")
    if any(word.partition("=")[0] == flag for word in rest):
        raise InvalidInput(f"{flag}: expected it once")
    return rest, value


def describe(config: TrainConfig) -> str:
    """One line on how the run is carried out."""
    if config.num_actors == 0:
        return "sequential, in one process"
    actors = counted(config.num_actors, "actor")
    chosen = " (chosen for the cores of this machine)" if config.run.num_actors == "cores" else ""
    environments, learners = counted(config.envs_per_actor, "environment"), counted(config.num_learners, "learner")
    return f"{actors} x {environments}{chosen}, {learners}, 1 evaluator"
