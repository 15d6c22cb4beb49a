"""Actors on compiled simulators: environments and policy in one kernel, a grant's steps in one call.

    weights, epsilon --> kernel: grant_length steps of envs_per_actor environments --> blocks --> replay, rollout

    layout.py      from what a simulator shows to what is stored, in the kernel and outside it
    acting.py      the policy in the kernel, and its parameters: exactly the network that learns
    kernel.py      the kernel of a run
    actor.py       FusedActor: calls it, counts episodes, writes the transitions
    episodes.py    returns and lengths of the episodes of a block
    evaluation.py  FusedEvaluator: all episodes of an evaluation at once, through the policy outside the kernel

Only imported where a run's `fused_engine` is set, since it imports JAX. design/training-fused.md says why it is so.
"""
