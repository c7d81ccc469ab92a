"""Writes docs/results.md, and the tables and numbers of README.md and docs/, from the stored results: `make results`.

Values that were measured by an earlier version of the code are marked. The command fails if a page states a number that
has no stored source; see claims.py. A test fails when a page is not what this writes.
"""

import pathlib
import re
import sys
from collections.abc import Mapping
from typing import Any

import claims
import numpy as np
import tables

from stickslip.bench import EXPERIMENTS, methods, sources
from stickslip.bench.report import page as report
from stickslip.bench.report import style, summary
from stickslip.bench.result import Result, load

ROOT = pathlib.Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
NOTE = ROOT / "stickslip" / "physics" / "conesweep" / "README.md"
ROBOTS = ROOT / "benchmarks" / "robots"
RETARGET = ROOT / "benchmarks" / "retarget"
LEARNING = ROOT / "benchmarks" / "learning"
TRAINING = ROOT / "benchmarks" / "training"
VIEWER = ROOT / "benchmarks" / "viewer"
STUDIES = ROOT / "benchmarks" / "studies"
ACCURACY = (
    ("stick", "creep of a box that must stick, dt 2 ms"),
    ("stick", "error of a slide in 2 s, dt 2 ms"),
    ("grasp-creep", "creep of a capsule pinched 2x as hard as needed, dt 2 ms"),
    ("seven-tests", "pushed box, position error after 10 s"),
    ("torsion", "error of a spin under torsional friction (torsion 5 mm), rms"),
    ("stack", "height lost by a tower of 10, dt 2 ms"),
    ("penetration", "penetration in a falling pile, mean"),
    ("slide", "height a sliding cube hops"),
    ("free-spin", "energy error of a plate that turns in the air, 15 rad/s"),
)
"""Experiment and title of the scores shown."""
COST = "step of a small pile [ms]"
TRADES = {
    COST: ("speed", "scaling, 1 world", "ms_per_step"),
    "error of a slide [mm]": ("stick", "slide, dt 2 ms", "error_mm"),
    "lost by a tower of 10 [mm]": ("stack", "10 cubes, dt 2 ms", "height_lost_mm"),
    "lost under 100 kg [mm]": ("stack", "100 kg on two of 1 kg, dt 2 ms", "height_lost_mm"),
}
"""Columns of the trade-off of the cone sweep: experiment, case and metric."""
ERRORS = {
    "followed to the end": ("completed", 1.0),
    "base position error [mm]": ("base_pos", 1e3),
    "base rotation error [rad]": ("base_rot", 1.0),
    "joint error [rad]": ("joints", 1.0),
    "object position error [mm]": ("object_pos", 1e3),
}
FEET = {
    "foot slide [mm/s]": ("foot_slide", 1e3),
    "of the reference": ("reference_foot_slide", 1e3),
    "penetration [mm]": ("penetration", 1e3),
    "of the reference ": ("reference_penetration", 1e3),
    "force that contacts cannot give [weights]": ("reference_missing", 1.0),
}
TIME = {"time of an optimisation [s]": ("seconds", 1.0), "over `mujoco`'s": ("time_ratio", 1.0)}
"""Columns of tables of retargeting: metric and factor."""


def accuracy() -> str:
    """Selected scores on the CPU, the best in bold, stale columns and values marked."""
    results = {name: load(RESULTS / "cpu" / f"{name}.json") for name, _ in ACCURACY}
    measured = {label for result in results.values() for label in result.methods}
    labels = [label for label in methods.names() if label in measured]
    chosen = []
    for name, title in ACCURACY:
        table = summary.rows(EXPERIMENTS[name], results[name], labels)
        (row,) = [row for row in table if row.score.title == title]
        chosen.append(row)
    old = summary.stale_columns(chosen, labels)
    lines = []
    for row in chosen:
        cells = [_marked(f"**{c.text}**" if c.best else c.text, c.stale and k not in old) for k, c in row.cells.items()]
        lines.append(f"| {row.score.title} [{row.score.unit}] | `{row.experiment}` | " + " | ".join(cells) + " |")
    head = "| | experiment | " + " | ".join(_marked(f"`{label}`", label in old) for label in labels) + " |"
    any_stale = any(cell.stale for row in chosen for cell in row.cells.values())
    return "\n".join([head, "|" + " --- |" * (2 + len(labels)), *lines, *_legend(any_stale)])


