"""Pictures of an environment as a video: a file that is complete, or not there.

uint8[height, width, 3] ─▶ enlarged where they are small, even sides ─▶ FILE.mp4 (H.264, by PyAV), FILE.gif (by Pillow)
"""

# PyAV and Pillow are extras, and annotated in part.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import importlib
import io
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from drivetrain.core.aside import written_aside
from drivetrain.core.errors import InvalidInput, RunError
from drivetrain.core.extras import naming_extra
from drivetrain.core.outputs import require_folders
from drivetrain.core.paths import given_path

Frame = NDArray[np.uint8]
_LEAST_SIDE = 240  # of a picture, in pixels: smaller ones are enlarged by a whole number
_GIF_TICK_S = 0.01  # pictures of a GIF stand for whole ones, and for two at least in what shows them


def checked_video(file: str | os.PathLike[str]) -> Path:
    """The file's path, if it is that of a video that can be written here.

    Raises:
        InvalidInput: It is not: its name is another's, or it lies in no folder.
        MissingExtra: What writes such is not installed.
    """
    path = given_path("video", file)
    if path.suffix not in _WRITERS:
        raise InvalidInput(f"video: expected a file named {' or '.join(f'*{kind}' for kind in _WRITERS)}, got {path}")
    require_folders(path)
    with naming_extra("video"):
        for module in ("av", "PIL.Image"):
            importlib.import_module(module)
    return path


@contextmanager
def written_video(file: Path, frames_per_s: float) -> Generator[Callable[[Frame], None], None, None]:
    """What takes picture after picture; the file is there once the block has ended, and as it was if that has raised.

    Args:
        file: Named as `checked_video` has it.
        frames_per_s: Pictures per second.

    Raises:
        OSError: It cannot be written.
        RunError: Pictures are not of one size.
    """
    with written_aside(file) as raw:
        buffered = io.BufferedWriter(cast(io.RawIOBase, raw))
        with _WRITERS[file.suffix](buffered, frames_per_s) as write:
            first: list[tuple[int, ...]] = []

            def add(frame: Frame) -> None:
                first[:] = first or [frame.shape]
                if frame.shape != first[0]:
                    raise RunError(
                        f"{file}: expected pictures of one size, {list(first[0])}, and the environment has drawn one "
                        f"of {list(frame.shape)}; mend its render()"
                    )
                write(fitted(frame))

            yield add
        buffered.flush()
        buffered.detach()  # closing it would close the file, which is synced first


def fitted(frame: Frame) -> Frame:
    """A picture large enough to be looked at, its sides even, as video codecs want them."""
    times = max(1, -(-_LEAST_SIDE // max(1, min(frame.shape[:2]))))
    large = frame.repeat(times, axis=0).repeat(times, axis=1)
    height, width = (side % 2 for side in large.shape[:2])
    return np.ascontiguousarray(np.pad(large, ((0, height), (0, width), (0, 0)), mode="edge"))


@contextmanager
def _mp4(file: IO[bytes], frames_per_s: float) -> Generator[Callable[[Frame], None], None, None]:
    import av

    rate = Fraction(frames_per_s).limit_denominator(1_000)
    with av.open(file, "w", format="mp4") as container:
        stream: Any = container.add_stream("libx264", rate=rate, options={"crf": "20"})
        stream.pix_fmt = "yuv420p"  # what browsers play

        def write(frame: Frame) -> None:
            if not stream.codec_context.is_open:
                stream.height, stream.width = frame.shape[:2]
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))

        yield write
        container.mux(stream.encode(None))


@contextmanager
def _gif(file: IO[bytes], frames_per_s: float) -> Generator[Callable[[Frame], None], None, None]:
    import PIL.Image

    pictures: list[Any] = []
    yield lambda frame: pictures.append(PIL.Image.fromarray(frame).quantize(method=PIL.Image.Quantize.FASTOCTREE))
    shown_ms = max(2, round(1 / frames_per_s / _GIF_TICK_S)) * round(1_000 * _GIF_TICK_S)
    first, *others = pictures
    first.save(file, format="GIF", save_all=True, append_images=others, duration=shown_ms, loop=0)


_WRITERS = {".mp4": _mp4, ".gif": _gif}
