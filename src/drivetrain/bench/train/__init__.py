"""`drivetrain bench train`: our training against SB3's, SBX's and CleanRL's.

The way of a number:

    command.py (options) -> rounds.py (interleaved seeds) -> run.py (one fresh process per run)
                                                              `-> peers/RIVAL.py -> Outcome
            `-> cases.py (Outcomes -> Cases) -> report.py (JSON) -> table.py (Markdown)
"""
