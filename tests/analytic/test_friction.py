"""Friction: every contact force is inside its cone; what slides, spins or rolls is braked, more by more friction."""

import math

import numpy as np
import pytest

import stickslip as ss
from tests import support
from tests.reference.comfree import impedance_curve

GRAVITY = 9.81
ALL_CONDIMS = [ss.ComFree(), ss.MuJoCo(), ss.ConeSweep()]
"""Physics with torsional and rolling friction."""
SLIDING = [*ALL_CONDIMS, ss.Icf(), ss.Cenic()]
"""Those, and physics with sliding friction only; pbd-r and scm have tests of their own."""

# every kind of primitive, with every condim that has friction
MIXED = """
<mujoco>
  <option timestep="0.002" cone="{cone}"/>
  <worldbody>
    <geom type="plane" size="2 2 0.1" friction="0.6 0.004 0.001"/>
    <body pos="0 0 0.06"><freejoint/><geom type="box" size="0.06 0.06 0.06" friction="0.9 0.01 0.002"/></body>
    <body pos="0.02 0.01 0.17">
      <freejoint/><geom type="sphere" size="0.05" condim="4" friction="0.4 0.03 0.001"/>
    </body>
    <body pos="0.2 0 0.05" euler="90 0 0">
      <freejoint/><geom type="cylinder" size="0.05 0.06" condim="6" friction="0.5 0.01 0.01"/>
    </body>
    <body pos="0.21 0 0.14" euler="0 90 20">
      <freejoint/><geom type="capsule" size="0.04 0.05" condim="6" friction="0.7 0.02 0.005"/>
    </body>
    <body pos="-0.2 0 0.05">
      <freejoint/><geom type="ellipsoid" size="0.08 0.06 0.05" condim="4" friction="1.2 0.02 0.001"/>
    </body>
    <body pos="-0.2 0.01 0.15"><freejoint/><geom type="sphere" size="0.05" friction="0.3 0.01 0.001"/></body>
  </worldbody>
</mujoco>
"""


def check_cone(sim: ss.Simulation, *, elliptic: bool) -> dict[int, float]:
    """Assert that every contact force is inside its cone; returns the largest share of it used, by condim."""
    contacts = sim.contacts()
    mu, condim = support.friction_and_condim(sim.mjm, contacts.geom)
    normal = contacts.force[:, 0]
    assert (normal >= 0.0).all()
    used: dict[int, float] = {}
    for force, m, dim in zip(contacts.force, mu, condim, strict=True):
        ratios = np.abs(force[1:dim]) / m[: dim - 1]
        size = float(np.linalg.norm(ratios)) if elliptic else float(ratios.sum())
        assert size <= force[0] * (1 + 1e-4) + 1e-6, (force, m, dim)
        assert not force[dim:].any(), "directions that this condim does not have"
        if force[0] > 1e-3:
            used[dim] = max(used.get(dim, 0.0), size / force[0])
    return used


@pytest.mark.parametrize(
    "physics, cone",
    [
        (ss.ComFree(), "pyramidal"),
        (ss.ComFree(), "elliptic"),
        (ss.ComFree(0.5, 0.005), "pyramidal"),
        (ss.ComFree(impedance="exact"), "pyramidal"),
        (ss.ComFree(smoothing=5.0), "pyramidal"),
        (ss.ComFree(tangential=1.0), "pyramidal"),
        (ss.ComFree(tangential=1.0), "elliptic"),
        (ss.MuJoCo(), "pyramidal"),
        (ss.MuJoCo(), "elliptic"),
        (ss.ConeSweep(), "pyramidal"),
        (ss.ConeSweep(), "elliptic"),
    ],
    ids=(
        "comfree comfree-elliptic comfree-stiff comfree-exact comfree-smooth comfree-tangential "
        "comfree-tangential-elliptic mujoco mujoco-elliptic cone-sweep cone-sweep-elliptic"
    ).split(),
)
def test_forces_are_inside_the_cone(physics: ss.Physics, cone: str, device: str) -> None:
    """sum_i |f_i| / mu_i <= f_n in a moving pile, for each condim.

    ComFree's cone is a pyramid whatever the option, with a gain of its own for friction it is elliptic, as the cone
    sweep's is: there it is the root of the squares.
    """
    own_gain = isinstance(physics, ss.ComFree) and physics.tangential is not None
    elliptic = physics.name == "cone-sweep" or own_gain or (physics.name == "mujoco" and cone == "elliptic")
    sim = ss.Simulation(MIXED.format(cone=cone), physics, nworld=4, device=device, nconmax=64, njmax=512)
    state = support.perturbed(sim.mjm, 4, scale=1.0)
    sim.state = state
    used: dict[int, float] = {}
    for _ in range(40):
        sim.step(5)
        for dim, share in check_cone(sim, elliptic=elliptic).items():
            used[dim] = max(used.get(dim, 0.0), share)
    assert sim.health().ok
    assert set(used) == {3, 4, 6}
    assert all(share > 0.9 for share in used.values()), used  # something slid: the bound was reached


