"""Model and data of a convex step: MuJoCo Warp's, with the layout of trees and rows, materials, and workspace."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import mujoco
import mujoco_warp as mjw
import numpy as np
import warp as wp
from numpy.typing import NDArray

from stickslip.physics.convex.custom import geom_user, numeric
from stickslip.physics.convex.hydro.pairs import Hydro, Room, make_hydro, make_patches
from stickslip.physics.convex.hydro.points import Patches
from stickslip.physics.convex.material import limits_of
from stickslip.physics.convex.step.broadphase import Groups, make_groups
from stickslip.physics.convex.step.contacts import Pool, pool_of
from stickslip.physics.convex.step.lanes import lanes
from stickslip.physics.convex.step.layout import Inertia, Islands, Material, RowSet, Solver, Touch, Tree
from stickslip.physics.convex.step.plan import Plan, Source, make_plan
from stickslip.physics.mjwarp import model as rowfree
from stickslip.physics.mjwarp.data import extended
from stickslip.physics.mjwarp.fields import Limits
from stickslip.physics.mjwarp.friction import friction_dofs

STICTION = 1e-6
"""Default stiction velocity, m/s."""
RIGIDITY = 0.1
"""Period of near-rigid constraints, in steps: beta of (18)."""


@dataclasses.dataclass
class Layout:
    """What follows from the model alone, and the parameters.

    Attributes:
        tree: bodies, dofs, trees
        material: contact parameters
        groups: pairs of geoms that can touch
        plan: which rows there are
        source: what each row comes from                         (nrow,)
        eq_row: first row of each equality                       (neq,)
        dof_implicit: whether an implicit actuator acts on a dof (nv,)
        explicit: explicit actuators that act on such a dof too  (*,)
        friction_dofs: dofs that have a row of dry friction      (*,)
        hydro: pairs that touch in patches; None: there are none
        limits: of the contact parameters that can be set
    """

    tree: Tree
    material: Material
    groups: Groups
    plan: Plan
    source: wp.array
    eq_row: wp.array
    dof_implicit: wp.array
    explicit: wp.array
    friction_dofs: NDArray[np.integer]
    hydro: Hydro | None
    limits: dict[str, Limits]


@dataclasses.dataclass
class Model(rowfree.Model):
    """MuJoCo Warp's model with the layout of a convex step; every MuJoCo Warp function takes it.

    Attributes:
        convex: layout and parameters
    """

    convex: Layout


@dataclasses.dataclass
class Problem:
    """The convex problem of one geometry, and MuJoCo Warp's data that it comes from.

    Attributes:
        d: where positions and velocities of the geometry are
        inertia: mass and forces
        touch: contacts
        rows: all else
        islands: what is solved by itself
        pool: MuJoCo Warp's contacts
        efc_row: row of each of MuJoCo Warp's equality rows      (nworld, njmax)
        patches: hydroelastic contact; None: there is none
    """

    d: mjw.Data
    inertia: Inertia
    touch: Touch
    rows: RowSet
    islands: Islands
    pool: Pool
    efc_row: wp.array
    patches: "Patches | None"


def own_options(mjm: mujoco.MjModel, ahead: float) -> mujoco.MjModel:
    """A copy of the model that sees contacts early, and whose contacts have one row for each direction."""
    mjm = rowfree.with_margin(mjm, ahead)
    mjm.opt.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    mjm.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER  # the step is this physics' own
    return mjm


def unsupported_features(mjm: mujoco.MjModel) -> list[str]:
    """What a model asks for that a convex step cannot honour."""
    features = rowfree.unsupported_features(own_options(mjm, 0.0))
    if mjm.nhistory:
        features.append("delays of controls and sensors (nhistory)")
    if mjm.nplastic:
        features.append("plastic springs (springyield)")
    return features


def chains_of(mjm: mujoco.MjModel) -> list[list[int]]:
    """The dofs that move each body, from the root on."""
    chains: list[list[int]] = [[]]
    for body in range(1, mjm.nbody):
        own = range(mjm.body_dofadr[body], mjm.body_dofadr[body] + mjm.body_dofnum[body])
        chains.append([*chains[mjm.body_parentid[body]], *(int(i) for i in own)])
    return chains


def put_model(
    mjm: mujoco.MjModel,
    *,
    ahead: float,
    stiction: float | None,
    stiffness: float | None,
    dissipation: float | None,
    hydroelastic: float | None,
    patch_margin: float,
    external: Sequence[int] = (),
) -> Model:
    """MuJoCo Warp's model on the current device, with the layout of a convex step."""
    m = rowfree.put_model(own_options(mjm, ahead), None, mjm)
    hydro = make_hydro(mjm, m, hydroelastic, patch_margin)  # before the pairs of geoms are grouped
    chains = chains_of(mjm)
    plan = make_plan(mjm, chains, external)
    touched = {
        dof
        for (kind, *_), dofs in zip(plan.source, plan.columns, strict=True)
        for dof in dofs
        if kind == int(Source.ACTUATOR)
    }
    layout = Layout(
        tree=_tree(mjm, m, chains, plan),
        material=_material(mjm, stiction, stiffness, dissipation),
        groups=make_groups(m),
        plan=plan,
        source=wp.array(np.asarray(plan.source, dtype=np.int32).reshape(-1, 3), dtype=wp.vec3i),
        eq_row=_ints(plan.eq_row),
        dof_implicit=wp.array([i in touched for i in range(mjm.nv)], dtype=bool),
        explicit=_ints(plan.explicit if touched else []),
        friction_dofs=friction_dofs(mjm),
        hydro=hydro,
        limits=limits_of(mjm.ngeom, hydro),
    )
    return extended(Model, m, convex=layout)


