"""Parts of a control step as one kernel each: the same numbers as the torch operators that they come from, and few."""

import dataclasses
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="environments need PyTorch")

import mujoco  # noqa: E402

import stickslip as ss  # noqa: E402
from stickslip.envs.code import Code  # noqa: E402
from stickslip.envs.env import Env  # noqa: E402
from stickslip.envs.factory import make  # noqa: E402
from stickslip.envs.fused import fused  # noqa: E402
from stickslip.envs.state import angle_between, quat_of_yaw, rotate, rotate_back, wrapped, yaw_of  # noqa: E402
from stickslip.envs.step import Step  # noqa: E402
from stickslip.envs.task import Action, Observed, Push, Reward, Task  # noqa: E402
from tests.envs.counting import count  # noqa: E402
from tests.envs.tiny import CART  # noqa: E402

BODIES = """
<mujoco><option timestep="0.01" gravity="0 0 0"/><worldbody>
  <body name="free"><freejoint name="free"/><geom size="0.1" mass="1" contype="0" conaffinity="0"/></body>
  <body name="cart"><joint name="x" type="slide" damping="0.5"/>
    <geom size="0.1" mass="1" contype="0" conaffinity="0"/></body></worldbody>
  <actuator><motor name="push" joint="x" ctrlrange="-2 2"/></actuator>
  <sensor><jointpos name="where" joint="x"/><actuatorfrc name="force" actuator="push"/></sensor></mujoco>"""

EVERYTHING = dataclasses.replace(
    CART,
    build=lambda: mujoco.MjModel.from_xml_string(BODIES),
    memory={"begun": (), "level": (2,)},
    start=lambda s: {
        "qpos": torch.cat(
            [s.random.uniform(-0.5, 0.5, 3), quat_of_yaw(s.random.normal(1)[:, 0]), s.random.uniform(-0.5, 0.5)], dim=1
        ),
        "begun": s.elapsed.float(),
    },
    update=lambda s: {"level": s["level"] * 0.9 + s.action},
    curriculum=lambda s: {"level": torch.where(s.succeeded[:, None], s["level"] + 1.0, 0.0)},
    observations={
        "place": Observed(lambda s: s.joint("x").qpos, noise=0.1, history=3),
        "turn": Observed(lambda s: s.body("free").xmat.flatten(1), clip=0.5),
        "force": Observed(lambda s: s.sensor("force"), scale=0.3, noise=0.2),
    },
    critic={"level": Observed(lambda s: s["level"], scale=2.0, history=2)},
    rewards={**CART.rewards, "ratio": Reward(lambda s: 1.0 / (s.elapsed != 4).float(), 0.1)},
    terminations={"away": lambda s: s.joint("x").qpos[:, 0].abs() > 0.6},
    success=lambda s: s.joint("x").qpos[:, 0].abs() < 0.2,
    action=Action(delay=(0, 3)),
    randomize={"body_mass": ss.Scale(0.5, 2.0)},
    pushes=(Push("free", linear=0.4, angular=0.2, every=(0.03, 0.1)),),
)


def pair(task: Task | str, nworld: int = 9, **options: Any) -> list[Env]:
    """An environment as it is written, and fused."""
    given: dict[str, Any] = {"nworld": nworld, "device": "cpu", "check": False, **options}
    return [make(task, "comfree", fuse=fuse, **given) for fuse in (False, True)]


def assert_same(a: Step, b: Step) -> None:
    for name, one, other in zip(Step.names(), a.parts(), b.parts(), strict=True):
        np.testing.assert_allclose(other.numpy(), one.numpy(), rtol=1e-5, atol=2e-6, err_msg=name)


