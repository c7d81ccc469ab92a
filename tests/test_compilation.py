"""Loading kernels ahead: nothing moves, Warp stays as it was, and other threads are not disturbed."""

import threading

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


@wp.kernel
def _count(total: wp.array[int]):
    wp.atomic_add(total, 0, 1)


def test_other_threads_launch_while_a_simulation_compiles() -> None:
    """None of their launches is lost, and none gets into the captured step."""
    total = wp.zeros(1, dtype=int, device="cpu")
    sim = ss.Simulation("scaling", ss.ComFree(), device="cpu")
    stop, launched = threading.Event(), 0
    wp.launch(_count, 1, outputs=[total], device="cpu")  # loads the module

    def launch() -> None:
        nonlocal launched
        while not stop.is_set():
            wp.launch(_count, 1, outputs=[total], device="cpu")
            launched += 1

    thread = threading.Thread(target=launch)
    thread.start()
    try:
        sim.compile()
    finally:
        stop.set()
        thread.join()
    assert launched > 10
    assert total.numpy()[0] == launched + 1
    sim.step(3)
    assert total.numpy()[0] == launched + 1


def test_only_launches_of_the_calling_thread_are_noted() -> None:
    """A launch of another thread, from the middle of the noted step, is carried out; the step's own is not."""
    mine, theirs = (wp.zeros(1, dtype=int, device="cpu") for _ in range(2))

    def step() -> None:
        wp.launch(_count, 1, outputs=[mine], device="cpu")
        thread = threading.Thread(target=lambda: wp.launch(_count, 1, outputs=[theirs], device="cpu"))
        thread.start()
        thread.join()

    compilation.load_kernels(step, "cpu")
    assert mine.numpy()[0] == 0 and theirs.numpy()[0] == 1


def test_two_threads_may_compile_at_once() -> None:
    sims = [ss.Simulation("scaling", ss.ComFree(), device="cpu") for _ in range(3)]
    threads = [threading.Thread(target=sim.compile) for sim in sims[:2]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for sim in sims:
        sim.step(60)
        np.testing.assert_array_equal(sim.qpos.numpy(), sims[0].qpos.numpy())


def test_other_threads_wait_while_cuda_captures() -> None:
    """On CUDA what comes to the stream during a capture would be recorded; the mechanism itself needs no GPU."""
    total = wp.zeros(1, dtype=int, device="cpu")
    thread = threading.Thread(target=lambda: wp.launch(_count, 1, outputs=[total], device="cpu"))
    with compilation._replaced({"launch": None}, others_wait=True):
        thread.start()
        thread.join(0.2)
        assert thread.is_alive() and total.numpy()[0] == 0
        wp.launch(_count, 1, outputs=[total], device="cpu")  # this thread launches
        assert total.numpy()[0] == 1
    thread.join()
    assert total.numpy()[0] == 2


@pytest.mark.parametrize("level", [wp.LOG_DEBUG, wp.LOG_INFO, wp.LOG_WARNING, wp.LOG_ERROR])
def test_the_log_level_of_warp_stays(level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wp.config, "log_level", level)
    sim = ss.Simulation("sliding-cube", ss.ComFree(), device="cpu")
    assert wp.config.log_level == level
    sim.step(2)
    sim.contacts()
    assert wp.config.log_level == level


def test_only_the_default_log_level_is_quieted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nested scopes, and one in which the level is set on purpose."""
    monkeypatch.setattr(wp.config, "log_level", wp.LOG_INFO)
    with compilation.quiet():
        with compilation.quiet():
            assert wp.config.log_level == wp.LOG_WARNING
        assert wp.config.log_level == wp.LOG_WARNING
    assert wp.config.log_level == wp.LOG_INFO
    with compilation.quiet():
        wp.config.log_level = wp.LOG_DEBUG
    assert wp.config.log_level == wp.LOG_DEBUG
    with compilation.quiet():
        assert wp.config.log_level == wp.LOG_DEBUG


def test_nothing_is_printed_about_modules(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """At Warp's default level, from making a simulation to reading its contacts."""
    monkeypatch.setattr(wp.config, "log_level", wp.LOG_INFO)
    sim = ss.Simulation("sliding-cube", ss.MuJoCo(), nworld=2, device="cpu")
    sim.set_model(body_mass=2.0 * sim.mjm.body_mass)
    sim.step(2)
    sim.reset()
    sim.contacts()
    out = capfd.readouterr()
    assert "Module" not in out.out + out.err
