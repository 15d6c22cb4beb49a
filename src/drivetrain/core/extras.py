"""Optional dependencies: which extra brings which distribution, and the sentence that says so.

Every module imports its dependencies plainly, at the top. Where one is absent, Python raises
ModuleNotFoundError: the command line asks `missing_extra` for the remedy, and so do, by `naming_extra`, functions that
import what not everybody has.
"""

from collections.abc import Generator
from contextlib import contextmanager

from drivetrain.core.errors import MissingExtra

# extra -> {distribution: module}, as in pyproject.toml; tests/arch keeps the two equal.
EXTRAS: dict[str, dict[str, str]] = {
    "train": {
        "jax": "jax",
        "optax": "optax",
        "gymnasium": "gymnasium",
        "tensorboardX": "tensorboardX",
        "cloudpickle": "cloudpickle",
        "scipy": "scipy",
    },
    "atari": {"ale-py": "ale_py", "opencv-python-headless": "cv2"},
    "box2d": {"box2d": "Box2D", "pygame-ce": "pygame"},
    "mujoco": {"mujoco": "mujoco", "imageio": "imageio"},
    "plot": {"matplotlib": "matplotlib"},
    "video": {"av": "av", "pillow": "PIL", "pygame-ce": "pygame"},
    "wandb": {"wandb": "wandb"},
    "sim": {"jax": "jax"},
    "gymnax": {"gymnax": "gymnax", "six": "six"},
    "torch": {"torch": "torch"},
    "cuda": {"cuda-core": "cuda", "cuda-bindings": "cuda", "nvidia-cuda-nvrtc": "nvidia"},
    "scope": {"pyarrow": "pyarrow"},
    "cupti": {"nvidia-cuda-cupti": "nvidia", "nvidia-cuda-runtime": "nvidia", "nvidia-cuda-crt": "nvidia"},
    "bench": {
        "stable-baselines3": "stable_baselines3",
        "sbx-rl": "sbx",
        "cpprb": "cpprb",
        "flashbax": "flashbax",
        "tianshou": "tianshou",
        "torchrl": "torchrl",
    },
    "test": {
        "pytest": "pytest",
        "pytest-timeout": "pytest_timeout",
        "pytest-xdist": "xdist",
        "hypothesis": "hypothesis",
        "nvidia-cuda-nvdisasm": "nvidia",
    },
}


def install_command(extra: str) -> str:
    """The shell command that installs an extra."""
    return f'pip install "drivetrain[{extra}]"'


def missing_extra(error: ImportError, first: str | None = None) -> MissingExtra | None:
    """Translate a failed import into the sentence naming the extra; None when no extra brings it.

    Args:
        error: What `import` raised; its `name` is the dotted module that was not found.
        first: The extra to name where several bring it; None: the first of EXTRAS.
    """
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return None
    module = error.name.partition(".")[0]
    for extra in sorted(EXTRAS, key=lambda extra: extra != first):
        if module in EXTRAS[extra].values():
            return MissingExtra(f"this needs {module}, which is not installed: {install_command(extra)}")
    return None


@contextmanager
def naming_extra(first: str | None = None) -> Generator[None]:
    """Around imports: a module that is not installed is told with the extra that brings it.

    Args:
        first: The extra to name where several bring it, as for `missing_extra`.

    Raises:
        MissingExtra: Some extra brings the module; any other ImportError stays what it is.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise missing_extra(error, first) or error from error
