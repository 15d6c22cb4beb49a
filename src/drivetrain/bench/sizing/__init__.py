"""`drivetrain bench sizing`: what automatic sizing chose, against every setting tried in turn.

command.py (options, drawn environments) -> trial.py (a run, ended after seconds) -> Case -> report
environment.py: steps that compute or sleep for a given time
"""
