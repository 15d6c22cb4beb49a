"""Samples what NVML says of each device, beside the program and in another process: utilization and memory.

    gpu.readings  | time_ns, memory_nbytes, device, utilization | ...        24 bytes each, appended

NVML comes with the driver. Its few functions are declared here, by NVIDIA's documentation of its interface.
"""

import ctypes
import os
import struct
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from drivetrain.scope.cupti.headers import NVML_VARIABLE
from drivetrain.scope.notes import leave_note

FILE = "gpu.readings"
FORM = struct.Struct("<qqhB5x")
"""CLOCK_MONOTONIC, bytes in use by all programs, device, percent of the time before in which a kernel ran."""
INTERVAL_S = 0.1
"""NVML itself looks every sixth of a second to every second, depending on the device."""
ANSWER_S = 5.0
"""How long a call of NVML is waited for at the end: with a device that is lost it may never return."""

_NAME_NBYTES = 96
"""NVML_DEVICE_NAME_V2_BUFFER_SIZE."""


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class NvmlError(Exception):
    """NVML is absent or refuses; says which call and why."""


class Nvml:
    """The devices that programs started here may see, in the order in which CUDA numbers them as far as that is told.

    CUDA_VISIBLE_DEVICES chooses and orders them. Without CUDA_DEVICE_ORDER=PCI_BUS_ID, CUDA may number devices of
    different models otherwise than NVML does.
    """

    def __init__(self) -> None:
        """Begin to use NVML.

        Raises:
            NvmlError: It is not there, or has no device to tell of.
        """
        name = os.environ.get(NVML_VARIABLE) or "libnvidia-ml.so.1"
        try:
            self._library: Any = ctypes.CDLL(name)
            self._call("nvmlInit_v2")
        except OSError as error:
            raise NvmlError(f"{name} cannot be loaded: {error}") from error
        self._devices = [self._handle(words) for words in self._visible()]

    def read(self) -> list[tuple[int, int]]:
        """Percent of utilization and bytes of memory in use, of each device."""
        found: list[tuple[int, int]] = []
        for device in self._devices:
            utilization, memory = _Utilization(), _Memory()
            self._call("nvmlDeviceGetUtilizationRates", device, ctypes.byref(utilization))
            self._call("nvmlDeviceGetMemoryInfo", device, ctypes.byref(memory))
            found.append((int(utilization.gpu), int(memory.used)))
        return found

    def names(self) -> list[str]:
        """What each device is called."""
        found: list[str] = []
        for device in self._devices:
            text = ctypes.create_string_buffer(_NAME_NBYTES)
            self._call("nvmlDeviceGetName", device, text, ctypes.c_uint(_NAME_NBYTES))
            found.append(text.value.decode(errors="replace"))
        return found

    def close(self) -> None:
        """Say that NVML is not used any more."""
        self._library.nvmlShutdown()

    def _visible(self) -> list[str]:
        """Each device by its number or its UUID; none after one that is not valid, as CUDA has it."""
        number = ctypes.c_uint()
        self._call("nvmlDeviceGetCount_v2", ctypes.byref(number))
        chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
        if chosen is None:
            return [str(index) for index in range(number.value)]
        visible: list[str] = []
        for words in map(str.strip, chosen.split(",")):
            if not words.startswith(("GPU-", "MIG-")) and not (words.isdecimal() and int(words) < number.value):
                break
            visible.append(words)
        return visible

    def _handle(self, words: str) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        if words.isdecimal():
            self._call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(int(words)), ctypes.byref(handle))
        else:
            self._call("nvmlDeviceGetHandleByUUID", ctypes.c_char_p(words.encode()), ctypes.byref(handle))
        return handle

    def _call(self, name: str, *arguments: Any) -> None:
        try:
            code = getattr(self._library, name)(*arguments)
        except AttributeError:
            raise NvmlError(f"it has no {name}") from None
        if code != 0:
            self._library.nvmlErrorString.restype = ctypes.c_char_p
            raise NvmlError(f"{name}: {self._library.nvmlErrorString(code).decode()} ({code})")


class Readings:
    """A context in which devices are sampled into a session's folder; where that fails, the session says so."""

    def __init__(self, folder: Path) -> None:
        """The folder exists."""
        self._folder = folder
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="NVML", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(ANSWER_S)
        if self._thread.is_alive():
            sentence = f"NVML did not answer for {ANSWER_S:g} s: its readings of the GPU end before the program."
            leave_note(self._folder, "gpu-nvml", sentence)

    def _run(self) -> None:
        try:
            nvml = Nvml()
            try:
                self._sample(nvml)
            finally:
                nvml.close()
        except (NvmlError, OSError) as error:
            leave_note(self._folder, "gpu-nvml", f"What NVML says of the GPU was not recorded: {error}.")

    def _sample(self, nvml: Nvml) -> None:
        """At least once, and once at the end."""
        with (self._folder / FILE).open("ab", buffering=0) as file:
            is_over = False
            while True:
                readings = nvml.read()
                now = time.monotonic_ns()
                file.write(b"".join(FORM.pack(now, used, n, percent) for n, (percent, used) in enumerate(readings)))
                if is_over:
                    return
                is_over = self._over.wait(INTERVAL_S)
