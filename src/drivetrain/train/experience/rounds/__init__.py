"""Deterministic runs: a seed fixes every bit, however many actor processes share the environments.

    round = one step of all environments (on-policy: a rollout)

    actors --their columns--> RolloutBuffer --a whole round--> Rounds --rows, in order--> replay
      ^                                                          `--> the present episodes -----> checkpoint
      `---- leave for the next round, once all updates due are done and published -- learner

    exploration.py   where an environment's chance comes from: one stream of the actor, or one for each
    episodes.py      Episodes: the actions of the present episode of every environment
    windows.py       Windows: the last steps, of which the replay has no whole rows yet
    rounds.py        Rounds: takes round after round; saved and restored
    returning.py     brings an environment back to where its episode was

The ledger keeps the order (`Ledger.wait_for_round`, `release`); design/training-deterministic.md says why.
"""
