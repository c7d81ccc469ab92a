"""`planar-pushing`: what the paths do, and known errors of pose."""

import math

import mujoco
import numpy as np
import pytest

from stickslip import mjcf
from stickslip.bench.experiments.smoothness import planar_pushing
from stickslip.bench.experiments.smoothness.planar_pushing import (
    PATHS,
    PlanarPushing,
    Settings,
    apart,
    controls,
    outline,
    poses,
)
from stickslip.errors import InputError
from tests.bench import scripted


@pytest.mark.parametrize("path", range(len(PATHS)), ids=list(PATHS))
def test_each_path_makes_and_breaks_contact_twice(path):
    """Contacts less than a tenth of a second apart are one that chatters."""
    mjm = mjcf.load("push-t", timestep=0.002)
    mjd = mujoco.MjData(mjm)
    mujoco.mj_resetDataKeyframe(mjm, mjd, 0)
    ball = mjm.geom("finger").id
    last, spells = -1.0, 0
    for command in np.repeat(controls(4.0, 0.016)[:, path], 8, axis=0):
        mjd.ctrl[:] = command
        mujoco.mj_step(mjm, mjd)
        if (mjd.contact.geom == ball).any():
            spells += mjd.time - last > 0.1
            last = mjd.time
    assert spells >= 2
    moved, turned = apart(poses(mjd.qpos), np.zeros(5))
    assert moved > 0.015 or turned > 0.1


def test_controls_pass_the_points_of_their_path():
    at = controls(6.0, 0.5)
    assert at.shape == (12, 5, 2)
    for k, path in enumerate(PATHS.values()):
        assert at[-1, k] == pytest.approx(path[-1])
    assert at[1, 0] == pytest.approx((0.0, -0.1))  # the second of seven
    assert at[0, 0] == pytest.approx((0.0, -0.15))  # half the way there


def test_a_control_is_held_for_whole_steps():
    with pytest.raises(InputError, match="timesteps has 0.005 s, of which hold, 0.016 s, must be a whole number"):
        PlanarPushing().cases(Settings(timesteps=(0.005,)))


def test_a_known_offset_and_turn_are_told(tmp_path):
    right = planar_pushing.answer("push-t:mu=0.4,mass=0.5", 0.064, 0.016)[-1]
    ends = [np.array(path[-1]) for path in PATHS.values()]

    def script(mjm, mjd):
        world = int(np.argmin([np.linalg.norm(end - mjd.ctrl) for end in ends]))
        x, y, heading = right[world, :3]
        half = 0.5 * (heading + 0.1 * (world + 1))
        mjd.qpos[:7] = x + 0.03, y - 0.04, 0.025, math.cos(half), 0.0, 0.0, math.sin(half)
        mjd.qpos[7:] = mjd.ctrl

    settings = {"duration": 0.064, "timesteps": (0.008,)}
    result = scripted.run(PlanarPushing(), {"fake": scripted.Scripted(script)}, tmp_path, settings=settings)
    metrics = result.outcomes["fake"]["dt 8 ms"]["metrics"]
    assert metrics["distance_cm"] == pytest.approx(5.0, abs=1e-3)
    assert metrics["distance_sd_cm"] == pytest.approx(0.0, abs=1e-3)
    assert metrics["angle_deg"] == pytest.approx(math.degrees(0.3), abs=1e-3)
    assert metrics["angle_worst_deg"] == pytest.approx(math.degrees(0.5), abs=1e-3)
    assert metrics["angle_sd_deg"] == pytest.approx(math.degrees(np.std(0.1 * np.arange(1, 6), ddof=1)), abs=1e-3)
    assert metrics["tilt_deg"] == pytest.approx(0.0, abs=0.05)


def test_angles_are_the_short_way_round():
    one, two = np.array([0.0, 0.0, 3.1, 0.0, 0.0]), np.array([0.0, 0.0, -3.1, 0.0, 0.0])
    assert apart(one, two)[1] == pytest.approx(2 * math.pi - 6.2)


def test_the_outline_is_that_of_the_geoms():
    mjm = mjcf.load("push-t")
    x, y = outline(0.0, 0.0, 0.0)
    for name in ("bar", "stem"):
        geom = mjm.geom(name)
        for axis, line in ((0, x), (1, y)):
            for side in (-1, 1):
                assert np.abs(line - (geom.pos[axis] + side * geom.size[axis])).min() < 1e-9
    area = 0.5 * abs(np.sum(x[:-1] * y[1:] - x[1:] * y[:-1]))
    assert area == pytest.approx(sum(4 * mjm.geom(name).size[0] * mjm.geom(name).size[1] for name in ("bar", "stem")))
