"""The method `drake`: what it refuses, and its plant against free flight, a rest depth, friction and filters."""

import sys

import mujoco
import numpy as np
import pytest

import stickslip as ss
from stickslip.bench import methods, runner
from stickslip.bench.baselines.drake import Drake
from stickslip.bench.baselines.drake_plant import unsupported
from stickslip.bench.experiments.accuracy.work_precision import WorkPrecision
from stickslip.bench.references import patches
from stickslip.bench.result import load
from stickslip.errors import InputError, MissingExtra, Unsupported
from stickslip.mjcf import load as load_model
from stickslip.simulation import Simulation

G, K, MU, MASS, RADIUS, E = 9.81, 1e5, 0.5, 2.0, 0.1, 1e7


@pytest.fixture
def drake():
    return pytest.importorskip("pydrake.multibody.cenic", reason="the method drake needs Drake: pip install drake")


def scene(body: str, *, floor: str = "", stiction: float = 1e-4, more: str = "") -> str:
    """A free body above a rigid plane."""
    return f"""
    <mujoco>
      <size nuser_geom="2"/>
      <custom><numeric name="stiction_velocity" data="{stiction}"/></custom>
      <default><geom friction="{MU}" user="{K} 10"/></default>
      <worldbody>
        <geom name="floor" type="plane" size="0 0 1" user="0 0" {floor}/>
        <body name="body" pos="0 0 1"><freejoint/>{body}</body>
        {more}
      </worldbody>
    </mujoco>
    """


BALL = f'<geom type="sphere" size="{RADIUS}" mass="{MASS}"/>'
BRICK = f'<geom type="box" size="0.1 0.2 0.3" pos="0.05 0 0" euler="20 30 0" mass="{MASS}"/>'


def soft(body: str, *, depth: float = 0.0, floor: str = "") -> str:
    """The same, hydroelastic."""
    text = scene(body, floor=floor).replace('nuser_geom="2"', 'nuser_geom="5"')
    return text.replace(f'user="{K} 10"', f'user="{K} 10 0 {E if not floor else 0.0} {depth}"').replace(
        'user="0 0"', "" if floor else 'user="0 0 0 0 0"'
    )


def simulated(text: str, timestep: float = 0.1, **parameters) -> Simulation:
    return Simulation(text, Drake(**parameters), device="cpu", timestep=timestep)


def test_without_drake_the_reason_is_given(monkeypatch, tmp_path):
    for name in ("pydrake", "pydrake.multibody", "pydrake.multibody.cenic"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match="pip install drake"):
        simulated(scene(BALL))
    result = load(runner.run(WorkPrecision(), tmp_path, methods=["drake"], device="cpu", quick=True, picture=False))
    assert all("pip install drake" in reason for reason in result.unsupported("drake").values())
    assert len(result.unsupported("drake")) == len(result.cases)


def test_it_is_a_method_of_that_name_with_parameters():
    (method,) = methods.resolve(["drake:accuracy=1e-4"]).values()
    assert method.subject == Drake(accuracy=1e-4)
    assert "drake" in method.versions
    for wrong in ({"accuracy": 0.0}, {"max_step": -1.0}, {"trace": -1}):
        with pytest.raises(InputError):
            Drake(**wrong)


@pytest.mark.parametrize("name", ["hard-clutter", "soft-clutter", "cylinder", "gripper", "hard-clutter:plain=1"])
def test_nothing_of_the_scenes_is_refused(name):
    assert unsupported(load_model(name)) == []


@pytest.mark.parametrize(
    ("text", "feature"),
    [
        (scene(BALL.replace("sphere", "ellipsoid").replace('size="0.1"', 'size="0.1 0.2 0.2"')), "shapes other than"),
        (scene(BALL, floor='friction="0.7"'), "different friction"),
        (scene(BALL, floor='margin="0.01"'), "margins"),
        (scene(BALL, floor='condim="4"'), "friction other than sliding"),
        (scene(BALL.replace("/>", ' user="0 0"/>')), "moving geoms without a stiffness"),
        (scene(BALL, more=f'<body pos="1 0 1"><joint type="hinge"/>{BALL}</body>'), "joints other than"),
        (scene(BALL, more=f'<body><joint type="slide" range="0 1"/>{BALL}</body>'), "joint limits"),
        (scene(f'{BALL}<body pos="0 0 0.3">{BALL}</body>'), "bodies on other bodies"),
        (scene(BALL).replace("stiction_velocity", "other"), "no stiction velocity"),
        (soft(BALL, depth=0.05), "hydroelastic depth"),
        (soft(BALL, floor=f'user="0 0 0 {E} 0"'), "hydroelastic depth"),
    ],
)
def test_what_drake_would_do_otherwise_is_refused(text, feature):
    found = unsupported(load_model(text))
    assert len(found) == 1
    assert feature in found[0]


