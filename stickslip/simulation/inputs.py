"""State and inputs of a simulation, as arrays on the device that can be assigned to."""

from typing import Any

import mujoco
import warp as wp

from stickslip import arrays
from stickslip.physics.base import Physics
from stickslip.simulation import views


class Inputs:
    """The part of `Simulation` that can be assigned to: values of every world, or one for all, of any array library.

    Values from the host are checked, and raise. Values that are on the device are checked there: a world with one that
    is not finite keeps its own, and `health` tells.
    """

    __slots__ = ("_refused",)

    physics: Physics[Any, Any]
    mjm: mujoco.MjModel
    _m: Any
    d: Any
    device: wp.Device
    nworld: int

    def __init__(self) -> None:
        self._refused = wp.zeros(1, dtype=int, device=self.device)  # worlds given unfit values on the device

    def _assign(self, name: str, value: Any) -> None:
        """Write values of every world, or one for all, into an array that is an input or part of the state."""
        with wp.ScopedDevice(self.device):
            arrays.write(name, self._array(name), value, self._refused)

    def _array(self, name: str) -> wp.array:
        found = self.physics.arrays(self._m, self.d)
        if name not in found:
            raise views.missing(self.physics.name, name)
        return found[name]

    @property
    def qpos(self) -> wp.array:
        """Positions, (nworld, nq), on the device."""
        return self._array("qpos")

    @qpos.setter
    def qpos(self, value: Any) -> None:
        self._assign("qpos", value)

    @property
    def qvel(self) -> wp.array:
        """Velocities, (nworld, nv), on the device."""
        return self._array("qvel")

    @qvel.setter
    def qvel(self, value: Any) -> None:
        self._assign("qvel", value)

    @property
    def ctrl(self) -> wp.array:
        """Controls, (nworld, nu), on the device; assigning checks shape and finiteness."""
        return self._array("ctrl")

    @ctrl.setter
    def ctrl(self, value: Any) -> None:
        self._assign("ctrl", value)

    @property
    def qfrc_applied(self) -> wp.array:
        """Applied generalized force, (nworld, nv), on the device."""
        return self._array("qfrc_applied")

    @qfrc_applied.setter
    def qfrc_applied(self, value: Any) -> None:
        self._assign("qfrc_applied", value)

    @property
    def xfrc_applied(self) -> wp.array:
        """Applied force and torque on each body, (nworld, nbody, 6), on the device."""
        return self._array("xfrc_applied")

    @xfrc_applied.setter
    def xfrc_applied(self, value: Any) -> None:
        self._assign("xfrc_applied", value)

    @property
    def mocap_pos(self) -> wp.array:
        """Positions of the mocap bodies, (nworld, nmocap, 3), on the device."""
        return self._array("mocap_pos")

    @mocap_pos.setter
    def mocap_pos(self, value: Any) -> None:
        self._assign("mocap_pos", value)

    @property
    def mocap_quat(self) -> wp.array:
        """Orientations of the mocap bodies as quaternions, (nworld, nmocap, 4), on the device."""
        return self._array("mocap_quat")

    @mocap_quat.setter
    def mocap_quat(self, value: Any) -> None:
        self._assign("mocap_quat", value)

    @property
    def act(self) -> wp.array:
        """Activations of actuators, (nworld, na), on the device."""
        return self._array("act")

    @act.setter
    def act(self, value: Any) -> None:
        self._assign("act", value)

    @property
    def eq_active(self) -> wp.array:
        """Whether each equality constraint is active, (nworld, neq), on the device."""
        return self._array("eq_active")

    @eq_active.setter
    def eq_active(self, value: Any) -> None:
        self._assign("eq_active", value)
