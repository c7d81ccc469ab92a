"""The tasks of the gripper: scripts solve them, rewards are their formulas, and what is not done is not success."""

import dataclasses
from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

torch = pytest.importorskip("torch", reason="environments need PyTorch")

from stickslip.envs import Env, Step  # noqa: E402
from stickslip.envs.factory import make  # noqa: E402
from stickslip.envs.tasks import load_task  # noqa: E402
from tests.envs import scripts  # noqa: E402

SOLVED = {"cube-lift": scripts.lift, "stack-two": scripts.stack, "peg-in-hole": scripts.insert}
UPRIGHT = (1.0, 0.0, 0.0, 0.0)
Rates = Mapping[str, NDArray[np.floating]]


def env_of(task: str, physics: str = "cone-sweep", nworld: int = 8, **options) -> Env:
    return make(task, physics, nworld=nworld, device="cpu", **options)


def began(task: str, qpos: list[float], fingers: float, **memory: list[float]) -> Env:
    """A world of a task that begins in a state of the test; mocap bodies stay where the model has them."""

    def row(values: list[float]) -> torch.Tensor:
        return torch.tensor([values])

    known = load_task(task)
    start = {
        "qpos": row(qpos),
        "ctrl": row([*qpos[:4], fingers]),
        "held": torch.zeros(1),
        **{name: row(values) for name, values in memory.items()},
    }
    task_here = dataclasses.replace(known, start=lambda s: start, randomize={})
    return make(task_here, "cone-sweep", nworld=1, device="cpu", autoreset="disabled")


def still(env: Env, steps: int = 20) -> tuple[Step, float]:
    """No action for some control steps; the last one, and the longest time that the goal was held [control steps]."""
    env.reset()
    longest = 0.0
    for _ in range(steps):
        step = env.step(torch.zeros(1, env.naction))
        longest = max(longest, float(env.state["held"][0]))
    return step, longest


# --- they can be solved ---


@pytest.mark.parametrize("task", SOLVED)
def test_a_script_solves_it(task: str) -> None:
    """In every world; success lasts to the end, pays as long, and is what the log tells."""
    env = env_of(task)
    paid, held = [], []

    def seen(step: Step) -> None:
        paid.append(env.task.rewards["success"].value(env.state))
        held.append(env.state["held"].clone())

    last = scripts.play(env, SOLVED[task], seen=seen)
    assert last.success.all() and last.truncated.all() and not last.terminated.any()
    rates = torch.stack(paid[:-1])
    assert (held[-2] >= 9.0).all() and (rates.diff(dim=0) >= 0.0).all() and (rates.sum(dim=0) > 5.0).all()
    assert (env.state.elapsed == 0).all() and (held[-1] == 0.0).all()  # the next episode
    log = env.log()
    assert (log["episodes"], log["success"], log["terminated"], log["diverged"]) == (8, 1.0, 0.0, 0.0)
    assert log["length"] == pytest.approx(env.task.episode)
    seconds = env.dt * (float(rates.sum(dim=0).mean()) + 1.0)  # the last step is not among the rates
    assert log["reward/success"] == pytest.approx(env.task.rewards["success"].weight * seconds)
    parts = sum(value for name, value in log.items() if name.startswith("reward/"))
    assert parts == pytest.approx(log["return"], rel=1e-4)
    assert not env.health()


def test_the_cube_slips_with_comfree() -> None:
    """The script that lifts it in each of 8 worlds with the cone sweep ends in each with the cube on the floor."""
    env = env_of("cube-lift", "comfree", autoreset="disabled")
    last = scripts.play(env, scripts.lift)
    assert not last.success.any()
    assert (env.state.qpos[:, 8] < 0.025).all()
    assert env.log()["reward/success"] == 0.0


# --- rewards ---


def lengths(vectors: NDArray[np.floating]) -> NDArray[np.floating]:
    return np.sqrt((vectors**2).sum(axis=1))


def matrices(quat: NDArray[np.floating]) -> NDArray[np.floating]:
    """Rotation matrices of quaternions, (nworld, 3, 3)."""
    import mujoco

    found = np.zeros((len(quat), 9))
    for mat, q in zip(found, quat, strict=True):
        mujoco.mju_quat2Mat(mat, q)
    return found.reshape(-1, 3, 3)


def turn(mat: NDArray[np.floating]) -> NDArray[np.floating]:
    return np.arctan2(mat[:, 1, 0], mat[:, 0, 0])


