"""A program on paper that trains on a GPU: acts, steps, updates, with its launches, waits, and readings of NVML."""

from dataclasses import replace

import numpy as np
from brute import thread_of, trace_of
from brute_gpu import BACKWARD, SITES_OF_TRAINING, gpu_of

from drivetrain.scope.trace import gpu
from drivetrain.scope.trace.events import BEGIN, END, MARKED, STEP

ACT, SIMULATE, WAIT = 0, 1, 6
NAMES = (
    "cudaLaunchKernel",
    "cudaStreamSynchronize",
    "cudaMemcpyAsync",
    "<sgemm> & co",
    "Memcpy HtoD",
    "cudaGraphLaunch",
)
US = 1000
STEP_NS = 500 * US
AUTOGRAD = 4242


def program(num_steps=50):
    """The trace: per step 100 us of acting (a copy, a kernel, a wait), 300 of simulation, 100 of backward pass."""
    events, api, activity, now = [], [], [], 0
    for step in range(num_steps):
        first = 4 * step + 1
        events += [(now, BEGIN, ACT), (now + 100 * US, END, ACT)]
        api += [call(now + 5 * US, 6, first, name=2), call(now + 15 * US, 6, first + 1)]
        api += [call(now + 30 * US, 40, first + 2, name=1)]
        api += [{**call(now + 17 * US, 1, first + 1), "kind": gpu.OVERHEAD, "detail": gpu.INSTRUMENTATION}]
        activity += [ran(now + 20 * US, 10, first, kind=gpu.COPY, name=4, nbytes=4096, copy_kind=1)]
        activity += [ran(now + 30 * US, 40, first + 1)]
        events += [(now + 100 * US, BEGIN, SIMULATE), (now + 400 * US, END, SIMULATE)]
        events += [(now + 400 * US, BEGIN, BACKWARD), (now + 500 * US, END, BACKWARD)]
        api += [call(now + 410 * US, 8, first + 3, name=5, tid=AUTOGRAD)]
        activity += [ran(now + 430 * US, 50, first + 3, kind=gpu.GRAPH, graph=1, stream=13)]
        now += STEP_NS
        events += [(now, STEP, 0)]
    trace = trace_of([thread_of(events)], 0, now, SITES_OF_TRAINING)
    trace.threads[0].value[:] = MARKED
    readings = [{"time_ns": t, "utilization": 60, "memory_nbytes": 2**31} for t in range(0, now + 1, now // 10)]
    return replace(trace, gpu=gpu_of(activity, api, readings, NAMES))


def with_steps_unrecorded(trace, first, last):
    """The same, where the recording of GPUs was switched off before one step and on again before another."""
    rows = [
        {**call(step * STEP_NS, 1, 0), "kind": gpu.OVERHEAD, "detail": detail}
        for step, detail in ((first, gpu.SWITCHED_OFF), (last, gpu.SWITCHED_ON))
    ]
    more = gpu_of((), rows, (), NAMES).api
    names = gpu.GpuApi.dtypes()
    joined = {name: np.concatenate([getattr(trace.gpu.api, name), getattr(more, name)]) for name in names}
    return replace(trace, gpu=replace(trace.gpu, api=gpu.GpuApi(**joined)))


def call(begin_ns, length_us, correlation, *, name=0, tid=7):
    row = {"begin_ns": begin_ns, "end_ns": begin_ns + length_us * US, "kind": gpu.RUNTIME}
    return {**row, "tid": tid, "correlation": correlation, "name": name}


def ran(begin_ns, length_us, correlation, *, kind=gpu.KERNEL, name=3, stream=7, **more):
    where = {"device": 0, "stream": stream, "name": name, "correlation": correlation, "kind": kind}
    return {"begin_ns": begin_ns, "end_ns": begin_ns + length_us * US, **where, **more}
