"""Tables of pages whose stored results are not of `stickslip bench`: trainings, scores, viewer, studies."""

import pathlib
from typing import Any

from stickslip import files


def trainings(path: pathlib.Path) -> str:
    """A row for each task: what the first policy that reached the threshold took, by physics."""
    stored = files.read_json(path)["trainings"]
    physics = list(dict.fromkeys(one["physics"] for one in stored))
    lines = []
    for task in dict.fromkeys(one["task"] for one in stored):
        found = {one["physics"]: one for one in stored if one["task"] == task}
        threshold = {one["threshold"] for one in found.values()}
        cells = [f"`{task}`", " or ".join(f"{value:g}" for value in threshold)]
        lines.append("| " + " | ".join([*cells, *(_training(found.get(name)) for name in physics)]) + " |")
    head = [
        "| | threshold | " + " | ".join(f"`{name}`" for name in physics) + " |",
        "|" + " --- |" * (2 + len(physics)),
    ]
    return "\n".join([*head, *lines])


def _training(one: dict[str, Any] | None) -> str:
    if one is None:
        return ""
    point = one["reached"] or one["best"] or one["last"]
    took = f"{point['seconds'] / 60.0:.1f} min, {point['steps'] / 1e6:.0f} million control steps"
    return f"{point['score']:.2f} after {took}" if one["reached"] else f"not reached: {point['score']:.2f} after {took}"


def scores(*paths: pathlib.Path) -> str:
    """A row for each policy: its success under each physics."""
    policies = [policy for path in paths for policy in files.read_json(path)["policies"]]
    names = list(dict.fromkeys(score["physics"] for policy in policies for score in policy["scores"]))
    lines = []
    for policy in policies:
        found = {score["physics"]: score for score in policy["scores"]}
        cells = ["refused" if found[name]["refused"] else f"{found[name]['success']:.2f}" for name in names]
        lines.append(f"| `{policy['task']}` | `{policy['trained with']}` | " + " | ".join(cells) + " |")
    head = "| | trained with | " + " | ".join(f"`{name}`" for name in names) + " |"
    return "\n".join([head, "|" + " --- |" * (2 + len(names)), *lines])


def frames(path: pathlib.Path) -> str:
    """A row for each scene and number of worlds that the viewer showed."""
    columns = {
        "frames a second": ("frames_per_second", ".1f"),
        "simulated time over wall time": ("simulated_seconds_per_second", ".2f"),
        "CPU time over wall time": ("cpu_seconds_per_second", ".2f"),
        "MB a second": ("megabytes_per_second", ".2f"),
    }
    lines = []
    for case in files.read_json(path)["cases"]:
        cells = [format(case[key], form) for key, form in columns.values()]
        lines.append(f"| `{case['scene']}` | {case['nworld']} | " + " | ".join(cells) + " |")
    head = "| | worlds | " + " | ".join(columns) + " |"
    return "\n".join([head, "|" + " --- |" * (2 + len(columns)), *lines])


def rates(path: pathlib.Path) -> str:
    """A row for each robot and physics that mjlab trained with: environment steps a second."""
    columns = {"of the training": "env_steps_per_second", "while it collects": "env_steps_per_second_of_collection"}
    lines = []
    for name, cases in files.read_json(path)["outcomes"].items():
        for case, outcome in cases.items():
            cells = [f"{round(outcome['metrics'][key], -3):,.0f}" for key in columns.values()]
            lines.append(f"| {case} | `{name}` | " + " | ".join(cells) + " |")
    head = "| | physics | " + " | ".join(columns) + " |"
    return "\n".join([head, "|" + " --- |" * (2 + len(columns)), *lines])


def overhead(path: pathlib.Path) -> str:
    """A row for each figure of a study's overhead, by part and number of cells."""
    lines = []
    for part in files.read_json(path)["parts"]:
        for name, value in part["figures"].items():
            if name != "workers":
                lines.append(f"| `{part['part']}` | {part['cells']:,} | {name} | {value:.3g} |")
    return "\n".join(["| part | cells | | |", "| --- | --- | --- | --- |", *lines])


def events(path: pathlib.Path) -> str:
    """A row for each physics that has run every model: what a soak reported in 10^6 world-steps, by kind."""
    columns = ("not_finite", "energy", "penetration", "joint", "dropped", "twins")
    lines = []
    for label, cases in files.read_json(path)["outcomes"].items():
        if "every model" not in cases:
            continue
        whole = cases["every model"]["metrics"]
        watched = columns if whole["twins"] or "deterministic" in label else columns[:-1]
        rates = {name: whole[f"{name}_rate"] for name in watched}
        cells = [f"{rates[name]:{'.0f' if rates[name] > 10.0 else '.2g'}}" if name in rates else "" for name in columns]
        steps, silent = f"{whole['world_steps'] / 1e6:.0f} million", f"{whole['silent']:.0f}"
        lines.append("| " + " | ".join([f"`{label}`", steps, f"{whole['events_rate']:.0f}", *cells, silent]) + " |")
    names = " | ".join(name.replace("_", " ") for name in columns)
    head = f"| | world-steps | events in 10<sup>6</sup> | {names} | silent in all |"
    return "\n".join([head, "|" + " --- |" * (4 + len(columns)), *lines])


def environments(path: pathlib.Path) -> str:
    """A row for each task: what an environment takes beside its physics alone, by physics."""
    outcomes = files.read_json(path)["outcomes"]
    lines = []
    for case in next(iter(outcomes.values())):
        cells = [f"`{case.partition(',')[0]}`"]
        for cases in outcomes.values():
            found = cases[case]["metrics"]
            more, ms = found["overhead_percent"], found["physics_ms"]
            cells.append(f"{more:.1f} % of {ms:.2f} ms")
        lines.append("| " + " | ".join(cells) + " |")
    head = "| | " + " | ".join(f"`{name}`" for name in outcomes) + " |"
    return "\n".join([head, "|" + " --- |" * (1 + len(outcomes)), *lines])
