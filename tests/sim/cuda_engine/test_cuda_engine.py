"""What `engine="cuda"` says and does where there is no GPU."""

import numpy as np
import pytest

pytest.importorskip("cuda.core", reason='needs the extra: pip install "drivetrain[cuda]"')

from on_gpu import why_no_gpu

from drivetrain import sim
from drivetrain.core.errors import CompileError, InvalidInput
from drivetrain.sim.engines.cuda import kernel
from drivetrain.sim.engines.cuda.device import DeviceArray, is_dense
from drivetrain.sim.engines.cuda.kernel import own_source_of
from drivetrain.sim.trace import trace


@pytest.mark.skipif(not why_no_gpu(), reason="there is a GPU")
def test_without_a_gpu_one_sentence_says_what_is_missing_and_what_to_do():
    with pytest.raises(CompileError, match=r'engine "cuda" .*engine="native"') as error:
        sim.compile(sim.make("CartPole-v1"), 4, 2, "cuda")
    assert "\n" not in str(error.value)


def test_only_the_engine_cuda_has_streams():
    with pytest.raises(InvalidInput, match=r'stream: expected None, since only the engine "cuda" has streams'):
        sim.compile(sim.make("CartPole-v1"), 4, 2, "native", stream=7)


def test_a_step_that_needs_more_memory_than_a_thread_has_is_refused(monkeypatch):
    env = sim.make("Knob", live_nbytes=4096)
    monkeypatch.setattr(kernel, "MOST_SCRATCH_NBYTES", 1024)
    with pytest.raises(CompileError, match="the limit of a thread on a GPU is 1024"):
        own_source_of(trace(env, env.default_params, "same_step", ("obs",)))


def test_a_part_of_a_device_array_begins_where_it_lies():
    whole = DeviceArray(4096, (5, 3, 2), np.dtype(np.float32), None, None)
    assert (whole[2].ptr, whole[2].shape, whole[-1].ptr) == (4096 + 2 * 24, (3, 2), 4096 + 4 * 24)
    with pytest.raises(IndexError):
        whole[5]


def test_dense_means_row_major_without_gaps():
    assert is_dense(None, (3, 4))
    assert is_dense((4, 1), (3, 4))
    assert is_dense((99, 4, 1), (1, 3, 4))
    assert not is_dense((1, 3), (3, 4))
    assert not is_dense((8, 1), (3, 4))
