"""Programs on paper that use a GPU, whose recording costs what was planted, in blocks some of which are without it."""

from dataclasses import replace

import numpy as np
from brute_gpu import gpu_of
from planted import STEP_SITE, UPDATE_SITE, Writer, trace_of_planted

from drivetrain.scope.trace import gpu
from drivetrain.scope.trace.blocks import MUTE_ALL, MUTE_GPU
from drivetrain.scope.trace.events import BLOCK, COUNT, STEP, THREAD_END

LAUNCH, SYNC, COPY, OWN = range(4)
NAMES = ("cudaLaunchKernel", "cudaStreamSynchronize", "cudaMemcpyAsync", "overhead")
KERNEL_NS, LATENCY_NS = 3000, 1000


class Device:
    """A thread with a stream: calls take work, and what was planted where they are recorded."""

    def __init__(self, costs, own, rng, *, spins=True):
        self.w = Writer(inside_ns=150.0, around_ns=250.0)
        self.costs, self.own, self.rng, self.spins = costs, own, rng, spins
        self.is_on, self.free, self.correlation, self.waited = True, 0.0, 0, 0.0
        self.api, self.activity = [], []
        self.alone_api, self.ran_ns = 0.0, 0

    def call(self, name, work_ns, slower, *, counts):
        """A call that puts something on the stream."""
        begin = self.w.now
        self.correlation += 1
        cost = self.costs[name] if self.is_on else 0.0
        self.w.now += slower * work_ns + cost
        self.alone_api += slower * work_ns if counts else 0.0
        kind = gpu.KERNEL if name == LAUNCH else gpu.COPY
        first = max(self.w.now + LATENCY_NS, self.free)
        self.free = first + KERNEL_NS
        self.ran_ns += KERNEL_NS
        if self.is_on:
            self._record(begin, gpu.RUNTIME, name)
            ran = {"begin_ns": int(first), "end_ns": int(self.free), "kind": kind, "correlation": self.correlation}
            self.activity.append(ran | {"stream": 7, "name": 3})
            if self.own:
                said = {"kind": gpu.OVERHEAD, "detail": gpu.INSTRUMENTATION, "name": OWN}
                row = {"begin_ns": int(begin), "end_ns": int(begin + self.own * cost), "tid": 7}
                self.api.append(row | said | {"correlation": self.correlation})

    def synchronize(self):
        """Wait until the stream is done; recorded in all blocks."""
        begin = self.w.now
        self.correlation += 1
        self.w.now = max(self.w.now + 300, self.free)
        self.waited += self.w.now - begin
        self._record(begin, gpu.RUNTIME, SYNC)

    def switch(self, is_on):
        if is_on == self.is_on:
            return
        self.is_on = is_on
        begin = self.w.now
        self.w.now += 2000
        detail = gpu.SWITCHED_ON if is_on else gpu.SWITCHED_OFF
        self._record(begin, gpu.OVERHEAD, OWN, detail=detail)

    def _record(self, begin, kind, name, detail=0):
        row = {"begin_ns": int(begin), "end_ns": int(self.w.now), "kind": kind, "name": name, "detail": detail}
        self.api.append(row | {"tid": 7, "correlation": self.correlation if kind != gpu.OVERHEAD else 0})


def program(seed, *, costs=(2000.0, 0.0, 700.0), own=0.0, rounds=25, every=4, steps=10, mixed=True, spins=True):
    """(trace, the device as it went): every step acts (a copy, two kernels, a wait), some update (ten kernels).

    Args:
        seed: Of all that is random.
        costs: Nanoseconds that recording adds to a launch, a wait, a copy.
        own: Share of it that records of overhead say.
        rounds: Each mutes everything, the calls' spans, and the GPU once.
        every: Blocks for one of those.
        steps: Of a block.
        mixed: Whether launches and copies come in changing proportions.
        spins: Whether waiting takes CPU time.
    """
    rng = np.random.default_rng(seed)
    device = Device(costs, own, rng, spins=spins)
    w = device.w
    w.put(STEP, 0, 1)
    for _ in range(rounds):
        masks = [MUTE_ALL | MUTE_GPU, 1, MUTE_GPU] + [0] * (3 * every - 3)
        for place, mask in enumerate(rng.permutation(masks).tolist()):
            device.switch(not mask & MUTE_GPU)
            _block(device, mask, place == 0, rng, steps, mixed)
    device.switch(True)
    w.put(BLOCK, 0, 2)
    w.put(THREAD_END)
    trace = trace_of_planted([w.thread()], int(w.now))
    return replace(trace, gpu=gpu_of(device.activity, device.api, names=NAMES)), device


def _block(device, mask, begins_round, rng, steps, mixed):
    w, counts = device.w, mask == 0
    w.muted = bool(mask & 1)
    w.put(BLOCK, mask, int(begins_round))
    slower = float(np.exp(0.03 * rng.standard_normal()))
    begin, w.spans, device.waited, num_updates = w.now, 0, 0.0, 0
    for _ in range(steps):
        w.now += slower * 6000
        w.span(STEP_SITE, slower * 20000, "simulation")
        device.call(COPY, 2500, slower, counts=counts)
        for _ in range(2):
            device.call(LAUNCH, 3000, slower, counts=counts)
        device.synchronize()
        if rng.random() < 0.4 if mixed else True:
            num_updates += 1
            w.span(UPDATE_SITE, slower * 8000, "update")
            for _ in range(10 if mixed else 2):
                device.call(LAUNCH, 3000, slower, counts=counts)
            device.synchronize()
        if not mask & 1:
            w.put(STEP, 0, 1)
    cpu_ns = w.now - begin - (0.0 if device.spins else device.waited)
    written = [int(cpu_ns), 0, w.spans, 0, 0, steps, num_updates]
    for which, count in zip([0, 1, 2, 3, 8, 9, 10], written, strict=True):
        w.put(COUNT, count, which)
