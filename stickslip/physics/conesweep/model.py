"""The cone sweep's model and data: MuJoCo Warp's, with the layout of trees, rows and links, and a memory of forces."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import mujoco
import mujoco_warp as mjw
import numpy as np
import warp as wp

from stickslip.errors import InputError
from stickslip.physics.conesweep.block import LEAST_LANES, LEAST_WIDE, WARP, lanes
from stickslip.physics.conesweep.layout import (
    COLORS,
    Links,
    Memory,
    RowSet,
    Settings,
    Traits,
    Tree,
    Work,
)
from stickslip.physics.conesweep.pack import FORCE, GIVEN, PULL, ROWS, TOUCH, TURN
from stickslip.physics.conesweep.topology import (
    flat,
    ints,
    jointed_bodies,
    links_of_model,
    lone_bodies,
    make_tree,
    responses,
    rows_of_model,
    vec2i,
    widest,
    widths,
)
from stickslip.physics.rowfree import model as rowfree

wp.set_module_options({"enable_backward": False})

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


def put_model(mjm: mujoco.MjModel, batch_sizes: dict[str, int] | None, settings: Settings, ahead: float) -> Model:
    """MuJoCo Warp's model on the current device, with the cone sweep's layout."""
    m = rowfree.put_model(rowfree.look_ahead(mjm, ahead), batch_sizes, Model)
    sources, columns = rows_of_model(mjm)
    eqid, _ = links_of_model(mjm)
    tree = make_tree(mjm, m, flat(columns))
    traits = Traits(
        jointed=tree.njointed_dof > 0,
        rows=len(sources) > 0,
        links=len(eqid) > 0,
        rough=_is_rough(mjm),
    )
    m.sweep = Layout(settings, traits, tree, int(mjm.tree_dofnum.max(initial=0)), vec2i(sources), ints(eqid))
    return m


def make_scratch(mjm: mujoco.MjModel, d: mjw.Data) -> Scratch:
    """Fresh scratch for data: nothing is carried."""
    sources, columns = rows_of_model(mjm)
    eqid, pairs = links_of_model(mjm)
    lone = lone_bodies(mjm, flat(columns))
    jointed = jointed_bodies(mjm, lone)
    nworld, ncontact = d.nworld, 2 * d.naconmax
    nlane = wide = 1
    if d.qpos.device.is_cuda:
        nlane, wide = _lanes(mjm, d, sum(body >= 0 for body in lone), jointed)
    _, inverse_adr, row_adr = widths(mjm, lone)
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
        "response": (nworld * responses(mjm, jointed),),
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
    rows.n, rows.adr, rows.nnz = len(sources), ints(starts[:-1]), ints([len(c) for c in columns])
    rows.col, rows.val = ints(flat(columns)), wp.zeros((nworld, int(starts[-1])), dtype=float)
    wide_rows = [r for r, c in enumerate(columns) if len(c) > 1]
    rows.nwide, rows.wide = len(wide_rows), ints(wide_rows)
    rows.place = ints([wide_rows.index(r) if r in wide_rows else 0 for r in range(len(columns))])
    rows.felt = wp.zeros((nworld, len(wide_rows) * mjm.nv), dtype=float)
    entries = np.asarray(flat(columns), dtype=int)
    single = np.repeat([len(c) == 1 for c in columns], [len(c) for c in columns]).astype(bool)
    by_dof = np.lexsort((~single, entries))  # of a dof, rows on it alone first
    per_dof, alone = (np.bincount(dofs, minlength=mjm.nv) for dofs in (entries, entries[single]))
    mixed = np.flatnonzero(per_dof > alone)
    rows.dof_single, rows.mixed, rows.nmixed = ints(alone), ints(mixed), len(mixed)
    rows.dof_adr, rows.dof_num = ints(np.cumsum([0, *per_dof])[: mjm.nv]), ints(per_dof)
    owner = np.repeat(np.arange(len(columns)), [len(c) for c in columns])
    rows.dof_entry = vec2i(np.stack([owner[by_dof], by_dof], axis=1) if len(by_dof) else [])
    links.n, links.bodies = len(eqid), vec2i(pairs)
    of_body = [[k for k, pair in enumerate(pairs) if body in pair] for body in range(mjm.nbody)]
    links.body_num = ints([len(k) for k in of_body])
    links.body_adr = ints(np.cumsum([0, *(len(k) for k in of_body)])[: mjm.nbody])
    links.body_link = ints(flat(of_body))
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
    pairs, dofs = d.naconmax / d.nworld / 4, widest(mjm, jointed) / 4
    if d.nworld * int(WARP) <= SWEEP_THREADS:
        least = wide_least = int(WARP)
    else:
        least = max(LEAST_LANES, SWEEP_THREADS // (4 * d.nworld))
        wide_least = max(least, LEAST_WIDE)
    most = SWEEP_THREADS / d.nworld
    return lanes(least, max(min(pairs, nlone), dofs), most), lanes(wide_least, max(pairs, dofs), 2 * most)


def _is_rough(mjm: mujoco.MjModel) -> bool:
    """Whether contacts can have friction other than the same in both tangents."""
    return bool(mjm.npair or (mjm.geom_condim > 3).any() or mjm.flg_surfacevel)


def _allocate(struct: Any, cls: Any, shape: tuple[int, ...], others: str) -> None:
    """Zeros for every array of a struct but some."""
    for name, var in cls.vars.items():
        if name not in others.split():
            setattr(struct, name, wp.zeros(shape, dtype=var.type.dtype))
