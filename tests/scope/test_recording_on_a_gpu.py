"""On a GPU: what CUPTI recorded of a program is what the program did."""

import numpy as np
import pytest
from programs import profiled

from drivetrain import scope
from drivetrain.scope.cupti import examine
from drivetrain.scope.trace.gpu import KERNEL, RUNTIME

LACKING = examine.examine().remedy
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(bool(LACKING), reason=LACKING or "GPUs can be recorded here")]

NUM_CALLS = 20
PROGRAM = f"""
import numpy as np
from drivetrain import scope, sim

rollout = sim.compile(sim.make("CartPole-v1"), 4096, 32, "cuda")
actions = np.zeros((32, 4096), np.int32)
state = rollout.reset(seed=0)
state, trajectory = rollout(state, actions)
for _ in range({NUM_CALLS}):
    with scope.operation("simulation"):
        state, trajectory = rollout(state, actions)
        done = np.asarray(trajectory["obs"])
"""


@pytest.fixture
def trace(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    profiled(tmp_path / "run.scope", "--gpu", "on", "--calibrate-every", "0", script)
    return scope.load(tmp_path / "run.scope").trace


def test_every_kernel_has_the_call_that_launched_it_and_the_site_of_that(trace):
    activity, api = trace.gpu.activity, trace.gpu.api
    kernels = activity.where(activity.kind == KERNEL)
    assert len(kernels) > NUM_CALLS
    assert np.all(np.isin(kernels.correlation, api.correlation))
    assert np.all(kernels.begin_ns < kernels.end_ns)
    launches = api.where(np.isin(api.correlation, kernels.correlation) & (api.kind <= RUNTIME + 1))
    assert set(launches.tid.tolist()) <= {thread.tid for thread in trace.threads}
    operations = [trace.sites[int(site) - 1].operation if site else "" for site in launches.external]
    assert operations.count("simulation") >= NUM_CALLS
    assert not [note for note in trace.notes if "GPU" in note]


def test_clocks_agree_so_that_no_kernel_begins_before_its_launch(trace):
    activity, api = trace.gpu.activity, trace.gpu.api
    kernels = activity.where(activity.kind == KERNEL)
    order = np.argsort(api.correlation)
    launched_ns = api.begin_ns[order][np.searchsorted(api.correlation[order], kernels.correlation)]
    # CUPTI interpolates between clocks; it is right to some microseconds.
    assert np.mean(kernels.begin_ns + 50_000 >= launched_ns) > 0.99
    assert np.all((kernels.begin_ns > trace.begin_ns) & (kernels.end_ns < trace.end_ns))


def test_nvml_is_read_beside_it(trace):
    readings = trace.gpu.readings
    assert len(readings) >= 2
    assert np.all(readings.memory_nbytes > 0)
    assert np.all(readings.utilization <= 100)
