"""Models of strangers: they read files of their own folder only, unless more is allowed, and none without bound."""

import os
from pathlib import Path

import mujoco
import pytest

import stickslip as ss
from stickslip import limits, model_files
from stickslip.cli import main as cli

MESH = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
BODY = '<worldbody><geom type="mesh" mesh="m"/></worldbody>'
PNG = (
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02\x00\x00\x00\x90wS\xde\x00\x00\x00"
    b"\x0cIDATx\x9cc```\x00\x00\x00\x04\x00\x01\xf6\x178U\x00\x00\x00\x00IEND\xaeB`\x82"
)


@pytest.fixture
def robot(tmp_path: Path) -> Path:
    """A folder `robot` with assets, beside a folder `secret`."""
    for place in ("robot", "robot/assets", "secret", "robot/parts"):
        (tmp_path / place).mkdir()
    for place in ("robot", "robot/assets", "secret"):
        (tmp_path / place / "m.obj").write_text(MESH)
        (tmp_path / place / "t.png").write_bytes(PNG)
        (tmp_path / place / "arm.xml").write_text("<mujoco><worldbody/></mujoco>")
    return tmp_path / "robot" / "robot.xml"


def mesh(file: str, compiler: str = "") -> str:
    return f'<mujoco>{compiler}<asset><mesh name="m" file="{file}"/></asset>{BODY}</mujoco>'


WITHIN = {
    "beside": mesh("m.obj"),
    "a folder": mesh("assets/m.obj"),
    "meshdir": mesh("m.obj", '<compiler meshdir="assets"/>'),
    "up and back": mesh("../assets/m.obj", '<compiler meshdir="parts"/>'),
    "assetdir": mesh("m.obj", '<compiler assetdir="./assets/"/>'),
    "include": '<mujoco><include file="arm.xml"/></mujoco>',
    "comment": '<mujoco><!-- ---- <mesh file="../secret/m.obj"/> ---- --></mujoco>',
    "doctype": "<!DOCTYPE mujoco><mujoco/>",
    "missing": '<mujoco><worldbody><geom size="1"/></worldbody></mujoco>',
}


@pytest.mark.parametrize("text", WITHIN.values(), ids=WITHIN)
def test_files_of_its_own_folder_are_read(text: str, robot: Path) -> None:
    robot.write_text(text)
    ss.load(robot)


BEYOND = {
    "mesh": mesh("../secret/m.obj"),
    "meshdir": mesh("m.obj", '<compiler meshdir="../secret"/>'),
    "texturedir": '<mujoco><compiler texturedir="../secret"/><asset><texture type="2d" file="t.png"/></asset></mujoco>',
    "assetdir": mesh("m.obj", '<compiler assetdir="../secret"/>'),
    "absolute": mesh("ROOT/secret/m.obj"),
    "absolute meshdir": mesh("m.obj", '<compiler meshdir="ROOT/secret"/>'),
    "a link": mesh("assets/link.obj"),
    "a linked folder": mesh("assets/linked/m.obj"),
    "through a folder": mesh("assets/../../secret/m.obj"),
    "characters": mesh("&#46;&#x2e;/secret/m.obj"),
    "quotes": mesh("../secret/m.obj").replace('"', "'"),
    "include": '<mujoco><include file="../secret/arm.xml"/></mujoco>',
    "include of an include": '<mujoco><include file="parts/more.xml"/></mujoco>',
    "attached": '<mujoco><asset><model name="a" file="../secret/arm.xml"/></asset></mujoco>',
    "texture": '<mujoco><asset><texture type="2d" name="t" file="../secret/t.png"/></asset></mujoco>',
    "cube": '<mujoco><asset><texture type="cube" name="t" fileright="../secret/t.png"/></asset></mujoco>',
    "height field": '<mujoco><asset><hfield name="h" size="1 1 1 1" file="../secret/t.png"/></asset></mujoco>',
    "hidden by a name": f'<mujoco><worldbody><geom name="&lt;!--" size="1"/></worldbody>{mesh("../secret/m.obj")[8:]}',
    "behind a comment": "<mujoco><!-- --><!-- -->" + mesh("../secret/m.obj")[8:],
    "flexcomp": '<mujoco><worldbody><flexcomp name="f" type="mesh" file="../secret/m.obj"/></worldbody></mujoco>',
    "urdf": '<robot name="r"><link name="l"><visual><geometry><mesh filename="package://../secret/m.obj"/>'
    "</geometry></visual></link></robot>",
}