@pytest.mark.usefixtures("drake")
def test_a_refusal_names_the_feature():
    with pytest.raises(Unsupported, match="drake is given free bodies and slides alone, not: margins"):
        simulated(scene(BALL, floor='margin="0.01"'))


@pytest.mark.usefixtures("drake")
def test_free_flight_is_that_of_mujoco():
    """A brick off its centre and turned, that spins: mass, inertia, quaternion and both angular velocities."""
    velocity = [1.0, -2.0, 3.0, 2.0, -1.0, 0.5]
    ours = Simulation(scene(BRICK), ss.MuJoCo(), device="cpu", timestep=1e-4)
    theirs = simulated(scene(BRICK), accuracy=1e-9)
    for sim, steps in ((ours, 3000), (theirs, 3)):
        sim.qvel = velocity
        sim.step(steps)
    assert theirs.qpos.numpy() == pytest.approx(ours.qpos.numpy(), abs=1e-3)
    assert theirs.qvel.numpy() == pytest.approx(ours.qvel.numpy(), abs=4e-3)
    assert theirs.state.time == pytest.approx([0.3])


@pytest.mark.usefixtures("drake")
def test_a_ball_rests_as_deep_as_its_weight_over_its_stiffness():
    sim = simulated(scene(BALL), accuracy=1e-5)
    sim.qpos = [0.0, 0.0, RADIUS, 1.0, 0.0, 0.0, 0.0]
    sim.step(20)
    contacts = sim.contacts()
    assert len(contacts) == sim.contact_count() == 1
    assert contacts.dist[0] == pytest.approx(-MASS * G / K, rel=1e-3)
    up = contacts.frame[0].T @ contacts.force[0, :3] * (1.0 if contacts.geom[0, 1] == 1 else -1.0)
    assert up == pytest.approx([0.0, 0.0, MASS * G], rel=1e-3, abs=1e-6)
    assert set(contacts.geom[0]) == {0, 1}
    assert contacts.pos[0] == pytest.approx([0.0, 0.0, 0.0], abs=1e-3)


@pytest.mark.usefixtures("drake")
def test_what_slides_is_braked_by_friction():
    slab = "".join(
        f'<geom type="sphere" size="{RADIUS}" pos="{x} {y} 0" mass="{MASS / 4}"/>' for x in (-1, 1) for y in (-1, 1)
    )
    sim = simulated(scene(slab), timestep=0.05, accuracy=1e-5)
    sim.qpos = [0.0, 0.0, RADIUS - MASS * G / 4 / K, 1.0, 0.0, 0.0, 0.0]
    sim.qvel = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    sim.step(2)
    assert sim.qvel.numpy()[0, 0] == pytest.approx(1.0 - MU * G * 0.1, abs=0.01)


@pytest.mark.usefixtures("drake")
def test_who_touches_whom_is_what_contype_says():
    """The second ball passes through the floor, the first does not."""
    free = f'<geom type="sphere" size="{RADIUS}" mass="{MASS}" contype="2" conaffinity="2"/>'
    text = scene(BALL, more=f'<body pos="1 0 0.3"><freejoint/>{free}</body>')
    sim = simulated(text)
    sim.step(5)
    assert sim.qpos.numpy()[0, 9] == pytest.approx(0.3 - 0.5 * G * 0.25, abs=0.05)
    assert sim.qpos.numpy()[0, 2] >= 0.09


