"""The launches: contacts by world, then everything from contacts to the new velocity with a few lanes a world."""

import functools
from typing import Any

import mujoco_warp as mjw
import warp as wp

from stickslip.physics.conesweep import aitken, carry, dofs, grouping, inertia, inverse, report, sweep
from stickslip.physics.conesweep import rows as rowset
from stickslip.physics.conesweep.block import MAX_LANES, WARP, sync
from stickslip.physics.conesweep.inverse import Matrix
from stickslip.physics.conesweep.layout import (
    COLORS,
    SUBSTEPS_MOST,
    Bodies,
    Contacts,
    Links,
    Memory,
    RowSet,
    Settings,
    Traits,
    Tree,
    Work,
)
from stickslip.physics.conesweep.model import Model, Scratch
from stickslip.physics.conesweep.report import Result
from stickslip.physics.conesweep.rows import Joints, Welds
from stickslip.physics.rowfree.rows import Rows, rows_of

wp.set_module_options({"enable_backward": False})

FINE_STEP = wp.constant(0.003)
"""Timestep up to which the fewer substeps and passes are enough [s]."""
FINE_SUBSTEPS = wp.constant(6)
SUBSTEPS = wp.constant(16)
FINE_PASSES = wp.constant(4)
PASSES = wp.constant(8)

JOINTED_JUMP = wp.constant(20.0)
"""Most of a jump for models with joints: their constraints may pull against each other, and more has thrown them."""

PREPARE_REGISTERS = 96
"""Registers of a thread while a step is prepared: it waits for memory, so that more threads at once help more."""

LEAST_BLOCK = 64
"""Least threads of a block."""


@wp.func
def count_substeps(wanted: int, timestep: float) -> int:
    """Substeps of a step: what is wanted, or enough for its length."""
    if wanted > 0:
        return wanted
    return wp.where(timestep <= FINE_STEP, FINE_SUBSTEPS, SUBSTEPS)


