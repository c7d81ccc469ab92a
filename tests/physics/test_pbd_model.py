"""What particle bodies take of a model and what they tell: flags, fields, contacts, advice."""

import re

import mujoco
import numpy as np
import pytest

import stickslip as ss
from stickslip.bench.baselines.pbd_paper.physics import Pbd, PbdRAblated, PbdRPaper
from stickslip.errors import BufferOverflow, Diverged, InputError, Unsupported
from stickslip.physics.pbd.colliders import make_colliders
from stickslip.physics.pbd.model import MARGIN, workspace_of
from tests import support

G = 9.81
STEP = 0.01
TWO_BOXES = """<mujoco><worldbody><geom type="plane" size="1 1 .1"/>
  <body pos="0 0 .05"><freejoint/><geom type="box" size=".05 .05 .05" mass="2"/></body>
  <body pos="0 0 .15"><freejoint/><geom type="box" size=".05 .05 .05" mass="3"/></body>
</worldbody></mujoco>"""
BOX = """<mujoco><option timestep="0.01">{flag}</option><worldbody><geom name="floor" type="plane" size="1 1 .1"/>
  <body pos="0 0 {z}"><joint type="free" {joint}/><geom name="box" type="box" size=".05 .05 .05" mass="2"/></body>
</worldbody></mujoco>"""


def box(z: float = 0.05, flag: str = "", joint: str = "") -> str:
    return BOX.format(z=z, flag=flag and f"<flag {flag}/>", joint=joint)


def carried(sim: ss.Simulation, geom: int) -> float:
    """Vertical force on a geom from the ones below it [N]."""
    contacts = sim.contacts()
    force = np.einsum("nji,nj->ni", contacts.frame, contacts.force[:, :3])
    upward = np.where(contacts.geom[:, 1] == geom, 1.0, -1.0)
    below = contacts.geom.max(axis=1) == geom
    return float((upward * force[:, 2])[below].sum())


@pytest.mark.parametrize(
    "physics",
    [Pbd(), PbdRPaper(), PbdRPaper(coordinates="body"), ss.PbdR()],
    ids=["pbd", "paper", "fitted", "impulse"],
)
def test_forces_between_bodies_carry_the_weight(physics: ss.Physics, device: str) -> None:
    """On the average over a second, of the box above and of both."""
    sim = ss.Simulation(TWO_BOXES, physics, device=device, timestep=0.001)
    sim.step(200)
    forces = []
    for _ in range(500):
        sim.step()
        forces.append([carried(sim, 2), carried(sim, 1)])
    np.testing.assert_allclose(np.mean(forces, axis=0), [3.0 * G, 5.0 * G], rtol=0.02)


@pytest.mark.parametrize("flag", ['gravity="disable"', 'contact="disable"', 'constraint="disable"'])
def test_flags_are_those_of_mujoco(flag: str, device: str) -> None:
    """Without weight a box floats on; without contact, or any constraint, it falls through the floor."""
    sim = ss.Simulation(box(flag=flag), ss.PbdR(substeps=1), device=device)
    mjd = mujoco.MjData(sim.mjm)
    mjd.qvel[:] = [0.1, 0.0, 0.05, 0.0, 0.0, 0.2]
    sim.qvel = mjd.qvel
    for _ in range(30):
        mujoco.mj_step(sim.mjm, mjd)
    sim.step(30)
    assert abs(mjd.qpos[2] - 0.05) > 0.01
    np.testing.assert_allclose(sim.qpos.numpy()[0], mjd.qpos, atol=1e-6)
    np.testing.assert_allclose(sim.qvel.numpy()[0], mjd.qvel, atol=1e-6)
    assert sim.contact_count() == 0


def test_gravity_stays_switched_off(device: str) -> None:
    """Whatever it is set to, as in MuJoCo."""
    sim = ss.Simulation(box(z=1.0, flag='gravity="disable"'), ss.PbdR(), device=device)
    sim.set_model(gravity=np.array([0.0, 0.0, -3.0]))
    sim.step(10)
    assert not sim.qvel.numpy().any()


def test_a_free_joint_has_no_spring(device: str) -> None:
    """MuJoCo's pulls the body to where it began, so that leaving it out would be wrong."""
    text = box(z=1.0, joint='stiffness="100"', flag='gravity="disable"')
    mjm = mujoco.MjModel.from_xml_string(text)
    mjd = mujoco.MjData(mjm)
    mjd.qpos[0] = 0.5
    mujoco.mj_forward(mjm, mjd)
    np.testing.assert_allclose(mjd.qacc[0], -100.0 * 0.5 / 2.0)
    with pytest.raises(Unsupported, match="stiffness of joints"):
        ss.Simulation(text, ss.PbdR(), device=device)


