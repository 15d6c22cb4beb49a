"""One contender per file, each in a process of its own that stays: `python -m ...peers.RIVAL DESCRIPTOR`.

    worker.py -> entry.py: serve(make_store, make_tree) -> RIVAL.py: a Store, a TreeStore -> timing.py

Each file says which settings of its library are used and why, and what its calls leave out. The
libraries are no dependency of drivetrain, and where types are checked they may be absent.
"""
