"""Writes docs/results.md and the tables of the READMEs from the stored results, for `make results`.

A test fails when one of them is stale.
"""

import pathlib
import re
from collections.abc import Mapping

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


def accuracy() -> str:
    """Selected scores on the CPU, the best in bold."""
    labels = contenders.names()
    lines = []
    for name, title in ACCURACY:
        table = summary.rows(EXPERIMENTS[name], load(RESULTS / "cpu" / f"{name}.json"), labels)
        (row,) = [row for row in table if row.score.title == title]
        cells = [f"**{c.text}**" if (c := row.cells[label]).best else c.text for label in labels]
        lines.append(f"| {title} [{row.score.unit}] | `{name}` | " + " | ".join(cells) + " |")
    head = "| | experiment | " + " | ".join(f"`{label}`" for label in labels) + " |"
    return "\n".join([head, "|" + " --- |" * (2 + len(labels)), *lines])


def speed() -> str:
    """Step times on the GPU, and how much faster each physics is than the faster MuJoCo."""
    result = load(RESULTS / "h200" / "speed.json")
    own = [label for label in contenders.names() if label not in contenders.BASELINES]
    lines = []
    for case in result.cases:
        values = [style.number(result.figure(label, case, "ms_per_step")) for label in contenders.names()]
        ratios = [f"{_ratio(result, label, case):.1f}" for label in own]
        contacts = ", ".join(f"{result.figure(label, case, 'contacts_per_world'):.1f}" for label in contenders.names())
        lines.append(f"| {case} | " + " | ".join(values + ratios) + f" | {contacts} |")
    head = ["", *(f"`{label}` ms" for label in contenders.names()), *(f"`{label}` is faster by" for label in own)]
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


def fill(text: str) -> str:
    """The README with its tables as the stored results have them."""
    return _fill(text, {"accuracy: cpu": accuracy(), "speed: h200": speed()})


def fill_note(text: str) -> str:
    """The note on the cone sweep, likewise."""
    return _fill(text, {"ablation: cpu": ablation()})


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
    print(report.write(RESULTS, ROOT / "docs" / "results.md", EXPERIMENTS))


if __name__ == "__main__":
    main()
