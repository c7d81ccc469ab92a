"""The cone sweep's model and data: MuJoCo Warp's, with the layout of trees, rows and links, and a memory of forces."""

import copy
import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import mujoco
import mujoco_warp as mjw
import numpy as np
import warp as wp

from stickslip.errors import InputError
from stickslip.physics.conesweep.block import LEAST_LANES, LEAST_WIDE, WARP, lanes
from stickslip.physics.conesweep.inverse import SMALL_TREE
from stickslip.physics.conesweep.layout import (
    COLORS,
    FIXED,
    JOINTED,
    LONE,
    Links,
    Memory,
    RowSet,
    Settings,
    Traits,
    Tree,
    Work,
)
from stickslip.physics.conesweep.pack import FORCE, GIVEN, PULL, RESPONSE, ROWS, TOUCH, TURN
from stickslip.physics.conesweep.rows import (
    BALL_LIMIT,
    JOINT_COUPLING,
    JOINT_FRICTION,
    JOINT_LIMIT,
    TENDON_COUPLING,
    TENDON_FRICTION,
    TENDON_LIMIT,
)
from stickslip.physics.rowfree import model as rowfree

wp.set_module_options({"enable_backward": False})

_SEEN_EARLY = (
    mujoco.mjtGeom.mjGEOM_PLANE,
    mujoco.mjtGeom.mjGEOM_HFIELD,
    mujoco.mjtGeom.mjGEOM_SPHERE,
    mujoco.mjtGeom.mjGEOM_CAPSULE,
    mujoco.mjtGeom.mjGEOM_BOX,
)
"""Geoms whose contacts are all found before they touch. Of other convex ones only a single point is."""


SWEEP_THREADS = 32768
"""Threads that the sweeps of all worlds may have; from measurements on an H200."""


@dataclasses.dataclass
class Layout:
    """What follows from the model alone, and the parameters.

    Attributes:
        settings: parameters of the sweep
        traits: what the model has
        tree: bodies, dofs and trees
        largest: most dofs of a tree
        source: kind of each row that can act, and of what             (nrow,)
        eqid: equality constraint of each link                         (nlink,)
    """

    settings: Settings
    traits: Traits
    tree: Tree
    largest: int
    source: wp.array
    eqid: wp.array


@dataclasses.dataclass
class Model(rowfree.Model):
    """MuJoCo Warp's model with the cone sweep's layout; every MuJoCo Warp function takes it.

    Attributes:
        sweep: layout and parameters
    """

    sweep: Layout


@wp.kernel
def _forget(mask: wp.array[bool], memory: Memory, rows: RowSet, links: Links):
    worldid = wp.tid()
    if mask[worldid]:
        memory.num[worldid] = 0
        for r in range(rows.n):
            rows.carried[worldid, r] = 0.0
        for k in range(links.n):
            links.carried[worldid, k] = wp.spatial_vector()


@dataclasses.dataclass
class Scratch:
    """What the cone sweep keeps with the data: forces carried from step to step, and room to work in.

    Attributes:
        nlane: lanes that sweep over a world
        wide: lanes for what is done once a step
        memory: contacts of the last step and their forces
        rows: rows on dofs; `carried` holds their forces of the last step
        links: connects and welds; `carried` holds their wrenches
        work: contacts, pairs and bodies of this step
        counters: what of it starts a step at zero                      (nworld + 2,)
        qacc: acceleration of the step                                  (nworld, nv)
        velocity: what moves the positions for a step                   (nworld, nv)
    """

    nlane: int
    wide: int
    memory: Memory
    rows: RowSet
    links: Links
    work: Work
    counters: wp.array
    qacc: wp.array
    velocity: wp.array

    def carried(self) -> dict[str, wp.array]:
        """The arrays that the next step starts from, by name."""
        memory = {f"memory_{name}": getattr(self.memory, name) for name in Memory.vars}
        return {**memory, "carried_rows": self.rows.carried, "carried_links": self.links.carried}

    def forget(self, mask: wp.array | None = None) -> None:
        """No contact was there before and no force is carried, in the worlds of the mask or in all."""
        if mask is None:
            for array in (self.memory.num, self.rows.carried, self.links.carried):
                array.zero_()
        else:
            wp.launch(_forget, dim=mask.size, inputs=[mask, self.memory, self.rows, self.links])


@dataclasses.dataclass
class Data(mjw.Data):
    """MuJoCo Warp's data with the cone sweep's memory.

    Attributes:
        sweep: forces of the last step, and room to work in
    """

    sweep: Scratch


