"""Free bodies that turn with the cone sweep: angular momentum and energy stay, however fast they are."""

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

import stickslip as ss
from stickslip import mjcf

PLATE = """<mujoco><option gravity="{gravity}" timestep="{dt}"><flag {flag}/></option><worldbody>
    <body name="plate"><freejoint/><geom type="box" size=".06 .004 .04" mass=".1" pos="{off} 0 0"/></body>{more}
  </worldbody></mujoco>"""
ROBOT = '<body pos="3 0 0"><joint axis="0 1 0" damping=".1"/><geom size=".1"/></body>'
"""With it the sweeps are in contact space."""
AXIS = np.array([0.3, 0.2, 1.0])


def plate(
    speed: float, off: float = 0.0, more: str = "", dt: float = 0.002, flag: str = "", gravity: str = "0 0 0"
) -> tuple[mujoco.MjModel, NDArray[np.float64]]:
    """The model, and a velocity that leaves its centre of mass where it is."""
    mjm = mjcf.load(PLATE.format(dt=dt, off=off, more=more, flag=flag, gravity=gravity))
    qvel = np.zeros(mjm.nv)
    qvel[3:6] = speed * AXIS
    qvel[:3] = -np.cross(qvel[3:6], [off, 0.0, 0.0])
    return mjm, qvel


def spun(mjm: mujoco.MjModel, qvel: NDArray[np.float64], physics: ss.Physics, device: str) -> ss.Simulation:
    sim = ss.Simulation(mjm, physics, nworld=1, device=device)
    sim.qvel = qvel[None]
    return sim


def momenta(mjm: mujoco.MjModel, sim: ss.Simulation) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    """Kinetic energy, angular momentum and velocity of the centre of mass, by MuJoCo in C."""
    mjd = mujoco.MjData(mjm)
    mjd.qpos[:], mjd.qvel[:] = sim.qpos.numpy()[0], sim.qvel.numpy()[0]
    mujoco.mj_forward(mjm, mjd)
    mujoco.mj_energyVel(mjm, mjd)
    mujoco.mj_subtreeVel(mjm, mjd)
    return float(mjd.energy[1]), mjd.subtree_angmom[1].copy(), mjd.subtree_linvel[1].copy()


@pytest.mark.parametrize("flag", ["", 'constraint="disable"'])
@pytest.mark.parametrize("more", ["", ROBOT])
@pytest.mark.parametrize("off", [0.0, 0.05])
def test_a_tumbling_plate_keeps_energy_and_momentum(device: str, off: float, more: str, flag: str) -> None:
    """Two seconds at 15 rad/s. Euler's rule makes 12 % more energy of it, and turns the angular momentum by 6 %."""
    mjm, qvel = plate(15.0, off, more, flag=flag)
    sim = spun(mjm, qvel, ss.ConeSweep(), device)
    energy, angular, _ = momenta(mjm, sim)
    sim.step(1000)
    after, turned, moving = momenta(mjm, sim)
    assert abs(after - energy) < 1e-4 * energy
    np.testing.assert_allclose(turned, angular, atol=1e-4 * np.linalg.norm(angular))
    np.testing.assert_allclose(moving, 0.0, atol=1e-4 * max(np.linalg.norm(qvel[:3]), 1e-2))
    stock = spun(mjm, qvel, ss.MuJoCo(), device)
    stock.step(1000)
    assert momenta(mjm, stock)[0] > 1.1 * energy


@pytest.mark.parametrize("more", ["", ROBOT])
@pytest.mark.parametrize("speed", [100.0, 1000.0, 30_000.0])
def test_no_speed_is_too_fast(device: str, speed: float, more: str) -> None:
    """Up to sixty radians per step: finite, and never more energy. Euler's rule ends in NaN at each of them."""
    mjm, qvel = plate(speed, 0.02, more)
    sim = spun(mjm, qvel, ss.ConeSweep(), device)
    energy = momenta(mjm, sim)[0]
    for _ in range(20):
        sim.step(50)
        assert momenta(mjm, sim)[0] < (1.0 + 1e-3) * energy
    assert sim.health().ok


