"""What recording costs, found while the program runs and carried into every number.

yardstick    each process, when it starts to record: what a span costs alone
blocks       stretches of steps with instruments muted at random (event_log_blocks.hpp) -> durations and counts
regression   blocks -> cost of a span in this program, with standard error
prior        what earlier programs said on this machine
costs        all three together: one cost per process and instrument
unseen       what recording may change beside them, as far as blocks do not exclude it
behaviour    whether muting changed what the program did, and then nothing can be corrected
compact      cost of every span -> time lines without it, waits moved with what they waited for
"""
