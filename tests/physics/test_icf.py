"""The convex step as physics, at a fixed size and under error control: friction, contact that does not glide, impacts
within one step, near-rigid limits, bounded actuators, and steps of a tenth of a second."""

import math

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

import stickslip as ss
from stickslip.physics.convex.step.model import RIGIDITY
from tests import support

GRAVITY = 9.81
BOTH = [ss.Icf(), ss.Cenic(accuracy=1e-4)]

BLOCK = """<mujoco>
  <option timestep="{timestep}"/>
  <size nuser_geom="3"/>
  <default><geom friction="{mu} 0.005 0.0001" user="{user}"/></default>
  <worldbody>
    <geom type="plane" size="9 9 0.1"/>
    <body pos="0 0 {height}">{joints}<geom type="box" size="0.1 0.1 0.02" mass="1"/></body>
  </worldbody>
</mujoco>"""
"""A flat block on the floor or above it."""

SLIDES = '<joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/>'
FREE = "<freejoint/>"

LIMITED = """<mujoco>
  <option gravity="0 0 0"/>
  <worldbody><body>
    <joint type="slide" axis="1 0 0" range="-1 0" limited="true"/><geom size="0.1" mass="2"/>
  </body></worldbody>
</mujoco>"""
"""A slide at its upper limit, where numbers are small and their digits many."""

TIED = """<mujoco>
  <option gravity="0 0 0"/>
  <worldbody><body>
    <joint name="slide" type="slide" axis="1 0 0"/><geom size="0.1" mass="2"/>
  </body></worldbody>
  <equality><joint joint1="slide"/></equality>
</mujoco>"""
"""A slide that an equality holds at 0."""

SERVO = """<mujoco>
  <option gravity="0 0 0" timestep="0.01"/>
  <worldbody>
    <body><joint name="a" type="slide" axis="1 0 0" {joint}/><geom size="0.1" mass="2"/></body>
  </worldbody>
  <actuator><position joint="a" kp="1000" kv="100" {servo}/></actuator>
</mujoco>"""
"""A servo on a slide of 2 kg, with a bound of its own or of its joint."""


def name_of(physics: ss.Physics) -> str:
    return physics.name


def block(mu: float, *, timestep: float, joints: str = FREE, user: str = "1e5 20 0", height: float = 0.02) -> str:
    """The model of a block; `user` is stiffness, dissipation and static friction of both it and the floor."""
    return BLOCK.format(mu=mu, timestep=timestep, joints=joints, user=user, height=height)


# Friction.


@pytest.mark.parametrize("physics", BOTH, ids=name_of)
def test_a_block_sticks_below_its_angle_and_slips_above(physics: ss.Physics, device: str) -> None:
    """tan(0.25) = 0.2553: with mu 0.26 it stays within 0.1 mm in a second, with 0.25 it gains g (sin - mu cos)."""
    angle = 0.25
    sim = ss.Simulation(f"box-on-slope:angle={angle},mu=0.26", physics, device=device, timestep=0.01)
    sim.step(20)
    before = support.exact(sim)[0][0, :3]
    sim.step(100)
    assert np.linalg.norm(support.exact(sim)[0][0, :3] - before) < 1e-4
    sim = ss.Simulation(f"box-on-slope:angle={angle},mu=0.25", physics, device=device, timestep=0.01)
    sim.step(20)
    before = support.exact(sim)[1][0, :3]
    sim.step(100)
    gained = np.linalg.norm(support.exact(sim)[1][0, :3] - before)
    np.testing.assert_allclose(gained, GRAVITY * (math.sin(angle) - 0.25 * math.cos(angle)), rtol=0.02)


def creep(load: float, mu: float, static: float) -> float:
    """Slip over stiction velocity at which friction is `load` times the normal force: (5), (7), (8), by bisection."""

    def friction(s: float) -> float:
        share = (1.0 - (s - 10.0) / math.hypot(s - 10.0, 1.0)) / (1.0 + 10.0 / math.hypot(10.0, 1.0))
        return (mu + (static - mu) * share) * s / math.hypot(s, 1.0)

    low, high = 0.0, 6.0
    for _ in range(60):
        mid = 0.5 * (low + high)
        low, high = (mid, high) if friction(mid) < load else (low, mid)
    return 0.5 * (low + high)


