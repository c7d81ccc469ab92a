"""Motion with hydroelastic contact: closed forms of rest, spin, tilt, bounce; continuity, symmetry, and no patches."""

import mujoco
import numpy as np
import pytest

import stickslip as ss
from tests.reference import hydro_exact as exact
from tests.reference.hydro_models import points_in
from tests.reference.hydro_points import centre, force

G = 9.81
GRAVITY = f'gravity="0 0 -{G}"'
BOTH = pytest.mark.parametrize("physics", [ss.Icf(), ss.Cenic(accuracy=1e-5)], ids=lambda physics: physics.name)
SOFT = 'user="0 0 0 1e7 0"'


def model_of(
    geom: str, z: float, *, option: str = 'timestep="0.002"', mu: float = 0.5, points: str = "8 2"
) -> mujoco.MjModel:
    """A free body on a rigid plane."""
    return mujoco.MjModel.from_xml_string(f"""
        <mujoco>
          <option {option} {GRAVITY}/>
          <size nuser_geom="5"/>
          <custom><numeric name="hydroelastic_points" data="{points}"/></custom>
          <default><geom friction="{mu} 0.005 0.0001"/></default>
          <worldbody>
            <geom type="plane" size="1 1 0.1"/>
            <body pos="0 0 {z}"><freejoint/>{geom}</body>
          </worldbody>
        </mujoco>""")


def state(sim: ss.Simulation, name: str) -> np.ndarray:
    return getattr(sim, name).numpy()[0].astype(float)


def settled(mjm: mujoco.MjModel, physics: ss.Physics, steps: int = 200, **sizes: int) -> ss.Simulation:
    sim = ss.Simulation(mjm, physics, **sizes)
    sim.step(steps)
    return sim


SHAPES = {
    "disc": ('<geom type="cylinder" size="0.05 0.02" mass="1" user="0 0 0 1e7 0"/>', 0.02),
    "square": ('<geom type="box" size="0.05 0.05 0.02" mass="1" user="0 0 0 1e7 0"/>', 0.02),
    "rectangle": ('<geom type="box" size="0.08 0.03 0.02" mass="1" user="0 0 0 1e7 0"/>', 0.02),
    "sphere": ('<geom type="sphere" size="0.05" mass="1" user="0 0 0 1e6 0"/>', 0.0485),
}


@BOTH
@pytest.mark.parametrize("shape", SHAPES)
def test_rest_and_spin(shape: str, physics: ss.Physics) -> None:
    """Depth at rest, and torque of a spin: a single point of contact would have neither area nor torque."""
    geom, z = SHAPES[shape]
    mjm = model_of(geom, z)
    sim = settled(mjm, physics)
    x = z - state(sim, "qpos")[2] if shape != "sphere" else 0.05 - state(sim, "qpos")[2]
    forces = {
        "disc": exact.cylinder_cap(1e7 / 0.02, 0.05, x),
        "square": exact.box_on_plane(1e7 / 0.02, 0.1, 0.1, x),
        "rectangle": exact.box_on_plane(1e7 / 0.02, 0.16, 0.06, x),
        "sphere": exact.sphere_on_plane(1e6, 0.05, x),
    }
    # 2 nm of single precision in a depth of 2 um, but for the sphere
    assert forces[shape] == pytest.approx(G, rel=1e-4 if shape == "sphere" else 5e-3)
    patches = sim.patches()
    assert len(patches) == 1 and patches.geom.tolist() == [[0, 1]]
    np.testing.assert_allclose(patches.force, [[0.0, 0.0, G]], atol=1e-3)
    np.testing.assert_allclose(patches.centre, 0.0, atol=1e-6)
    radius = np.sqrt(2 * 0.05 * x - x**2)
    areas = {"disc": np.pi * 0.05**2, "square": 0.01, "rectangle": 0.0096, "sphere": np.pi * radius**2}
    assert patches.area[0] == pytest.approx(areas[shape], rel=2e-3)
    np.testing.assert_allclose(patches.pressure @ patches.weight, G, rtol=1e-4)

    sim.qvel = np.array([[0.0, 0.0, 0.0, 0.0, 0.0, 20.0]])
    sim.step()
    before = state(sim, "qvel")[5]
    sim.step(20)
    torque = mjm.body_inertia[1, 2] * (before - state(sim, "qvel")[5]) / 0.04
    arms = {
        "disc": exact.disc_torque(0.05),
        "square": exact.rectangle_torque(0.1, 0.1),
        "rectangle": exact.rectangle_torque(0.16, 0.06),
        "sphere": exact.sphere_torque(radius),
    }
    within = {"disc": 0.015, "sphere": 0.035}.get(shape, 0.01)
    assert torque == pytest.approx(0.5 * G * arms[shape], rel=within)


