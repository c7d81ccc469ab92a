"""`stickslip identify`: the verdict, files, exit statuses, and what its errors say."""

import json
from pathlib import Path

import mujoco
import numpy as np
import pytest

from stickslip import identification as ident
from stickslip.cli.main import main
from stickslip.errors import InputError
from stickslip.identification.notation import parse
from stickslip.identification.picture import labels
from stickslip.identification.trial import Trial

pytest.importorskip("cmaes")

SWING = """
<mujoco>
  <option timestep="0.01"/>
  <worldbody>
    <body name="arm">
      <joint name="hinge" axis="0 1 0" damping="1"/>
      <geom name="rod" type="capsule" fromto="0 0 0 .3 0 0" size=".02" mass="1"/>
    </body>
  </worldbody>
</mujoco>
"""
DAMPING, NOISE = 0.08, 2e-3
FAST = ["--nworld", "16", "--generations", "8", "--device", "cpu"]


def swing(start: float, damping: float = DAMPING, seed: int = 0) -> Trial:
    """A pendulum that is let go, by MuJoCo in C, with noise."""
    mjm = mujoco.MjModel.from_xml_string(SWING)
    mjm.dof_damping[:] = damping
    mjd = mujoco.MjData(mjm)
    mjd.qpos[0] = start
    angles = [start]
    for _ in range(60):
        mujoco.mj_step(mjm, mjd)
        angles.append(float(mjd.qpos[0]))
    measured = np.array(angles)[:, None] + np.random.default_rng(seed).normal(0.0, NOISE, (61, 1))
    return Trial(np.arange(61) * 0.01, measured, NOISE, "joint:hinge", qpos=[start])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model, a trial of each format, one for the test, and one of another pendulum."""
    (tmp_path / "swing.xml").write_text(SWING)
    swing(0.0).save(tmp_path / "a.npz")
    lines = [
        "time,joint:hinge,start:qpos[0]",
        *(f"{t:g},{y:.6g},0.5" for t, y in zip(*columns(swing(0.5, seed=1)), strict=True)),
    ]
    (tmp_path / "b.csv").write_text("\n".join(lines) + "\n")
    swing(-0.5, seed=2).save(tmp_path / "test.npz")
    swing(-0.5, 0.5, seed=2).save(tmp_path / "other.npz")
    return tmp_path


def columns(trial: Trial) -> tuple[np.ndarray, np.ndarray]:
    return trial.time, trial.measured[:, 0]


def command(folder: Path, *more: str, held_out: str = "test.npz") -> list[str]:
    """The arguments that identify the damping from two trials."""
    data = [str(folder / name) for name in ("a.npz", "b.csv")]
    words = ["identify", str(folder / "swing.xml"), "--data", *data, "--noise", str(NOISE), *FAST]
    words += ["--held-out", str(folder / held_out), "--out", str(folder / "out"), *more]
    return words if "--parameters" in more else [*words, "--parameters", "damping:hinge=0.001:1"]


def test_the_damping_of_a_pendulum(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command(folder, "--physics", "mujoco")) == 0
    told = json.loads((folder / "out/fit.json").read_text())
    damping = told["parameters"]["damping of hinge"]
    assert damping["identified"] and damping["interval"][0] < DAMPING < damping["interval"][1]
    assert damping["value"] == pytest.approx(DAMPING, rel=0.05)
    assert told["trials"] == ["a", "b"] and told["held-out trials"] == ["test"]
    assert (folder / "out/fit.png").read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert printed.startswith("mujoco: Residual over noise: ")
    assert "the model explains the measurements" in printed
    assert "damping of hinge" in printed and str(folder / "out/fit.json") in printed


def test_several_physics_side_by_side(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A physics that cannot be run does not end the others."""
    names = ("mujoco", "comfree:damping=0.002", "pbd-r")
    assert main(command(folder, "--physics", *names)) == 1
    printed = capsys.readouterr().out
    assert "pbd-r: " in printed  # it has no joints
    assert "to be trusted" in printed
    for stem in ("fit-mujoco", "fit-comfree-damping=0.002"):
        assert (folder / f"out/{stem}.json").exists() and (folder / f"out/{stem}.png").exists()