@pytest.mark.parametrize("static", [0.0, 0.8])
@pytest.mark.parametrize("stiction", [1e-3, 1e-4])
@pytest.mark.parametrize("physics", [ss.Icf, ss.Cenic])
def test_a_sticking_block_creeps_by_the_law(
    physics: type[ss.Icf] | type[ss.Cenic], stiction: float, static: float, device: str
) -> None:
    """tan(angle) = mu s / sqrt(s^2 + 1) at a slip of s times the stiction velocity; static friction holds it better."""
    angle, mu = 0.4, 0.5
    xml = block(mu, timestep=0.01, user=f"1e5 20 {static}")
    mjm = mujoco.MjModel.from_xml_string(xml)
    mjm.opt.gravity[:] = GRAVITY * math.sin(angle), 0.0, -GRAVITY * math.cos(angle)
    sim = ss.Simulation(mjm, physics(stiction=stiction), device=device)
    sim.step(150)
    slip = creep(math.tan(angle), mu, max(static, mu))
    np.testing.assert_allclose(support.exact(sim)[1][0, 0], slip * stiction, rtol=0.01)


@pytest.mark.parametrize("mu", [0.2, 0.6])
@pytest.mark.parametrize("physics", BOTH, ids=name_of)
def test_a_sliding_block_brakes_by_mu_g(physics: ss.Physics, mu: float, device: str) -> None:
    """v(t) = v_0 - mu g t, straight on in a direction that is no axis, to a stop where it stays."""
    sim = ss.Simulation(block(mu, timestep=0.01), physics, device=device)
    sim.qvel = [1.2, 0.9, 0, 0, 0, 0]
    sim.step(5)
    first = support.exact(sim)[1][0, :2]
    sim.step(15)
    second = support.exact(sim)[1][0, :2]
    np.testing.assert_allclose(np.linalg.norm(first - second), mu * GRAVITY * 0.15, rtol=2e-3)
    np.testing.assert_allclose(second[0] / second[1], 4.0 / 3.0, rtol=1e-3)
    sim.step(70)
    stopped, speed = support.exact(sim)
    assert np.abs(speed[0, :2]).max() < 1e-6
    sim.step(50)
    np.testing.assert_allclose(support.exact(sim)[0][0, :2], stopped[0, :2], atol=1e-6)


@pytest.mark.parametrize("physics", BOTH, ids=name_of)
def test_a_fast_block_does_not_glide(physics: ss.Physics, device: str) -> None:
    """At 5 m/s it lies as deep in the floor as at rest."""
    height = []
    for speed in (0.0, 5.0):
        sim = ss.Simulation(block(0.5, timestep=0.01), physics, device=device)
        sim.qvel = [speed, 0, 0, 0, 0, 0]
        sim.step(60)
        height.append(support.exact(sim)[0][0, 2])
    assert support.exact(sim)[1][0, 0] > 1.0
    depth = GRAVITY / (4.0 * 0.5e5)
    np.testing.assert_allclose(0.02 - height[0], depth, rtol=0.01)
    np.testing.assert_allclose(height[1], height[0], atol=0.02 * depth)


# Static and dynamic friction on a belt: columns of a run are the belt's and the block's position and velocity.


def ride(device: str, amplitude: float, physics: ss.Physics, seconds: float) -> NDArray:
    """Position and velocity of belt and block every 5 ms, (n, 4)."""
    sim = ss.Simulation(f"conveyor:amplitude={amplitude}", physics, device=device, timestep=0.005)
    rows = []
    for _ in range(round(seconds / 0.005)):
        sim.step()
        qpos, qvel = support.exact(sim)
        rows.append([qpos[0, 0], qvel[0, 0], qpos[0, 1], qvel[0, 1]])
    return np.array(rows)


