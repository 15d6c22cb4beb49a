"""A little of everything that a program does on a GPU with PyTorch: TRAINING.py STEPS.

Acting (a copy, kernels, a copy back), a step of a simulator that is none, an update whose backward pass runs in
autograd's own thread, and a CUDA graph.
"""

# PyTorch may be absent where types are checked.
# pyright: basic, reportMissingImports=false

import sys

import torch

from drivetrain import scope

BATCH_SIZE, NUM_OBS, NUM_ACTIONS = 256, 32, 8


def main(num_steps: int) -> None:
    """Act, simulate, update, replay the graph, in turn."""
    torch.manual_seed(1)
    network = torch.nn.Sequential(
        torch.nn.Linear(NUM_OBS, 256), torch.nn.ReLU(), torch.nn.Linear(256, NUM_ACTIONS)
    ).cuda()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    noise = torch.zeros(1024, 1024, device="cuda")
    graph = captured(noise)
    obs = torch.zeros(BATCH_SIZE, NUM_OBS)
    for _ in range(num_steps):
        with scope.operation("inference"), torch.no_grad():
            action = network(obs.cuda()).argmax(1).cpu()
        with scope.operation("simulation"):
            obs = torch.roll(obs, 1, 1) + action[:, None] / NUM_ACTIONS
        loss = torch.nn.functional.mse_loss(network(obs.cuda()), torch.ones(BATCH_SIZE, NUM_ACTIONS, device="cuda"))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with scope.operation("noise"):
            graph.replay()
        scope.mark_step()
    torch.cuda.synchronize()


def captured(noise: torch.Tensor) -> "torch.cuda.CUDAGraph":
    """A graph of three kernels."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):  # once before, as PyTorch's documentation asks
        noise.mul_(0.5).add_(1.0).sin_()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        noise.mul_(0.5).add_(1.0).sin_()
    return graph


if __name__ == "__main__":
    main(int(sys.argv[1]))
