"""Free bodies made of particles in a simulation, and the same in a reference, side by side."""

import dataclasses
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

import stickslip as ss
from tests.reference.contacts import Around, Plane

Array = NDArray[np.float64]

STEP = 1e-3  # [s]


def single(value: Any) -> Any:
    """As the device is given it."""
    return np.asarray(value, dtype=np.float32).astype(float)


def frame(quat: ArrayLike) -> Array:
    """Rotation of a quaternion of any length."""
    mat = np.zeros(9)
    mujoco.mju_quat2Mat(mat, np.asarray(quat, dtype=float) / np.linalg.norm(quat))
    return mat.reshape(3, 3)


def rotation(rng: np.random.Generator, angle: float | None = None) -> Array:
    """About a random axis, by an angle up to a half turn if none is given."""
    axis = rng.normal(size=3)
    half = 0.5 * (rng.uniform(0.0, np.pi) if angle is None else angle)
    return frame([np.cos(half), *(np.sin(half) * axis / np.linalg.norm(axis))])


def floor(friction: float) -> Plane:
    return Plane((0.0, 0.0, 0.0), (0.0, 0.0, 1.0), float(single(friction)))


def state_of(sim: ss.Simulation) -> tuple[Array, Array]:
    """qpos and qvel in double precision, body by body, (nbody, 7) and (nbody, 6)."""
    arrays = sim.physics.arrays(sim.m, sim.d)
    return arrays["exact_qpos"].numpy().reshape(-1, 7), arrays["exact_qvel"].numpy().reshape(-1, 6)


@dataclasses.dataclass
class Twin:
    """A simulation of free bodies and its reference, from the same start.

    Attributes:
        sim: the simulation
        reference: with `substep`, and `motion_of` a body
        bodies: the same in the reference
        law: of the reference
        planes: likewise
        substeps: of each step
        place, velocity: how far apart the two may be [m], [m/s]
    """

    sim: ss.Simulation
    reference: ModuleType
    bodies: list[Any]
    law: Any
    planes: tuple[Plane, ...]
    substeps: int
    place: float
    velocity: float

    def state(self) -> tuple[Array, Array]:
        """See `state_of`."""
        return state_of(self.sim)

    def step(self, force: ArrayLike | None = None, torque: ArrayLike | None = None) -> None:
        """One of the physics, and its substeps of the reference, with a wrench at each body's centre of mass."""
        dt = float(single(self.sim.mjm.opt.timestep)) / self.substeps
        gravity = single(self.sim.mjm.opt.gravity)
        self.sim.step()
        around = Around(self.planes, gravity, force, torque)
        for _ in range(self.substeps):
            self.reference.substep(self.bodies, dt, self.law, around)

    def check(self) -> None:
        """Every particle is where it should be, and moves as it should."""
        qpos, qvel = self.state()
        for body, packed, pose, velocity in zip(self.bodies, self.sim.m.bodies, qpos, qvel, strict=True):
            mat = frame(pose[3:])
            arm = packed.centre @ mat.T
            place, moving = self.reference.motion_of(body)
            np.testing.assert_allclose(pose[:3] + arm, place, rtol=0.0, atol=self.place)
            rates = velocity[:3] + np.cross(mat @ velocity[3:], arm)
            np.testing.assert_allclose(rates, moving, rtol=0.0, atol=self.velocity)


def make_twin(
    reference: ModuleType,
    law: Any,
    weigh: Callable[[ss.Simulation, Any], tuple[Any, ...]],
    xml: str,
    physics: ss.PbdR,
    device: str,
    qpos: ArrayLike,
    qvel: ArrayLike,
    *,
    accuracy: tuple[float, float],
    planes: Sequence[Plane] = (),
    timestep: float = STEP,
) -> Twin:
    """Bodies of a model, where they are apart, in a given state; with the friction of their first geoms.

    Args:
        reference: with `make_body`, `substep`, and `motion_of` a body
        law: of the reference
        weigh: mass of a body, and what else `make_body` takes of it
        xml: the model
        physics: of the simulation
        device: likewise
        qpos: of all bodies
        qvel: likewise
        accuracy: how far apart the two may be [m], [m/s]
        planes: of the model
        timestep: [s]
    """
    sim = ss.Simulation(xml, physics, device=device, timestep=timestep)
    sim.qpos, sim.qvel = np.ravel(qpos), np.ravel(qvel)
    bodies = []
    poses, velocities = single(qpos).reshape(-1, 7), single(qvel).reshape(-1, 6)
    for packed, pose, moving in zip(sim.m.bodies, poses, velocities, strict=True):
        mat = frame(pose[3:])
        friction = float(single(sim.mjm.geom_friction[packed.geom[0], 0]))
        bodies.append(
            reference.make_body(
                packed.centre, packed.radius, *weigh(sim, packed), friction,
                pos=pose[:3], mat=mat, vel=moving[:3], omega=mat @ moving[3:],
            )
        )  # fmt: skip
    return Twin(sim, reference, bodies, law, tuple(planes), physics.substeps or 1, *accuracy)