def test_a_block_on_a_belt_sticks_and_slips(device: str) -> None:
    """It breaks loose where the belt's acceleration is mu_s g, slides with mu_d g, and sticks again, twice a period."""
    run = ride(device, 0.28, ss.Cenic(accuracy=1e-5), 2.2)
    belt, rate, _, speed = run.T
    slip = speed - rate
    sticks = np.abs(slip) < 1e-3
    acceleration = np.diff(speed) / 0.005
    inside = ~sticks[1:] & ~sticks[:-1] & (np.sign(slip[1:]) == np.sign(slip[:-1]))
    assert inside.sum() > 40
    np.testing.assert_allclose(acceleration[inside], -np.sign(slip[1:][inside]) * 0.5 * GRAVITY, rtol=0.02)
    loose = np.flatnonzero(sticks[:-1] & ~sticks[1:])
    assert len(loose) == 4, loose  # the turning points at 0.5, 1, 1.5 and 2 s
    pull = np.abs(belt) * (2.0 * math.pi) ** 2
    assert (pull[loose] < 1.01 * GRAVITY).all() and (pull[loose + 1] > 0.98 * GRAVITY).all(), pull[loose]
    assert (np.flatnonzero(~sticks[:-1] & sticks[1:]).size) >= 4


@pytest.mark.parametrize("physics", [ss.Icf(), ss.Cenic()], ids=name_of)
def test_a_block_on_a_gentle_belt_never_slips(physics: ss.Physics, device: str) -> None:
    """The belt's acceleration is 0.97 mu_s g at most, well above mu_d g: the block goes with it."""
    belt, rate, place, speed = ride(device, 0.24, physics, 1.5).T
    assert np.abs(speed - rate).max() < 1e-3
    assert np.abs(place - belt).max() < 1e-3


# Impacts within one step.


@pytest.mark.parametrize("joints, rtol", [(SLIDES, 1e-5), (FREE, 0.05)], ids=["slides", "free"])
def test_friction_of_an_impact_takes_a_second_pass(device: str, joints: str, rtol: float) -> None:
    """A block that lands within a step loses mu times the normal impulse, with two passes; with one, nothing."""
    mu, dt = 0.4, 0.01
    lost = {}
    for passes in (1, 2, 3):
        xml = block(mu, timestep=dt, joints=joints, height=0.022)
        sim = ss.Simulation(xml, ss.Icf(passes=passes), device=device)
        sim.qvel = [3.0, -1.0] if joints == SLIDES else [3.0, 0, -1.0, 0, 0, 0]
        sim.step()
        vx, vz = support.exact(sim)[1][0, [0, 1] if joints == SLIDES else [0, 2]]
        normal = vz + 1.0 + GRAVITY * dt
        assert normal > 0.3  # it does land
        lost[passes] = (3.0 - vx) / normal
    assert abs(lost[1]) < 1e-9
    np.testing.assert_allclose([lost[2], lost[3]], mu, rtol=rtol)


# Limits and actuators.


def test_a_limit_gives_with_the_square_of_the_step(device: str) -> None:
    """A joint pressed against its limit goes beyond by F / k, k = 4 pi^2 m / (beta dt)^2 of (18)."""
    for dt in (0.1, 0.01, 0.001):
        sim = ss.Simulation(LIMITED, ss.Icf(), device=device, timestep=dt)
        sim.qfrc_applied = [30.0]
        sim.step(200)
        beyond = support.exact(sim)[0][0, 0]
        np.testing.assert_allclose(beyond, 30.0 * (RIGIDITY * dt) ** 2 / (4.0 * math.pi**2 * 2.0), rtol=1e-3)
        assert abs(support.exact(sim)[1][0, 0]) < 1e-6


@pytest.mark.parametrize("xml", [LIMITED, TIED], ids=["limit", "equality"])
@pytest.mark.parametrize("physics", BOTH, ids=name_of)
def test_what_starts_far_off_takes_its_time(physics: ss.Physics, xml: str, device: str) -> None:
    """A joint that starts 0.5 m off comes back within a fiftieth of a second, not within a step."""
    for dt in (0.0005, 0.01):
        sim = ss.Simulation(xml, physics, device=device, timestep=dt)
        sim.qpos = [0.5]
        fastest = 0.0
        for _ in range(round(0.4 / dt)):
            sim.step()
            fastest = max(fastest, abs(support.exact(sim)[1][0, 0]))
        assert 0.5 < fastest * 0.02 / 0.5 < 1.02
        assert support.exact(sim)[0][0, 0] < 1e-3
        assert sim.health().ok
    if xml == TIED:
        np.testing.assert_allclose(support.exact(sim)[0], 0.0, atol=1e-3)


