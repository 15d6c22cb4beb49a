"""The oracle of automatic sizing: a run in simulated time, event by event, under the ledger's own rules.

Every actor computes, then waits, for each grant; the learner does what the ledger lets it take. Computing threads
share the cores evenly; several learners stop while an actor has one of their cores, and one actor at a time has it.
"""

import dataclasses
import math

from drivetrain.train.ledger.rules import Rules

_NUM_GRANTS = 40  # of each actor


def steps_per_s(config, measured):
    """Environment steps per second of a resolved configuration, without warm-up."""
    return _Simulated(config, measured).run()


class _Simulated:
    def __init__(self, config, measured):
        self.rules = dataclasses.replace(Rules.of(config), warmup_steps=0, total_steps=10**12)
        self.num_actors, self.num_learners, self.cores = config.num_actors, config.num_learners, measured.cores
        self.in_rollouts = self.rules.steps_per_rollout > 1
        self.grant = config.steps_per_grant
        calls = self.grant // config.envs_per_actor
        act_s, step_s = measured.act_s[config.envs_per_actor], self.grant * measured.step_s
        computing_s = self.grant * measured.step_cpu_s
        self.computing_s, self.waiting_s = computing_s + calls * act_s, step_s - computing_s
        self.update_s = measured.updates[config.num_learners].wall_s

    def run(self):
        self.computing, self.waiting, self.learning = {}, {}, 0.0
        self.done, self.granted, self.updates, self.taken = [0] * self.num_actors, 0, 0, 0
        now, mark, ratio = 0.0, None, float(self.rules.ratio)
        enough = _NUM_GRANTS * self.num_actors * self.grant + 4 * self.rules.updates_per_call / ratio
        while (committed := sum(self.done)) < enough:
            if mark is None and committed >= enough / 4:
                mark = (now, committed, self.updates)
            self._start()
            now += self._advance()
        # What the tolerance let actors gain on the learner meanwhile was no gain for the run.
        return min(committed - mark[1], (self.updates - mark[2]) / ratio) / (now - mark[0])

    def _start(self):
        for actor in range(self.num_actors):
            if actor in self.computing or actor in self.waiting:
                continue
            granted = self.num_actors * self.done[actor] if self.in_rollouts else self.granted
            if self.rules.grantable(self.grant, granted, self.updates):
                self.computing[actor] = self.computing_s
                self.granted += self.grant
        if not self.taken:
            committed = self.num_actors * min(self.done) if self.in_rollouts else sum(self.done)
            self.taken = self.rules.takeable(committed, self.updates)
            self.learning = self.taken * self.update_s

    def _advance(self):
        """On to the next event; how long that is."""
        threads = len(self.computing) + (self.num_learners if self.taken else 0)
        crowded = threads > self.cores
        stopped = crowded and self.taken and self.num_learners > 1 and self.computing
        acting = min(1.0, self.cores / threads) if threads else 1.0
        if stopped:  # as measured: beside a busy actor several learners are no faster than one
            acting = 1.0 / len(self.computing)
        learning = 0.0 if stopped else acting
        waits = [*self.waiting.values(), *(left / acting for left in self.computing.values())]
        if self.taken and learning:
            waits.append(self.learning / learning)
        passed = min(waits)
        for actor in list(self.waiting):
            self.waiting[actor] -= passed
            if self.waiting[actor] <= 1e-12:
                del self.waiting[actor]
                self.done[actor] += self.grant
        for actor in list(self.computing):
            self.computing[actor] -= passed * acting
            if self.computing[actor] <= 1e-12:
                del self.computing[actor]
                self.waiting[actor] = self.waiting_s
        if self.taken:
            self.learning -= passed * learning
            if self.learning <= 1e-12:
                self.updates, self.taken = self.updates + self.taken, 0
        assert math.isfinite(passed)
        return passed