def own_data(mjm: mujoco.MjModel, d: mjw.Data) -> Data:
    """MuJoCo Warp's data with a fresh memory."""
    out = Data.__new__(Data)
    out.__dict__.update(d.__dict__)
    out.sweep = make_scratch(mjm, d)
    return out


def scratch_of(d: mjw.Data) -> Scratch:
    """The scratch of data that the cone sweep made."""
    scratch = getattr(d, "sweep", None)
    if not isinstance(scratch, Scratch):
        raise InputError("this data has no memory of contacts: make it with stickslip.conesweep.make_data or put_data")
    return scratch


def own_options(mjm: mujoco.MjModel, ahead: float) -> mujoco.MjModel:
    """A copy of the model whose collision detection looks ahead, and finds all points of two boxes that touch.

    MuJoCo Warp has two routines for boxes. The one it takes by default now and then returns one point of two faces, or
    none; the other, for models without native convex collision, returns all of them, also before they touch.
    """
    mjm = copy.copy(mjm)
    mjm.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_NATIVECCD)
    early = np.isin(mjm.geom_type, [int(kind) for kind in _SEEN_EARLY])
    mjm.geom_gap[early & (mjm.geom_adhesion == 0.0)] += 0.5 * ahead  # adhesion pulls within the gap
    mjm.pair_gap[early[mjm.pair_geom1] & early[mjm.pair_geom2] & (mjm.pair_adhesion == 0.0)] += ahead
    return mjm


def put_model(mjm: mujoco.MjModel, batch_sizes: dict[str, int] | None, settings: Settings, ahead: float) -> Model:
    """MuJoCo Warp's model on the current device, with the cone sweep's layout."""
    m = rowfree.put_model(own_options(mjm, ahead), batch_sizes, Model)
    sources, columns = rows_of_model(mjm)
    eqid, _ = links_of_model(mjm)
    tree = _tree(mjm, m, _flat(columns))
    traits = Traits(
        jointed=tree.njointed_dof > 0,
        rows=len(sources) > 0,
        links=len(eqid) > 0,
        rough=_is_rough(mjm),
    )
    m.sweep = Layout(settings, traits, tree, int(mjm.tree_dofnum.max(initial=0)), _vec2i(sources), _ints(eqid))
    return m