def stack_rates(q: NDArray[np.floating], v: NDArray[np.floating], env: Env) -> Rates:
    """Parts of the reward of stack-two, by their formulas."""
    a, b, hand = q[:, 6:9], q[:, 13:16], q[:, :3]
    to = b + [0.0, 0.0, 0.04] - a
    aside, height = lengths(to[:, :2]), np.abs(to[:, 2])
    slow = (lengths(v[:, 6:9]) < 0.05) & (lengths(v[:, 12:15]) < 0.05)
    placed = (aside < 0.015) & (height < 0.004) & slow
    near = 1.0 - np.tanh(8.0 * lengths(a - hand))
    faces = np.cos(4.0 * (turn(matrices(q[:, 9:13])) - q[:, 3]))
    opened = np.clip((0.5 * (q[:, 4] + q[:, 5]) - 0.02) / 0.018, 0.0, 1.0)
    lets_go = np.clip((env.state.ctrl.numpy()[:, 4] + 0.03) / 0.068, 0.0, 1.0)
    clear = np.clip((hand[:, 2] - a[:, 2]) / 0.04, 0.0, 1.0)
    return {
        "reach": np.where(placed, 1.0, near),
        "turn": np.where(placed, 1.0, faces * near),
        "lift": np.clip((a[:, 2] - 0.02) / 0.02, 0.0, 1.0),
        "above": np.clip((a[:, 2] - 0.02) / 0.04, 0.0, 1.0) * (1.0 - np.tanh(6.0 * aside)),
        "lower": np.exp(-((aside / 0.02) ** 2)) * (1.0 - np.tanh(15.0 * height)),
        "placed": 1.0 * placed,
        "release": placed * (0.2 * lets_go + opened * (0.2 + 0.6 * clear)),
        "rest": 1.0 * (placed & (0.5 * (q[:, 4] + q[:, 5]) > 0.025) & (hand[:, 2] - a[:, 2] > 0.04)),
    }


def peg_rates(q: NDArray[np.floating], v: NDArray[np.floating], env: Env) -> Rates:
    """Parts of the reward of peg-in-hole, by their formulas."""
    hole, grip = env.state["hole"].numpy().astype(float), env.state["grip"].numpy().astype(float)
    mat = matrices(q[:, 9:13])
    low = q[:, 6:9] - 0.04 * mat[:, :, 2] - np.c_[hole[:, :2], np.full(len(q), 0.04)]
    c, n = np.cos(hole[:, 2]), np.sin(hole[:, 2])
    x, y = c * low[:, 0] + n * low[:, 1], c * low[:, 1] - n * low[:, 0]
    aside = np.hypot(x, y)
    depth = np.where((np.abs(x) < 0.0015) & (np.abs(y) < 0.0015), np.maximum(-low[:, 2], 0.0), 0.0)
    align = 1.0 - np.tanh(8.0 * aside)
    held = q[:, 6:9] - q[:, :3]
    c, n = np.cos(q[:, 3]), np.sin(q[:, 3])
    held = np.stack([c * held[:, 0] + n * held[:, 1], c * held[:, 1] - n * held[:, 0], held[:, 2]], axis=1)
    return {
        "align": align,
        "centre": np.exp(-((aside / 0.004) ** 2)),
        "turn": np.cos(4.0 * (hole[:, 2] - turn(mat))) * align,
        "lower": np.exp(-((aside / 0.01) ** 2)) * (1.0 - np.tanh(10.0 * np.maximum(low[:, 2] + 0.025, 0.0))),
        "depth": np.minimum(depth / 0.025, 1.0),
        "upright": -(mat[:, 0, 2] ** 2 + mat[:, 1, 2] ** 2),
        "grasp": -lengths(held - grip),
        "in": 1.0 * (depth > 0.025),
    }


@pytest.mark.parametrize(
    "task, formulas, others",
    [("stack-two", stack_rates, []), ("peg-in-hole", peg_rates, [scripts.press(0.07, 60)])],
    ids=["stack-two", "peg-in-hole"],
)
def test_rewards_are_their_formulas(task: str, formulas, others: list[scripts.Script]) -> None:
    """Each part, and their sum, on the way to success, and pressed against the block; none is always small."""
    env = env_of(task, nworld=4, autoreset="disabled", check=False)
    most: dict[str, float] = {}

    def seen(step: Step) -> None:
        s = env.state
        found = formulas(s.qpos.numpy().astype(float), s.qvel.numpy().astype(float), env)
        total = 10.0 * env.dt * (s["held"].numpy() >= 10.0) - 0.05 * env.dt * (s.action.numpy() ** 2).sum(axis=1)
        for name, want in found.items():
            value = env.task.rewards[name].value(s).numpy()
            np.testing.assert_allclose(value, want, atol=2e-4, err_msg=name)
            total = total + env.task.rewards[name].weight * env.dt * want
            most[name] = max(most.get(name, -1.0), float(np.abs(want).max()))
        np.testing.assert_allclose(step.reward.numpy(), total, atol=2e-3)

    for script in (SOLVED[task], *others):
        scripts.play(env, script, steps=env.task.longest, seen=seen)
    assert {*most, "success", "action"} == {*env.task.rewards}
    least = {"upright": 0.1, "grasp": 0.02}
    assert all(value > least.get(name, 0.5) for name, value in most.items()), most


