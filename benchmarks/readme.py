"""Writes docs/results.md and the tables of the READMEs from the stored results, for `make results`.

A test fails when one of them is stale.
"""

import pathlib
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from stickslip.bench import EXPERIMENTS, contenders, report, style, summary
from stickslip.bench.result import Result, load

ROOT = pathlib.Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
NOTE = ROOT / "stickslip" / "physics" / "conesweep" / "README.md"
ACCURACY = (
    ("stick", "creep of a box that must stick, dt 2 ms"),
    ("stick", "error of a slide in 2 s, dt 2 ms"),
    ("grasp-creep", "creep of a capsule pinched 2x as hard as needed, dt 2 ms"),
    ("seven-tests", "pushed box, error of its way after 10 s"),
    ("seven-tests", "pushed box without noise, error of its way after 10 s"),
    ("seven-tests", "box on slope, error of its way after 10 s"),
    ("torsion", "error of a spin under torsional friction (torsion 5 mm), rms"),
    ("rolling", "error of a speed under rolling friction (rolling 3 mm), rms"),
    ("stack", "height lost by a tower of 10, dt 2 ms"),
    ("penetration", "penetration in a falling pile, mean"),
    ("slide", "height a sliding cube hops"),
)
"""Experiment and title of the scores shown."""
COST = "step of a small pile [ms]"
TRADES = {
    COST: ("speed", "scaling, 1 world", "ms_per_step"),
    "error of a slide [mm]": ("stick", "slide, dt 2 ms", "error_mm"),
    "lost by a tower of 10 [mm]": ("stack", "10 cubes, dt 2 ms", "height_lost_mm"),
    "lost under 100 kg [mm]": ("stack", "100 kg on two of 1 kg, dt 2 ms", "height_lost_mm"),
}
"""What the trade-off of the cone sweep is told by: experiment, case and figure."""


def accuracy() -> str:
    """Selected scores on the CPU, the best in bold."""
    results = {name: load(RESULTS / "cpu" / f"{name}.json") for name, _ in ACCURACY}
    measured = {label for result in results.values() for label in result.contenders}
    labels = [label for label in contenders.names() if label in measured]
    lines = []
    for name, title in ACCURACY:
        table = summary.rows(EXPERIMENTS[name], results[name], labels)
        (row,) = [row for row in table if row.score.title == title]
        cells = [f"**{c.text}**" if (c := row.cells[label]).best else c.text for label in labels]
        lines.append(f"| {title} [{row.score.unit}] | `{name}` | " + " | ".join(cells) + " |")
    head = "| | experiment | " + " | ".join(f"`{label}`" for label in labels) + " |"
    return "\n".join([head, "|" + " --- |" * (2 + len(labels)), *lines])


def speed() -> str:
    """Step times on the GPU, and how much faster each physics is than the faster MuJoCo."""
    result = load(RESULTS / "h200" / "speed.json")
    there = [label for label in contenders.names() if label in result.contenders]
    own = [label for label in there if label not in contenders.BASELINES]
    lines = []
    for case in result.cases:
        values = [style.number(result.figure(label, case, "ms_per_step")) for label in there]
        ratios = [f"{_ratio(result, label, case):.1f}" for label in own]
        contacts = ", ".join(f"{result.figure(label, case, 'contacts_per_world'):.1f}" for label in there)
        lines.append(f"| {case} | " + " | ".join(values + ratios) + f" | {contacts} |")
    head = ["", *(f"`{label}` ms" for label in there), *(f"`{label}` is faster by" for label in own)]
    return "\n".join(["| " + " | ".join([*head, "contacts a world"]) + " |", "|" + " --- |" * (1 + len(head)), *lines])


def _ratio(result: Result, label: str, case: str) -> float:
    return result.figure(label, case, "speedup")


def ablation() -> str:
    """Height lost and speed left of towers, for variants of the cone sweep."""
    result = load(ROOT / "benchmarks" / "ablation" / "stack.json")
    lines = []
    for label in result.contenders:
        cells = []
        for case in result.cases:
            lost, left = (result.figure(label, case, name) for name in ("height_lost_mm", "late_speed_mm_per_s"))
            cells.append("fell" if result.figure(label, case, "fell") else f"{lost:.2g}; {left:.2g}")
        variant = label.partition(":")[2]
        lines.append(f"| {f'`{variant}`' if variant else 'as it is'} | " + " | ".join(cells) + " |")
    return "\n".join(["| | " + " | ".join(result.cases) + " |", "|" + " --- |" * (1 + len(result.cases)), *lines])


def tradeoff() -> str:
    """Accuracy at 2 ms against the time of a step, for the two MuJoCo and for the cone sweep by substeps and sweeps."""
    lines = []
    for label, figures in _tradeoff().items():
        cells = ["fell" if np.isnan(value) else f"{value:.2g}" for value in figures.values()]
        lines.append(f"| `{label}` | " + " | ".join(cells) + " |")
    return "\n".join(["| | " + " | ".join(TRADES) + " |", "|" + " --- |" * (1 + len(TRADES)), *lines])


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
        for label, figures in points.items():
            variant = label.partition(":")[2].removeprefix("substeps=")
            name = variant or ("6, the default" if label == "cone-sweep" else label)
            ax.plot(figures[COST], figures[what], "o", color=style.COLOURS[label.partition(":")[0]])
            ax.annotate(name, (figures[COST], figures[what]), fontsize=8, xytext=(4, 4), textcoords="offset points")
        ax.set(xscale="log", yscale="log", xlabel=COST, ylabel=what)
        ax.xaxis.set_minor_formatter("")
        ax.set_xticks((ticks := [0.2, 0.5, 1, 2]), [f"{tick:g}" for tick in ticks])
    return fig


def _tradeoff() -> dict[str, dict[str, float]]:
    """What there is to trade, for each contender; NaN where a tower fell."""
    results = {name: load(ROOT / "benchmarks" / "tradeoff" / f"{name}.json") for name in ("speed", "stick", "stack")}
    return {
        label: {what: results[name].figure(label, case, figure) for what, (name, case, figure) in TRADES.items()}
        for label in results["speed"].contenders
    }


def fill(text: str) -> str:
    """The README with its tables as the stored results have them."""
    return _fill(text, {"accuracy: cpu": accuracy(), "speed: h200": speed()})


def fill_note(text: str) -> str:
    """The note on the cone sweep, likewise."""
    return _fill(text, {"ablation: cpu": ablation(), "trade-off: cpu": tradeoff()})


def _fill(text: str, tables: Mapping[str, str]) -> str:
    for name, table in tables.items():
        block = re.compile(rf"(<!-- {name}[^>]*-->\n\n).*?(\n\n<!-- end -->)", re.DOTALL)
        text, found = block.subn(lambda match, table=table: match[1] + table + match[2], text)
        if found != 1:
            raise SystemExit(f"the text must hold one block <!-- {name} --> ... <!-- end -->, it holds {found}")
    return text


def main() -> None:
    readme = ROOT / "README.md"
    readme.write_text(fill(readme.read_text()))
    NOTE.write_text(fill_note(NOTE.read_text()))
    draw_tradeoff().savefig(ROOT / "benchmarks" / "tradeoff" / "tradeoff.png", dpi=110)
    print(report.write(RESULTS, ROOT / "docs" / "results.md", EXPERIMENTS))


if __name__ == "__main__":
    main()
