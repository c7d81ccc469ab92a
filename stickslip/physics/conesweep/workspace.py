"""The workspace of a step: every array that its kernels pass to each other, allocated once."""

import dataclasses
from collections.abc import Sequence

import mujoco
import mujoco_warp as mjw
import numpy as np
import warp as wp

from stickslip.physics.conesweep.block import LEAST_LANES, LEAST_WIDE, lanes
from stickslip.physics.conesweep.layout import COLORS, Equalities, PreviousContacts, RowSet, Work
from stickslip.physics.conesweep.pack import FORCE, GIVEN, PULL, ROWS, TOUCH, TURN
from stickslip.physics.conesweep.prepare.topology import (
    equalities_of_model,
    flat,
    ints,
    jointed_bodies,
    lone_bodies,
    responses,
    rows_of_model,
    vec2i,
    widest,
    widths,
)
from stickslip.physics.mjwarp.lanes import WARP
from stickslip.physics.mjwarp.private import vec5

SWEEP_THREADS = 32768
"""Most threads for the sweeps of all worlds; measured on an H200."""


@dataclasses.dataclass
class Workspace:
    """What the kernels of a step pass to each other. The arrays of the memory are in the structs too.

    Attributes:
        nlane: lanes that sweep over a world
        wide: lanes for what is done once per step
        previous: contacts of the previous step and their forces
        rows: rows on dofs; `warm_start` holds their forces of the previous step
        equalities: connects and welds; `warm_start` holds their wrenches
        work: contacts, pairs and bodies of this step
        counters: what of it starts a step at zero                      (nworld + 1,)
        qacc: acceleration of the step                                  (nworld, nv)
        velocity: what moves the positions for a step                   (nworld, nv)
    """

    nlane: int
    wide: int
    previous: PreviousContacts
    rows: RowSet
    equalities: Equalities
    work: Work
    counters: wp.array
    qacc: wp.array
    velocity: wp.array


def make_workspace(mjm: mujoco.MjModel, d: mjw.Data) -> Workspace:
    """A fresh workspace for data."""
    _, columns = rows_of_model(mjm)
    lone = lone_bodies(mjm, flat(columns))
    jointed = jointed_bodies(mjm, lone)
    nlane = wide = 1
    if d.qpos.device.is_cuda:
        nlane, wide = _lanes(mjm, d, sum(body >= 0 for body in lone), jointed)
    counters = wp.zeros(d.nworld + 1, dtype=int)
    work = _make_work(mjm, d.nworld, d.naconmax, nlane, wide, lone, jointed)
    work.num, work.cursor = counters[: d.nworld], counters[d.nworld :]
    return Workspace(
        nlane=nlane,
        wide=wide,
        previous=_make_previous(d.nworld, 2 * d.naconmax),
        rows=_make_rows(mjm, d.nworld, columns),
        equalities=_make_equalities(mjm, d.nworld),
        work=work,
        counters=counters,
        qacc=wp.zeros((d.nworld, mjm.nv), dtype=float),
        velocity=wp.zeros((d.nworld, mjm.nv), dtype=float),
    )


