"""The launches: contacts by world, then everything from contacts to the new velocity with a few lanes per world."""

import functools

import mujoco_warp as mjw
import warp as wp

from stickslip.physics.conesweep.bind import (
    bodies_of,
    contacts_of,
    is_on,
    joints_of,
    matrix_of,
    result_of,
    welds_of,
)
from stickslip.physics.conesweep.layout import (
    COLORS,
    Bodies,
    Contacts,
    Equalities,
    PreviousContacts,
    RowSet,
    Settings,
    Traits,
    Tree,
    Work,
)
from stickslip.physics.conesweep.memory import report, warm_start
from stickslip.physics.conesweep.memory.report import Result
from stickslip.physics.conesweep.model import Model
from stickslip.physics.conesweep.prepare import grouping, inertia, sorting
from stickslip.physics.conesweep.prepare import rows as rowset
from stickslip.physics.conesweep.prepare.inverse import Matrix
from stickslip.physics.conesweep.prepare.rows import Joints, Welds
from stickslip.physics.conesweep.prepare.spin import Spin, spin_of, turn_all
from stickslip.physics.conesweep.space.build import THREADS, build_kernel, gather_factors
from stickslip.physics.conesweep.space.layout import Space
from stickslip.physics.conesweep.space.sweep import block_threads, sweep_kernel
from stickslip.physics.conesweep.substeps import count_passes, count_substeps
from stickslip.physics.conesweep.sweep import aitken, sweep
from stickslip.physics.conesweep.workspace import Sharing, Workspace
from stickslip.physics.mjwarp.lanes import WARP, sync_warp
from stickslip.physics.mjwarp.rows import Rows, rows_of
from stickslip.physics.mjwarp.smooth.factor import Factor

wp.set_module_options({"enable_backward": False})

LINKED_JUMP = 20.0
"""Largest jump for models with joints, whose constraints may oppose each other; larger jumps were unstable."""

PREPARE_REGISTERS = 96
"""Registers per thread while a step is prepared. That is bound by memory latency, so that more threads help."""

FINISH_REGISTERS = 64
"""Registers per thread for the report of a step, for the same reason: all threads of 4096 worlds fit on an H200."""

LEAST_BLOCK = 64
"""Fewest threads of a block."""


@functools.cache
def _prepare_kernel(traits: Traits) -> wp.Kernel:
    """`prepare` for models with these traits."""

    @wp.kernel(module="unique", enable_backward=False, cuda_max_registers=PREPARE_REGISTERS)
    def _prepare(
        nlane: int,
        tree: Tree,
        contacts: Contacts,
        bodies: Bodies,
        settings: Settings,
        previous: PreviousContacts,
        matrix: Matrix,
        spin: Spin,
        work: Work,
    ):
        """Contacts that act, and the forces of their warm start; for free bodies, how they respond too."""
        thread = wp.tid()
        worldid = thread / nlane
        lane = thread - worldid * nlane
        found = grouping.gather_contacts(previous, work, worldid, lane, nlane)
        if wp.static(not traits.coupled):
            grouping.find_free_motion(tree, bodies, work, worldid, lane, nlane)
            sync_warp(nlane)
            turn_all(spin, bodies, work, worldid, lane, nlane)
            sync_warp(nlane)
            inertia.start_bodies(tree, bodies, matrix, work, worldid, lane, nlane)
        sync_warp(nlane)
        sorting.sort_found(contacts, work, worldid, found, lane, nlane)
        sync_warp(nlane)
        warm_start.keep_contacts(tree, contacts, bodies, previous, work, found, worldid, lane, nlane)
        sync_warp(nlane)
        sorting.sort_all(tree, contacts, work, worldid, found, lane, nlane)
        sync_warp(nlane)
        grouping.make_pairs(tree, contacts, work, worldid, lane, nlane)
        warm_start.match_contacts(tree, contacts, bodies, previous, work, worldid, lane, nlane)
        sync_warp(nlane)
        if wp.static(not traits.coupled):
            if lane == 0:
                grouping.color_pairs(tree, work, worldid)
                timestep = bodies.timestep[worldid % bodies.timestep.shape[0]]
                work.substeps[worldid] = count_substeps(settings.substeps, timestep)
            grouping.list_pairs(tree, work, worldid, lane, nlane)
        warm_start.restore_forces(tree, contacts, bodies, previous, work, worldid, lane, nlane)
        if wp.static(not traits.coupled):
            sync_warp(nlane)
            grouping.order_pairs(tree, work, worldid, lane, nlane)
            sync_warp(nlane)
            inertia.weigh_pairs(tree, contacts, bodies, work, worldid, lane, nlane)
            if settings.restitution > 0.0:
                warm_start.find_approaches(tree, work, worldid, lane, nlane)

    return _prepare


