"""Gymnasium environments as the trainer sees them, and what it asks of them.

spaces.py        their spaces -> the trainer's interface (interface.py), and which algorithm takes which
environment.py   Environment: one of them, its observations and actions in the form that is stored
sim_params.py    the parameters of simulators that are other than usual, or drawn for each environment
unmade.py        why one cannot be made, and what is to be done about it
faults.py        what they may not return or raise, in sentences
"""
