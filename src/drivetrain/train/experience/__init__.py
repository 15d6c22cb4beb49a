"""What actors write and the learner learns from.

actor 0..A-1 --writers--> replay (on-policy: the rollout) --> learner

experience.py   a replay or a rollout: made as the run asks for, and refused where it does not fit
rollout.py      Rollout; RolloutBuffer, its memory shared between processes; writers into it
rounds/         deterministic runs: whatever the number of actors, the same rows in the same order
"""
