"""Our engine `torch_compiled` on tensors that lie on a GPU and stay there."""

from drivetrain.bench.sim.peers.entry import serve_simulator
from drivetrain.bench.sim.peers.ours_torch_on_gpu import simulator

if __name__ == "__main__":
    serve_simulator(lambda scene: simulator(scene, "torch_compiled"))
