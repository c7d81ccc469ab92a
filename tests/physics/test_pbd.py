"""Bodies made of particles: motions with a known answer, momentum, what each change to the published method gives."""

import math

import mujoco
import numpy as np
import pytest

import stickslip as ss
from stickslip.bench.baselines.pbd_paper.physics import Pbd, PbdRAblated, PbdRPaper
from stickslip.bench.experiments.free_bodies import ablation
from stickslip.errors import BufferOverflow, InputError, Unsupported
from stickslip.physics.pbd import lanes
from tests import support

G = 9.81
STEP = 0.01
"""Steps of the paper [s], each of ten substeps."""
SUBSTEP = 0.001


def pushed(physics: ss.Physics, device: str, seconds: float, wrench: list[float], scene: str) -> ss.Simulation:
    sim = ss.Simulation(scene, physics, device=device, timestep=STEP)
    applied = np.zeros((sim.mjm.nbody, 6))
    applied[1] = wrench
    sim.xfrc_applied = applied
    sim.step(round(seconds / STEP))
    return sim


def discrete(acceleration: float, seconds: float) -> float:
    """Way under a constant acceleration, as semi-implicit Euler has it [m]."""
    return 0.5 * acceleration * seconds * (seconds + SUBSTEP)


def test_pushed_box(device: str) -> None:
    """Where Coulomb's law and Euler's method say, to a ten thousandth of a millimetre, from the first step on."""
    sim = pushed(ss.PbdR(), device, 2.0, [17.0, 0, 0, 0, 0, 0], "pushed-box")
    acceleration = 17.0 / 4.0 - 0.4 * G
    np.testing.assert_allclose(sim.qpos.numpy()[0, 0], discrete(acceleration, 2.0), atol=2e-6)
    np.testing.assert_allclose(sim.qvel.numpy()[0, 0], 2.0 * acceleration, atol=1e-6)
    contacts = sim.contacts()
    assert len(contacts) == sim.contact_count() == 16
    force = np.einsum("nji,nj->ni", contacts.frame, contacts.force[:, :3]).sum(axis=0)
    np.testing.assert_allclose(force, [-0.4 * 4.0 * G, 0.0, 4.0 * G], atol=1e-3)
    assert {tuple(pair) for pair in contacts.geom} == {(0, 1)}


def test_the_published_method_starts_too_fast(device: str) -> None:
    """By 2 mm/s; not where forces are bounded over the whole substep, and iterations go on until they are found."""
    acceleration = 17.0 / 4.0 - 0.4 * G
    off = {}
    for name, physics in {
        "paper": PbdRPaper(),
        "body": PbdRPaper(coordinates="body"),
        "clamp": PbdRPaper(coordinates="body", clamp="substep"),
        "all": ss.PbdR(),
    }.items():
        sim = pushed(physics, device, 0.2, [17.0, 0, 0, 0, 0, 0], "pushed-box")
        off[name] = sim.qvel.numpy()[0, 0] - 0.2 * acceleration
    assert 1.5e-3 < off["paper"] < 2.5e-3
    np.testing.assert_allclose(off["body"], off["paper"], atol=2e-4)  # not from rounding
    assert off["clamp"] > 5e-4  # the bound alone is not it: ten iterations do not get there
    assert abs(off["all"]) < 1e-6


@pytest.mark.parametrize("inertia", ["true", "packed"])
def test_box_with_torque(inertia: str, device: str) -> None:
    """A grid of n^3 points has 1 - 1/n^2 of the inertia of the box."""
    sim = pushed(PbdRAblated(inertia=inertia), device, 2.0, [0, 0, 0, 0, 0, 0.01], "pushed-box:mu=0")
    wanted = 0.01 / (4.0 * 0.1**2 * 2.0 / 3.0) * 2.0
    wanted /= 1.0 if inertia == "true" else 1.0 - 1.0 / 16.0
    np.testing.assert_allclose(sim.qvel.numpy()[0, 5], wanted, rtol=1e-5)