@pytest.mark.parametrize("physics", [ss.ComFree(), ss.ConeSweep()], ids=["comfree", "cone-sweep"])
def test_forces_of_the_hand_are_inside_the_cone(physics: ss.Physics, device: str) -> None:
    """An articulated body with condim 4: the fingertips push the cube, and only inside the cone."""
    sim = support.simulate("hand", physics, nworld=3, device=device)
    sim.state = support.perturbed(sim.mjm, 3, scale=0.5)
    seen = 0
    for _ in range(20):
        sim.step(5)
        seen += len(check_cone(sim, elliptic=physics.name == "cone-sweep"))
    assert seen > 0


def trace(sim: ss.Simulation, steps: int, dof: int) -> np.ndarray:
    """The velocity of a dof of world 0 at every step, the start included."""
    values = [float(sim.qvel.numpy()[0, dof])]
    for _ in range(steps):
        sim.step()
        values.append(float(sim.qvel.numpy()[0, dof]))
    return np.array(values)


@pytest.mark.parametrize("physics", ALL_CONDIMS, ids=lambda physics: physics.name)
def test_torsion_brakes_a_spinning_sphere(physics: ss.Physics, device: str) -> None:
    """The spin only falls, falls faster for a larger coefficient, and never faster than Coulomb's torque allows."""
    final = []
    for torsion in (0.0005, 0.002, 0.005, 0.02):
        sim = ss.Simulation(f"sphere-spin:torsion={torsion}", physics, device=device)
        spin = trace(sim, 150, dof=1)
        assert (np.diff(spin) <= 1e-5).all() and (spin >= -1e-4).all(), torsion
        final.append(spin[-1])
        # torsion * m g of torque on 2/5 m r^2; the tenth is for the bounce of the first steps
        fastest = torsion * GRAVITY / (0.4 * 0.1**2) * 0.3
        assert spin[0] - spin[-1] <= 1.1 * fastest
    assert (np.diff([10.0, *final]) < -0.005).all(), final


@pytest.mark.parametrize("physics", ALL_CONDIMS, ids=lambda physics: physics.name)
def test_rolling_friction_brakes_a_cylinder(physics: ss.Physics, device: str) -> None:
    """The rolling speed only falls, and falls faster for a larger coefficient."""
    lost = []
    for rolling in (0.001, 0.003, 0.01, 0.03):
        sim = ss.Simulation(f"cylinder-roll:rolling={rolling}", physics, device=device)
        speed = trace(sim, 200, dof=0)
        # a contact point is a little inside the cylinder, so that it slips a little at first: look at every 10th step
        assert (np.diff(speed[::10]) <= 1e-4).all(), rolling
        assert speed[-1] > -1e-3
        lost.append(speed[0] - speed[-1])
        # rolling * m g of torque on 3/2 m r^2, and what the first steps lose to slip
        assert lost[-1] < 1.1 * rolling / 0.1 * GRAVITY / 1.5 * 0.4 + 0.01
    assert lost[0] > 0.0 and (np.diff(lost) > 0.5 * np.array(lost[:-1])).all(), lost


