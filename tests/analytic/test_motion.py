"""Motion with a known answer: free fall, the pendulum, how deep a body sinks in at rest, and how it bounces."""

import math

import mujoco
import numpy as np
import pytest

import stickslip as ss
from tests import support
from tests.reference.comfree import impedance_curve

GRAVITY = 9.81
SOLIMP = np.array([0.9, 0.95, 0.001, 0.5, 2.0])  # MuJoCo's default


@pytest.fixture(params=support.COMPILED_BY_WARP)
def physics(request: pytest.FixtureRequest) -> ss.Physics:
    """Every physics at its defaults."""
    return ss.PHYSICS[request.param]()


BALL = """
<mujoco>
  <option timestep="{dt}"/>
  <worldbody><body><freejoint/><geom type="sphere" size="0.1" mass="0.7"/></body></worldbody>
  <keyframe><key qpos="0 0 5 1 0 0 0" qvel="1 -0.5 2 3 0 0"/></keyframe>
</mujoco>
"""


@pytest.mark.parametrize("dt", [0.001, 0.005])
def test_free_fall(physics: ss.Physics, dt: float, device: str) -> None:
    """Semi-implicit Euler in closed form: v_n = v_0 - g n dt and z_n = z_0 + v_0 n dt - g dt^2 n (n + 1) / 2."""
    sim = ss.Simulation(BALL.format(dt=dt), physics, device=device)
    n = 200
    sim.step(n)
    state = sim.state
    if isinstance(physics, ss.Cenic):
        n, dt = 2 * n, dt / 2  # two half steps each
    if isinstance(physics, ss.PbdR):
        parts = round(dt / 0.001)  # substeps of 1 ms
        n, dt = parts * n, dt / parts
    np.testing.assert_allclose(state.qvel[0, :3], [1.0, -0.5, 2.0 - GRAVITY * n * dt], rtol=2e-5, atol=1e-5)
    height = 5.0 + 2.0 * n * dt - GRAVITY * dt**2 * n * (n + 1) / 2
    np.testing.assert_allclose(state.qpos[0, :3], [n * dt, -0.5 * n * dt, height], rtol=2e-5, atol=1e-5)
    # a GPU fuses multiply and add: 1.9e-6 seen on an H200; a state in double precision keeps every rounding of MuJoCo
    # Warp's single precision forces: 2.9e-6 seen
    rounding = 1e-6 if device == "cpu" and physics.name not in ("icf", "cenic") else 5e-6
    np.testing.assert_allclose(state.qvel[0, 3:], [3.0, 0.0, 0.0], atol=rounding)  # a sphere's spin does not change
    turned = 2.0 * math.atan2(state.qpos[0, 4], state.qpos[0, 3])
    np.testing.assert_allclose(turned, 3.0 * n * dt, rtol=1e-4)


PENDULUM = """
<mujoco>
  <option timestep="0.001"/>
  <worldbody>
    <body><joint axis="0 1 0"/><geom type="sphere" pos="0 0 -0.5" size="0.05" mass="0.3"/></body>
  </worldbody>
  <keyframe><key qpos="{angle}"/></keyframe>
</mujoco>
"""


def swing(physics: ss.Physics, device: str, angle: float, steps: int) -> tuple[np.ndarray, np.ndarray, ss.Simulation]:
    """Angle and velocity of a pendulum released at rest, at every step, the start included."""
    sim = support.simulate(PENDULUM.format(angle=angle), physics, device=device)
    angles, velocities = [angle], [0.0]
    for _ in range(steps):
        sim.step()
        angles.append(float(sim.qpos.numpy()[0, 0]))
        velocities.append(float(sim.qvel.numpy()[0, 0]))
    return np.array(angles), np.array(velocities), sim


def test_pendulum_period(physics: ss.Physics, device: str) -> None:
    """Small swings take 2 pi sqrt(I / (m g l)), times 1 + angle^2 / 16 for the size of the swing.

    Semi-implicit Euler changes the period by a share of (omega dt)^2 / 24, 1e-6 here. The tolerance is 1e-4.
    """
    angle, length, mass, dt = 0.1, 0.5, 0.3, 0.001
    inertia = mass * length**2 + 0.4 * mass * 0.05**2
    omega = math.sqrt(mass * GRAVITY * length / inertia)
    angles, velocities, _ = swing(physics, device, angle, 3000)
    crossings = np.flatnonzero((angles[:-1] > 0) & (angles[1:] <= 0))
    times = (crossings + angles[crossings] / (angles[crossings] - angles[crossings + 1])) * dt
    assert len(times) == 2
    np.testing.assert_allclose(times[1] - times[0], 2 * math.pi / omega * (1 + angle**2 / 16), rtol=1e-4)
    # its energy swings with the velocity lag of half a step, and does not drift
    energy = 0.5 * inertia * velocities**2 + mass * GRAVITY * length * (1 - np.cos(angles))
    np.testing.assert_allclose(energy, energy[0], rtol=omega * dt)
    np.testing.assert_allclose(np.abs(angles[2000:]).max(), angle, rtol=1e-3)


