"""Who takes part in `drivetrain bench sim`."""

from drivetrain.bench.process import Rival

Variables = tuple[tuple[str, str], ...]
JAX_ON_CPU: Variables = (("JAX_PLATFORMS", "cpu"),)
ON_CPU: Variables = (*JAX_ON_CPU, ("CUDA_VISIBLE_DEVICES", ""))
"""Rates per CPU-second are of those who compute on the CPU, also where a GPU is."""


def rival(name: str, module: str, *requires: str, install: str, variables: Variables = ON_CPU, form: str = "") -> Rival:
    """A contender of this bench; `form` is the engine of ours, or the vector environment of Gymnasium's."""
    module = f"drivetrain.bench.sim.peers.{module}"
    return Rival(name=name, module=module, requires=requires, install=install, variables=variables, form=form)


SIM, GYMNASIUM = 'pip install "drivetrain[gymnax]"', 'pip install "drivetrain[train]"'
PYTORCH = 'pip install "drivetrain[sim,torch]"'
OURS = rival("ours", "ours", "jax", install=SIM, form="native")
XLA = rival("our xla", "ours", "jax", install=SIM, form="xla")
NUMPY = rival("our numpy", "ours", "jax", install=SIM, form="numpy")
TORCH = rival("our torch", "ours", "jax", "torch", install=PYTORCH, form="torch")
TORCH_COMPILED = rival("our torch, compiled", "ours", "jax", "torch", install=PYTORCH, form="torch_compiled")
GYMNAX = rival("gymnax", "gymnax_xla", "gymnax", install=SIM)
MAKE = rival("gymnasium.make", "gymnasium_make", "gymnasium", install=GYMNASIUM)
SYNC = rival("SyncVectorEnv", "gymnasium_vector", "gymnasium", install=GYMNASIUM, form="sync")
ASYNC = rival("AsyncVectorEnv", "gymnasium_vector", "gymnasium", install=GYMNASIUM, form="async")
OWN = rival("Gymnasium's vector", "gymnasium_vector", "gymnasium", install=GYMNASIUM, form="vector_entry_point")
ENVPOOL = rival("EnvPool", "envpool_vector", "envpool", "gymnasium", install="pip install envpool")
IN_SCAN = rival("ours in a scan", "ours_in_scan", "jax", install=SIM, form="native")
XLA_IN_SCAN = rival("our xla in a scan", "ours_in_scan", "jax", install=SIM, form="xla")
APART = rival("ours in two processes", "ours_apart", "jax", install=SIM)
JITTED = rival("ours jitted, called from Python", "ours_jitted", "jax", install=SIM)
VECTOR = rival("sim.make_vec", "ours_vector", "jax", "gymnasium", install=GYMNASIUM)

# The same learner around vector environments of several libraries: name in the table -> its process.
BENCH, WITH_POOL = 'pip install torch "drivetrain[bench]"', 'pip install torch envpool "drivetrain[bench]"'
OF_CLEANRL = {
    "ours": rival("CleanRL's loop on ours", "cleanrl_ours", "jax", "torch", "stable_baselines3", install=BENCH),
    "SyncVectorEnv": rival(
        "CleanRL's loop on SyncVectorEnv", "cleanrl_sync", "torch", "stable_baselines3", install=BENCH
    ),
    "EnvPool": rival(
        "CleanRL's loop on EnvPool", "cleanrl_envpool", "torch", "stable_baselines3", "envpool", install=WITH_POOL
    ),
}
OF_SB3 = {
    "ours": rival("SB3 on ours", "sb3_ours", "jax", "torch", "stable_baselines3", install=BENCH),
    "DummyVecEnv": rival("SB3 on DummyVecEnv", "sb3_dummy", "torch", "stable_baselines3", install=BENCH),
    "EnvPool": rival("SB3 on EnvPool", "sb3_envpool", "torch", "stable_baselines3", "envpool", install=WITH_POOL),
}

TRAINER = {
    "ours": rival("drivetrain train", "trainer_ours", "jax", "optax", install=GYMNASIUM),
    "one scan": rival(
        "purejaxrl's scan", "scan_ppo", "gymnax", "optax", install='pip install "drivetrain[train,gymnax]"'
    ),
    "SB3 on EnvPool": OF_SB3["EnvPool"],
    "through Gymnasium": rival("drivetrain train, none", "trainer_gymnasium", "jax", "optax", install=GYMNASIUM),
}

OURSELVES = (OURS, XLA, NUMPY, TORCH, TORCH_COMPILED)  # peers are all the others
SIMULATORS = (OURS, GYMNAX, OWN, ENVPOOL, MAKE, SYNC, ASYNC, XLA, NUMPY)
EVERYBODY = (*SIMULATORS, VECTOR, *OF_CLEANRL.values(), *OF_SB3.values(), *TRAINER.values())
OF_THE_PAPER = (OURS, XLA, TORCH, TORCH_COMPILED, MAKE)

# The same on a GPU. What JAX does around our kernels, such as to trace them, it does on the CPU.
CUDA = rival("ours", "ours_cuda", "jax", "cuda.core", "cuda.bindings", install='pip install "drivetrain[cuda]"',
             variables=JAX_ON_CPU)  # fmt: skip
XLA_ON_GPU = rival("our xla", "ours", "jax", install='pip install "jax[cuda13]"', form="xla",
                   variables=(("JAX_PLATFORMS", "cuda"), ("XLA_PYTHON_CLIENT_PREALLOCATE", "false")))  # fmt: skip
WITH_CUDA = 'pip install "drivetrain[sim]", and a torch that was built with CUDA'
TORCH_ON_GPU, TORCH_COMPILED_ON_GPU = (
    rival(cpu.name, "ours_torch_on_gpu", "jax", "torch", install=WITH_CUDA, variables=JAX_ON_CPU, form=cpu.form)
    for cpu in (TORCH, TORCH_COMPILED)
)
OF_THE_PAPER_ON_GPU = (CUDA, XLA_ON_GPU, TORCH_ON_GPU, TORCH_COMPILED_ON_GPU, MAKE)
DISTRIBUTIONS = ("jax", "jaxlib", "numpy", "optax", "gymnax", "gymnasium", "envpool", "torch", "stable-baselines3")
OF_CUDA = ("cuda-core", "cuda-bindings", "nvidia-cuda-nvrtc", "jax-cuda13-plugin", "jax-cuda12-plugin")
