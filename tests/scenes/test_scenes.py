"""The built-in scenes: each compiles, starts in a valid state and, stepped by MuJoCo in C, does what its name says."""

from __future__ import annotations

import math
import pathlib

import mujoco
import numpy as np
import pytest

from stickslip import mjcf, parameters, scenes
from stickslip.errors import SceneError
from stickslip.mpc import tasks
from stickslip.scenes import (
    bouncing_ball,
    conveyor,
    cylinder_roll,
    gripper,
    hand,
    pendulum,
    pile,
    pinch,
    push_cubes,
    push_t,
    rod_push,
    sliding_cube,
    sphere_spin,
    stiff_arm,
)
from stickslip.scenes.scene import FOLDER

GRAVITY = 9.81


def start(scene: str) -> tuple[mujoco.MjModel, mujoco.MjData]:
    model = mjcf.load(scene)
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, model.key("home").id)
    mujoco.mj_forward(model, data)
    return model, data


def run(model: mujoco.MjModel, data: mujoco.MjData, seconds: float) -> tuple[int, int]:
    """Steps for `seconds`; returns the most contacts and the most constraint rows seen."""
    contacts = rows = 0
    for _ in range(round(seconds / model.opt.timestep)):
        mujoco.mj_step(model, data)
        contacts, rows = max(contacts, data.ncon), max(rows, data.nefc)
    return contacts, rows


def test_catalogue() -> None:
    assert scenes.names() == [
        "drop-test",
        "scaling",
        "box-on-slope",
        "sphere-spin",
        "cylinder-roll",
        "sliding-cube",
        "humanoid",
        "hand",
        "stack",
        "pinch",
        "bouncing-ball",
        "pendulum",
        "pushed-box",
        "bunny",
        "rod-push",
        "sheath",
        "thrown-cube",
        "push-cubes",
        "push-t",
        "bullet",
        "cylinder",
        "gripper",
        "conveyor",
        "stiff-arm",
        "patch-spin",
        "eccentric-box",
        "bar-pinch",
        "edge-grip",
        "soft-clutter",
        "hard-clutter",
    ]
    for name, scene in scenes.CATALOGUE.items():
        assert scene.name == name
        assert scene.summary


def row(scene: scenes.Scene) -> str:
    """The scene's row in the table of docs/scenes.md."""
    cells = []
    for name, default, limits, meaning in parameters.rows(scene.kind):
        bounds = limits.removeprefix("a whole number from ").removeprefix("a number from ")
        cells.append(f"`{name}={default}`: {meaning} ({bounds})")
    return f"| `{scene.name}` | {scene.summary} | {'<br>'.join(cells)} |"


def test_documentation_has_every_scene_and_parameter() -> None:
    lines = (pathlib.Path(__file__).parents[2] / "docs" / "scenes.md").read_text().splitlines()
    for name, scene in scenes.CATALOGUE.items():
        assert [line for line in lines if line.startswith(f"| `{name}` |")] == [row(scene)]


def test_unknown_scene() -> None:
    with pytest.raises(SceneError, match="did you mean 'humanoid'"):
        scenes.buffers("humanoids")


GENERATED = ("drop-test", "scaling", "stack", "push-cubes", "bunny", "soft-clutter", "hard-clutter")
"""Scenes whose bodies are added to the file."""
FILES = sorted([*FOLDER.glob("*.xml"), *tasks.FOLDER.glob("*.xml")])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_opens_by_itself(path: pathlib.Path) -> None:
    assert mujoco.MjModel.from_xml_path(str(path)).opt.timestep == 0.002


@pytest.mark.parametrize("name", [name for name in scenes.names() if name not in GENERATED])
def test_file_is_the_scene_with_default_parameters(name: str) -> None:
    file, model = mujoco.MjModel.from_xml_path(str(scenes.get(name).path)), mjcf.load(name)
    compared = 0
    for field in (field for field in dir(model) if not field.startswith("_")):
        value = getattr(model, field)
        # each finger in hand.xml brings copies of its materials, which the scene merges
        if isinstance(value, np.ndarray) and not (name == "hand" and ("mat" in field or "name" in field)):
            np.testing.assert_array_equal(getattr(file, field), value, err_msg=field)
            compared += value.size > 0
    assert compared > 100
    assert (file.opt.integrator, file.opt.disableflags) == (model.opt.integrator, model.opt.disableflags)


