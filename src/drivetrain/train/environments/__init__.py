"""Gymnasium environments as the trainer sees them, and what it asks of them.

spaces.py        their spaces -> the trainer's interface (interface.py), and which algorithm takes which
environment.py   Environment: one of them, its observations and actions in the form that is stored
making.py        what a name, or what is given, makes: preprocessed, frames stacked
lives.py         lives of Atari's games as episodes of training
goals.py         what steps with other goals would have been rewarded with
sim_params.py    the parameters of simulators that are other than usual, or drawn for each environment
unmade.py        why one cannot be made, and what is to be done about it
faults.py        what they may not return or raise, in sentences
watching.py      WatchClock: for how long calls of them go on
"""