@pytest.mark.parametrize("text", BEYOND.values(), ids=BEYOND)
def test_files_elsewhere_are_not(text: str, robot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the file and how to allow its folder; then it is read, as far as it is a model."""
    root = robot.parents[1]
    (root / "robot/assets/link.obj").symlink_to(root / "secret/m.obj")
    (root / "robot/assets/linked").symlink_to(root / "secret")
    (root / "robot/parts/more.xml").write_text('<mujoco><include file="../../secret/arm.xml"/></mujoco>')
    robot.write_text(text.replace("ROOT", str(root)))
    with pytest.raises(
        ss.SceneError, match="outside of its folder.*allow=.*stickslip --allow.*STICKSLIP_ALLOW"
    ) as caught:
        ss.load(robot)
    assert str(root / "secret") in str(caught.value)
    model_files.check(robot, [root / "secret"])
    monkeypatch.setenv("STICKSLIP_ALLOW", os.pathsep.join(["/nowhere", str(root / "secret")]))
    model_files.check(robot)


def test_allowed_folders(robot: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """By an argument, and on the command line for this process and its children."""
    robot.write_text(mesh("../secret/m.obj"))
    assert ss.load(robot, allow=[robot.parents[1] / "secret"]).nmesh == 1
    monkeypatch.setenv("STICKSLIP_ALLOW", "")
    command = ["decompose", str(robot), "--out", str(robot.parent / "pieces.xml")]
    assert cli.main(command) == 2
    assert "stickslip --allow" in capsys.readouterr().err
    cli.main(["--allow", str(robot.parents[1] / "secret"), *command])
    assert "outside of its folder" not in capsys.readouterr().err
    assert cli.main(["--allow", "nowhere", "scenes"]) == 2
    assert "--allow nowhere: there is no such folder" in capsys.readouterr().err


def test_text_reads_the_current_folder(robot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MuJoCo looks there, as it has no other."""
    monkeypatch.chdir(robot.parent)
    assert ss.load(mesh("m.obj")).nmesh == 1
    for text in (mesh("../secret/m.obj"), mesh(f"{robot.parents[1]}/secret/m.obj")):
        with pytest.raises(ss.SceneError, match="outside of its folder"):
            ss.load(text)
    assert ss.load(mesh("../secret/m.obj"), allow=["../secret"]).nmesh == 1


@pytest.mark.parametrize(
    "text",
    [
        '<mujoco><asset><mesh name="m"file="../secret/m.obj"/></asset></mujoco>',
        '<!DOCTYPE a [<!ENTITY f "../secret/m.obj">]>' + mesh("&f;"),
        "<mujoco><asset><mesh file=../secret/m.obj /></asset></mujoco>",
    ],
    ids=["no space", "entity", "no quotes"],
)
def test_what_cannot_be_looked_through_is_refused(text: str, robot: Path) -> None:
    robot.write_text(text)
    with pytest.raises(ss.SceneError, match="not well-formed near .* mend the XML"):
        ss.load(robot)


def test_mujoco_never_reads_what_was_refused(robot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_args: object) -> None:
        raise AssertionError("MuJoCo got the file")

    monkeypatch.setattr(mujoco.MjModel, "from_xml_path", read)
    robot.write_text(mesh("../secret/m.obj"))
    with pytest.raises(ss.SceneError):
        ss.load(robot)


LARGE = {
    "depth": "<mujoco><worldbody>" + 600 * "<body>" + 600 * "</body>" + "</worldbody></mujoco>",
    "elements": "<mujoco><worldbody>"
    + 4 * '<replicate count="1000">'
    + '<geom size="1"/>'
    + 4 * "</replicate>"
    + "</worldbody></mujoco>",
    "asset": '<mujoco><asset><texture type="2d" builtin="flat" width="99999" height="99999"/></asset></mujoco>',
}


@pytest.mark.parametrize(("name", "text"), LARGE.items(), ids=LARGE)
def test_models_that_would_fill_the_memory_are_refused_at_once(name: str, text: str, robot: Path) -> None:
    """Elements within each other, copies of copies, textures: the limit is named, and can be changed."""
    robot.write_text(text)
    for scene in (robot, text):
        with pytest.raises(ss.InputError, match=rf"at most \d+ are read.*stickslip\.limits\.{name} = \d+"):
            ss.load(scene)


def test_large_files_are_refused(robot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    robot.write_text(mesh("assets/m.obj") + " " * 1000)
    monkeypatch.setattr(limits, "text", 500)
    with pytest.raises(ss.InputError, match=r"robot\.xml has too many bytes, .*: \d+, at most 500 are read"):
        ss.load(robot)
    monkeypatch.setenv("STICKSLIP_LIMITS", "text=2**20, depth=3")
    with pytest.raises(ss.InputError, match="levels of elements within each other: 4, at most 3"):
        ss.load(robot.write_text("<mujoco><worldbody><body><body/></body></worldbody></mujoco>") and robot)
    monkeypatch.setenv("STICKSLIP_LIMITS", "asset=1000")
    robot.write_text(mesh("assets/m.obj"))
    with open(robot.parent / "assets" / "m.obj", "ab") as file:
        file.truncate(2**31)  # a hole: nothing is written
    with pytest.raises(ss.InputError, match=r"m\.obj has too many bytes.*at most 1000"):
        ss.load(robot)
    for given, says in (("txt=1", "no limit named 'txt'; did you mean"), ("text=many", "must be a whole number")):
        monkeypatch.setenv("STICKSLIP_LIMITS", given)
        with pytest.raises(ss.InputError, match=says):
            ss.load(robot)


def test_files_that_never_end_are_refused(robot: Path) -> None:
    os.mkfifo(robot.parent / "pipe.obj")
    robot.write_text(mesh("pipe.obj"))
    with pytest.raises(ss.SceneError, match="no file that can be read as a whole"):
        ss.load(robot)


def test_files_that_include_each_other_end(robot: Path) -> None:
    """MuJoCo refuses them; the look through them ends."""
    (robot.parent / "a.xml").write_text('<mujoco><include file="robot.xml"/></mujoco>')
    robot.write_text('<mujoco><include file="a.xml"/></mujoco>')
    with pytest.raises(ss.SceneError):
        ss.load(robot)


@pytest.mark.parametrize("piece", ["<a ", '<a b="', "<!--", "<a b='c' ", "<![CDATA["])
def test_a_long_text_without_an_end_is_refused(piece: str) -> None:
    """In time that is linear in its length: 10^5 pieces would take hours otherwise."""
    with pytest.raises(ss.SceneError, match="text, line 1: not well-formed near"):
        list(model_files._tags(100_000 * piece, "text"))
