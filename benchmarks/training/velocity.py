"""Velocity training of mjlab with MuJoCo Warp and with the physics of stickslip: reward against wall time.

    python benchmarks/training/velocity.py --tasks Go1 G1 --device cuda:0 --out FOLDER

Every run (task, physics, seed) is a process of its own, with mjlab's own configuration and PPO. The clock starts when
all is compiled and captured. `velocity.json` is written after each run, and what it has is not run again;
`velocity.png` is drawn at the end. Needs mjlab: see docs/mjlab.md.
"""

import concurrent.futures
import contextlib
import dataclasses
import datetime
import io
import multiprocessing
import pathlib
import statistics
import sys
import tempfile
import time
from typing import Any, Literal

import tyro

import stickslip.mjlab
from stickslip import provenance
from stickslip.bench.result import Record, Result, load
from stickslip.errors import InputError

NAME = "mjlab-velocity"
TASKS = {name: f"Mjlab-Velocity-Flat-Unitree-{name}" for name in ("Go1", "G1")}
PACKAGES = ("mjlab", "torch", "rsl-rl-lib")


@dataclasses.dataclass(frozen=True)
class Settings:
    """How long and how large a run is.

    Attributes:
        num_envs: worlds
        iterations: most iterations of PPO
        seconds: wall time after which a run ends, at the end of an iteration
        steps: environment steps of an iteration in each world; None: mjlab's own number
    """

    num_envs: int = 4096
    iterations: int = 1000
    seconds: float = 300.0
    steps: int | None = None


@dataclasses.dataclass(frozen=True)
class Options:
    """What to run.

    Attributes:
        out: folder of velocity.json and velocity.png
        tasks: robots
        physics: as on a command line: "cone-sweep:substeps=4"
        seeds: a run each
        device: "cpu", "cuda:0", ...
        settings: of every run
        again: measure again what the file has
    """

    out: pathlib.Path
    tasks: tuple[Literal["Go1", "G1"], ...] = ("Go1", "G1")
    physics: tuple[str, ...] = ("mujoco", "cone-sweep", "comfree")
    seeds: tuple[int, ...] = (1,)
    device: str = "cuda:0"
    settings: tyro.conf.OmitArgPrefixes[Settings] = dataclasses.field(default_factory=Settings)
    again: bool = False


class _Over(Exception):
    """The time of a run is used up."""


