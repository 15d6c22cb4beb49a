"""What records of GPUs come to: which operation launched what, what threads did meanwhile, who waited for whom.

trace.gpu -> calls: classes of threads' time -> launches: an operation for each activity -> usage: totals
"""
