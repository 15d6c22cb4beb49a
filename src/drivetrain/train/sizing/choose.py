"""Settles what is left to us: measures, judges every allowed setting by the model, takes the best, and says why.

acting; updating by 1, 2, 4 ... learners -> Measurements -> estimate(each setting) -> the fewest processes
within a few per cent of the best
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from drivetrain.core.errors import InvalidInput, RunError
from drivetrain.core.machine import num_cores
from drivetrain.core.words import counted, duration
from drivetrain.train.config import TrainConfig
from drivetrain.train.interface import Interface
from drivetrain.train.learner.devices import gains, require_devices, require_room_for_network
from drivetrain.train.ledger.rules import Rules
from drivetrain.train.networks import length_of
from drivetrain.train.policies.policy import policy_network
from drivetrain.train.sizing.measure import Question, ask
from drivetrain.train.sizing.model import Estimate, Measurements, Updating, estimate

_TIE = 0.95  # of the best: what measuring cannot tell apart goes to fewer processes
_WAITING = 0.1  # share of a step from which on more actors than cores are looked at
_MOST_WAITING = 16  # actors then, or as many as there are cores
_PAYS = 0.95  # of the time with half as many learners, above which still more of them are not tried
_MIN_RUN = 1e12  # updates times rows times parameters from which on measuring is worth its seconds: minutes of a core


class Sizing(NamedTuple):
    """What was chosen."""

    config: TrainConfig
    """Resolved: numbers in place of "auto"."""
    reason: str | None
    """Why, in one line; None where nothing was measured."""


def settle(config: TrainConfig, interface: Interface) -> Sizing:
    """Settle what is "auto", and the number of learners where that is left to us and measuring is worthwhile.

    A run that has not asked for it begins with one learner where measuring fails, and tells what is wrong with it
    itself.

    Raises:
        InvalidInput: As `size`.
        RunError: As `size`, where something is "auto".
    """
    asked = config.is_open
    if worthwhile(config, interface):
        config = config.override(num_learners="auto")
    if not config.is_open:
        return Sizing(config, None)
    try:
        return size(config, interface)
    except RunError as error:
        if asked:
            raise
        return Sizing(config.override(num_learners=1), f"1 learner, as {error}")


def worthwhile(config: TrainConfig, interface: Interface) -> bool:
    """Whether several learners may gain more than measuring takes."""
    if not config.weighs_learners or num_cores() == 1:
        return False
    num_parameters = length_of(policy_network(config, interface))
    num_updates = Rules.of(config).due(config.total_steps)
    return gains(config, num_parameters) and num_updates * config.batch_size * num_parameters >= _MIN_RUN


def size(config: TrainConfig, interface: Interface) -> Sizing:
    """Measure for a moment, and settle what is "auto".

    A sequential run (num_actors 0) is never chosen: where it is as good, one actor has time-outs, restarts and an
    evaluator beside it.

    Args:
        config: The run's; `is_open`.
        interface: What its environments look like.

    Raises:
        InvalidInput: No number of actors is allowed, or the learners asked for, or the network, are unfit.
        RunError: The environment or the learner failed while it was measured.
    """
    cores, num_parameters = num_cores(), length_of(policy_network(config, interface))
    require_room_for_network(num_parameters)
    require_devices(config.override(oversubscribe=True), num_parameters, cores)
    possible = list(allowed(config, actor_counts(config, cores, waits=True), (config.num_learners,), cores))
    if not possible:
        possible = [_with(config, 1, config.num_learners, cores)]  # raises the sentence that says why
    open_to = config.run.num_learners == "auto" and gains(config, num_parameters)
    updates = _updates(possible[0], interface, cores, open_to=open_to)
    measured = _acting(possible, interface, updates, cores)
    waits = measured.step_s - measured.step_cpu_s > _WAITING * measured.step_s
    counts = actor_counts(config, cores, waits=waits)
    best = choose(list(allowed(config, counts, tuple(updates), cores)) or possible, measured)
    return Sizing(best.config, describe(best, measured))


def actor_counts(config: TrainConfig, cores: int, *, waits: bool) -> Sequence[int]:
    """Numbers of actors to look at: beyond the cores only where environments wait."""
    if config.run.num_actors != "auto":
        return (config.num_actors,)
    return range(1, (max(cores, _MOST_WAITING) if waits else cores) + 1)


def allowed(config: TrainConfig, actors: Sequence[int], learners: Sequence[int], cores: int) -> Iterator[TrainConfig]:
    """The settings among these that the configuration's own conditions allow, resolved."""
    for num_learners in learners:
        for num_actors in actors:
            try:
                yield _with(config, num_actors, num_learners, cores)
            except InvalidInput:
                continue