def _slowed(ratio: float, until: float) -> float:
    """v/(R omega) of a uniform disc once its speed has fallen to a share `until`, by small steps of the exact law."""
    r, phi = np.sqrt((np.arange(30) + 0.5) / 30), 2.0 * np.pi * (np.arange(60) + 0.5) / 60
    x, y = (f.reshape(-1) for f in (np.outer(r, np.cos(phi)), np.outer(r, np.sin(phi))))
    v, w = ratio, 1.0
    while v > until * ratio:
        u = np.stack([v - w * y, w * x])
        u /= np.linalg.norm(u, axis=0)
        dt = 5e-3 * np.hypot(v, w)
        v, w = v - dt * u[0].mean(), w - 2.0 * dt * (x * u[1] - y * u[0]).mean()
    return v / w


def test_slide_and_spin() -> None:
    """A thin disc that slides and spins slows down as a uniform one does: to v/(R omega) = 0.653, in the end."""
    geom = '<geom type="cylinder" size="0.05 0.0005" mass="1" user="0 0 0 1e5 0"/>'
    mjm = model_of(geom, 0.0005, option='timestep="1e-3"', mu=0.2, points="8 4")
    assert _slowed(0.5, 1e-12) == pytest.approx(0.653, abs=2e-3)
    for start in (0.5, 0.8):
        sim = settled(mjm, ss.Icf(), 50)
        sim.qvel = np.array([[start * 0.05 * 10.0, 0.0, 0.0, 0.0, 0.0, 10.0]])
        speed = ratio = start
        for _ in range(500):
            v = state(sim, "qvel")
            speed, ratio = float(np.hypot(v[0], v[1])), float(np.hypot(v[0], v[1]) / (0.05 * v[5]))
            if speed < 0.02:
                break
            sim.step()
        assert speed < 0.02
        assert ratio == pytest.approx(_slowed(start, speed / (start * 0.5)), rel=0.02)


def test_kern() -> None:
    """An eccentric push on a box: tilt within the kern, pressed length beyond it, and it tips at the edge."""
    a, b, h = 0.1, 0.2, 0.02
    geom = f'<geom type="box" size="{b / 2} {a / 2} {h}" mass="1" user="0 0 0 1e5 0"/>'
    mjm = model_of(geom, h, option='timestep="0.005"')
    slope = 1e5 / h
    for e in (0.02, 0.06):
        sim = ss.Simulation(mjm, ss.Icf())
        push = 20.0
        sim.xfrc_applied = np.array([[[0.0] * 6, [0.0, 0.0, -push, 0.0, push * e * (push + G) / push, 0.0]]])
        sim.step(300)
        total = push + G
        patches = sim.patches()
        assert patches.force[0, 2] == pytest.approx(total, rel=1e-3)
        assert patches.centre[0, 0] == pytest.approx(e, rel=0.02)
        quat = state(sim, "qpos")[3:]
        tilt = 2.0 * np.arcsin(quat[2])
        if e < b / 6:
            assert tilt == pytest.approx(exact.tilt(slope, a, b, total * e), rel=0.03)
            assert patches.area[0] == pytest.approx(a * b, rel=0.01)
        else:
            assert patches.area[0] == pytest.approx(a * exact.pressed_length(b, e), rel=0.03)
    sim = ss.Simulation(mjm, ss.Icf())
    sim.xfrc_applied = np.array([[[0.0] * 6, [0.0, 0.0, 0.0, 0.0, G * 0.11, 0.0]]])
    sim.step(100)
    assert 2.0 * np.arcsin(state(sim, "qpos")[5]) > 0.1


