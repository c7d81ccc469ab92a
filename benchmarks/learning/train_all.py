"""Trains several tasks under several physics side by side on one device, and gathers what came of it.

    python benchmarks/learning/train_all.py --tasks push-t cube-lift --physics cone-sweep mujoco --seconds 900 --out DIR

Each training is a process of its own, `stickslip train` with a folder of its own in DIR: `policy.npz`, `curve.json`,
`training.json`, checkpoint and log. `trainings.json` has all curves, with wall time, steps, threshold, scores, machine
and versions. The same command goes on where it stopped, so that long trainings can be shared out over several calls.
"""

import dataclasses
import os
import pathlib
import signal
import subprocess
import sys
import time
from typing import Any

import tyro

from stickslip import files
from stickslip.envs.tasks.catalogue import NAMES

FORMAT = 1
LAST = 45.0
"""Wall time that a training has to store everything once it is told to stop [s]."""


@dataclasses.dataclass(frozen=True)
class Options:
    """What to train, and for how long."""

    out: pathlib.Path
    """folder of all trainings"""
    tasks: tuple[str, ...] = NAMES
    """names of tasks"""
    physics: tuple[str, ...] = ("cone-sweep",)
    """a training each; a + joins those of one training, as in cone-sweep+mujoco"""
    seconds: float = 900.0
    """of rollouts and updates, of each training in all"""
    wall: float | None = None
    """of this call at most, with compiling and evaluations; what is left is for the next call [s]"""
    jobs: int = 1
    """trainings at the same time; they share the device, so that each is slower"""
    device: str | None = None
    """as for `stickslip train`"""
    seed: int = 0
    """of all trainings"""
    until_learned: bool = False
    """stop a training at its task's threshold"""
    set: tuple[str, ...] = ()
    """settings of PPO for all, such as nworld=2048"""


def main(options: Options) -> int:
    """Train what is missing; 0 if nothing is left to do."""
    begun = time.monotonic()
    runs = [(task, physics) for physics in options.physics for task in options.tasks]
    waiting, running, failed = list(runs), {}, set[tuple[str, str]]()
    while waiting or running:
        left = None if options.wall is None else options.wall - (time.monotonic() - begun)
        if left is not None and left < LAST:
            _stop(running)
            break
        while waiting and len(running) < options.jobs:
            run = waiting.pop(0)
            if _seconds_left(options, run) > 0.0:
                running[run] = _started(options, run)
        for run, process in list(running.items()):
            if process.poll() is not None:
                del running[run]
                _say(options, run, process.returncode)
                if process.returncode not in (0, 1):  # 1: not learned yet
                    failed.add(run)
                _gather(options, runs)
        time.sleep(0.5)
    found = _gather(options, runs)
    unfinished = [run for run in runs if run in failed or _seconds_left(options, run) > 0.0]
    print(f"{len(found)} trainings in {options.out / 'trainings.json'}; {len(unfinished)} to go on with", flush=True)
    return 1 if unfinished else 0


def _folder(options: Options, run: tuple[str, str]) -> pathlib.Path:
    task, physics = run
    return options.out / f"{task}-{physics.replace(':', '-').replace(',', '-')}"


def _read(folder: pathlib.Path, name: str) -> dict[str, Any]:
    path = folder / name
    return files.read_json(path) if path.is_file() else {}


def _seconds_left(options: Options, run: tuple[str, str]) -> float:
    """What is left of a training's time; 0 if it is done."""
    curve = _read(_folder(options, run), "curve.json")
    points = curve.get("points", [])
    if options.until_learned and any(one["score"] >= curve["threshold"] for one in curve.get("evaluations", [])):
        return 0.0
    if points and points[-1]["iteration"] >= _read(_folder(options, run), "training.json")["settings"]["iterations"]:
        return 0.0
    return options.seconds - (points[-1]["seconds"] if points else 0.0)


def _started(options: Options, run: tuple[str, str]) -> "subprocess.Popen[bytes]":
    task, physics = run
    folder = _folder(options, run)
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "stickslip", "train", task, "--physics", *physics.split("+"), "--no-video"]
    command += ["--out", str(folder), "--seed", str(options.seed)]
    command += ["--minutes", f"{_seconds_left(options, run) / 60.0:.3f}"]
    command += ["--device", options.device] if options.device else []
    command += ["--until-learned"] if options.until_learned else []
    command += ["--set", *options.set] if options.set else []
    print(f"{task} with {physics}: {folder}", flush=True)
    with open(folder / "log.txt", "ab") as log:
        environment = {**os.environ, "COLUMNS": "120"}
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True)


def _stop(running: "dict[tuple[str, str], subprocess.Popen[bytes]]") -> None:
    """Let trainings store everything after the update that they are at."""
    for process in running.values():
        process.send_signal(signal.SIGINT)
    for process in running.values():
        try:
            process.wait(LAST - 5.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _say(options: Options, run: tuple[str, str], code: int) -> None:
    log = (_folder(options, run) / "log.txt").read_text(errors="replace").strip().splitlines()
    shown = log[-3:] if code in (0, 1) else log[-15:]
    print("\n".join([f"{' with '.join(run)}: ended with {code}", *(f"  {line}" for line in shown)]), flush=True)


def _gather(options: Options, runs: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """Write what all trainings came to."""
    found = []
    for run in runs:
        order, curve = (_read(_folder(options, run), name) for name in ("training.json", "curve.json"))
        if not order or not curve["points"]:
            continue
        evaluations, points = curve["evaluations"], curve["points"]
        reached = next((one for one in evaluations if one["score"] >= curve["threshold"]), None)
        found.append(
            {
                **{name: order[name] for name in ("task", "physics", "seed", "settings", "machine", "versions")},
                "threshold": curve["threshold"],
                "reached": reached,
                "best": max(evaluations, key=lambda one: (one["score"], one["total"]), default=None),
                "last": points[-1],
                "steps_per_second": points[-1]["steps"] / max(points[-1]["seconds"], 1e-9),
                "evaluations": evaluations,
                "curve": {name: [point[name] for point in points] for name in ("steps", "seconds", "score")},
            }
        )
    files.write_json(options.out / "trainings.json", {"format": FORMAT, "trainings": found}, flat_lists=True)
    return found


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Options, description=__doc__)))
