"""Parts of a model by name: views of arrays on the device, one row for each world.

A view is a Warp array that shares its memory with the simulation. Nothing is copied, and nothing waits for the device.
"""

from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
import warp as wp

from stickslip import arrays
from stickslip.errors import InputError, Unsupported, unknown

if TYPE_CHECKING:
    from stickslip.simulation.observation import Observation

_OBJECTS = {
    "body": (mujoco.mjtObj.mjOBJ_BODY, "nbody"),
    "site": (mujoco.mjtObj.mjOBJ_SITE, "nsite"),
    "geom": (mujoco.mjtObj.mjOBJ_GEOM, "ngeom"),
    "joint": (mujoco.mjtObj.mjOBJ_JOINT, "njnt"),
    "actuator": (mujoco.mjtObj.mjOBJ_ACTUATOR, "nu"),
    "sensor": (mujoco.mjtObj.mjOBJ_SENSOR, "nsensor"),
}
"""What can be looked up: MuJoCo's type, and the field of the model that counts it."""

_NQ = {mujoco.mjtJoint.mjJNT_FREE: 7, mujoco.mjtJoint.mjJNT_BALL: 4}
_NV = {mujoco.mjtJoint.mjJNT_FREE: 6, mujoco.mjtJoint.mjJNT_BALL: 3}
"""Positions and velocities of a joint; slide and hinge have one."""


def find_id(mjm: mujoco.MjModel, kind: str, key: str | int) -> int:
    """The number of a part of a model; raises InputError, with close names, if there is none."""
    kind_id, size = _OBJECTS[kind]
    count = getattr(mjm, size)
    if isinstance(key, str):
        found = mujoco.mj_name2id(mjm, kind_id, key)
        if found < 0:
            names = (mujoco.mj_id2name(mjm, kind_id, i) for i in range(count))
            raise unknown(kind, key, [name for name in names if name])
        return found
    if isinstance(key, bool) or not isinstance(key, (int, np.integer)):
        raise InputError(f"{kind} is {key!r}: give a name or a number")
    if not 0 <= key < count:
        raise InputError(f"{kind} is {key}: the model has {count}, numbered from 0")
    return int(key)


def columns(array: wp.array, first: int, count: int) -> wp.array:
    """Some columns of an array of two dimensions, (nworld, count)."""
    if count == 0:  # Warp slices nothing off an empty array
        return wp.empty((array.shape[0], 0), dtype=array.dtype, device=array.device)
    return array[:, first : first + count]


class _Part:
    """A part of the model: number, name, and where its arrays are."""

    __slots__ = ("_sim", "id", "name")
    kind = ""

    def __init__(self, sim: "Observation", key: str | int) -> None:
        self._sim = sim
        self.id = find_id(sim.mjm, self.kind, key)
        self.name: str = mujoco.mj_id2name(sim.mjm, _OBJECTS[self.kind][0], self.id) or ""

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name!r} (id {self.id}) of {self._sim.nworld} worlds>"

    def _of(self, field: str) -> wp.array:
        """The part's own of an array with an axis of such parts, (nworld,) of whatever it holds."""
        return self._sim.find_field(field)[:, self.id]

    def _write(self, field: str, array: wp.array, value: Any) -> None:
        with wp.ScopedDevice(array.device):
            arrays.write(f"{field} of {self.kind} {self.name or self.id!r}", array, value, self._sim._refused)


class Body(_Part):
    """A body in every world. Poses are those at the beginning of the last step; `forward` brings them up to date."""

    __slots__ = ()
    kind = "body"

    @property
    def xpos(self) -> wp.array:
        """Position of its frame, m, (nworld, 3)."""
        return self._of("xpos")

    @property
    def xquat(self) -> wp.array:
        """Orientation of its frame as a quaternion, real part first, (nworld, 4)."""
        return self._of("xquat")

    @property
    def xmat(self) -> wp.array:
        """Orientation of its frame as a matrix, (nworld, 3, 3)."""
        return self._of("xmat")

    @property
    def xipos(self) -> wp.array:
        """Centre of mass, m, (nworld, 3)."""
        return self._of("xipos")

    @property
    def cvel(self) -> wp.array:
        """Angular and linear velocity about the centre of mass of its tree, rad/s and m/s, (nworld, 6).

        Always that of the last step: the next one reads it, so that `forward` leaves it alone.
        """
        return self._of("cvel")

    @property
    def xfrc_applied(self) -> wp.array:
        """Force and torque that are applied to it, N and N m, (nworld, 6); assign to change."""
        return self._of("xfrc_applied")

    @xfrc_applied.setter
    def xfrc_applied(self, value: Any) -> None:
        self._write("xfrc_applied", self.xfrc_applied, value)

    @property
    def mocap_pos(self) -> wp.array:
        """Position that a mocap body is given, m, (nworld, 3); assign to change."""
        return self._mocap("mocap_pos")

    @mocap_pos.setter
    def mocap_pos(self, value: Any) -> None:
        self._write("mocap_pos", self.mocap_pos, value)

    @property
    def mocap_quat(self) -> wp.array:
        """Orientation that a mocap body is given, as a quaternion, (nworld, 4); assign to change."""
        return self._mocap("mocap_quat")

    @mocap_quat.setter
    def mocap_quat(self, value: Any) -> None:
        self._write("mocap_quat", self.mocap_quat, value)

    def _mocap(self, field: str) -> wp.array:
        index = int(self._sim.mjm.body_mocapid[self.id])
        if index < 0:
            raise InputError(f'body {self.name or self.id!r} has no {field}: it needs mocap="true" in the model')
        return self._sim.find_field(field)[:, index]