def test_box_on_slope(device: str) -> None:
    """Slides with the right acceleration, and sticks where it should."""
    angle = math.pi / 8
    sim = pushed(ss.PbdR(), device, 1.0, [0.0] * 6, f"pushed-box:angle={angle!r}")
    way = np.linalg.norm(sim.qpos.numpy()[0, :3] - sim.mjm.qpos0[:3])
    np.testing.assert_allclose(way, discrete(G * (math.sin(angle) - 0.4 * math.cos(angle)), 1.0), atol=2e-6)
    sim = pushed(ss.PbdR(), device, 1.0, [0.0] * 6, "pushed-box:angle=0.3")
    assert np.abs(sim.qvel.numpy()).max() < 1e-7
    assert np.linalg.norm(sim.qpos.numpy()[0, :3] - sim.mjm.qpos0[:3]) < 1e-7


def test_a_ball_rolls_on(device: str) -> None:
    """A ball is one particle: it rolls without slipping, and without losing anything."""
    ball = """<mujoco><worldbody><geom type="plane" size="1 1 .1"/>
      <body pos="0 0 0.05"><freejoint/><geom type="sphere" size="0.05" mass="0.5" friction="0.5"/></body>
    </worldbody></mujoco>"""
    sim = ss.Simulation(ball, ss.PbdR(), device=device, timestep=STEP)
    sim.qvel = [1.0, 0, 0, 0, 0, 0]
    sim.step(300)
    speed, spin = sim.qvel.numpy()[0, 0], sim.qvel.numpy()[0, 3:]
    np.testing.assert_allclose(speed, 5.0 / 7.0, rtol=1e-3)  # what is left when sliding has turned into rolling
    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, sim.qpos.numpy()[0, 3:7].astype(float))
    np.testing.assert_allclose(turn.reshape(3, 3) @ spin, [0.0, speed / 0.05, 0.0], atol=1e-4)


@pytest.mark.parametrize("speed", [1.0, 5.0])
def test_a_fast_ball_rolls_on_the_floor_and_not_in_it(speed: float, device: str) -> None:
    """The point that touches goes round the ball; how deep the ball is has nothing to do with that."""
    xml = """<mujoco><worldbody><geom type="plane" size="1 1 .1"/>
        <body pos="0 0 .05"><freejoint/><geom type="sphere" size=".05" mass=".5"/></body></worldbody></mujoco>"""
    sim = ss.Simulation(xml, ss.PbdR(), device=device, timestep=SUBSTEP)
    sim.qvel = [speed, 0.0, 0.0, 0.0, speed / 0.05, 0.0]
    sim.step(500)
    np.testing.assert_allclose(sim.qpos.numpy()[0, [0, 2]], [0.5 * speed, 0.05], atol=1e-6)
    np.testing.assert_allclose(sim.qvel.numpy()[0], [speed, 0.0, 0.0, 0.0, speed / 0.05, 0.0], atol=1e-5)
    np.testing.assert_allclose(sim.contacts().dist, 0.0, atol=1e-6)


def test_a_stack_stands(device: str) -> None:
    """Five boxes: none moves by more than micrometres, and in the end none moves at all."""
    sim = ss.Simulation("stack", ss.PbdR(), device=device, timestep=STEP)
    start = sim.qpos.numpy().copy()
    sim.step(100)
    np.testing.assert_allclose(sim.qpos.numpy(), start, atol=5e-6)
    assert np.abs(sim.qvel.numpy()).max() < 1e-8


def test_what_overlaps_comes_apart_gently(device: str) -> None:
    """A millimetre deep at the start: out again, and no jump of more than a hundredth of that."""
    sim = ss.Simulation("pushed-box", ss.PbdR(), device=device, timestep=STEP)
    qpos = sim.qpos.numpy().copy()
    qpos[0, 2] -= 0.001
    sim.qpos = qpos
    heights = []
    for _ in range(50):
        sim.step()
        heights.append(float(sim.qpos.numpy()[0, 2]) - 0.1)
    assert -1e-3 < heights[0] < -3e-4 and max(heights) < 1e-5
    np.testing.assert_allclose(heights[-1], 0.0, atol=1e-6)


