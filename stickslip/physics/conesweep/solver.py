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
from stickslip.physics.conesweep.block import MAX_LANES
from stickslip.physics.conesweep.layout import (
    COLORS,
    ROWS_ACT,
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
from stickslip.physics.conesweep.prepare import grouping, inertia, inverse, sorting
from stickslip.physics.conesweep.prepare import rows as rowset
from stickslip.physics.conesweep.prepare.inverse import Matrix
from stickslip.physics.conesweep.prepare.rows import Joints, Welds
from stickslip.physics.conesweep.sweep import aitken, dofs, sweep
from stickslip.physics.conesweep.workspace import Workspace
from stickslip.physics.mjwarp.lanes import WARP, sync_warp
from stickslip.physics.mjwarp.rows import Rows, rows_of

wp.set_module_options({"enable_backward": False})

FINE_STEP = wp.constant(0.003)
"""Timestep up to which the fewer substeps and passes are enough [s]."""
FINE_SUBSTEPS = wp.constant(6)
SUBSTEPS = wp.constant(16)
FINE_PASSES = wp.constant(4)
PASSES = wp.constant(8)

JOINTED_JUMP = wp.constant(20.0)
"""Largest jump for models with joints, whose constraints may oppose each other; larger jumps were unstable."""

PREPARE_REGISTERS = 96
"""Registers per thread while a step is prepared. That is bound by memory latency, so that more threads help."""

LEAST_BLOCK = 64
"""Fewest threads of a block."""


@wp.func
def count_substeps(wanted: int, timestep: float) -> int:
    """Substeps of a step: as many as are asked for, or enough for its length."""
    if wanted > 0:
        return wanted
    return wp.where(timestep <= FINE_STEP, FINE_SUBSTEPS, SUBSTEPS)


@wp.func
def count_passes(wanted: int, timestep: float) -> int:
    """Passes over the contacts of a pair: as many as are asked for, or enough for its length."""
    if wanted > 0:
        return wanted
    return wp.where(timestep <= FINE_STEP, FINE_PASSES, PASSES)


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
        work: Work,
        rows: RowSet,
        equalities: Equalities,
        joints: Joints,
        welds: Welds,
    ):
        """What acts, how bodies respond to it, and the forces of the warm start."""
        thread = wp.tid()
        worldid = thread / nlane
        lane = thread - worldid * nlane
        found = work.num[worldid]
        sync_warp(nlane)
        grouping.clear_world(tree, bodies, work, equalities, worldid, lane, nlane)
        sorting.sort_found(contacts, work, worldid, found, lane, nlane)
        sync_warp(nlane)
        warm_start.keep_contacts(tree, contacts, bodies, previous, work, found, worldid, lane, nlane)
        sync_warp(nlane)
        sorting.sort_all(tree, contacts, work, worldid, found, lane, nlane)
        sync_warp(nlane)
        grouping.make_pairs(tree, contacts, work, worldid, lane, nlane)
        warm_start.match_contacts(tree, contacts, bodies, previous, work, worldid, lane, nlane)
        if wp.static(traits.rows):
            rowset.make_rows(tree, bodies, work, rows, joints, worldid, lane, nlane)
        if wp.static(traits.equalities):
            rowset.make_equalities(tree, bodies, equalities, welds, worldid, lane, nlane)
        inverse.invert_small_trees(tree, matrix, work, worldid, lane, nlane)
        sync_warp(nlane)
        if lane == 0:
            grouping.color_pairs(tree, work, equalities, worldid)
            timestep = bodies.timestep[worldid % bodies.timestep.shape[0]]
            work.substeps[worldid] = count_substeps(settings.substeps, timestep)
        grouping.list_pairs(tree, work, worldid, lane, nlane)
        warm_start.restore_forces(tree, contacts, bodies, settings, previous, work, worldid, lane, nlane)
        sync_warp(nlane)
        grouping.count_colors(tree, work, equalities, worldid, lane, nlane)
        sync_warp(nlane)
        if lane == 0:
            grouping.place_colors(work, equalities, worldid)
        sync_warp(nlane)
        grouping.order_pairs(tree, work, equalities, worldid, lane, nlane)
        inertia.weigh_bodies(tree, bodies, work, worldid, lane, nlane)
        rows_act = (work.jointed_colors[worldid] & ROWS_ACT) != 0
        if wp.static(traits.rows) and rows_act:
            rowset.count_rows(tree, work, rows, worldid, lane, nlane)
            rowset.feel_rows(tree, work, rows, worldid, lane, nlane)
        sync_warp(nlane)
        inertia.weigh_pairs(tree, contacts, bodies, work, worldid, lane, nlane)
        if wp.static(traits.equalities):
            inertia.weigh_equalities(tree, bodies, work, equalities, worldid, lane, nlane)
        if wp.static(traits.rows) and rows_act:
            rowset.weigh_rows(tree, work, rows, worldid, lane, nlane)

    return _prepare


