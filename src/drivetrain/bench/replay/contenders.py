"""Who takes part in `drivetrain bench replay`."""

from drivetrain.bench.process import Rival

PEER_INSTALL = 'pip install torch==2.13.0 "drivetrain[bench]"'


def rival(name: str, module: str, *requires: str, install: str = PEER_INSTALL, form: str = "") -> Rival:
    """A contender of this bench."""
    module = f"drivetrain.bench.replay.peers.{module}"
    return Rival(name=name, module=module, requires=requires, install=install, form=form)


OURS = rival("ours", "ours", install='pip install "drivetrain"')
OURS_ALL_CORES = rival("ours", "ours", install='pip install "drivetrain"', form="all cores")
OURS_BY_DEFAULT = rival("ours, by default", "ours", install='pip install "drivetrain"', form="by default")
FLOOR = rival("floor", "floor", install='pip install "drivetrain"')
CPPRB = rival("cpprb", "cpprb_per", "cpprb")
TIANSHOU = rival("Tianshou", "tianshou_per", "tianshou")
TORCHRL = rival("TorchRL", "torchrl_per", "torch", "torchrl")
FLASHBAX = rival("Flashbax", "flashbax_per", "jax", "flashbax")
SB3 = rival("SB3 (uniform)", "sb3_uniform", "torch", "stable_baselines3")
NUMPY = rival("NumPy", "numpy_per", install='pip install "drivetrain"')

PEERS = (CPPRB, TIANSHOU, TORCHRL, FLASHBAX, SB3, NUMPY)

TREES = (OURS, CPPRB, TIANSHOU, TORCHRL, NUMPY)  # whose tree can be used alone
SHARING = (OURS, CPPRB, TORCHRL)  # whose buffer several threads or processes can use

DISTRIBUTIONS = (
    "numpy",
    "cpprb",
    "tianshou",
    "numba",
    "torchrl",
    "tensordict",
    "torch",
    "flashbax",
    "jax",
    "jaxlib",
    "stable-baselines3",
)