FLYING = ablation.BOXES.replace(
    "  </worldbody>",
    '<body pos="0 0.55 0.02"><freejoint/><geom type="sphere" size="0.1" mass="3"/></body></worldbody>',
)
"""The two boxes of the ablation, and a ball."""
THROWN = [*ablation.THROWN, 0, -1, 0, 3, 3, 1]


def change_of_momentum(physics: ss.Physics, device: str) -> tuple[float, float]:
    """Of three bodies that collide, over 10 s: what P and L changed by, at the most [kg m/s, kg m^2/s]."""
    sim = ss.Simulation(FLYING, physics, device=device, timestep=STEP)
    sim.qvel = THROWN
    before = support.momentum(sim.mjm, *(array.numpy()[0].astype(float) for array in (sim.qpos, sim.qvel)))
    most = np.zeros(2)
    for _ in range(10):
        sim.step(100)
        now = support.momentum(sim.mjm, *(array.numpy()[0].astype(float) for array in (sim.qpos, sim.qvel)))
        most = np.maximum(most, [np.abs(a - b).max() for a, b in zip(now, before, strict=True)])
    assert sim.health().ncon_peak > 0
    return float(most[0]), float(most[1])


def test_colliding_bodies_keep_their_momentum(device: str) -> None:
    """To single precision, in which the state is shown: 10 m away a rounded position is 5e-6 kg m^2/s."""
    linear, angular = change_of_momentum(ss.PbdR(), device)
    assert linear < 2e-6 and angular < 2e-5


def test_what_loses_momentum(device: str) -> None:
    """Friction by each particle's own velocity loses P, in either form; forces in the centres of particles lose L."""
    fitted = PbdRAblated(contact="centre", slip="absolute", clamp="iteration", relaxation=0.9)
    for physics in (PbdRAblated(slip="absolute"), fitted):
        linear, _ = change_of_momentum(physics, device)
        assert linear > 0.1
    linear, angular = change_of_momentum(PbdRAblated(contact="centre"), device)
    assert linear < 2e-6 and angular > 1e-2


@pytest.mark.parametrize("seed", range(3))
def test_a_spinning_body_alone(seed: int, device: str) -> None:
    """Nothing touches it: PBD loses its spin by the method, at any spin; PBD-R does not."""
    box = """<mujoco><option gravity="0 0 0"/><worldbody><body pos="3 2 1"><freejoint/>
      <geom type="box" size="0.1 0.08 0.06" mass="2"/></body></worldbody></mujoco>"""
    velocity = np.r_[np.random.default_rng(seed).normal(0.0, 0.5, 3), np.random.default_rng(seed).normal(0.0, 5.0, 3)]
    lost = {}
    for physics in (Pbd(), PbdRPaper(), ss.PbdR()):
        sim = ss.Simulation(box, physics, device=device, timestep=STEP)
        sim.qvel = velocity
        spins = []
        for _ in range(2):
            qpos, qvel = (array.numpy()[0].astype(float) for array in (sim.qpos, sim.qvel))
            mat = np.zeros(9)
            mujoco.mju_quat2Mat(mat, qpos[3:])
            inertia = sim.mjm.body_inertia[1]
            if physics.name != "pbd-r":
                place = sim.m.shape.place.numpy()
                spread = np.diag((place**2).mean(axis=0)) * 2.0
                inertia = np.diag(np.trace(spread) * np.eye(3) - spread)
            spins.append(mat.reshape(3, 3) @ (inertia * qvel[3:]))
            sim.step(200)
        lost[physics] = np.linalg.norm(spins[1] - spins[0]) / np.linalg.norm(spins[0])
    pbd, paper, ours = lost.values()
    assert pbd > 1e-2
    assert paper < 0.5 * pbd  # its correction of L moves particles too, which changes L again
    assert ours < 2e-6


