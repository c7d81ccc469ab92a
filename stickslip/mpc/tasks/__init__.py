"""The tasks, by name."""

from pathlib import Path

from stickslip.mpc.task import Task
from stickslip.mpc.tasks import (
    allegro,
    cart_pole,
    drawer,
    fingertips,
    leap,
    menagerie,
    push_t,
    quadruped,
    trifinger,
    two_hands,
)

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
        push_t.PUSH_T,
        cart_pole.CART_POLE,
        quadruped.QUADRUPED,
        drawer.DRAWER,
        two_hands.TWO_HANDS,
        menagerie.ALLEGRO,
        menagerie.YAW,
        menagerie.ROLL,
    )
}
