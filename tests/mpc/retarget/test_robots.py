"""Robots: names, sizes and servos of the G1; they stand; files of others, and what is wrong with them."""

import mujoco
import numpy as np
import pytest

import stickslip as ss
from stickslip.errors import InputError, MissingExtra, SceneError
from stickslip.mpc.retarget import g1, robots
from stickslip.mpc.retarget.robots import ROBOTS, Options
from stickslip.mpc.servos import is_servo

LEG = ("hip_pitch", "hip_roll", "hip_yaw", "knee", "ankle_pitch", "ankle_roll")
ARM = ("shoulder_pitch", "shoulder_roll", "shoulder_yaw", "elbow", "wrist_roll", "wrist_pitch", "wrist_yaw")
JOINTS = (
    *(f"{side}_{joint}_joint" for side in ("left", "right") for joint in LEG),
    *(f"waist_{axis}_joint" for axis in ("yaw", "roll", "pitch")),
    *(f"{side}_{joint}_joint" for side in ("left", "right") for joint in ARM),
)
DT = 1.0 / 60.0
ARM_FILE = """
<mujoco>
  <compiler angle="radian"/>
  <worldbody>
    <body name="base">
      <freejoint/>
      <geom size="0.1"/>
      <body name="arm" pos="0 0 0.1">
        <joint name="bend" axis="0 1 0" range="-1 1"/>
        <geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0"/>
        <site name="tip" pos="0.3 0 0"/>
      </body>
    </body>
    <body name="thing" pos="1 0 0"><freejoint/><geom size="0.1"/></body>
  </worldbody>
  <actuator>ACTUATORS</actuator>
</mujoco>"""


def home(mjm: mujoco.MjModel) -> mujoco.MjData:
    mjd = mujoco.MjData(mjm)
    mujoco.mj_resetDataKeyframe(mjm, mjd, 0)
    mujoco.mj_forward(mjm, mjd)
    return mjd


def drift(mjm: mujoco.MjModel) -> float:
    """How far the pelvis gets in 2 s with constant targets [m]."""
    mjm.opt.timestep = DT
    mjd, farthest = home(mjm), 0.0
    start = mjd.qpos[:3].copy()
    for _ in range(120):
        mujoco.mj_step(mjm, mjd)
        farthest = max(farthest, float(np.linalg.norm(mjd.qpos[:3] - start)))
    return farthest


@pytest.mark.parametrize("name", ["g1", "g1-box"])
def test_joints_servos_and_size_are_those_of_the_g1(name):
    mjm = ROBOTS[name].build(Options()).compile()
    joints = [mjm.joint(j).name for j in range(1, 30)]
    assert tuple(joints) == JOINTS
    assert np.array_equal(mjm.actuator_trnid[:, 0], np.arange(1, 30))
    assert all(is_servo(mjm, i) for i in range(29))
    assert np.allclose(mjm.actuator_ctrlrange, mjm.jnt_range[1:30])
    assert mjm.body_subtreemass[mjm.body("pelvis").id] == pytest.approx(33.3, abs=0.2)
    assert set(mjm.actuator_forcerange[:, 1]) == {5.0, 25.0, 50.0, 88.0, 139.0}
    armature = mjm.dof_armature[6:35]
    assert armature.min() == 0.0036 and armature.max() == 0.025
    assert mjm.opt.integrator == mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    for site in ROBOTS[name].contacts:
        assert mjm.site(site).id >= 0


def test_home_stands_exactly_on_the_floor():
    mjm = ROBOTS["g1"].build(Options()).compile()
    mjd = home(mjm)
    soles = [g for g in range(mjm.ngeom) if "toe" in mjm.geom(g).name or "heel" in mjm.geom(g).name]
    heights = [mjd.geom_xpos[g, 2] - mjm.geom_size[g, 0] for g in soles]
    assert len(heights) == 8 and np.allclose(heights, 0.0, atol=1e-8)
    assert all(abs(mjd.site(foot).xpos[2]) < 1e-8 for foot in g1.FEET)
    assert 1.25 < mjd.geom("head").xpos[2] + 0.07 < 1.35
    middle = 0.5 * (mjd.site("left_foot").xpos + mjd.site("right_foot").xpos)
    assert np.allclose(mjd.subtree_com[1][:2], middle[:2], atol=5e-3)
    assert np.array_equal(mjm.key_ctrl[0], mjm.key_qpos[0][7:])