@functools.cache
def _sweep_kernel(traits: Traits) -> wp.Kernel:
    """`sweep` for models with these traits."""

    resolve_pairs = sweep.resolver(traits)
    move_dofs = dofs.mover(traits)

    @wp.kernel(module="unique", enable_backward=False)
    def _sweep(
        nlane: int,
        tree: Tree,
        bodies: Bodies,
        settings: Settings,
        work: Work,
        rows: RowSet,
        equalities: Equalities,
    ):
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
        jointed_colors = work.jointed_colors[worldid]
        rows_act = (jointed_colors & ROWS_ACT) != 0
        if nlane > 1 and nlane < WARP:  # worlds that share a warp run in step
            first = worldid / (WARP / nlane) * (WARP / nlane)
            for other in range(first, wp.min(first + WARP / nlane, work.ncolor.shape[0])):
                most_substeps = wp.max(most_substeps, work.substeps[other])
                ncolor = wp.max(ncolor, work.ncolor[other])
                jointed_colors = jointed_colors | work.jointed_colors[other]
        most = settings.jump
        if wp.static(traits.linked) or rows_act:
            most = wp.min(most, JOINTED_JUMP)
        sweep.start_pairs(work, worldid, lane, nlane)
        dofs.start_rows(rows, worldid, lane, nlane)
        sweep.start_equalities(equalities, worldid, lane, nlane)
        sync_warp(nlane)
        for n in range(-1, most_substeps * settings.sweeps):
            acts = n < nsweep
            is_last = n >= 0 and (n + 1) % settings.sweeps == 0
            is_second = n % 2 == 1
            jumps = n >= 0 and settings.jump > 0.0
            may_jump = jumps and n / 2 * 2 + 2 < nsweep
            if may_jump:
                aitken.mark(tree, work, rows, equalities, is_second, worldid, lane, nlane)
            if jumps:
                sync_warp(nlane)
            for c in range(wp.where(n < 0, 1, ncolor)):
                color = wp.where(n < 0, -1, c)
                if n >= 0:
                    if acts:
                        resolve_pairs(
                            tree,
                            bodies,
                            settings,
                            work,
                            equalities,
                            dt,
                            h,
                            share,
                            passes,
                            is_last,
                            color,
                            worldid,
                            lane,
                            nlane,
                        )
                    if wp.static(traits.rows) and color == 0 and acts and rows_act:
                        dofs.resolve_rows(tree, settings, work, rows, dt, h, share, is_last, worldid, lane, nlane)
                    sync_warp(nlane)
                if color < 0 or color == COLORS - 1:
                    if acts:
                        sweep.gather(tree, bodies, work, equalities, dt, is_last, color, worldid, lane, nlane)
                    sync_warp(nlane)
                if wp.static(traits.jointed) and (n < 0 or ((jointed_colors >> c) & 1) == 1):
                    if wp.static(traits.rows) and n < 0:
                        dofs.gather_rows(tree, work, rows, worldid, lane, nlane)
                        sync_warp(nlane)
                    if wp.static(traits.rows) and color == 0 and rows.nmixed > 0:
                        if acts and rows_act:
                            dofs.gather_wide_rows(tree, work, rows, worldid, lane, nlane)
                        sync_warp(nlane)
                    if acts:
                        move_dofs(tree, work, equalities, rows_act, dt, is_last, color, worldid, lane, nlane)
                    sync_warp(nlane)
            if jumps and is_second:
                if may_jump:
                    work.partial[worldid, lane] = aitken.compare(tree, work, worldid, lane, nlane)
                sync_warp(nlane)
                if may_jump:
                    aitken.jump(tree, work, rows, equalities, most, worldid, lane, nlane)
                sync_warp(nlane)
            if is_last:
                if acts:
                    sweep.drift(tree, work, h, worldid, lane, nlane)
                sync_warp(nlane)

    return _sweep