@pytest.mark.parametrize("physics", SLIDING, ids=lambda physics: physics.name)
def test_sliding_cube_decelerates(physics: ss.Physics, device: str) -> None:
    """It slows down to rest, never turns round, and no faster than mu g allows once the impact is over."""
    for mu in (0.2, 0.5):
        sim = ss.Simulation(f"sliding-cube:mu={mu}", physics, device=device)
        speed = trace(sim, 1500, dof=0)
        assert abs(speed[-1]) < 0.02
        window = speed[::50]
        assert (np.diff(window[window > 0.1]) < 0.0).all()
        stopped = int(np.argmax(speed < 0.02)) * sim.mjm.opt.timestep
        assert stopped > 0.8 * 2.0 / (mu * GRAVITY)  # Coulomb's time to stop is v / (mu g)


@pytest.mark.parametrize("physics", SLIDING, ids=lambda physics: physics.name)
def test_box_slides_down_a_slope(physics: ss.Physics, device: str) -> None:
    """tan(0.5) = 0.55 > mu = 0.2: from rest it covers g (sin - mu cos) t^2 / 2.

    While it slides slowly, half of ComFree's facets point across and carry half of the load: it then brakes with
    something between mu / 2 and mu.
    """
    angle, mu, seconds = 0.5, 0.2, 0.5
    sim = ss.Simulation(f"box-on-slope:angle={angle},mu={mu}", physics, device=device)
    start = sim.state.qpos[0, :3].copy()
    sim.step(round(seconds / sim.mjm.opt.timestep))
    moved = float(np.linalg.norm(sim.state.qpos[0, :3] - start))
    coulomb, least = (0.5 * GRAVITY * (math.sin(angle) - m * math.cos(angle)) * seconds**2 for m in (mu, mu / 2))
    if physics.name != "comfree":
        np.testing.assert_allclose(moved, coulomb, rtol=0.05)
    assert 0.95 * coulomb < moved < 1.02 * least


def test_mujoco_holds_a_box_on_a_slope(device: str) -> None:
    """tan(0.25) = 0.26 < mu = 0.9: it creeps, but by no more than 2 mm/s."""
    sim = ss.Simulation("box-on-slope:angle=0.25,mu=0.9", ss.MuJoCo(), device=device)
    sim.step(500)
    assert float(np.linalg.norm(sim.qvel.numpy()[0, :3])) < 2e-3


def test_comfree_creeps_down_a_slope_as_predicted(device: str) -> None:
    """In the cone's inside ComFree's friction is viscous; the creep is where it balances the weight.

    With all facets pressed, the two along the slope give -2 mu^2 M (k + d / dt) s at each of four corners, for a
    predicted slip s = v + g dt sin(angle) and M = r / (1 - r) m. The sum is the weight's -m g sin(angle), so
    v = g sin(angle) dt (1 / (8 mu^2 r / (1 - r) (k dt + d)) - 1).
    """
    angle, mu, k, d, dt = 0.25, 0.9, 0.2, 0.001, 0.002
    sim = ss.Simulation(f"box-on-slope:angle={angle},mu={mu}", ss.ComFree(k, d), device=device)
    sim.step(1000)
    contacts = sim.contacts()
    assert len(contacts) == 4
    solimp = np.array([0.9, 0.95, 0.001, 0.5, 2.0])
    ratios = [r / (1 - r) for r in (impedance_curve(solimp, float(dist)) for dist in contacts.dist)]
    rate = 2 * mu**2 * sum(ratios) * (k * dt + d)
    creep = GRAVITY * math.sin(angle) * dt * (1 / rate - 1)
    downhill = np.array([math.cos(angle), 0.0, -math.sin(angle)])
    np.testing.assert_allclose(sim.qvel.numpy()[0, :3] @ downhill, creep, rtol=0.01)
    assert creep > 0.01


@pytest.mark.parametrize("tangential", [0.5, 1.0, 2.0])
def test_comfree_creeps_less_with_a_gain_of_its_own(tangential: float, device: str) -> None:
    """Friction takes the share G of the predicted slip v + g dt sin(angle), so v = g dt sin(angle) (1 / G - 1).

    G is `tangential` times the gain of the normal, which four corners have: 4 r / (1 - r) (k dt + d) each.
    """
    angle, k, d, dt = 0.25, 0.2, 0.001, 0.002
    sim = ss.Simulation(f"box-on-slope:angle={angle},mu=0.4", ss.ComFree(k, d, tangential=tangential), device=device)
    sim.step(1000)
    contacts = sim.contacts()
    assert len(contacts) == 4
    solimp = np.array([0.9, 0.95, 0.001, 0.5, 2.0])
    ratios = [r / (1 - r) for r in (impedance_curve(solimp, float(dist)) for dist in contacts.dist)]
    gain = tangential * 4 * sum(ratios) * (k * dt + d)
    creep = GRAVITY * math.sin(angle) * dt * (1 / gain - 1)
    downhill = np.array([math.cos(angle), 0.0, -math.sin(angle)])
    np.testing.assert_allclose(sim.qvel.numpy()[0, :3] @ downhill, creep, rtol=0.02)
    assert 0.001 < creep < 0.05


