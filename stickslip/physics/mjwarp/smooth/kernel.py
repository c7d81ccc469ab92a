"""The kernels: one world per warp on CUDA, one per thread on a CPU. Their C++ is in the files `*.h`.

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
from stickslip.physics.mjwarp.smooth.fields import MatrixOrder, ReactionData, SmoothData, SmoothModel
from stickslip.physics.mjwarp.smooth.tables import ALONG_AXIS

ROOMS = (512, 768, 1024, 1536, 2048, 3008, 4000, 6016, 12032)
"""Floats of shared memory for a world. Of the 48 kB that a block may have, Warp takes 1 kB itself."""
_MOST_WORLDS = 4
"""Worlds of a block."""
_REGISTERS = 64
"""Of a thread: with so few, which hardly spill, 32 worlds fit on a multiprocessor."""

_MACROS = "FIELD", "FLAGS", "DATA", "OWN", "DATA_INT"
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
    "TRACK": mujoco.mjtCamLight.mjCAMLIGHT_TRACK,
    "TRACKCOM": mujoco.mjtCamLight.mjCAMLIGHT_TRACKCOM,
    "TARGETBODY": mujoco.mjtCamLight.mjCAMLIGHT_TARGETBODY,
    "TARGETBODYCOM": mujoco.mjtCamLight.mjCAMLIGHT_TARGETBODYCOM,
    "OBJ_BODY": mujoco.mjtObj.mjOBJ_BODY,
    "EQ_CONNECT": mujoco.mjtEq.mjEQ_CONNECT,
    "EQ_WELD": mujoco.mjtEq.mjEQ_WELD,
    "EQ_TENDON": mujoco.mjtEq.mjEQ_TENDON,
    "ROW_EQUALITY": mujoco.mjtConstraint.mjCNSTR_EQUALITY,
    "ROW_FRICTION_TENDON": mujoco.mjtConstraint.mjCNSTR_FRICTION_TENDON,
    "ROW_LIMIT_TENDON": mujoco.mjtConstraint.mjCNSTR_LIMIT_TENDON,
    "ROW_CONTACT": mujoco.mjtConstraint.mjCNSTR_CONTACT_FRICTIONLESS,  # and those after it
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


def _source(room: int, names: tuple[str, ...]) -> str:
    """The text of a native function from these files, with what they need before and after."""
    head, *parts = (pathlib.Path(__file__).with_name(name).read_text() for name in ("factor.h", "memory.h", *names))
    numbers = {name: int(value) for name, value in _NUMBERS.items()} | {"ROOM": room, "WORLDS": worlds_of(room)}
    constants = "\n".join(f"constexpr int {name} = {value};" for name, value in numbers.items())
    return "\n".join([head, constants, *parts, *(f"#undef {name}" for name in _MACROS), END])


def memory_for(need: int, nworld: int, device: wp.Device) -> tuple[int, wp.array, int]:
    """The room of a kernel whose worlds need so many floats, memory where that is 0, and the stride of worlds in it.

    On a CPU all worlds use one piece in turn.
    """
    room = room_for(need) if device.is_cuda else 0
    scratch = wp.empty(1 if room else need * (nworld if device.is_cuda else 1), dtype=float)
    return room, scratch, need if device.is_cuda else 0


@functools.cache
def smooth_kernel(room: int) -> Any:
    """The kernel of smooth dynamics with so much shared memory for a world; with 0, worlds use `scratch`."""

    @wp.func_native(_source(room, ("tools.h", "smooth.h", "poses.h", "forces.h", "matrix.h")))
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


@functools.cache
def reactions_kernel(room: int) -> Any:
    """The kernel of forces between bodies with so much shared memory for a world; with 0, worlds use `scratch`."""

    @wp.func_native(_source(room, ("tools.h", "reactions.h")))
    def reactions(m: SmoothModel, d: ReactionData, scratch: wp.array[float], stride: int, thread: int): ...

    @wp.kernel(module="unique", enable_backward=False, grid_stride=False)
    def find_reactions(
        # Model:
        m: SmoothModel,
        # Data in and out:
        d: ReactionData,
        # In:
        stride: int,
        # Out:
        scratch: wp.array[float],
    ):
        reactions(m, d, scratch, stride, wp.tid())

    return find_reactions


@functools.cache
def solve_kernel(room: int) -> Any:
    """The kernel of a solve with so much shared memory for a world; with 0, worlds use `scratch`."""

    @wp.func_native(_source(room, ("solve.h",)))
    def solution(
        m: MatrixOrder,
        L_in: wp.array2d[float],
        Dinv_in: wp.array2d[float],
        y_in: wp.array2d[float],
        x_out: wp.array2d[float],
        scratch: wp.array[float],
        stride: int,
        thread: int,
    ): ...

    @wp.kernel(module="unique", enable_backward=False, grid_stride=False)
    def find_solution(
        # Model:
        m: MatrixOrder,
        # In:
        L_in: wp.array2d[float],
        Dinv_in: wp.array2d[float],
        y_in: wp.array2d[float],
        stride: int,
        # Out:
        x_out: wp.array2d[float],
        scratch: wp.array[float],
    ):
        solution(m, L_in, Dinv_in, y_in, x_out, scratch, stride, wp.tid())

    return find_solution


@functools.cache
def response_kernel(room: int) -> Any:
    """The kernel of forces of constraints with so much shared memory for a world; with 0, worlds use `scratch`."""

    @wp.func_native(_source(room, ("response.h",)))
    def find(
        m: MatrixOrder,
        opt_timestep: wp.array[float],
        dof_bodyid: wp.array[int],
        body_subtreenum: wp.array[int],
        nefc_in: wp.array[int],
        cdof_in: wp.array2d[wp.spatial_vector],
        qfrc_smooth_in: wp.array2d[float],
        wrench_in: wp.array2d[wp.spatial_vector],
        qfrc_row_in: wp.array2d[float],
        work_in: wp.array[float],
        qacc_free_in: wp.array2d[float],
        L_in: wp.array2d[float],
        Dinv_in: wp.array2d[float],
        LM_in: wp.array2d[float],
        DinvM_in: wp.array2d[float],
        qfrc_constraint: wp.array2d[float],
        efc_force: wp.array2d[float],
        response: wp.array2d[float],
        Ma_out: wp.array2d[float],
        qacc_out: wp.array2d[float],
        motion_out: wp.array2d[float],
        scratch: wp.array[float],
        stride: int,
        thread: int,
    ): ...

    @wp.kernel(module="unique", enable_backward=False, grid_stride=False)
    def find_response(
        # Model:
        m: MatrixOrder,
        opt_timestep: wp.array[float],
        dof_bodyid: wp.array[int],
        body_subtreenum: wp.array[int],
        # Data in:
        nefc_in: wp.array[int],
        cdof_in: wp.array2d[wp.spatial_vector],
        qfrc_smooth_in: wp.array2d[float],
        # In:
        wrench_in: wp.array2d[wp.spatial_vector],
        qfrc_row_in: wp.array2d[float],
        work_in: wp.array[float],
        qacc_free_in: wp.array2d[float],
        L_in: wp.array2d[float],
        Dinv_in: wp.array2d[float],
        LM_in: wp.array2d[float],
        DinvM_in: wp.array2d[float],
        stride: int,
        # Data in and out:
        qfrc_constraint: wp.array2d[float],
        efc_force: wp.array2d[float],
        # In and out:
        response: wp.array2d[float],
        # Data out:
        Ma_out: wp.array2d[float],
        qacc_out: wp.array2d[float],
        # Out:
        motion_out: wp.array2d[float],
        scratch: wp.array[float],
    ):
        find(
            m,
            opt_timestep,
            dof_bodyid,
            body_subtreenum,
            nefc_in,
            cdof_in,
            qfrc_smooth_in,
            wrench_in,
            qfrc_row_in,
            work_in,
            qacc_free_in,
            L_in,
            Dinv_in,
            LM_in,
            DinvM_in,
            qfrc_constraint,
            efc_force,
            response,
            Ma_out,
            qacc_out,
            motion_out,
            scratch,
            stride,
            wp.tid(),
        )

    return find_response