def test_left_and_right_mirror_each_other():
    mjm = ROBOTS["g1"].build(Options()).compile()
    for name in (f"{joint}_joint" for joint in (*LEG, *ARM)):
        left, right = mjm.joint(f"left_{name}").range, mjm.joint(f"right_{name}").range
        odd = "roll" in name or "yaw" in name
        assert np.allclose(right, -left[::-1] if odd else left)


@pytest.mark.parametrize("servo", robots.SERVOS)
def test_stands_in_mujoco(servo):
    assert drift(ROBOTS["g1"].build(Options(servo)).compile()) < 0.02


@pytest.mark.parametrize("servo", robots.SERVOS)
def test_stands_under_cone_sweep(servo):
    mjm = ROBOTS["g1"].build(Options(servo)).compile()
    sim = ss.Simulation(mjm, ss.ConeSweep(), nworld=1, device="cpu", timestep=DT)
    sim.reset(keyframe=0)
    sim.step(120)
    assert np.linalg.norm(np.asarray(sim.qpos)[0, :3] - mjm.key_qpos[0][:3]) < 0.02


def test_stiff_servos_have_critical_damping_and_no_limit():
    mjm = ROBOTS["g1"].build(Options("stiff")).compile()
    assert (mjm.actuator_gainprm[:, 0] == 500.0).all() and (mjm.dof_armature[6:] == 1.0).all()
    assert np.allclose(mjm.actuator_biasprm[:, 2], -2.0 * np.sqrt(500.0))
    assert not mjm.actuator_forcelimited.any() and mjm.actuator_ctrllimited.all()


def test_bodies_touch_each_other_only_on_request():
    qpos = None
    for on in (False, True):
        mjm = ROBOTS["g1"].build(Options(self_collision=on)).compile()
        mjd = home(mjm)
        assert mjd.ncon == 8  # the soles
        mjd.qpos[mjm.joint("left_hip_roll_joint").qposadr[0]] = -0.5  # into the other leg
        mujoco.mj_forward(mjm, mjd)
        between = [c for c in mjd.contact if (mjm.geom_bodyid[c.geom] > 0).all()]
        assert bool(between) == on
        assert qpos is None or np.array_equal(qpos, mjd.qpos)
        qpos = mjd.qpos.copy()


def test_box_stands_on_the_floor_and_hands_touch_it():
    mjm = ROBOTS["g1-box"].build(Options()).compile()
    mjd = home(mjm)
    assert mjm.body("box").jntnum[0] == 1 and mjd.ncon == 12
    mjd.joint("box").qpos[:3] = mjd.site("left_hand").xpos + [0.26, 0.0, 0.0]
    mujoco.mj_forward(mjm, mjd)
    pairs = [{mjm.geom(int(g)).name for g in c.geom} for c in mjd.contact]
    assert any({"box", hand} == pair for hand in ("left_hand", "left_palm_0", "left_palm_1") for pair in pairs)


def test_leap_holds_its_cube_with_one_kind_of_servo():
    mjm = ROBOTS["leap"].build(Options()).compile()
    mjd = home(mjm)
    start = mjd.body("object").xpos.copy()
    assert mjm.nu == 16 and all(is_servo(mjm, i) for i in range(16))
    for _ in range(250):
        mujoco.mj_step(mjm, mjd)
    assert np.linalg.norm(mjd.body("object").xpos - start) < 0.02
    with pytest.raises(InputError, match="'stiff'.*leap"):
        ROBOTS["leap"].build(Options("stiff"))