class Site(_Part):
    """A site in every world. Poses are those at the beginning of the last step; `forward` brings them up to date."""

    __slots__ = ()
    kind = "site"

    @property
    def xpos(self) -> wp.array:
        """Position, m, (nworld, 3)."""
        return self._of("site_xpos")

    @property
    def xmat(self) -> wp.array:
        """Orientation as a matrix, (nworld, 3, 3)."""
        return self._of("site_xmat")


class Geom(_Part):
    """A geom in every world. Poses are those at the beginning of the last step; `forward` brings them up to date."""

    __slots__ = ()
    kind = "geom"

    @property
    def xpos(self) -> wp.array:
        """Position, m, (nworld, 3)."""
        return self._of("geom_xpos")

    @property
    def xmat(self) -> wp.array:
        """Orientation as a matrix, (nworld, 3, 3)."""
        return self._of("geom_xmat")


class Joint(_Part):
    """A joint in every world, with its nq positions and nv dofs: 7 and 6 if it is free, 4 and 3 for a ball, else 1."""

    __slots__ = ()
    kind = "joint"

    def _positions(self, field: str) -> wp.array:
        mjm = self._sim.mjm
        count = _NQ.get(mujoco.mjtJoint(mjm.jnt_type[self.id]), 1)
        return columns(self._sim.find_field(field), int(mjm.jnt_qposadr[self.id]), count)

    def _dofs(self, field: str) -> wp.array:
        mjm = self._sim.mjm
        count = _NV.get(mujoco.mjtJoint(mjm.jnt_type[self.id]), 1)
        return columns(self._sim.find_field(field), int(mjm.jnt_dofadr[self.id]), count)

    @property
    def qpos(self) -> wp.array:
        """Positions, (nworld, nq); assign to change."""
        return self._positions("qpos")

    @qpos.setter
    def qpos(self, value: Any) -> None:
        self._write("qpos", self.qpos, value)

    @property
    def qvel(self) -> wp.array:
        """Velocities, (nworld, nv); assign to change."""
        return self._dofs("qvel")

    @qvel.setter
    def qvel(self, value: Any) -> None:
        self._write("qvel", self.qvel, value)

    @property
    def qacc(self) -> wp.array:
        """Accelerations of the last step, or of `forward`, (nworld, nv)."""
        return self._dofs("qacc")

    @property
    def qfrc_applied(self) -> wp.array:
        """Applied generalized force, (nworld, nv); assign to change."""
        return self._dofs("qfrc_applied")

    @qfrc_applied.setter
    def qfrc_applied(self, value: Any) -> None:
        self._write("qfrc_applied", self.qfrc_applied, value)


class Actuator(_Part):
    """An actuator in every world."""

    __slots__ = ()
    kind = "actuator"

    @property
    def ctrl(self) -> wp.array:
        """Control, (nworld,); assign to change."""
        return self._of("ctrl")

    @ctrl.setter
    def ctrl(self, value: Any) -> None:
        self._write("ctrl", self.ctrl, value)

    @property
    def act(self) -> wp.array:
        """Activations, (nworld, number of them), which is 0 for most actuators; assign to change."""
        mjm = self._sim.mjm
        return columns(
            self._sim.find_field("act"), int(mjm.actuator_actadr[self.id]), int(mjm.actuator_actnum[self.id])
        )

    @act.setter
    def act(self, value: Any) -> None:
        self._write("act", self.act, value)

    @property
    def force(self) -> wp.array:
        """Force of the last step, or of `forward`, N or N m, (nworld,)."""
        return self._of("actuator_force")

    @property
    def length(self) -> wp.array:
        """Length at the beginning of the last step, or as `forward` found it, (nworld,)."""
        return self._of("actuator_length")

    @property
    def velocity(self) -> wp.array:
        """Velocity at the beginning of the last step, or as `forward` found it, (nworld,)."""
        return self._of("actuator_velocity")


def sensor_columns(sim: "Observation", key: str | int) -> wp.array:
    """Values of one sensor, (nworld, dim)."""
    data: Any = sim.find_field("sensordata")  # first: a physics without sensors says so, not that there is no such name
    index = find_id(sim.mjm, "sensor", key)
    return columns(data, int(sim.mjm.sensor_adr[index]), int(sim.mjm.sensor_dim[index]))


def missing(physics: str, field: str) -> Unsupported:
    """The error for an array that a physics does not have."""
    return Unsupported(
        f"{physics} has no {field}: it does not compute it, or keeps it on the host"
        "; choose another output, or another physics"
    )