@pytest.mark.parametrize("mu", [0.2, 0.5])
def test_comfree_slides_by_coulomb_with_a_gain_of_its_own(mu: float, device: str) -> None:
    """Thrown flat in a direction that is no axis of a contact frame: v_0^2 / (2 mu g) far, straight on, unturned."""
    sim = ss.Simulation(THROWN.format(mu=mu, contact=""), ss.ComFree(tangential=1.0), device=device)
    speed, direction = math.hypot(1.0, 0.5), np.array([1.0, 0.5]) / math.hypot(1.0, 0.5)
    sim.step(600)
    way = sim.state.qpos[0, :2]
    np.testing.assert_allclose(way @ direction, speed**2 / (2.0 * mu * GRAVITY), rtol=0.02)
    assert abs(way[0] * direction[1] - way[1] * direction[0]) < 1e-3
    np.testing.assert_allclose(sim.state.qvel[0], 0.0, atol=1e-4)


# A box thrown flat over a floor, in a direction that is no axis of a contact frame.
THROWN = """
<mujoco>
  <option timestep="0.002"/>
  <default><geom friction="{mu} 0.005 0.0001"/></default>
  <worldbody>
    <geom name="floor" type="plane" size="9 9 0.1"/>
    <body><freejoint/><geom name="box" type="box" size="0.1 0.1 0.05" mass="1"/></body>
  </worldbody>
  {contact}
  <keyframe><key qpos="0 0 0.04999 1 0 0 0" qvel="1 0.5 0 0 0 0"/></keyframe>
</mujoco>
"""


@pytest.mark.parametrize("mu", [0.2, 0.5])
def test_cone_sweep_slides_by_the_closed_form(mu: float, device: str) -> None:
    """v_n = v_0 - mu g n dt until it stops, straight on and without turning; then it does not move at all."""
    sim = ss.Simulation(THROWN.format(mu=mu, contact=""), ss.ConeSweep(), device=device)
    start, direction, dt = math.hypot(1.0, 0.5), np.array([1.0, 0.5]) / math.hypot(1.0, 0.5), 0.002
    distance = 0.0
    for n in range(1, 400):
        sim.step()
        want = max(0.0, start - mu * GRAVITY * n * dt)
        distance += want * dt
        np.testing.assert_allclose(sim.qvel.numpy()[0, :2], want * direction, atol=1e-5)
        np.testing.assert_allclose(sim.qvel.numpy()[0, 2:], 0.0, atol=1e-5)
    assert want == 0.0
    np.testing.assert_allclose(sim.qpos.numpy()[0, :2], distance * direction, atol=1e-5)
    stopped = sim.state
    sim.step(200)
    np.testing.assert_allclose(sim.state.qpos, stopped.qpos, atol=1e-7)
    np.testing.assert_allclose(sim.state.qvel, 0.0, atol=1e-6)


def test_cone_sweep_slides_down_a_slope_by_the_closed_form(device: str) -> None:
    """From rest: v_n = a n dt and a dt^2 n (n + 1) / 2 of way, with a = g (sin - mu cos)."""
    angle, mu, n, dt = 0.5, 0.2, 250, 0.002
    sim = ss.Simulation(f"box-on-slope:angle={angle},mu={mu}", ss.ConeSweep(), device=device)
    start = sim.state.qpos[0, :3].copy()
    sim.step(n)
    rate = GRAVITY * (math.sin(angle) - mu * math.cos(angle))
    np.testing.assert_allclose(np.linalg.norm(sim.state.qpos[0, :3] - start), rate * dt**2 * n * (n + 1) / 2, rtol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(sim.state.qvel[0, :3]), rate * n * dt, rtol=1e-4)