@functools.cache
def _constrain_kernel(traits: Traits) -> wp.Kernel:
    """`constrain` for models with these traits."""

    @wp.kernel(module="unique", enable_backward=False)
    def _constrain(
        nlane: int,
        tree: Tree,
        bodies: Bodies,
        matrix: Matrix,
        spin: Spin,
        work: Work,
        rows: RowSet,
        equalities: Equalities,
        space: Space,
        joints: Joints,
        welds: Welds,
    ):
        """What contact space knows without contacts: motion without constraints, factors, rows on dofs, equalities."""
        thread = wp.tid()
        worldid = thread / nlane
        lane = thread - worldid * nlane
        grouping.find_free_motion(tree, bodies, work, worldid, lane, nlane)
        gather_factors(matrix, space, worldid, lane, nlane)
        sync_warp(nlane)
        turn_all(spin, bodies, work, worldid, lane, nlane)
        sync_warp(nlane)
        if wp.static(traits.rows):
            rowset.make_rows(bodies, work, rows, joints, worldid, lane, nlane)
        if wp.static(traits.equalities):
            rowset.make_equalities(tree, bodies, equalities, welds, worldid, lane, nlane)

    return _constrain


@functools.cache
def _sweep_kernel(rough: bool) -> wp.Kernel:
    """`sweep` for models of free bodies, with friction other than the same in both tangents or without."""

    resolve_pairs = sweep.resolver(rough)

    @wp.kernel(module="unique", enable_backward=False)
    def _sweep(nlane: int, tree: Tree, bodies: Bodies, settings: Settings, work: Work):
        """All substeps and sweeps of a step. Before the first, the warm start acts: sweep -1, colour -1.

        Worlds that share a warp pass the same barriers. One with fewer sweeps than its neighbours idles at the end,
        so that no world's result depends on another's timestep.
        """
        thread = wp.tid()
        worldid = thread / nlane
        lane = thread - worldid * nlane
        dt = bodies.timestep[worldid % bodies.timestep.shape[0]]
        substeps = work.substeps[worldid]
        h = dt / float(substeps)
        nsweep = substeps * settings.sweeps
        share = 1.0 - wp.pow(1.0 - settings.correction, 1.0 / float(substeps))  # of the depth, in a substep
        passes = count_passes(settings.passes, dt)
        most_substeps = substeps
        ncolor = work.ncolor[worldid]
        if nlane > 1 and nlane < WARP:  # worlds that share a warp run in step
            first = worldid / (WARP / nlane) * (WARP / nlane)
            for other in range(first, wp.min(first + WARP / nlane, work.ncolor.shape[0])):
                most_substeps = wp.max(most_substeps, work.substeps[other])
                ncolor = wp.max(ncolor, work.ncolor[other])
        sweep.start_pairs(work, worldid, lane, nlane)
        sync_warp(nlane)
        for n in range(-1, most_substeps * settings.sweeps):
            acts = n < nsweep
            is_last = n >= 0 and (n + 1) % settings.sweeps == 0
            is_second = n % 2 == 1
            jumps = n >= 0 and settings.jump > 0.0
            may_jump = jumps and n / 2 * 2 + 2 < nsweep
            if may_jump:
                aitken.mark(tree, work, is_second, worldid, lane, nlane)
            if jumps:
                sync_warp(nlane)
            for c in range(wp.where(n < 0, 1, ncolor)):
                color = wp.where(n < 0, -1, c)
                if n >= 0:
                    if acts:
                        resolve_pairs(tree, settings, work, dt, h, share, passes, is_last, color, worldid, lane, nlane)
                    sync_warp(nlane)
                if color < 0 or color == COLORS - 1:
                    if acts:
                        sweep.gather(tree, bodies, work, dt, is_last, color, worldid, lane, nlane)
                    sync_warp(nlane)
            if jumps and is_second:
                if may_jump:
                    work.partial[worldid, lane] = aitken.compare(tree, work, worldid, lane, nlane)
                sync_warp(nlane)
                if may_jump:
                    aitken.jump(tree, work, settings.jump, worldid, lane, nlane)
                sync_warp(nlane)
            if is_last:
                if acts:
                    sweep.drift(tree, work, h, worldid, lane, nlane)
                sync_warp(nlane)

    return _sweep


