"""Who takes part in `drivetrain bench sim`."""

from drivetrain.bench.process import Rival


def rival(name: str, module: str, *requires: str, install: str) -> Rival:
    """A contender of this bench."""
    return Rival(name=name, module=f"drivetrain.bench.sim.peers.{module}", requires=requires, install=install)


SIM, GYMNASIUM = 'pip install "drivetrain[gymnax]"', 'pip install "drivetrain[train]"'
OURS = rival("ours", "ours", "jax", install=SIM)
XLA = rival("our xla", "ours_xla", "jax", install=SIM)
NUMPY = rival("our numpy", "ours_numpy", "jax", install=SIM)
GYMNAX = rival("gymnax", "gymnax_xla", "gymnax", install=SIM)
MAKE = rival("gymnasium.make", "gymnasium_make", "gymnasium", install=GYMNASIUM)
SYNC = rival("SyncVectorEnv", "gymnasium_sync", "gymnasium", install=GYMNASIUM)
ASYNC = rival("AsyncVectorEnv", "gymnasium_async", "gymnasium", install=GYMNASIUM)
OWN = rival("Gymnasium's vector", "gymnasium_own", "gymnasium", install=GYMNASIUM)
ENVPOOL = rival("EnvPool", "envpool_vector", "envpool", "gymnasium", install="pip install envpool")

OURSELVES = (OURS, XLA, NUMPY)  # peers are all the others
EVERYBODY = (OURS, GYMNAX, OWN, ENVPOOL, MAKE, SYNC, ASYNC, XLA, NUMPY)
DISTRIBUTIONS = ("jax", "jaxlib", "numpy", "gymnax", "gymnasium", "envpool")