@pytest.mark.parametrize(
    ("more", "held_out", "words"),
    [
        (["--parameters", "damping:hinge=0.2:1"], "test.npz", "the model is wrong"),
        ([], "other.npz", "much worse"),
        (
            ["--parameters", "damping:hinge=0.001:1", "mass:arm=0.5:2", "armature:hinge=1e-6:1e-5"],
            "test.npz",
            "not identified",
        ),
    ],
)
def test_what_cannot_be_trusted_is_status_1(
    folder: Path, capsys: pytest.CaptureFixture[str], more: list[str], held_out: str, words: str
) -> None:
    assert main(command(folder, "--physics", "mujoco", *more, held_out=held_out)) == 1
    assert words in " ".join(capsys.readouterr().out.split())


def test_the_example_writes_trials_that_can_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["identify", "--example", str(tmp_path / "new")]) == 0
    assert "stickslip identify push-t" in capsys.readouterr().out
    noise = (1e-3, 1e-3, 5e-3, 1e-3, 1e-3)
    csv = Trial.load(tmp_path / "new/push-1.csv", noise=noise)
    npz = Trial.load(tmp_path / "new/push-2.npz")
    assert csv.channels == npz.channels == ("qpos[0]", "qpos[1]", "qpos[6]", "qpos[7]", "qpos[8]")
    assert csv.ctrl is not None and csv.ctrl.shape == (200, 2) and csv.measured.shape == (51, 5)
    np.testing.assert_allclose(csv.noise, npz.noise)
    np.testing.assert_allclose(csv.time, npz.time, atol=1e-9)
    assert csv.qpos is not None
    np.testing.assert_allclose(csv.qpos, [0.0, 0.0, 0.025, 1.0, 0.0, 0.0, 0.0, -0.003, -0.17], atol=1e-8)


