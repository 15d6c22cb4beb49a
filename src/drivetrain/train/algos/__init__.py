"""The algorithms, one file each, and the mathematics that they share.

dqn.py  ddpg.py  td3.py  sac.py  ppo.py    make(config, interface) -> a record of pure functions (learner/)
critics.py                                 networks and Q(s, a) of those with an actor and critics
losses.py  advantages.py                   formulae of JAX arrays
"""