def test_constants_are_those_of_the_files() -> None:
    geom = {name: mjcf.load(name).geom for name in scenes.names() if name != "bunny"}
    mjm = {name: mjcf.load(name) for name in ("stiff-arm", "push-t", "push-cubes", "rod-push", "conveyor", "gripper")}
    found = [
        (bouncing_ball.RADIUS, geom["bouncing-ball"]("ball").size[0]),
        (pendulum.RADIUS, geom["pendulum"]("ball").size[0]),
        (sphere_spin.RADIUS, geom["sphere-spin"]("sphere").size[0]),
        (cylinder_roll.RADIUS, geom["cylinder-roll"]("cylinder").size[0]),
        (sliding_cube.HALF, geom["sliding-cube"]("cube").size[2]),
        (sliding_cube.HALF + sliding_cube.GAP, mjcf.load("sliding-cube").body("cube").pos[2]),
        (pinch.PAD, geom["pinch"]("left").size),
        (hand.HALF, geom["hand"]("cube").size[0]),
        (hand.CUBE, mjcf.load("hand").body("cube").pos),
        (pile.TOP, 2.0 * geom["drop-test"]("block").size[2]),
        (push_t.RADIUS, geom["push-t"]("finger").size[0]),
        (push_t.FINGER, mjm["push-t"].body("finger").mass[0]),
        ((push_t.KP, -push_t.KP, -push_t.KV), _gains(mjm["push-t"])),
        ((0.5 * push_t.WIDTH, 0.5 * push_t.BEAM, 0.5 * push_t.HEIGHT), geom["push-t"]("bar").size),
        (0.5 * (push_t.LENGTH - push_t.BEAM), geom["push-t"]("stem").size[1]),
        (push_t.centre(), geom["push-t"]("bar").pos[1]),
        (push_cubes.BAR_MASS, mjm["push-cubes"].body("bar").mass[0]),
        ((push_cubes.GAIN, -push_cubes.GAIN, -push_cubes.DAMPING), _gains(mjm["push-cubes"])),
        (rod_push.RADIUS, geom["rod-push"]("rod").size[0]),
        (rod_push.MASS, mjm["rod-push"].body("rod").mass[0]),
        (rod_push.ARMATURE, mjm["rod-push"].joint("rod").armature[0]),
        ((rod_push.STIFFNESS, -rod_push.STIFFNESS, -rod_push.DAMPING), _gains(mjm["rod-push"])),
        (conveyor.BELT_MASS, mjm["conveyor"].body("belt").mass[0]),
        (conveyor.MASS, mjm["conveyor"].body("block").mass[0]),
        (conveyor.BLOCK, geom["conveyor"]("block").size),
        (conveyor.STIFFNESS, geom["conveyor"]("block").user[0]),
        (gripper.POST, geom["gripper"]("post").size),
        (gripper.REACH, geom["gripper"]("left").pos[2]),
        (gripper.DISSIPATION, geom["gripper"]("left").user[1]),
        (stiff_arm.START, mjm["stiff-arm"].key("home").qpos),
        (stiff_arm.TARGET, mjm["stiff-arm"].key("home").ctrl),
    ]
    for constant, value in found:
        np.testing.assert_allclose(constant, value, rtol=1e-6)


def _gains(model: mujoco.MjModel) -> tuple[float, ...]:
    """kp, -kp and -kv of the first servo, as MuJoCo stores them."""
    return model.actuator_gainprm[0, 0], *model.actuator_biasprm[0, 1:3]


@pytest.mark.parametrize("name", scenes.names())
def test_scene_starts_at_home_and_can_be_drawn(name: str) -> None:
    model, data = start(name)
    assert model.key(0).name == "home"
    assert model.camera("overview").id >= 0
    assert model.nlight >= 1
    assert model.opt.timestep == 0.002
    assert model.opt.cone == mujoco.mjtCone.mjCONE_PYRAMIDAL
    assert (model.vis.global_.offwidth, model.vis.global_.offheight) == (1280, 960)
    for joint in range(model.njnt):
        if model.jnt_limited[joint] and model.jnt_type[joint] != mujoco.mjtJoint.mjJNT_BALL:
            low, high = model.jnt_range[joint]
            assert low <= data.qpos[model.jnt_qposadr[joint]] <= high, model.joint(joint).name
    if model.nu:
        assert (model.actuator_ctrllimited == 1).all()
        assert (model.actuator_ctrlrange[:, 0] <= data.ctrl).all()
        assert (data.ctrl <= model.actuator_ctrlrange[:, 1]).all()


