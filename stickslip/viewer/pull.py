"""Pulling at bodies: a damped spring from a point of a body to the mouse, as a force in `xfrc_applied`."""

import dataclasses
import threading
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.simulation import Simulation
from stickslip.viewer.bodies import rotated

FREQUENCY = 12.0
"""Of the spring on the body's mass, critically damped [rad/s]."""


@dataclasses.dataclass(frozen=True)
class Pull:
    """What one client pulls at.

    Attributes:
        lane, world, body: the body
        point: where it was taken, in the frame of the body, m         (3,)
        target: where the mouse is, in the frame of the world, m       (3,)
    """

    lane: int
    world: int
    body: int
    point: NDArray[np.floating]
    target: NDArray[np.floating]


class Pulls:
    """The pulls of all clients, one each. Clients write, the thread of the session reads and applies them."""

    def __init__(self) -> None:
        self.alike = True
        """Whether the same body of every lane is pulled, or only the one that was taken."""
        self._lock = threading.Lock()
        self._by_client: dict[int, Pull] = {}
        self._pulled: dict[tuple[int, int, int], NDArray[np.floating]] = {}

    def set(self, client: int, pull: Pull) -> None:
        with self._lock:
            self._by_client[client] = pull

    def release(self, client: int) -> None:
        """Let go, also for a client that was lost."""
        with self._lock:
            self._by_client.pop(client, None)

    def all(self) -> dict[int, Pull]:
        """The pulls by client."""
        with self._lock:
            return dict(self._by_client)

    def apply(self, sims: list[Simulation], mjd: mujoco.MjData) -> None:
        """Write the forces of all pulls into `xfrc_applied`; bodies that were let go get back what they had."""
        wanted: dict[tuple[int, int, int], NDArray[np.floating]] = {}
        for pull in self.all().values():
            for lane in range(len(sims)) if self.alike else [pull.lane]:
                if lane < len(sims) and pull.world < sims[lane].nworld and pull.body < sims[lane].mjm.nbody:
                    key = (lane, pull.world, pull.body)
                    wanted[key] = wanted.get(key, 0.0) + wrench(sims[lane], mjd, pull)
        for lane, sim in enumerate(sims):
            now = {key: value for key, value in wanted.items() if key[0] == lane}
            gone = [key for key in self._pulled if key[0] == lane and key not in now]
            if not now and not gone:
                continue
            forces = sim.xfrc_applied.numpy().copy()
            for key in gone:
                forces[key[1], key[2]] = self._pulled.pop(key)
            for key, value in now.items():
                before = self._pulled.setdefault(key, forces[key[1], key[2]].copy())
                forces[key[1], key[2]] = before + value
            sim.xfrc_applied = forces

    def forget(self) -> None:
        """After lanes have changed: no body is pulled, and none has anything to get back."""
        with self._lock:
            self._by_client.clear()
        self._pulled.clear()


def wrench(sim: Simulation, mjd: mujoco.MjData, pull: Pull) -> NDArray[np.floating]:
    """Force and torque of the spring on the body, as `xfrc_applied` has them, N and N m, (6,)."""
    mjm = sim.mjm
    load(mjd, sim, pull.world)
    mujoco.mj_kinematics(mjm, mjd)
    mujoco.mj_comPos(mjm, mjd)
    mujoco.mj_comVel(mjm, mjd)
    at = mjd.xpos[pull.body] + rotated(mjd.xquat[pull.body][None], pull.point[None])[0]
    velocity = np.zeros(6)
    mujoco.mj_objectVelocity(mjm, mjd, mujoco.mjtObj.mjOBJ_XBODY, pull.body, velocity, 0)
    speed = velocity[3:] + np.cross(velocity[:3], at - mjd.xpos[pull.body])
    # the mass that the body shows a force: less than its own where joints let it give way
    weight = float(mjm.body_invweight0[pull.body, 0])
    mass = 1.0 / weight if weight > 0.0 else float(mjm.body_mass[pull.body])
    force = mass * (FREQUENCY**2 * (pull.target - at) - 2.0 * FREQUENCY * speed)
    return np.concatenate([force, np.cross(at - mjd.xipos[pull.body], force)])


def load(mjd: mujoco.MjData, sim: Simulation, world: int) -> None:
    """Copy the state of a world into the host's data."""
    mjd.qpos[:], mjd.qvel[:] = sim.qpos.numpy()[world], sim.qvel.numpy()[world]
    if sim.mjm.nmocap:
        mjd.mocap_pos[:], mjd.mocap_quat[:] = sim.mocap_pos.numpy()[world], sim.mocap_quat.numpy()[world]


def take(pull: Any, xpos: NDArray[np.floating], xquat: NDArray[np.floating]) -> NDArray[np.floating]:
    """A point of the world in the frame of a body at `xpos`, `xquat`."""
    inverse = xquat * [1.0, -1.0, -1.0, -1.0]
    return rotated(inverse[None], (np.asarray(pull) - xpos)[None])[0]
