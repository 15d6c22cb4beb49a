"""`drivetrain bench gpu`: all that only a machine with an NVIDIA GPU can show, by one command for a short loan.

plan         the parts, each with the seconds that it may take; those that are done already are not done again
tests        tests marked `gpu`, of the checkout
recording    a small program, recorded: the fixture that tests without a GPU read ever after
kernels      sums of kernel times beside torch.profiler's, which has them from CUPTI as well
accuracy     what recording adds to programs that use the GPU, and how near the corrected time is
held_out     the same for one recording
simulators   steps per second of the engine cuda, beside XLA on the same GPU
survey       RL-Scope's survey, of the loads that its claims about GPUs are of
"""
