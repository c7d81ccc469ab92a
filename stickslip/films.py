"""Films and pictures as files: GIF, MP4, PNG."""

import io
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stickslip.errors import StickslipError


def gif(pictures: list[NDArray[np.uint8]], rate: float) -> bytes:
    """Pictures (height, width, 3) as a looping GIF file, `rate` a second."""
    from PIL import Image

    images = [Image.fromarray(each).convert("P", palette=Image.Palette.ADAPTIVE) for each in pictures]
    buffer = io.BytesIO()
    images[0].save(
        buffer, format="GIF", save_all=True, append_images=images[1:], duration=max(20, round(1e3 / rate)), loop=0
    )
    return buffer.getvalue()


def has_ffmpeg() -> bool:
    """Whether MP4 files can be made."""
    return shutil.which("ffmpeg") is not None


def mp4(pictures: list[NDArray[np.uint8]], rate: float) -> bytes:
    """Pictures (height, width, 3) as an MP4 file, made by ffmpeg."""
    program = shutil.which("ffmpeg")
    if program is None:
        raise StickslipError("an mp4 needs the program ffmpeg, which is not installed; take a gif instead")
    height, width, _ = pictures[0].shape
    with tempfile.TemporaryDirectory(prefix="stickslip-film-") as folder:
        out = Path(folder, "film.mp4")
        command = [program, "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}"]
        command += ["-r", f"{rate:g}", "-i", "-", "-pix_fmt", "yuv420p", str(out)]
        data = b"".join(each.tobytes() for each in pictures)
        done = subprocess.run(command, input=data, capture_output=True, timeout=300)
        if done.returncode:
            raise StickslipError(
                f"ffmpeg made no film: {done.stderr.decode(errors='replace').strip()[-300:]}; take a gif instead"
            )
        return out.read_bytes()


def png(pixels: NDArray[np.uint8]) -> bytes:
    """A picture (height, width, 3 or 4) as a PNG file."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG")
    return buffer.getvalue()