# --- what is no success ---

HELD, FREE = (0.02, 0.02), (0.04, 0.04)
"""Positions of the fingers: at a cube, and open [m]."""
PLACE = (0.03, -0.02)


def stacked(hand: float, fingers: tuple[float, float], a: tuple[float, float, float], squeeze: float) -> Env:
    """A gripper over cube B, its middle at a height; cube A from B's place."""
    at = [PLACE[0] + a[0], PLACE[1] + a[1], a[2]]
    return began("stack-two", [*PLACE, hand, 0.0, *fingers, *at, *UPRIGHT, *PLACE, 0.02, *UPRIGHT], squeeze)


def test_a_cube_that_rests_on_the_other_is_success() -> None:
    step, longest = still(stacked(0.12, FREE, (0.0, 0.0, 0.06), 0.04))
    assert step.success.all() and longest == 20.0


def test_a_training_now_and_then_begins_with_the_cube_in_the_gripper() -> None:
    """In an eighth of the worlds, above its place and held; the others begin as without a training."""
    env = make(load_task("stack-two").in_training(), nworld=256, device="cpu", seed=3)
    env.reset()
    q = env.state.qpos.numpy().astype(float)
    later = q[:, 8] > 0.05
    assert 15 < later.sum() < 50
    to = q[later, 6:9] - q[later, 13:16] - [0.0, 0.0, 0.04]
    assert (np.abs(to[:, :2]) <= 0.02 + 1e-6).all() and (to[:, 2] > -1e-6).all() and (to[:, 2] < 0.05 + 1e-6).all()
    for _ in range(10):
        step = env.step(torch.zeros((256, 5)))
    assert not step.done.any()
    moved = lengths(env.state.qpos.numpy()[:, 6:9] - q[:, 6:9])
    assert moved[later].max() < 0.006, "it is held"
    assert moved[~later].max() < 1e-4, "it rests on the floor"
    plain = make("stack-two", nworld=256, device="cpu", seed=3)
    plain.reset()
    assert (plain.state.qpos[:, 8] < 0.03).all()


@pytest.mark.parametrize(
    "hand, fingers, a, squeeze",
    [
        pytest.param(0.068, HELD, (0.0, 0.0, 0.068), -0.01, id="held above"),
        pytest.param(0.06, HELD, (0.0, 0.0, 0.06), -0.01, id="held in its place"),
        pytest.param(0.06, FREE, (0.0, 0.0, 0.06), 0.04, id="between the open pads"),
        pytest.param(0.12, FREE, (0.041, 0.0, 0.02), 0.04, id="beside"),
        pytest.param(0.12, FREE, (0.018, 0.0, 0.06), 0.04, id="near the edge"),
    ],
)
def test_other_places_are_not(hand, fingers, a, squeeze) -> None:
    """And the cube is still there."""
    env = stacked(hand, fingers, a, squeeze)
    step, longest = still(env)
    assert not step.success.any() and longest == 0.0
    np.testing.assert_allclose(env.state.qpos[0, 6:9].numpy() - [*PLACE, 0.0], a, atol=2e-3)  # the servo gives way


def peg(hand: float, low: float, aside: float = 0.0, fingers: float = 0.01) -> Env:
    """A gripper over the hole, its middle at a height; the peg's lower end at a height, beside the hole."""
    return began(
        "peg-in-hole",
        [aside if fingers == 0.01 else 0.0, 0.0, hand, 0.0, fingers, fingers, aside, 0.0, low + 0.04, *UPRIGHT],
        -0.01 if fingers == 0.01 else 0.04,
        hole=[0.0, 0.0, 0.0],
        grip=[0.0, 0.0, -0.02],
    )


def test_a_peg_in_the_hole_is_success() -> None:
    step, longest = still(peg(0.07, 0.01))
    assert step.success.all() and longest == 20.0 and not step.terminated.any()


def test_a_peg_above_the_hole_is_not() -> None:
    step, longest = still(peg(0.105, 0.045))
    assert not step.success.any() and longest == 0.0 and not step.terminated.any()


def test_a_peg_that_is_dropped_ends_the_episode() -> None:
    """Standing on the floor beside the block, as deep as in the hole; or let go above the hole."""
    for env in (peg(0.2, 0.0, aside=0.08, fingers=0.04), peg(0.2, 0.06, fingers=0.04)):
        step, longest = still(env, 1)
        assert step.terminated.all() and not step.success.any() and longest == 0.0


