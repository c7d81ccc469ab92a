"""The tasks, by name."""

from pathlib import Path

from stickslip.mpc.task import Task
from stickslip.mpc.tasks import allegro, fingertips, leap, menagerie, trifinger

FOLDER = Path(__file__).parent
"""Where the MJCF files of tasks are."""

TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        fingertips.ROTATE,
        fingertips.FLIP,
        fingertips.AIR,
        trifinger.TRIFINGER,
        allegro.ALLEGRO,
        leap.YAW,
        leap.ROLL,
        menagerie.ALLEGRO,
        menagerie.YAW,
        menagerie.ROLL,
    )
}
