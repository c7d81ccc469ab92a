"""Ranges of joints and height over the floor, against a model."""

import mujoco
import numpy as np
import pytest

from stickslip.errors import InputError
from stickslip.mpc.retarget.files import check, floating, grounded
from stickslip.mpc.retarget.ground import lowest
from stickslip.mpc.retarget.motion import Motion, exponential

SHAPES = {
    "sphere": 'type="sphere" size="0.1"',
    "capsule": 'type="capsule" size="0.05 0.2"',
    "cylinder": 'type="cylinder" size="0.1 0.2"',
    "box": 'type="box" size="0.1 0.2 0.3"',
    "ellipsoid": 'type="ellipsoid" size="0.1 0.2 0.3"',
    "mesh": 'type="mesh" mesh="wedge"',
}
WEDGE = '<asset><mesh name="wedge" vertex="0 0 0  0.3 0 0  0 0.2 0  0 0 0.5  0.1 0.1 0.4"/></asset>'


def model(geom: str, more: str = "", floor: float = 0.0) -> mujoco.MjModel:
    """One free body with a geom, over a floor; all that can be near touches."""
    return mujoco.MjModel.from_xml_string(
        f"""
        <mujoco>
          {WEDGE}
          <worldbody>
            <geom name="floor" type="plane" size="5 5 1" pos="0 0 {floor}" margin="3"/>
            <body name="trunk"><freejoint name="root"/><geom name="trunk" {geom} pos="0.1 0 0" euler="20 30 0"/>
              <body name="leg"><joint name="hip" axis="0 1 0" range="-90 45"/><geom size="0.01" mass="1"/></body>
            </body>
            <body name="ball"><freejoint name="ball"/><geom size="0.1"/></body>
          </worldbody>
          {more}
        </mujoco>"""
    )


def motion(base: np.ndarray, hip: np.ndarray | None = None, **more) -> Motion:
    joints = np.zeros((len(base), 1)) if hip is None else hip[:, None]
    return Motion("m", 50.0, joints, ("hip",), base, **more)


def turned(frames: int = 20, height: float = 0.7) -> np.ndarray:
    """A base in random orientations."""
    rng = np.random.default_rng(0)
    return np.hstack([np.tile([0.0, 0.0, height], (frames, 1)), exponential(rng.normal(size=(frames, 3)))])


@pytest.mark.parametrize("shape", SHAPES)
def test_lowest_points_are_those_of_mujocos_contacts(shape):
    mjm = model(SHAPES[shape], floor=0.1)
    moving = motion(turned())
    data, found = mujoco.MjData(mjm), []
    assert moving.base is not None
    for pose in moving.base:
        data.qpos[:7] = pose
        mujoco.mj_forward(mjm, data)
        trunk = [c.dist for c in data.contact if mjm.geom("floor").id in c.geom and 3 not in mjm.geom_bodyid[c.geom]]
        found.append(min(trunk))
    np.testing.assert_allclose(lowest(moving, mjm), found, atol=1e-6)


def test_grounded_shifts_the_base_once_by_the_median():
    mjm = model(SHAPES["box"])
    moving = motion(turned(height=1.5))
    height = floating(moving, mjm)
    assert height == pytest.approx(np.median(lowest(moving, mjm))) and height > 0.5
    on = grounded(moving, mjm)
    assert moving.base is not None and on.base is not None
    assert floating(on, mjm) == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(moving.base[:, 2] - on.base[:, 2], height)
    np.testing.assert_allclose(moving.base[:, 3:], on.base[:, 3:], atol=1e-15)
    assert on.notes == (f"shifted by {-100 * height:+.1f} cm onto the floor",)


def test_objects_stay_or_are_shifted_as_asked():
    mjm = model(SHAPES["sphere"])
    ball = turned(height=0.05)
    moving = motion(turned(), objects={"ball": ball})
    height = floating(moving, mjm)  # the ball, which is lower, does not count
    assert height > 0.4
    np.testing.assert_allclose(grounded(moving, mjm).objects["ball"], moving.objects["ball"])
    both = grounded(moving, mjm, objects=True)
    np.testing.assert_allclose(both.objects["ball"][:, 2], 0.05 - height)


def test_only_what_can_touch_the_floor_counts():
    """Pairs count as well; geoms for show do not."""
    shown = SHAPES["box"] + ' contype="0" conaffinity="0"'
    moving = motion(turned())
    alone = lowest(moving, model(shown))
    np.testing.assert_allclose(alone, 0.7 - 0.01, atol=1e-12)  # the leg's sphere
    pair = '<contact><pair geom1="trunk" geom2="floor"/></contact>'
    np.testing.assert_allclose(lowest(moving, model(shown, pair)), lowest(moving, model(SHAPES["box"])))


def test_what_cannot_touch_or_float_is_refused():
    with pytest.raises(InputError, match="has no free base: it cannot float or sink"):
        floating(Motion("m", 50.0, np.zeros((2, 1)), ("hip",)), model(SHAPES["box"]))
    ghost = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><body><freejoint/><geom size='1' contype='0' conaffinity='0'/></body></worldbody></mujoco>"
    )
    with pytest.raises(InputError, match="no geom of the robot can touch the floor"):
        floating(Motion("m", 50.0, np.zeros((2, 0)), (), turned(2)), ghost)
    with pytest.raises(InputError, match="no free joint 'pelvis'"):
        floating(motion(turned()), model(SHAPES["box"]), base="pelvis")


def test_joints_beyond_their_range_are_clipped_and_noted():
    mjm = model(SHAPES["sphere"])
    low, high = mjm.jnt_range[mjm.joint("hip").id]
    hip = np.array([0.0, 0.5, 0.9, 0.0, -1.7, 0.0])
    base = np.tile([0.0, 0.0, 0.1, 1.0, 0.0, 0.0, 0.0], (6, 1))
    checked = check(motion(base, hip), mjm)
    np.testing.assert_allclose(checked.joints[:, 0], np.clip(hip, low, high))
    assert checked.notes == (
        "joints beyond their range in 2 of 6 frames, clipped; the worst: hip in frame 4, -1.700, where the range is "
        "-1.571 to 0.785",
    )
    fine = check(motion(base), mjm)
    assert fine.notes == () and check(Motion("fixed", 50.0, np.zeros((2, 1)), ("hip",)), mjm).notes == ()


@pytest.mark.parametrize(
    ("height", "note"),
    [
        (0.15, "the motion floats by 5.0 cm; grounded() (--ground) shifts it"),
        (0.07, "the motion sinks by 3.0 cm; grounded() (--ground) shifts it"),
    ],
)
def test_floating_or_sinking_by_more_than_2_cm_is_noted(height, note):
    base = np.tile([0.0, 0.0, height, 1.0, 0.0, 0.0, 0.0], (3, 1))
    assert check(motion(base), model(SHAPES["sphere"])).notes == (note,)
    base[:, 2] = 0.115
    assert check(motion(base), model(SHAPES["sphere"])).notes == ()
