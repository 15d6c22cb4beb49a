"""`drivetrain bench learners`: updates by two learners against the same updates by one.

command.py (options, cases) -> worker.py (a process for each form, asked in turn) -> Case -> report
"""