@pytest.mark.parametrize(
    ("attribute", "word"),
    [('adhesion="5"', "adhesion of geoms"), ('surfacevel="1 0 0"', "surfaces that move by themselves")],
)
def test_what_surfaces_cannot_do_is_named(attribute: str, word: str, device: str) -> None:
    text = box().replace('size="1 1 .1"', f'size="1 1 .1" {attribute}')
    with pytest.raises(Unsupported, match=word):
        ss.Simulation(text, ss.PbdR(), device=device)


@pytest.mark.parametrize(
    ("field", "shape"),
    [
        ("geom_size", (2, 3)),
        ("geom_pos", (2, 3)),
        ("geom_quat", (2, 4)),
        ("body_pos", (2, 3)),
        ("body_quat", (2, 4)),
        ("body_gravcomp", (2,)),
        ("dof_damping", (6,)),
        ("dof_armature", (6,)),
        ("dof_frictionloss", (6,)),
        ("jnt_stiffness", (1,)),
        ("geom_margin", (2,)),
        ("geom_solref", (2, 2)),
        ("density", ()),
        ("wind", (3,)),
    ],
)
def test_fields_that_a_step_does_not_read_are_named(field: str, shape: tuple[int, ...], device: str) -> None:
    """Along with those it does, and none of them is set."""
    sim = ss.Simulation(box(), ss.PbdR(), nworld=2, device=device)
    sim.step(3)
    before, mass, gravity = sim.state, sim.m.body_mass.numpy().copy(), sim.m.opt.gravity.numpy().copy()
    with pytest.raises(Unsupported) as caught:
        sim.set_model(body_mass=np.ones((2, 2)), gravity=np.zeros(3), **{field: np.full(shape, 0.5)})
    for word in ("pbd-r", field, "body_mass", "geom_friction", "make a new Simulation"):
        assert word in str(caught.value)
    assert support.same_bits(sim.m.body_mass.numpy(), mass) and support.same_bits(sim.m.opt.gravity.numpy(), gravity)
    for name in support.FIELDS:
        assert support.same_bits(getattr(sim.state, name), getattr(before, name)), name


def test_fields_that_do_not_exist_are_input_errors(device: str) -> None:
    sim = ss.Simulation(box(), ss.PbdR(), device=device)
    with pytest.raises(InputError, match="'geom_fricton'"):
        sim.set_model(geom_fricton=1.0)


def test_fields_that_a_step_reads_act(device: str) -> None:
    """Mass and inertia under a wrench, the centre of mass under a torque, gravity: as MuJoCo has it."""
    sim = ss.Simulation(box(z=1.0), ss.PbdR(substeps=1), device=device, timestep=1e-4)
    fields = {
        "body_mass": np.array([0.0, 3.0]),
        "body_inertia": np.array([[0.0, 0.0, 0.0], [0.02, 0.03, 0.04]]),
        "body_ipos": np.array([[0.0, 0.0, 0.0], [0.01, -0.02, 0.03]]),
        "body_iquat": np.array([[1.0, 0.0, 0.0, 0.0], [np.sqrt(0.5), np.sqrt(0.5), 0.0, 0.0]]),
        "gravity": np.array([1.0, 2.0, -3.0]),
    }
    sim.set_model(**fields)
    mjm = mujoco.MjModel.from_xml_string("""<mujoco><option timestep="1e-4" gravity="1 2 -3"/><worldbody>
      <body pos="0 0 1"><freejoint/><geom type="box" size=".05 .05 .05"/>
        <inertial mass="3" diaginertia=".02 .03 .04" pos=".01 -.02 .03" quat="1 1 0 0"/></body></worldbody></mujoco>""")
    mjd = mujoco.MjData(mjm)
    wrench = np.zeros((2, 6))
    wrench[1] = [1.0, -2.0, 3.0, 0.3, 0.2, -0.1]
    mjd.xfrc_applied[:] = wrench
    sim.xfrc_applied = wrench
    for _ in range(100):
        mujoco.mj_step(mjm, mjd)
    sim.step(100)
    np.testing.assert_allclose(sim.qvel.numpy()[0], mjd.qvel, atol=2e-5)