def train(task: str, physics: str, seed: int, device: str, settings: Settings) -> dict[str, Any]:
    """One run in this process: parameters that ran, metrics and series by iteration."""
    began = time.perf_counter()
    used = stickslip.mjlab.use(physics)
    import mjlab.tasks  # noqa: F401 - registers the tasks
    import torch
    from mjlab.envs import ManagerBasedRlEnv
    from mjlab.rl import MjlabOnPolicyRunner, RslRlVecEnvWrapper
    from mjlab.tasks.registry import load_env_cfg, load_rl_cfg
    from mjlab.utils.torch import configure_torch_backends

    from stickslip.mjlab import backend

    configure_torch_backends()
    env_cfg, agent = load_env_cfg(TASKS[task]), load_rl_cfg(TASKS[task])
    env_cfg.scene.num_envs, env_cfg.seed = settings.num_envs, seed
    agent.seed, agent.logger, agent.upload_model = seed, "tensorboard", False
    agent.num_steps_per_env = settings.steps or agent.num_steps_per_env
    env = ManagerBasedRlEnv(cfg=env_cfg, device=device)
    choice = backend.chosen()
    if backend.owner_of(env.sim.wp_model) is not choice.module:
        raise RuntimeError(f"{physics} was asked for, and the model is a {type(env.sim.wp_model)}")
    wrapped = RslRlVecEnvWrapper(env, clip_actions=agent.clip_actions)
    for _ in range(2):  # what is compiled at first use
        wrapped.step(torch.zeros(settings.num_envs, wrapped.num_actions, device=device))
    env.reset(seed=seed)
    series: dict[str, list[float]] = {"time": [], "reward": [], "episode_length": [], "collect": [], "learn": []}
    with tempfile.TemporaryDirectory() as logs:
        runner = MjlabOnPolicyRunner(wrapped, dataclasses.asdict(agent), logs, device)
        runner.save = lambda *_args, **_options: None
        start = [0.0]

        def log(*, collect_time: float, learn_time: float, **_rest: Any) -> None:
            logger = runner.logger
            series["time"].append(time.perf_counter() - start[0])
            series["collect"].append(collect_time)
            series["learn"].append(learn_time)
            series["reward"].append(statistics.mean(logger.rewbuffer) if logger.rewbuffer else float("nan"))
            series["episode_length"].append(statistics.mean(logger.lenbuffer) if logger.lenbuffer else float("nan"))
            if series["time"][-1] > settings.seconds:
                raise _Over

        runner.logger.log = log
        setup = time.perf_counter() - began
        start[0] = time.perf_counter()
        with contextlib.suppress(_Over):
            runner.learn(settings.iterations, init_at_random_ep_len=True)
    steps = settings.num_envs * agent.num_steps_per_env
    count = len(series["time"])
    last = series["reward"][-max(1, count // 10) :]
    return {
        "physics": used.physics,
        "parameters": dict(choice.parameters),
        "settings": {"steps": agent.num_steps_per_env, "timestep": env_cfg.sim.mujoco.timestep,
                     "decimation": env_cfg.decimation, "graph": env.sim.use_cuda_graph},
        "outcome": {
            "metrics": {
                "reward": statistics.mean(last),
                "iterations": count,
                "seconds": series["time"][-1],
                "setup_seconds": setup,
                "env_steps_per_second": steps * count / series["time"][-1],
                "env_steps_per_second_of_collection": steps * count / sum(series["collect"]),
            },
            "series": series,
            "problems": problems(env.sim.wp_data),
        },
    }  # fmt: skip


def problems(d: Any) -> list[str]:
    """What was dropped, and worlds that are not finite."""
    if hasattr(d, "health"):
        health = d.health()
        return [] if health.ok else list(health.messages)
    from mujoco_warp import OverflowType

    slow = int(OverflowType.ITERATIONS | OverflowType.LS_ITERATIONS)  # the solver's limits, which mjlab sets low
    worlds = int((d.overflow.numpy() & ~slow != 0).sum())
    return [f"a buffer was too small in {worlds} worlds since their last reset"] if worlds else []


def measure(options: Options) -> Result:
    """Every run that the file does not have; it is stored after each."""
    stickslip.mjlab.use("mujoco")  # versions, before anything is run
    cases = [f"{task}, seed {seed}" for seed in options.seeds for task in options.tasks]
    path = options.out / "velocity.json"
    result = Result(
        experiment=NAME,
        quick=options.settings.num_envs < 1024,
        seed=options.seeds[0],
        device=options.device,
        settings=dataclasses.asdict(options.settings),
        methods={},
        cases=cases,
        machine=provenance.machine(options.device),
        versions=provenance.versions() | {name: provenance.package_version(name) for name in PACKAGES},
    )
    if path.exists():
        stored = load(path)
        result.seed, stored_cases = stored.seed, stored.cases
        result.cases = [*stored_cases, *(case for case in cases if case not in stored_cases)]
        stored.cases = result.cases
        if result.differences(stored):
            raise InputError(f"{path} has other {'; '.join(result.differences(stored))}: choose another folder")
        result.methods, result.outcomes = stored.methods, stored.outcomes
    spawn = multiprocessing.get_context("spawn")
    for seed in options.seeds:
        for task in options.tasks:
            for physics in options.physics:
                case = f"{task}, seed {seed}"
                if result.has(physics, case) and not options.again:
                    continue
                print(f"{case}: {physics} ...", flush=True)
                with concurrent.futures.ProcessPoolExecutor(1, spawn) as pool:
                    run = pool.submit(_quietly, task, physics, seed, options.device, options.settings).result()
                _add(result, physics, case, run)
                result.save(path)
                found = run["outcome"]["metrics"]
                print("  " + ", ".join(f"{key} {value:.4g}" for key, value in found.items()), flush=True)
                print("".join(f"  {problem}\n" for problem in run["outcome"]["problems"]), end="", flush=True)
    return result


def _quietly(*args: Any) -> dict[str, Any]:
    """`train` without mjlab's tables; with what it printed where it fails."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            return train(*args)
    except BaseException:
        print(printed.getvalue(), file=sys.stderr)
        raise


def _add(result: Result, physics: str, case: str, run: dict[str, Any]) -> None:
    """A run with its record: parameters, settings that mjlab chose, digest of the code."""
    from stickslip.mjlab import backend

    module = backend.choice_of(physics, {}).module.__name__
    modules = ["stickslip.mjlab.backend", *([module] if module.startswith("stickslip") else [])]
    seconds = sum(run["outcome"]["metrics"][name] for name in ("seconds", "setup_seconds"))
    known = result.methods.get(physics)
    result.methods[physics] = Record(
        name=run["physics"].partition(":")[0],
        parameters={**run["parameters"], **run["settings"]},
        modules=modules,
        source=provenance.digest(modules),
        time=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        seconds=seconds + ((known.seconds or 0.0) if known else 0.0),
    )
    result.outcomes.setdefault(physics, {})[case] = run["outcome"]


def draw(result: Result, path: pathlib.Path) -> pathlib.Path:
    """Reward against wall time: a panel for each robot, a line for each run."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from stickslip.physics import registry

    tasks = list(dict.fromkeys(case.partition(",")[0] for case in result.cases))
    figure, panels = plt.subplots(1, len(tasks), figsize=(5.5 * len(tasks), 4), squeeze=False, layout="constrained")
    for panel, task in zip(panels[0], tasks, strict=True):
        for label in result.methods:
            colour, named = registry.find(label.partition(":")[0]).colour, False
            for case in result.cases:
                if case.startswith(f"{task},") and result.has(label, case):
                    minutes = result.series(label, case, "time") / 60.0
                    reward = result.series(label, case, "reward")
                    panel.plot(minutes, reward, color=colour, lw=1.5, label=None if named else label)
                    named = True
        panel.set(title=f"{task}, {result.settings['num_envs']} worlds", xlabel="wall time [min]")
        panel.grid(alpha=0.3)
    panels[0, 0].set_ylabel("reward of an episode, mean of the last 100")
    panels[0, 0].legend()
    figure.suptitle(f"mjlab {result.versions['mjlab']} on {result.machine['device']}")
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path


def main(args: list[str] | None = None) -> None:
    """Run what is missing and draw."""
    options = tyro.cli(Options, args=args, description=__doc__)
    result = measure(options)
    print(draw(result, options.out / "velocity.png"))


if __name__ == "__main__":
    main()
