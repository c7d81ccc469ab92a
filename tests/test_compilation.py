"""Loading kernels ahead: nothing moves, nothing of Warp stays replaced, and nothing is left to compile."""

import mujoco_warp as mjw
import numpy as np
import pytest
import warp as wp
from warp._src import context

import stickslip as ss
from stickslip import compilation


@pytest.mark.parametrize("name", ["mujoco", "comfree"])
def test_loading_ahead_changes_no_trajectory(name):
    plain, ahead = (ss.Simulation("scaling", ss.PHYSICS[name](), device="cpu") for _ in range(2))
    start = ahead.qpos.numpy()
    launches = wp.launch, wp.capture_while, wp.capture_if, context.launch
    with wp.ScopedDevice("cpu"):
        compilation.load_kernels(lambda: ahead.physics.step(ahead.m, ahead.d), "cpu")
    assert launches == (wp.launch, wp.capture_while, wp.capture_if, context.launch)
    np.testing.assert_array_equal(ahead.qpos.numpy(), start)
    for sim in (plain, ahead):
        sim.step(100)
    np.testing.assert_array_equal(ahead.qpos.numpy(), plain.qpos.numpy())


def test_launch_is_put_back_after_an_error():
    launch = wp.launch

    def fail():
        raise ValueError

    with pytest.raises(ValueError):
        compilation.load_kernels(fail, "cpu")
    assert wp.launch is launch
    assert context.launch is launch


def test_large_scenes_sort_their_geoms_only_for_real() -> None:
    """The broad phase of large scenes sorts by native code; noting launches must not run it on unfilled arrays."""
    sim = ss.Simulation("scaling", nworld=3, device="cpu")
    sim.m.opt.broadphase = mjw.BroadphaseType.SAP_SEGMENTED
    sim.step(150)
    plain = ss.Simulation("scaling", nworld=3, device="cpu")
    plain.step(150)
    assert sim.health().ok
    np.testing.assert_allclose(sim.state.qpos, plain.state.qpos, atol=2e-3)
