"""`stickslip retarget`: motions on a robot, a table of errors, a filmstrip and a film."""

import dataclasses
import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import stickslip as ss
from stickslip import files, mjcf, npz, spec
from stickslip.cli.output import make_folder
from stickslip.cli.plan_store import Store
from stickslip.errors import InputError, StickslipError
from stickslip.mpc.retarget import files as motions
from stickslip.mpc.retarget import film, prepare, rollout, support
from stickslip.mpc.retarget.batch import check_physics
from stickslip.mpc.retarget.motion import Motion
from stickslip.mpc.retarget.problem import Problem, compile_problem
from stickslip.mpc.retarget.rollout import Retargeted
from stickslip.mpc.retarget.settings import Settings
from stickslip.physics.base import Physics
from stickslip.progress import progress_bar, showing_log
from stickslip.provenance import machine, versions
from stickslip.simulation import resolve_device

if TYPE_CHECKING:
    from stickslip.cli.commands.retarget import Retarget

FORMAT = 1
"""Version of the JSON files; it is raised when their meaning changes."""
ON_GPU = {"samples": 2048, "iterations": 16}
ON_CPU = {"samples": 192, "iterations": 8}
"""What is not given, by device."""
MISSING = 0.01
"""Force that contacts cannot give, in the mean, from which it is told [weights of the robot]."""


def run(order: "Retarget", console: Console) -> bool:
    """Retarget all motions; False if one was not followed to its end. One that cannot be run does not end the rest."""
    if not order.motions:
        raise InputError("give a motion or more; `stickslip motions` lists them")
    if order.trials < 1 or order.seed < 0:
        raise InputError(f"trials is {order.trials} and seed {order.seed}: they must be at least 1 and 0")
    physics = spec.resolve(order.physics, ss.PHYSICS, "physics")
    check_physics(physics)
    alone = len(order.motions) == 1
    good = True
    for name in order.motions:
        try:
            good &= _retarget(name, order, physics, console)
        except StickslipError as error:
            if alone:
                raise
            console.print(f"[red]{escape(name)}:[/] {escape(str(error))}", soft_wrap=True)
            good = False
    return good


def _retarget(name: str, order: "Retarget", physics: Physics[Any, Any], console: Console) -> bool:
    """One motion with all its seeds."""
    with progress_bar(console) as bar:
        task = bar.add_task(f"{Path(name).name}: inverse kinematics", total=1.0, visible=False)
        motion, robot, options = prepare.load(
            name,
            robot=order.robot,
            servo=order.servo,
            self_collision=order.self_collision,
            box=order.box,
            fps=order.fps,
            quat=order.quat,
            begin=order.begin,
            end=order.end,
            ground=order.ground,
            progress=lambda share: bar.update(task, completed=share, visible=True),
        )
    problem = compile_problem(robot, motion, options=options, dt=order.dt, plant_dt=order.plant_dt)
    settings = _settings(order, motion)
    make_folder(order.out)
    stem = f"retarget-{motion.name}-{robot.name}-{physics.name}"
    store = Store(order.out / f"{stem}.json", _head(order, problem, settings, physics), order.again)
    console.print(
        f"[bold]{escape(motion.name)}[/] on {robot.name}: {motion.duration:.1f} s, {problem.steps} time steps; "
        f"plans with {escape(order.physics)}, plant MuJoCo in C."
    )
    for note in (*motion.notes, *_support_notes(problem)):
        console.print(f"note: {escape(note)}", soft_wrap=True)
    wanted = [seed for seed in range(order.seed, order.seed + order.trials) if (motion.name, seed) not in store.done]
    written: list[Path] = []
    with showing_log(console), progress_bar(console) as bar:
        for place, seed in enumerate(wanted, 1):
            what = f"{motion.name}, run {place} of {len(wanted)}"
            task = bar.add_task(f"{what}: compiling", total=None)

            def tell(where: rollout.Progress, task: Any = task, what: str = what) -> None:
                told = f"{what}: {where.rounds} rounds, base off {1e3 * where.away:.0f} mm"
                bar.update(task, total=where.ticks, completed=where.tick, description=told)

            state = order.out / f"{stem}-{seed}.state.npz"
            if order.again:
                state.unlink(missing_ok=True)
            (ran,) = rollout.run(
                problem, physics, settings, device=order.device, seeds=[seed], keep_going=order.keep_going,
                state=state, progress=tell,
            )  # fmt: skip
            written += _write(ran, order, stem, first=place == 1)
            store.add({"object": motion.name, "seed": seed, **prepare.row(ran)})
            bar.remove_task(task)
    rows = [store.done[motion.name, seed] for seed in range(order.seed, order.seed + order.trials)]
    console.print(_table(rows))
    ends = ", ".join(f"seed {one['seed']}: {one['reason']} after {one['steps'] * problem.dt:.2f} s" for one in rows)
    console.print(ends, soft_wrap=True)
    for one in rows:
        for note in one["notes"]:
            console.print(f"seed {one['seed']}: {escape(note)}", soft_wrap=True)
    for path in written:
        console.print(f"Wrote {escape(str(path))}", soft_wrap=True)
    console.print(f"Results: {escape(str(store.path))}", soft_wrap=True)
    return all(one["reason"] == rollout.DONE for one in rows)