@functools.cache
def _finish_kernel(coupled: bool) -> wp.Kernel:
    """`finish` for models in contact space, where the sweeps have found the motion, or for free bodies."""

    @wp.kernel(module="unique", enable_backward=False, cuda_max_registers=FINISH_REGISTERS)
    def _finish(
        nlane: int,
        tree: Tree,
        contacts: Contacts,
        bodies: Bodies,
        work: Work,
        rows: RowSet,
        equalities: Equalities,
        joints: Joints,
        welds: Welds,
        result: Result,
        out: Rows,
    ):
        """What the step leaves behind."""
        thread = wp.tid()
        worldid = thread / nlane
        lane = thread - worldid * nlane
        if wp.static(not coupled):
            report.finish_dofs(tree, bodies, work, result, worldid, lane, nlane)
        ne = report.write_equalities(equalities, welds, out, worldid, lane, nlane)
        others = report.write_rows(bodies, rows, joints, result, out, ne, worldid, lane, nlane)
        report.write_contacts(contacts, work, result, out, others, worldid, lane, nlane)

    return _finish


@wp.kernel
def _remember(
    nlane: int,
    tree: Tree,
    contacts: Contacts,
    bodies: Bodies,
    settings: Settings,
    previous: PreviousContacts,
    work: Work,
    rows: RowSet,
    equalities: Equalities,
    welds: Welds,
):
    """What the next step starts from."""
    thread = wp.tid()
    worldid = thread / nlane
    lane = thread - worldid * nlane
    warm_start.remember_contacts(tree, contacts, bodies, settings, work, previous, worldid, lane, nlane)
    warm_start.remember_rows(bodies, settings, rows, equalities, welds, worldid, lane, nlane)


@wp.kernel
def _move_freely(tree: Tree, bodies: Bodies, spin: Spin, work: Work, result: Result):
    """The motion of a world where nothing constrains it."""
    worldid = wp.tid()
    timestep = bodies.timestep[worldid % bodies.timestep.shape[0]]
    grouping.find_free_motion(tree, bodies, work, worldid, 0, 1)
    turn_all(spin, bodies, work, worldid, 0, 1)
    for i in range(tree.nv):
        result.qacc[worldid, i] = (work.v_free[worldid, i] - bodies.qvel[worldid, i]) / timestep
        result.velocity[worldid, i] = work.v_free[worldid, i] + work.lag[worldid, i]


def _threads(d: mjw.Data, nlane: int) -> dict[str, int]:
    return {"dim": d.nworld * nlane, "block_dim": max(nlane, LEAST_BLOCK)}