def test_pinch() -> None:
    """Two square pads hold a bar by its end up to a moment of 2 mu N 0.3826 a; above it turns."""
    xml = """
        <mujoco>
          <option timestep="0.002" gravity="0 0 0"/>
          <size nuser_geom="5"/>
          <default><geom friction="0.5 0 0"/></default>
          <worldbody>
            <body name="bar"><freejoint/><geom type="box" size="0.1 0.01 0.02" mass="0.2"/></body>
            <body pos="0 0.02 0"><joint type="slide" axis="0 -1 0"/>
              <geom type="box" size="0.01 0.01 0.01" mass="0.1" user="0 0 0 1e6 0"/></body>
            <body pos="0 -0.02 0"><joint type="slide" axis="0 1 0"/>
              <geom type="box" size="0.01 0.01 0.01" mass="0.1" user="0 0 0 1e6 0"/></body>
          </worldbody>
        </mujoco>"""
    mjm = mujoco.MjModel.from_xml_string(xml)
    most = 2.0 * 0.5 * 10.0 * exact.rectangle_torque(0.02, 0.02)
    for share in (0.95, 1.05):
        sim = ss.Simulation(mjm, ss.Icf())
        push = np.zeros((1, mjm.nv))
        push[0, 6:] = 10.0
        sim.qfrc_applied = push
        sim.step(50)
        push[0, 4] = share * most
        sim.qfrc_applied = push
        sim.step(50)
        assert (abs(state(sim, "qvel")[4]) > 1e-2) == (share > 1.0)


def test_energy_of_a_bounce() -> None:
    """Without dissipation the error of the energy falls with the timestep, and it never grows."""
    geom = '<geom type="sphere" size="0.05" mass="1" user="0 0 0 1e6 0"/>'
    losses = []
    for dt in (4e-4, 1e-4):
        mjm = model_of(geom, 0.051, option=f'timestep="{dt}"')
        sim = ss.Simulation(mjm, ss.Icf(dissipation=0.0, speculative_margin=0.0))
        sim.qvel = np.array([[0.0, 0.0, -1.0, 0.0, 0.0, 0.0]])
        steps = round(0.05 / dt)
        sim.step(steps)
        z, v = state(sim, "qpos")[2], state(sim, "qvel")[2]
        assert z > 0.05 and v > 0.0
        losses.append(1.0 - (0.5 * v**2 + G * z) / (0.5 + G * 0.051))
    assert 0.0 < losses[1] < 0.4 * losses[0] < 0.1


def test_force_is_continuous() -> None:
    """A box that turns on a plane, and one that slides off a table: no jumps of the force."""
    xml = """
        <mujoco>
          <option timestep="0.002" gravity="0 0 0"/>
          <size nuser_geom="5"/>
          <worldbody>
            <geom type="box" size="0.1 0.1 0.05" pos="0 0 -0.05" user="0 0 0 3e6 0"/>
            <body><freejoint/><geom type="box" size="0.05 0.04 0.03" mass="1" user="0 0 0 1e7 0"/></body>
          </worldbody>
        </mujoco>"""
    mjm = mujoco.MjModel.from_xml_string(xml)
    angles, shifts = np.linspace(0.0, np.pi / 2, 200), np.linspace(0.0, 0.16, 200)
    sim = ss.Simulation(mjm, ss.Icf(), nworld=400)
    qpos = np.zeros((400, 7))
    qpos[:, 2], qpos[:, 3] = 0.0299, 1.0
    qpos[:200, 3], qpos[:200, 6] = np.cos(0.5 * angles), np.sin(0.5 * angles)
    qpos[200:, 0] = shifts
    sim.qpos = qpos
    sim.forward()
    force = np.zeros(400)
    n = int(sim.d.nacon.numpy()[0])
    elastic = -sim.d.contact.dist.numpy()[:n] * sim.d.convex.problem.patches.stiffness.numpy()[:n]
    np.add.at(force, sim.d.contact.worldid.numpy()[:n], np.maximum(elastic, 0.0))
    assert np.ptp(force[:200]) < 0.01 * force[0]
    assert np.abs(np.diff(force[200:])).max() < 0.02 * force[200]
    assert force[200] > 0.0 == force[-1]


