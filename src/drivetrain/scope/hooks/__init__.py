"""Hooks: how operations are found in programs that say nothing of themselves.

    imports      runs a hook right after the module it is for was imported by the program
    patch        replaces a method of a class by the same, recorded
    asyncio, gymnasium, ale, envpool, torch, torch_operators, jax, flax, gymnax, sb3, sbx, tianshou, waiting,
                 system_waits, multiprocessing_end, drivetrain, garbage, cloudpickle    one each
    named        simulators that the command line names

A hook imports no framework: it is handed the module that the program has just imported. Classes are patched, never
builtins, so that `inspect`, `pickle` and `torch.jit.script` see what they saw.
"""
