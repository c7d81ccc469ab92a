"""The tasks with hands of MuJoCo Menagerie, tested with stand-ins of the same kinematics: `standin.py`."""

import dataclasses
import importlib.util
import json
import math
import sys
from pathlib import Path

import mujoco
import numpy as np
import pytest
from PIL import Image

from stickslip import mjcf
from stickslip.cli.main import OK, USAGE, main
from stickslip.errors import MissingExtra, SceneError
from stickslip.mpc.cost import Reach
from stickslip.mpc.planners.catalogue import make_planner
from stickslip.mpc.planners.sampling.planner import Mppi, Sampler
from stickslip.mpc.realtime.loop import run_realtime
from stickslip.mpc.task import Problem, compile_problem
from stickslip.mpc.tasks import TASKS, allegro, leap, menagerie
from stickslip.mpc.trial import trial
from stickslip.mpc.trial.plant import Plant
from tests.mpc import standin

NAMES = ("allegro-menagerie", "leap-yaw-menagerie", "leap-roll-menagerie")
EVERY = [pytest.param(name, thing, id=f"{name}-{thing}") for name in NAMES[:2] for thing in TASKS[name].objects]
OWN = {"allegro-menagerie": allegro.ALLEGRO, "leap-yaw-menagerie": leap.YAW, "leap-roll-menagerie": leap.ROLL}

needs_package = pytest.mark.skipif(
    importlib.util.find_spec("mujoco_menagerie") is None, reason="the extra 'menagerie' is not installed"
)


def tips_of(problem: Problem) -> list[int]:
    """The sites at the fingertips."""
    (reach,) = [term for term in problem.task.cost if isinstance(term, Reach)]
    return [problem.mjm.site(site).id for site in reach.sites]


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    return standin.write(tmp_path_factory.mktemp("menagerie"))


@pytest.fixture
def hands(root, monkeypatch) -> Path:
    """The stand-ins, in place of what the package finds; copies of them may read their files."""
    monkeypatch.setenv("STICKSLIP_ALLOW", str(root))
    monkeypatch.setattr(mjcf, "menagerie_file", lambda name: (root / name).with_suffix(".xml"))
    return root


@pytest.fixture
def checkout(root, monkeypatch) -> Path:
    """The stand-ins as a checkout that the package finds."""
    monkeypatch.setenv("MENAGERIE_ROOT", str(root))
    return root


def short(name: str, longest: int = 3) -> Problem:
    return compile_problem(dataclasses.replace(TASKS[name], longest=longest))


def seen_from_palm(task: str, points) -> np.ndarray:
    """Points in the frame of the task's palm: x towards the fingers, z up from its face [m]."""
    if task.startswith("allegro"):
        return points - [0.0, 0.0, allegro.PALM]
    pos, quat = leap.palm_frame()
    matrix = np.empty(9)
    mujoco.mju_quat2Mat(matrix, quat)
    return (points - pos) @ matrix.reshape(3, 3)


@pytest.mark.parametrize("name", NAMES)
def test_all_but_the_hand_is_as_in_the_task_with_our_own(name):
    task, own = TASKS[name], OWN[name]
    assert name == f"{own.name}-menagerie"
    assert dataclasses.replace(task, name=own.name, summary=own.summary, build=own.build, extra="") == own


@pytest.mark.parametrize("name", NAMES)
def test_joints_come_first_with_one_servo_each_in_their_order(name, hands):
    problem = compile_problem(TASKS[name])
    mjm, hand = problem.mjm, menagerie.ALLEGRO_HAND if name.startswith("allegro") else menagerie.LEAP_HAND
    assert [mjm.joint(i).name for i in range(mjm.njnt)] == [*(f"hand/{joint}" for joint in hand.joints), "object"]
    np.testing.assert_array_equal(mjm.actuator_trnid[:, 0], np.arange(16))
    np.testing.assert_array_equal(problem.posture, hand.home)
    low, high = problem.limits()
    assert ((low < hand.home) & (hand.home < high)).all()
    stiffness, damping = (1.0, 0.1) if name.startswith("allegro") else (3.0, 0.03)
    assert (mjm.actuator_gainprm[:, 0] == stiffness).all() and (mjm.actuator_biasprm[:, 1] == -stiffness).all()
    assert (mjm.dof_damping[:16] == damping).all()
    own = compile_problem(OWN[name]).mjm.opt
    assert (mjm.opt.cone, mjm.opt.impratio, mjm.opt.integrator) == (own.cone, own.impratio, own.integrator)