def test_half_the_timestep_a_quarter_of_the_error(device: str) -> None:
    """The pose after half a second, against a fine solution in double precision: second order."""
    exact = orientation(2**-12)
    errors = []
    for dt in (2**-8, 2**-9):
        mjm, qvel = plate(15.0, dt=dt)
        sim = spun(mjm, qvel, ss.ConeSweep(), device)
        sim.step(round(0.5 / dt))
        found = sim.qpos.numpy()[0, 3:7]
        errors.append(2.0 * np.linalg.norm(found * np.sign(found @ exact) - exact))
    assert 3.5 < errors[0] / errors[1] < 4.5


def orientation(dt: float) -> NDArray[np.float64]:
    """Of the plate after half a second, by MuJoCo in C with its Runge-Kutta rule."""
    mjm, qvel = plate(15.0, dt=dt)
    mjm.opt.integrator = mujoco.mjtIntegrator.mjINT_RK4
    mjd = mujoco.MjData(mjm)
    mjd.qvel[:] = qvel
    mujoco.mj_step(mjm, mjd, round(0.5 / dt))
    return mjd.qpos[3:7].copy()


def test_implicitfast_is_mujocos(device: str) -> None:
    """MuJoCo has a rule of its own there."""
    mjm, qvel = plate(15.0, 0.05)
    mjm.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    ours, stock = (spun(mjm, qvel, physics, device) for physics in (ss.ConeSweep(), ss.MuJoCo()))
    for sim in (ours, stock):
        sim.step(100)
    np.testing.assert_allclose(ours.qpos.numpy(), stock.qpos.numpy(), atol=1e-5)
    np.testing.assert_allclose(ours.qvel.numpy(), stock.qvel.numpy(), atol=1e-4)


GRAINS = """<mujoco><option gravity="0 0 0" timestep=".001"/><worldbody>
    <body pos="0 0 0"><freejoint/><geom size="{radius}" density="2500"/></body></worldbody></mujoco>"""


@pytest.mark.parametrize("radius", [2.5e-4, 1e-3, 1.0, 3e3])
def test_bodies_of_any_size_turn_as_they_should(device: str, radius: float) -> None:
    """A torque on a grain of sand and on a sphere of 3 km: the determinants of their inertia are 1e-43 and 1e63.

    Single precision has no such numbers: the grain could turn wrongly or not at all, and the large one was NaN.
    """
    sim = ss.Simulation(mjcf.load(GRAINS.format(radius=radius)), ss.ConeSweep(), nworld=1, device=device)
    inertia = float(sim.mjm.body_inertia[1, 0])
    sim.qfrc_applied = np.array([[0.0, 0.0, 0.0, 0.0, 0.0, 3.0 * inertia]])
    sim.step(10)
    np.testing.assert_allclose(sim.qvel.numpy()[0], [0.0, 0.0, 0.0, 0.0, 0.0, 0.03], rtol=1e-4, atol=1e-7)


FLOOR = """<mujoco><option timestep=".001"/><worldbody><geom type="plane" size="9 9 1"/>
    <body pos="0 0 {radius}"><freejoint/><geom size="{radius}" density="2500"/></body></worldbody></mujoco>"""


@pytest.mark.parametrize("radius", [2.5e-4, 1e-3, 10.0])
def test_balls_of_any_size_roll(device: str, radius: float) -> None:
    """A ball that is set down sliding at v ends up rolling at 5/7 of it, whatever its size."""
    sim = ss.Simulation(mjcf.load(FLOOR.format(radius=radius)), ss.ConeSweep(), nworld=1, device=device)
    speed = 0.1 * np.sqrt(9.81 * radius)
    sim.qvel = np.array([[speed, 0.0, 0.0, 0.0, 0.0, 0.0]])
    sim.step(max(20, int(2000 * np.sqrt(radius))))
    np.testing.assert_allclose(sim.qvel.numpy()[0, 0], 5.0 / 7.0 * speed, rtol=2e-2)
    turning = sim.qvel.numpy()[0, 3:]
    np.testing.assert_allclose(np.linalg.norm(turning) * radius, 5.0 / 7.0 * speed, rtol=2e-2)
