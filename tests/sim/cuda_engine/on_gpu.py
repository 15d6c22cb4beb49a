"""Whether this machine can run what is compiled."""


def why_no_gpu():
    """Why CUDA kernels do not run here; empty where they do."""
    try:
        from drivetrain.sim.engines.cuda.device import opened

        opened()
    except Exception as error:
        return str(error)
    return ""
