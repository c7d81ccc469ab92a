"""The workspace of a step: every array that its kernels pass to each other, allocated once."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import mujoco
import mujoco_warp as mjw
import numpy as np
import warp as wp

from stickslip.physics.conesweep.block import LEAST_LANES, LEAST_WIDE, lanes
from stickslip.physics.conesweep.layout import COLORS, Equalities, PreviousContacts, RowSet, Work
from stickslip.physics.conesweep.pack import FORCE, GIVEN, PULL, ROWS, TOUCH, TURN
from stickslip.physics.conesweep.prepare.topology import (
    chains_of,
    equalities_of_model,
    flat,
    ints,
    is_coupled,
    rows_of_model,
    vec2i,
)
from stickslip.physics.conesweep.space.layout import (
    BLOCK_RECORD,
    CONTACT_RECORD,
    EQUALITY_RECORD,
    ROUGH_RECORD,
    Shape,
    Space,
    count_bits,
    dofs_moving,
    fours_of_chunk,
    gather_factor,
    longest_contact,
    masks_of,
    most_chunks,
    places,
    shape_of,
)
from stickslip.physics.mjwarp.lanes import WARP
from stickslip.physics.mjwarp.private import vec5

SWEEP_THREADS = 32768
"""Most threads for the sweeps of all worlds; measured on an H200."""

FIXED_WORLDS = 4096
"""Worlds that lanes are chosen for where results must not depend on their number."""


class Borrowed:
    """Memory of an array that is not in use yet, for others until then."""

    def __init__(self, owner: wp.array) -> None:
        self._owner, self._taken = owner, 0

    def take(self, count: int, dtype: Any) -> wp.array:
        """An array in that memory after those taken before, or in new memory if it has no place there."""
        size = count * wp.types.type_size_in_bytes(dtype)
        if size == 0 or self._taken + size > self._owner.capacity:
            return wp.zeros(count, dtype=dtype)
        array = wp.array(ptr=self._owner.ptr + self._taken, shape=count, dtype=dtype, device=self._owner.device)
        array._ref = self._owner
        self._taken += -(-size // 16) * 16  # records are read 16 bytes at a time
        return array


class Sharing(NamedTuple):
    """How lanes share the sweeps over a world. They add numbers, in an order that follows from this.

    Attributes:
        nlane: lanes that sweep over free bodies
        shape: what kernels of contact space are made for
    """

    nlane: int
    shape: Shape


@dataclasses.dataclass
class Workspace:
    """What the kernels of a step pass to each other. The arrays of the memory are in the structs too.

    Attributes:
        sharing: how lanes share the sweeps, as suits the number of worlds
        fixed: the same for every number of worlds, as suits many
        wide: lanes that prepare a step
        many: lanes that report and remember it, each about one contact
        previous: contacts of the previous step and their forces
        rows: rows on dofs; `warm_start` holds their forces of the previous step
        equalities: connects and welds; `warm_start` holds their wrenches
        work: contacts, pairs and bodies of this step
        space: rows in contact space
        counters: what of it starts a step at zero                      (nworld lanes + 2,)
        qacc: acceleration of the step                                  (nworld, nv)
        velocity: what moves the positions for a step                   (nworld, nv)
    """

    sharing: "Sharing"
    fixed: "Sharing"
    wide: int
    many: int
    previous: PreviousContacts
    rows: RowSet
    equalities: Equalities
    work: Work
    space: Space
    counters: wp.array
    qacc: wp.array
    velocity: wp.array


def make_workspace(mjm: mujoco.MjModel, d: mjw.Data) -> Workspace:
    """A fresh workspace for data."""
    _, columns = rows_of_model(mjm)
    coupled = is_coupled(mjm, flat(columns))
    cuda, contacts = d.qpos.device.is_cuda, d.naconmax / d.nworld
    wide, many = _lanes(d.nworld, contacts) if cuda else (1, 1)
    sharing = _sharing(mjm, columns, d.nworld, contacts / 4) if cuda else _sharing(mjm, columns)
    fixed = _sharing(mjm, columns, FIXED_WORLDS, mjm.ntree) if cuda else sharing
    space = _make_space(mjm, d, columns, sharing.shape) if coupled else None
    counters = wp.zeros(d.nworld * wide + 2, dtype=int)
    work = _make_work(mjm, d.nworld, d.naconmax, max(sharing.nlane, fixed.nlane, wide), space)
    work.heads, work.cursor = counters[:-2].reshape((d.nworld, wide)), counters[-2:]
    return Workspace(
        sharing=sharing,
        fixed=fixed,
        wide=wide,
        many=many,
        previous=_make_previous(d.nworld, d.naconmax),
        rows=_make_rows(d.nworld, columns),
        equalities=_make_equalities(mjm, d.nworld),
        work=work,
        space=space or Space(),
        counters=counters,
        qacc=wp.zeros((d.nworld, mjm.nv), dtype=float),
        velocity=wp.zeros((d.nworld, mjm.nv), dtype=float),
    )


def lend_to_factor(d: mjw.Data, workspace: Workspace) -> None:
    """Let `qLD` lie where the rows of contacts will be.

    MuJoCo Warp's factors of M are used up by then, in steps that need them at all.
    """
    if workspace.space.contact_z is not None:
        d.qLD = Borrowed(workspace.space.contact_z).take(d.qLD.size, float).reshape(d.qLD.shape)


def most_rows(mjm: mujoco.MjModel) -> int:
    """Rows that a contact has in contact space, at most; three, or more where there can be spin and rolling."""
    if not is_rough(mjm):
        return 3
    return 6 if max(*mjm.geom_condim, *mjm.pair_dim) > 4 else 4


def _make_space(mjm: mujoco.MjModel, d: mjw.Data, columns: Sequence[Sequence[int]], shape: Shape) -> Space:
    """Rows in contact space, as many as there can be."""
    nworld, fours, chains = d.nworld, shape.fours, chains_of(mjm)
    _, pairs = equalities_of_model(mjm)
    dof_masks = masks_of(mjm, [[i] for i in range(mjm.nv)])
    masks = {
        "body": masks_of(mjm, chains),
        "row": masks_of(mjm, columns),
        "equality": masks_of(mjm, [chains[a] + chains[b] for a, b in pairs]),
    }
    gather, dof_adr = gather_factor(mjm, dof_masks)
    equality_adr = places(list(6 * fours * count_bits(masks["equality"])))
    moves = dofs_moving(chains, mjm.nv)
    record = ROUGH_RECORD if shape.rows > 3 else CONTACT_RECORD
    space = Space()
    space.nv, space.nchunk, space.nblock = mjm.nv, moves.shape[1], -(-len(columns) // 4)
    space.L4_size, space.equality_size = dof_adr[-1], equality_adr[-1]
    space.row_size = 4 * fours * most_chunks(masks["row"])
    space.contact_fours = fours * longest_contact(masks["body"])
    space.moves = wp.array(moves, dtype=int)
    for name, mask in masks.items():
        setattr(space, f"{name}_mask", wp.array(mask, dtype=wp.uint64))
    halves = dof_masks.view(np.int32).reshape(-1, 2)
    table = np.column_stack([dof_adr[:-1], halves, np.zeros(mjm.nv)]).astype(np.int32)
    space.dof = wp.array(table, dtype=wp.vec4i)
    space.equality_adr = ints(equality_adr[:-1])
    space.gather = wp.array(gather, dtype=wp.vec4i)
    space.L4 = wp.zeros(nworld * space.L4_size, dtype=wp.vec4)
    space.root = wp.zeros((nworld, 4 * fours * space.nchunk), dtype=float)
    space.nactive = wp.zeros(nworld, dtype=int)
    space.stacked = wp.zeros(nworld, dtype=int)
    space.row = wp.zeros(nworld * space.nblock * BLOCK_RECORD, dtype=wp.vec4)
    space.row_z = wp.zeros(nworld * space.row_size, dtype=wp.vec4)
    space.equality_z = wp.zeros(nworld * space.equality_size, dtype=wp.vec4)
    space.equality = wp.zeros(nworld * len(pairs) * EQUALITY_RECORD, dtype=wp.vec4)
    space.contact = wp.zeros(max(d.naconmax, 1) * record, dtype=wp.vec4)
    space.contact_z = wp.zeros(d.naconmax * shape.rows * space.contact_fours, dtype=wp.vec4)
    return space


def _make_work(mjm: mujoco.MjModel, nworld: int, naconmax: int, nlane: int, space: "Space | None") -> Work:
    """All of `Work` but `heads` and `cursor`, which share an array; in contact space without what only pairs need.

    What only `prepare` uses lies where later kernels write first: in contact space where `build` puts the rows of
    contacts. There `touch` and `f` lie where it puts records.
    """
    alone = 0 if space else 1
    nbody, npair = alone * mjm.nbody, alone * naconmax
    later = space.contact_z if space else wp.zeros(npair * int(GIVEN + FORCE), dtype=wp.vec4)
    early, swept = Borrowed(later).take, Borrowed(later).take
    work = Work()
    work.num = wp.zeros(nworld, dtype=int)
    work.adr = wp.zeros(nworld, dtype=int)
    work.start = wp.zeros(nworld, dtype=int)
    work.npair = wp.zeros(nworld, dtype=int)
    work.substeps = wp.zeros(nworld, dtype=int)
    work.ncolor = wp.zeros(nworld, dtype=int)
    work.color_adr = wp.zeros((nworld, alone * (int(COLORS) + 1)), dtype=int)
    work.partial = wp.zeros((nworld, nlane), dtype=wp.vec3)
    work.next = early(naconmax, dtype=int)
    work.found_key = early(naconmax, dtype=wp.int64)
    work.age = wp.zeros(naconmax, dtype=int)
    work.unsorted_key = early(2 * naconmax, dtype=wp.int64)
    work.unsorted_con = early(2 * naconmax, dtype=int)
    work.sorted_key = early(2 * naconmax, dtype=wp.int64)
    work.sorted_con = early(2 * naconmax, dtype=int)
    work.code = early(naconmax, dtype=int)
    work.of_pair = wp.zeros(naconmax, dtype=int)
    work.key = wp.zeros(naconmax, dtype=wp.int64)
    work.con = wp.zeros(naconmax, dtype=int)
    work.matched = early(naconmax, dtype=int)
    work.hand = wp.zeros(naconmax, dtype=float)
    record = ROUGH_RECORD if most_rows(mjm) > 3 else CONTACT_RECORD
    work.touch = space.contact if space else wp.zeros(naconmax * int(TOUCH), dtype=wp.vec4)
    work.touch_rows = record if space else int(TOUCH)
    work.pull = wp.zeros(npair * int(PULL), dtype=wp.vec4)
    work.turn = wp.zeros(npair * int(TURN) if is_rough(mjm) else 0, dtype=wp.vec4)
    work.f = space.contact[int(TOUCH) :] if space else wp.zeros(naconmax * int(FORCE), dtype=wp.vec4)
    work.f_step = record // int(FORCE) if space else 1
    work.f_mark = swept(npair * int(FORCE), dtype=wp.vec4)
    work.first = (early if space else wp.zeros)(naconmax, dtype=int)
    work.ncon = (early if space else wp.zeros)(naconmax, dtype=int)
    work.bodies = wp.zeros(naconmax, dtype=wp.vec2i)
    work.lone = early(naconmax, dtype=wp.vec2i)
    work.point = (early if space else wp.zeros)(naconmax, dtype=wp.vec4)
    work.color = wp.zeros(npair, dtype=int)
    work.place = wp.zeros(npair, dtype=int)
    work.plan = wp.zeros(npair, dtype=wp.vec4i)
    work.given = swept(npair * int(GIVEN), dtype=wp.vec4)
    work.next1 = wp.zeros(npair, dtype=int)
    work.next2 = wp.zeros(npair, dtype=int)
    work.head = wp.zeros((nworld, nbody), dtype=int)
    work.used = wp.zeros((nworld, nbody), dtype=int)
    work.motion = wp.zeros(nworld * nbody * int(ROWS), dtype=wp.vec4)
    work.mark = wp.zeros(nworld * nbody * int(ROWS), dtype=wp.vec4)
    work.Lam = wp.zeros(nworld * nbody * int(ROWS), dtype=wp.vec4)
    work.crowd = wp.zeros((nworld, alone * mjm.ntree), dtype=int)
    work.inverse = wp.zeros((nworld, alone * mjm.ntree), dtype=wp.spatial_matrix)
    work.v_free = wp.zeros((nworld, mjm.nv), dtype=float)
    work.lag = wp.zeros((nworld, mjm.nv), dtype=float)
    return work


def _make_rows(nworld: int, columns: Sequence[Sequence[int]]) -> RowSet:
    """The rows on dofs; `columns` has the dofs of each."""
    rows, sizes = RowSet(), [len(c) for c in columns]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    rows.n = len(columns)
    rows.adr = ints(starts[:-1])
    rows.nnz = ints(sizes)
    rows.col = ints(flat(columns))
    rows.val = wp.zeros((nworld, int(starts[-1])), dtype=float)
    shape = (nworld, len(columns))
    rows.kind = wp.zeros(shape, dtype=int)
    rows.phi = wp.zeros(shape, dtype=float)
    rows.low = wp.zeros(shape, dtype=float)
    rows.high = wp.zeros(shape, dtype=float)
    rows.weight = wp.zeros(shape, dtype=float)
    rows.f = wp.zeros(shape, dtype=float)
    rows.warm_start = wp.zeros(shape, dtype=float)
    return rows


def _make_equalities(mjm: mujoco.MjModel, nworld: int) -> Equalities:
    """Connects and welds."""
    equalities = Equalities()
    eqid, pairs = equalities_of_model(mjm)
    equalities.n = len(eqid)
    equalities.bodies = vec2i(pairs)
    shape = (nworld, len(eqid))
    equalities.active = wp.zeros(shape, dtype=int)
    equalities.point = wp.zeros(shape, dtype=wp.vec3)
    equalities.error = wp.zeros(shape, dtype=wp.spatial_vector)
    equalities.anchor = wp.zeros(shape, dtype=wp.vec3)
    equalities.quat = wp.zeros(shape, dtype=wp.quat)
    equalities.weight = wp.zeros(shape, dtype=wp.spatial_vector)
    equalities.f = wp.zeros(shape, dtype=wp.spatial_vector)
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


def _lanes(nworld: int, contacts: float) -> tuple[int, int]:
    """Lanes of a world on CUDA: to prepare a step, to report it. Results do not depend on them.

    To prepare a step takes many registers and goes contact by contact. To report it takes few, and each contact is read
    and written once.
    """
    least, most = _least_lanes(nworld), SWEEP_THREADS / nworld
    return (
        lanes(max(least, LEAST_WIDE), contacts / 4, 2 * most),
        lanes(LEAST_WIDE, contacts, max(int(WARP), 2 * most)),
    )


def _least_lanes(nworld: int) -> int:
    return int(WARP) if nworld * int(WARP) <= SWEEP_THREADS else max(LEAST_LANES, SWEEP_THREADS // (4 * nworld))


def _sharing(
    mjm: mujoco.MjModel, columns: Sequence[Sequence[int]], nworld: int | None = None, pairs: float = 0.0
) -> Sharing:
    """How lanes share the sweeps of a world, on CUDA if a number of worlds is given; else it has one lane.

    Pairs of a colour share no body, so that there are never more of them than bodies. A row in contact space has a
    chunk of dofs for each lane, or several where there are many worlds.
    """
    nlane = lanes_of_row = 1
    if nworld is not None:
        most = SWEEP_THREADS / nworld
        nlane = lanes(_least_lanes(nworld), min(pairs, mjm.ntree), most)
        chunks = -(-mjm.nv // (4 * fours_of_chunk(mjm.nv)))
        lanes_of_row = lanes(8, chunks, min(most, int(WARP)))
    equalities = bool(equalities_of_model(mjm)[0])
    return Sharing(nlane, shape_of(mjm, most_rows(mjm), lanes_of_row, bool(columns), equalities))


def is_rough(mjm: mujoco.MjModel) -> bool:
    """Whether contacts can have friction other than the same in both tangents."""
    return bool(mjm.npair or (mjm.geom_condim > 3).any() or mjm.flg_surfacevel)