@pytest.mark.parametrize("name", scenes.names())
def test_buffer_hints_are_in_the_model(name: str) -> None:
    model = mjcf.load(name)
    assert (model.numeric("nconmax").data[0], model.numeric("njmax").data[0]) == scenes.buffers(name)


@pytest.mark.parametrize(
    "scene", [*(n for n in scenes.names() if n != "drop-test"), "drop-test:n=3,layers=5", "drop-test:n=4,layers=1"]
)
def test_one_second_stays_finite_and_within_the_hints(scene: str) -> None:
    model, data = start(scene)
    contacts, rows = run(model, data, 1.0)
    assert np.isfinite(data.qpos).all() and np.isfinite(data.qvel).all()
    assert [w.number for w in data.warning] == [0] * len(data.warning)
    assert contacts <= model.numeric("nconmax").data[0] / 1.3
    assert rows <= model.numeric("njmax").data[0] / 1.3


def test_drop_test_is_what_it_says() -> None:
    model = mjcf.load("drop-test")
    kinds = [mujoco.mjtGeom(t).name for t in model.geom_type[model.geom_bodyid > 0]]
    order = ["mjGEOM_BOX", "mjGEOM_CYLINDER", "mjGEOM_ELLIPSOID", "mjGEOM_CAPSULE", "mjGEOM_SPHERE"]
    assert kinds == [kind for kind in order for _ in range(25)]
    assert (model.nv, model.nq) == (750, 875)
    across = 2.0 * model.geom_aabb[model.geom_bodyid > 0, 3:].mean()
    assert across == pytest.approx(0.05, abs=0.005)


def test_drop_test_settles_into_a_pile() -> None:
    model, data = start("drop-test:n=3")
    assert data.ncon == 0
    run(model, data, 4.0)
    depth = np.maximum(-data.contact.dist, 0.0)
    assert 1e-5 < depth.mean() < 2e-3
    cubes = [b for b in range(model.nbody) if model.body(b).name.startswith("cube")]
    assert np.abs(data.cvel[cubes]).max() < 0.05
    assert (data.xpos[cubes, 2] > 0.1).all()


def test_box_on_slope_starts_touching_and_sticks() -> None:
    model, data = start("box-on-slope")
    assert data.ncon == 4
    assert (data.contact.dist <= 0).all() and (data.contact.dist > -1e-4).all()
    assert model.body("box").mass[0] == 4.0
    begin = data.body("box").xpos.copy()
    run(model, data, 1.0)
    assert np.linalg.norm(data.body("box").xpos - begin) < 0.005


@pytest.mark.parametrize("angle, mu", [(0.25, 0.0), (0.4, 0.2)])
def test_box_on_slope_slides_by_coulomb(angle: float, mu: float) -> None:
    model, data = start(f"box-on-slope:angle={angle},mu={mu}")
    begin = data.body("box").xpos.copy()
    run(model, data, 1.0)
    distance = np.linalg.norm(data.body("box").xpos - begin)
    assert distance == pytest.approx(0.5 * GRAVITY * (math.sin(angle) - mu * math.cos(angle)), rel=0.02)


def test_sphere_spin_brakes_by_torsional_friction() -> None:
    model, data = start("sphere-spin:torsion=0.004,spin=8")
    assert data.ncon == 1 and data.contact.dim[0] == 4
    assert data.qvel[1] == 8.0
    run(model, data, 0.4)
    inertia = 0.4 * 1.0 * 0.1**2
    assert data.qvel[1] == pytest.approx(8.0 - 0.4 * 0.004 * GRAVITY / inertia, rel=0.05)


def test_cylinder_roll_brakes_by_rolling_friction() -> None:
    model, data = start("cylinder-roll:rolling=0.004")
    assert data.ncon >= 2 and (data.contact.dim == 6).all()
    assert data.qvel[0] == pytest.approx(0.1 * data.qvel[4])
    run(model, data, 1.0)
    # MuJoCo's soft friction creeps by about 1 %.
    assert data.qvel[0] == pytest.approx(0.1 * data.qvel[4], rel=0.02)
    assert data.qvel[0] == pytest.approx(1.0 - (2.0 / 3.0) * GRAVITY * 0.004 / 0.1, rel=0.05)


def test_sliding_cube_slides_to_rest() -> None:
    model, data = start("sliding-cube")
    assert data.ncon == 0
    np.testing.assert_allclose(data.qvel, [2.0, 0.0, 0.0, 0.1, 0.1, 0.1])
    run(model, data, 1.5)
    assert np.abs(data.qvel).max() < 1e-3
    assert data.qpos[0] == pytest.approx(2.0**2 / (2 * 0.3 * GRAVITY), rel=0.05)


