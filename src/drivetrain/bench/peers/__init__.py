"""One rival per file, each run in a fresh process: `python -m drivetrain.bench.peers.RIVAL JOB OUT`.

    process.py -> RIVAL.py: run(job, watch) -> Training -> entry.py -> Outcome

SB3 and SBX are no dependency of drivetrain, and where types are checked they may be absent.
"""