@pytest.mark.parametrize("physics", [ss.PbdR(), PbdRPaper()], ids=["pbd-r", "paper"])
def test_contacts_and_their_number_agree(physics: ss.Physics, device: str) -> None:
    """After steps, a reset of some worlds and a new state."""
    sim = ss.Simulation(box(), physics, nworld=3, device=device)
    assert sim.contact_count() == len(sim.contacts()) == 0
    sim.step(3)
    assert sim.contact_count() == len(sim.contacts()) == 3 * 16
    sim.reset(np.array([True, False, True]))
    assert sim.contact_count() == len(sim.contacts()) == 16
    sim.step()
    assert sim.contact_count() == len(sim.contacts()) == 3 * 16
    sim.state = sim.state
    assert sim.contact_count() == len(sim.contacts()) == 0
    sim.step()
    sim.reset()
    assert sim.contact_count() == len(sim.contacts()) == 0


def test_contacts_agree_where_a_step_is_taken_back(device: str) -> None:
    sim = ss.Simulation(box(), ss.PbdR(), nworld=2, device=device)
    sim.step(3)
    sim.xfrc_applied = np.full((2, 2, 6), 3e38)
    with pytest.raises(Diverged):
        sim.step(5, check=True)
    assert sim.contact_count() == len(sim.contacts())


