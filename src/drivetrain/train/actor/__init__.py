"""The actor's side: weights -> policy -> environments -> experience.

stepper.py   Stepper: what steps an actor's environments, as the actor's loop sees it
actor.py     Actor: Gymnasium environments, a step of each at a time; make_actor, whichever it is
fused/       FusedActor: compiled simulators, environments and policy in one kernel
"""