# scenes

BOX = """<mujoco>
  <worldbody>
    <geom type="plane" size="5 5 0.1" friction="0.4" condim="3"/>
    <body pos="0 0 1"><freejoint/><geom type="box" size="0.1 0.1 0.1" mass="4" friction="0.4"/></body>
  </worldbody>
</mujoco>"""
THROWN = [0.0, 0.0, 0.155, 0.9, 0.3, 0.2, 0.1], [1.0, 0.5, -1.0, 3.0, -2.0, 4.0]
LYING = [0.3, -0.2, 0.0999, 1.0, 0.0, 0.0, 0.2], [0.5, -0.3, 0.0, 0.0, 0.0, 2.0]

PAIR = """<mujoco>
  <option gravity="0 0 0"/>
  <worldbody>
    <body pos="0 0 1"><freejoint/><geom type="box" size="0.1 0.1 0.1" mass="4" friction="0.3"/></body>
    <body pos="0 0 2"><freejoint/><geom type="box" size="0.06 0.08 0.06" mass="1.5" friction="0.5"/></body>
  </worldbody>
</mujoco>"""
MEETING = (
    ([0.0, 0.0, 0.0, 1.0, 0.1, -0.2, 0.05], [0.2, 0.05, 0.03, 0.7, 0.2, 0.4, -0.3]),
    ([1.0, 0.3, 0.0, 2.0, 1.0, -3.0], [-1.5, 0.0, 0.2, -4.0, 2.0, 1.0]),
)

SLOPE = np.radians(20.0)
PILE = f"""<mujoco>
  <worldbody>
    <geom type="plane" size="5 5 0.1" pos="0.02 -0.01 0.03" euler="0 {np.degrees(SLOPE)} 0" friction="0.5"/>
    <body pos="0 0 1"><freejoint/><geom type="box" size="0.1 0.1 0.1" mass="4" friction="0.3"/></body>
    <body pos="0 0 2"><freejoint/><geom type="box" size="0.06 0.08 0.06" mass="1.5" friction="0.6"/></body>
    <body pos="0 0 3">
      <freejoint/>
      <geom type="box" size="0.12 0.03 0.03" pos="0.1 0 0" mass="1" friction="0.2"/>
      <body pos="0.02 0.02 0.07" euler="0 0 15">
        <geom type="box" size="0.04 0.04 0.04" mass="0.7" friction="0.2"/>
      </body>
    </body>
  </worldbody>
</mujoco>"""


def slope() -> Plane:
    """The plane of `PILE`."""
    return Plane((0.02, -0.01, 0.03), (np.sin(SLOPE), 0.0, np.cos(SLOPE)), float(single(0.5)))


def piled() -> tuple[tuple[list[float], ...], tuple[list[float], ...]]:
    """qpos and qvel of `PILE`: a box on the slope, another that falls on it, and a third body beside them."""
    origin, normal = np.asarray(slope().point), np.asarray(slope().normal)
    tilt = np.array([np.cos(0.5 * SLOPE), 0.0, np.sin(0.5 * SLOPE), 0.0])
    along = np.array([np.cos(SLOPE), 0.0, -np.sin(SLOPE)])
    qpos = (
        [*(origin + 0.0995 * normal), *tilt],
        [*(origin + 0.05 * along + 0.265 * normal), 0.9, 0.3, -0.1, 0.2],
        [*(origin + 0.13 * along + 0.035 * normal), *(tilt + [0.0, 0.03, 0.02, -0.05])],
    )
    qvel = (
        [0.3, 0.1, -0.1, 0.0, 0.0, 1.0],
        [0.2, -0.1, -1.0, 2.0, -3.0, 1.0],
        [-1.0, 0.0, 0.1, 0.0, 1.0, 0.5],
    )
    return qpos, qvel


def welded_pairs(sim: ss.Simulation) -> set[tuple[int, int]]:
    """MuJoCo's bodies that touch now, in pairs."""
    weld = sim.mjm.body_weldid[sim.mjm.geom_bodyid[sim.contacts().geom]]
    return {(int(min(pair)), int(max(pair))) for pair in weld}
