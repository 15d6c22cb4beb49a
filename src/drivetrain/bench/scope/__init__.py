"""`drivetrain bench scope`: what recording a program costs, and how near the corrected time comes to the truth.

contenders   the programs, and the tools beside ours
programs     reinforcement-learning programs that know nothing of any profiler; each writes its window
trial        one run of one program in a fresh process: alone, recorded, or under another tool
held_out     within a recorded run: the correction against muted blocks that it has not seen
own          what recording costs by itself: a span, and our trainer's record
rounds       all of them, in random order
kept         runs in a file, so that a bench that is stopped goes on
cases        inflation, bias, interval, size, time to report

What could run here and does not is named with the reason.
"""
