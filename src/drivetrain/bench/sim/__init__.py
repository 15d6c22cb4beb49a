"""`drivetrain bench sim`: do the engines take XLA's steps, and how many steps does a second of CPU time give.

scene        what is simulated: an environment, N, K, what is recorded
plan         which scenes, who takes part in each, how long
peers        each contender one file; a process of its own that opens scenes and is asked in turn
rounds       everybody at a scene, in turn
equality     engines against XLA: step by step, open loop, and random words; a process of its own
cases        samples as tables, with the targets beside
paper        curves over N, K and `Knob`: where a ratio comes from
"""