@pytest.mark.parametrize("accuracy", [1e-2, 1e-4])
def test_a_limit_holds_under_error_control(device: str, accuracy: float) -> None:
    """Thrown and pressed against its limit, a joint never goes beyond by more than the accuracy."""
    sim = ss.Simulation(LIMITED, ss.Cenic(accuracy=accuracy), device=device, timestep=0.01)
    sim.qpos, sim.qvel, sim.qfrc_applied = [-0.2], [3.0], [30.0]
    deepest = 0.0
    for _ in range(50):
        sim.step()
        deepest = max(deepest, support.exact(sim)[0][0, 0])
    assert 0.0 < deepest < accuracy
    np.testing.assert_allclose(support.exact(sim)[0][0, 0], 0.0, atol=1e-5)


@pytest.mark.parametrize(
    "bounds",
    [
        {"servo": 'forcelimited="true" forcerange="-7 5"', "joint": ""},
        {"servo": "", "joint": 'actuatorfrclimited="true" actuatorfrcrange="-7 5"'},
    ],
    ids=["actuator", "joint"],
)
@pytest.mark.parametrize("physics", BOTH, ids=name_of)
def test_an_actuator_pushes_no_harder_than_its_bound(physics: ss.Physics, bounds: dict[str, str], device: str) -> None:
    """Far from its target exactly the bound, either way; near it, it comes to rest there."""
    for target, most in ((100.0, 5.0), (-100.0, -7.0)):
        sim = ss.Simulation(SERVO.format(**bounds), physics, device=device)
        sim.ctrl = [target]
        sim.step(20)
        np.testing.assert_allclose(support.exact(sim)[1][0, 0], most / 2.0 * 0.2, rtol=1e-6)
        np.testing.assert_allclose(sim.d.qfrc_actuator.numpy()[0, 0], most, rtol=1e-6)
    sim = ss.Simulation(SERVO.format(**bounds), physics, device=device)
    sim.ctrl = [0.1]
    sim.step(200)
    np.testing.assert_allclose(support.exact(sim)[0][0, 0], 0.1, atol=2e-4)


# Stability.


@pytest.mark.parametrize("dt, margin", [(0.02, 0.005), (0.1, 0.005), (0.1, 0.1)])
def test_large_steps_keep_a_clutter_in_its_bin(device: str, dt: float, margin: float) -> None:
    """Hard bodies at steps of 0.1 s: finite, in the bin, slowing down, and no energy from nowhere.

    In such a step they fall deep into each other unless they look ahead, and touch in many points either way.
    """
    sim = ss.Simulation(
        "hard-clutter", ss.Icf(speculative_margin=margin), device=device, timestep=dt, nconmax=5000, njmax=15000
    )
    mjd = mujoco.MjData(sim.mjm)
    sim.mjm.opt.enableflags |= mujoco.mjtEnableBit.mjENBL_ENERGY

    def energy() -> tuple[float, float]:
        mjd.qpos[:], mjd.qvel[:] = (a[0] for a in (sim.qpos.numpy(), sim.qvel.numpy()))
        mujoco.mj_fwdPosition(sim.mjm, mjd)
        mujoco.mj_fwdVelocity(sim.mjm, mjd)
        mujoco.mj_energyPos(sim.mjm, mjd)
        mujoco.mj_energyVel(sim.mjm, mjd)
        return float(mjd.energy[0]), float(mjd.energy[1])

    start = sum(energy())
    for _ in range(10):
        sim.step(round(0.3 / dt))
        assert sum(energy()) < start
    assert sim.health().ok
    place = sim.qpos.numpy().reshape(-1, 7)[:, :3]
    assert np.abs(place[:, :2]).max() < 0.4 and place[:, 2].min() > 0.0 and place[:, 2].max() < 0.8
    assert energy()[1] < 0.05 * start