def test_allegro_hand_lies_where_ours_does(hands):
    """Both have the same kinematics, so the fingertips are at the same places with the same angles."""
    real, ours = compile_problem(TASKS["allegro-menagerie"]), compile_problem(allegro.ALLEGRO)
    rng = np.random.default_rng(0)
    for _ in range(5):
        joints, places = rng.uniform(*real.limits()), []
        for problem in (real, ours):
            mjd = mujoco.MjData(problem.mjm)
            mjd.qpos[:16] = joints
            mujoco.mj_kinematics(problem.mjm, mjd)
            places.append(mjd.site_xpos[tips_of(problem)])
        np.testing.assert_allclose(*places, atol=1e-6)


@pytest.mark.parametrize("name", NAMES[:2])
def test_fingertips_are_at_the_ends_of_the_fingers(name, hands):
    """They are inside the colliding geom, which extends at most 15 mm farther from the last joint."""
    problem = compile_problem(TASKS[name])
    mjm, mjd = problem.mjm, mujoco.MjData(problem.mjm)
    mjd.qpos[:] = trial.draw(problem, 0)[0]
    mujoco.mj_forward(mjm, mjd)
    last = 3 + 4 * np.arange(4)  # joints: each finger has four
    for tip, joint in zip(tips_of(problem), last, strict=True):
        along = mjd.site_xpos[tip] - mjd.xanchor[joint]
        far = np.linalg.norm(along)
        geom = np.flatnonzero((mjm.geom_bodyid == mjm.site_bodyid[tip]) & (mjm.geom_contype > 0))[-1]
        matrix, middle, size = mjd.geom_xmat[geom].reshape(3, 3), mjm.geom_aabb[geom, :3], mjm.geom_aabb[geom, 3:]
        middle = mjd.geom_xpos[geom] + matrix @ middle
        assert (np.abs(matrix.T @ (mjd.site_xpos[tip] - middle)) < size).all()
        reach = (middle - mjd.xanchor[joint]) @ along / far + np.abs(matrix.T @ along / far) @ size
        assert far < reach < far + 0.015


@pytest.mark.parametrize("name", NAMES[:2])
def test_hand_lies_palm_up_and_curls_over_the_object(name, hands):
    problem = compile_problem(TASKS[name])
    start, goal = trial.draw(problem, 0)
    plant = Plant(problem)
    plant.reset(start, goal)
    tips = seen_from_palm(name, plant.mjd.site_xpos[tips_of(problem)])
    assert (tips[:, 2] > 0.03).all()  # above the palm
    assert (tips[:3, 0] > 0.03).all()  # fingers in front of the object
    assert abs(tips[1, 1]) < 0.01 and tips[0, 1] * tips[2, 1] < 0.0  # index and ring on either side of the middle
    assert tips[3, 0] < 0.0 and tips[3, 1] * tips[0, 1] > 0.0  # the thumb further back, on the side of the index
    flat = start.copy()
    flat[:16] = 0.0
    plant.reset(flat, goal)
    stretched = seen_from_palm(name, plant.mjd.site_xpos[tips_of(problem)])
    assert (stretched[:3, 0] > tips[:3, 0] + 0.02).all() and (np.abs(stretched[:3, 2]) < 0.04).all()


@pytest.mark.parametrize(("name", "thing"), EVERY)
def test_object_rests_on_the_palm(name, thing, hands):
    """For one second, with the hand at its home posture: the object stays, and so do the joints."""
    problem = compile_problem(TASKS[name], thing)
    for seed in range(2):
        start, goal = trial.draw(problem, seed)
        plant = Plant(problem)
        plant.reset(start, goal)
        palm = problem.mjm.body("hand/palm").id
        for _ in range(50):
            plant.advance(10)
            assert plant.failure() == ""
            assert np.abs(plant.mjd.qpos[-7:-4] - start[-7:-4]).max() < 0.008
        assert abs(plant.mjd.qpos[-4:] @ start[-4:]) > math.cos(0.5 * math.radians(20.0))
        assert np.abs(plant.mjd.qpos[:16] - start[:16]).max() < 0.03
        touching = problem.mjm.geom_bodyid[plant.mjd.contact.geom]
        assert (np.sort(touching, axis=1) == sorted((palm, problem.mjm.body("object").id))).all(axis=1).any()


