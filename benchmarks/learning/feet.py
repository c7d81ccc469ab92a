"""How feet hold on under several physics: what a policy of go1-velocity does with them.

    python benchmarks/learning/feet.py --out DIR/feet.json go1-velocity out/train/go1-velocity-comfree

Each policy, a task's name for the one that comes with it or a folder of `stickslip train`, walks for six seconds in 64
worlds under each physics, with the model as it is. The first second is left out, and worlds that have fallen.
"""

import dataclasses
import pathlib
import sys
from typing import Annotated, Any

import torch
import tyro

from stickslip import files, provenance
from stickslip.envs.factory import make
from stickslip.envs.state import rotate_back
from stickslip.envs.tasks import load_task
from stickslip.envs.tasks.go1_velocity import ROBOT
from stickslip.learning.find import policy as find_policy
from stickslip.learning.policy import Policy

TASK = "go1-velocity"
NWORLD, STEPS, FIRST = 64, 300, 50
UPRIGHT = 0.2
"""Height of the base above which a world has not fallen [m]."""
FORWARDS = 0.5
"""Commanded speed from which on the speed forwards is compared [m/s]."""


@dataclasses.dataclass(frozen=True)
class Options:
    """What walks, and under what."""

    policies: Annotated[tuple[str, ...], tyro.conf.Positional]
    """the task's name, or folders of `stickslip train`"""
    out: pathlib.Path
    """JSON file"""
    physics: tuple[str, ...] = ("cone-sweep", "mujoco", "comfree")
    """each for all policies"""


def main(options: Options) -> int:
    """Measure, print and store."""
    rows = []
    for name in options.policies:
        policy = find_policy(name)
        for physics in options.physics:
            rows.append({"trained with": policy.about["physics"], "physics": physics, **walk(policy, physics)})
            print(
                ", ".join(f"{key} {one:.3f}" if isinstance(one, float) else str(one) for key, one in rows[-1].items())
            )
    about = {"task": TASK, "nworld": NWORLD, "control_steps": STEPS - FIRST}
    machine = {"machine": provenance.machine("cpu"), "versions": provenance.versions()}
    files.write_json(options.out, {"format": 1, **about, **machine, "rows": rows}, flat_lists=True)
    return 0


def walk(policy: Policy, physics: str) -> dict[str, Any]:
    """Means over feet that touch the floor, and over worlds that are to walk forwards."""
    task = dataclasses.replace(load_task(TASK), randomize={}, gains=None, pushes=())
    env = make(task, physics, nworld=NWORLD, device="cpu", seed=1, autoreset="disabled", check=False)
    act, s = policy.on("cpu"), env.state
    observation = env.reset()[0]
    slips, depths, speeds, commands, upright = [], [], [], [], []
    for k in range(STEPS):
        observation = env.step(act(observation)).observation
        if k >= FIRST:
            up = s.qpos[:, 2] > UPRIGHT
            down = (s["ground"] > 0.0) & up[:, None]
            slips.append(s["foot speed"][down])
            depths.append(-ROBOT.heights(s)[down])
            walking = up & (s["command"][:, 0] > FORWARDS)
            speeds.append(rotate_back(s.qpos[:, 3:7], s.qvel[:, :3])[walking, 0])
            commands.append(s["command"][walking, 0])
            upright.append(up.float())
    found = {
        "foot_speed_m_s": slips,
        "foot_depth_m": depths,
        "speed_m_s": speeds,
        "commanded_m_s": commands,
        "upright": upright,
    }
    return {name: float(torch.cat(parts).mean()) for name, parts in found.items()}


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main(tyro.cli(Options, description=__doc__)))
