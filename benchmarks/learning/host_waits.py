"""What the host does in a control step on a GPU: calls of CUDA, and which of them wait for the device.

    python benchmarks/learning/host_waits.py --task go1-velocity --physics cone-sweep --out FILE.json

Control steps with actions that are on the device already, with rewards, observations, ends and starts of episodes,
under PyTorch's profiler. The file has how often each call of CUDA was made per control step. It ends with
an error if one of them waits.
"""

import collections
import dataclasses
import pathlib
import re
import sys

import torch
import tyro
from torch.profiler import ProfilerActivity, profile

from stickslip import envs, files, provenance
from stickslip.errors import DeviceError

WAITS = re.compile("Synchronize|DtoH|Free|Malloc$|^cudaMemcpy$")
"""Calls that wait for the device, or may."""


@dataclasses.dataclass(frozen=True)
class Options:
    """What to profile."""

    out: pathlib.Path
    """JSON file"""
    task: str = "go1-velocity"
    """name of a task"""
    physics: str = "cone-sweep"
    """as for `stickslip train`"""
    nworld: int = 4096
    """worlds"""
    steps: int = 1100
    """control steps; enough for every world to begin a new episode"""


def main(options: Options) -> int:
    """Profile; 0 if nothing waits."""
    if not torch.cuda.is_available():
        raise DeviceError("no CUDA device: calls of CUDA are counted; run it on a machine with a GPU")
    env = envs.make(options.task, options.physics, nworld=options.nworld, device="cuda:0", seed=0, check=False)
    actions = torch.rand((8, env.nworld, env.naction), device="cuda:0") * 2.0 - 1.0
    for action in actions:
        env.step(action)
    env.log()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as found:
        for step in range(options.steps):
            env.step(actions[step % len(actions)])
    ended = env.log()["episodes"]
    calls = collections.Counter[str]()
    copies = 0
    for event in found.events():
        if re.match(r"cuda?[A-Z]", event.name):
            calls[event.name] += 1
        copies += "Memcpy DtoH" in event.name
    # the profiler itself waits once, when it ends
    waits = {name: count for name, count in calls.items() if WAITS.search(name) and count > 2}
    files.write_json(
        options.out,
        {
            "task": options.task,
            "physics": options.physics,
            "nworld": options.nworld,
            "steps": options.steps,
            "episodes_ended": ended,
            "calls_per_step": {name: count / options.steps for name, count in sorted(calls.items())},
            "copies_to_the_host": copies,
            "waits": waits,
            "machine": provenance.machine("cuda:0"),
            "versions": provenance.versions(),
        },
    )
    print(f"{dict(calls)}; copies to the host {copies}; waits {waits}; episodes ended {ended:g}")
    return 1 if waits or copies else 0


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Options, description=__doc__)))