@wp.kernel
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
    sweep.start_pairs(work, worldid, lane, nlane)
    sync_warp(nlane)
    report.sum_bodies(tree, bodies, work, equalities, worldid, lane, nlane)
    sync_warp(nlane)
    report.finish_dofs(tree, bodies, work, rows, result, worldid, lane, nlane)
    if lane == 0:
        report.number_rows(work, rows, equalities, joints, result, worldid)
    work.partial[worldid, lane] = wp.vec3(float(report.count_rows(contacts, work, result, worldid, lane, nlane)))
    sync_warp(nlane)
    report.number_contacts(contacts, work, result, out, worldid, lane, nlane)
    sync_warp(nlane)
    report.write_rows(bodies, rows, joints, out, worldid, lane, nlane)
    report.write_equalities(equalities, welds, out, worldid, lane, nlane)
    report.write_contacts(contacts, work, result, out, worldid, lane, nlane)


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


def _threads(d: mjw.Data, nlane: int) -> dict[str, int]:
    return {"dim": d.nworld * nlane, "block_dim": max(nlane, LEAST_BLOCK)}


def _block(size: int) -> int:
    """A size in whole warps: threads that invert a matrix, one a column, and few kernels for many sizes."""
    return -(-size // int(WARP)) * int(WARP)


def write_limit_rows(m: Model, d: mjw.Data, s: Workspace) -> None:
    """Rows of limits alone, without forces: sensors of limits read them before there are any."""
    inputs = [m.sweep.tree, bodies_of(m, d, d.qacc), s.work, s.rows, joints_of(m, d), result_of(m, d, s), rows_of(d)]
    wp.launch(report.limit_rows, dim=d.nworld, inputs=inputs)


def solve(m: Model, d: mjw.Data, s: Workspace, qacc_free: wp.array, H: wp.array) -> None:
    """Constraint forces of the step: qfrc_constraint, efc.Ma and rows in the data, the motion in the workspace.

    Args:
        m: model
        d: data
        s: its workspace
        qacc_free: acceleration without constraints
        H: the integrator's matrix
    """
    tree, settings = m.sweep.tree, m.sweep.settings
    contacts, bodies = contacts_of(m, d), bodies_of(m, d, qacc_free)
    joints, welds = joints_of(m, d), welds_of(m, d)
    s.counters.zero_()
    if is_on(m, mjw.DisableBit.CONTACT):
        wp.launch(grouping.count_contacts, dim=d.naconmax, inputs=[tree, contacts, s.work])
        wp.launch(grouping.place_worlds, dim=d.nworld, inputs=[s.previous, s.work])
        wp.launch(grouping.group_contacts, dim=d.naconmax, inputs=[tree, contacts, s.work])
    else:
        s.work.adr.zero_()
        s.previous.num.zero_()
    matrix = matrix_of(m, H)
    held = [s.work, s.rows, s.equalities]
    if tree.nlarge:
        size = _block(m.sweep.largest) if d.qpos.device.is_cuda else 1
        nlane = min(size, MAX_LANES)
        inputs = [nlane, tree, matrix, s.work]
        wp.launch(inverse.invert_kernel(size), d.nworld * tree.nlarge * nlane, inputs=inputs, block_dim=nlane)
    inputs = [s.wide, tree, contacts, bodies, settings, s.previous, matrix, *held, joints, welds]
    wp.launch(_prepare_kernel(m.sweep.traits), inputs=inputs, **_threads(d, s.wide))
    wp.launch(_sweep_kernel(m.sweep.traits), inputs=[s.nlane, tree, bodies, settings, *held], **_threads(d, s.nlane))
    inputs = [s.wide, tree, contacts, bodies, *held, joints, welds, result_of(m, d, s), rows_of(d)]
    wp.launch(_finish, inputs=inputs, **_threads(d, s.wide))


def remember(m: Model, d: mjw.Data, s: Workspace) -> None:
    """Keep the forces of the step for the next one."""
    inputs = [
        s.wide,
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
    wp.launch(_remember, inputs=inputs, **_threads(d, s.wide))
