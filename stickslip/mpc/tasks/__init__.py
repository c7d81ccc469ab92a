"""The tasks, by name."""

from stickslip.mpc.task import Task
from stickslip.mpc.tasks import allegro, fingertips, leap, menagerie, trifinger

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