def _make_work(
    mjm: mujoco.MjModel,
    nworld: int,
    naconmax: int,
    nlane: int,
    wide: int,
    lone: Sequence[int],
    jointed: Sequence[int],
) -> Work:
    """All of `Work` but `num` and `cursor`, which share an array."""
    ncontact = 2 * naconmax
    _, inverse_adr, row_adr = widths(mjm, lone)
    work = Work()
    work.adr = wp.zeros(nworld, dtype=int)
    work.npair = wp.zeros(nworld, dtype=int)
    work.substeps = wp.zeros(nworld, dtype=int)
    work.ncolor = wp.zeros(nworld, dtype=int)
    work.color_adr = wp.zeros((nworld, int(COLORS) + 1), dtype=int)
    work.jointed_colors = wp.zeros(nworld, dtype=int)
    work.nactive = wp.zeros(nworld, dtype=int)
    work.active = wp.zeros((nworld, len(jointed)), dtype=int)
    work.partial = wp.zeros((nworld, max(nlane, wide)), dtype=wp.vec3)
    work.slot = wp.zeros(naconmax, dtype=int)
    work.age = wp.zeros(naconmax, dtype=int)
    work.unsorted_key = wp.zeros(ncontact, dtype=wp.int64)
    work.unsorted_con = wp.zeros(ncontact, dtype=int)
    work.code = wp.zeros(ncontact, dtype=int)
    work.of_pair = wp.zeros(ncontact, dtype=int)
    work.key = wp.zeros(ncontact, dtype=wp.int64)
    work.con = wp.zeros(ncontact, dtype=int)
    work.matched = wp.zeros(ncontact, dtype=int)
    work.hand = wp.zeros(ncontact, dtype=float)
    work.touch = wp.zeros(ncontact * int(TOUCH), dtype=wp.vec4)
    work.pull = wp.zeros(ncontact * int(PULL), dtype=wp.vec4)
    work.turn = wp.zeros(ncontact * int(TURN) if is_rough(mjm) else 0, dtype=wp.vec4)
    work.f = wp.zeros(ncontact * int(FORCE), dtype=wp.vec4)
    work.f_mark = wp.zeros(ncontact * int(FORCE), dtype=wp.vec4)
    work.first = wp.zeros(ncontact, dtype=int)
    work.ncon = wp.zeros(ncontact, dtype=int)
    work.bodies = wp.zeros(ncontact, dtype=wp.vec2i)
    work.lone = wp.zeros(ncontact, dtype=wp.vec2i)
    work.point = wp.zeros(ncontact, dtype=wp.vec4)
    work.color = wp.zeros(ncontact, dtype=int)
    work.place = wp.zeros(ncontact, dtype=int)
    work.plan = wp.zeros(ncontact, dtype=wp.vec4i)
    work.given = wp.zeros(ncontact * int(GIVEN), dtype=wp.vec4)
    work.next1 = wp.zeros(ncontact, dtype=int)
    work.next2 = wp.zeros(ncontact, dtype=int)
    work.head = wp.zeros((nworld, mjm.nbody), dtype=int)
    work.used = wp.zeros((nworld, mjm.nbody), dtype=int)
    work.motion = wp.zeros(nworld * mjm.nbody * int(ROWS), dtype=wp.vec4)
    work.mark = wp.zeros(nworld * mjm.nbody * int(ROWS), dtype=wp.vec4)
    work.Lam = wp.zeros(nworld * mjm.nbody * int(ROWS), dtype=wp.vec4)
    work.total = wp.zeros((nworld, mjm.nbody), dtype=wp.spatial_vector)
    work.count = wp.zeros((nworld, mjm.ntree, int(COLORS)), dtype=int)
    work.touched = wp.zeros((nworld, mjm.ntree), dtype=int)
    work.inverse = wp.zeros((nworld, inverse_adr[-1]), dtype=float)
    work.response = wp.zeros(nworld * responses(mjm, jointed), dtype=wp.vec4)
    work.row_force = wp.zeros((nworld, row_adr[-1]), dtype=wp.vec2)
    work.v_free = wp.zeros((nworld, mjm.nv), dtype=float)
    work.vx = wp.zeros((nworld, mjm.nv), dtype=wp.vec2)
    work.v_start = wp.zeros((nworld, mjm.nv), dtype=float)
    work.v_mark = wp.zeros((nworld, mjm.nv), dtype=float)
    return work


def _make_rows(mjm: mujoco.MjModel, nworld: int, columns: Sequence[Sequence[int]]) -> RowSet:
    """The rows on dofs; `columns` has the dofs of each."""
    rows, nrow = RowSet(), len(columns)
    sizes = [len(c) for c in columns]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    wide = [r for r, size in enumerate(sizes) if size > 1]
    entries = np.asarray(flat(columns), dtype=int)
    single = np.repeat([size == 1 for size in sizes], sizes).astype(bool)
    by_dof = np.lexsort((~single, entries))  # of a dof, rows on it alone first
    per_dof, alone = (np.bincount(dofs, minlength=mjm.nv) for dofs in (entries, entries[single]))
    mixed = np.flatnonzero(per_dof > alone)
    owner = np.repeat(np.arange(nrow), sizes)
    rows.n = nrow
    rows.adr = ints(starts[:-1])
    rows.nnz = ints(sizes)
    rows.col = ints(flat(columns))
    rows.nwide = len(wide)
    rows.wide = ints(wide)
    rows.place = ints([wide.index(r) if r in wide else 0 for r in range(nrow)])
    rows.dof_adr = ints(np.cumsum([0, *per_dof])[: mjm.nv])
    rows.dof_num = ints(per_dof)
    rows.dof_single = ints(alone)
    rows.nmixed = len(mixed)
    rows.mixed = ints(mixed)
    rows.dof_entry = vec2i(np.stack([owner[by_dof], by_dof], axis=1) if len(by_dof) else [])
    rows.val = wp.zeros((nworld, int(starts[-1])), dtype=float)
    rows.response = wp.zeros((nworld, len(wide) * mjm.nv), dtype=float)
    rows.terms = wp.zeros(nworld * nrow, dtype=wp.vec4)
    shape = (nworld, nrow)
    rows.kind = wp.zeros(shape, dtype=int)
    rows.phi = wp.zeros(shape, dtype=float)
    rows.low = wp.zeros(shape, dtype=float)
    rows.high = wp.zeros(shape, dtype=float)
    rows.weight = wp.zeros(shape, dtype=float)
    rows.f = wp.zeros(shape, dtype=float)
    rows.f_mark = wp.zeros(shape, dtype=float)
    rows.df = wp.zeros(shape, dtype=float)
    rows.dp = wp.zeros(shape, dtype=float)
    rows.warm_start = wp.zeros(shape, dtype=float)
    return rows


