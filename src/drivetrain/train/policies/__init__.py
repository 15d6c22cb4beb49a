"""What an agent does in an environment, by NumPy, and the networks that it does it with.

policy.py          Policy: observations -> actions, one kind for each algorithm
q_networks.py      DQN's family: Q(s, a) from its heads
stochastic.py      on-policy algorithms: a distribution over actions, whose parameters a network gives
distributions.py   the distributions, written once for NumPy and JAX
embeddings.py      encoders that are frozen after some steps: what they give is stored in place of images
"""