@pytest.mark.parametrize("name", NAMES[:2])
def test_only_fingertips_and_palm_touch_each_other(name, hands):
    """With fingers that overlap each other and the palm, exactly the allowed kinds of contact are found."""
    problem = compile_problem(TASKS[name])
    mjm, mjd = problem.mjm, mujoco.MjData(problem.mjm)
    kinds = {mjm.body("hand/palm").id: "palm", **dict.fromkeys(mjm.site_bodyid[tips_of(problem)].tolist(), "tip")}
    met = set()
    rng = np.random.default_rng(0)
    for _ in range(50):
        mjd.qpos[:16] = rng.uniform(*problem.limits())
        mjd.qpos[-7:-4] = 1.0, 0.0, 1.0
        mujoco.mj_forward(mjm, mjd)
        for pair in mjm.geom_bodyid[mjd.contact.geom].tolist():
            met.add(tuple(sorted(kinds.get(body, str(mjm.body(body).name)) for body in pair)))
    assert met == {("tip", "tip"), ("palm", "tip")}


@pytest.mark.parametrize("name", NAMES[:2])
def test_contact_and_weight_are_those_of_the_task(name, hands):
    """As stickslip/mpc/README.md has it; the palm and the rest are compared with our own hand's."""
    real, ours = compile_problem(TASKS[name]).mjm, compile_problem(OWN[name]).mjm
    mine = [i for i in range(1, real.nbody) if real.body(i).name.startswith("hand/")]
    for palm in (True, False):
        there = np.isin(real.geom_bodyid, mine) & (real.geom_contype > 0)
        there &= (real.geom_bodyid == real.body("hand/palm").id) == palm
        here = (ours.geom_contype > 0) & ~np.isin(ours.geom_bodyid, [0, ours.body("object").id])
        here &= (ours.geom_bodyid == ours.body("palm").id) == palm
        assert there.sum() > 0 and here.sum() > 0
        assert (real.geom_conaffinity[there] == 0).all()
        for field in ("friction", "condim", "solref", "solimp"):
            values = getattr(real, f"geom_{field}")[there]
            np.testing.assert_array_equal(
                values, np.broadcast_to(getattr(ours, f"geom_{field}")[here][0], values.shape)
            )
    allegro_like = name.startswith("allegro")
    assert (real.body_gravcomp[mine] == (1.0 if allegro_like else 0.0)).all()
    assert real.npair > 0 and (real.pair_dim == 3).all()
    assert (real.pair_friction[:, :2] == (allegro.SLIP if allegro_like else 1.0)).all()
    if allegro_like:
        for field in ("friction", "solref", "solimp"):
            values = getattr(real, f"pair_{field}")
            np.testing.assert_array_equal(values, np.broadcast_to(getattr(ours, f"pair_{field}")[0], values.shape))


def test_newton_turns_the_cube_in_the_allegro_hand(hands):
    problem = compile_problem(TASKS["allegro-menagerie"], "cube")
    done = trial.run(problem, make_planner("newton", problem), 0)
    assert done.reason == trial.SUCCESS
    assert done.steps < 150


@pytest.mark.parametrize("name", NAMES[:2])
def test_mppi_plans(name, hands):
    problem = short(name)
    planner = Sampler(problem, settings=Mppi(samples=4, horizon=6, knot_steps=3), device="cpu")
    start, goal = trial.draw(problem, 0)
    planner.reset(goal, 0)
    plant = Plant(problem)
    plant.reset(start, goal)
    plan = planner.plan(plant.observe())
    assert plan.note == "" and math.isfinite(plan.cost)
    assert np.isfinite(plan.target).all() and (plan.target != start[:16]).any()


def test_scene_can_be_compiled_from_any_folder(hands, tmp_path, monkeypatch):
    """Meshes have absolute paths, also if the checkout's is relative."""
    monkeypatch.chdir(hands.parent)
    monkeypatch.setattr(mjcf, "menagerie_file", lambda name: Path(hands.name, name).with_suffix(".xml"))
    spec = TASKS["leap-yaw-menagerie"].build("cube")
    monkeypatch.chdir(tmp_path)
    assert spec.compile().nmesh == 2


def _copy(root: Path, tmp_path: Path, robot: str, *changes: tuple[str, str]) -> Path:
    """A hand with some of its text replaced."""
    text = (root / robot / "right_hand.xml").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "assets").symlink_to(root / robot / "assets")
    path = tmp_path / "right_hand.xml"
    path.write_text(text)
    return path


