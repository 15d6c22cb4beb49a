"""The learner's side: experience -> updates -> weights.

learner.py      Learner: draws from the replay, updates, writes priorities back; make_learner, whichever it is
on_policy/      the same for rollouts
learned.py      Learned: what a run has learned so far, for checkpoints and for actors
updates.py      Algorithm, the record of functions that an off-policy algorithm is; U updates in one compiled call
sharing.py      Learners: several devices that share each batch
devices.py      which devices these are
compilation.py  where compiled updates are kept
optimizers.py   Adam in one pass, or the user's own
states.py       the learner's state as named arrays, and back
divergence.py   numbers that are none end the run
"""
