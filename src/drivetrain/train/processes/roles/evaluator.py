"""The evaluator process: looks at the latest weights now and then, and at the end at the best."""

import time
from functools import partial

from drivetrain.train.evaluate import Selection, next_evaluation
from drivetrain.train.ledger.ledger import Ledger
from drivetrain.train.processes.reports import Reports
from drivetrain.train.processes.topology import Assignment, attach_weights
from drivetrain.train.run_dir.checkpoint import has_best_policy
from drivetrain.train.telemetry.recording import STARTING, WAITING, WEIGHTS

_POLL_S = 0.02


def run(assignment: Assignment, reports: Reports) -> None:
    """Evaluate until the run is over, and keep the best policy."""
    config = assignment.config
    with STARTING:
        ledger = Ledger.attach(assignment.ledger, assignment.rules, config.num_actors)
        weights = attach_weights(assignment)
        beat, rest = (partial(note, config.num_actors) for note in (ledger.note_work, ledger.note_rest))
        selection = Selection(
            config,
            assignment.interface,
            assignment.run_dir,
            complain=lambda sentence: reports.send({"note": sentence}),
            beat=beat,
            rest=rest,
        )
    num_steps, evaluated = assignment.evaluated or (0, -1)
    if not has_best_policy(assignment.run_dir):  # what a predecessor had no room for went with it
        evaluated = -1
    next_steps = next_evaluation(config, num_steps)
    while not ledger.stopping:
        counts = ledger.counts()
        finished = ledger.is_finished(counts)
        if finished or counts.committed >= next_steps:
            with WEIGHTS:
                weights.refresh()
            if weights.num_updates != evaluated:
                evaluated = weights.num_updates
                reports.send(selection.consider(weights.vector, counts.committed, evaluated))
            next_steps = next_evaluation(config, counts.committed)
        if finished:
            reports.send({"final_episodes": [] if ledger.rules.goes_on else selection.final()})
            break
        rest()
        if counts.committed < next_steps:
            with WAITING:
                time.sleep(_POLL_S)
    beat()  # environments may hang when they are closed, too
    selection.close()
    rest()