@pytest.mark.usefixtures("drake")
def test_counts_begin_anew_with_a_reset_and_steps_add_up():
    physics = Drake(trace=1000)
    sim = Simulation("soft-clutter:layers=1", physics, nworld=2, device="cpu", timestep=0.1)
    start = sim.qpos.numpy().copy()
    sim.step(3)
    stats = physics.stats(sim.m, sim.d)
    assert (stats.steps > 3).all()
    assert (stats.iterations >= stats.steps).all()
    time, dt = stats.trace[0]
    assert len(time) == stats.steps[0]
    assert dt.sum() == pytest.approx(0.3)
    assert time[-1] == pytest.approx(0.3)
    after = sim.state
    sim.reset([True, False])
    assert physics.stats(sim.m, sim.d).steps[0] == 0
    assert sim.qpos.numpy()[0] == pytest.approx(start[0])
    assert sim.qpos.numpy()[1] == pytest.approx(after.qpos[1])
    sim.state = after
    assert sim.qpos.numpy() == pytest.approx(after.qpos)
    assert sim.health().ok


@pytest.mark.usefixtures("drake")
def test_a_state_that_is_not_finite_stops_a_world_alone():
    sim = Simulation(scene(BALL), Drake(), nworld=2, device="cpu", timestep=0.1)
    broken = sim.qpos.numpy().copy()
    broken[1, 0] = np.nan
    sim.qpos.assign(broken)
    sim.step(2)
    assert sim.health().nan_worlds == (1,)
    assert "world 1" in sim.health().failures[0]
    assert np.isfinite(sim.qpos.numpy()[0]).all()


@pytest.mark.usefixtures("drake")
def test_forces_from_outside_are_refused():
    sim = simulated(scene(BALL))
    sim.qfrc_applied = np.ones(6)
    with pytest.raises(Unsupported, match="no controls and no applied forces"):
        sim.step()


@pytest.mark.usefixtures("drake")
def test_soft_contact_is_that_of_our_own_error_control():
    """The same spheres under the same contact model, to a few micrometres."""
    where = []
    for physics in (Drake(accuracy=1e-8), methods.resolve(["cenic:accuracy=1e-8"])["cenic:accuracy=1e-8"].subject):
        sim = Simulation("soft-clutter:layers=1", physics, device="cpu", timestep=0.05)
        sim.step(4)
        where.append(sim.qpos.numpy().copy())
    assert where[0] == pytest.approx(where[1], abs=1e-5)


def resting(text: str, resolution: float) -> Simulation:
    sim = simulated(text, accuracy=1e-5, resolution=resolution)
    sim.qpos = [0.0, 0.0, RADIUS, 1.0, 0.0, 0.0, 0.0]
    sim.step(20)
    return sim


@pytest.mark.usefixtures("drake")
@pytest.mark.parametrize(
    ("text", "force"),
    [
        (soft(BALL), lambda x: np.pi * E * x**2 * (1.0 - 2.0 * x / (3.0 * RADIUS))),
        (soft(BALL, floor=f'user="0 0 0 {E} 0.05"'), lambda x: np.pi * E / 0.05 * x**2 * (RADIUS - x / 3.0)),
    ],
    ids=["soft ball", "soft floor"],
)
def test_a_ball_rests_as_deep_as_the_pressure_says(text, force):
    """To what the mesh, which lies inside the ball, leaves out: less, the finer it is."""
    errors = []
    for resolution in (0.1, 0.02):
        deep = RADIUS - float(resting(text, resolution).qpos.numpy()[0, 2])
        errors.append(force(deep) / (MASS * G) - 1.0)
    assert 0.0 < errors[1] < 0.05
    assert errors[0] > 3.0 * errors[1]


@pytest.mark.usefixtures("drake")
def test_a_patch_is_one_contact():
    contacts = resting(soft(BALL), 0.05).contacts()
    assert len(contacts) == 1
    side = 1.0 if contacts.geom[0, 1] == 1 else -1.0
    assert contacts.frame[0].T @ contacts.force[0, :3] * side == pytest.approx([0.0, 0.0, MASS * G], rel=1e-3, abs=1e-6)
    assert contacts.frame[0, 0] == pytest.approx([0.0, 0.0, side])
    assert contacts.pos[0] == pytest.approx([0.0, 0.0, 0.0], abs=1e-3)