def make_scratch(mjm: mujoco.MjModel, d: mjw.Data) -> Scratch:
    """Fresh scratch for data: nothing is carried."""
    sources, columns = rows_of_model(mjm)
    eqid, pairs = links_of_model(mjm)
    lone = _lone_bodies(mjm, _flat(columns))
    jointed = _jointed_bodies(mjm, lone)
    nworld, ncontact = d.nworld, 2 * d.naconmax
    nlane = wide = 1
    if d.qpos.device.is_cuda:
        nlane, wide = _lanes(mjm, d, sum(body >= 0 for body in lone), jointed)
    _, inverse_adr, row_adr = _widths(mjm, lone)
    work = Work()
    shapes: dict[str, tuple[int, ...]] = {
        "adr npair nactive ncolor jointed_colors": (nworld,),
        "partial": (nworld, max(nlane, wide)),
        "slot age": (d.naconmax,),
        "touch": (ncontact * int(TOUCH),),
        "f f_mark": (ncontact * int(FORCE),),
        "pull": (ncontact * int(PULL),),
        "turn": (ncontact * int(TURN) if _is_rough(mjm) else 0,),
        "color_adr": (nworld, int(COLORS) + 1),
        "active": (nworld, len(jointed)),
        "given": (ncontact * int(GIVEN),),
        "head used total": (nworld, mjm.nbody),
        "motion mark Lam": (nworld * mjm.nbody * int(ROWS),),
        "count": (nworld, mjm.ntree, int(COLORS)),
        "touched": (nworld, mjm.ntree),
        "inverse": (nworld, inverse_adr[-1]),
        "row_force": (nworld, row_adr[-1]),
        "response": (nworld * _responses(mjm, jointed),),
        "v_free vx v_start v_mark": (nworld, mjm.nv),
    }
    named = {name: shape for names, shape in shapes.items() for name in names.split()}
    counters = wp.zeros(nworld + 2, dtype=int)
    work.num, work.shared = counters[:nworld], counters[nworld:]
    for name, var in Work.vars.items():
        if name not in ("num", "shared"):
            setattr(work, name, wp.zeros(named.get(name, (ncontact,)), dtype=var.type.dtype))

    rows, links, memory = RowSet(), Links(), Memory()
    starts = np.concatenate([[0], np.cumsum([len(c) for c in columns])]).astype(np.int32)
    rows.n, rows.adr, rows.nnz = len(sources), _ints(starts[:-1]), _ints([len(c) for c in columns])
    rows.col, rows.val = _ints(_flat(columns)), wp.zeros((nworld, int(starts[-1])), dtype=float)
    wide_rows = [r for r, c in enumerate(columns) if len(c) > 1]
    rows.nwide, rows.wide = len(wide_rows), _ints(wide_rows)
    rows.place = _ints([wide_rows.index(r) if r in wide_rows else 0 for r in range(len(columns))])
    rows.felt = wp.zeros((nworld, len(wide_rows) * mjm.nv), dtype=float)
    entries = np.asarray(_flat(columns), dtype=int)
    single = np.repeat([len(c) == 1 for c in columns], [len(c) for c in columns]).astype(bool)
    by_dof = np.lexsort((~single, entries))  # of a dof, rows on it alone first
    per_dof, alone = (np.bincount(dofs, minlength=mjm.nv) for dofs in (entries, entries[single]))
    mixed = np.flatnonzero(per_dof > alone)
    rows.dof_single, rows.mixed, rows.nmixed = _ints(alone), _ints(mixed), len(mixed)
    rows.dof_adr, rows.dof_num = _ints(np.cumsum([0, *per_dof])[: mjm.nv]), _ints(per_dof)
    owner = np.repeat(np.arange(len(columns)), [len(c) for c in columns])
    rows.dof_entry = _vec2i(np.stack([owner[by_dof], by_dof], axis=1) if len(by_dof) else [])
    links.n, links.bodies = len(eqid), _vec2i(pairs)
    of_body = [[k for k, pair in enumerate(pairs) if body in pair] for body in range(mjm.nbody)]
    links.body_num = _ints([len(k) for k in of_body])
    links.body_adr = _ints(np.cumsum([0, *(len(k) for k in of_body)])[: mjm.nbody])
    links.body_link = _ints(_flat(of_body))
    _allocate(
        rows,
        RowSet,
        (nworld, rows.n),
        "n adr nnz col nwide wide place felt dof_adr dof_num dof_single nmixed mixed dof_entry val terms",
    )
    rows.terms = wp.zeros(nworld * rows.n, dtype=wp.vec4)
    links.color_adr = wp.zeros((nworld, int(COLORS) + 1), dtype=int)
    _allocate(links, Links, (nworld, links.n), "n bodies body_num body_adr body_link color_adr")
    memory.num, memory.adr = wp.zeros(nworld, dtype=int), wp.zeros(nworld, dtype=int)
    _allocate(memory, Memory, (ncontact,), "num adr")
    qacc, velocity = (wp.zeros((nworld, mjm.nv), dtype=float) for _ in range(2))
    return Scratch(nlane, wide, memory, rows, links, work, counters, qacc, velocity)