def _marked(text: str, stale: bool) -> str:
    return f"{text} {report.STALE}" if stale else text


def _legend(needed: bool) -> list[str]:
    return ["", report.LEGEND] if needed else []


def speed(path: pathlib.Path) -> str:
    """Step times on the GPU, and how much faster each physics is than the faster MuJoCo."""
    result = load(path)
    old = sources.stale(EXPERIMENTS["speed"], result)
    there = [label for label in methods.names() if label in result.methods]
    own = [label for label in there if label not in methods.REFERENCES]
    lines = []
    for case in result.cases:
        values = [style.number(result.metric(label, case, "ms_per_step")) for label in there]
        ratios = [f"{_ratio(result, label, case):.1f}" for label in own]
        lines.append(f"| {case} | " + " | ".join(values + ratios) + " |")
    head = ["", *(_marked(f"`{k}` ms", k in old) for k in there), *(_marked(f"`{k}` speedup", k in old) for k in own)]
    top = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join([*top, *lines, *_legend(bool(old & set(there)))])


def _ratio(result: Result, label: str, case: str) -> float:
    return result.metric(label, case, "speedup")


def ablation() -> str:
    """Height lost and speed left of towers, for variants of the cone sweep."""
    result = load(ROOT / "benchmarks" / "ablation" / "stack.json")
    old = sources.stale(EXPERIMENTS["stack"], result)
    lines = []
    for label in result.methods:
        cells = []
        for case in result.cases:
            lost, left = (result.metric(label, case, name) for name in ("height_lost_mm", "late_speed_mm_per_s"))
            cells.append("fell" if result.metric(label, case, "fell") else f"{lost:.2g}; {left:.2g}")
        variant = label.partition(":")[2]
        name = _marked(f"`{variant}`" if variant else "default", label in old)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    top = ["| | " + " | ".join(result.cases) + " |", "|" + " --- |" * (1 + len(result.cases))]
    return "\n".join([*top, *lines, *_legend(bool(old))])


def tradeoff() -> str:
    """Accuracy at 2 ms against the time of a step, for the two MuJoCo and for the cone sweep by substeps and sweeps."""
    old = {label for name, result in _trades().items() for label in sources.stale(EXPERIMENTS[name], result)}
    lines = []
    for label, metrics in _tradeoff().items():
        cells = ["fell" if np.isnan(value) else f"{value:.2g}" for value in metrics.values()]
        lines.append(f"| {_marked(f'`{label}`', label in old)} | " + " | ".join(cells) + " |")
    top = ["| | " + " | ".join(TRADES) + " |", "|" + " --- |" * (1 + len(TRADES))]
    return "\n".join([*top, *lines, *_legend(bool(old))])


def draw_tradeoff() -> Any:
    """The same as a picture."""
    points = _tradeoff()
    fig, axes = style.figure("cone sweep: what accuracy costs, by substeps of 2 ms", 1, len(TRADES) - 1, height=3.8)
    for ax, what in zip(axes[0], list(TRADES)[1:], strict=True):
        by_substeps = ("cone-sweep", "cone-sweep:substeps")
        sweeps = {k: f for k, f in points.items() if k.partition("=")[0] in by_substeps and not np.isnan(f[what])}
        ax.plot(
            [f[COST] for f in sweeps.values()], [f[what] for f in sweeps.values()], color=style.COLOURS["cone-sweep"]
        )
        for label, metrics in points.items():
            variant = label.partition(":")[2].removeprefix("substeps=")
            name = variant or ("6, the default" if label == "cone-sweep" else label)
            ax.plot(metrics[COST], metrics[what], "o", color=style.COLOURS[label.partition(":")[0]])
            ax.annotate(name, (metrics[COST], metrics[what]), fontsize=8, xytext=(4, 4), textcoords="offset points")
        ax.set(xscale="log", yscale="log", xlabel=COST, ylabel=what)
        ax.xaxis.set_minor_formatter("")
        ax.set_xticks((ticks := [0.2, 0.5, 1, 2]), [f"{tick:g}" for tick in ticks])
    return fig


