"""What will come to nothing in a run, by its settings, the kind of its actions and this CPU: said before it begins."""

import sys
from collections.abc import Iterator
from operator import eq, ne

from drivetrain.train._native import has_tiles
from drivetrain.train.config import TrainConfig
from drivetrain.train.config.presets import preset
from drivetrain.train.interface import BoxActions, Interface
from drivetrain.train.learner.devices import has_cpus_only
from drivetrain.train.ledger.rules import Rules

_MEANS_NOTHING = {
    "alpha": ("prioritized", eq, False, "without prioritized"),
    "beta": ("prioritized", eq, False, "without prioritized"),
    "hindsight_strategy": ("hindsight_goals", eq, 0, "without hindsight_goals"),
    "value_min": ("num_atoms", eq, 1, "without num_atoms above 1"),
    "value_max": ("num_atoms", eq, 1, "without num_atoms above 1"),
    "noise_scale": ("noisy", eq, False, "without noisy"),
    "target_entropy": ("learn_temperature", eq, False, "without learn_temperature"),
    "huber_delta": ("num_atoms", ne, 1, "with num_atoms above 1, whose loss is the cross entropy"),
    "adam_epsilon": ("optimizer", ne, "adam", "with another optimizer"),
}
"""Settings that mean nothing where another has a value, or any other: which one, the value, and how that is said."""

_OF_FIRST_NETWORKS = ("initial_temperature", "initial_log_std", "noise_scale")
"""Settings that mean nothing but for networks that are drawn; the temperature's holds where it is not learned."""


def remark(config: TrainConfig, interface: Interface) -> None:
    """Tell the user, beside what is printed of the run, what will come to nothing in it."""
    for sentence in remarks(config, interface):
        sys.stderr.write(f"{sentence}\n")


def remarks(config: TrainConfig, interface: Interface) -> list[str]:
    """What will come to nothing in a run, in a sentence each."""
    return [
        *_unlearned(config),
        *_unfrozen(config),
        *_unused(config),
        *_taken_over(config),
        *_of_one_goal(config),
        *_unspread(config, interface),
        *_unaided(config),
    ]


def _unlearned(config: TrainConfig) -> Iterator[str]:
    rules = Rules.of(config)
    if rules.due(config.total_steps) == 0 < rules.ratio:  # the rules' steps may end at a switch
        yield (
            f"nothing will be learned: there is no update before the end of {config.total_steps:,} steps, with "
            f"warmup_steps {rules.warmup_steps:,} and {float(rules.ratio):.3g} updates per step"
        )


def _unfrozen(config: TrainConfig) -> Iterator[str]:
    after = None if config.on_policy else config.updates.freeze_encoder_after
    if after is not None and config.switch_at is None:
        yield (
            f"nothing will be frozen: the run ends after {config.total_steps:,} steps, freeze_encoder_after is "
            f"{after:,}"
        )


def _unused(config: TrainConfig) -> Iterator[str]:
    values, usual = config.settings, TrainConfig.default(config.algo, config.env).settings
    for name, (needed, compare, value, how) in _MEANS_NOTHING.items():
        if name in values and values[name] != usual[name] and compare(values[needed], value):
            temperature = name == "alpha" and "initial_temperature" in values
            remedy = "; the temperature is initial_temperature" if temperature else ""
            yield f"{name} {values[name]} means nothing {how}{remedy}"


def _taken_over(config: TrainConfig) -> Iterator[str]:
    """Of settings by which networks begin, where they are another run's; not those that the environment's own have."""
    if config.run.init_from is None:
        return
    values, usual = config.settings, [base(config.algo, config.env).settings for base in (TrainConfig.default, preset)]
    for name in _OF_FIRST_NETWORKS:
        is_used = name == "initial_temperature" and not values.get("learn_temperature")
        if name in values and not is_used and all(values[name] != settings[name] for settings in usual):
            yield f"{name} {values[name]} means nothing beside init_from, whose run says what there is to begin with"


def _of_one_goal(config: TrainConfig) -> Iterator[str]:
    goals = 0 if config.on_policy else config.replay.hindsight_goals
    if goals > 1 and config.replay.hindsight_strategy == "final":
        yield f"hindsight_goals {goals} means no more than 1 with hindsight_strategy final, which has one goal"


def _unspread(config: TrainConfig, interface: Interface) -> Iterator[str]:
    name = "initial_log_std"
    value, usual = config.settings.get(name), TrainConfig.default(config.algo, config.env).settings.get(name)
    if value != usual and not isinstance(interface.actions, BoxActions):
        yield f"{name} {value} means nothing without real-valued actions"


def _unaided(config: TrainConfig) -> Iterator[str]:
    """Of rounded products, which are there to be faster, on CPUs that do not multiply such numbers themselves."""
    if config.run.precision == "bfloat16" and has_cpus_only(config) and not has_tiles():
        yield (
            "precision bfloat16 makes updates slower here than float32: learners compute on this CPU, which does not "
            "multiply such numbers itself (by Intel's AMX: amx_bf16 in lscpu, and DRIVETRAIN_SIMD unset)"
        )
