"""A tiny task of the tests: a cart on a rail, pushed by a motor, that is to stay in the middle."""

import dataclasses
from typing import Any

import mujoco
import torch

import stickslip as ss
from stickslip.envs.env import Env
from stickslip.envs.factory import make
from stickslip.envs.state import State
from stickslip.envs.task import Action, Observed, Reward, Task

XML = """
<mujoco>
  <option timestep="0.01" gravity="0 0 0"/>
  <worldbody>
    <body name="cart"><joint name="x" type="slide" axis="1 0 0" damping="0.5"/>
      <geom size="0.1" mass="1" contype="0" conaffinity="0"/></body>
  </worldbody>
  <actuator><motor name="push" joint="x" ctrlrange="-2 2"/></actuator>
  <sensor><jointpos name="where" joint="x"/><actuatorfrc name="force" actuator="push"/></sensor>
</mujoco>
"""


def start(s: State) -> dict[str, torch.Tensor]:
    """Somewhere on the rail, with a velocity."""
    return {"qpos": s.random.uniform(-0.5, 0.5), "qvel": s.random.normal(1, 0.1), "begun": s.elapsed.float()}


CART = Task(
    name="cart",
    summary="a cart that is to stay in the middle",
    build=lambda: mujoco.MjModel.from_xml_string(XML),
    start=start,
    memory={"begun": ()},
    observations={
        "place": Observed(lambda s: s.qpos[:, 0]),
        "velocity": Observed(lambda s: s.qvel, scale=2.0),
    },
    rewards={
        "middle": Reward(lambda s: 1.0 - s.qpos[:, 0] ** 2, 2.0),
        "still": Reward(lambda s: (s.qvel[:, 0].abs() < 0.1).float(), 0.5, once=True),
    },
    terminations={"away": lambda s: s.qpos[:, 0].abs() > 1.0},
    success=lambda s: s.qpos[:, 0].abs() < 0.2,
    timestep=0.01,
    decimation=2,
    episode=0.2,
)


def env_of(nworld: int = 3, *, physics: str = "comfree", **changes: Any) -> Env:
    """An environment of the task, with other values of its attributes, or of the arguments of `make`."""
    given = {key: changes.pop(key) for key in list(changes) if key in ("seed", "autoreset", "check", "threads")}
    return make(dataclasses.replace(CART, **changes), physics, nworld=nworld, device="cpu", **given)


def sim_of(nworld: int, physics: str = "comfree") -> ss.Simulation:
    """The same worlds without a task."""
    return ss.Simulation(mujoco.MjModel.from_xml_string(XML), ss.PHYSICS[physics](), nworld=nworld, device="cpu")


DELAYED = Action(delay=(3, 3))
