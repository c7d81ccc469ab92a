"""Pictures of states: MuJoCo's offscreen renderer, or outlines if there is no OpenGL.

MuJoCo chooses its OpenGL backend when it is imported, and a failing backend can crash the process. So pictures are
drawn in a child process, with the first backend that works. The caller's environment never changes, and a broken driver
cannot harm its process.
"""

import functools
import os
import select
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import mujoco
import numpy as np
from numpy.typing import NDArray

_TIMEOUT_S = 120.0
_OFF = ("disable", "disabled", "off", "false", "0")  # MuJoCo's values for no OpenGL


@dataclass(frozen=True)
class Picture:
    """A picture and how it was rendered."""

    pixels: np.ndarray  # (height, width, 3) uint8
    backend: str  # MuJoCo's name of the OpenGL backend ("egl", "osmesa", "glfw", ...), or "matplotlib" for outlines
    note: str = ""  # why only outlines were drawn; empty if it was rendered


class Renderer:
    """Draws one picture after another of a model.

    Args:
        mjm: the model
        camera: name of a camera; a free camera if the model has none of that name
        width, height: of pictures [pixels]
    """

    def __init__(self, mjm: mujoco.MjModel, *, camera: str = "overview", width: int = 960, height: int = 720) -> None:
        self._mjm, self._camera, self._size = mjm, camera, (width, height)
        self._child: _Child | None = None
        self._note = ""
        backend = find_backend()
        if backend is None:
            wanted = os.environ.get("MUJOCO_GL")
            tried = f"MUJOCO_GL={wanted}" if wanted else "tried egl and osmesa"
            self._note = f"no OpenGL here ({tried}); drew outlines instead"
        else:
            self._child = _Child(backend, mjm, camera, width, height)

    def draw(
        self,
        qpos: NDArray[np.floating],
        mocap_pos: NDArray[np.floating] | None = None,
        mocap_quat: NDArray[np.floating] | None = None,
    ) -> Picture:
        """A picture of a state, (nq,); mocap bodies are where the model has them, unless their poses are given."""
        if self._child is not None:
            try:
                return Picture(self._child.draw(qpos, mocap_pos, mocap_quat), self._child.backend)
            except _Failed as error:
                self._note = f"OpenGL ({self._child.backend}) failed: {error}; drew outlines instead"
                self.close()
        from stickslip import outline

        width, height = self._size
        return Picture(outline.draw(self._mjm, qpos, width=width, height=height), "matplotlib", self._note)

    def close(self) -> None:
        """End the child process."""
        if self._child is not None:
            self._child.close()
            self._child = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def image(
    mjm: mujoco.MjModel, qpos: np.ndarray, *, camera: str = "overview", width: int = 960, height: int = 720
) -> Picture:
    """Draw one state `qpos` (nq,) from `camera`, or from a free camera if the model has none of that name."""
    return images(mjm, [qpos], camera=camera, width=width, height=height)[0]


def images(
    mjm: mujoco.MjModel, qpos: list[np.ndarray], *, camera: str = "overview", width: int = 960, height: int = 720
) -> list[Picture]:
    """Draw several states of one model."""
    with Renderer(mjm, camera=camera, width=width, height=height) as renderer:
        return [renderer.draw(q) for q in qpos]


def find_backend() -> str | None:
    """The OpenGL backend that works here, or None: MUJOCO_GL if it is set, else the first of egl and osmesa."""
    return _find_backend(os.environ.get("MUJOCO_GL", "").lower().strip())


@functools.cache
def _find_backend(wanted: str) -> str | None:
    if wanted in _OFF:
        return None
    candidates = [wanted] if wanted else ["egl", "osmesa"] if sys.platform == "linux" else ["glfw"]
    probe = mujoco.MjModel.from_xml_string("<mujoco><worldbody><geom size='1'/></worldbody></mujoco>")
    for backend in candidates:
        child = _Child(backend, probe, "", 32, 32)
        try:
            child.draw(probe.qpos0)
            return backend
        except _Failed:
            continue
        finally:
            child.close()
    return None


class _Failed(Exception):
    """The child process gave no picture."""


class _Child:
    """A process that draws: states go to its standard input, pixels come from its standard output."""

    def __init__(self, backend: str, mjm: mujoco.MjModel, camera: str, width: int, height: int) -> None:
        self.backend, self._mjm, self._shape = backend, mjm, (height, width, 3)
        self._folder = tempfile.TemporaryDirectory(prefix="stickslip-render-")
        from stickslip import mjcf  # not in the child, which runs this file alone

        job = Path(self._folder.name, "model.mjb")
        job.write_bytes(mjcf.to_bytes(mjm))
        self._errors = Path(self._folder.name, "errors.txt")
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(job), camera, str(width), str(height)],
                env={**os.environ, "MUJOCO_GL": backend},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=self._folder.name,
            )

    def draw(self, qpos: Any, mocap_pos: Any = None, mocap_quat: Any = None) -> NDArray[np.uint8]:
        mjm, process = self._mjm, self._process
        assert process.stdin is not None and process.stdout is not None
        at = mjm.body_mocapid >= 0
        order = np.argsort(mjm.body_mocapid[at])
        pos = mjm.body_pos[at][order] if mocap_pos is None else mocap_pos
        quat = mjm.body_quat[at][order] if mocap_quat is None else mocap_quat
        state = np.concatenate([np.ravel(part) for part in (qpos, pos, quat)]).astype(np.float64)
        size, found, deadline = int(np.prod(self._shape)), bytearray(), time.monotonic() + _TIMEOUT_S
        try:
            process.stdin.write(state.tobytes())
            process.stdin.flush()
        except BrokenPipeError:
            raise _Failed(self._reason()) from None
        pipe = process.stdout.fileno()
        while len(found) < size:
            ready, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise _Failed(f"no picture after {_TIMEOUT_S:.0f} s")
            piece = os.read(pipe, size - len(found))
            if not piece:
                raise _Failed(self._reason())
            found += piece
        return np.frombuffer(bytes(found), dtype=np.uint8).reshape(self._shape)

    def _reason(self) -> str:
        status = self._process.wait(timeout=10.0)
        lines = self._errors.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit status {status}"

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(timeout=10.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()


def _serve(job: str, camera: str, width: int, height: int) -> None:
    """Main function of the child process: pixels for each state that comes in, until there is none."""
    pixels = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else is printed must not come between pixels
    mjm = mujoco.MjModel.from_binary_path(job)
    mjm.vis.global_.offwidth = max(width, mjm.vis.global_.offwidth)
    mjm.vis.global_.offheight = max(height, mjm.vis.global_.offheight)
    mjd = mujoco.MjData(mjm)
    view = mujoco.mj_name2id(mjm, mujoco.mjtObj.mjOBJ_CAMERA, camera) if camera else -1
    size = mjm.nq + 7 * mjm.nmocap
    with mujoco.Renderer(mjm, height=height, width=width) as renderer:
        while len(given := sys.stdin.buffer.read(8 * size)) == 8 * size:
            qpos, pos, quat = np.split(np.frombuffer(given), [mjm.nq, mjm.nq + 3 * mjm.nmocap])
            mjd.qpos[:], mjd.mocap_pos[:], mjd.mocap_quat[:] = qpos, pos.reshape(-1, 3), quat.reshape(-1, 4)
            mujoco.mj_forward(mjm, mjd)
            renderer.update_scene(mjd, camera=view)
            pixels.write(renderer.render().tobytes())
            pixels.flush()


if __name__ == "__main__":
    _serve(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
