"""On-policy: rollouts of the newest weights, each learned from in one call and then overwritten.

    actor 0..A-1 --their environments' columns--> RolloutBuffer --whole rollout--> RolloutLearner --weights--> actors

    algorithm.py   OnPolicyAlgorithm, the record of functions that an algorithm is
    learner.py     RolloutLearner: state and compiled call

Actors, processes, ledger and supervision are those of off-policy runs: an actor is granted its part of a
rollout at a time, and the rollout after that once the learner has published the weights it gave.
"""
