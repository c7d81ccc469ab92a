"""make: an environment from the name of a task; make_group: one of several physics."""

from collections.abc import Sequence
from typing import Any

import mujoco

from stickslip import spec
from stickslip.envs.env import Autoreset, Env
from stickslip.envs.group import EnvGroup
from stickslip.envs.task import Task
from stickslip.envs.tasks import load_task
from stickslip.errors import InputError
from stickslip.physics.base import Physics
from stickslip.physics.registry import DEFAULT, PHYSICS
from stickslip.simulation import Simulation


def make(
    task: str | Task,
    physics: Physics[Any, Any] | str | None = None,
    *,
    nworld: int = 1,
    device: str | None = None,
    seed: int = 0,
    autoreset: Autoreset = "same-step",
    threads: int = 1,
    nconmax: int | None = None,
    njmax: int | None = None,
    check: bool | None = None,
    record: bool | None = None,
    fuse: bool | None = None,
) -> Env:
    """An environment.

    Args:
        task: a task's name (`stickslip envs` lists them), a Python file that defines one, or a `Task`
        physics: an instance, or its name with parameters, as in "cone-sweep:substeps=4"; the default if None
        nworld: number of worlds
        device: the first GPU if None, else the CPU
        seed: of all random numbers
        autoreset: when a world that has ended starts again, see `Env`
        threads: on a CPU, threads that share the worlds
        nconmax, njmax: sizes of buffers, as for `Simulation`
        check, record, fuse: see `Env`
    """
    chosen = load_task(task) if isinstance(task, str) else task
    named = DEFAULT if physics is None else physics
    method = spec.resolve(named, PHYSICS, "physics") if isinstance(named, str) else named
    sim = Simulation(
        model_of(chosen),
        method,
        nworld=nworld,
        device=device,
        timestep=chosen.timestep,
        nconmax=nconmax,
        njmax=njmax,
        threads=threads,
    )
    env = Env(sim, chosen, seed=seed, autoreset=autoreset, check=check, record=record, fuse=fuse)
    sim.compile()
    return env


def make_group(
    task: str | Task, physics: Sequence[Physics[Any, Any] | str], *, nworld: int = 2, seed: int = 0, **options: Any
) -> EnvGroup:
    """An environment whose worlds are shared out over several physics; options are those of `make`."""
    n = len(physics)
    if not n or nworld < n:
        raise InputError(f"nworld is {nworld}: each of {n} physics needs a world")
    chosen = load_task(task) if isinstance(task, str) else task
    sizes = [nworld // n + (i < nworld % n) for i in range(n)]
    return EnvGroup(
        [
            make(chosen, each, nworld=size, seed=seed + i, **options)
            for i, (each, size) in enumerate(zip(physics, sizes, strict=True))
        ]
    )


def model_of(task: Task) -> mujoco.MjModel:
    """The model of a task."""
    built = task.build()
    return built.compile() if isinstance(built, mujoco.MjSpec) else built
