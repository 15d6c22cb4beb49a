"""The commands that make the tables of `docs/benchmarks`: ourselves against what users would pick.

    learning/ whole training runs: the returns they reach; runs are kept, and speed does not matter
    train/    whole training runs: a fresh process per run, CPU-seconds until it is done
    learners/ actors/ sizing/  parts of a run of ours: a second learner, more actors, what is chosen by itself
    scope/    what recording programs costs, and how near the corrected times are
    sim/      steps of simulators: a process per contender and case, asked in turn; and equality with XLA
    replay/   calls of microseconds: a process per contender, which stays and is asked in turn
    gpu/      all that only an NVIDIA GPU can show

    only.py, effort.py (what is asked for) -> process.py, worker.py (a rival's process: one run, or asked in turn)
      -> report.py (JSON) -> table.py (Markdown); kept.py (runs that need not be made again), machine.py (where)

Each rival is one file of a bench's `peers`, and so are we, or a form that a file has beside others. On shared machines
only ratios from one run count, so every number of a case comes from one command, in interleaved order.
"""
