"""One rival per file, each run in a process of its own: `python -m drivetrain.bench.train.peers.RIVAL JOB OUT`.

    run.py -> RIVAL.py: run(job, watch) -> Training -> entry.py -> Outcome

SB3 and SBX are no dependency of drivetrain, and where types are checked they may be absent.
"""