def test_palm_lies_the_same_however_it_is_written(hands, tmp_path, monkeypatch):
    usual = compile_problem(TASKS["allegro-menagerie"]).mjm.body("hand/palm")
    for i, turned in enumerate(('euler="0 1.2 0.3"', 'axisangle="0 0 1 0.4"', 'zaxis="1 0 0"', "")):
        folder = tmp_path / str(i)
        folder.mkdir()
        path = _copy(
            hands, folder, "wonik_allegro", ('<body name="palm" quat="0 1 0 1"', f'<body name="palm" {turned}')
        )
        monkeypatch.setattr(mjcf, "menagerie_file", lambda name, path=path: path)
        palm = compile_problem(TASKS["allegro-menagerie"]).mjm.body("hand/palm")
        np.testing.assert_allclose(palm.quat, usual.quat, atol=1e-9)
        np.testing.assert_allclose(palm.pos, usual.pos, atol=1e-9)


def test_textures_height_fields_and_meshes_without_files_are_found(hands, tmp_path, monkeypatch):
    path = _copy(
        *(hands, tmp_path, "wonik_allegro"),
        ('meshdir="assets"', 'meshdir="." texturedir="paint"'),
        ('file="link', 'file="assets/link'),
        (
            "</asset>",
            '<texture name="skin" type="2d" file="skin.png"/><texture name="sky" type="cube" fileup="skin.png"/>'
            '<hfield name="hills" size="1 1 1 1" file="paint/skin.png"/>'
            '<mesh name="corner" vertex="0 0 0 1 0 0 0 1 0 0 0 1"/></asset>',
        ),
    )
    (tmp_path / "paint").mkdir()
    Image.new("RGB", (4, 4), (200, 40, 40)).save(tmp_path / "paint" / "skin.png")
    monkeypatch.chdir(tmp_path.parent)
    monkeypatch.setattr(mjcf, "menagerie_file", lambda name: path)
    usual = _extent(OWN["allegro-menagerie"].build("cube"))
    assert _extent(TASKS["allegro-menagerie"].build("cube")) == (usual[0] + 2, 1, 3)


def _extent(spec: mujoco.MjSpec) -> tuple[int, int, int]:
    """How many textures, height fields and meshes a model has."""
    mjm = spec.compile()
    return mjm.ntex, mjm.nhfield, mjm.nmesh


def test_a_scene_that_cannot_be_read_again_is_refused(hands, monkeypatch):
    monkeypatch.setattr(mujoco.MjSpec, "to_xml", lambda spec: "<mujoco>")
    with pytest.raises(SceneError, match=r"scene made from .*right_hand\.xml"):
        TASKS["allegro-menagerie"].build("cube")


def _swap(one: str, other: str) -> list[tuple[str, str]]:
    return [(one, "<>"), (other, one), ("<>", other)]


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("allegro-menagerie", [('"thj3"', '"thumb_3"')], r"no joint 'thj3'; no position servo of 'thj3'.*28ffb48b5c1d"),
        ("allegro-menagerie", [('<body name="rf_tip"', '<body name="rf_end"')], "no body 'rf_tip'"),
        ("leap-yaw-menagerie", [('<position name="if_mcp_act"', '<motor name="if_mcp_act"')], "servo of 'if_mcp'"),
        ("allegro-menagerie", [('<position name="ffa0"', '<velocity name="ffa0"')], "no position servo of 'ffj0'"),
        ("allegro-menagerie", [('<position name="ffa0"', '<intvelocity name="ffa0"')], "no position servo of 'ffj0'"),
        (
            "allegro-menagerie",
            [
                ('<body name="palm"', '<body name="arm" pos="0 0 1"><body name="palm"'),
                ("</worldbody>", "</body></worldbody>"),
            ],
            "'palm' inside another body",
        ),
        (
            "allegro-menagerie",
            [('<body name="palm"', '<frame pos="0 0 1"><body name="palm"'), ("</worldbody>", "</frame></worldbody>")],
            "'palm' inside another body or a frame",
        ),
        ("leap-yaw-menagerie", _swap('"if_mcp"', '"if_rot"'), "joints if_rot, if_mcp, if_pip"),
        ("leap-yaw-menagerie", _swap('joint="if_mcp"', 'joint="if_rot"'), "servos, of the joints if_rot, if_mcp"),
        ("leap-yaw-menagerie", [("thumb_tip.obj", "gone.obj")], "right_hand.xml: .*gone.obj"),
        ("leap-yaw-menagerie", [("</worldbody>", "")], r"right_hand.xml, line \d+: "),
    ],
)
def test_another_hand_is_refused(name, changes, message, root, tmp_path, monkeypatch):
    robot = "wonik_allegro" if name.startswith("allegro") else "leap_hand"
    path = _copy(root, tmp_path, robot, *changes)
    monkeypatch.setattr(mjcf, "menagerie_file", lambda name: path)
    with pytest.raises(SceneError, match=message):
        compile_problem(TASKS[name])