def _lanes(mjm: mujoco.MjModel, d: mjw.Data, nlone: int, jointed: Sequence[int]) -> tuple[int, int]:
    """Lanes of a world on CUDA, for the sweeps and for what is done once a step.

    Pairs of a colour share no lone body, so that there are never more of them than lone bodies; and a lane moves
    several dofs at once. What is done once a step goes contact by contact.
    """
    pairs, dofs = d.naconmax / d.nworld / 4, _widest(mjm, jointed) / 4
    if d.nworld * int(WARP) <= SWEEP_THREADS:
        least = wide_least = int(WARP)
    else:
        least = max(LEAST_LANES, SWEEP_THREADS // (4 * d.nworld))
        wide_least = max(least, LEAST_WIDE)
    most = SWEEP_THREADS / d.nworld
    return lanes(least, max(min(pairs, nlone), dofs), most), lanes(wide_least, max(pairs, dofs), 2 * most)


def _widest(mjm: mujoco.MjModel, jointed: Sequence[int]) -> int:
    """Most dofs of a jointed tree."""
    return max((int(mjm.tree_dofnum[mjm.body_treeid[b]]) for b in jointed), default=1)


def _is_rough(mjm: mujoco.MjModel) -> bool:
    """Whether contacts can have friction other than the same in both tangents."""
    return bool(mjm.npair or (mjm.geom_condim > 3).any() or mjm.flg_surfacevel)


def _allocate(struct: Any, cls: Any, shape: tuple[int, ...], others: str) -> None:
    """Zeros for every array of a struct but some."""
    for name, var in cls.vars.items():
        if name not in others.split():
            setattr(struct, name, wp.zeros(shape, dtype=var.type.dtype))


def _ints(values: object) -> wp.array:
    return wp.array(np.asarray(values, dtype=np.int32), dtype=int)


def _vec2i(values: object) -> wp.array:
    return wp.array(np.asarray(values, dtype=np.int32).reshape(-1, 2), dtype=wp.vec2i)


def _flat(lists: Sequence[Sequence[int]]) -> list[int]:
    return [value for values in lists for value in values]


def _lone_bodies(mjm: mujoco.MjModel, row_dofs: Sequence[int]) -> list[int]:
    """For each tree the one body that all its dofs move; -1 if there are several, or a row acts on a dof."""
    with_rows = {int(mjm.dof_treeid[i]) for i in row_dofs}
    moved: dict[int, set[int]] = {}
    for i in range(mjm.nv):
        moved.setdefault(int(mjm.dof_treeid[i]), set()).add(int(mjm.body_weldid[mjm.dof_bodyid[i]]))
    return [moved[t].pop() if len(moved[t]) == 1 and t not in with_rows else -1 for t in range(mjm.ntree)]


def _jointed_bodies(mjm: mujoco.MjModel, lone: Sequence[int]) -> list[int]:
    """Moving bodies of trees that are not lone."""
    moving = [b for b in range(mjm.nbody) if mjm.body_treeid[b] >= 0 and mjm.body_weldid[b] == b]
    return [b for b in moving if lone[mjm.body_treeid[b]] < 0]


def _widths(mjm: mujoco.MjModel, lone: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
    """Numbers of a row of each tree's inverse; where trees begin in all inverses, and in a row of all; last, the ends.

    Rows of jointed trees and all beginnings are whole records of four numbers.
    """
    widths = [_fours(n) if lone[t] < 0 else int(n) for t, n in enumerate(mjm.tree_dofnum)]
    sizes = [_fours(int(n) * width) for n, width in zip(mjm.tree_dofnum, widths, strict=True)]
    return (
        widths,
        list(itertools.accumulate(sizes, initial=0)),
        list(itertools.accumulate(map(_fours, widths), initial=0)),
    )


def _fours(n: int) -> int:
    """The next multiple of four."""
    return -(-int(n) // 4) * 4


def _responses(mjm: mujoco.MjModel, jointed: Sequence[int]) -> int:
    """Rows of the responses of all jointed bodies."""
    return int(RESPONSE) * sum(int(mjm.tree_dofnum[mjm.body_treeid[b]]) for b in jointed)


def _chain(mjm: mujoco.MjModel, body: int) -> list[int]:
    """Dofs that move a body."""
    dofs: list[int] = []
    while body > 0:
        dofs += range(mjm.body_dofadr[body], mjm.body_dofadr[body] + mjm.body_dofnum[body])
        body = int(mjm.body_parentid[body])
    return dofs


def _tree(mjm: mujoco.MjModel, m: rowfree.Model, row_dofs: Sequence[int]) -> Tree:
    lone = _lone_bodies(mjm, row_dofs)
    jointed = _jointed_bodies(mjm, lone)
    tree = Tree()
    tree.nbody, tree.nv, tree.ntree = mjm.nbody, mjm.nv, mjm.ntree
    tree.body_rootid, tree.body_weldid, tree.body_treeid = m.body_rootid, m.body_weldid, m.body_treeid
    tree.body_dofnum, tree.body_dofadr = m.body_dofnum, m.body_dofadr
    tree.body_subtreenum = m.structure.body_subtreenum
    tree.dof_bodyid, tree.dof_parentid, tree.dof_treeid = m.dof_bodyid, m.dof_parentid, m.dof_treeid
    tree.tree_dofadr, tree.tree_dofnum = m.tree_dofadr, m.tree_dofnum
    widths, inverse_adr, row_adr = _widths(mjm, lone)
    tree.tree_width, tree.tree_inverse, tree.tree_row = _ints(widths), _ints(inverse_adr[:-1]), _ints(row_adr[:-1])
    tree.tree_lone = _ints(lone)
    large = np.flatnonzero(mjm.tree_dofnum > int(SMALL_TREE))
    tree.large, tree.nlarge = _ints(large), len(large)
    tree.jointed, tree.njointed = _ints(jointed), len(jointed)
    tree.widest = _widest(mjm, jointed)
    response = np.zeros(mjm.nbody, dtype=np.int64)
    response[jointed] = np.cumsum([0, *(mjm.tree_dofnum[mjm.body_treeid[b]] for b in jointed)])[: len(jointed)]
    tree.body_response, tree.nresponse = _ints(int(RESPONSE) * response), _responses(mjm, jointed)
    kind = np.full(mjm.nbody, int(FIXED))
    kind[jointed] = int(JOINTED)
    kind[[body for body in lone if body >= 0]] = int(LONE)
    tree.body_kind = _ints(kind)
    chains = [_chain(mjm, b) for b in range(mjm.nbody)]
    tree.chain, tree.chain_adr = _ints(_flat(chains)), _ints(np.cumsum([0, *(len(c) for c in chains)]))
    jointed_dof = [i for i in range(mjm.nv) if lone[mjm.dof_treeid[i]] < 0]
    tree.jointed_dof, tree.njointed_dof = _ints(jointed_dof), len(jointed_dof)
    local: list[int] = []
    seen: dict[int, int] = {}
    for body in mjm.body_weldid[mjm.geom_bodyid]:
        local.append(seen.get(int(body), 0))
        seen[int(body)] = local[-1] + 1
    tree.geom_bodyid, tree.geom_local, tree.maxgeom = m.geom_bodyid, _ints(local), max(seen.values(), default=1)
    return tree


def rows_of_model(mjm: mujoco.MjModel) -> tuple[list[tuple[int, int]], list[list[int]]]:
    """Every row that can ever act, in MuJoCo's order: its kind and id, and the dofs it acts on."""
    tendon_dofs = [
        mjm.ten_J_colind[mjm.ten_J_rowadr[t] : mjm.ten_J_rowadr[t] + mjm.ten_J_rownnz[t]].tolist()
        for t in range(mjm.ntendon)
    ]
    joint_dofs = [[int(dof)] for dof in mjm.jnt_dofadr]
    rows: list[tuple[Any, Any, list[int]]] = []
    for kind, source, dofs in (
        (mujoco.mjtEq.mjEQ_JOINT, JOINT_COUPLING, joint_dofs),
        (mujoco.mjtEq.mjEQ_TENDON, TENDON_COUPLING, tendon_dofs),
    ):
        for eq in np.flatnonzero(mjm.eq_type == int(kind)):
            second = mjm.eq_obj2id[eq]
            rows.append((source, eq, dofs[mjm.eq_obj1id[eq]] + (dofs[second] if second >= 0 else [])))
    rows += [(JOINT_FRICTION, i, [int(i)]) for i in np.flatnonzero(mjm.dof_frictionloss > 0)]
    rows += [(TENDON_FRICTION, t, tendon_dofs[t]) for t in np.flatnonzero(mjm.tendon_frictionloss > 0)]
    for j in np.flatnonzero(mjm.jnt_limited):
        if mjm.jnt_type[j] == int(mujoco.mjtJoint.mjJNT_BALL):
            rows.append((BALL_LIMIT, j, [int(mjm.jnt_dofadr[j]) + k for k in range(3)]))
        elif mjm.jnt_type[j] != int(mujoco.mjtJoint.mjJNT_FREE):
            rows.append((JOINT_LIMIT, j, joint_dofs[j]))
    rows += [(TENDON_LIMIT, t, tendon_dofs[t]) for t in np.flatnonzero(mjm.tendon_limited)]
    return [(int(kind), int(id)) for kind, id, _ in rows], [dofs for _, _, dofs in rows]


def links_of_model(mjm: mujoco.MjModel) -> tuple[list[int], list[tuple[int, int]]]:
    """Connects and then welds, each with the two bodies it holds together."""
    eqid, pairs = [], []
    for kind in (mujoco.mjtEq.mjEQ_CONNECT, mujoco.mjtEq.mjEQ_WELD):
        for eq in np.flatnonzero(mjm.eq_type == int(kind)):
            first, second = int(mjm.eq_obj1id[eq]), int(mjm.eq_obj2id[eq])
            if mjm.eq_objtype[eq] == int(mujoco.mjtObj.mjOBJ_SITE):
                first, second = int(mjm.site_bodyid[first]), int(mjm.site_bodyid[second])
            eqid.append(int(eq))
            pairs.append((int(mjm.body_weldid[first]), int(mjm.body_weldid[second])))
    return eqid, pairs
