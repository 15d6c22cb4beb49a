"""Segments: shared memory without names, that no killed process can leave behind.

A segment is a memfd, or a file of a disk without a name, mapped by its owner and by whoever holds its handle:

    | header page(s): magic, version, kind, sizes, metadata (JSON) | payload, page aligned |

The kernel frees it with its last holder. A handle carries the owner's pid, start time and
descriptor number; attaching opens the descriptor through /proc, so handles cross spawned, forked
and unrelated processes of one user on one machine.
"""

import contextlib
import errno
import json
import mmap
import os
import shutil
import struct
import tempfile
import weakref
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drivetrain.core import _native
from drivetrain.core.errors import ForeignSegment, OwnerDead, SegmentError
from drivetrain.core.machine import available_memory
from drivetrain.core.words import size

_MAGIC = b"DRVTRAIN"
_VERSION = 2
_HEAD = struct.Struct("<8sI16sQQI")  # magic, version, kind, payload offset, payload bytes, metadata bytes
_PAGE = mmap.PAGESIZE
_LIMITS = {errno.EFBIG: "f", errno.EMFILE: "n", errno.ENOMEM: "v"}
"""By which option of `ulimit` a shell sets what the system refuses with these."""
_USE_LESS = "use a smaller capacity or smaller fields"


@dataclass(frozen=True, kw_only=True)
class SegmentHandle:
    """Names a live segment of a live process; picklable, valid on this machine for this user."""

    kind: str
    pid: int
    start_time: int
    fd: int
    inode: int
    """Tells this segment from a later one under the same descriptor number."""


