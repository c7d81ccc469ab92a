"""Studies: many runs over parameters that survive machines, on local processes or Ray."""

from stickslip.studies.definition import Definition, Settings, load, parse
from stickslip.studies.driver import DiskFull, Progress
from stickslip.studies.study import arrays, plan, retry, run, study, table
from stickslip.studies.work.base import Outcome, Place

__all__ = [
    "Definition",
    "DiskFull",
    "Outcome",
    "Place",
    "Progress",
    "Settings",
    "arrays",
    "load",
    "parse",
    "plan",
    "retry",
    "run",
    "study",
    "table",
]