def test_humanoid_has_every_kind_of_constraint() -> None:
    model, data = start("humanoid")
    assert 27 <= model.nv <= 35
    kinds = mujoco.mjtEq
    for kind in (kinds.mjEQ_CONNECT, kinds.mjEQ_WELD, kinds.mjEQ_JOINT, kinds.mjEQ_TENDON):
        assert (model.eq_type == kind).sum() == 1, kind
    ball = model.jnt_type == mujoco.mjtJoint.mjJNT_BALL
    hinge = model.jnt_type == mujoco.mjtJoint.mjJNT_HINGE
    assert ball.sum() == 1 and model.jnt_limited[ball].all()
    assert model.jnt_limited[hinge].all()
    assert (model.dof_damping[6:] > 0).all() and (model.dof_armature[6:] > 0).all()
    assert (model.dof_frictionloss > 0).sum() >= 10
    spatial = model.wrap_type[model.tendon_adr] == mujoco.mjtWrap.mjWRAP_SITE
    assert spatial.sum() == 2 and model.tendon_limited[spatial].all()
    assert (model.tendon_limited.astype(bool) & ~spatial & (model.tendon_frictionloss > 0)).sum() == 2
    sensors = mujoco.mjtSensor
    for kind, number in (
        (sensors.mjSENS_TOUCH, 2),
        (sensors.mjSENS_ACCELEROMETER, 1),
        (sensors.mjSENS_GYRO, 1),
        (sensors.mjSENS_FORCE, 2),
    ):
        assert (model.sensor_type == kind).sum() == number, kind
    # At home the equalities and the limits hold, and both feet stand on the floor.
    equality = data.efc_type == mujoco.mjtConstraint.mjCNSTR_EQUALITY
    assert equality.sum() == 3 + 6 + 1 + 1
    np.testing.assert_allclose(data.efc_pos[equality], 0.0, atol=1e-9)
    limits = (mujoco.mjtConstraint.mjCNSTR_LIMIT_JOINT, mujoco.mjtConstraint.mjCNSTR_LIMIT_TENDON)
    assert not np.isin(data.efc_type, limits).any()
    assert data.ncon == 8


def test_humanoid_stands() -> None:
    model, data = start("humanoid")
    run(model, data, 2.0)
    assert data.body("head").xpos[2] > 1.15
    weight = data.sensor("left_foot_touch").data[0] + data.sensor("right_foot_touch").data[0]
    assert weight == pytest.approx(GRAVITY * model.body_subtreemass[0], rel=0.02)
    assert [w.number for w in data.warning] == [0] * len(data.warning)


