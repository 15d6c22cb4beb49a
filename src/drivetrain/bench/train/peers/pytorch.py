"""What peers on PyTorch have alike: threads, and networks as the shared evaluator takes them."""

# The peer may be absent where types are checked.
# pyright: basic, reportMissingImports=false

import numpy as np
import torch

from drivetrain.bench.train.evaluation import Layers
from drivetrain.bench.train.job import Job


def use_threads(job: Job) -> None:
    """As many as the job says; SBX keeps Stable-Baselines3's buffers, which go through torch, too."""
    if job.threads is not None:
        torch.set_num_threads(job.threads)


def layers_of(*modules: torch.nn.Module) -> Layers:
    """Kernels, turned to [in, out], and biases of the dense layers, in their order."""
    dense = [layer for module in modules for layer in module.modules() if isinstance(layer, torch.nn.Linear)]
    return [(np.array(layer.weight.detach().numpy().T), np.array(layer.bias.detach().numpy())) for layer in dense]
