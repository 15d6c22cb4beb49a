"""Sequences in readable Python: an episode as a list of steps, and windows as slices of it."""

from typing import Any

import numpy as np

from drivetrain.replay.reference import ReferenceReplay, add_step
from drivetrain.replay.reference_frames import Numbers, ReferenceChains
from drivetrain.replay.schema import DISCOUNT, INITIAL, MASK
from drivetrain.replay.sequences import Sequences


class ReferenceSequenceWriter:
    """The open episodes of `num_envs` environments: lists of (step, its frames)."""

    def __init__(self, replay: ReferenceReplay, num_envs: int, sequence: Sequences) -> None:
        self._replay, self._sequence = replay, sequence
        self._episodes: list[list[tuple[dict[str, Any], Numbers]]] = [[] for _ in range(num_envs)]
        self._begins = [0] * num_envs  # of the first window that is no row yet
        self._chains = ReferenceChains(replay.frames, num_envs) if replay.frames else None

    def add(self, **step: Any) -> None:
        """Add one step of every environment."""
        add_step(self._replay, self._chains, len(self._episodes), step, self._finished)

    def _finished(self, env: int, now: dict[str, Any], of_obs: Numbers, of_next: Numbers) -> list[dict[str, Any]]:
        """Take a step of one environment; the row that it completes, if any."""
        rows = list[dict[str, Any]]()
        episode, begin = self._episodes[env], self._begins[env]
        episode.append((now, [*of_obs, *of_next]))
        ended = bool(now["terminated"] or now["truncated"])
        if ended or len(episode) - begin == self._sequence.num_steps:
            rows.append(self._row(episode[begin:]))
            self._begins[env] += self._sequence.num_new_steps
        if ended:
            self._episodes[env], self._begins[env] = [], 0
        return rows

    def _row(self, window: list[tuple[dict[str, Any], Numbers]]) -> dict[str, Any]:
        row: dict[str, Any] = {"frames": [number for _, frames in window for number in frames]}
        for field in self._replay.schema.fields:
            if field.kind == INITIAL:
                row[field.name] = window[0][0][field.name]
                continue
            items = np.zeros(field.sampled_shape, field.dtype)
            for at, (step, _) in enumerate(window):
                if field.kind == MASK:
                    items[at] = True
                elif field.kind == DISCOUNT:
                    items[at] = 0.0 if step["terminated"] else self._replay.gamma
                else:
                    items[at] = step[field.name]
            row[field.name] = items
        if self._replay.initial_priority == "given":
            row["priority"] = window[0][0]["priority"]
        return row
