"""`drivetrain bench scope --survey`: RL-Scope's findings (MLSys 2021, section 4) looked for in today's software.

loads      what is run: algorithms x simulators x frameworks, and programs of several processes
outcome    one recorded run: shares of the operations once the program has settled, time and transitions per step
claims     what RL-Scope found, what the runs say, and whether it still holds
survey     all of them in turn, and the report
page       the report as a page: claims first
"""
