"""`stickslip train`, `play` and `score`: what they print and write."""

import dataclasses
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from stickslip import files, parameters, provenance, spec
from stickslip.cli import output
from stickslip.envs.env import Env
from stickslip.envs.factory import make, make_group
from stickslip.envs.group import EnvGroup
from stickslip.envs.task import Task
from stickslip.envs.tasks import load_task
from stickslip.errors import InputError
from stickslip.learning import episodes, find, scores_picture
from stickslip.learning import score as scoring
from stickslip.learning.film import Filming, draw_curve
from stickslip.learning.policy import Policy
from stickslip.learning.settings import Settings, settings_of
from stickslip.physics.registry import DEFAULT, PHYSICS
from stickslip.progress import progress_bar
from stickslip.simulation import resolve_device

if TYPE_CHECKING:
    from stickslip.cli.commands.learn import Play, ScorePolicy, Train
    from stickslip.learning.train import Point, Training

FORMAT = 1
"""Version of score.json."""
JUDGED = 64
"""Episodes of an evaluation while a policy is trained."""


def _threads(given: int | None, device: str | None, physics: str) -> int:
    """Threads of a CPU; one for a physics that cannot share its worlds."""
    if resolve_device(device).is_cuda:
        return 1
    named = spec.split(physics)[0]
    if given is None and named in PHYSICS and not PHYSICS[named].shardable:
        return 1
    return given if given is not None else len(os.sched_getaffinity(0))


def list_settings(order: "Train", console: Console) -> int:
    """The settings of PPO, with those of a task."""
    chosen = settings_of(load_task(order.task), _given(order.set))
    table = Table(box=None, pad_edge=False)
    for heading in ("setting", "value", "limits", "what it is"):
        table.add_column(heading, no_wrap=heading in ("setting", "value"))
    for name, _, limits, meaning in parameters.rows(Settings):
        table.add_row(f"[bold]{name}[/]", parameters.text(getattr(chosen, name)), escape(limits), escape(meaning))
    console.print(table)
    return 0


