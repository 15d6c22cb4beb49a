from typing import Any

import numpy as np
from numpy.typing import NDArray

def forward(
    x: NDArray[np.float32], pieces: tuple[Any, ...], num_hidden: int, is_rectified: bool, /
) -> tuple[NDArray[np.float32], ...]: ...
def rectified_handlers() -> tuple[object, object, object]: ...
def narrow_handlers() -> tuple[object, object, object]: ...
