"""The kernel: one world per warp on CUDA, one per thread on a CPU. Its C++ is in `smooth.h` and the files it names.

What a world needs while it runs lies in shared memory. Kernels differ by how much of that a world has, not by models: a
new model compiles nothing where one of its size has run. A model that needs more than a block may have uses memory of
the device, with the same code; so does a CPU.
"""

import functools
import pathlib
from typing import Any

import mujoco
import warp as wp

from stickslip.physics.mjwarp.smooth.factor import END
from stickslip.physics.mjwarp.smooth.fields import SmoothData, SmoothModel
from stickslip.physics.mjwarp.smooth.tables import ALONG_AXIS

ROOMS = (512, 768, 1024, 1536, 2048, 3008, 4096, 6016, 12032)
"""Floats of shared memory for a world. Of the 48 kB that a block may have, Warp itself takes up to 1 kB."""
_MOST_WORLDS = 4
"""Worlds of a block."""
_REGISTERS = 64
"""Of a thread: with so few, which hardly spill, 32 worlds fit on a multiprocessor."""

_HEAD, *_PARTS = (
    pathlib.Path(__file__).with_name(name).read_text()
    for name in ("factor.h", "smooth.h", "poses.h", "forces.h", "matrix.h")
)
_NUMBERS = {
    "ALONG_AXIS": ALONG_AXIS,
    "FREE": mujoco.mjtJoint.mjJNT_FREE,
    "BALL": mujoco.mjtJoint.mjJNT_BALL,
    "SLIDE": mujoco.mjtJoint.mjJNT_SLIDE,
    "JOINTINPARENT": mujoco.mjtTrn.mjTRN_JOINTINPARENT,
    "TENDON": mujoco.mjtTrn.mjTRN_TENDON,
    "DYN_NONE": mujoco.mjtDyn.mjDYN_NONE,
    "INTEGRATOR": mujoco.mjtDyn.mjDYN_INTEGRATOR,
    "FILTER": mujoco.mjtDyn.mjDYN_FILTER,
    "FILTEREXACT": mujoco.mjtDyn.mjDYN_FILTEREXACT,
    "GAIN_FIXED": mujoco.mjtGain.mjGAIN_FIXED,
    "GAIN_AFFINE": mujoco.mjtGain.mjGAIN_AFFINE,
    "BIAS_AFFINE": mujoco.mjtBias.mjBIAS_AFFINE,
    "DISABLE_SPRING": mujoco.mjtDisableBit.mjDSBL_SPRING,
    "DISABLE_DAMPER": mujoco.mjtDisableBit.mjDSBL_DAMPER,
    "DISABLE_GRAVITY": mujoco.mjtDisableBit.mjDSBL_GRAVITY,
    "DISABLE_ACTUATION": mujoco.mjtDisableBit.mjDSBL_ACTUATION,
    "DISABLE_CLAMPCTRL": mujoco.mjtDisableBit.mjDSBL_CLAMPCTRL,
}


def room_for(floats: int) -> int:
    """The smallest room in shared memory that has so many floats; 0 if none has."""
    return next((room for room in ROOMS if floats <= room), 0)


def worlds_of(room: int) -> int:
    """Worlds of a block that share its memory."""
    return min(_MOST_WORLDS, ROOMS[-1] // room) if room else _MOST_WORLDS


def _source(room: int) -> str:
    numbers = {name: int(value) for name, value in _NUMBERS.items()} | {"ROOM": room, "WORLDS": worlds_of(room)}
    constants = "\n".join(f"constexpr int {name} = {value};" for name, value in numbers.items())
    return "\n".join([_HEAD, constants, *_PARTS, END])


@functools.cache
def kernel_with(room: int) -> Any:
    """The kernel with so much shared memory for a world; with 0, worlds use `scratch`."""

    @wp.func_native(_source(room))
    def smooth(
        m: SmoothModel,
        d: SmoothData,
        LM_out: wp.array2d[float],
        DinvM_out: wp.array2d[float],
        H_out: wp.array2d[float],
        L_out: wp.array2d[float],
        Dinv_out: wp.array2d[float],
        qacc_out: wp.array2d[float],
        scratch: wp.array[float],
        stride: int,
        thread: int,
    ): ...

    @wp.kernel(module="unique", enable_backward=False, grid_stride=False, cuda_max_registers=_REGISTERS)
    def find_smooth(
        # Model:
        m: SmoothModel,
        # Data in and out:
        d: SmoothData,
        # In:
        stride: int,
        # Out:
        LM_out: wp.array2d[float],
        DinvM_out: wp.array2d[float],
        H_out: wp.array2d[float],
        L_out: wp.array2d[float],
        Dinv_out: wp.array2d[float],
        qacc_out: wp.array2d[float],
        scratch: wp.array[float],
    ):
        smooth(m, d, LM_out, DinvM_out, H_out, L_out, Dinv_out, qacc_out, scratch, stride, wp.tid())

    return find_smooth
