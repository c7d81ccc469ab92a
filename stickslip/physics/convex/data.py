"""MuJoCo Warp's data with room for a convex step, and the state in double precision."""

import dataclasses

import mujoco
import mujoco_warp as mjw
import numpy as np
import warp as wp
from numpy.typing import NDArray

from stickslip.errors import InputError
from stickslip.physics.convex.external import External, System, make_system, restart
from stickslip.physics.convex.layout import Solver
from stickslip.physics.convex.model import Problem, make_problem, make_solver
from stickslip.physics.convex.motion import show, take
from stickslip.physics.convex.potential import real

wp.set_module_options({"enable_backward": False})


@wp.kernel
def _forget(mask: wp.array[bool], solver: Solver, qpos: wp.array2d[real], qvel: wp.array2d[real]):
    """The exact state follows the shown one to the last digit, and nothing is counted or kept by the solver."""
    worldid = wp.tid()
    if mask[worldid]:
        for i in range(qpos.shape[1]):
            qpos[worldid, i] = wp.float64(wp.nan)
        for i in range(qvel.shape[1]):
            qvel[worldid, i] = wp.float64(wp.nan)
        solver.iterations[worldid] = wp.int64(0)
        solver.factorizations[worldid] = wp.int64(0)
        solver.searches[worldid] = wp.int64(0)
        solver.unfinished[worldid] = 0


@dataclasses.dataclass
class Room:
    """What a convex step keeps with the data.

    Attributes:
        problem: of the geometry of the data itself
        solver: Newton's method
        nlane: lanes of an island
        dt: size of the step, s; 0 leaves a world alone           (nworld,)
        qpos, qvel: the state in double precision; `qpos` and `qvel` of the data show it    (nworld, nq), (nworld, nv)
        v: velocity at the end of the step                        (nworld, nv)
        system: an external system; None if there is none
    """

    problem: Problem
    solver: Solver
    nlane: int
    dt: wp.array
    qpos: wp.array
    qvel: wp.array
    v: wp.array
    system: System | None

    def carried(self) -> dict[str, wp.array]:
        """The arrays that the next step starts from, by name."""
        solver = self.solver
        kept = {
            name: getattr(solver, name) for name in ("iterations", "factorizations", "searches", "unfinished", "wanted")
        }
        if self.system is not None:
            kept["z"] = self.system.z
        return {"exact_qpos": self.qpos, "exact_qvel": self.qvel, **kept}

    def counted(self) -> dict[str, NDArray[np.integer]]:
        """What the solver did since each world began, as if it had worked on all dofs of the world at once."""
        dofs = max(self.qvel.shape[1], 1)
        names = ("iterations", "factorizations", "searches")
        return {name: -(-getattr(self.solver, name).numpy() // dofs) for name in names}

    def forget(self, mask: wp.array) -> None:
        """Worlds in the mask start anew."""
        wp.launch(_forget, dim=mask.size, inputs=[mask, self.solver, self.qpos, self.qvel])
        if self.system is not None:
            start = wp.array(self.system.external.start, dtype=real)
            wp.launch(restart, dim=mask.size, inputs=[mask, start], outputs=[self.system.z])


@dataclasses.dataclass
class Data(mjw.Data):
    """MuJoCo Warp's data with room for a convex step.

    Attributes:
        convex: the state in double precision, and room to work in
    """

    convex: Room


def make_room(mjm: mujoco.MjModel, d: mjw.Data, external: External | None) -> Room:
    """Room for one convex step."""
    solver, nlane = make_solver(mjm, d)
    qpos = wp.zeros((d.nworld, mjm.nq), dtype=real)
    qvel, v = (wp.zeros((d.nworld, mjm.nv), dtype=real) for _ in range(2))
    problem = make_problem(mjm, d, external.dofs if external else ())
    system = make_system(external, mjm, d.nworld, problem.rows) if external else None
    return Room(problem, solver, nlane, wp.zeros(d.nworld, dtype=real), qpos, qvel, v, system)


def own_data(d: mjw.Data, room: Room) -> Data:
    """MuJoCo Warp's data with that room."""
    out = Data.__new__(Data)
    out.__dict__.update(d.__dict__)
    out.convex = room
    room.problem.d = out
    return out


def room_of(d: mjw.Data) -> Room:
    """The room of data that was made for a convex step."""
    room = getattr(d, "convex", None)
    if not isinstance(room, Room):
        raise InputError("this data has no room for a convex step: make it with make_data of the physics that steps it")
    return room


def limit_notes(room: Room) -> tuple[str, ...]:
    """What is worth knowing of the solver: solves that stopped at their limit."""
    unfinished = int(room.solver.unfinished.numpy().sum())
    return (f"Newton's method stopped at its iteration limit {unfinished} times",) if unfinished else ()


def factor_overflow(room: Room) -> tuple[str, ...]:
    """What did not fit: a factor of more entries than there is room for."""
    wanted = int(room.solver.wanted.numpy().max(initial=0))
    if not wanted:
        return ()
    return (
        f"the Hessian of a world has {wanted} entries and there is room for {room.solver.room}: "
        "simulate fewer worlds at once",
    )


def take_state(m: mjw.Model, d: mjw.Data) -> None:
    """Let the exact state follow what was written to `qpos` and `qvel`."""
    room = room_of(d)
    wp.launch(take, dim=d.qpos.shape, inputs=[d.qpos], outputs=[room.qpos])
    wp.launch(take, dim=d.qvel.shape, inputs=[d.qvel], outputs=[room.qvel])


def show_state(d: mjw.Data, qpos: wp.array, qvel: wp.array) -> None:
    """Show a state as `qpos` and `qvel` of a Data."""
    wp.launch(show, dim=d.qpos.shape, inputs=[qpos], outputs=[d.qpos])
    wp.launch(show, dim=d.qvel.shape, inputs=[qvel], outputs=[d.qvel])