def _support_notes(problem: Problem) -> list[str]:
    """A note if contacts could not produce the motion as it is."""
    if problem.motion.base is None:
        return []
    missing = support.missing(problem.motion, problem.mjm, problem.robot.base)
    if missing.mean() < MISSING:
        return []
    return [
        f"contacts cannot give all of the force it needs: {missing.mean():.2f} times the robot's weight is missing "
        f"in the mean, {missing.max():.1f} times at {missing.argmax() * problem.dt:.2f} s"
    ]


def _settings(order: "Retarget", motion: Motion) -> Settings:
    usual = ON_GPU if resolve_device(order.device).is_cuda else ON_CPU
    given = {name: getattr(order, name) for name in usual if getattr(order, name) is not None}
    chosen: dict[str, Any] = {**usual, **given}
    guidance = order.guidance if order.guidance is not None else float(bool(motion.objects))
    return Settings(horizon=order.horizon, dt=order.dt, improvement=order.improvement, guidance=guidance, **chosen)


def _head(order: "Retarget", problem: Problem, settings: Settings, physics: Physics[Any, Any]) -> dict[str, Any]:
    """What was run with what, for the record."""
    parameters: Any = physics
    reference = hashlib.sha256(np.ascontiguousarray(problem.reference.qpos).tobytes()).hexdigest()[:12]
    return {
        "format": FORMAT,
        "robot": problem.robot.name,
        "options": dataclasses.asdict(problem.options),
        "physics": {"name": physics.name, "parameters": dataclasses.asdict(parameters)},
        "settings": dataclasses.asdict(settings),
        "weights": dataclasses.asdict(problem.weights),
        "plant_dt": float(problem.mjm.opt.timestep),
        "keep_going": order.keep_going,
        "motion": {"steps": problem.steps, "source": Path(problem.motion.source).name, "digest": reference},
        "machine": machine(resolve_device(order.device).alias),
        "versions": versions(),
    }


def _with_model(path: Path, mjm: mujoco.MjModel) -> Path:
    """Put the model into the file of a run, so that `stickslip view` needs nothing else."""
    with npz.opened(path, "a retargeted motion") as run:
        kept = run.read()
    return npz.write(path, {**kept, "model": np.frombuffer(mjcf.to_bytes(mjm), dtype=np.uint8)})


def _write(ran: Retargeted, order: "Retarget", stem: str, first: bool) -> list[Path]:
    """Write what the robot did, and pictures of the first run."""
    path = order.out / f"{stem}-{ran.seed}.npz"
    written = [_with_model(rollout.save(ran, path), ran.problem.mjm)]
    if order.export:
        own = rollout.motion_of(ran)
        suffix = ".csv" if order.export == "lafan1" else ".npz"
        target = order.out / f"{stem}-{ran.seed}-{order.export}{suffix}"
        written.append(motions.export(own, target, order.export, mjm=ran.problem.mjm, base=ran.problem.robot.base))
    if first and not order.no_video:
        shown, steps = film.pictures(ran)
        written.append(files.write_bytes_atomic(order.out / f"{stem}.png", film.strip(ran, shown, steps)))
        written.append(files.write_bytes_atomic(order.out / f"{stem}.gif", film.gif(ran, shown)))
        video = film.mp4(ran, shown)
        if video is not None:
            written.append(files.write_bytes_atomic(order.out / f"{stem}.mp4", video))
    return written


QUANTITIES = {
    "base position error [mm]": ("base_pos", 1e3),
    "base rotation error [rad]": ("base_rot", 1.0),
    "joint error, norm [rad]": ("joints", 1.0),
    "object position error [mm]": ("object_pos", 1e3),
    "object rotation error [rad]": ("object_rot", 1.0),
    "foot slide [mm/s]": ("foot_slide", 1e3),
    "deepest contact [mm]": ("penetration", 1e3),
    "torques at their limit": ("torque_share", 1.0),
    "rounds of an optimisation": ("rounds", 1.0),
    "time of an optimisation [s]": ("seconds", 1.0),
}
"""What the table has, with the name of the stored value and its factor."""


def _table(rows: Sequence[dict[str, Any]]) -> Table:
    """Means over the runs, beside those of the open loop and of the reference."""
    table = Table("", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("optimised", "open loop", "reference"):
        table.add_column(heading, justify="right")
    for what, (key, factor) in QUANTITIES.items():
        values = [factor * row[key] for row in rows if row[key] is not None and math.isfinite(row[key])]
        if values:
            spread = f" ± {np.std(values):.2g}" if len(values) > 1 else ""
            others = [_number(rows[0].get(prefix + key), factor) for prefix in ("open_loop_", "reference_")]
            table.add_row(escape(what), f"{np.mean(values):.3g}{spread}", *others)
    return table


def _number(value: float | None, factor: float) -> str:
    return "" if value is None or not math.isfinite(value) else f"{factor * value:.3g}"