def test_humanoid_reaches_its_limits_when_it_moves() -> None:
    model, data = start("humanoid")
    seen: set[int] = set()
    low, high = model.actuator_ctrlrange.T
    for step in range(750):
        data.ctrl[:] = low if (step // 250) % 2 else high
        mujoco.mj_step(model, data)
        seen.update(data.efc_type.tolist())
    assert mujoco.mjtConstraint.mjCNSTR_LIMIT_JOINT in seen
    assert mujoco.mjtConstraint.mjCNSTR_LIMIT_TENDON in seen
    assert np.isfinite(data.qpos).all()
    assert [w.number for w in data.warning] == [0] * len(data.warning)


def test_hand_holds_the_cube() -> None:
    model, data = start("hand")
    assert (model.nu, model.nv) == (16, 22)
    tips = {model.geom(f"{finger}_tip").id for finger in ("index", "middle", "ring", "thumb")}
    cube = model.geom("cube").id
    assert data.ncon == 4
    assert {frozenset(pair) for pair in data.contact.geom.tolist()} == {frozenset((tip, cube)) for tip in tips}
    run(model, data, 0.5)
    height = data.body("cube").xpos[2]
    for _ in range(10):
        run(model, data, 0.5)
        assert abs(data.body("cube").xpos[2] - height) < 0.01
        assert all(data.sensor(f"{finger}_touch").data[0] > 0.5 for finger in ("index", "middle", "ring", "thumb"))
    assert np.abs(data.body("cube").xpos[:2] - [0.012, 0.0]).max() < 0.005


def test_hands_share_a_finger_and_the_materials_of_the_scene() -> None:
    """Four servos per finger in the order of the joints, and no copies of the finger's materials."""
    look = mujoco.MjModel.from_xml_path(str(FOLDER / "look.xml"))
    for source in ("hand", tasks.TASKS["allegro"].build("cube"), tasks.TASKS["leap-yaw"].build("cube")):
        model = mjcf.load(source)
        joints = [f"{finger}_{i}" for finger in ("index", "middle", "ring", "thumb") for i in range(4)]
        assert [model.joint(i).name for i in range(16)] == joints
        assert [model.actuator(i).name for i in range(model.nu)] == joints
        assert model.actuator_trnid[:, 0].tolist() == list(range(16))
        assert [model.material(i).name for i in range(model.nmat)] == [look.material(i).name for i in range(look.nmat)]
        assert model.material(model.geom("index_proximal").matid[0]).name == "slate"


def test_stack_starts_exactly_touching_and_stands() -> None:
    model, data = start("stack:n=10,mass=2,top=3")
    heights = [data.body(f"box{i}").xpos[2] for i in range(10)]
    np.testing.assert_allclose(heights, 0.05 + 0.1 * np.arange(10), atol=1e-12)
    assert model.body("box8").mass[0] == 2.0 and model.body("box9").mass[0] == 3.0
    np.testing.assert_allclose(data.contact.dist, 0.0, atol=1e-12)
    contacts, rows = run(model, data, 1.0)
    assert contacts <= model.numeric("nconmax").data[0] / 1.3
    assert rows <= model.numeric("njmax").data[0] / 1.3
    assert 0.94 < data.body("box9").xpos[2] < 0.95
    assert np.abs(data.qvel).max() < 1e-6


def test_pinch_holds_the_capsule_by_four_contacts_at_the_height_of_its_middle() -> None:
    model, data = start("pinch:force=5")
    assert data.ctrl.tolist() == [5.0, 5.0]
    capsule = model.geom("capsule").id
    assert data.ncon == 4
    np.testing.assert_allclose(data.contact.dist, 0.0, atol=1e-12)
    assert all(capsule in pair for pair in data.contact.geom.tolist())
    np.testing.assert_allclose(np.abs(data.contact.pos), [[0.03, 0.02, 0.0]] * 4, atol=1e-7)
    run(model, data, 1.0)
    force = np.zeros(6)
    for i in range(data.ncon):
        mujoco.mj_contactForce(model, data, i, force)
        assert force[0] == pytest.approx(2.5, rel=0.02)
    assert -0.02 < data.body("capsule").xpos[2] < 0.0


def test_bouncing_ball_touches_for_half_a_period_of_its_spring() -> None:
    model, data = start("bouncing-ball:height=0.5,mass=0.2,stiffness=2000")
    model.opt.timestep = 1e-4
    touching = deepest = 0.0
    while data.time < 0.9:
        mujoco.mj_step(model, data)
        touching += model.opt.timestep * data.ncon
        deepest = max(deepest, 0.05 - data.qpos[2])
    # the floor is hit at sqrt(2 g h), once in this time
    assert touching == pytest.approx(math.pi * math.sqrt(0.2 / 2000.0), rel=0.02)
    assert deepest == pytest.approx(math.sqrt(2.0 * GRAVITY * 0.5 * 0.2 / 2000.0), rel=0.02)
    mujoco.mj_step(model, data)
    energy = GRAVITY * (data.qpos[2] - 0.05) + 0.5 * data.qvel[2] ** 2
    assert energy == pytest.approx(GRAVITY * 0.5, rel=0.01)


def test_pendulum_swings_freely() -> None:
    model, data = start("pendulum:length=0.5,angle=0.05")
    assert data.qpos[0] == 0.05 and data.body("pendulum").xipos[0] > 0
    run(model, data, 4.0)
    frequency = math.sqrt(GRAVITY * 0.5 / (0.5**2 + 0.4 * 0.06**2))
    assert data.qpos[0] == pytest.approx(0.05 * math.cos(4.0 * frequency), abs=1e-3)
    assert data.ncon == 0


def test_sheath_drives_a_sphere_that_cannot_rotate() -> None:
    model, data = start("sheath")
    assert model.nv == 3 and data.ncon == 1
    assert data.contact.dist[0] == pytest.approx(0.0, abs=1e-9)
    assert {model.geom(g).name for g in data.contact.geom[0]} == {"lower", "sphere"}
    data.qpos[2] = 0.0021
    mujoco.mj_forward(model, data)
    assert {model.geom(g).name for g in data.contact.geom[0]} == {"upper", "sphere"}
    assert data.contact.dist[0] == pytest.approx(-0.0001, abs=1e-9)
    model, data = start("sheath:mu=0,force=2,mass=0.5")
    run(model, data, 0.5)
    assert data.qvel[0] == pytest.approx(2.0, rel=1e-3)


def test_thrown_cube_slides_and_tumbles() -> None:
    model, data = start("thrown-cube:height=0,speed=2,spin=0")
    assert data.ncon == 4
    run(model, data, 1.0)
    assert data.qpos[0] == pytest.approx(2.0**2 / (2 * 0.5 * GRAVITY), rel=0.02)
    model, data = start("thrown-cube")
    np.testing.assert_allclose(data.qvel, [1.0, 0.0, 0.0, 20.0, 0.0, 0.0])
    assert data.ncon == 0
    run(model, data, 1.5)
    assert np.abs(data.qvel).max() < 1e-3
    assert data.qpos[2] == pytest.approx(0.05, abs=1e-3)


@pytest.mark.parametrize("n", [1, 10])
def test_push_cubes_all_end_up_in_front_of_the_bar(n: int) -> None:
    model, data = start(f"push-cubes:n={n}")
    floor, bar = model.geom("floor").id, model.geom("bar").id
    assert {tuple(pair) for pair in data.contact.geom} <= {(floor, model.geom(f"cube_{i}").id) for i in range(n)}
    contacts = rows = 0
    force = []
    for step in range(1000):
        data.ctrl[0] = 0.001 * step
        most = run(model, data, 0.002)
        contacts, rows = max(contacts, most[0]), max(rows, most[1])
        force.append(data.actuator_force[0])
        assert not ((data.contact.geom == floor).any(axis=1) & (data.contact.geom == bar).any(axis=1)).any()
    assert contacts <= model.numeric("nconmax").data[0] / 1.3
    assert rows <= model.numeric("njmax").data[0] / 1.3
    front = data.body("bar").xpos[0] + 0.01
    places = np.array([data.body(f"cube_{i}").xpos for i in range(n)])
    assert (places[:, 0] > front + 0.015).all() and (places[:, 0] < front + 0.2).all()
    assert np.mean(force[-250:]) == pytest.approx(0.5 * n * 0.1 * GRAVITY, rel=0.05)


@pytest.mark.parametrize("flat, corners", [(0, 1), (1, 4)])
def test_bullet_has_contacts_before_touch_which_mujoco_ignores(flat: int, corners: int) -> None:
    states = []
    for gap in (0.0, 0.5):
        model, data = start(f"bullet:speed=4,flat={flat},gap={gap}")
        np.testing.assert_allclose(data.qvel, [0.0, 0.0, -4.0, 0.0, 0.0, 0.0])
        assert data.ncon == (corners if gap else 0)
        if gap:
            np.testing.assert_allclose(data.contact.dist, 0.3, atol=1e-6)
            assert data.nefc == 0  # detected, but not active
        run(model, data, 0.3)
        states.append(data.qpos.copy())
    np.testing.assert_array_equal(*states)
    assert states[0][2] < -0.1  # 8 mm per step pass through 5 mm, or penetrate too deep to come back


@pytest.mark.parametrize("flat", [0, 1])
def test_bullet_is_stopped_by_a_thick_plate(flat: int) -> None:
    model, data = start(f"bullet:speed=1,thickness=0.2,radius=0.02,flat={flat}")
    run(model, data, 1.5)
    assert np.abs(data.qvel).max() < 1e-3
    assert data.qpos[2] == pytest.approx(0.1 if flat else 0.02, abs=1e-3)
    assert model.body("bullet").mass[0] == 0.03


@pytest.mark.parametrize("plane", [0, 1])
def test_cylinder_lands_on_its_rim_and_comes_to_rest_on_its_side(plane: int) -> None:
    model, data = start(f"cylinder:plane={plane}")
    assert model.body("cylinder").mass[0] == pytest.approx(6.28, abs=0.005)
    np.testing.assert_allclose(data.qvel, [0.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    tilt = math.radians(80.0)
    np.testing.assert_allclose(data.geom("cylinder").xmat[2::3], [0.0, -math.sin(tilt), math.cos(tilt)], atol=1e-8)
    lowest = 0.5 - 0.1 * math.cos(tilt) - 0.1 * math.sin(tilt)
    fall = math.sqrt(2.0 * (lowest - 0.05) / GRAVITY)
    assert run(model, data, fall - 0.004)[0] == 0
    run(model, data, 0.008)
    assert data.ncon > 0 and {model.geom(g).name for g in data.contact.geom[0]} == {"table", "cylinder"}
    run(model, data, 1.5)
    assert data.geom("cylinder").xpos[2] == pytest.approx(0.15, abs=1e-3)
    assert abs(data.geom("cylinder").xmat[8]) < 0.01
    assert 0.2 < data.qpos[1] < 0.4


def test_gripper_squeezes_the_peg_by_the_fit_alone() -> None:
    model, data = start("gripper:height=0.2")
    assert (model.nv, model.nu) == (7, 0)
    assert model.body("gripper").mass[0] == pytest.approx(1000.0 * (0.04 * 0.04 * 0.2 + 2 * 0.01 * 0.01 * 0.08))
    assert model.body("peg").mass[0] == pytest.approx(1000.0 * 0.01002 * 0.01 * 0.08)
    assert data.geom("left").xpos[1] - data.geom("right").xpos[1] - 0.01 == pytest.approx(0.01, abs=1e-12)
    np.testing.assert_allclose(2.0 * model.geom("peg").size, [0.01, 0.01002, 0.08])
    assert data.ncon == 8
    np.testing.assert_allclose(data.contact.dist, -1e-5, atol=1e-10)
    pairs = [{model.geom(g).name for g in pair} for pair in data.contact.geom]
    assert pairs.count({"left", "peg"}) == pairs.count({"right", "peg"}) == 4
    # the corners of the squares are around the peg's center
    np.testing.assert_allclose(data.contact.pos.mean(axis=0), data.body("peg").xpos, atol=1e-9)
    data.qpos[1] = 0.0  # the peg in the middle of the post
    mujoco.mj_forward(model, data)
    assert data.ncon == 0
    model, data = start("gripper:height=0.2")
    fall = math.sqrt(2.0 * 0.2 / GRAVITY)
    run(model, data, fall - 0.004)
    assert data.ncon == 8
    run(model, data, 0.008)
    assert data.ncon == 12 and model.geom("floor").id in data.contact.geom
    assert data.body("peg").xpos[2] - model.geom("peg").size[2] > 0.09


@pytest.mark.parametrize("stiffness, margin", [(1e6, 0.47), (1e7, 1.5), (1e8, 4.8)])
def test_gripper_holds_the_peg_through_the_impact(stiffness: float, margin: float) -> None:
    model, data = start(f"gripper:stiffness={stiffness}")
    np.testing.assert_allclose(model.geom_user[1:, 0], stiffness)
    grip = sum(
        -0.5 * stiffness * dist * mu[0] for dist, mu in zip(data.contact.dist, data.contact.friction, strict=True)
    )
    assert grip > 100.0 * GRAVITY * model.body("peg").mass[0]
    # the post alone falls on four corners by Hunt and Crossley's law
    step = 0.002 / math.sqrt(stiffness)
    x, v, peak = 0.0, math.sqrt(2.0 * GRAVITY * 0.1), 0.0
    while v > 0.0:
        force = 4.0 * stiffness * x * (1.0 + gripper.DISSIPATION * v) / model.body("gripper").mass[0]
        peak = max(peak, force)
        v += step * (GRAVITY - force)
        x += step * v
    assert grip / (model.body("peg").mass[0] * peak) == pytest.approx(margin, rel=0.05)


def test_conveyor_oscillates_freely_and_drags_the_block() -> None:
    model, data = start("conveyor")
    amplitude, period = 0.28, 1.0
    assert 1.0 < amplitude * (2.0 * math.pi / period) ** 2 / GRAVITY < 1.3
    assert model.body("block").mass[0] == 1.0
    assert data.ncon == 4
    assert all({model.geom(g).name for g in pair} == {"belt", "block"} for pair in data.contact.geom)
    np.testing.assert_allclose(data.contact.dist, -conveyor.DEPTH, rtol=1e-4)
    springs = 1.0 / (1.0 / model.geom("belt").user[0] + 1.0 / model.geom("block").user[0])
    assert -data.contact.dist.sum() * springs == pytest.approx(GRAVITY, rel=1e-4)
    for name in ("belt", "block"):
        assert model.geom(name).user[2] == 1.0 and model.geom(name).friction[0] == 0.5
    floor, belt = model.geom("floor"), model.geom("belt")
    assert not floor.contype & belt.conaffinity and not belt.contype & floor.conaffinity
    model.opt.timestep = 2e-4
    run(model, data, 0.2)  # MuJoCo in C has dynamic friction only: the block slides
    assert data.qvel[1] == pytest.approx(-0.5 * GRAVITY * 0.2, rel=0.02)
    run(model, data, 0.5 * period - 0.2)
    assert data.qpos[0] == pytest.approx(-amplitude, rel=2e-3)
    run(model, data, 0.5 * period)
    assert data.qpos[0] == pytest.approx(amplitude, rel=2e-3)
    assert abs(data.qpos[1] - data.qpos[0]) + conveyor.BLOCK[0] < belt.size[0]
    assert data.qpos[3] == pytest.approx(conveyor.TOP + conveyor.BLOCK[2], abs=1e-4)


def test_conveyor_keeps_the_block_up_to_twice_gravity() -> None:
    model, data = start("conveyor:amplitude=0.5,period=1")
    for _ in range(100):
        run(model, data, 0.1)
        assert abs(data.qpos[1] - data.qpos[0]) + conveyor.BLOCK[0] < model.geom("belt").size[0]
    assert data.qpos[3] == pytest.approx(conveyor.TOP + conveyor.BLOCK[2], abs=1e-3)


@pytest.mark.parametrize("gain, within", [(1e2, 5e-3), (1e4, 1e-3), (1e7, 1e-3)])
def test_stiff_arm_approaches_its_target_exponentially(gain: float, within: float) -> None:
    model, data = start(f"stiff-arm:gain={gain}")
    np.testing.assert_allclose(model.actuator_gainprm[:, 0], gain)
    np.testing.assert_allclose(model.actuator_biasprm[:, 1:3], -gain)
    assert not model.actuator_forcelimited.any() and model.jnt_limited.all()
    begin, target = np.array(stiff_arm.START), np.array(stiff_arm.TARGET)
    np.testing.assert_allclose(data.qpos, begin)
    np.testing.assert_allclose(data.ctrl, target)
    for second in (1, 2):
        assert run(model, data, 1.0) == (0, 0)  # neither contacts nor limits
        np.testing.assert_allclose(data.qpos, target + (begin - target) * math.exp(-second), atol=within)


def test_stiff_arm_carries_its_own_weight() -> None:
    model, data = start("stiff-arm:gain=1")
    data.ctrl[:] = data.qpos
    mujoco.mj_forward(model, data)
    np.testing.assert_allclose(data.qacc, 0.0, atol=1e-9)
    assert np.abs(data.qfrc_bias).max() > 10.0
    assert data.body("hand").xpos[2] > 0.3


@pytest.mark.parametrize(
    "scene, cubes, stiffness, stiction", [("soft-clutter", 0, 1e3, 0.01), ("hard-clutter", 10, 1e5, 1e-4)]
)
def test_clutter_is_what_it_says(scene: str, cubes: int, stiffness: float, stiction: float) -> None:
    model, data = start(scene)
    assert model.nv == 6 * 20 and data.ncon == 0
    masses = np.sort(model.body_mass[1:])
    np.testing.assert_allclose(masses[: 20 - cubes], 4.0 / 3.0 * math.pi * 0.05**3 * 1000.0)
    np.testing.assert_allclose(masses[20 - cubes :], 1.0)
    moving = model.geom_bodyid > 0
    np.testing.assert_allclose(model.geom_user[moving], [[stiffness, 10.0]] * moving.sum())
    np.testing.assert_allclose(model.geom_user[~moving], 0.0)
    np.testing.assert_allclose(model.geom_friction[:, 0], 0.5)
    assert model.numeric("stiction_velocity").data[0] == stiction
    run(model, data, 2.0)
    places = data.xpos[1:]
    assert (np.abs(places[:, :2]) < 0.4).all() and (places[:, 2] > 0.03).all() and (places[:, 2] < 0.5).all()


def test_clutter_cubes_touch_the_bin_only_with_their_spheres() -> None:
    model, data = start("hard-clutter:layers=1")
    box = model.geom_type == mujoco.mjtGeom.mjGEOM_BOX
    assert (box & (model.geom_bodyid > 0)).sum() == 2
    assert (model.geom_type == mujoco.mjtGeom.mjGEOM_SPHERE).sum() == 2 + 2 * 26
    run(model, data, 1.0)
    assert data.ncon > 0
    assert not (box[data.contact.geom[:, 0]] & box[data.contact.geom[:, 1]]).any()