@pytest.mark.parametrize("mu", [0.26, 0.9])
def test_cone_sweep_holds_a_box_on_a_slope(mu: float, device: str) -> None:
    """tan(0.25) = 0.255 < mu, also by a fiftieth: within two seconds it does not creep a micrometre."""
    sim = ss.Simulation(f"box-on-slope:angle=0.25,mu={mu}", ss.ConeSweep(), device=device)
    sim.step(100)
    before = sim.state
    sim.step(1000)
    np.testing.assert_allclose(sim.state.qpos, before.qpos, atol=1e-6)
    np.testing.assert_allclose(sim.state.qvel, 0.0, atol=1e-5)


@pytest.mark.parametrize("torsion", [0.0005, 0.005, 0.02])
def test_cone_sweep_brakes_a_spinning_sphere_at_coulombs_rate(torsion: float, device: str) -> None:
    """torsion m g of torque on 2/5 m r^2, to rest and no further."""
    sim = ss.Simulation(f"sphere-spin:torsion={torsion}", ss.ConeSweep(), device=device)
    spin = trace(sim, 300, dof=1)
    rate = torsion * GRAVITY / (0.4 * 0.1**2)
    np.testing.assert_allclose(spin, np.maximum(10.0 - rate * 0.002 * np.arange(301), 0.0), atol=5e-4)


ROLLING = """
<mujoco>
  <option timestep="0.002"/>
  <default><geom condim="6" friction="1 0.001 {rolling}"/></default>
  <worldbody>
    <geom type="plane" size="9 9 0.1"/>
    <body><freejoint/><geom type="sphere" size="0.1" mass="1"/></body>
  </worldbody>
  <keyframe><key qpos="0 0 0.1 1 0 0 0" qvel="1 0 0 0 10 0"/></keyframe>
</mujoco>
"""


@pytest.mark.parametrize("rolling", [0.001, 0.01, 0.03])
def test_cone_sweep_brakes_a_rolling_sphere_at_the_cones_rate(rolling: float, device: str) -> None:
    """Rolling friction t and the friction f that slows the sphere down share one cone, (f / mu)^2 + (t / rho)^2 = N^2.

    Most dissipation makes it slip a little, u / omega = (rho / mu)^2 f / t =: e r. With v = (1 + e) r omega, Newton's
    and Euler's equations give f / t = 1 / (r (1 + 0.4 / (1 + e))).
    """
    radius, slip = 0.1, 0.0
    for _ in range(50):
        ratio = 1.0 / (radius * (1.0 + 0.4 / (1.0 + slip)))
        slip = rolling**2 * ratio / radius
    rate = ratio * rolling * GRAVITY / math.hypot(1.0, rolling * ratio)
    sim = ss.Simulation(ROLLING.format(rolling=rolling), ss.ConeSweep(), device=device)
    speed = trace(sim, 100, dof=0)
    np.testing.assert_allclose((speed[60] - speed[100]) / (40 * 0.002), rate, rtol=1e-3)


def test_cone_sweep_friction_of_a_pair_may_differ_by_direction(device: str) -> None:
    """Most dissipation inside an ellipse: f_i = -N mu_i^2 u_i / |mu u|, which is not straight against the slip."""
    pair = '<contact><pair geom1="floor" geom2="box" friction="0.5 0.1 0.005 0.0001 0.0001"/></contact>'
    sim = ss.Simulation(THROWN.format(mu=1.0, contact=pair), ss.ConeSweep(), device=device)
    for _ in range(50):
        sim.step()
        contacts = sim.contacts()
        axes, mu = contacts.frame[0, 1:], np.array([0.5, 0.1])
        slip = axes @ sim.qvel.numpy()[0, :3]
        want = -(mu**2) * slip / np.linalg.norm(mu * slip)
        np.testing.assert_allclose(contacts.force[:, 1:3].sum(axis=0) / contacts.force[:, 0].sum(), want, atol=1e-4)
        np.testing.assert_allclose(contacts.force[:, 0].sum(), GRAVITY, rtol=1e-4)
    assert np.abs(slip).min() > 0.1
