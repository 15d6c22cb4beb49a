"""What session.json says of how a session is kept: whoever reads it goes by the same words as whoever wrote it."""

FORMAT = 2
WALL_CLOCK = "wall_clock_minus_monotonic_ns"
"""What others' times of the wall clock are ahead of ours."""
TOTALS = "totals"
"""Under "keeps": sums in place of events."""
BOOT = "boot_id"
"""Which machine, since it was started: its monotonic clock is that of no other."""
