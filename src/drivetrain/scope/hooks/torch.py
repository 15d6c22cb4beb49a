"""PyTorch: forward passes, backward passes, optimizers.

A forward pass is one span around the outermost module. Where operators are recorded (torch_operators.py) it is
Python's time, as optimizers are, and operators in it and anywhere else are native. Where they are not, it is of class
`backend` whole, and operators that the program calls outside modules stay in the class around them. What a forward
pass was for is found afterwards (scope/rules.py).
"""

from types import ModuleType
from typing import Any

from drivetrain.scope.hooks import torch_operators
from drivetrain.scope.hooks.patch import for_subclasses, record
from drivetrain.scope.sites import FORWARD, Site

UPDATED = 2  # StepKind of the recorder


def install(module: ModuleType) -> None:
    """Hook modules, the autograd engine and all optimizers there are and will be."""
    torch: Any = module
    around = "python" if torch_operators.install() else "backend"
    record(torch.nn.Module, "__call__", Site("torch forward", FORWARD, around), collapses=True)
    record(torch.Tensor, "backward", Site("Tensor.backward", "backpropagation", "python"))
    # What both backward() and autograd.grad() end in.
    record(torch.autograd, "_engine_run_backward", Site("torch backward", "backpropagation", "backend"))
    for_subclasses(torch.optim.Optimizer, lambda cls: _optimizer(cls, around))


def _optimizer(cls: type, time_class: str) -> None:
    record(cls, "step", Site(f"{cls.__qualname__}.step", "optimizer", time_class), ends_step=UPDATED)
    record(cls, "zero_grad", Site("zero_grad", "optimizer", time_class))
