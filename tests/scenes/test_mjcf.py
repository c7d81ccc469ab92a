"""`mjcf.load`: every way to give a model, and the message of every error."""

from __future__ import annotations

import importlib.util
import math
import subprocess
import sys
from pathlib import Path

import mujoco
import pytest

from stickslip import mjcf
from stickslip.errors import InputError, MissingExtra, SceneError

BALL = """<mujoco>
  <worldbody>
    <body>
      <freejoint/>
      <geom type="sphere" size="0.1"/>
    </body>
  </worldbody>
</mujoco>
"""
BAD_ATTRIBUTE = BALL.replace('type="sphere"', 'typ="sphere"')
BAD_REFERENCE = BALL.replace('size="0.1"', 'size="0.1" material="nope"')
BAD_NESTING = BALL.replace('size="0.1"/>', 'size="0.1">')

needs_menagerie = pytest.mark.skipif(
    importlib.util.find_spec("mujoco_menagerie") is None, reason="the extra 'menagerie' is not installed"
)


def test_name() -> None:
    assert mjcf.load("sliding-cube").nv == 6


def test_name_with_parameters() -> None:
    assert mjcf.load("drop-test:n=2,layers=3").nv == 6 * 2 * 2 * 3
    assert mjcf.load("drop-test: n = 1 ").nv == 6 * 5


@pytest.mark.parametrize("as_text", [False, True])
def test_xml_file(tmp_path: Path, as_text: bool) -> None:
    path = tmp_path / "ball.xml"
    path.write_text(BALL)
    assert mjcf.load(str(path) if as_text else path).nv == 6


def test_mjb_file(tmp_path: Path) -> None:
    path = tmp_path / "ball.mjb"
    mujoco.mj_saveModel(mujoco.MjModel.from_xml_string(BALL), str(path))
    assert mjcf.load(path).nv == 6


def test_urdf_file(tmp_path: Path) -> None:
    link = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    joint = '<joint name="j" type="continuous"><parent link="a"/><child link="b"/><axis xyz="0 0 1"/></joint>'
    path = tmp_path / "arm.urdf"
    path.write_text(f'<robot name="arm"><link name="a">{link}</link><link name="b">{link}</link>{joint}</robot>')
    assert mjcf.load(path).nv == 1


def test_file_in_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ball.xml").write_text(BALL)
    monkeypatch.chdir(tmp_path)
    assert mjcf.load("ball.xml").nv == 6


def test_xml_text() -> None:
    assert mjcf.load("\n " + BALL).nv == 6


def test_model_is_passed_through_and_left_alone() -> None:
    model = mujoco.MjModel.from_xml_string(BALL)
    assert mjcf.load(model) is model
    changed = mjcf.load(model, timestep=0.01)
    assert changed is not model
    assert (changed.opt.timestep, model.opt.timestep) == (0.01, 0.002)


def test_timestep_of_a_scene() -> None:
    assert mjcf.load("sliding-cube", timestep=0.005).opt.timestep == 0.005


@pytest.mark.parametrize("timestep", [0.0, -0.1, math.nan, math.inf])
def test_bad_timestep(timestep: float) -> None:
    with pytest.raises(InputError, match=f"timestep={timestep} must be"):
        mjcf.load("sliding-cube", timestep=timestep)


def test_bad_type() -> None:
    with pytest.raises(InputError, match="type int"):
        mjcf.load(3)  # type: ignore[arg-type]


def test_unknown_name_gives_close_names() -> None:
    with pytest.raises(SceneError, match=r"'drop-tset'; did you mean 'drop-test'.*stickslip scenes"):
        mjcf.load("drop-tset")
    with pytest.raises(SceneError, match=r"'qqqq'; there are: drop-test, .*`stickslip scenes`"):
        mjcf.load("qqqq:n=1")


@pytest.mark.parametrize("name", ["nowhere.xml", "some/folder/nowhere.xml", "some/folder", "nowhere.mjb"])
def test_missing_file(name: str) -> None:
    with pytest.raises(SceneError, match=f"no model file at '{name}'"):
        mjcf.load(name)


def test_file_of_another_kind(tmp_path: Path) -> None:
    path = tmp_path / "ball.txt"
    path.write_text(BALL)
    with pytest.raises(SceneError, match=r"ball\.txt' is not a model file.*\.xml, \.mjb, \.urdf"):
        mjcf.load(path)
    with pytest.raises(SceneError, match="is not a model file"):
        mjcf.load(tmp_path)


@pytest.mark.parametrize("text", [BAD_ATTRIBUTE, BAD_REFERENCE, BAD_NESTING])
def test_malformed_mjcf_names_file_and_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.xml"
    path.write_text(text)
    with pytest.raises(SceneError, match=r"bad\.xml, line 5: "):
        mjcf.load(path)
    with pytest.raises(SceneError, match=r"<XML string>, line 5: "):
        mjcf.load(text)


def test_malformed_include_names_both_files(tmp_path: Path) -> None:
    (tmp_path / "inner.xml").write_text(BAD_ATTRIBUTE)
    (tmp_path / "outer.xml").write_text('<mujoco><include file="inner.xml"/></mujoco>')
    with pytest.raises(SceneError, match=r"outer\.xml: .*'typ'.*inner\.xml"):
        mjcf.load(tmp_path / "outer.xml")