def test_advice_is_of_the_substep_with_most_contacts(device: str) -> None:
    """A ball flies past many others in one step; at the end of it there is none to touch."""
    others = '<geom type="sphere" size=".1"/>' * 300
    text = f"""<mujoco><option gravity="0 0 0"/><worldbody>{others}
      <body pos="-1 0 .21"><freejoint/><geom type="sphere" size=".1"/></body></worldbody></mujoco>"""

    def fly(**buffers: int) -> ss.Simulation:
        sim = ss.Simulation(text, ss.PbdR(), device=device, timestep=0.4, **buffers)
        sim.qvel = [5.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        sim.step(check=True)
        return sim

    with pytest.raises(BufferOverflow, match=r"from 32 to at least \d+") as caught:
        fly(nconmax=32)
    found = re.search(r"at least (\d+)", str(caught.value))
    assert found is not None and int(found[1]) >= 150
    sim = fly(nconmax=int(found[1]))
    np.testing.assert_allclose(sim.qpos.numpy()[0, :3], [1.0, 0.0, 0.21], atol=1e-5)
    assert sim.health().ok and sim.contact_count() == 0


SIZES = {
    "box": (0.3, 0.2, 0.5),
    "sphere": (0.3, 0.0, 0.0),
    "capsule": (0.2, 0.4, 0.0),
    "cylinder": (0.3, 0.5, 0.0),
    "ellipsoid": (0.2, 0.3, 0.4),
}


@pytest.mark.parametrize("kind", SIZES)
def test_colliders_are_as_large_as_their_size(kind: str, device: str) -> None:
    """MuJoCo's boxes of geoms, made when a model is compiled, are those of the size it had then."""
    small = mujoco.MjModel.from_xml_string(
        f'<mujoco><worldbody><geom type="{kind}" size=".1 .1 .1"/><body pos="0 0 2"><freejoint/>'
        '<geom type="sphere" size=".05"/></body></worldbody></mujoco>'
    )
    fresh = mujoco.MjModel.from_xml_string(
        f'<mujoco><worldbody><geom type="{kind}" size="{" ".join(map(str, SIZES[kind]))}"/></worldbody></mujoco>'
    )
    small.geom_size[0] = SIZES[kind]
    colliders, _ = make_colliders(small, [0])
    middle, half = fresh.geom_aabb[0, :3], fresh.geom_aabb[0, 3:]
    np.testing.assert_allclose(colliders.low.numpy()[0], middle - half, atol=1e-12)
    np.testing.assert_allclose(colliders.high.numpy()[0], middle + half, atol=1e-12)
    sim = ss.Simulation(small, ss.PbdR(), device=device, timestep=STEP)
    sim.qpos = [0.0, 0.0, half[2] + 0.05, 1.0, 0.0, 0.0, 0.0]
    sim.step(10)
    np.testing.assert_allclose(sim.qpos.numpy()[0, 2], half[2] + 0.05, atol=1e-5)


def turned(quat: np.ndarray) -> np.ndarray:
    mat = np.zeros(9)
    mujoco.mju_quat2Mat(mat, quat)
    return mat.reshape(3, 3)


@pytest.mark.parametrize(
    "physics", [PbdRAblated(contact="centre", substeps=1), PbdRPaper(substeps=1)], ids=["fitted", "paper"]
)
def test_no_contact_is_missed_at_a_fast_spin(physics: ss.Physics, device: str) -> None:
    """A radian in a substep takes particles out of shape until they are fitted; each is found where it is then."""
    text = """<mujoco><option gravity="0 0 0"/><worldbody>
      <body><freejoint/><geom type="box" size=".4 .4 .05" mass="1"/></body>
      <body pos="0 0 3"><freejoint/><geom type="box" size=".05 .05 .05" mass="1"/></body></worldbody></mujoco>"""
    sim = ss.Simulation(text, physics, nworld=16, device=device, timestep=STEP, nconmax=4000)
    rng = np.random.default_rng(3)
    qpos, qvel = sim.qpos.numpy().copy(), np.zeros((16, 12), dtype=np.float32)
    angle = rng.uniform(0.0, 2.0 * np.pi, 16)
    qpos[:, 7:10] = np.stack([0.45 * np.cos(angle), 0.45 * np.sin(angle), rng.uniform(-0.05, 0.05, 16)], axis=1)
    qvel[:, 5] = rng.uniform(60.0, 100.0, 16)
    sim.qpos, sim.qvel = qpos, qvel
    qpos, qvel = qpos.astype(float), qvel.astype(float)
    sim.step()
    touching = workspace_of(sim.d).touching
    counts, first, second = touching.count.numpy(), touching.particle.numpy(), touching.other.numpy()
    mine, theirs = (body.radius for body in sim.m.bodies)
    seen = 0
    for w in range(16):
        x = []
        for k, body in enumerate(sim.m.bodies):
            centre = body.centre.mean(axis=0)
            r = turned(qpos[w, 7 * k + 3 : 7 * k + 7])
            arm = (body.centre - centre) @ r.T
            velocity = qvel[w, 6 * k : 6 * k + 3] + np.cross(r @ qvel[w, 6 * k + 3 : 6 * k + 6], arm)
            x.append(qpos[w, 7 * k : 7 * k + 3] + r @ centre + arm + STEP * velocity)
        gap = np.linalg.norm(x[0][:, None] - x[1], axis=2) - mine[:, None] - theirs
        near = np.argwhere(gap < MARGIN * np.minimum(mine[:, None], theirs) - 1e-6) + [0, len(mine)]
        want = {(int(i), int(j)) for i, j in near}
        found = set(zip(first[w, : counts[w]].tolist(), second[w, : counts[w]].tolist(), strict=True))
        assert want | {(j, i) for i, j in want} <= found
        seen += len(want)
    assert seen > 50


@pytest.mark.parametrize("speed", [600.0, 750.0, 850.0])
def test_the_rotation_of_a_fast_spin_is_found(speed: float, device: str) -> None:
    """Up to 0.85 rad in a substep: the sum of m r x Q r is dt L."""
    text = """<mujoco><option gravity="0 0 0" timestep="0.001"/><worldbody><body><freejoint/>
      <inertial pos="0 0 0" mass="1" diaginertia=".013 .012 .009"/><geom type="box" size=".1 .1 .1"/></body>
      </worldbody></mujoco>"""
    sim = ss.Simulation(text, ss.PbdR(substeps=1), device=device)
    omega = speed * np.array([2.0, -1.0, 2.0]) / 3.0
    sim.qvel = [0.0, 0.0, 0.0, *omega]
    sim.step()
    inertia = np.diag([0.013, 0.012, 0.009])
    spread = 0.5 * np.trace(inertia) * np.eye(3) - inertia
    a = turned(workspace_of(sim.d).exact.qpos.numpy()[0, 3:7]) @ spread
    moment = np.array([a[2, 1] - a[1, 2], a[0, 2] - a[2, 0], a[1, 0] - a[0, 1]])
    np.testing.assert_allclose(moment, 1e-3 * inertia @ omega, rtol=1e-6)


@pytest.mark.parametrize("physics", [Pbd(), PbdRPaper()], ids=["pbd", "paper"])
def test_particles_alone_need_particles(physics: ss.Physics, device: str) -> None:
    """A body that touches nothing has none: one by one it would be nowhere; otherwise it falls as any."""
    text = box(z=1.0).replace('name="box"', 'name="box" contype="0" conaffinity="0"')
    with pytest.raises(Unsupported, match="'body 1'.*coordinates=body"):
        ss.Simulation(text, physics, device=device)
    sim = ss.Simulation(text, PbdRPaper(coordinates="body"), device=device)
    sim.step(10)
    np.testing.assert_allclose(sim.qvel.numpy()[0, 2], -G * 10 * STEP, rtol=1e-5)


def test_what_may_be_none_says_so() -> None:
    with pytest.raises(InputError, match="substeps is 0.*from 1 to 10000, or None"):
        ss.PbdR(substeps=0)
