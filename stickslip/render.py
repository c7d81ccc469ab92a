"""A picture of a state: MuJoCo's offscreen renderer, or outlines if there is no OpenGL.

MuJoCo chooses its OpenGL backend when it is imported, and a failing backend can crash the process. So the picture is
drawn in a short-lived child process, trying one backend after another. The caller's environment never changes, and a
broken driver cannot harm its process.
"""

import functools
import os
import pickle
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np

_TIMEOUT_S = 120.0
_OFF = ("disable", "disabled", "off", "false", "0")  # MuJoCo's values for no OpenGL


@dataclass(frozen=True)
class Picture:
    """A picture and how it was rendered."""

    pixels: np.ndarray  # (height, width, 3) uint8
    backend: str  # MuJoCo's name of the OpenGL backend ("egl", "osmesa", "glfw", ...), or "matplotlib" for outlines
    note: str = ""  # why only outlines were drawn; empty if it was rendered


def image(
    mjm: mujoco.MjModel, qpos: np.ndarray, *, camera: str = "overview", width: int = 960, height: int = 720
) -> Picture:
    """Draw one state `qpos` (nq,) from `camera`, or from a free camera if the model has none of that name."""
    return images(mjm, [qpos], camera=camera, width=width, height=height)[0]


def images(
    mjm: mujoco.MjModel, qpos: list[np.ndarray], *, camera: str = "overview", width: int = 960, height: int = 720
) -> list[Picture]:
    """Draw several states of one model, in one child process."""
    backend = find_backend()
    if backend is not None:
        pixels, why = _render_in_child(backend, mjm, qpos, camera, width, height)
        if pixels is not None:
            return [Picture(p, backend) for p in pixels]
        note = f"OpenGL ({backend}) failed: {why}; drew outlines instead"
    else:
        wanted = os.environ.get("MUJOCO_GL")
        tried = f"MUJOCO_GL={wanted}" if wanted else "tried egl and osmesa"
        note = f"no OpenGL here ({tried}); drew outlines instead"
    from stickslip import outline

    return [Picture(outline.draw(mjm, q, width=width, height=height), "matplotlib", note) for q in qpos]


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
        pixels, _ = _render_in_child(backend, probe, [probe.qpos0], "", 32, 32)
        if pixels is not None:
            return backend
    return None


def _render_in_child(
    backend: str, mjm: mujoco.MjModel, qpos: list[np.ndarray], camera: str, width: int, height: int
) -> tuple[np.ndarray | None, str]:
    """Pixels (n, height, width, 3) and an empty string, or None and the reason."""
    with tempfile.TemporaryDirectory(prefix="stickslip-render-") as folder:
        job, answer = Path(folder, "job.pickle"), Path(folder, "pixels.npy")
        job.write_bytes(pickle.dumps((mjm, np.asarray(qpos, dtype=np.float64), camera, width, height)))
        command = [sys.executable, "-P", __file__, str(job), str(answer)]
        env = {**os.environ, "MUJOCO_GL": backend}
        try:
            done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=_TIMEOUT_S, cwd=folder)
        except subprocess.TimeoutExpired:
            return None, f"no picture after {_TIMEOUT_S:.0f} s"
        if done.returncode != 0 or not answer.exists():
            lines = done.stderr.strip().splitlines()
            return None, lines[-1] if lines else f"exit status {done.returncode}"
        return np.load(answer), ""


def _child(job: str, answer: str) -> None:
    """Main function of the child process: render the states of `job` into the file `answer`."""
    with open(job, "rb") as file:
        mjm, qpos, camera, width, height = pickle.load(file)
    mjm.vis.global_.offwidth = max(width, mjm.vis.global_.offwidth)
    mjm.vis.global_.offheight = max(height, mjm.vis.global_.offheight)
    mjd = mujoco.MjData(mjm)
    view = mujoco.mj_name2id(mjm, mujoco.mjtObj.mjOBJ_CAMERA, camera) if camera else -1
    frames = []
    with mujoco.Renderer(mjm, height=height, width=width) as renderer:
        for q in qpos:
            mjd.qpos[:] = q
            mujoco.mj_forward(mjm, mjd)
            renderer.update_scene(mjd, camera=view)
            frames.append(renderer.render())
    np.save(answer, np.stack(frames))


if __name__ == "__main__":
    _child(*sys.argv[1:])
