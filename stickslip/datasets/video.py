"""Videos of pictures by ffmpeg: an episode is encoded at once; files are put together without encoding again.

Episodes are kept as bare H.264 streams without a clock. So the frames of a file lie at exact multiples of 1 / fps,
however many episodes it holds.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from stickslip.errors import InputError, StickslipError

KEYFRAMES = 2
"""Every how many frames one can be decoded by itself: training reads frames in random order."""


def program() -> str:
    """The path of ffmpeg; raises StickslipError if it is not installed."""
    found = shutil.which("ffmpeg")
    if found is None:
        raise StickslipError("video needs the program ffmpeg: install it (apt install ffmpeg), or give video=False")
    return found


def check(camera: str, shape: tuple[int, ...]) -> None:
    """Raise InputError unless pictures (height, width, 3) can become a video."""
    if shape[0] % 2 or shape[1] % 2 or min(shape[:2]) < 16:
        raise InputError(
            f"pictures of {camera!r} have {shape[0]} rows and {shape[1]} columns: a video needs even numbers, at least "
            "16; crop them, or give video=False"
        )


def encode(frames: NDArray[np.uint8], fps: int, crf: int, path: Path) -> None:
    """Write pictures (T, height, width, 3) as a bare H.264 stream, one at a time."""
    _, height, width, _ = frames.shape
    command = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(fps), "-i", "-"]
    command += ["-c:v", "libx264", "-preset", "veryfast", "-crf", str(crf), "-g", str(KEYFRAMES), "-bf", "0"]
    command += ["-pix_fmt", "yuv420p", "-threads", "2", "-f", "h264", str(path)]
    _run(command, lambda pipe: [pipe.write(frame.tobytes()) for frame in frames], path)


def join(streams: Iterable[Path], fps: int, path: Path) -> None:
    """Put bare streams one after another into an MP4 file."""

    def feed(pipe: IO[bytes]) -> None:
        for stream in streams:
            with stream.open("rb") as file:
                shutil.copyfileobj(file, pipe)

    command = ["-f", "h264", "-r", str(fps), "-i", "-", "-c", "copy", "-movflags", "+faststart", "-f", "mp4", str(path)]
    _run(command, feed, path)


def _run(command: list[str], feed: Callable[[IO[bytes]], object], path: Path) -> None:
    with tempfile.TemporaryFile() as told:
        process = subprocess.Popen(
            [program(), "-y", "-loglevel", "error", *command], stdin=subprocess.PIPE, stderr=told, stdout=told
        )
        pipe = process.stdin
        assert pipe is not None
        try:
            feed(pipe)
            pipe.close()
        except BrokenPipeError:  # it stopped by itself; what it says is told below
            pass
        except BaseException:
            process.kill()
            process.wait()
            raise
        if process.wait():
            told.seek(0)
            why = told.read().decode(errors="replace").strip()[-300:]
            raise StickslipError(
                f"ffmpeg could not write {str(path)!r}: {why}; check space on the disk, or video=False"
            )
