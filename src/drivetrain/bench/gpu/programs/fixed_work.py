"""The same kernels each time, of tenths of a millisecond: FIXED_WORK.py ROUNDS.

What is measured begins after a pause in which the device rests, so that it can be told without any clock.
"""

# PyTorch may be absent where types are checked.
# pyright: basic, reportMissingImports=false

import sys
import time

import torch

PAUSE_S = 0.5


def main(num_rounds: int) -> None:
    """Warm up, rest, work."""
    torch.manual_seed(1)
    left, right = torch.randn(2, 4096, 4096, device="cuda")
    for rounds in (num_rounds, num_rounds):
        torch.cuda.synchronize()
        time.sleep(PAUSE_S)
        for _ in range(rounds):
            product = left @ right
            left.copy_(torch.tanh(product) * 0.5)
            right.mul_(0.999).add_(left, alpha=1e-3)
    torch.cuda.synchronize()


if __name__ == "__main__":
    main(int(sys.argv[1]))