@wp.func
def count_passes(wanted: int, timestep: float) -> int:
    """Passes over the contacts of a pair, likewise."""
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
        memory: Memory,
        matrix: Matrix,
        work: Work,
        rows: RowSet,
        links: Links,
        joints: Joints,
        welds: Welds,
    ):
        """What acts, how bodies give way to it, and the forces carried over from the last step."""
        thread = wp.tid()
        worldid = thread / nlane
        lane = thread - worldid * nlane
        found = work.num[worldid]
        sync(nlane)
        grouping.clear_world(tree, bodies, work, links, worldid, lane, nlane)
        carry.keep_contacts(tree, contacts, bodies, memory, work, found, worldid, lane, nlane)
        sync(nlane)
        grouping.sort_contacts(tree, contacts, work, worldid, lane, nlane)
        sync(nlane)
        grouping.make_pairs(tree, contacts, work, worldid, lane, nlane)
        carry.match_contacts(tree, contacts, bodies, memory, work, worldid, lane, nlane)
        if wp.static(traits.rows):
            rowset.make_rows(tree, bodies, work, rows, joints, worldid, lane, nlane)
        if wp.static(traits.links):
            rowset.make_links(tree, bodies, links, welds, worldid, lane, nlane)
        inverse.invert_small_trees(tree, matrix, work, worldid, lane, nlane)
        sync(nlane)
        if lane == 0:
            grouping.color_pairs(tree, work, links, worldid)
            timestep = bodies.timestep[worldid % bodies.timestep.shape[0]]
            wp.atomic_max(work.shared, SUBSTEPS_MOST, count_substeps(settings.substeps, timestep))
        grouping.link_pairs(tree, work, worldid, lane, nlane)
        carry.carry_forces(tree, contacts, bodies, settings, memory, work, worldid, lane, nlane)
        sync(nlane)
        grouping.count_colors(tree, work, links, worldid, lane, nlane)
        sync(nlane)
        if lane == 0:
            grouping.place_colors(work, links, worldid)
        sync(nlane)
        grouping.order_pairs(tree, work, links, worldid, lane, nlane)
        inertia.weigh_bodies(tree, bodies, work, worldid, lane, nlane)
        if wp.static(traits.rows):
            rowset.count_rows(tree, work, rows, worldid, lane, nlane)
            rowset.feel_rows(tree, work, rows, worldid, lane, nlane)
        sync(nlane)
        inertia.weigh_pairs(tree, contacts, bodies, work, worldid, lane, nlane)
        if wp.static(traits.links):
            inertia.weigh_links(tree, bodies, work, links, worldid, lane, nlane)
        if wp.static(traits.rows):
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
        links: Links,
    ):
        """All substeps and sweeps of a step. Before the first, the carried forces act: sweep -1, colour -1."""
        thread = wp.tid()
        worldid = thread / nlane
        lane = thread - worldid * nlane
        dt = bodies.timestep[worldid % bodies.timestep.shape[0]]
        substeps = work.shared[SUBSTEPS_MOST]
        h = dt / float(substeps)
        nsweep = substeps * settings.sweeps
        share = 1.0 - wp.pow(1.0 - settings.correction, 1.0 / float(substeps))  # of the depth, in a substep
        passes = count_passes(settings.passes, dt)
        ncolor = work.ncolor[worldid]
        jointed_colors = work.jointed_colors[worldid]
        if nlane > 1 and nlane < WARP:  # worlds that share a warp run in step
            first = worldid / (WARP / nlane) * (WARP / nlane)
            for other in range(first, wp.min(first + WARP / nlane, work.ncolor.shape[0])):
                ncolor = wp.max(ncolor, work.ncolor[other])
                jointed_colors = jointed_colors | work.jointed_colors[other]
        most = settings.jump
        if wp.static(traits.jointed):
            most = wp.min(most, JOINTED_JUMP)
        sweep.start_pairs(work, worldid, lane, nlane)
        dofs.start_rows(rows, worldid, lane, nlane)
        sweep.start_links(links, worldid, lane, nlane)
        sync(nlane)
        for n in range(-1, nsweep):
            is_last = n >= 0 and (n + 1) % settings.sweeps == 0
            is_second = n % 2 == 1
            may_jump = n >= 0 and settings.jump > 0.0 and n / 2 * 2 + 2 < nsweep
            if may_jump:
                aitken.mark(tree, work, rows, links, is_second, worldid, lane, nlane)
                sync(nlane)
            for c in range(wp.where(n < 0, 1, ncolor)):
                color = wp.where(n < 0, -1, c)
                if n >= 0:
                    resolve_pairs(
                        tree,
                        bodies,
                        settings,
                        work,
                        links,
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
                    if wp.static(traits.rows) and color == 0:
                        dofs.resolve_rows(tree, settings, work, rows, dt, h, share, is_last, worldid, lane, nlane)
                    sync(nlane)
                if color < 0 or color == COLORS - 1:
                    sweep.gather(tree, bodies, work, links, dt, is_last, color, worldid, lane, nlane)
                    sync(nlane)
                if wp.static(traits.jointed) and (n < 0 or ((jointed_colors >> c) & 1) == 1):
                    if wp.static(traits.rows) and n < 0:
                        dofs.gather_rows(tree, work, rows, worldid, lane, nlane)
                        sync(nlane)
                    if wp.static(traits.rows) and color == 0 and rows.nmixed > 0:
                        dofs.gather_wide_rows(tree, work, rows, worldid, lane, nlane)
                        sync(nlane)
                    move_dofs(tree, work, links, dt, is_last, color, worldid, lane, nlane)
                    sync(nlane)
            if may_jump and is_second:
                work.partial[worldid, lane] = aitken.compare(tree, work, worldid, lane, nlane)
                sync(nlane)
                aitken.jump(tree, work, rows, links, most, worldid, lane, nlane)
                sync(nlane)
            if is_last:
                sweep.drift(tree, work, h, worldid, lane, nlane)
                sync(nlane)

    return _sweep


@wp.kernel
def _finish(
    nlane: int,
    tree: Tree,
    contacts: Contacts,
    bodies: Bodies,
    work: Work,
    rows: RowSet,
    links: Links,
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
    sync(nlane)
    report.sum_bodies(tree, bodies, work, links, worldid, lane, nlane)
    sync(nlane)
    report.finish_dofs(tree, bodies, work, rows, result, worldid, lane, nlane)
    if lane == 0:
        report.number_rows(work, rows, links, joints, result, worldid)
    work.partial[worldid, lane] = wp.vec3(float(report.count_rows(contacts, work, result, worldid, lane, nlane)))
    sync(nlane)
    report.number_contacts(contacts, work, result, out, worldid, lane, nlane)
    sync(nlane)
    report.write_rows(bodies, rows, joints, out, worldid, lane, nlane)
    report.write_links(links, welds, out, worldid, lane, nlane)
    report.write_contacts(contacts, work, result, out, worldid, lane, nlane)


@wp.kernel
def _remember(
    nlane: int,
    tree: Tree,
    contacts: Contacts,
    bodies: Bodies,
    settings: Settings,
    memory: Memory,
    work: Work,
    rows: RowSet,
    links: Links,
    welds: Welds,
):
    """What the next step starts from."""
    thread = wp.tid()
    worldid = thread / nlane
    lane = thread - worldid * nlane
    carry.remember_contacts(tree, contacts, bodies, settings, work, memory, worldid, lane, nlane)
    carry.remember_rows(bodies, settings, rows, links, welds, worldid, lane, nlane)


def _fill(struct: Any, *sources: object, **given: object) -> Any:
    """Set every attribute of a Warp struct: given, or of that name in the first source that has it."""
    for name in struct._cls.vars:
        if name in given:
            setattr(struct, name, given[name])
        else:
            setattr(struct, name, next(getattr(s, name) for s in sources if hasattr(s, name)))
    return struct


def _contacts(d: mjw.Data) -> Contacts:
    return _fill(Contacts(), d.contact, nmax=d.naconmax, count=d.nacon, overflow=d.overflow)


def _bodies(m: Model, d: mjw.Data, qacc_free: wp.array) -> Bodies:
    return _fill(Bodies(), d, m, qacc_free=qacc_free, timestep=m.opt.timestep)


def _joints(m: Model, d: mjw.Data) -> Joints:
    return _fill(
        Joints(),
        m,
        d,
        source=m.sweep.source,
        equality=_is_on(m, mjw.DisableBit.EQUALITY),
        friction=_is_on(m, mjw.DisableBit.FRICTIONLOSS),
        limit=_is_on(m, mjw.DisableBit.LIMIT),
    )


def _welds(m: Model, d: mjw.Data) -> Welds:
    return _fill(Welds(), m, d, eqid=m.sweep.eqid, equality=_is_on(m, mjw.DisableBit.EQUALITY))


def _is_on(m: Model, part: mjw.DisableBit) -> bool:
    return not m.opt.disableflags & part


def _result(m: Model, d: mjw.Data, s: Scratch) -> Result:
    return _fill(Result(), d, Ma=d.efc.Ma, qacc=s.qacc, velocity=s.velocity, cone=int(m.opt.cone))


def _threads(d: mjw.Data, nlane: int) -> dict[str, int]:
    return {"dim": d.nworld * nlane, "block_dim": max(nlane, LEAST_BLOCK)}


def _block(size: int) -> int:
    """A size in whole warps: threads that invert a matrix, one a column, and few kernels for many sizes."""
    return -(-size // int(WARP)) * int(WARP)


def write_limit_rows(m: Model, d: mjw.Data, s: Scratch) -> None:
    """Rows of limits alone, without forces: sensors of limits read them before there are any."""
    inputs = [m.sweep.tree, _bodies(m, d, d.qacc), s.work, s.rows, _joints(m, d), _result(m, d, s), rows_of(d)]
    wp.launch(report.limit_rows, dim=d.nworld, inputs=inputs)


def solve(m: Model, d: mjw.Data, s: Scratch, qacc_free: wp.array, H: wp.array) -> None:
    """Constraint forces of the step: qfrc_constraint, efc.Ma and rows in the data, the motion in the scratch.

    Args:
        m: model
        d: data
        s: its scratch
        qacc_free: acceleration without constraints
        H: the integrator's matrix
    """
    tree, settings = m.sweep.tree, m.sweep.settings
    contacts, bodies = _contacts(d), _bodies(m, d, qacc_free)
    joints, welds = _joints(m, d), _welds(m, d)
    s.counters.zero_()
    if _is_on(m, mjw.DisableBit.CONTACT):
        wp.launch(grouping.count_contacts, dim=d.naconmax, inputs=[tree, contacts, s.work])
        wp.launch(grouping.place_worlds, dim=d.nworld, inputs=[s.memory, s.work])
        wp.launch(grouping.group_contacts, dim=d.naconmax, inputs=[tree, contacts, s.work])
    else:
        s.work.adr.zero_()
        s.memory.num.zero_()
    matrix = _fill(Matrix(), m, H=H)
    held = [s.work, s.rows, s.links]
    if tree.nlarge:
        size = _block(m.sweep.largest) if d.qpos.device.is_cuda else 1
        nlane = min(size, MAX_LANES)
        inputs = [nlane, tree, matrix, s.work]
        wp.launch(inverse.invert_kernel(size), d.nworld * tree.nlarge * nlane, inputs=inputs, block_dim=nlane)
    inputs = [s.wide, tree, contacts, bodies, settings, s.memory, matrix, *held, joints, welds]
    wp.launch(_prepare_kernel(m.sweep.traits), inputs=inputs, **_threads(d, s.wide))
    wp.launch(_sweep_kernel(m.sweep.traits), inputs=[s.nlane, tree, bodies, settings, *held], **_threads(d, s.nlane))
    inputs = [s.wide, tree, contacts, bodies, *held, joints, welds, _result(m, d, s), rows_of(d)]
    wp.launch(_finish, inputs=inputs, **_threads(d, s.wide))


def remember(m: Model, d: mjw.Data, s: Scratch) -> None:
    """Keep the forces of the step for the next one."""
    inputs = [
        s.wide,
        m.sweep.tree,
        _contacts(d),
        _bodies(m, d, d.qacc),
        m.sweep.settings,
        s.memory,
        s.work,
        s.rows,
        s.links,
        _welds(m, d),
    ]
    wp.launch(_remember, inputs=inputs, **_threads(d, s.wide))
