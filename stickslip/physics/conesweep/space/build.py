"""Rows of a world in contact space: constraints, equalities and contacts, whitened by the factors of H."""

import functools
import pathlib

import warp as wp

from stickslip.physics.conesweep.layout import Bodies, Contacts, Equalities, RowSet, Tree, Work
from stickslip.physics.conesweep.memory.warm_start import BOUNCE
from stickslip.physics.conesweep.pack import FORCE, TOUCH
from stickslip.physics.conesweep.prepare.inertia import LOCKED, TINY
from stickslip.physics.conesweep.prepare.inverse import Matrix
from stickslip.physics.conesweep.space.layout import CONTACT_RECORD, ROUGH_RECORD, ROW_RECORD, Space

wp.set_module_options({"enable_backward": False})

_BODY = pathlib.Path(__file__).with_name("build.h").read_text()


def native_constants(**values: float) -> str:
    """C++ constants before the text of a native function."""
    lines = []
    for name, value in values.items():
        if isinstance(value, bool):
            lines.append(f"constexpr bool {name} = {str(value).lower()};")
        elif isinstance(value, int):
            lines.append(f"constexpr int {name} = {value};")
        else:
            lines.append(f"constexpr float {name} = {float(value)!r}f;")
    return "\n".join(lines) + "\n"


@functools.cache
def build_kernel(rows: int, fours: int) -> wp.Kernel:
    """`build` for contacts of up to so many rows, and chunks of so many vectors of four."""
    constants = native_constants(
        per=4 * fours,
        contact_rows=rows,
        contact_record=ROUGH_RECORD if rows > 3 else CONTACT_RECORD,
        row_record=ROW_RECORD,
        touch_rows=int(TOUCH),
        force_rows=int(FORCE),
        rough=rows > 3,
        locked=float(LOCKED),
        tiny=float(TINY),
        bounce=float(BOUNCE),
    )

    @wp.func_native(constants + _BODY)
    def build(
        tree: Tree,
        contacts: Contacts,
        bodies: Bodies,
        matrix: Matrix,
        work: Work,
        rows: RowSet,
        equalities: Equalities,
        space: Space,
        dt: float,
        restitution: float,
        worldid: int,
        lane: int,
        nlane: int,
    ): ...

    @wp.kernel(module="unique", enable_backward=False)
    def _build(
        nlane: int,
        restitution: float,
        tree: Tree,
        contacts: Contacts,
        bodies: Bodies,
        matrix: Matrix,
        work: Work,
        rows: RowSet,
        equalities: Equalities,
        space: Space,
    ):
        thread = wp.tid()
        worldid = thread / nlane
        lane = thread - worldid * nlane
        dt = bodies.timestep[worldid % bodies.timestep.shape[0]]
        build(
            tree, contacts, bodies, matrix, work, rows, equalities, space, dt, restitution, worldid, lane, nlane
        )

    return _build