def _tree(mjm: mujoco.MjModel, m: mjw.Model, chains: list[list[int]], plan: Plan) -> Tree:
    tree = Tree()
    tree.nv, tree.ntree = mjm.nv, mjm.ntree
    tree.ndim, tree.width = contact_size(mjm, chains)
    tree.tree_dofadr, tree.tree_dofnum = m.tree_dofadr, m.tree_dofnum
    tree.chain_num = _ints([len(chain) for chain in chains])
    tree.chain_adr = _ints(np.cumsum([0, *(len(chain) for chain in chains)])[:-1])
    tree.chain_dof = _ints([dof for chain in chains for dof in chain])
    tree.body_treeid, tree.body_rootid, tree.geom_bodyid = m.body_treeid, m.body_rootid, m.geom_bodyid
    entries: list[list[tuple[int, int]]] = [[] for _ in range(mjm.nv)]
    diagonal = []
    for i in range(mjm.nv):
        adr, nnz = int(mjm.M_rowadr[i]), int(mjm.M_rownnz[i])
        for k in range(adr, adr + nnz):
            j = int(mjm.M_colind[k])
            entries[i].append((j, k))
            if j != i:
                entries[j].append((i, k))
        diagonal.append(adr + nnz - 1)
    tree.sym_num = _ints([len(e) for e in entries])
    tree.sym_adr = _ints(np.cumsum([0, *(len(e) for e in entries)])[: mjm.nv])
    tree.sym_col = _ints([j for e in entries for j, _ in e])
    tree.sym_at = _ints([k for e in entries for _, k in e])
    tree.diag_at = _ints(diagonal)
    linked = np.eye(max(mjm.ntree, 1), dtype=np.uint8)
    for dofs in plan.columns:
        trees = {int(mjm.dof_treeid[dof]) for dof in dofs}
        for one in trees:
            for two in trees:
                linked[one, two] = 1
    tree.linked = wp.array(linked, dtype=wp.uint8)
    return tree


def _material(
    mjm: mujoco.MjModel, stiction: float | None, stiffness: float | None, dissipation: float | None
) -> Material:
    """Contact parameters of all geoms: the physics', or else a geom's own, or else the model's."""
    k, d, mu_s = (
        numeric(mjm, name, above=False) for name in ("contact_stiffness", "contact_dissipation", "static_friction")
    )
    slip = numeric(mjm, "stiction_velocity")
    values = {
        "geom_stiffness": _geom_values(mjm, 0, stiffness, k, 0.0),
        "geom_dissipation": _geom_values(mjm, 1, dissipation, d, -1.0),
        "geom_static_friction": _geom_values(mjm, 2, None, mu_s, 0.0),
    }
    material = Material()
    for name, array in values.items():
        setattr(material, name, wp.array(array[None], dtype=float))
    material.stiction = wp.array([stiction or slip or STICTION], dtype=float)
    material.rigidity = RIGIDITY
    return material


def _geom_values(
    mjm: mujoco.MjModel, column: int, given: float | None, of_model: float | None, default: float
) -> NDArray[np.float64]:
    """A contact parameter of every geom; in `user` 0 means that the geom has none of its own."""
    own = geom_user(mjm, column)
    if given is not None:
        return np.full(mjm.ngeom, given, dtype=float)
    return np.where(own > 0.0, own, default if of_model is None else of_model)