def written(tmp_path, actuators: str):
    path = tmp_path / "arm.xml"
    path.write_text(ARM_FILE.replace("ACTUATORS", actuators))
    return path


def test_robot_from_a_file(tmp_path):
    path = written(tmp_path, '<position name="bend" joint="bend" kp="10" inheritrange="1"/>')
    robot = robots.find(str(path))
    assert (robot.name, robot.base, robot.object) == ("arm", "base_free", "thing")
    mjm = robot.build(Options()).compile()
    assert mjm.actuator_gainprm[0, 0] == 10.0 and mjm.geom("floor").id >= 0
    assert robots.from_file(path, feet=("tip",)).contacts == ("tip",)


def between(mjm: mujoco.MjModel, mjd: mujoco.MjData) -> int:
    """Contacts between bodies of the robot of `BENT`."""
    mujoco.mj_forward(mjm, mjd)
    own = [mjm.body("base").id, mjm.body("arm").id, mjm.geom("hand").bodyid[0]]
    return sum(bool(np.isin(mjm.geom_bodyid[c.geom], own).all()) for c in mjd.contact)


HAND = """<body pos="0.3 0 0"><joint name="turn" range="-3 3" axis="0 1 0"/>
  <geom name="hand" type="capsule" size="0.03" fromto="0 0 0 0.4 0 0"/></body>"""
BENT = ARM_FILE.replace("</body>\n    </body>", f"{HAND}</body></body>", 1)


def test_self_collision_of_a_robot_from_a_file(tmp_path):
    """As in the file, if nothing is said; none with False; a model that cannot is refused with True."""
    path, servos = tmp_path / "bent.xml", '<position joint="JOINT" kp="10" inheritrange="1"/>'
    text = BENT.replace("ACTUATORS", servos.replace("JOINT", "bend") + servos.replace("JOINT", "turn"))
    path.write_text(text)
    found = {}
    for on in (None, True, False):
        mjm = robots.from_file(path).build(Options(self_collision=on)).compile()
        mjd = mujoco.MjData(mjm)
        mjd.joint("turn").qpos[0] = 3.0  # the hand back into the base
        found[on] = between(mjm, mjd)
        mjd.qpos[mjm.joint("thing_free").qposadr[0] :][:3] = mjd.body("base").xpos
        mujoco.mj_forward(mjm, mjd)
        things = [c for c in mjd.contact if mjm.body("thing").id in mjm.geom_bodyid[c.geom]]
        assert things  # which still touches the robot
    assert found[None] > 0 and found[True] == found[None] and found[False] == 0
    path.write_text(text.replace("<worldbody>", '<default><geom contype="0" conaffinity="1"/></default><worldbody>'))
    assert robots.from_file(path).build(Options(self_collision=False)).compile().nexclude == 0
    with pytest.raises(InputError, match="no two bodies of the robot bent can touch.*contype and conaffinity"):
        robots.from_file(path).build(Options(self_collision=True))


def test_self_collision_of_the_hand():
    """Fingertips touch each other unless they are told not to; the cube is touched in any case."""
    excluded = {}
    for on in (None, True, False):
        mjm = ROBOTS["leap"].build(Options(self_collision=on)).compile()
        excluded[on] = mjm.nexclude
        assert any(mjm.body("object").id in mjm.geom_bodyid[c.geom] for c in home(mjm).contact)
    assert excluded[None] == excluded[True] < excluded[False]


def test_the_box_has_the_size_that_is_given():
    mjm = ROBOTS["g1-box"].build(Options(box=(0.4, 0.3, 0.2))).compile()
    assert np.allclose(mjm.geom("box").size, [0.2, 0.15, 0.1]) and mjm.key_qpos[0][-5] == 0.1
    with pytest.raises(InputError, match="a box has three lengths"):
        ROBOTS["g1-box"].build(Options(box=(0.4, 0.3)))
    with pytest.raises(InputError, match="the robot g1 has none; choose g1-box"):
        ROBOTS["g1"].build(Options(box=(0.4, 0.3, 0.2)))


