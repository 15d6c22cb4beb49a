"""A GPU, the stream that a rollout runs on, and arrays in its memory.

Everything that only a machine with a GPU can run is here and in `engine.Kernel.launch`. Calls put work on the stream
and return; memory is taken and given back in the stream's order, so that nothing waits.
"""

# cuda.core chooses its modules by the version of CUDA when it is imported, which type checkers cannot follow.
# pyright: reportAttributeAccessIssue=false, reportMissingImports=false, reportMissingTypeStubs=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false

from collections import deque
from collections.abc import Sequence
from math import prod
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
from cuda.bindings import driver
from cuda.core import LEGACY_DEFAULT_STREAM, PER_THREAD_DEFAULT_STREAM, Buffer, Device, Stream
from cuda.core.utils import StridedMemoryView
from cuda.pathfinder import DynamicLibNotFoundError

from drivetrain.core.errors import CompileError, InvalidInput
from drivetrain.core.words import size
from drivetrain.sim.api import describe
from drivetrain.sim.engines.arrays import Form, checked_array

KIND = 2
"""DLPack's number for memory of an NVIDIA GPU."""
DEFAULT_STREAM = 1
"""Its number for the stream that CUDA calls 0 as well, which DLPack forbids."""
ALIGNED_NBYTES = 16
"""Where XLA wants an argument on a GPU to begin (kEntryParameterAlignBytes, which it checks when a program is run)."""


def opened() -> Device:
    """The GPU of this thread, made current.

    Raises:
        CompileError: There is no driver, or no GPU.
    """
    remedy = 'run where an NVIDIA GPU and its driver are, or compile with engine="native"'
    try:
        device = Device()
        device.set_current()
    except DynamicLibNotFoundError as error:
        raise CompileError(f'engine "cuda" needs an NVIDIA driver, and found no libcuda: {remedy}') from error
    except Exception as error:  # cuda.core's own are not public
        raise CompileError(f'engine "cuda" cannot use a GPU ({error}): {remedy}') from error
    return device


class Gpu:
    """Memory of a GPU, in the order of one stream; see `signature.Memory`."""

    def __init__(self, stream: Any = None) -> None:
        """With a stream of the caller's: an object with `__cuda_stream__`, or a handle; None for the default one."""
        self.device = opened()
        if stream is None:
            self.stream = self.device.default_stream
        elif isinstance(stream, int):
            self.stream = Stream.from_handle(stream)
        else:
            self.stream = self.device.create_stream(stream)
        self._lock, self._running = Lock(), deque[tuple[Any, Sequence[DeviceArray]]]()

    def keep(self, arrays: Sequence["DeviceArray"]) -> None:
        """Arrays live until what is on the stream by now is done, or nobody has an array of this memory any more."""
        with self._lock:
            self._running.append((self.stream.record(), arrays))
            while self._running and self._running[0][0].is_done:
                self._running.popleft()

    @property
    def num_running(self) -> int:
        """Calls whose arrays are kept."""
        return len(self._running)

    def empty(self, form: Form) -> "DeviceArray":
        """See `Memory`.

        Raises:
            InvalidInput: The GPU has no room for it.
        """
        try:
            buffer = self.device.allocate(max(form.nbytes, 1), stream=self.stream)
        except Exception as error:  # cuda.core's own are not public
            if "CUDA_ERROR_OUT_OF_MEMORY" not in str(error):
                raise
            raise InvalidInput(
                f"{form.name or 'an array'}: expected room for {size(form.nbytes)} on GPU {self.device.device_id}, got "
                "none; take fewer environments or steps, or record less, and where JAX uses this GPU, too, set "
                "XLA_PYTHON_CLIENT_PREALLOCATE=false, since it keeps three quarters of the memory otherwise"
            ) from error
        return DeviceArray(int(buffer.handle), form.shape, form.dtype, self, buffer)

    def taken(self, leaf: Any, form: Form) -> "DeviceArray":
        """An array of this device as it is, after what its own stream still has to do; any other is copied.

        Raises:
            InvalidInput: Its shape, type or order does not fit.
        """
        if getattr(leaf, "__dlpack_device__", lambda: (0, 0))()[0] != KIND:
            return self.copied(checked_array(leaf, form))
        found = self.viewed(leaf)
        if (tuple(found.shape), found.dtype) != (form.shape, form.dtype) or not is_dense(found.strides, form.shape):
            raise InvalidInput(
                f"{form.name}: expected a dense {describe(form)}, got {found.dtype}{list(found.shape)} with strides "
                f"{found.strides}; convert it"
            )
        if found.device_id != self.device.device_id:
            raise InvalidInput(
                f"{form.name}: expected an array on GPU {self.device.device_id}, got one on GPU {found.device_id}; "
                "copy it"
            )
        return leaf if isinstance(leaf, DeviceArray) else DeviceArray(found.ptr, form.shape, form.dtype, self, found)

    def viewed(self, leaf: Any) -> Any:
        """Place and form of an array on a GPU; the stream waits for what the array's own stream has to do."""
        if not isinstance(leaf, DeviceArray):
            return StridedMemoryView.from_any_interface(leaf, stream_ptr=int(self.stream.handle) or DEFAULT_STREAM)
        if leaf.gpu is not self:
            self.stream.wait(leaf.gpu.stream)
        return leaf

    def copied(self, array: npt.NDArray[Any]) -> "DeviceArray":
        """A host's array in this memory; the host's may be changed afterwards."""
        copy = self.empty(Form.of("", array, ()))
        if array.nbytes:
            if is_page_locked(array):  # the driver would read it later; of other memory it has taken a copy by then
                array = array.copy()
            done(driver.cuMemcpyHtoDAsync(copy.ptr, array.ctypes.data, array.nbytes, self.stream.handle))
        return copy

    def aligned(self, array: "DeviceArray") -> "DeviceArray":
        """The array where XLA takes it: a copy of a part that begins elsewhere, as may the last step's observations."""
        if array.ptr % ALIGNED_NBYTES == 0 or array.nbytes == 0:
            return array
        copy = self.empty(Form("", array.shape, array.dtype, array.nbytes))
        done(driver.cuMemcpyDtoDAsync(copy.ptr, array.ptr, array.nbytes, self.stream.handle))
        self.keep((array, copy))
        return copy