def test_large_swing_is_c_mujocos(physics: ss.Physics, device: str) -> None:
    """From the horizontal, where no small-angle formula holds: C MuJoCo's trajectory, and the energy of the fall."""
    angles, velocities, sim = swing(physics, device, 1.5, 1000)
    mjd = mujoco.MjData(sim.mjm)
    mujoco.mj_resetDataKeyframe(sim.mjm, mjd, 0)
    parts = 2 if isinstance(physics, ss.Cenic) else 1  # two half steps each
    sim.mjm.opt.timestep /= parts
    want = [mjd.qpos[0]]
    for _ in range(1000):
        mujoco.mj_step(sim.mjm, mjd, parts)
        want.append(mjd.qpos[0])
    np.testing.assert_allclose(angles, want, atol=1e-4)
    lowest = np.argmin(np.abs(angles))
    inertia = 0.3 * 0.5**2 + 0.4 * 0.3 * 0.05**2
    fallen = 0.3 * GRAVITY * 0.5 * (math.cos(angles[lowest]) - math.cos(1.5))
    np.testing.assert_allclose(0.5 * inertia * velocities[lowest] ** 2, fallen, rtol=5e-3)


REST = """
<mujoco>
  <option timestep="{dt}"/>
  <worldbody>
    <geom type="plane" size="1 1 1" condim="{dim}"/>
    <body pos="0 0 0.1"><freejoint/><geom type="{kind}" size="0.1 0.1 0.1" mass="0.7" condim="{dim}"/></body>
  </worldbody>
</mujoco>
"""


def bisect(excess, low: float, high: float) -> float:
    """Where an increasing function changes its sign."""
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if excess(middle) > 0 else (middle, high)
    return low


@pytest.mark.parametrize("kind, points", [("sphere", 1), ("box", 4)])
@pytest.mark.parametrize("dim", [1, 3, 4, 6])
@pytest.mark.parametrize("dt", [0.001, 0.004])
def test_comfree_resting_height(kind: str, points: int, dim: int, dt: float, device: str) -> None:
    """n facets, each with K (|phi| + g dt^2) + D g dt, carry the weight: u = -g dt is the velocity they foresee."""
    facets = points * (1 if dim == 1 else 2 * (dim - 1))
    k = 0.2
    d = 0.006 / math.sqrt(facets)  # near critical, so that it comes to rest soon
    mass = 0.7

    def excess(depth: float) -> float:
        r = impedance_curve(SOLIMP, depth)
        m_phi = r / (1 - r) * mass  # the inverse mass of a free body is 1/m, that of the plane is 0
        each = k * m_phi / dt * (depth + GRAVITY * dt**2) + d * m_phi / dt * GRAVITY * dt
        return facets * each - mass * GRAVITY

    depth = bisect(excess, 0.0, 0.1)
    sim = ss.Simulation(REST.format(dt=dt, dim=dim, kind=kind), ss.ComFree(k, d), device=device)
    sim.step(600)
    assert 1e-6 < depth < 1e-2
    np.testing.assert_allclose(sim.state.qpos[0, 2], 0.1 - depth, atol=2e-7 + 2e-3 * depth)
    np.testing.assert_allclose(sim.state.qvel[0], 0.0, atol=1e-4)
    contacts = sim.contacts()
    assert len(contacts) == points
    np.testing.assert_allclose(contacts.force[:, 0].sum(), mass * GRAVITY, rtol=1e-3)


@pytest.mark.parametrize("dim", [1, 3, 4, 6])
def test_mujoco_resting_height(dim: int, device: str) -> None:
    """MuJoCo: a sphere sinks in until k r |phi| = g (1 - r) / r, exact for one frictionless contact.

    k = 1 / (r_max timeconst dampratio)^2. With friction its pyramid is softer or stiffer, but never by much.
    """
    stiffness = 1.0 / (0.95 * 0.02) ** 2

    def excess(depth: float) -> float:
        r = impedance_curve(SOLIMP, depth)
        return stiffness * r * depth - GRAVITY * (1 - r) / r

    depth = bisect(excess, 0.0, 0.1)
    sim = ss.Simulation(REST.format(dt=0.002, dim=dim, kind="sphere"), ss.MuJoCo(), device=device)
    sim.step(600)
    sunk = 0.1 - sim.state.qpos[0, 2]
    assert 1e-4 < depth < 1e-3
    if dim == 1:
        np.testing.assert_allclose(sunk, depth, rtol=1e-3)
    assert 0.0 < sunk < 3.0 * depth
    np.testing.assert_allclose(sim.contacts().force[:, 0].sum(), 0.7 * GRAVITY, rtol=1e-3)