ERRORS = {
    "nothing": ([], "identify --example DIR"),
    "no data": (["{f}/swing.xml"], "--data names no trial"),
    "no test": (["{f}/swing.xml", "--data", "{f}/a.npz"], "say --no-held-out"),
    "both": (
        ["{f}/swing.xml", "--data", "{f}/a.npz", "--held-out", "{f}/test.npz", "--no-held-out"],
        "exclude each other",
    ),
    "same trial": (["{f}/swing.xml", "--data", "{f}/a.npz", "--held-out", "{f}/a.npz"], "tests nothing"),
    "no parameter": (["{f}/swing.xml", "--data", "{f}/a.npz", "--no-held-out"], "--parameters names nothing"),
    "noise": (
        ["{f}/swing.xml", "--data", "{f}/b.csv", "--no-held-out", "--parameters", "damping:hinge=0.01:1"],
        "does not say the noise",
    ),
    "noise shape": (
        ["{f}/swing.xml", "--data", "{f}/b.csv", "--no-held-out", "--parameters", "damping:hinge=0.01:1"]
        + ["--noise", "0.1", "0.2", "0.3"],
        "one for each of the 1 columns",
    ),
    "no file": (
        ["{f}/swing.xml", "--data", "{f}/c.npz", "--no-held-out", "--parameters", "damping:hinge=0.01:1"],
        "no such file",
    ),
    "no joint": (
        ["{f}/swing.xml", "--data", "{f}/a.npz", "--no-held-out", "--parameters", "damping:hing=0.01:1"],
        "did you mean 'hinge'",
    ),
    "physics": (
        ["{f}/swing.xml", "--data", "{f}/a.npz", "--no-held-out", "--parameters", "damping:hinge=0.01:1"]
        + ["--physics", "mujco"],
        "did you mean 'mujoco'",
    ),
    "example and data": (["--example", "{f}/new", "--data", "{f}/a.npz"], "without data"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_say_what_to_do(folder: Path, capsys: pytest.CaptureFixture[str], case: str) -> None:
    words, message = ERRORS[case]
    told = [word.format(f=folder) for word in words]
    if "--example" not in told:
        told += ["--device", "cpu", "--out", str(folder / "out")]
    assert main(["identify", *told]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("friction=0.05:2", ident.Friction(None, 0.05, 2.0)),
        ("friction:T=0.05:2", ident.Friction("T", 0.05, 2.0)),
        ("friction:T, finger=0.05:2", ident.Friction(["T", "finger"], 0.05, 2.0)),
        ("pair-friction:a-b=0.05:2", ident.PairFriction("a-b", 0.05, 2.0)),
        ("mass:robot:arm=0.1:3", ident.Mass("robot:arm", 0.1, 3.0)),
        ("mass:a=b=0.1:3", ident.Mass("a=b", 0.1, 3.0)),
        ("stiffness:finger=1e3:1e6", ident.Stiffness("finger", 1e3, 1e6)),
        ("dissipation=0.01:10", ident.Dissipation(None, 0.01, 10.0)),
        ("damping:hinge=0.01:10", ident.JointDamping("hinge", 0.01, 10.0)),
        ("dry-friction:hinge=0.01:10", ident.JointFriction("hinge", 0.01, 10.0)),
        ("armature:hinge=1e-3:1", ident.Armature("hinge", 1e-3, 1.0)),
        ("gain:servo=10:1000", ident.ServoGain("servo", 10.0, 1000.0)),
        ("delay:controls=0:0.1", ident.Delay(0.0, 0.1, "controls")),
        ("field:geom_solref[3,0]=0.004:0.1", ident.ModelField("geom_solref", (3, 0), 0.004, 0.1)),
        ("field:damping=1e-4:1e-2", ident.ModelField("damping", (), 1e-4, 1e-2)),
        ("field:body_mass[1:3]=0.5:2:scale", ident.ModelField("body_mass", (slice(1, 3),), 0.5, 2.0, scale=True)),
        ("field:gravity[0]=-1:1:linear", ident.ModelField("gravity", 0, -1.0, 1.0, linear=True)),
    ],
)
def test_parameters_by_their_notation(text: str, expected: ident.Parameter) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fricton:T=0.05:2", "did you mean 'friction'"),
        ("mass:T", "such as mass:BODY=0.1:3"),
        ("mass:T=1", "such as mass:BODY=0.1:3"),
        ("mass:T=1:two", "not two numbers; such as mass:BODY"),
        ("mass:T=1:2:3", "such as mass:BODY=0.1:3"),
        ("mass=1:2", "does not say of what"),
        ("mass:T=2:1", "the first must be the smaller"),
        ("mass:T=0:1", "the lower bound must be above 0"),
        ("delay:steps=0:1", "a delay is of measurements or of controls"),
        ("field:geom_solref[x]=0.004:0.1", "must be numbers, or ranges"),
        ("field:geom_solref[3=0.004:0.1", "is not FIELD"),
        ("field:geom_solref[3,0]=0.004:0.1:log", "and :scale or :linear behind it"),
    ],
)
def test_errors_of_the_notation_name_it(text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        parse(text)
    assert message in str(error.value) and repr(text) in str(error.value)


@pytest.mark.parametrize(
    ("channels", "ny", "expected"),
    [
        (("qpos[0]", "qpos[6:8]"), 3, ["qpos[0]", "qpos[6]", "qpos[7]"]),
        (("qpos",), 3, ["qpos[0]", "qpos[1]", "qpos[2]"]),
        (("sensor:a", "sensor:b"), 2, ["sensor:a", "sensor:b"]),
        (("sensor:a", "sensor:b"), 5, ["column 0", "column 1", "column 2", "column 3", "column 4"]),
        (("qpos[0]", "sensor:a"), 3, ["qpos[0]", "sensor:a[0]", "sensor:a[1]"]),
    ],
)
def test_columns_of_pictures_have_names(channels: tuple[str, ...], ny: int, expected: list[str]) -> None:
    assert labels(channels, ny) == expected
