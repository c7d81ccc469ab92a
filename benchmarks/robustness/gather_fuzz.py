"""Adds up runs of `stickslip bench run fuzz` with different seeds.

    python benchmarks/robustness/gather_fuzz.py RUN/fuzz.json ... --out total.json

The file has what came of the cases, for each physics and group of cases, and of all; and for each run its seed,
settings, machine, versions, and the digest of the code. Two runs of one physics and seed are refused.
"""

import collections
import dataclasses
import pathlib
import sys
from typing import Annotated, Any

import tyro

from stickslip import files

FORMAT = 1
COUNTS = ("cases right refused reported crash hang exception silent diverged changed message").split()
ALL = "all cases"


@dataclasses.dataclass(frozen=True)
class Options:
    """What to add up."""

    runs: Annotated[tuple[pathlib.Path, ...], tyro.conf.Positional]
    """results of `fuzz`"""
    out: pathlib.Path
    """JSON file"""


def main(options: Options) -> int:
    """Write the sums, and print them."""
    total: dict[str, dict[str, collections.Counter[str]]] = {}
    runs: list[dict[str, Any]] = []
    seen = dict[tuple[str, int], pathlib.Path]()
    for path in sorted(options.runs):
        found = files.read_json(path)
        if found["experiment"] != "fuzz":
            sys.exit(f"error: {path} is a result of {found['experiment']!r}: give results of fuzz")
        for physics, outcomes in found["outcomes"].items():
            groups = {name: one["metrics"] for name, one in outcomes.items() if name != ALL and one["metrics"]}
            if not groups:
                continue
            before = seen.setdefault((physics, found["seed"]), path)
            if before != path:
                sys.exit(f"error: {before} and {path} have {physics} with seed {found['seed']}: leave one out")
            for group, metrics in groups.items():
                counts = collections.Counter({name: int(metrics[name]) for name in COUNTS})
                total.setdefault(physics, {}).setdefault(group, collections.Counter()).update(counts)
            method = found["methods"][physics]
            runs.append(
                {
                    "physics": physics,
                    "seed": found["seed"],
                    "groups": list(groups),
                    "parameters": method["parameters"],
                    "source": method["source"],
                    **{name: found[name] for name in ("settings", "machine", "versions")},
                }
            )
    whole = sum((counts for groups in total.values() for counts in groups.values()), collections.Counter[str]())
    sums = {name: whole[name] for name in COUNTS}
    by_physics = {
        physics: {group: {name: counts[name] for name in COUNTS} for group, counts in groups.items()}
        for physics, groups in sorted(total.items())
    }
    files.write_json(options.out, {"format": FORMAT, ALL: sums, "physics": by_physics, "runs": runs}, flat_lists=True)
    print(", ".join(f"{sums[name]} {name}" for name in COUNTS))
    return 0


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Options, description=__doc__)))
