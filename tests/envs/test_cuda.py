"""On a GPU: a control step is one graph with the same results, and nothing in it waits for the device."""

import dataclasses

import numpy as np
import pytest
import warp as wp

torch = pytest.importorskip("torch", reason="environments need PyTorch")
if not wp.is_cuda_available():
    pytest.skip("needs a GPU", allow_module_level=True)

import stickslip as ss  # noqa: E402
from stickslip.envs.factory import make  # noqa: E402
from stickslip.envs.task import Action, Observed  # noqa: E402
from tests.envs.tiny import CART  # noqa: E402

TASK = dataclasses.replace(
    CART,
    action=Action(delay=(0, 3)),
    observations={"place": Observed(lambda s: s.qpos[:, 0], noise=0.1, history=2)},
    randomize={"body_mass": ss.Scale(0.5, 2.0)},
)


@pytest.mark.parametrize("physics", ["cone-sweep", "comfree", "mujoco", "icf"])
def test_the_graph_does_what_the_step_does(physics: str) -> None:
    """Bit for bit in the state for physics that add forces in a fixed order; starts, noise and models included."""
    recorded, plain = (make(TASK, physics, nworld=64, device="cuda:0", seed=3, record=on) for on in (True, False))
    first = [env.reset()[0] for env in (recorded, plain)]
    assert torch.equal(*first)
    for k in range(35):
        action = torch.full((64, 1), float(np.sin(k)), device="cuda:0")
        a, b = recorded.step(action), plain.step(action)
        torch.testing.assert_close(a.observation, b.observation, rtol=0, atol=1e-5)
        torch.testing.assert_close(a.reward, b.reward, rtol=0, atol=1e-5)
        assert torch.equal(a.done, b.done)
    assert recorded._graph is not None and plain._graph is None
    assert recorded.log()["episodes"] == plain.log()["episodes"] >= 3 * 64


@pytest.mark.parametrize(
    "task", ["push-t", "cube-lift", "stack-two", "peg-in-hole", "hand-cube", "go1-velocity", "g1-velocity"]
)
def test_fused_is_as_it_is_written(task: str) -> None:
    """The first control steps, before contact tells roundings apart; ends and starts in a later one."""
    envs = [make(task, "cone-sweep", nworld=64, device="cuda:0", seed=3, fuse=fuse) for fuse in (True, False)]
    assert envs[0].fused and not envs[1].fused
    for env in envs:
        env.reset()
    for k in range(8):
        if k == 5:
            for env in envs:
                env.elapsed = torch.arange(64, device="cuda:0") % 2 * 10**6
        action = torch.full((64, envs[0].naction), 0.05 * k, device="cuda:0")
        a, b = (env.step(action) for env in envs)
        assert torch.equal(a.done, b.done)
        if k < 2:
            torch.testing.assert_close(a.observation, b.observation, rtol=1e-3, atol=1e-3)
            torch.testing.assert_close(a.reward, b.reward, rtol=1e-3, atol=1e-3)
    assert envs[0].log()["episodes"] == envs[1].log()["episodes"] >= 32


@pytest.mark.parametrize("task", ["push-t", "cube-lift", "go1-velocity", "hand-cube"])
def test_nothing_waits_for_the_device(task: str) -> None:
    env = make(task, "cone-sweep", nworld=64, device="cuda:0")
    env.reset()
    action = torch.zeros((64, env.naction), device="cuda:0")
    env.step(action)
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(5):
            step = env.step(action)
    finally:
        torch.cuda.set_sync_debug_mode(before)
    assert torch.isfinite(step.observation).all()


def test_a_cpu_gives_nearly_the_same() -> None:
    """Starts and draws are the same numbers; states differ by rounding."""
    envs = [make(TASK, "cone-sweep", nworld=16, device=device, seed=5) for device in ("cpu", "cuda:0")]
    found = [env.reset()[0].cpu() for env in envs]
    torch.testing.assert_close(*found, rtol=0, atol=1e-6)
    for k in range(25):
        steps = [env.step(torch.full((16, 1), 0.1 * k, device=env.device)) for env in envs]
        torch.testing.assert_close(*(step.observation.cpu() for step in steps), rtol=0, atol=1e-4)


def test_a_term_that_reads_on_the_host_is_named() -> None:
    task = dataclasses.replace(TASK, success=lambda s: s.qpos[:, 0] > float(s.qpos.max().item()))
    env = make(task, "comfree", nworld=4, device="cuda:0")
    env.reset()
    with pytest.raises(ss.InputError, match="task 'cart': success reads values on the host"):
        env.step(torch.zeros((4, 1), device="cuda:0"))