@pytest.mark.parametrize(
    ("actuators", "message"),
    [
        ('<motor name="push" joint="bend"/>', "'push' is no position servo.*servo=stiff"),
        ('<position name="bend" joint="bend" kp="10"/>', "'bend' has no limits; set its ctrlrange"),
        ('<position name="bend" joint="bend" kp="9" timeconst="0.1" inheritrange="1"/>', "'bend' is no position servo"),
        (
            '<position name="a" joint="bend" inheritrange="1"/><position name="b" joint="bend" inheritrange="1"/>',
            "'b' moves the joint 'bend' that 'a' moves",
        ),
        ("", "there are none; add <position>"),
    ],
)
def test_actuators_that_do_not_fit_are_named(tmp_path, actuators, message):
    path = written(tmp_path, actuators)
    with pytest.raises(InputError, match=message):
        robots.from_file(path).build(Options())
    mjm = robots.from_file(path).build(Options("stiff")).compile()  # which puts its own in their place
    assert mjm.nu == 1 and is_servo(mjm, 0)
    assert np.allclose(mjm.actuator_ctrlrange[0], [-1.0, 1.0])


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match="no robot named 'g2'.*g1"):
        robots.find("g2")
    with pytest.raises(SceneError, match="no model file at 'none.xml'"):
        robots.find("none.xml")
    path = written(tmp_path, "")
    with pytest.raises(InputError, match="no site in .*'toe'.*tip"):
        robots.from_file(path, feet=("toe",))
    with pytest.raises(InputError, match="no free joint of a base in .*'root'.*base_free"):
        robots.from_file(path, base="root")
    broken = tmp_path / "broken.xml"
    broken.write_text("<mujoco><worldbody><geom/></worldbody></mujoco>")
    with pytest.raises(SceneError, match=r"broken\.xml"):
        robots.from_file(broken)


@pytest.mark.parametrize("place", g1._PLACES)
def test_a_real_g1_is_found_and_gets_our_servos(tmp_path, monkeypatch, place):
    file = tmp_path / place
    file.parent.mkdir(parents=True)
    spec = ROBOTS["g1"].build(Options())  # a stand-in: ours without servos, floor and keyframe
    for thing in (*spec.actuators, *spec.keys, spec.geom("floor"), *spec.sites):
        spec.delete(thing)
    spec.compile()
    file.write_text(spec.to_xml())
    monkeypatch.setenv("MENAGERIE_ROOT", str(tmp_path))
    for self_collision in (False, True):
        mjm = ROBOTS["g1-menagerie"].build(Options(self_collision=self_collision)).compile()
        ours = ROBOTS["g1"].build(Options()).compile()
        assert np.allclose(mjm.actuator_gainprm, ours.actuator_gainprm)
        assert np.allclose(mjm.actuator_ctrlrange, ours.actuator_ctrlrange)
        assert np.allclose(mjm.key_qpos, ours.key_qpos, atol=1e-6)
        assert drift(mjm) < 0.03


def test_a_g1_that_is_missing_or_another_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("MENAGERIE_ROOT", str(tmp_path))
    with pytest.raises(SceneError, match="MENAGERIE_ROOT=.* has no G1.*mjlab or holosoma"):
        ROBOTS["g1-menagerie"].build(Options())
    (tmp_path / "unitree_g1").mkdir()
    (tmp_path / "unitree_g1" / "g1.xml").write_text(ARM_FILE.replace("ACTUATORS", ""))
    with pytest.raises(SceneError, match="is no G1 with 29 joints: it lacks joint left_hip_pitch_joint"):
        ROBOTS["g1-menagerie"].build(Options())
    monkeypatch.delenv("MENAGERIE_ROOT")
    monkeypatch.setitem(__import__("sys").modules, "mujoco_menagerie", None)
    with pytest.raises(MissingExtra, match="menagerie"):
        ROBOTS["g1-menagerie"].build(Options())