@pytest.mark.parametrize("autoreset", ["same-step", "next-step", "disabled"])
def test_everything_at_once(autoreset: str) -> None:
    """History, noise, latency, pushes, models, curriculum, rewards and worlds that are not finite."""
    envs = pair(EVERYTHING, autoreset=autoreset, seed=4)
    assert torch.equal(*(env.reset()[0] for env in envs))
    for k, action in enumerate(np.random.default_rng(0).uniform(-1.5, 1.5, (25, 9, 1)).astype(np.float32)):
        if k == 6:
            action[3] = np.nan
        if k == 8:
            for env in envs:
                env.state.qvel[2] = float("nan")
        assert_same(*(env.step(torch.tensor(action)) for env in envs))
        for name, tensor in envs[0].cycle.tensors().items():
            np.testing.assert_allclose(envs[1].cycle.tensors()[name], tensor, rtol=1e-5, atol=2e-6, err_msg=name)
    assert envs[0].health() == envs[1].health() != []
    a, b = (env.log() for env in envs)
    assert a == pytest.approx(b, rel=1e-5) and a["diverged"] == a["refused_actions"] == 1.0


def test_a_world_does_not_depend_on_the_others() -> None:
    """World i of 9 is world i of 4, bit for bit."""
    many, few = (make(EVERYTHING, "comfree", nworld=n, device="cpu", check=False, fuse=True) for n in (9, 4))
    many.reset()
    few.reset()
    for action in np.random.default_rng(0).uniform(-1.0, 1.0, (25, 9, 1)).astype(np.float32):
        a, b = many.step(torch.tensor(action)), few.step(torch.tensor(action[:4]))
        assert all(map(torch.equal, (part[:4] for part in a.parts()), b.parts()))


