"""PyTorch: forward passes, backward passes, optimizers.

A forward pass is one span around the outermost module, of class `backend`: Python between the operators in it counts
as the framework's time. Operators that the program calls outside modules stay in the class around them. What a
forward pass was for is found afterwards (scope/rules.py).
"""

from types import ModuleType
from typing import Any

from drivetrain.scope.hooks.patch import for_subclasses, record
from drivetrain.scope.sites import FORWARD, Site

UPDATED = 2  # StepKind of the recorder


def install(module: ModuleType) -> None:
    """Hook modules, the autograd engine and all optimizers there are and will be."""
    torch: Any = module
    record(torch.nn.Module, "__call__", Site("torch forward", FORWARD, "backend"), collapses=True)
    record(torch.Tensor, "backward", Site("Tensor.backward", "backpropagation", "python"))
    # What both backward() and autograd.grad() end in.
    record(torch.autograd, "_engine_run_backward", Site("torch backward", "backpropagation", "backend"))
    for_subclasses(torch.optim.Optimizer, _optimizer)


def _optimizer(cls: type) -> None:
    record(cls, "step", Site(f"{cls.__qualname__}.step", "optimizer", "backend"), ends_step=UPDATED)
    record(cls, "zero_grad", Site("zero_grad", "optimizer", "backend"))