def test_malformed_mjb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.mjb").write_bytes(b"junk")
    with pytest.raises(SceneError, match=r"bad\.mjb: .*; Model file has an incomplete header"):
        mjcf.load(tmp_path / "bad.mjb")
    assert mujoco.get_mju_user_warning() is None
    assert not (tmp_path / "MUJOCO_LOG.TXT").exists()


def test_warnings_of_mujoco_are_python_warnings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    compile_spec = mujoco.MjSpec.compile

    def compile_with_a_warning(spec: mujoco.MjSpec) -> mujoco.MjModel:
        mjm = compile_spec(spec)
        mjd = mujoco.MjData(mjm)
        mjd.qpos[0] = math.nan
        mujoco.mj_step(mjm, mjd)
        return mjm

    monkeypatch.setattr(mujoco.MjSpec, "compile", compile_with_a_warning)
    with pytest.warns(UserWarning, match="built-in scene 'sliding-cube': Nan, Inf or huge value in QPOS"):
        mjcf.load("sliding-cube")
    assert not (tmp_path / "MUJOCO_LOG.TXT").exists()
    theirs: list[str] = []
    mujoco.set_mju_user_warning(theirs.append)
    try:
        mjcf.load("sliding-cube")
        assert len(theirs) == 1 and mujoco.get_mju_user_warning() is not None
    finally:
        mujoco.set_mju_user_warning(None)


@pytest.mark.parametrize(
    ("scene", "message"),
    [
        ("drop-test:m=3", r"scene 'drop-test': no parameter named 'm'; .*there are: n, layers"),
        ("scaling:n=3", r"scene 'scaling': no parameter named 'n'; there are: none"),
        ("drop-test:n=0", r"scene 'drop-test': n is 0: it must be a whole number from 1 to 12"),
        ("drop-test:n=2.5", r"n is 2.5: it must be a whole number"),
        ("drop-test:n=many", r"n is 'many': it must be a whole number"),
        ("box-on-slope:mu=nan", r"scene 'box-on-slope': mu is nan: it must be a number from 0 to 5"),
        ("box-on-slope:mu=-1", r"mu is -1.*: it must be a number"),
        ("drop-test:n", r"'n' is not key=value"),
        ("drop-test:n=", r"'n=' is not key=value"),
        ("drop-test:n=1,n=2", r"'n' is given twice"),
    ],
)
def test_bad_parameters(scene: str, message: str) -> None:
    with pytest.raises(SceneError, match=message):
        mjcf.load(scene)
    with pytest.raises(SceneError, match=message):
        mjcf.check(scene)


@pytest.mark.parametrize("scene", ["push-t:mu=0.4", "<mujoco/>", "menagerie:unitree_go2", "ball.xml"])
def test_check_accepts(scene: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ball.xml").write_text(BALL)
    mjcf.check(scene)


def test_check_finds_missing_names_and_files_without_mujoco() -> None:
    code = """
import sys
from stickslip import mjcf
for scene in ("drop-tset", "nowhere.xml", "push-t:mu=-1"):
    try:
        mjcf.check(scene)
    except ValueError:
        continue
    raise SystemExit(f"{scene} was accepted")
raise SystemExit("mujoco" in sys.modules or "warp" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_spec_is_compiled() -> None:
    spec = mujoco.MjSpec.from_string(BALL)
    assert mjcf.load(spec, timestep=0.01).opt.timestep == 0.01
    spec.geoms[0].material = "nope"
    with pytest.raises(SceneError, match="spec 'MuJoCo Model', line 5: .*'nope'"):
        mjcf.load(spec)


def test_menagerie_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mujoco_menagerie", None)
    with pytest.raises(MissingExtra, match=r"pip install 'stickslip\[menagerie\]'"):
        mjcf.load("menagerie:unitree_go2")


@needs_menagerie
def test_menagerie_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "unitree_go2"
    folder.mkdir()
    (folder / "scene.xml").write_text(BALL)
    monkeypatch.setenv("MENAGERIE_ROOT", str(tmp_path))
    assert mjcf.load("menagerie:unitree_go2").nv == 6
    assert mjcf.load("menagerie:unitree_go2/scene", timestep=0.004).opt.timestep == 0.004
    with pytest.raises(SceneError, match=r"no entry point 'nope'; available: .*scene"):
        mjcf.load("menagerie:unitree_go2/nope")
    with pytest.raises(SceneError, match="MENAGERIE_ROOT"):
        mjcf.load("menagerie:unitree_g1")


@needs_menagerie
def test_menagerie_unknown_robot() -> None:
    with pytest.raises(SceneError, match=r"no robot named 'unitree_goo2'; did you mean 'unitree_go2'"):
        mjcf.load("menagerie:unitree_goo2")


@needs_menagerie
def test_menagerie_download_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MENAGERIE_ROOT", raising=False)
    monkeypatch.setenv("MENAGERIE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("MENAGERIE_BASE_URL", (tmp_path / "nowhere").as_uri())
    with pytest.raises(SceneError, match=r"could not download the robot 'unitree_go2'.*MENAGERIE_ROOT"):
        mjcf.load("menagerie:unitree_go2")
