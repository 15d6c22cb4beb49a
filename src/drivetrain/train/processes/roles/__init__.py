"""What the child processes of a run do, one file for each role: `run(assignment)`, which launch.py calls.

actor        weights -> environments -> replay, rollout      while the ledger grants steps
learner      replay, rollout -> updates -> weights           as the ledger says that they are due
evaluator    weights -> episodes -> RUN/best                 now and then, and at the end
"""