def _trades() -> dict[str, Result]:
    return {name: load(ROOT / "benchmarks" / "tradeoff" / f"{name}.json") for name in ("speed", "stick", "stack")}


def _tradeoff() -> dict[str, dict[str, float]]:
    """Accuracy and step time of each method; NaN where a tower fell."""
    results = _trades()
    return {
        label: {what: results[name].metric(label, case, metric) for what, (name, case, metric) in TRADES.items()}
        for label in results["speed"].methods
    }


def retarget(path: pathlib.Path, columns: Mapping[str, tuple[str, float]]) -> str:
    """A row for each motion and physics; with several seeds, the standard deviation behind the mean of an error."""
    result = load(path)
    old = sources.stale(EXPERIMENTS["retarget"], result)
    columns = {k: v for k, v in columns.items() if not all(np.isnan(_of_all(result, v[0])))}
    lines = []
    for case in result.cases:
        for label in result.methods:
            cells = [case, _marked(f"`{label.partition(':')[0]}`", label in old)]
            for name, factor in columns.values():
                value, spread = (result.metric(label, case, key) for key in (name, f"{name}_std"))
                text = "" if np.isnan(value) else style.number(float(f"{factor * value:.3g}"))
                several = name != "seconds" and spread > 0.0
                cells.append(f"{text} ± {style.number(float(f'{factor * spread:.2g}'))}" if several else text)
            lines.append("| " + " | ".join(cells) + " |")
    top = ["| | plan's model | " + " | ".join(columns) + " |", "|" + " --- |" * (2 + len(columns))]
    return "\n".join([*top, *lines, *_legend(bool(old))])


def _of_all(result: Result, name: str) -> list[float]:
    return [result.metric(label, case, name) for label in result.methods for case in result.cases]


def fill(text: str) -> str:
    """README.md with its tables and numbers as the stored results have them."""
    found = {"accuracy: cpu": accuracy(), "speed: h200": speed(RESULTS / "h200" / "speed.json")}
    return fill_metrics(_fill(text, found))


def fill_robots(text: str) -> str:
    """The page of the robots with its table."""
    return _fill(text, {"speed: robots": speed(ROBOTS / "speed.json")})


def fill_retarget(text: str) -> str:
    """The page of stored runs of `retarget` with its tables."""
    columns = {"seeds": ERRORS | TIME, "spoiled": ERRORS | FEET, "real": ERRORS | FEET}
    return _fill(text, {f"retarget: {k}": retarget(RETARGET / f"{k}.json", v) for k, v in columns.items()})


def fill_retargeting(text: str) -> str:
    """The guide to retargeting with its table."""
    stored = RESULTS / "h200" / "retarget.json"
    return _fill(text, {"retarget: h200": retarget(stored, ERRORS | TIME)})


def fill_learning(text: str) -> str:
    """The guide to learning with its tables."""
    found = {
        "environments: h200": tables.environments(LEARNING / "h200" / "env-steps.json"),
        "trainings: h200": tables.trainings(LEARNING / "h200" / "trainings.json"),
        "trainings: three physics": tables.trainings(LEARNING / "three-physics" / "trainings.json"),
        "trainings: several at once": tables.trainings(LEARNING / "three-physics" / "several-at-once.json"),
        "scores: cpu": tables.scores(LEARNING / "scores" / "score.json"),
        "scores: three physics": tables.scores(
            *(LEARNING / "three-physics" / f"score{n}.json" for n in ("", "-walking"))
        ),
    }
    return fill_metrics(_fill(text, found))


