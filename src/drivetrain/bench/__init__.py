"""The commands that make the tables of `docs/benchmarks`: ourselves against what users would pick.

    learning/ whole training runs: the returns they reach; runs are kept, and speed does not matter
    train/    whole training runs: a fresh process per run, CPU-seconds until it is done
    scope/    what recording programs costs, and how near the corrected times are
    sim/      steps of simulators: a process per contender and case, asked in turn; and equality with XLA
    replay/   calls of microseconds: a process per contender, which stays and is asked in turn

    process.py (a rival's process) -> report.py (JSON) -> table.py (Markdown); machine.py (where)

Each rival is one file of a bench's `peers`, and so are we. On shared machines only ratios from one
run count, so every number of a case comes from one command, in interleaved order.
"""