@pytest.mark.parametrize("switch", ["velocity", "linear", "angular"])
def test_each_of_the_changes_is_needed(switch: str, device: str) -> None:
    """The published ablation: 2 N and no friction; what is taken out shows in what it is there for."""
    whole, without = (
        pushed(PbdRPaper(**change), device, 5.0, [2.0, 0, 0, 0, 0, 0], "pushed-box:mu=0")
        for change in ({}, {switch: False})
    )
    way = discrete(0.5, 5.0)
    error = [abs(float(sim.qpos.numpy()[0, 0]) - way) for sim in (whole, without)]
    turn = [2.0 * np.linalg.norm(sim.qpos.numpy()[0, 4:7]) for sim in (whole, without)]
    assert error[0] < 2e-3
    if switch == "angular":
        assert turn[1] > 2.0 * turn[0]
    else:
        assert error[1] > 20.0 * error[0]


WELDED = """
<mujoco>
  <option gravity="0 0 0" timestep="0.001"/>
  <worldbody>
    <body pos="0 0 1" euler="10 20 30"><freejoint/>
      <geom type="box" size="0.1 0.05 0.02" pos="0.05 0 0" mass="1"/>
      <body pos="0 0.1 0.05" euler="0 40 0"><geom type="box" size="0.03 0.04 0.08" mass="0.7"/></body>
    </body>
  </worldbody>
</mujoco>
"""