def test_order_of_geoms_and_common_motion() -> None:
    """Which geom comes first, and where both are, does not matter."""
    forces = []
    for type, swap, shift in (
        ("box", False, 0.0),
        ("box", True, 0.0),
        ("box", False, 0.5),
        ("ellipsoid", False, 0.0),
        ("ellipsoid", True, 0.5),
    ):
        geom = f'<freejoint/><geom type="{type}" size="0.05 0.04 0.03" mass="1" user="0 0 0 {{}} 0"/>'
        height = 0.0595 if type == "box" else 0.055
        bodies = [
            f'<body pos="{shift} 0 0">{geom.format(1e7)}</body>',
            f'<body pos="{shift + 0.02} 0.01 {height}" euler="3 4 20">{geom.format(3e6)}</body>',
        ]
        both = "".join(bodies[::-1] if swap else bodies)
        xml = f'<mujoco><size nuser_geom="5"/><worldbody>{both}</worldbody></mujoco>'
        sim = ss.Simulation(mujoco.MjModel.from_xml_string(xml), ss.Icf(speculative_margin=0.0))
        sim.forward()
        (points,) = points_in(sim).values()
        sign = -1.0 if swap else 1.0
        forces.append([*(sign * force(points)), *(centre(points) - [shift, 0.0, 0.0])])
    # 3e-8 m of single precision in a depth of millimetres
    np.testing.assert_allclose(forces[1], forces[0], rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(forces[2], forces[0], rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(forces[4], forces[3], rtol=1e-5, atol=1e-4)


@BOTH
def test_no_modulus_no_change(physics: ss.Physics) -> None:
    """A modulus on a geom that touches nothing hydroelastic changes no bit of the motion; nor do depths alone."""
    xml = """
        <mujoco>
          <size nuser_geom="5"/>
          <worldbody>
            <geom type="plane" size="1 1 0.1"/>
            <body pos="0 0 0.06" euler="10 20 30"><freejoint/><geom type="box" size="0.05 0.04 0.03" {user}/></body>
            <body pos="0.3 0 0.06"><freejoint/><geom type="capsule" size="0.03 0.04"/></body>
            <body pos="0 0 5" gravcomp="1"><freejoint/><geom size="0.1" contype="0" conaffinity="0" {away}/></body>
          </worldbody>
        </mujoco>"""
    ends = []
    for user, away in (("", ""), ('user="0 0 0 0 0.01"', SOFT)):
        sim = ss.Simulation(mujoco.MjModel.from_xml_string(xml.format(user=user, away=away)), physics)
        sim.step(60)
        assert len(sim.patches()) == 0 and len(sim.contacts()) > 0
        ends.append(np.concatenate([state(sim, "qpos"), state(sim, "qvel")]))
    np.testing.assert_array_equal(ends[0], ends[1])


def test_too_little_room() -> None:
    """A patch that does not fit becomes its resultant, and health says what to raise; buffers that may grow do."""
    geom = SHAPES["square"][0]
    mjm = model_of(geom, 0.0199)
    sim, whole = (ss.Simulation(mjm, ss.Icf(), nconmax=n) for n in (8, 64))
    with pytest.warns(ss.HealthWarning, match="raise nconmax from 8 to at least"):
        sim.step()
        contacts = sim.contacts()
    whole.step()
    assert len(contacts) == 1
    np.testing.assert_allclose(contacts.pos[0], 0.0, atol=1e-6)
    assert contacts.force[0, 0] == pytest.approx(whole.patches().force[0, 2], rel=1e-3)
    assert sim.patches().area[0] == pytest.approx(whole.patches().area[0], rel=1e-3)
    messages = " ".join(sim.health().messages)
    assert "became one contact each" in messages and "raise nconmax from 8 to at least" in messages
    grown = settled(mjm, ss.Icf(), 5)
    assert grown.health().ok and whole.health().ok


def test_threads_and_states() -> None:
    """Patches of worlds that threads share, and steps that are repeated from a state bit for bit."""
    xml = """
        <mujoco>
          <size nuser_geom="5"/>
          <worldbody>
            <geom type="plane" size="1 1 0.1"/>
            <body pos="0 0 0.03"><freejoint/><geom type="box" size="0.05 0.04 0.03" mass="1" user="0 0 0 1e7 0"/></body>
            <body pos="0.2 0 0.05"><freejoint/><geom size="0.05" mass="1" user="0 0 0 1e7 0"/></body>
          </worldbody>
        </mujoco>"""
    mjm = mujoco.MjModel.from_xml_string(xml)
    ends = []
    for threads in (1, 2):
        sim = ss.Simulation(mjm, ss.Icf(), nworld=4, threads=threads, device="cpu")
        sim.step(10)
        patches = sim.patches()
        assert sorted(zip(patches.world.tolist(), patches.geom[:, 1].tolist(), strict=True)) == [
            (world, geom) for world in range(4) for geom in (1, 2)
        ]
        assert np.bincount(patches.patch).min() >= 12
        before = sim.state
        sim.step(10)
        ends.append(sim.qpos.numpy().copy())
        sim.state = before
        sim.step(10)
        np.testing.assert_array_equal(sim.qpos.numpy(), ends[-1])
    np.testing.assert_array_equal(ends[0], ends[1])
