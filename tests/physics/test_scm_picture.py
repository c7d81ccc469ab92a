"""What is made of geoms, drawn and told: `Scm.survey` and `stickslip points`. Needs no JAX."""

from pathlib import Path

import mujoco
import numpy as np
import pytest

import stickslip as ss
from stickslip.cli import main as cli
from stickslip.errors import InputError
from stickslip.physics.scm import picture, remesh, walls
from tests.physics.test_scm_clouds import horseshoe

HALF = """<mujoco><worldbody><geom name="floor" type="plane" size="1 1 .1"/>
<body><freejoint/><geom name="ball" size=".1"/><geom name="brick" type="box" size=".1 .2 .05"/></body>
<body><freejoint/><geom size=".1"/></body></worldbody></mujoco>"""


@pytest.fixture(autouse=True)
def by_faces(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same quads of meshes whatever packages are installed."""
    monkeypatch.setattr(remesh, "_aligned", lambda *_: None)


def with_mesh(vertices: np.ndarray, triangles: np.ndarray) -> str:
    """A model of a mesh that MuJoCo takes although it may be open or turned."""
    vertex, face = (" ".join(map(str, x.ravel())) for x in (vertices, triangles))
    return f"""<mujoco><asset><mesh name="m" inertia="shell" vertex="{vertex}" face="{face}"/></asset><worldbody>
    <geom type="plane" size="1 1 .1"/>
    <body><freejoint/><geom name="shoe" type="mesh" mesh="m" mass="1"/></body></worldbody></mujoco>"""


def outward() -> tuple[np.ndarray, np.ndarray]:
    vertices, triangles = horseshoe()
    a, b, c = (vertices[triangles[:, k]] for k in range(3))
    return vertices, triangles if np.sum(a * np.cross(b, c)) > 0.0 else triangles[:, ::-1]


def test_a_survey_tells_each_shape_once() -> None:
    got = ss.Scm().survey(mujoco.MjModel.from_xml_string(HALF))
    assert [(s.label, s.kind, s.geoms) for s in got.shapes] == [
        ("'floor'", "plane", (0,)),
        ("'ball' and 1 more", "sphere", (1, 3)),
        ("'brick'", "box", (2,)),
    ]
    assert got.problems == []
    brick = got.shapes[2].report
    assert brick is not None and brick.volume == pytest.approx(8 * 0.1 * 0.2 * 0.05)
    one = ss.Scm(points=600).survey(mujoco.MjModel.from_xml_string(HALF), ["brick", 2, "2"])
    assert [s.geoms for s in one.shapes] == [(2,)]
    assert one.shapes[0].report is not None and 400 < one.shapes[0].report.points < 900


@pytest.mark.parametrize("dense", [False, True])
def test_an_open_mesh_is_marked_where_it_is_open(dense: bool) -> None:
    """At one end of a horseshoe, 4 cm square, whether its cloud has faces or is gathered from many."""
    vertices, triangles = outward()
    mjm = mujoco.MjModel.from_xml_string(with_mesh(vertices, triangles[:-2]))
    shape = ss.Scm(mesh_points=20 if dense else 300).survey(mjm, ["shoe"]).shapes[0]
    assert shape.cloud is not None and (len(shape.cloud.quads.faces) == 0) is dense
    assert "open" in shape.problems[0] and not shape.flipped.any()
    assert np.linalg.norm(shape.loose[:, 1] - shape.loose[:, 0], axis=1).sum() == pytest.approx(4 * 0.04, rel=1e-3)
    whole = ss.Scm(mesh_points=200).survey(mujoco.MjModel.from_xml_string(with_mesh(vertices, triangles)), ["shoe"])
    assert whole.problems == [] and len(whole.shapes[0].loose) == 0


def mug(wall: float) -> tuple[np.ndarray, np.ndarray]:
    """A cup of 24 sides with a radius of 40 mm and a height of 80 mm, as vertices and triangles."""
    n, radius, height = 24, 0.04, 0.08
    angle = np.arange(n) * 2.0 * np.pi / n
    rings = [(radius, 0.0), (radius, height), (radius - wall, wall), (radius - wall, height)]
    circles = [np.stack([r * np.cos(angle), r * np.sin(angle), np.full(n, z)], axis=1) for r, z in rings]
    faces = []
    for i in range(n):
        j = (i + 1) % n
        faces += [[i, j, n + j], [i, n + j, n + i]]
        faces += [[2 * n + i, 3 * n + j, 2 * n + j], [2 * n + i, 3 * n + i, 3 * n + j]]
        faces += [[n + i, n + j, 3 * n + j], [n + i, 3 * n + j, 3 * n + i]]
        faces += [[4 * n, j, i], [4 * n + 1, 2 * n + i, 2 * n + j]]
    return np.concatenate([*circles, [[0.0, 0.0, 0.0], [0.0, 0.0, wall]]]), np.array(faces)


def test_walls_thinner_than_the_spacing_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A wall of 5 mm with points 10 mm apart; not with as many points as the warning says, nor a thick wall."""
    mjm = mujoco.MjModel.from_xml_string(with_mesh(*mug(0.005)))
    got = ss.Scm().survey(mjm)
    assert got.problems == [] and len(got.warnings) == 1
    wall = walls.thin_wall(got.shapes[1].cloud)
    assert wall is not None
    assert wall.thickness == pytest.approx(0.005, rel=0.1) and wall.share > 0.8 and 0.008 < wall.spacing < 0.012
    for word in ("'shoe'", "thinner than the spacing", f"mesh_points to at least {wall.points}"):
        assert word in got.warnings[0]
    assert ss.Scm(mesh_points=wall.points).survey(mjm).warnings == []
    assert ss.Scm().survey(mujoco.MjModel.from_xml_string(with_mesh(*mug(0.02)))).warnings == []
    model = tmp_path / "mug.xml"
    model.write_text(with_mesh(*mug(0.005)))
    assert cli.main(["points", str(model), "--out", str(tmp_path / "mug.png")]) == 1
    text = " ".join(capsys.readouterr().out.split())
    assert "walls thinner than the spacing" in text and "bodies can pass through" in text


def test_a_thin_plate_is_a_wall() -> None:
    """A primitive too; its knob is `points`. A box, a ball and a rod are none."""
    xml = """<mujoco><worldbody><geom type="plane" size="1 1 .1"/>
      <body><freejoint/><geom name="plate" type="box" size=".1 .1 .0025"/></body>
      <body><freejoint/><geom type="box" size=".1 .1 .1"/></body><body><freejoint/><geom size=".1"/></body>
      <body><freejoint/><geom type="capsule" size=".01 .1"/></body></worldbody></mujoco>"""
    (only,) = ss.Scm().survey(mujoco.MjModel.from_xml_string(xml)).warnings
    assert "'plate'" in only and "walls of 5 mm" in only and "raise points to" in only


def test_a_point_is_seen_unless_something_is_before_it() -> None:
    """Of a ball and a plate: what looks this way is seen, but for what the plate covers."""
    ball = ss.Scm(points=600).survey(mujoco.MjModel.from_xml_string(HALF), ["ball"]).shapes[0].cloud
    assert ball is not None
    faces, normal = ball.quads.vertices[ball.quads.faces], ball.quads.normal
    query = ball.quads.point + 0.15 * ball.spacing * normal
    facing = normal @ picture._TOWARDS
    seen = picture._seen(query, faces, ball.spacing)
    assert seen[facing > 0.1].all() and not seen[facing < -0.3].any()
    right, up = picture._SCREEN
    plate = np.array([[a * right + b * up + 0.2 * picture._TOWARDS for a, b in ((0, -1), (1, -1), (1, 1), (0, 1))]])
    seen = picture._seen(query, np.concatenate([faces, plate]), ball.spacing)
    assert not seen[query @ right > 1e-3].any() and seen[(query @ right < -1e-3) & (facing > 0.1)].all()


def test_the_picture_marks_what_is_wrong() -> None:
    """Of many shapes as many panels as there is room for, the bad one first; each as tall as it is wide."""
    vertices, triangles = outward()
    good = ss.Scm().survey(mujoco.MjModel.from_xml_string(HALF)).shapes
    bad = ss.Scm(mesh_points=200).survey(mujoco.MjModel.from_xml_string(with_mesh(vertices, triangles[:-2])), ["shoe"])
    figure = picture.draw([*good, *(good[1:] * 7), *bad.shapes], "many")
    drawn = [ax for ax in figure.axes if ax.get_title(loc="left")]
    assert len(drawn) == picture.MOST_PANELS and drawn[0].get_title(loc="left") == "shoe"
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    note = "12 of 17 shapes; not drawn: plane 'floor'"
    assert names == ["point", "normal", "edge that lacks a face on one side", note]
    for ax in drawn:
        assert ax.get_aspect() == 1.0


def test_the_command_draws_and_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new" / "points.png"
    assert cli.main(["points", "push-t", "--points", "60", "--out", str(out)]) == 0
    assert out.read_bytes().startswith(b"\x89PNG")
    text = capsys.readouterr().out
    for word in ("bar", "stem", "finger", "floor", "exact", "closed", "points.png"):
        assert word in text
    assert cli.main(["points", "push-t", "--geom", "bar", "3", "--out", str(tmp_path / "two.svg")]) == 0
    text = capsys.readouterr().out
    assert "bar" in text and "stem" not in text


def test_bad_points_end_with_status_1_and_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vertices, triangles = outward()
    turned = triangles.copy()
    turned[10] = turned[10, ::-1]
    for name, some, words in (
        ("open", triangles[:-2], ("'shoe' cannot be used: the surface is open", "open, ")),
        ("turned", turned, ("normals look inwards", "flipped")),
        ("inside-out", triangles[:, ::-1], ("all normals look inwards", "inside out")),
    ):
        model = tmp_path / f"{name}.xml"
        model.write_text(with_mesh(vertices, some))
        out = tmp_path / f"{name}.png"
        assert cli.main(["points", str(model), "--mesh-points", "300", "--out", str(out)]) == 1, name
        assert out.read_bytes().startswith(b"\x89PNG")
        text = " ".join(capsys.readouterr().out.split())
        for word in words:
            assert word in text, (name, text)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["push-tee"], ["push-tee", "push-t"]),
        (["push-t", "--points", "3"], ["points is 3", "from 6 to 1000000"]),
        (["push-t", "--mesh-points", "0"], ["mesh_points is 0"]),
        (["push-t", "--geom", "bra"], ["no geom 'bra'", "did you mean 'bar'", "0 to 3"]),
        (["push-t", "--geom", "17"], ["no geom '17'", "0 to 3"]),
        (["push-t", "--geom", "floor"], ["'floor'", "plane", "--geom"]),
        (["push-t", "--out", "picture.txt"], ["picture.txt", ".png"]),
        (["push-t", "--out", "{file}/points.png"], ["{file}"]),
        (["pendulum"], ["no geom of this model may touch another"]),
    ],
)
def test_wrong_input_is_told(
    args: list[str],
    words: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "file"
    file.write_text("not a folder")
    assert cli.main(["points", *(a.format(file=file) for a in args)]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ") and err.count("\n") == 1
    for word in words:
        assert word.format(file=file) in err


def test_geoms_of_python_are_checked() -> None:
    with pytest.raises(InputError, match="no geom -1; this model has 0 to 3"):
        ss.Scm().survey(mujoco.MjModel.from_xml_string(HALF), [-1])