def _with(config: TrainConfig, num_actors: int, num_learners: int, cores: int) -> TrainConfig:
    """Oversubscribed where that is what it takes: the model knows what learners lose by it."""
    beside = 0 if config.on_policy else num_actors  # on-policy actors wait while learners work
    crowded = num_learners > 1 and beside + num_learners > cores
    oversubscribe = config.run.oversubscribe or crowded
    changed = config.override(num_actors=num_actors, num_learners=num_learners, oversubscribe=oversubscribe)
    return changed.resolved()


def choose(settings: Iterable[TrainConfig], measured: Measurements) -> Estimate:
    """The setting with the fewest processes among those as good as the best; then the one with the fewest learners.

    Args:
        settings: Resolved; at least one.
        measured: Has what `estimate` needs for each.
    """
    estimates = [estimate(config, measured) for config in settings]
    best = max(each.steps_per_s for each in estimates)
    as_good = [each for each in estimates if each.steps_per_s >= _TIE * best]
    return min(as_good, key=lambda each: (each.num_processes, each.config.num_learners))


def describe(best: Estimate, measured: Measurements) -> str:
    """The reasoning in one line."""
    config = best.config
    envs = config.envs_per_actor
    waiting = round(100 * (1 - measured.step_cpu_s / measured.step_s)) if measured.step_s > 0 else 0
    by = ", ".join(f"{duration(update.wall_s)} by {count}" for count, update in measured.updates.items())
    return (
        f"{best.bound}-bound: {counted(config.num_actors, 'actor')}, {counted(config.num_learners, 'learner')}, "
        f"for about {best.steps_per_s:,.0f} environment steps/s (measured: a step {duration(measured.step_s)}"
        f"{f', {waiting}% of it waiting' if waiting >= 100 * _WAITING else ''}; acting on "
        f"{counted(envs, 'environment')} {duration(measured.act_s[envs])}; an update {by}; "
        f"{float(Rules.of(config).ratio):.3g} updates per step; {counted(measured.cores, 'core')})"
    )


def _updates(config: TrainConfig, interface: Interface, cores: int, *, open_to: bool) -> dict[int, Updating]:
    """What an update takes with 1, 2, 4, ... learners, as long as they gain; or with as many as were asked for."""
    if Rules.of(config).ratio == 0:
        return {config.num_learners: Updating(0.0, 0.0)}
    updates: dict[int, Updating] = {}
    num_learners, most = config.num_learners, config.num_learners
    while num_learners <= most and (settings := list(allowed(config, (config.num_actors,), (num_learners,), cores))):
        answer = ask(Question(what="updating", config=settings[0], interface=interface, asked_by=os.getpid()))
        update = updates[num_learners] = Updating(answer["wall_s"], answer["cpu_s"])
        half = updates.get(num_learners // 2)
        if not open_to or (half and update.wall_s > _PAYS * half.wall_s):
            break
        most = answer["num_gpus"] or cores
        num_learners *= 2
    return updates


def _acting(
    possible: Sequence[TrainConfig], interface: Interface, updates: dict[int, Updating], cores: int
) -> Measurements:
    """What a step and acting take, beside what updates do."""
    sizes = tuple(sorted({config.envs_per_actor for config in possible}))
    smallest = min(possible, key=lambda config: config.envs_per_actor)
    answer = ask(Question(what="acting", config=smallest, interface=interface, sizes=sizes, asked_by=os.getpid()))
    return Measurements(
        step_s=answer["step_s"],
        step_cpu_s=answer["step_cpu_s"],
        act_s={int(size): seconds for size, seconds in answer["act_s"].items()},
        updates=updates,
        cores=cores,
    )