@pytest.mark.parametrize("scene", ["pushed-box", "stack"])
def test_many_worlds_are_each_as_one_alone(scene: str, device: str) -> None:
    """However lanes are shared out among worlds; each is pushed and turned in its own way."""
    count = lanes.BATCH_WORLDS + 1 if device != "cpu" else 5
    many = ss.Simulation(scene, ss.PbdR(), nworld=count, device=device, timestep=0.002)
    push = np.zeros((count, many.mjm.nbody, 6))
    push[:, 1:] = np.random.default_rng(0).normal(size=(count, many.mjm.nbody - 1, 6)) * [40, 40, 5, 1, 1, 1]
    many.xfrc_applied = push
    many.step(25)
    exact = many.physics.arrays(many.m, many.d)["exact_qpos"].numpy()
    assert np.abs(exact - many.mjm.qpos0).max() > 1e-3
    for world in (0, 1, count // 2, count - 1):
        one = ss.Simulation(scene, ss.PbdR(), device=device, timestep=0.002)
        one.xfrc_applied = push[world]
        one.step(25)
        alone = one.physics.arrays(one.m, one.d)["exact_qpos"].numpy()[0]
        np.testing.assert_allclose(exact[world], alone, rtol=0.0, atol=1e-12)


def test_a_force_acts_in_the_centre_of_mass_that_a_body_has(device: str) -> None:
    """Of the model, or of its particles, which for a wedge of two boxes is elsewhere: neither begins to turn."""
    xml = """<mujoco><option gravity="0 0 0"/><worldbody><body><freejoint/>
        <geom type="box" size=".1 .1 .1" mass="1"/><geom type="box" pos=".2 0 0" size=".1 .1 .1" mass="9"/>
    </body></worldbody></mujoco>"""
    for inertia in ("true", "packed"):
        sim = ss.Simulation(xml, PbdRAblated(inertia=inertia), device=device, timestep=STEP)  # type: ignore[arg-type]
        sim.xfrc_applied = np.array([[0.0] * 6, [0, 3.0, 0, 0, 0, 0]])
        sim.step(20)
        np.testing.assert_allclose(sim.qvel.numpy()[0, [1, 5]], [0.3 * 0.2, 0.0], atol=1e-6)


def test_bodies_welded_together_fly_as_one(device: str) -> None:
    """As MuJoCo in C has it with small steps, off the frame's origin and with forces on both."""
    sim = ss.Simulation(WELDED, ss.PbdR(substeps=10), device=device)
    mjd = mujoco.MjData(sim.mjm)
    mjd.qvel[:] = [0.1, -0.2, 0.3, 1.0, -2.0, 3.0]
    sim.qvel = mjd.qvel
    applied = np.random.default_rng(0).normal(0.0, 0.1, (sim.mjm.nbody, 6))
    generalized = np.random.default_rng(1).normal(0.0, 0.05, 6)
    sim.xfrc_applied, sim.qfrc_applied = applied, generalized
    sim.mjm.opt.timestep = 1e-4
    sim.mjm.opt.integrator = mujoco.mjtIntegrator.mjINT_RK4
    mjd.xfrc_applied[:], mjd.qfrc_applied[:] = applied, generalized
    for _ in range(10):
        mujoco.mj_step(sim.mjm, mjd, 20)
        sim.step(2)
    np.testing.assert_allclose(sim.qvel.numpy()[0], mjd.qvel, atol=2e-4)
    np.testing.assert_allclose(sim.qpos.numpy()[0], mjd.qpos, atol=5e-5)


PLATE = """<mujoco><worldbody>
  <body name="plate" mocap="true"><geom type="box" size="1 1 0.1" friction="0.5"/></body>
  <body pos="0 0 0.15"><freejoint/><geom type="box" size="0.05 0.05 0.05" mass="1" friction="0.5"/></body>
</worldbody></mujoco>"""


def test_a_plate_moved_by_hand_takes_along_what_is_on_it(device: str) -> None:
    """Up, and sideways by friction; each is where the plate is, and as fast."""
    sim = ss.Simulation(PLATE, ss.PbdR(), device=device, timestep=STEP)
    for k in range(100):
        at = 0.5 * 0.5 * (STEP * (k + 1)) ** 2
        sim.mocap_pos = [[at, 0.0, at]]
        sim.step()
    np.testing.assert_allclose(sim.qpos.numpy()[0, :3], [at, 0.0, 0.15 + at], atol=1e-4)
    np.testing.assert_allclose(sim.qvel.numpy()[0, :3], [0.5, 0.0, 0.5], atol=5e-3)


def test_a_plate_that_turns_takes_along_what_is_on_it(device: str) -> None:
    """A quarter turn about the vertical in 2 s, from rest to rest: so does the box on it, 0.3 m off, which sticks."""
    sim = ss.Simulation(PLATE, ss.PbdR(), device=device, timestep=STEP)
    sim.qpos = [0.3, 0.0, 0.15, 1.0, 0.0, 0.0, 0.0]
    for k in range(220):
        share = min((k + 1) / 200, 1.0)
        half = 0.25 * math.pi * share**2 * (3.0 - 2.0 * share)
        sim.mocap_quat = [[math.cos(half), 0.0, 0.0, math.sin(half)]]
        sim.step()
    turned = 2.0 * math.atan2(sim.qpos.numpy()[0, 6], sim.qpos.numpy()[0, 3])
    np.testing.assert_allclose(turned, 0.5 * math.pi, atol=1e-5)
    np.testing.assert_allclose(sim.qpos.numpy()[0, :3], [0.0, 0.3, 0.15], atol=5e-5)
    np.testing.assert_allclose(sim.qvel.numpy(), 0.0, atol=1e-6)


def test_only_what_slides_faster_than_friction_allows_is_left_behind(device: str) -> None:
    """At 8 m/s^2 and a coefficient of 0.5 a box is taken along with 4.9 m/s^2."""
    sim = ss.Simulation(PLATE, ss.PbdR(), device=device, timestep=STEP)
    for k in range(30):
        sim.mocap_pos = [[0.5 * 8.0 * (STEP * (k + 1)) ** 2, 0.0, 0.0]]
        sim.step()
    np.testing.assert_allclose(sim.qvel.numpy()[0, 0], 0.5 * G * 0.3, rtol=0.02)


# Bad input.


def test_what_it_cannot_do_is_named() -> None:
    with pytest.raises(Unsupported) as caught:
        ss.Simulation("hand", ss.PbdR(), device="cpu")
    for word in ("pbd-r", "'index_0' (hinge)", "actuators (16)", "sensors", "armature"):
        assert word in str(caught.value)


@pytest.mark.parametrize(
    "parameters, words",
    [
        ({"substeps": 0}, "substeps is 0.*from 1"),
        ({"iterations": 2.5}, "iterations is 2.5"),
        ({"resolution": 0}, "resolution is 0.*from 1"),
        ({"mesh_resolution": 1}, "mesh_resolution is 1.*from 2"),
        ({"tolerance": float("nan")}, "tolerance is nan"),
        ({"relaxation": 3.0}, "relaxation is 3.0.*up to 2"),
        ({"inertia": "packed"}, "inertia"),
    ],
)
def test_parameters(parameters: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        ss.PbdR(**parameters)


@pytest.mark.parametrize(
    "parameters, words",
    [
        ({"inertia": "none"}, "inertia is 'none'.*'true', 'packed'"),
        ({"linear": False}, "linear=false.*coordinates='world'"),
        ({"velocity": 1}, "velocity is 1.*true or false"),
        ({"coordinates": "world"}, "inertia='true'.*pbd-r-paper"),
    ],
)
def test_parameters_of_the_published_forms(parameters: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        PbdRAblated(**parameters)


def test_nothing_ablated_is_pbd_r(device: str) -> None:
    """With its defaults the ablated form is `PbdR` bit for bit."""
    states = []
    for physics in (ss.PbdR(), PbdRAblated()):
        sim = ss.Simulation("stack", physics, device=device, timestep=STEP)
        sim.qvel = np.random.default_rng(0).normal(0.0, 0.3, sim.mjm.nv)
        sim.step(10)
        states.append(sim.state)
    for name in support.FIELDS:
        assert support.same_bits(getattr(states[0], name), getattr(states[1], name)), name


@pytest.mark.parametrize("physics", [Pbd(), ss.PbdR()], ids=["pbd", "pbd-r"])
def test_overlapping_start(physics: ss.Physics, device: str) -> None:
    text = """<mujoco><worldbody><geom name="floor" type="plane" size="1 1 .1"/>
      <body pos="0 0 0.02"><freejoint/><geom name="block" type="box" size=".05 .05 .05"/></body></worldbody></mujoco>"""
    with pytest.raises(InputError) as caught:
        ss.Simulation(text, physics, device=device)
    for word in ("'block' and 'floor'", "overlap by 30 mm", "0.5 of the radius", "12.5 mm", "move them apart"):
        assert word in str(caught.value)


def test_too_many_contacts(device: str) -> None:
    """One ball on seventy floors: more than there is room for, and what the message says is enough."""
    floors = '<geom type="plane" size="1 1 .1"/>' * 70
    text = f"""<mujoco><worldbody>{floors}
      <body pos="0 0 0.11"><freejoint/><geom type="sphere" size=".1"/></body></worldbody></mujoco>"""
    sim = ss.Simulation(text, ss.PbdR(), device=device, timestep=STEP, nconmax=32, njmax=1)
    before = sim.qpos.numpy().copy()
    with pytest.raises(BufferOverflow, match="raise nconmax from 32 to at least (\\d+)") as caught:
        sim.step(20, check=True)
    assert support.same_bits(sim.qpos.numpy(), before)
    raised = int(str(caught.value).split("at least ")[1].split(".")[0])
    sim = ss.Simulation(text, ss.PbdR(), device=device, timestep=STEP, nconmax=raised)
    sim.step(20, check=True)
    assert sim.health().ok and sim.contact_count() == 70