@pytest.mark.parametrize("kind, points", [("sphere", 1), ("box", 4)])
@pytest.mark.parametrize("dim", [1, 3, 4, 6])
def test_cone_sweep_resting_height(kind: str, points: int, dim: int, device: str) -> None:
    """A body at rest on the floor neither sinks in nor moves, and the floor carries its weight from the first step."""
    sim = ss.Simulation(REST.format(dt=0.002, dim=dim, kind=kind), ss.ConeSweep(), device=device)
    for steps in (1, 299):
        sim.step(steps)
        np.testing.assert_allclose(sim.state.qpos[0, 2], 0.1, atol=1e-6)
        np.testing.assert_allclose(sim.state.qvel[0], 0.0, atol=1e-5)
        contacts = sim.contacts()
        assert len(contacts) == points
        np.testing.assert_allclose(contacts.force[:, 0].sum(), 0.7 * GRAVITY, rtol=1e-4)


def test_cone_sweep_takes_depth_out(device: str) -> None:
    """The depth beyond `slop` shrinks by a share in each substep, more where it is deep, and leaves no velocity."""
    share, slop, substeps = 0.25, 5e-5, 6
    sim = ss.Simulation(
        REST.format(dt=0.002, dim=3, kind="sphere"), ss.ConeSweep(slop=slop, correction=share), device=device
    )
    qpos = sim.qpos.numpy().copy()
    qpos[0, 2] = 0.1 - 0.004
    sim.qpos = qpos
    depth = 0.004 - slop
    for _ in range(30):
        sim.step()
        for _ in range(substeps):
            more = 1.0 + 2.0 * depth / (depth + 5e-4)
            depth -= min((1 - (1 - share) ** (1 / substeps)) * depth * more, 0.002 / substeps * 1.0)  # 1 m/s at most
        np.testing.assert_allclose(sim.state.qpos[0, 2], 0.1 - slop - depth, atol=1e-6)
        np.testing.assert_allclose(sim.state.qvel[0], 0.0, atol=1e-6)


BOUNCE = """
<mujoco>
  <option timestep="0.002" gravity="0 0 0"/>
  <worldbody>
    <geom type="plane" size="1 1 1"/>
    <body><freejoint/><geom type="sphere" size="0.1" mass="1"/></body>
    <body><freejoint/><geom type="sphere" size="0.1" mass="3"/></body>
    <body><freejoint/><geom type="sphere" size="0.1" mass="2"/></body>
  </worldbody>
  <keyframe>
    <key qpos="0 0 0.11 1 0 0 0  1 0 0.5 1 0 0 0  1.25 0 0.5 1 0 0 0"
      qvel="0 0 {speed} 0 0 0  1 0 0 0 0 0  -0.5 0 0 0 0 0"/>
  </keyframe>
</mujoco>
"""


@pytest.mark.parametrize("restitution", [0.0, 0.5, 1.0])
def test_cone_sweep_bounces(restitution: float, device: str) -> None:
    """Newton's law v' = -e v, on a floor at any speed and between two free spheres, whose momentum stays the same."""
    for speed in (0.1, 0.5, 3.0):
        sim = ss.Simulation(BOUNCE.format(speed=-speed), ss.ConeSweep(restitution=restitution), device=device)
        sim.step(200)
        velocity = sim.state.qvel[0]
        np.testing.assert_allclose(velocity[2], restitution * speed, rtol=1e-4, atol=1e-6)
        first, second = velocity[6], velocity[12]
        np.testing.assert_allclose(second - first, restitution * 1.5, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(3.0 * first + 2.0 * second, 2.0, rtol=1e-5)


def test_cone_sweep_lets_slow_contacts_rest(device: str) -> None:
    """Below 0.05 m/s nothing bounces: a sphere with restitution 0.9 that falls comes to rest."""
    sim = ss.Simulation(REST.format(dt=0.002, dim=3, kind="sphere"), ss.ConeSweep(restitution=0.9), device=device)
    qpos = sim.qpos.numpy().copy()
    qpos[0, 2] = 0.12
    sim.qpos = qpos
    heights = []
    for _ in range(2500):
        sim.step()
        heights.append(float(sim.qpos.numpy()[0, 2]))
    assert max(heights[100:200]) > 0.11  # a second hop of 0.81 times the first
    np.testing.assert_allclose(sim.state.qpos[0, 2], 0.1, atol=1e-4)
    np.testing.assert_allclose(sim.state.qvel[0], 0.0, atol=1e-5)
