"""The commands that make the tables of `docs/benchmarks`: ourselves against what users would pick.

    train.py (options) -> process.py (one fresh process per run) -> peers/RIVAL.py -> Outcome
            `-> cases.py (Outcomes -> Cases) -> report.py (JSON) -> table.py (Markdown)

Each rival is one file of `peers`, and so are we. On shared machines only ratios from one run
count, so every number of a case comes from one command, in interleaved order.
"""