def test_stored_trials_are_of_one_hand(hands, tmp_path, monkeypatch, capsys):
    """The same hand in another folder is the same; one with another mass is not."""
    name = "allegro-menagerie"
    monkeypatch.setitem(TASKS, name, dataclasses.replace(TASKS[name], longest=2))
    command = ["plan", name, "--trials", "1", "--no-video", "--out", str(tmp_path / "out")]
    assert main(command) == OK
    (tmp_path / "same").mkdir()
    (tmp_path / "other").mkdir()
    same = _copy(hands, tmp_path / "same", "wonik_allegro")
    other = _copy(hands, tmp_path / "other", "wonik_allegro", ('density="800"', 'density="801"'))
    monkeypatch.setattr(trial, "run", None)  # nothing is run again
    monkeypatch.setattr(mjcf, "menagerie_file", lambda name: same)
    assert main(command) == OK
    capsys.readouterr()
    monkeypatch.setattr(mjcf, "menagerie_file", lambda name: other)
    assert main(command) == USAGE
    assert "trials with another versions" in " ".join(capsys.readouterr().err.split())


def test_package_is_not_installed(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "mujoco_menagerie", None)
    with pytest.raises(MissingExtra, match=r"'menagerie:leap_hand/right_hand' needs .* pip install"):
        compile_problem(TASKS["leap-roll-menagerie"])
    assert main(["plan", "allegro-menagerie", "--trials", "1", "--out", str(tmp_path)]) == USAGE
    assert "pip install 'stickslip[menagerie]'" in " ".join(capsys.readouterr().err.split())


def test_tasks_are_listed_with_what_they_need(capsys):
    assert main(["tasks"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in NAMES) and "stickslip[menagerie]" in " ".join(printed.split())


@needs_package
def test_hand_is_not_in_the_checkout(monkeypatch, tmp_path):
    monkeypatch.setenv("MENAGERIE_ROOT", str(tmp_path))
    with pytest.raises(SceneError, match=r"'wonik_allegro' .*MENAGERIE_ROOT"):
        compile_problem(TASKS["allegro-menagerie"])
    (tmp_path / "wonik_allegro").mkdir()
    with pytest.raises(SceneError, match=r"right_hand\.xml"):
        compile_problem(TASKS["allegro-menagerie"])


@needs_package
def test_download_fails(monkeypatch, tmp_path):
    monkeypatch.delenv("MENAGERIE_ROOT", raising=False)
    monkeypatch.setenv("MENAGERIE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("MENAGERIE_BASE_URL", (tmp_path / "nowhere").as_uri())
    with pytest.raises(SceneError, match=r"could not download the robot 'leap_hand'.*MENAGERIE_ROOT"):
        compile_problem(TASKS["leap-yaw-menagerie"])


@needs_package
def test_plan_from_the_command_line_is_stored(checkout, monkeypatch, tmp_path, capsys):
    name = "allegro-menagerie"
    monkeypatch.setitem(TASKS, name, dataclasses.replace(TASKS[name], longest=3))
    command = ["plan", name, "--trials", "1", "--out", str(tmp_path)]
    assert main(command) == OK
    assert "too long" in capsys.readouterr().out
    assert (tmp_path / f"{name}-cube.png").stat().st_size > 10_000
    path = tmp_path / f"plan-{name}-newton.json"
    stored = json.loads(path.read_text())
    assert [row["steps"] for row in stored["trials"]] == [3]
    assert stored["versions"]["mujoco-menagerie"] != "none"
    monkeypatch.setattr(trial, "run", None)  # nothing is run again
    assert main(command) == OK
    assert json.loads(path.read_text()) == stored


@needs_package
def test_plant_of_its_own_process_makes_the_same_hand(checkout):
    problem = short("allegro-menagerie")
    ran = run_realtime(problem, make_planner("newton", problem), 0)
    assert ran.trial.reason == trial.TOO_LONG
    assert ran.trial.frames.shape == (4, 23)
