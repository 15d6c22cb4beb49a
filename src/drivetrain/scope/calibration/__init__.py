"""What recording costs, found while the program runs and carried into every number.

yardstick    each process, when it starts to record: what a span costs alone
regression   stretches of steps with instruments muted at random (trace/blocks.py) -> cost of a span, with its error
prior        what earlier programs said on this machine
costs        all three together: one cost per process and instrument
unseen       what recording may change beside them, as far as blocks do not exclude it
behaviour    whether muting changed what the program did, and then nothing can be corrected
compact      cost of every span -> time lines without it, waits moved with what they waited for
"""
