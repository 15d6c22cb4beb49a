"""`drivetrain bench replay`: calls of microseconds, of ours and of the buffers users would pick.

The way of a number:

    command.py (options) -> rounds.py (a group's contenders, in turn) -> worker.py (their processes)
                                         peers/RIVAL.py: a Store -> operations.py -> timing.py
            `-> cases.py (Timings -> Cases, with targets.py) -> report.py (JSON) -> table.py (Markdown)
"""