def make_data(mjm: mujoco.MjModel, nworld: int, nconmax: int | None, njmax: int | None) -> mjw.Data:
    """MuJoCo Warp's data; with a Jacobian only where there are equalities."""
    own = own_options(mjm, 0.0)
    if mjm.neq:
        return mjw.make_data(own, nworld=nworld, nconmax=nconmax, njmax=njmax)
    return rowfree.make_data(own, nworld, njmax, nconmax=nconmax)


def make_problem(mjm: mujoco.MjModel, d: mjw.Data, external: Sequence[int] = (), room: Room | None = None) -> Problem:
    """Workspace for the problem of a geometry.

    Args:
        mjm, d: model and data
        external: the dofs that an external system acts on
        room: pairs that can touch in patches
    """
    chains = chains_of(mjm)
    plan = make_plan(mjm, chains, external)
    nworld, size = d.nworld, contact_size(mjm, chains)
    inertia, touch, rows, islands = Inertia(), Touch(), RowSet(), Islands()
    inertia.M = d.M
    trees = max(mjm.ntree, 1)
    shapes = {
        "force damping spring at first adr last": (nworld, mjm.nv),
        "near": (nworld, trees, trees),
        "order mark": (nworld, trees),
        "size": (nworld,),
    }
    _fill(inertia, Inertia, shapes, done=("M",))
    shapes = {"adr num": (nworld,), "cursor": (1,), "J": (d.naconmax * size[0] * size[1],)}
    shapes["dof at"] = (d.naconmax * size[1],)
    _fill(touch, Touch, shapes, (d.naconmax,))
    rows.n = len(plan.source)
    rows.num = _ints([len(columns) for columns in plan.columns])
    rows.adr = _ints(np.cumsum([0, *(len(columns) for columns in plan.columns)])[: rows.n])
    rows.col = _ints([dof for columns in plan.columns for dof in columns])
    rows.tree = _ints([mjm.dof_treeid[columns[0]] if columns else -1 for columns in plan.columns])
    _fill(rows, RowSet, {"val": (nworld, rows.col.size)}, (nworld, rows.n), done=("n", "num", "adr", "col", "tree"))
    shapes = {
        "num": (nworld,),
        "tree": (nworld, trees),
        "dof_adr contact_adr row_adr": (nworld, trees + 1),
        "dof": (nworld, mjm.nv),
        "contact": (d.naconmax,),
        "row": (nworld, rows.n),
    }
    _fill(islands, Islands, shapes)
    efc_row = wp.zeros((nworld, d.njmax if plan.eq_row else 0), dtype=int)
    patches = make_patches(room, d) if room else None
    return Problem(d, inertia, touch, rows, islands, pool_of(d, patches), efc_row, patches)


def make_solver(mjm: mujoco.MjModel, d: mjw.Data) -> tuple[Solver, int]:
    """Workspace for Newton's method, and the lanes of an island."""
    solver = Solver()
    solver.capacity = _factor_capacity(mjm.nv, d.nworld)
    shapes = {"v g p x Av Ap r": (d.nworld, mjm.nv), "factor": (d.nworld, solver.capacity)}
    _fill(solver, Solver, shapes, (d.nworld,), done=("capacity",))
    islands = max(mjm.ntree // 3, 1)  # of a pile, about
    return solver, lanes(d.nworld * islands, mjm.nv) if d.qpos.device.is_cuda else 1


def contact_size(mjm: mujoco.MjModel, chains: list[list[int]]) -> tuple[int, int]:
    """Most rows of a contact, and most dofs that it can move."""
    ndim = int(max(mjm.geom_condim.max(initial=1), mjm.pair_dim.max(initial=1)))
    return ndim, max(2 * max(len(chain) for chain in chains), 1)


def _factor_capacity(nv: int, nworld: int) -> int:
    """Entries of a factor: all of the triangle, or what 4 GiB hold for all worlds; a pile of many bodies needs less."""
    whole = nv * (nv + 1) // 2
    return max(min(whole, 2**29 // nworld), 1)


def _fill(
    struct: Any,
    cls: Any,
    shapes: dict[str, tuple[int, ...]],
    rest: tuple[int, ...] = (),
    done: Sequence[str] = (),
) -> None:
    """Zeros for the arrays of a struct: of the shapes given by name, of one shape for all others but those done."""
    named = {name: shape for names, shape in shapes.items() for name in names.split()}
    for name, var in cls.vars.items():
        if name not in done:
            setattr(struct, name, wp.zeros(named.get(name, rest), dtype=var.type.dtype))


def _ints(values: Any) -> wp.array:
    return wp.array(np.asarray(values, dtype=np.int32), dtype=int)
