"""`drivetrain bench learning`: whether our algorithms learn as well as Stable-Baselines3's, and on compiled simulators
as well as through Gymnasium.

    contests.py: cases (what, at which settings) x sides.py (who) x seeds -> run.py: a fresh process each
      -> records.py (one record per finished run, in a kept file) -> differences.py -> page.py

Runs accumulate: what the file holds is not run again, so the command can be stopped at any moment.
Speed is not measured here (`drivetrain bench train` does that), so a busy machine spoils nothing.
"""