def test_kernels_are_the_same_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What new memory holds by chance is not in their source, so that a cache of kernels is hit."""
    source, empty = Code.source, torch.empty
    found: list[list[str]] = []

    def kept(*args: Any) -> str:
        found[-1].append(source(*args))
        return found[-1][-1]

    monkeypatch.setattr(Code, "source", kept)
    for held in (0.25, -3.5):
        found.append([])
        monkeypatch.setattr(torch, "empty", lambda *a, held=held, **k: empty(*a, **k).fill_(held))
        make(EVERYTHING, "comfree", nworld=3, device="cpu", check=False, fuse=True)
    assert len(found[0]) >= 3 and found[0] == found[1]


def test_a_step_keeps_its_numbers() -> None:
    """What a step gave does not change with the next one."""
    env = pair(EVERYTHING)[1]
    first = env.step(torch.ones(9, 1))
    kept = first.clone()
    env.step(-torch.ones(9, 1))
    assert all(map(torch.equal, first.parts(), kept.parts()))


def whole(x: torch.Tensor) -> torch.Tensor:
    return (10.0 * torch.where(torch.isfinite(x), x, 1.0)).long()


def test_operators() -> None:
    """Each of those that a translation knows, also at NaN, infinity and zero."""
    terms = {
        "arithmetic": lambda x, y: torch.stack([x + y, x - y, 2.0 - x, x * y, x / y, x**2, x**3, x // y, -x, 3 * x], 1),
        "functions": lambda x, y: torch.stack(
            [torch.sin(x), torch.cos(x), torch.tan(x), torch.exp(x), torch.log(x), torch.sqrt(x), torch.tanh(x)], dim=1
        ),
        "more": lambda x, y: torch.stack(
            [torch.acos(x), torch.asin(x), torch.atan2(x, y), torch.sigmoid(x), torch.relu(x), torch.sign(x)], dim=1
        ),
        "rounding": lambda x, y: torch.stack(
            [torch.floor(x), torch.ceil(x), x.remainder(0.3), torch.fmod(x, y), 1.0 / x, torch.rsqrt(x)], dim=1
        ),
        "limits": lambda x, y: torch.stack(
            [x.clamp(-0.1, 0.2), x.clamp(min=0.0), x.clamp(max=y), torch.maximum(x, y), torch.minimum(x, y), x.abs()], 1
        ),
        "tests": lambda x, y: torch.stack(
            [x < y, x <= y, x > y, x >= y, x == y, x != y, torch.isnan(x), torch.isfinite(x), ~(x < y) | (y > 0)], dim=1
        ),
        "sums": lambda x, y: torch.cat(
            [
                torch.stack([x, y], dim=1).sum(dim=1, keepdim=True),
                torch.stack([x, y, x], dim=1).mean(dim=1)[:, None],
                torch.stack([x, y], dim=1).amax(dim=1)[:, None],
                torch.stack([x, y], dim=1).amin(dim=-1)[:, None],
                torch.linalg.norm(torch.stack([x, y], dim=1), dim=1)[:, None],
                torch.stack([x > 0, y > 0], dim=1).any(dim=1)[:, None].float(),
                torch.stack([x > 0, y > 0], dim=1).all(dim=1)[:, None].float(),
                torch.stack([x > 0, y > 0], dim=1).sum(dim=1)[:, None].float(),
            ],
            dim=1,
        ),
        "rotations": lambda x, y: torch.cat(
            [
                rotate(quat_of_yaw(x), torch.stack([x, y, y], dim=1)),
                rotate_back(quat_of_yaw(y), torch.stack([x, y, y], dim=1).flip(1)),
                torch.stack(
                    [yaw_of(quat_of_yaw(x)), wrapped(9.0 * y), angle_between(quat_of_yaw(x), quat_of_yaw(y))], 1
                ),
            ],
            dim=1,
        ),
        "whole": lambda x, y: torch.stack(
            [whole(x) // 3, 2 - whole(x) // -4, torch.where(x > 0, 1, 2), whole(x) * 2], 1
        ),
    }
    values = torch.tensor([0.0, -0.0, 0.25, -0.75, 0.999, 1.5, -3.0, float("nan"), float("inf"), float("-inf"), 1e-30])
    x, y = (grid.reshape(-1) for grid in torch.meshgrid(values, values, indexing="ij"))
    observations = {
        name: Observed(lambda s, term=term: term(s["x"], s["y"]), clip=float("inf")) for name, term in terms.items()
    }
    task = dataclasses.replace(CART, memory={"x": (), "y": ()}, start=lambda s: {}, observations=observations)
    envs = pair(task, nworld=len(x))
    for env in envs:
        env.state["x"].copy_(x)
        env.state["y"].copy_(y)
    found = [env.step(torch.zeros(len(x), 1)).final.numpy() for env in envs]
    for name, place in envs[0].observations.items():
        np.testing.assert_allclose(found[1][:, place], found[0][:, place], rtol=2e-6, atol=2e-6, err_msg=name)


@pytest.mark.parametrize(
    ("term", "said"),
    [
        (lambda s: s.qpos[:, 0] - s.qpos[:, 0].mean(), "comes out otherwise in 'judge': does a term read other worlds"),
        (lambda s: torch.cumsum(s.qpos, dim=1)[:, 0], "torch's cumsum"),
        (lambda s: s.qpos[:, 0].double(), "numbers of torch.float64"),
        (lambda s: s.qpos[:, 0] * OWN, "a tensor of shape (1,) that is not of the state"),
        (lambda s: s.qpos[:, 0] * s.qpos[0, 0].item(), "torch's _local_scalar_dense"),
    ],
)
def test_what_cannot_be_translated_is_left_as_it_is(term: Any, said: str) -> None:
    task = dataclasses.replace(CART, observations={"o": Observed(term)})
    env = make(task, "comfree", nworld=5, device="cpu")
    env.reset()
    assert not env.fused
    assert fused(env.cycle, always=False) is None
    with pytest.raises(ss.Unsupported) as error:
        fused(env.cycle, always=True)
    assert said in str(error.value) and "task 'cart' cannot be translated" in str(error.value)
    assert torch.isfinite(env.step(torch.zeros(5, 1)).observation).all()


OWN = torch.ones(1)


@pytest.mark.parametrize(
    "task", ["push-t", "cube-lift", "stack-two", "peg-in-hole", "hand-cube", "go1-velocity", "g1-velocity"]
)
def test_tasks_take_few_launches(task: str) -> None:
    """Beside the timesteps, however many terms a task has; and the same numbers."""
    envs = pair(task, nworld=6)
    for env in envs:
        env.reset()
    for k in range(6):
        if k == 4:
            for env in envs:
                env.elapsed = torch.tensor([10**6, 1, 2, 10**6, 3, 4])
        action = torch.full((6, envs[0].naction), 0.1 * k)
        a, b = (env.step(action) for env in envs)
        if k < 2:
            assert_same(a, b)
        assert torch.equal(a.done, b.done)
    assert count(envs[1]).total <= 30
