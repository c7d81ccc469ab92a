"""MuJoCo Warp's data with the workspace of a convex step, and the state in double precision."""

import dataclasses

import mujoco
import mujoco_warp as mjw
import numpy as np
import warp as wp
from numpy.typing import NDArray

from stickslip.errors import InputError
from stickslip.physics.convex.hydro.pairs import Room, explain
from stickslip.physics.convex.step.external import External, System, make_system
from stickslip.physics.convex.step.layout import Solver
from stickslip.physics.convex.step.model import Problem, make_problem, make_solver
from stickslip.physics.convex.step.motion import show, take
from stickslip.physics.convex.step.potential import real
from stickslip.physics.mjwarp import data as warp_data
from stickslip.physics.mjwarp.memory import Memory, per_world

wp.set_module_options({"enable_backward": False})


@dataclasses.dataclass
class StepMemory(Memory):
    """What a convex step takes from before.

    Attributes:
        exact_qpos, exact_qvel: the state in double precision; NaN: as the data shows it   (nworld, nq), (nworld, nv)
        iterations, factorizations, searches, unfinished: counts of the solver             (nworld,)
        wanted: entries that a factor needed beyond its capacity                           (nworld,)
        z: state of the external system                                                    (nworld, nz)
        patch_notes: what hydroelastic contact had no room for                             (nworld,)
    """

    exact_qpos: wp.array = per_world()
    exact_qvel: wp.array = per_world()
    iterations: wp.array = per_world()
    factorizations: wp.array = per_world()
    searches: wp.array = per_world()
    unfinished: wp.array = per_world()
    wanted: wp.array = per_world(reset=False)
    z: wp.array = per_world()
    patch_notes: wp.array = per_world()


@dataclasses.dataclass
class Workspace:
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

    def counted(self) -> dict[str, NDArray[np.integer]]:
        """What the solver did since each world began, as if it had worked on all dofs of the world at once."""
        dofs = max(self.qvel.shape[1], 1)
        names = ("iterations", "factorizations", "searches")
        return {name: -(-getattr(self.solver, name).numpy() // dofs) for name in names}


@dataclasses.dataclass
class Data(warp_data.Data):
    """MuJoCo Warp's data with the workspace of a convex step.

    Attributes:
        convex: the state in double precision, and the arrays a step works in
    """

    convex: Workspace


def make_workspace(mjm: mujoco.MjModel, d: mjw.Data, external: External | None, room: Room | None) -> Workspace:
    """Workspace for one convex step."""
    solver, nlane = make_solver(mjm, d)
    qpos, qvel = (wp.full((d.nworld, n), np.nan, dtype=real) for n in (mjm.nq, mjm.nv))
    v = wp.zeros((d.nworld, mjm.nv), dtype=real)
    problem = make_problem(mjm, d, external.dofs if external else (), room)
    system = make_system(external, mjm, d.nworld, problem.rows) if external else None
    return Workspace(problem, solver, nlane, wp.zeros(d.nworld, dtype=real), qpos, qvel, v, system)


def remembered(work: Workspace) -> dict[str, wp.array]:
    """The fields of a StepMemory."""
    solver, system, patches = work.solver, work.system, work.problem.patches
    return {
        "exact_qpos": work.qpos,
        "exact_qvel": work.qvel,
        "iterations": solver.iterations,
        "factorizations": solver.factorizations,
        "searches": solver.searches,
        "unfinished": solver.unfinished,
        "wanted": solver.wanted,
        "z": system.z if system is not None else wp.zeros((work.dt.size, 0), dtype=real),
        "patch_notes": patches.notes if patches is not None else wp.zeros(work.dt.size, dtype=int),
    }


def own_data(mjm: mujoco.MjModel, d: mjw.Data, work: Workspace, memory: StepMemory) -> Data:
    """MuJoCo Warp's data with that workspace and memory."""
    out = Data.extend(d, mjm, memory=memory, convex=work)
    work.problem.d = out
    return out


def workspace_of(d: mjw.Data) -> Workspace:
    """The workspace of data made for a convex step."""
    if not isinstance(d, Data):
        raise InputError("this data is not for a convex step: make it with make_data of the physics that steps it")
    return d.convex


def limit_notes(work: Workspace) -> tuple[str, ...]:
    """What is worth knowing of the solver: solves that stopped at their limit."""
    unfinished = int(work.solver.unfinished.numpy().sum())
    return (f"Newton's method stopped at its iteration limit {unfinished} times",) if unfinished else ()


def factor_overflow(work: Workspace) -> tuple[str, ...]:
    """Overflow of the Cholesky factor: more entries than were allocated."""
    wanted = int(work.solver.wanted.numpy().max(initial=0))
    if not wanted:
        return ()
    return (
        f"the Hessian of a world has {wanted} entries and only {work.solver.capacity} were allocated: "
        "simulate fewer worlds at once",
    )


def patch_overflow(work: Workspace) -> tuple[str, ...]:
    """What hydroelastic contact had no room for."""
    patches = work.problem.patches
    return explain(int(np.bitwise_or.reduce(patches.notes.numpy()))) if patches is not None else ()


def take_state(m: mjw.Model, d: mjw.Data) -> None:
    """Let the exact state follow what was written to `qpos` and `qvel`."""
    work = workspace_of(d)
    wp.launch(take, dim=d.qpos.shape, inputs=[d.qpos], outputs=[work.qpos])
    wp.launch(take, dim=d.qvel.shape, inputs=[d.qvel], outputs=[work.qvel])


def show_state(d: mjw.Data, qpos: wp.array, qvel: wp.array) -> None:
    """Show a state as `qpos` and `qvel` of a Data."""
    wp.launch(show, dim=d.qpos.shape, inputs=[qpos], outputs=[d.qpos])
    wp.launch(show, dim=d.qvel.shape, inputs=[qvel], outputs=[d.qvel])
