"""`drivetrain bench actors`: environment steps by more and more actors of slow environments, against linear.

command.py (options, counts) -> bench/sizing/trial.py (a run, ended after seconds) -> Case -> report
"""