def _given(pairs: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        if not value:
            raise InputError(f"--set {pair}: write a setting as name=value, such as iterations=500")
        found[name] = value
    return found


def train(order: "Train", console: Console) -> bool:
    """Train; whether the task's threshold was reached."""
    from stickslip.learning.train import Training

    task = load_task(order.task)
    settings = settings_of(task, _given(order.set))
    if order.minutes is not None and not order.minutes > 0.0:
        raise InputError(f"minutes is {order.minutes:g}: it must be above 0")
    device = resolve_device(order.device)
    if not order.physics:
        raise InputError("--physics names nothing: name at least one, or leave it out")
    named = "+".join(spec.split(each)[0] for each in order.physics)
    out = order.out or Path("out/train") / f"{task.name}-{named}"
    output.make_folder(out)
    threads = min(_threads(order.threads, order.device, each) for each in order.physics)
    if not device.is_cuda:  # more gain little with small networks, and wait for each other where other work runs
        torch.set_num_threads(max(1, threads // 2))
    nworld = settings.worlds(device.is_cuda)
    console.print(output.COMPILING.format(device=device.alias))
    options: dict[str, Any] = {"device": device.alias, "seed": order.seed, "threads": threads, "check": False}
    if len(order.physics) == 1:
        env: Env | EnvGroup = make(task.in_training(), order.physics[0], nworld=nworld, **options)
    else:
        env = make_group(task.in_training(), order.physics, nworld=nworld, **options)
    physics = spec.resolve(order.physics[0], PHYSICS, "physics")
    judge = episodes.environment(task, physics, JUDGED, device=device.alias, seed=order.seed + 1, threads=threads)
    training = Training(env, settings, out, judge, seed=order.seed, again=order.again)
    begun = training.iteration
    if begun:
        console.print(f"Going on after {begun} iterations in {out}.")
    _learn(training, order, console)
    last = training.points[-1] if training.points else None
    for message in env.health():
        console.print(f"[yellow]warning:[/] {escape(message)}", soft_wrap=True)
    if last is None:
        console.print("nothing was trained")
        return False
    _report(training, task, out, order, console)
    return training.reached is not None


def _learn(training: "Training", order: "Train", console: Console) -> None:
    """Train, with a bar, and write for TensorBoard."""
    from torch.utils.tensorboard import SummaryWriter

    name = "success" if training.env.task.success is not None else "return"
    with SummaryWriter(str(training.out / "tensorboard")) as board, progress_bar(console) as bar:
        shown = bar.add_task(f"{training.env.task.name}", total=training.settings.iterations)
        bar.update(shown, completed=training.iteration)

        def told(point: "Point") -> None:
            for key, value in point.values.items():
                place = key if "/" in key else f"training/{key}"
                board.add_scalar(place, value, point.steps)
            score = "no episode has ended" if point.score is None else f"{name} {point.score:.3g}"
            mean = f", return {point.values['return']:.3g}" if "return" in point.values else ""
            rate = point.steps / max(point.seconds, 1e-9)
            bar.update(
                shown,
                completed=point.iteration,
                description=f"{training.env.task.name}: {score}{mean}, {rate:,.0f} steps/s",
            )

        training.run(minutes=order.minutes, until_reached=order.until_learned, told=told)


def _report(training: "Training", task: Task, out: Path, order: "Train", console: Console) -> None:
    """The last figures, the picture and the film."""
    last, reached, best = training.points[-1], training.reached, training.best
    assert best is not None
    name = "success" if task.success is not None else "return"
    console.print(
        f"{task.name}: {last.iteration} iterations, {last.steps:,} control steps, {last.seconds / 60.0:.1f} min; "
        f"best {name} without noise {best.score:.3g}, after {best.seconds / 60.0:.1f} min"
    )
    if reached is None:
        console.print(f"[yellow]not learned yet:[/] the threshold is {name} {task.threshold:g}")
    else:
        console.print(f"learned ({name} {task.threshold:g}) after {reached.seconds / 60.0:.1f} min")
    title = f"{task.name}, {training.env.physics}, {training.env.nworld} worlds on {training.env.sim.device.alias}"
    files.write_bytes_atomic(
        out / "curve.png", draw_curve(training.points, training.evaluations, title, name, task.threshold)
    )
    if not order.no_video:
        policy = Policy.load(out / "policy.npz")
        physics = spec.resolve(order.physics[0], PHYSICS, "physics")
        env = episodes.environment(task, physics, 4, device=training.env.sim.device.alias, seed=order.seed + 1)
        film = Filming(env)
        episodes.play(env, policy, film.take)
        place = film.save(out / "film")
        console.print(f"Film: {place}" + (f" ({escape(film.note)})" if film.note else ""), soft_wrap=True)
    console.print(f"Policy: {out / 'policy.npz'}; watch it with: stickslip play {out}", soft_wrap=True)


def play(order: "Play", console: Console) -> bool:
    """Play a policy; whether at least one episode succeeded, where the task knows success."""
    if order.view and order.record is not None:
        raise InputError("--view and --record are both given: show the policy, or write its episodes")
    policy = find.policy(order.policy)
    task = find.task_of(policy, order.task)
    if order.episodes < 1:
        raise InputError(f"episodes is {order.episodes}: it must be at least 1")
    named = order.physics or str(policy.about.get("physics") or DEFAULT).partition("+")[0]
    method = scoring.methods([named])[named]
    in_c = named == scoring.IN_C
    env = episodes.environment(
        task,
        method,
        order.episodes,
        device="cpu" if in_c else order.device,
        seed=order.seed,
        nominal=not order.randomized,
    )
    console.print(output.COMPILING.format(device=env.sim.device.alias))
    if order.view:
        return _show(env, policy, console)
    if order.record is not None:
        return _record(order.record, env, policy, console)
    film = None if order.no_video else Filming(env)
    played = episodes.play(env, policy, film.take if film else lambda env: None)
    rate = "" if task.success is None else f"{int(played.success.sum())} of {order.episodes} succeeded, "
    console.print(f"{task.name} with {named}: {rate}return {played.total.mean():.3g}, {played.seconds.mean():.2f} s")
    for message in env.health():
        console.print(f"[yellow]warning:[/] {escape(message)}", soft_wrap=True)
    if film is not None:
        output.make_folder(order.out)
        place = film.save(order.out / f"{task.name}-{spec.split(named)[0]}")
        console.print(f"Film of the first: {place}" + (f" ({escape(film.note)})" if film.note else ""), soft_wrap=True)
    return task.success is None or bool(played.success.any())


def _record(path: Path, env: Env, policy: Policy, console: Console) -> bool:
    """Play, and write the episodes as a dataset."""
    from stickslip import datasets
    from stickslip.learning.record import record

    rate = 1.0 / env.dt
    kind = datasets.Hdf5Writer if path.suffix in (".hdf5", ".h5") else datasets.LeRobotWriter
    options = {"env": env.task.name, "model": env.sim.mjm} if kind is datasets.Hdf5Writer else {}
    with kind(path, fps=rate, **options) as writer, progress_bar(console) as bar:
        shown = bar.add_task("recording", total=env.nworld)
        succeeded = record(env, policy, writer, env.nworld, lambda done: bar.update(shown, completed=done))
        n = len(writer)
    console.print(f"{n} episodes, {succeeded} of them succeeded: {path}", soft_wrap=True)
    return True


def _show(env: Any, policy: Policy, console: Console) -> bool:
    """Play in the browser, in step with the wall clock, until Ctrl-C."""
    from stickslip import interrupts
    from stickslip.viewer import Viewer

    policy.check(env)
    actor = policy.on(env.device)
    with Viewer(env.sim) as viewer, interrupts.deferred() as request:
        console.print(f"The viewer is at {viewer.url}; Ctrl-C ends it.")
        observation, _ = env.reset()
        due = time.perf_counter()
        while not request.made:
            step = env.step(actor(observation))
            observation = step.observation
            over = step.done
            if bool(over.any()):
                observation, _ = env.reset(over)
            viewer.sync()
            due = max(due + env.dt, time.perf_counter() - 0.1)
            time.sleep(max(0.0, due - time.perf_counter()))
    return True


def score(order: "ScorePolicy", console: Console) -> bool:
    """Score policies; whether every physics that can run their tasks gave a result."""
    if not order.policy:
        raise InputError("give a policy or more: tasks, folders of `stickslip train`, or files")
    if order.episodes < 1:
        raise InputError(f"episodes is {order.episodes}: it must be at least 1")
    scoring.methods(order.physics)  # before any work is done
    policies = {name: find.policy(name) for name in order.policy}
    output.make_folder(order.out)
    head = {
        "format": FORMAT,
        "episodes": order.episodes,
        "seed": order.seed,
        "machine": provenance.machine(resolve_device(order.device).alias),
        "versions": {**provenance.versions(), "torch": provenance.package_version("torch")},
    }
    place, table = order.out / "score.json", list[dict[str, Any]]()
    for name, policy in policies.items():
        task = find.task_of(policy, order.task)
        found: list[scoring.Score] = []
        with progress_bar(console) as bar:
            shown = bar.add_task(f"{name}: scoring", total=len(order.physics))
            for physics in order.physics:
                bar.update(shown, description=f"{name}: {physics}")
                threads = 1 if physics == scoring.IN_C else _threads(order.threads, order.device, physics)
                found += scoring.score(
                    policy,
                    task,
                    [physics],
                    episodes=order.episodes,
                    device=order.device,
                    seed=order.seed,
                    threads=threads,
                )
                bar.advance(shown)
        _print_scores(name, policy, task, found, console)
        rows = [dataclasses.asdict(one) for one in found]
        table.append({"policy": name, "task": task.name, "trained with": policy.about.get("physics"), "scores": rows})
        files.write_json(place, {**head, "policies": table})  # after each: a humanoid takes long on a CPU
    files.write_bytes_atomic(order.out / "score.png", scores_picture.draw(table))
    console.print(f"Written: {place}, {order.out / 'score.png'}", soft_wrap=True)
    return all(row["refused"] == "" for entry in table for row in entry["scores"])


def _print_scores(name: str, policy: Policy, task: Task, found: list[scoring.Score], console: Console) -> None:
    table = Table(box=None, pad_edge=False, title=f"{name}, trained with {policy.about.get('physics')}")
    for heading in ("physics", "success", "return", "episode [s]", ""):
        table.add_column(escape(heading), justify="left" if heading in ("physics", "") else "right")
    for one in found:
        if one.refused:
            table.add_row(one.physics, "", "", "", escape(one.refused))
            continue
        rate = "" if one.success is None else f"{100.0 * one.success:.1f} ± {100.0 * one.error:.1f} %"
        note = f"{one.diverged} worlds not finite" if one.diverged else ""
        table.add_row(one.physics, rate, f"{one.total:.3g} ± {one.total_error:.2g}", f"{one.seconds:.2f}", note)
    console.print(table)
