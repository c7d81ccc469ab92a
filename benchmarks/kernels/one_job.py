"""A job of compile_for.py, in a process of its own: what is compiled for a scene, a task or a case of an experiment.

    python benchmarks/kernels/one_job.py RECORD JOB

JOB is JSON of a `Job`. What came of it is written to the file RECORD. WARP_CACHE_PATH names the folder of the kernels.
"""

import dataclasses
import json
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np

from stickslip import files

DEVICE = "cuda:0"
SHORTER: dict[str, dict[str, Any]] = {
    "env-steps": {"steps": 1, "batches": 1, "warm_up": 1},
    "rollouts": {"repeats": 1},
    "soak": {"world_steps": 1 << 16, "every": 4},
    "speed": {"after": 1, "steps": 2, "chunk": 1, "stage_repeats": 3},
}
"""Settings of experiments that make a run shorter and need the same kernels."""


@dataclasses.dataclass(frozen=True)
class Job:
    """What a process compiles.

    Attributes:
        kind: "scene", "task" or "experiment"
        name: of the scene, task or experiment
        physics: with its parameters
        nworld: number of worlds, of a scene
        case: of an experiment
        arch: compute capability of the GPU, such as 90
    """

    kind: str
    name: str
    physics: str
    nworld: int = 0
    case: str = ""
    arch: int = 90

    def __str__(self) -> str:
        what = self.case or (f"{self.nworld} worlds" if self.nworld else "")
        return ", ".join(part for part in (self.name, what, self.physics) if part)


def scene(job: Job) -> None:
    """What a simulation is used for."""
    import stickslip as ss
    from stickslip import spec
    from stickslip.errors import Unsupported
    from stickslip.physics.registry import PHYSICS

    physics = spec.resolve(job.physics, PHYSICS, "physics")
    sim = ss.Simulation(job.name, physics, nworld=job.nworld, device=DEVICE)
    sim.compile()
    sim.step(2)
    sim.step(1, check=True)
    first = np.arange(job.nworld) == 0
    for mask in (None, first):
        sim.reset(mask)
        try:
            sim.randomize(mask, body_mass=ss.Scale(0.7, 1.4), geom_friction=ss.Scale(0.5, 1.5))
        except Unsupported as error:
            print(error)
    sim.set_state(sim.get_state())
    sim.forward()
    sim.contacts()
    sim.contacts(device=True)
    sim.contact_count()
    sim.health()
    with sim.watch():
        sim.step(2)


def task(job: Job) -> None:
    """What `stickslip train` runs, worlds that it learns from and worlds that judge; and the task as others have it."""
    import stand_in

    stand_in.install_torch()
    from stickslip import spec
    from stickslip.cli.learn import JUDGED
    from stickslip.envs.factory import make
    from stickslip.envs.tasks import load_task
    from stickslip.learning import episodes
    from stickslip.learning.settings import settings_of
    from stickslip.physics.registry import PHYSICS

    chosen = load_task(job.name)
    physics = spec.resolve(job.physics, PHYSICS, "physics")
    nworld = settings_of(chosen, {}).worlds(cuda=True)
    trained = [chosen] if chosen.practice is None else [chosen, chosen.in_training()]
    for env, seed in (
        *((make(one, physics, nworld=nworld, device=DEVICE, check=False), None) for one in trained),
        (episodes.environment(chosen, physics, JUDGED, device=DEVICE, seed=1), 1),
    ):
        env.reset(seed=seed)
        env.spread()
        env.step(env.state.random.uniform(-1.0, 1.0, env.naction))
        env.log()
        env.health()


def experiment(job: Job) -> None:
    """A case of `stickslip bench`, with the settings of a GPU."""
    from stickslip import bench
    from stickslip.bench import methods
    from stickslip.bench.experiment import Trial

    found = bench.EXPERIMENTS[job.name]
    if job.name == "env-steps":
        import stand_in

        stand_in.install_torch()
    whole = found.cases(found.make_settings(device=DEVICE))
    settings = found.make_settings(SHORTER.get(job.name), device=DEVICE)
    case = dict(zip(whole, found.cases(settings).values(), strict=True))[job.case]
    found.measure(case, methods.resolve([job.physics])[job.physics].subject, settings, Trial(DEVICE))


def main(record: Path, job: Job) -> int:
    """Compile, and tell what was loaded; 0 unless something went wrong."""
    import stand_in

    from stickslip.errors import Unsupported

    begun, error, unsupported = time.monotonic(), None, None
    try:
        stand_in.install(job.arch)
        {"scene": scene, "task": task, "experiment": experiment}[job.kind](job)
    except Unsupported as reason:  # there is nothing to compile
        print(reason)
        unsupported = str(reason)
    except Exception as problem:
        traceback.print_exc()
        error = f"{type(problem).__name__}: {problem}".splitlines()[0]
    found = {
        "error": error,
        "unsupported": unsupported,
        "seconds": round(time.monotonic() - begun, 1),
        "compiled": sum(stand_in.loaded.values()),
        "modules": sorted(stand_in.loaded),
    }
    files.write_json(record, found)
    return 1 if error else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Job(**json.loads(sys.argv[2]))))