# --- the peg and the block ---


@pytest.mark.parametrize("physics, sunk", [("cone-sweep", 1e-4), ("icf", 1e-4), ("mujoco", 3e-3)])
@pytest.mark.parametrize("script, where", [(scripts.press(0.016), "top"), (scripts.press(0.07, 60), "side")])
def test_walls_are_walls(physics: str, sunk: float, script: scripts.Script, where: str) -> None:
    """Pressed on the block or against it, the peg stays outside until it is lost; depth pays nothing.

    The block, a mocap body, keeps every bit of its pose.
    """
    env = env_of("peg-in-hole", physics, nworld=4, autoreset="disabled", check=False)
    s, block = env.state, env.state.body("block")
    over = torch.zeros(4, dtype=torch.bool)
    poses, heights, sides = [], [], []

    def seen(step: Step) -> None:
        over.logical_or_(step.done)
        poses.append(torch.cat([block.xpos, block.xquat], dim=1).clone())
        assert not env.task.rewards["depth"].value(s).any()
        low, hole = scripts.tip(s), s["hole"]
        axis = torch.stack([hole[:, 2].cos(), hole[:, 2].sin()], dim=1)
        along = ((low - hole)[:, :2] * axis).sum(dim=1)
        heights.append(torch.where(over, 1.0, low[:, 2]))
        sides.append(torch.where(over | (low[:, 2] > 0.02), 1.0, along))

    scripts.play(env, script, steps=85, seen=seen)
    assert all(torch.equal(pose, poses[0]) for pose in poses)
    low, side = torch.stack(heights).amin(dim=0), torch.stack(sides).amin(dim=0)
    if where == "top":
        assert ((low > 0.04 - sunk) & (low < 0.041)).all()  # it is there
    else:
        assert ((side > 0.051 - sunk) & (side < 0.053)).all()  # half a peg from the outer face, at 41 mm


def test_the_peg_does_not_slip() -> None:
    """For 2 s without actions: less than 0.05 mm in the frame of the hand, of which it moves nothing after 0.2 s."""
    env = env_of("peg-in-hole", nworld=16, autoreset="disabled")
    env.reset()
    slips = []
    for _ in range(50):
        step = env.step(torch.zeros(16, 4))
        slips.append(-env.task.rewards["grasp"].value(env.state))
    assert not step.done.any()
    assert max(float(slip.max()) for slip in slips) < 5e-5
    assert float((slips[-1] - slips[4]).abs().max()) < 2e-6


# --- all of them ---


@pytest.mark.parametrize("task", SOLVED)
def test_starts_are_free_of_penetration(task: str) -> None:
    env = env_of(task, nworld=128)
    env.reset()
    env.sim.forward()
    contacts = env.sim.contacts()
    assert len(contacts.dist) >= 128 * 4  # a cube on the floor, or the peg between the pads
    assert float(contacts.dist.min()) > -5e-4


@pytest.mark.parametrize("task", SOLVED)
def test_terms_stay_on_the_device(task: str) -> None:
    """No term reads a value on the host, or makes a tensor of numbers there: a graph could not record that."""
    from torch.utils._python_dispatch import TorchDispatchMode

    refused = ("_local_scalar_dense", "nonzero", "lift_fresh")

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            assert not any(name in str(func) for name in refused), func
            return func(*args, **(kwargs or {}))

    env = env_of(task)
    env.reset()
    known = env.task
    parts = (*known.observations.values(), *known.rewards.values())
    terms = [part.value for part in parts] + [*known.terminations.values(), known.success, known.start, known.update]
    with Watch():
        with pytest.raises(AssertionError):
            env.state.qpos[0, 0].item()
        with pytest.raises(AssertionError):
            torch.tensor([1.0])
        for term in terms:
            term(env.state)


@pytest.mark.parametrize("physics", ["cone-sweep", "mujoco", "comfree"])
@pytest.mark.parametrize("task", SOLVED)
def test_random_actions(task: str, physics: str) -> None:
    """Observations stay finite for 200 steps, and below 100; no world is lost."""
    env = env_of(task, physics)
    env.reset()
    rng = np.random.default_rng(0)
    for _ in range(200):
        step = env.step(torch.tensor(rng.uniform(-1.0, 1.0, (8, env.naction)), dtype=torch.float32))
        assert torch.isfinite(step.final).all() and torch.isfinite(step.reward).all()
    assert step.final.abs().max() < 100.0
    log = env.log()
    assert log["episodes"] >= 8 and log["diverged"] == 0.0
    assert not env.health()