class DeviceArray:
    """An array in a GPU's memory. Any library takes it by DLPack, without a copy; NumPy copies it to the host."""

    def __init__(self, ptr: int, shape: tuple[int, ...], dtype: np.dtype[Any], gpu: Gpu, owner: Any) -> None:
        """`owner` keeps the memory alive."""
        self.ptr, self.shape, self.dtype, self.gpu, self.owner = ptr, shape, dtype, gpu, owner

    strides = None
    """Dense, in the words of `StridedMemoryView`."""

    @property
    def nbytes(self) -> int:
        """Its size."""
        return prod(self.shape) * self.dtype.itemsize

    @property
    def device_id(self) -> int:
        """Which GPU."""
        return self.gpu.device.device_id

    def __getitem__(self, index: int) -> "DeviceArray":
        """A part along the first axis, in the same memory."""
        place = range(self.shape[0])[index]
        rest = self.shape[1:]
        start = self.ptr + place * prod(rest) * self.dtype.itemsize
        return DeviceArray(start, rest, self.dtype, self.gpu, self.owner)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """A copy on the host, once everything before it on the stream is done."""
        if copy is False:
            raise ValueError("an array on a GPU becomes NumPy's by a copy")
        self.gpu.device.set_current()
        array = np.empty(self.shape, self.dtype)
        if array.nbytes:
            done(driver.cuMemcpyDtoHAsync(array.ctypes.data, self.ptr, array.nbytes, self.gpu.stream.handle))
        self.gpu.stream.sync()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles are NumPy's arrays, which a rollout takes back."""
        return np.asarray, (np.asarray(self),)

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's kind of memory, and which GPU."""
        return KIND, self.device_id

    def __dlpack__(
        self, *, stream: int | None = None, max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None, copy: bool | None = None,
    ) -> Any:  # fmt: skip
        """A capsule; the consumer's stream waits for what this one still has to do (-1: it does not)."""
        self.gpu.device.set_current()  # a thread that has used no GPU has no context to make an event in
        source = self if copy is False else self.gpu.aligned(self)
        if stream != -1:
            consumer = {None: LEGACY_DEFAULT_STREAM, 1: LEGACY_DEFAULT_STREAM, 2: PER_THREAD_DEFAULT_STREAM}.get(stream)
            (consumer or Stream.from_handle(stream)).wait(self.gpu.stream)
        buffer = Buffer.from_handle(source.ptr, source.nbytes, owner=source)
        view = StridedMemoryView.from_buffer(buffer, self.shape, dtype=self.dtype)
        return view.__dlpack__(stream=-1, max_version=max_version, dl_device=dl_device, copy=copy)


def is_page_locked(array: npt.NDArray[Any]) -> bool:
    """Whether the driver knows a host's array, which copies from it need not wait for: PyTorch's pinned ones."""
    known, _ = driver.cuPointerGetAttribute(
        driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, array.ctypes.data
    )
    return known == driver.CUresult.CUDA_SUCCESS


def is_dense(strides: Sequence[int] | None, shape: Sequence[int]) -> bool:
    """Whether elements lie in row-major order without gaps; strides count elements, None says so."""
    if strides is None or 0 in shape:
        return True
    dense = [prod(shape[k + 1 :]) for k in range(len(shape))]
    return all(size == 1 or has == wanted for has, wanted, size in zip(strides, dense, shape, strict=True))


def done(result: tuple[Any, ...]) -> None:
    """Check what a call of the driver says.

    Raises:
        RuntimeError: It failed.
    """
    if result[0] != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"the CUDA driver says {result[0]!r}")
