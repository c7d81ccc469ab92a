"""What a study costs besides its cells: empty cells on processes and on Ray, speed-up, listing, hashing, report.

    python benchmarks/studies/overhead.py --out out/overhead            # all, a few minutes
    python benchmarks/studies/overhead.py --only local --cells 10000
    python benchmarks/studies/overhead.py --only folder --cells 1000000

Prints a table and writes it as JSON; figures of other parts that are there stay, if machine and versions agree. Run it
on a quiet machine.
"""

import argparse
import importlib.util
import json
import math
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from stickslip import files, provenance, studies
from stickslip.studies import records, report
from stickslip.studies.records import DONE, Record
from stickslip.studies.store import Store

PARTS = ("hash", "local", "ray", "speed-up", "folder")
WORK = 0.2
"""Computing time of a cell of the speed-up [s]."""


def empty(x: float) -> dict[str, float]:
    """A cell without work."""
    return {"y": x}


def busy(x: float) -> dict[str, float]:
    """A cell that computes for a while."""
    end = time.process_time() + WORK
    while time.process_time() < end:
        x = math.sin(x) + 1.0
    return {"y": 1.0}


def study(name: str, cells: int) -> studies.Definition:
    """A study of one function of this module."""
    grid = {"x": {"from": 0.0, "to": 1.0, "count": cells}}
    return studies.parse({"run": f"overhead:{name}", "device": "cpu", "grid": grid})


def hashing(out: Path, cells: int) -> dict[str, Any]:
    """Checking and hashing cells of a function and of a rollout [ms a cell]."""
    found = {}
    slope = {"run": "rollout", "device": "cpu", "fixed": {"scene": "box-on-slope"}}
    for name, table in (
        (
            "function",
            {"run": "overhead:empty", "device": "cpu", "grid": {"x": {"from": 0.0, "to": 1.0, "count": cells}}},
        ),
        ("rollout", slope | {"grid": {"scene.mu": {"from": 0.1, "to": 1.0, "count": max(2, cells // 10)}}}),
    ):
        definition = studies.parse(table)
        studies.plan(
            studies.parse({**table, "grid": {next(iter(table["grid"])): [0.5]}})
        )  # imports, digest of the code
        begun = time.perf_counter()
        count = len(studies.plan(definition))
        found[f"{name} [ms a cell]"] = 1e3 * (time.perf_counter() - begun) / count
    return found


def running(out: Path, cells: int, executor: str, workers: int) -> dict[str, Any]:
    """Empty cells, all of them but those that warm up [ms a cell]."""
    warm = 2 * workers
    begun: list[float] = []

    def told(progress: studies.Progress) -> None:
        if not begun and progress.ran >= warm:
            begun.extend((time.perf_counter(), progress.ran))

    start = time.perf_counter()
    studies.run(study("empty", cells), out / executor, executor=executor, workers=workers, told=told)
    end = time.perf_counter()
    return {
        "workers": workers,
        "overhead [ms a cell]": 1e3 * (end - begun[0]) / (cells - begun[1]),
        "whole [s]": end - start,
    }


def speed_up(out: Path, cells: int) -> dict[str, Any]:
    """The same cells, of 0.2 s each, on one process and on two; from the first cell to the last."""
    seconds = {}
    for workers in (1, 2):
        times: list[tuple[int, float]] = []
        studies.run(
            study("busy", cells),
            out / f"busy-{workers}",
            workers=workers,
            told=lambda progress, times=times: times.append((progress.ran, time.perf_counter())),
        )
        first = next((ran, when) for ran, when in times if ran >= workers)
        last = next((ran, when) for ran, when in times if ran == cells)
        seconds[workers] = (last[1] - first[1]) / (last[0] - first[0])
    return {"one process [s a cell]": seconds[1], "two [s a cell]": seconds[2], "speed-up": seconds[1] / seconds[2]}


def folder(out: Path, cells: int) -> dict[str, Any]:
    """A folder of so many cells: listing, resuming, report."""
    definition = study("empty", cells)
    planned = studies.plan(definition)
    store = Store(out / "folder")
    store.begin(definition, planned)
    versions = json.dumps(provenance.versions(), sort_keys=True)
    machine = records.machine_text(provenance.machine("cpu"))
    begun, rows = time.perf_counter(), []
    for place, cell in enumerate(planned):
        record = Record(
            cell.hash, cell.run, cell.parameters, metrics={"y": 1.0 / (place + 1)}, machine=machine, versions=versions
        )
        record.source, record.model, record.began = cell.source, cell.model, "2026-01-01T00:00:00+00:00"
        path = store.path(DONE, cell.hash)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(records.encode([record]))  # without fsync, which `local` measures
        rows.append(record)
        if len(rows) == 5000 or place == len(planned) - 1:
            store.merge(rows)
            rows = []
    written = time.perf_counter()
    listed = len(store.listed(DONE))
    list_end = time.perf_counter()
    progress = studies.run(definition, out / "folder", workers=1)
    resumed = time.perf_counter()
    report.write(out / "folder")
    reported = time.perf_counter()
    assert listed == cells and progress.complete and progress.ran == 0
    return {
        "written [s]": written - begun,
        "listed [s]": list_end - written,
        "resumed, nothing to do [s]": resumed - list_end,
        "report [s]": reported - resumed,
    }


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, nargs="*", default=PARTS)
    parser.add_argument("--cells", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--out", type=Path, default=Path("out/overhead"))
    asked = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parent))  # for the functions of this module
    path = asked.out / "overhead.json"
    found = kept(path)
    for name in asked.only:
        if name == "ray" and importlib.util.find_spec("ray") is None:
            print("ray: not installed")
            continue
        cells = 40 if name == "speed-up" else asked.cells
        with tempfile.TemporaryDirectory(dir=asked.out) as work:
            if name in ("local", "ray"):
                figures = running(Path(work), cells, name, asked.workers)
            else:
                figures = {"hash": hashing, "folder": folder, "speed-up": speed_up}[name](Path(work), cells)
            for what, value in figures.items():
                print(f"{name:10} {cells:9,} {what:32} {value:.4g}")
            same = [one for one in found["parts"] if (one["part"], one["cells"]) == (name, cells)]
            found["parts"] = [one for one in found["parts"] if one not in same]
            found["parts"].append({"part": name, "cells": cells, "figures": figures})
            found["parts"].sort(key=lambda one: (PARTS.index(one["part"]), one["cells"]))
            files.write_json(path, found)


def kept(path: Path) -> dict[str, Any]:
    """What is stored there, if it was measured with these versions on such a machine; else nothing yet."""
    found: dict[str, Any] = {"machine": provenance.machine("cpu"), "versions": provenance.versions(), "parts": []}
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        stored = files.read_json(path)
        if {**stored, "parts": []} == found:
            return stored
        raise SystemExit(f"{path} has figures of another machine or other versions: choose another --out")
    return found


if __name__ == "__main__":
    main()