def _make_equalities(mjm: mujoco.MjModel, nworld: int) -> Equalities:
    """Connects and welds."""
    equalities = Equalities()
    eqid, pairs = equalities_of_model(mjm)
    of_body = [[k for k, pair in enumerate(pairs) if body in pair] for body in range(mjm.nbody)]
    equalities.n = len(eqid)
    equalities.bodies = vec2i(pairs)
    equalities.body_num = ints([len(k) for k in of_body])
    equalities.body_adr = ints(np.cumsum([0, *(len(k) for k in of_body)])[: mjm.nbody])
    equalities.body_equality = ints(flat(of_body))
    equalities.color_adr = wp.zeros((nworld, int(COLORS) + 1), dtype=int)
    shape = (nworld, len(eqid))
    equalities.active = wp.zeros(shape, dtype=int)
    equalities.color = wp.zeros(shape, dtype=int)
    equalities.order = wp.zeros(shape, dtype=int)
    equalities.point = wp.zeros(shape, dtype=wp.vec3)
    equalities.error = wp.zeros(shape, dtype=wp.spatial_vector)
    equalities.anchor = wp.zeros(shape, dtype=wp.vec3)
    equalities.quat = wp.zeros(shape, dtype=wp.quat)
    equalities.K = wp.zeros(shape, dtype=wp.spatial_matrix)
    equalities.f = wp.zeros(shape, dtype=wp.spatial_vector)
    equalities.f_mark = wp.zeros(shape, dtype=wp.spatial_vector)
    equalities.wrench = wp.zeros(shape, dtype=wp.spatial_vector)
    equalities.push = wp.zeros(shape, dtype=wp.spatial_vector)
    equalities.warm_start = wp.zeros(shape, dtype=wp.spatial_vector)
    return equalities


def _make_previous(nworld: int, ncontact: int) -> PreviousContacts:
    """The contacts of the previous step: none."""
    previous = PreviousContacts()
    previous.num = wp.zeros(nworld, dtype=int)
    previous.adr = wp.zeros(nworld, dtype=int)
    previous.key = wp.zeros(ncontact, dtype=wp.int64)
    previous.local1 = wp.zeros(ncontact, dtype=wp.vec3)
    previous.local2 = wp.zeros(ncontact, dtype=wp.vec3)
    previous.normal = wp.zeros(ncontact, dtype=wp.vec3)
    previous.geom = wp.zeros(ncontact, dtype=wp.vec2i)
    previous.dim = wp.zeros(ncontact, dtype=int)
    previous.friction = wp.zeros(ncontact, dtype=vec5)
    previous.margin = wp.zeros(ncontact, dtype=float)
    previous.age = wp.zeros(ncontact, dtype=int)
    previous.force1 = wp.zeros(ncontact, dtype=wp.spatial_vector)
    previous.force2 = wp.zeros(ncontact, dtype=wp.spatial_vector)
    return previous


def _lanes(mjm: mujoco.MjModel, d: mjw.Data, nlone: int, jointed: Sequence[int]) -> tuple[int, int]:
    """Lanes of a world on CUDA, for the sweeps and for what is done once per step.

    Pairs of a colour share no lone body, so that there are never more of them than lone bodies; and a lane moves
    several dofs at once. What is done once per step goes contact by contact.
    """
    pairs, dofs = d.naconmax / d.nworld / 4, widest(mjm, jointed) / 4
    if d.nworld * int(WARP) <= SWEEP_THREADS:
        least = wide_least = int(WARP)
    else:
        least = max(LEAST_LANES, SWEEP_THREADS // (4 * d.nworld))
        wide_least = max(least, LEAST_WIDE)
    most = SWEEP_THREADS / d.nworld
    return lanes(least, max(min(pairs, nlone), dofs), most), lanes(wide_least, max(pairs, dofs), 2 * most)


def is_rough(mjm: mujoco.MjModel) -> bool:
    """Whether contacts can have friction other than the same in both tangents."""
    return bool(mjm.npair or (mjm.geom_condim > 3).any() or mjm.flg_surfacevel)