@pytest.mark.usefixtures("drake")
def test_a_patch_brakes_a_spinning_disc():
    """2/3 mu m g R, and nothing where contact is a point."""
    spins = []
    for modulus in (1e6, 0.0):
        sim = Simulation(f"patch-spin:shape=disc,mu=0.3,modulus={modulus}", Drake(), device="cpu", timestep=0.01)
        sim.step(8)
        spins.append(sim.qvel.numpy()[0, 5])
    assert spins[0] == pytest.approx(10.0 - 0.08 * 0.3 * G * 4.0 / 3.0 / 0.05, abs=0.6)  # it falls first
    assert spins[1] == pytest.approx(10.0, abs=0.01)


@pytest.mark.usefixtures("drake")
def test_a_slide_moves_along_its_axis_from_where_mujoco_has_it():
    """Turned and tilted, with a position that does not begin at 0."""
    body = f'<body pos="1 2 3" euler="0 30 40"><joint type="slide" axis="0 0.6 0.8" ref="0.2"/>{BALL}</body>'
    text = scene(BALL, more=body)
    ours, theirs = Simulation(text, ss.MuJoCo(), device="cpu", timestep=1e-4), simulated(text, accuracy=1e-9)
    for sim, steps in ((ours, 2000), (theirs, 2)):
        sim.step(steps)
    assert theirs.qpos.numpy() == pytest.approx(ours.qpos.numpy(), abs=1e-3)
    assert theirs.qvel.numpy() == pytest.approx(ours.qvel.numpy(), abs=4e-3)
    pose = theirs.m.plant.get_body(theirs.m.plant.GetBodyByName("body_2").index()).EvalPoseInWorld(
        theirs.d.worlds[0].context
    )
    mjd = mujoco.MjData(ours.mjm)
    mjd.qpos[:] = theirs.qpos.numpy()[0]
    mujoco.mj_kinematics(ours.mjm, mjd)
    assert pose.translation() == pytest.approx(mjd.xpos[2], abs=1e-5)


@pytest.mark.usefixtures("drake")
def test_a_peg_is_held_by_the_grip_of_its_fit():
    sim = Simulation("gripper:modulus=2e9", Drake(), device="cpu", timestep=0.1)
    sim.step(3)
    contacts = sim.contacts()
    grip = contacts.force[(contacts.geom == sim.mjm.geom("left").id).any(axis=1), 0]
    assert grip.sum() == pytest.approx(200.0, rel=5e-3)
    assert sim.qpos.numpy()[0, 3] - sim.qpos.numpy()[0, 0] == pytest.approx(0.24, abs=1e-4)
    squeezed = contacts.dist[(contacts.geom == sim.mjm.geom("peg").id).any(axis=1)]
    assert squeezed == pytest.approx([-1e-5, -1e-5], rel=0.01)


@pytest.mark.usefixtures("drake")
@pytest.mark.parametrize("polygons", [False, True])
def test_a_capsule_presses_as_its_ends_and_its_flank_do(polygons):
    """To what the mesh, which lies inside, leaves out: less, the finer it is."""
    body = f'<geom type="capsule" size="{RADIUS} 0.2" quat="1 1 0 0" mass="{MASS}"/>'
    errors = []
    for resolution in (0.2, 0.05):
        sim = simulated(soft(body), resolution=resolution, polygons=polygons)
        sim.qpos = [0.0, 0.0, RADIUS, 1.0, 0.0, 0.0, 0.0]
        sim.step(10)
        deep = RADIUS - float(sim.qpos.numpy()[0, 2])
        exact = patches.sphere_force(E, RADIUS, deep) + patches.flank_force(E / RADIUS, RADIUS, 0.4, deep)
        errors.append(exact / (MASS * G) - 1.0)
    assert 0.0 < errors[1] < 0.5 * errors[0], errors


@pytest.mark.usefixtures("drake")
def test_geometry_is_a_stage_that_leaves_the_state():
    sim = Simulation("gripper:modulus=2e9", Drake(), device="cpu", timestep=0.1)
    before = sim.qpos.numpy().copy()
    (first, collide), (_, advance) = sim.physics.stages(sim.m, sim.d)
    collide()
    assert first == "collision"
    assert (sim.qpos.numpy() == before).all()
    advance()
    assert sim.qpos.numpy()[0, 0] == pytest.approx(-0.5 * G * 0.01, rel=0.15)  # steps of first order