def fill_robustness(text: str) -> str:
    """The guide to robustness with its table and numbers."""
    stored = ROOT / "benchmarks" / "robustness" / "h200" / "soak.json"
    return fill_metrics(_fill(text, {"soak: h200": tables.events(stored)}))


def fill_viewer(text: str) -> str:
    """The page of the viewer's frames with its table."""
    return _fill(text, {"frames": tables.frames(VIEWER / "frames.json")})


def fill_training(text: str) -> str:
    """The page of velocity training in mjlab with its table."""
    return _fill(text, {"rates: h200": tables.rates(TRAINING / "h200" / "velocity.json")})


def fill_studies(text: str) -> str:
    """The page of a study's overhead with its table."""
    return _fill(text, {"overhead": tables.overhead(STUDIES / "overhead.json")})


def fill_note(text: str) -> str:
    """The note on the cone sweep with its tables and numbers."""
    return fill_metrics(_fill(text, {"ablation: cpu": ablation(), "trade-off: cpu": tradeoff()}))


def fill_metrics(text: str) -> str:
    """A page with the numbers in its prose as the stored results have them."""
    return claims.fill(text, metric)


def metric(fields: list[str]) -> str:
    """The number that the fields of a marker name: result, method, case, metric and, if given, format."""
    if len(fields) not in (4, 5):
        raise SystemExit(f"metric: {' ; '.join(fields)}: write result ; method ; case ; metric")
    place, label, case, name = fields[:4]
    path = RESULTS / f"{place}.json"
    if not path.exists():
        raise SystemExit(f"metric: {' ; '.join(fields)}: there is no result {place}")
    result = load(path)
    value = result.metric(label, case, name)
    if np.isnan(value):
        raise SystemExit(f"metric: {' ; '.join(fields)}: {path.name} has no such value")
    text = format(value, fields[4]) if len(fields) == 5 else style.number(value)
    return text + (report.STALE if label in sources.stale(EXPERIMENTS[result.experiment], result) else "")


def _fill(text: str, found: Mapping[str, str]) -> str:
    for name, table in found.items():
        block = re.compile(rf"(<!-- {name}[^>]*-->\n\n).*?(\n\n<!-- end -->)", re.DOTALL)
        text, count = block.subn(lambda match, table=table: match[1] + table + match[2], text)
        if count != 1:
            raise SystemExit(f"the text must hold one block <!-- {name} --> ... <!-- end -->, it holds {count}")
    return text


TABLES = {
    NOTE: fill_note,
    ROBOTS / "README.md": fill_robots,
    RETARGET / "README.md": fill_retarget,
    ROOT / "docs" / "retargeting.md": fill_retargeting,
    ROOT / "docs" / "learning.md": fill_learning,
    ROOT / "docs" / "robustness.md": fill_robustness,
    VIEWER / "README.md": fill_viewer,
    TRAINING / "README.md": fill_training,
    STUDIES / "README.md": fill_studies,
}
"""Pages with tables, beside README.md."""


def main() -> None:
    readme = ROOT / "README.md"
    readme.write_text(fill(readme.read_text()))
    for page, filled in TABLES.items():
        page.write_text(filled(page.read_text()))
    for page in claims.pages():
        if page != readme:
            page.write_text(fill_metrics(page.read_text()))
    draw_tradeoff().savefig(ROOT / "benchmarks" / "tradeoff" / "tradeoff.png", dpi=110)
    print(report.write(RESULTS, ROOT / "docs" / "results.md", EXPERIMENTS, header=report.GENERATED))
    trouble = claims.check()
    if trouble:
        print("Numbers without a stored source; see benchmarks/claims.py:", *trouble, sep="\n", file=sys.stderr)
        raise SystemExit(1)


if __name__ == "__main__":
    main()