def _in_warps(d: mjw.Data, nlane: int) -> int:
    """Threads for so many lanes per world, on CUDA in whole warps; on the CPU one per world."""
    if not d.qpos.device.is_cuda:
        return d.nworld
    return -(-d.nworld * nlane // int(WARP)) * int(WARP)


def _sharing(m: Model, s: Workspace) -> Sharing:
    return s.fixed if m.sweep.deterministic else s.sharing


def write_limit_rows(m: Model, d: mjw.Data, s: Workspace) -> None:
    """Rows of limits alone, without forces: sensors of limits read them before there are any."""
    inputs = [bodies_of(m, d, d.qacc), s.work, s.rows, joints_of(m, d), result_of(m, d, s), rows_of(d)]
    wp.launch(report.limit_rows, dim=d.nworld, inputs=inputs)


def move_freely(m: Model, d: mjw.Data, s: Workspace, qacc_free: wp.array) -> None:
    """The motion, in the workspace, of worlds without constraints."""
    inputs = [m.sweep.tree, bodies_of(m, d, qacc_free), spin_of(m, d), s.work, result_of(m, d, s)]
    wp.launch(_move_freely, dim=d.nworld, inputs=inputs)


def constrain(m: Model, d: mjw.Data, s: Workspace, qacc_free: wp.array, factor: Factor) -> None:
    """Rows of contact space that need no contacts: on dofs, connects and welds.

    Args:
        m: model
        d: data
        s: its workspace
        qacc_free: acceleration without constraints
        factor: the integrator's matrix and its factors
    """
    tree, traits, held = m.sweep.tree, m.sweep.traits, [s.work, s.rows, s.equalities]
    bodies = bodies_of(m, d, qacc_free)
    inputs = [
        s.wide,
        tree,
        bodies,
        matrix_of(m, factor),
        spin_of(m, d),
        *held,
        s.space,
        joints_of(m, d),
        welds_of(m, d),
    ]
    wp.launch(_constrain_kernel(traits), inputs=inputs, **_threads(d, s.wide))
    if traits.rows or traits.equalities:
        _build(m, d, s, qacc_free, are_contacts=False)


def _build(m: Model, d: mjw.Data, s: Workspace, qacc_free: wp.array, *, are_contacts: bool) -> None:
    """Rows of contact space: those of contacts, or all others."""
    held = [s.work, s.rows, s.equalities]
    bodies = bodies_of(m, d, qacc_free)
    inputs = [m.sweep.settings.restitution, m.sweep.tree, contacts_of(m, d), bodies, *held, s.space]
    shape = _sharing(m, s).shape
    wp.launch(build_kernel(shape, are_contacts), _in_warps(d, int(WARP)), inputs=inputs, block_dim=THREADS)


def prepare(m: Model, d: mjw.Data, s: Workspace, qacc_free: wp.array, factor: Factor) -> None:
    """Contacts of each world in the order of their keys, matched with those of the step before; see `constrain`."""
    contacts = contacts_of(m, d)
    s.counters.zero_()
    if is_on(m, mjw.DisableBit.CONTACT):
        wp.launch(grouping.list_contacts, dim=d.naconmax, inputs=[m.sweep.tree, contacts, s.work])
    else:
        s.previous.num.zero_()
    bodies, matrix, spin = bodies_of(m, d, qacc_free), matrix_of(m, factor), spin_of(m, d)
    inputs = [s.wide, m.sweep.tree, contacts, bodies, m.sweep.settings, s.previous, matrix, spin, s.work]
    wp.launch(_prepare_kernel(m.sweep.traits), inputs=inputs, **_threads(d, s.wide))


def solve(m: Model, d: mjw.Data, s: Workspace, qacc_free: wp.array) -> None:
    """Constraint forces of the step: those of dofs and efc.Ma in the data, the motion in the workspace.

    `prepare` comes before it, in contact space `constrain` too; `finish` after it.
    """
    settings, traits, sharing = m.sweep.settings, m.sweep.traits, _sharing(m, s)
    bodies = bodies_of(m, d, qacc_free)
    if traits.coupled:
        _build(m, d, s, qacc_free, are_contacts=True)
        lanes = sharing.shape.lanes
        jump = min(settings.jump, LINKED_JUMP) if traits.linked else settings.jump
        inputs = [bodies, settings, jump, s.work, s.rows, s.equalities, s.space, result_of(m, d, s)]
        wp.launch(sweep_kernel(sharing.shape), _in_warps(d, lanes), inputs=inputs, block_dim=block_threads(lanes))
    else:
        inputs = [sharing.nlane, m.sweep.tree, bodies, settings, s.work]
        wp.launch(_sweep_kernel(traits.rough), inputs=inputs, **_threads(d, sharing.nlane))


def finish(m: Model, d: mjw.Data, s: Workspace, qacc_free: wp.array) -> None:
    """Rows with their forces in the data; for free bodies, the motion too."""
    bodies, result = bodies_of(m, d, qacc_free), result_of(m, d, s)
    held = [s.work, s.rows, s.equalities, joints_of(m, d), welds_of(m, d)]
    inputs = [s.many, m.sweep.tree, contacts_of(m, d), bodies, *held, result, rows_of(d)]
    wp.launch(_finish_kernel(m.sweep.traits.coupled), inputs=inputs, **_threads(d, s.many))


def remember(m: Model, d: mjw.Data, s: Workspace) -> None:
    """Keep the forces of the step for the next one."""
    inputs = [
        s.many,
        m.sweep.tree,
        contacts_of(m, d),
        bodies_of(m, d, d.qacc),
        m.sweep.settings,
        s.previous,
        s.work,
        s.rows,
        s.equalities,
        welds_of(m, d),
    ]
    wp.launch(_remember, inputs=inputs, **_threads(d, s.many))