class Segment:
    """A mapped segment. `payload` is writable memory that lives as long as something views it.

    One that is collected is closed.
    """

    def __init__(self, kind: str, fd: int, mapping: mmap.mmap, payload_offset: int, meta: dict[str, Any]) -> None:
        self.kind = kind
        self.meta = meta
        self._fd = fd
        self._mapping: mmap.mmap | None = mapping
        self._payload = memoryview(mapping)[payload_offset:]
        self._close_fd = weakref.finalize(self, os.close, fd)  # by close(), or when this object is collected
        self._close_fd.atexit = False  # the kernel does it then

    @classmethod
    def create(
        cls, kind: str, nbytes: int, meta: dict[str, Any] | None = None, *, scratch_dir: Path | None = None
    ) -> "Segment":
        """Make a segment with a zeroed payload of `nbytes`, owned by this process.

        Args:
            kind: What it is, at most 16 ASCII characters; checked on attach.
            nbytes: Size of the payload in bytes.
            meta: Small JSON-able description stored in the header for those who attach.
            scratch_dir: Folder on whose disk it lies; None: in memory.

        Raises:
            SegmentError: The system does not have the memory, the disk not the room, or no file can be made.
        """
        text = json.dumps(meta or {}).encode()
        payload_offset = -(-(_HEAD.size + len(text)) // _PAGE) * _PAGE
        require_space(nbytes, scratch_dir, what=f"a {kind} segment")
        try:
            fd = os.memfd_create(f"drivetrain-{kind}") if scratch_dir is None else _file_without_a_name(scratch_dir)
            try:
                os.ftruncate(fd, payload_offset + nbytes)
                if scratch_dir is not None:  # all of its room now: writing to what has none is a fatal signal
                    os.posix_fallocate(fd, 0, payload_offset + nbytes)
                mapping = mmap.mmap(fd, payload_offset + nbytes)
            except BaseException:  # Ctrl-C, too: a slow disk may take minutes for its room
                os.close(fd)
                raise
        except OSError as error:
            where = "" if scratch_dir is None else f" in {scratch_dir}"
            raise SegmentError(f"cannot create a {kind} segment of {size(nbytes)}{where}: {_why(error)}") from error
        head = _HEAD.pack(_MAGIC, _VERSION, kind.encode(), payload_offset, nbytes, len(text))
        mapping[: len(head) + len(text)] = head + text
        return cls(kind, fd, mapping, payload_offset, meta or {})

    @classmethod
    def attach(cls, handle: SegmentHandle, kind: str) -> "Segment":
        """Map the segment that `handle` names.

        Raises:
            OwnerDead: The owner has exited (its segments live on only in those attached before).
            ForeignSegment: The handle is of another kind, version or not ours.
        """
        if handle.kind != kind:
            raise ForeignSegment(f"expected the handle of a {kind} segment, got one of kind {handle.kind!r}")
        if not _native.process_is_alive(handle.pid, handle.start_time):
            raise OwnerDead(
                f"the owner of this {kind} segment (process {handle.pid}) is gone; create a new one and pass its handle"
            )
        try:
            fd = os.open(f"/proc/{handle.pid}/fd/{handle.fd}", os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            why = _why(error, "it was closed by its owner, or belongs to another user")
            raise SegmentError(
                f"cannot open the {kind} segment of process {handle.pid} (descriptor {handle.fd}): {why}"
            ) from error
        try:
            if os.fstat(fd).st_ino != handle.inode:
                raise SegmentError(
                    f"the {kind} segment of process {handle.pid} (descriptor {handle.fd}) was closed by its owner; "
                    "keep it open while others attach"
                )
            mapping, payload_offset, meta = cls._map(fd, kind)
        except BaseException:
            os.close(fd)
            raise
        return cls(kind, fd, mapping, payload_offset, meta)  # its descriptor from here on, which nobody closes twice

    @staticmethod
    def _map(fd: int, kind: str) -> tuple[mmap.mmap, int, dict[str, Any]]:
        """The memory behind a descriptor, where its payload begins, and what is said of it."""
        size = os.fstat(fd).st_size
        where = f"descriptor {fd} for a {kind} segment"
        if size < _HEAD.size:
            raise ForeignSegment(f"{where}: expected a segment header, got {size} bytes")
        with refused_memory(f"the mapping of a {kind} segment", size):
            mapping = mmap.mmap(fd, size)
        magic, version, name, offset, nbytes, meta_bytes = _HEAD.unpack_from(mapping)
        if magic != _MAGIC:
            raise ForeignSegment(f"{where}: not a drivetrain segment")
        if version != _VERSION:
            raise ForeignSegment(f"{where}: expected version {_VERSION}, got {version}; use one drivetrain version")
        if name.rstrip(b"\0") != kind.encode() or offset + nbytes != size:
            raise ForeignSegment(f"{where}: holds a segment of kind {name.rstrip(bytes(1)).decode(errors='replace')!r}")
        try:
            meta = json.loads(mapping[_HEAD.size : _HEAD.size + meta_bytes])
        except ValueError as error:
            raise ForeignSegment(f"{where}: its description is damaged") from error
        return mapping, offset, meta

    @property
    def payload(self) -> memoryview:
        """The payload, writable; views of it keep the memory after close()."""
        return self._payload

    def handle(self) -> SegmentHandle:
        """The handle by which any process of this user on this machine can attach."""
        if self._mapping is None:
            raise SegmentError(f"this {self.kind} segment is closed; take its handle before")
        pid = os.getpid()
        return SegmentHandle(
            kind=self.kind,
            pid=pid,
            start_time=_native.process_start_time(pid),
            fd=self._fd,
            inode=os.fstat(self._fd).st_ino,
        )

    def close(self) -> None:
        """Let go of the segment; its memory goes with the last view and the last process on it."""
        if self._mapping is None:
            return
        try:
            self._payload.release()
            self._mapping.close()
        except BufferError:  # somebody still looks at it: the mapping ends with the last view
            self._payload = memoryview(b"")
        self._mapping = None
        self._close_fd()

    def __enter__(self) -> "Segment":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _why(error: OSError, otherwise: str = "") -> str:
    """The system's words, and what to do: about a limit of this process, or what stands for anything else."""
    option = _LIMITS.get(error.errno or 0)
    remedy = f"a limit of this process may be in the way (ulimit -{option})" if option else otherwise
    return f"{error.strerror}; {remedy}" if remedy else str(error.strerror)


def require_space(
    nbytes: int, scratch_dir: Path | None, *, what: str, largest: str = "", remedy: str = _USE_LESS
) -> None:
    """Refuse before anything is written what this machine's memory cannot hold, or the disk of a folder.

    Args:
        nbytes: Bytes needed.
        scratch_dir: The folder; None: memory.
        what: For which thing, as the message calls it.
        largest: Its largest parts, for the message.
        remedy: What to do about it; of a disk, beside choosing another.

    Raises:
        SegmentError: More bytes than are available, or it cannot be found out how many are.
    """
    if scratch_dir is None:
        require_memory(nbytes, what=what, largest=largest, remedy=remedy)
    else:
        _require_room(nbytes, scratch_dir, what, largest, remedy)


def _require_room(nbytes: int, folder: Path, what: str, largest: str, remedy: str) -> None:
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise SegmentError(f"{folder}: {error.strerror}; choose another folder for {what}") from error
    if nbytes > free:
        raise SegmentError(
            f"{what} needs {size(nbytes)}, but {size(free)} of the disk of {folder} are free; "
            f"choose another folder, or {remedy}{_parts(largest)}"
        )


def _parts(largest: str) -> str:
    return largest and f" (the largest parts are {largest})"


def _file_without_a_name(folder: Path) -> int:
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        return os.dup(file.fileno())


@contextlib.contextmanager
def refused_memory(what: str, nbytes: int) -> Generator[None, None, None]:
    """Around what takes memory: says who wanted how much where the system refuses it, as by a limit of the process.

    Raises:
        SegmentError: In place of MemoryError and OSError.
    """
    try:
        yield
    except (MemoryError, OSError) as error:
        raise SegmentError(
            f"{what} could not get {size(nbytes)} of memory: the system refuses it, though so much is "
            "available; a limit of this process may be smaller (ulimit -v)"
        ) from error


def require_memory(nbytes: int, *, what: str, largest: str = "", remedy: str = _USE_LESS) -> None:
    """Refuse what this machine cannot hold before touching it.

    Args:
        nbytes: Bytes needed.
        what: For which thing, as the message calls it.
        largest: Its largest parts, for the message.
        remedy: What to do about it.

    Raises:
        SegmentError: More bytes than are available, or it cannot be found out how many are.
    """
    try:
        available = available_memory()
    except OSError as error:
        raise SegmentError(f"{what}: the system does not say how much memory there is: {_why(error)}") from error
    if nbytes > available:
        raise SegmentError(
            f"{what} needs {size(nbytes)}, but {size(available)} of memory are available; {remedy}{_parts(largest)}"
        )
