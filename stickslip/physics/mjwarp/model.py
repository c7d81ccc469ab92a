"""MuJoCo Warp's model with its tree laid out for row-free constraints, and data without a Jacobian."""

import copy
import dataclasses
import warnings
from typing import TypeVar

import mujoco
import mujoco_warp as mjw
import numpy as np
import warp as wp
from numpy.typing import NDArray

from stickslip.physics.mjwarp.data import extended
from stickslip.physics.mjwarp.smooth.tables import Tables, make_order, make_tables
from stickslip.physics.mjwarp.touches import Gaps, gaps_of
from stickslip.physics.mjwarp.unfit import unfit_features

_DAMPING = ("dof_damping", "dof_dampingpoly", "actuator_damping", "actuator_dampingpoly")
_INTEGRATORS = (mujoco.mjtIntegrator.mjINT_EULER, mujoco.mjtIntegrator.mjINT_IMPLICITFAST)


@dataclasses.dataclass
class Structure:
    """What follows from the model alone and is asked for in every step.

    Attributes:
        damping_arrays: the model's joint damping that `undamped` speaks of
        undamped: whether no joint had damping when the model was made, so that H = M under Euler
        eq_order: equality constraints: connects, welds, joint and then tendon couplings (neq,)
        jnt_limited: joints with limits                                           (*,)
        body_subtreenum: bodies in the subtree of each body, itself included     (nbody,)
        dof_depth: number of dofs above each dof in its tree                      (nv,)
        maxdepth: length of the longest chain of dofs
        looks_ahead: whether `with_margin` was used: contacts are found before MuJoCo finds them
        gaps: gaps of the model as it was before that
        contact_sensors: contact sensors that are read before the solve, without delay (*,)
        free: free bodies that are alone in their tree                            (*,)
        tied: those of them that a tendon moves; see `_keep_tied`                 (*,)
        order: in which M is factored
        smooth: tables for smooth dynamics in one launch; None: the model needs MuJoCo Warp's stages
    """

    damping_arrays: tuple[wp.array, ...]
    undamped: bool
    eq_order: wp.array
    jnt_limited: wp.array
    body_subtreenum: wp.array
    dof_depth: wp.array
    maxdepth: int
    looks_ahead: bool
    gaps: Gaps
    contact_sensors: wp.array
    free: wp.array
    tied: wp.array
    order: Tables
    smooth: Tables | None


@dataclasses.dataclass
class Model(mjw.Model):
    """MuJoCo Warp's model with its structure; a physics adds its parameters. Every MuJoCo Warp function takes it.

    Attributes:
        structure: what follows from the model alone
    """

    structure: Structure

    @property
    def undamped(self) -> bool:
        """Whether no joint has damping: none had when the model was made, and its arrays were not replaced since.

        Damping written into those arrays in place still acts, as an explicit force.
        """
        now = (getattr(self, name) for name in _DAMPING)
        return self.structure.undamped and all(a is b for a, b in zip(now, self.structure.damping_arrays, strict=True))


ModelT = TypeVar("ModelT", bound=Model)
DataT = TypeVar("DataT", bound=mjw.Data)


def put_model(mjm: mujoco.MjModel, batch_sizes: dict[str, int] | None, given: mujoco.MjModel | None = None) -> Model:
    """MuJoCo Warp's model on the current device, with its structure; a physics extends it by its own fields.

    Args:
        mjm: the model
        batch_sizes: as for MuJoCo Warp's `put_model`
        given: the model that `with_margin` made this one from; None: it has not been used
    """
    base = mjw.put_model(without_autoreset(mjm), batch_sizes)
    free, tied = base.body_freeadr, _keep_tied(mjm, base)

    subtreenum = np.ones(mjm.nbody, dtype=np.int32)
    for body in range(mjm.nbody - 1, 0, -1):
        subtreenum[mjm.body_parentid[body]] += subtreenum[body]
    depth = np.zeros(mjm.nv, dtype=np.int32)
    for dof in range(mjm.nv):
        parent = mjm.dof_parentid[dof]
        depth[dof] = depth[parent] + 1 if parent >= 0 else 0

    structure = Structure(
        damping_arrays=tuple(getattr(base, name) for name in _DAMPING),
        undamped=not any(np.any(getattr(mjm, name)) for name in _DAMPING),
        eq_order=wp.array(np.argsort(mjm.eq_type, kind="stable"), dtype=int),  # the kinds are numbered in this order
        jnt_limited=wp.array(np.flatnonzero(mjm.jnt_limited), dtype=int),
        body_subtreenum=wp.array(subtreenum, dtype=int),
        dof_depth=wp.array(depth, dtype=int),
        maxdepth=int(depth.max(initial=0)) + 1,
        looks_ahead=given is not None,
        gaps=gaps_of(given or mjm),
        contact_sensors=wp.array(_early_contact_sensors(mjm), dtype=int),
        free=free,
        tied=tied,
        order=make_order(mjm),
        smooth=make_tables(mjm, base),
    )
    return extended(Model, base, structure=structure)


def _keep_tied(mjm: mujoco.MjModel, m: mjw.Model) -> wp.array:
    """Take free bodies that a tendon moves out of those that MuJoCo Warp solves by themselves; returns them.

    Its implicitfast has an inertia for these with gyroscopic forces, but without the damping of tendons, so that stiff
    dampers throw them away. Like all other bodies they get the damping, as far as M has room for it: a body whose frame
    is that of its inertia has the diagonal alone. Gyroscopic forces act explicitly then.
    """
    moved = np.zeros(mjm.nv, dtype=bool)
    for tendon in range(mjm.ntendon):
        first = mjm.ten_J_rowadr[tendon]
        moved[mjm.ten_J_colind[first : first + mjm.ten_J_rownnz[tendon]]] = True
    bodies = m.body_freeadr.numpy()
    tied = moved[mjm.body_dofadr[bodies]]
    if tied.any():
        is_free = m.body_is_free.numpy()
        is_free[bodies[tied]] = False
        m.body_is_free = wp.array(is_free, dtype=bool)
        m.body_freeadr = wp.array(bodies[~tied], dtype=int)
    return wp.array(bodies[tied], dtype=int)


def _early_contact_sensors(mjm: mujoco.MjModel) -> NDArray[np.integer]:
    """Contact sensors that MuJoCo reads before there are forces, and that have no delay."""
    is_contact = mjm.sensor_type == int(mujoco.mjtSensor.mjSENS_CONTACT)
    is_early = mjm.sensor_needstage < int(mujoco.mjtStage.mjSTAGE_ACC)
    return np.flatnonzero(is_contact & is_early & (mjm.sensor_history[:, 0] == 0))


_SEEN_EARLY = (
    mujoco.mjtGeom.mjGEOM_PLANE,
    mujoco.mjtGeom.mjGEOM_HFIELD,
    mujoco.mjtGeom.mjGEOM_SPHERE,
    mujoco.mjtGeom.mjGEOM_CAPSULE,
    mujoco.mjtGeom.mjGEOM_BOX,
)
"""Geoms whose contacts are all found before they touch. Of other convex geoms only one point is found."""


def without_autoreset(mjm: mujoco.MjModel) -> mujoco.MjModel:
    """A copy of the model without the flag against automatic resets, which MuJoCo Warp refuses: it has none anyway."""
    mjm = copy.copy(mjm)
    mjm.opt.disableflags &= ~int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
    return mjm


def _without_solver(mjm: mujoco.MjModel) -> mujoco.MjModel:
    """A copy of the model that MuJoCo Warp takes, whatever its solver and its Jacobian: nothing reads them."""
    mjm = copy.copy(mjm)
    if mjm.opt.solver == int(mujoco.mjtSolver.mjSOL_PGS):
        mjm.opt.solver = int(mujoco.mjtSolver.mjSOL_NEWTON)
    if mjm.nv > _MOST_DENSE and mjm.opt.jacobian == int(mujoco.mjtJacobian.mjJAC_DENSE):
        mjm.opt.jacobian = int(mujoco.mjtJacobian.mjJAC_AUTO)
    return mjm


_MOST_DENSE = 60
"""Dofs up to which MuJoCo Warp takes a dense Jacobian."""


def with_all_points(mjm: mujoco.MjModel) -> mujoco.MjModel:
    """A copy of the model with all points of two boxes.

    MuJoCo Warp has two routines for boxes. Its default sometimes returns one point of two faces, or none. The other,
    for models without native convex collision, returns all of them, also before they touch. It knows no distance of
    boxes that are apart: a model with a sensor of the distance between two boxes keeps the default.
    """
    mjm = _without_solver(mjm)
    if not _senses_distance_of_boxes(mjm):
        mjm.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_NATIVECCD)
    return mjm


_DISTANCES = tuple(int(getattr(mujoco.mjtSensor, f"mjSENS_GEOM{name}")) for name in ("DIST", "NORMAL", "FROMTO"))


def _senses_distance_of_boxes(mjm: mujoco.MjModel) -> bool:
    """Whether a sensor of distance, normal or segment is between two boxes, or two bodies that have some."""
    boxes = mjm.geom_type == int(mujoco.mjtGeom.mjGEOM_BOX)

    def has_box(kind: int, index: int) -> bool:
        own = index == np.arange(mjm.ngeom) if kind == int(mujoco.mjtObj.mjOBJ_GEOM) else mjm.geom_bodyid == index
        return bool(np.any(boxes & own))

    return any(
        has_box(mjm.sensor_objtype[i], mjm.sensor_objid[i]) and has_box(mjm.sensor_reftype[i], mjm.sensor_refid[i])
        for i in np.flatnonzero(np.isin(mjm.sensor_type, _DISTANCES))
    )


def with_margin(mjm: mujoco.MjModel, speculative_margin: float) -> mujoco.MjModel:
    """A copy of the model whose contacts are found before they touch, with all points of two boxes."""
    mjm = with_all_points(mjm)
    early = np.isin(mjm.geom_type, [int(kind) for kind in _SEEN_EARLY])
    mjm.geom_gap[early & (mjm.geom_adhesion == 0.0)] += 0.5 * speculative_margin  # adhesion pulls within the gap
    mjm.pair_gap[early[mjm.pair_geom1] & early[mjm.pair_geom2] & (mjm.pair_adhesion == 0.0)] += speculative_margin
    return mjm


def unsupported_features(mjm: mujoco.MjModel) -> list[str]:
    """What a model asks for that no row-free physics can honour."""
    features = []
    if mjm.nflex:
        features.append(f"flex ({mjm.nflex} deformable bodies)")
    if mjm.opt.integrator not in _INTEGRATORS:
        name = mujoco.mjtIntegrator(mjm.opt.integrator).name.removeprefix("mjINT_")
        features.append(
            f"integrator {name} (use Euler or implicitfast, or icf or cenic, which integrate by themselves)"
        )
    if mjm.opt.enableflags & mujoco.mjtEnableBit.mjENBL_SLEEP:
        features.append("sleeping (clear the sleep flag)")
    kinds = {mujoco.mjtEq(t).name.removeprefix("mjEQ_").lower() for t in mjm.eq_type}
    features += [f"equality constraint {kind}" for kind in sorted(kinds - {"connect", "weld", "joint", "tendon"})]
    return features + unfit_features(mjm)


def warn_unused(mjm: mujoco.MjModel, why: str, stacklevel: int) -> None:
    """Warn of settings of MuJoCo's solver that people set against creep.

    Args:
        mjm: the model
        why: the beginning of the sentence, as in "comfree has no solver"
        stacklevel: as for `warnings.warn`, counted from the caller
    """
    unused = []
    if mjm.opt.noslip_iterations:
        unused.append(f"noslip_iterations={mjm.opt.noslip_iterations}")
    if mjm.opt.impratio != 1.0:
        unused.append(f"impratio={mjm.opt.impratio:g}")
    if unused:
        warnings.warn(f"{why} and does not use {', '.join(unused)}", stacklevel=stacklevel + 1)


def without_jacobian(mjm: mujoco.MjModel, d: mjw.Data) -> mjw.Data:
    """Take the constraint Jacobian out of a Data: nothing here forms one."""
    small = mjw.make_data(mjm, nworld=1, nconmax=0, njmax=1, njmax_nnz=1)
    for name in ("J", "J_colind"):
        like = getattr(small.efc, name)
        setattr(d.efc, name, wp.zeros((d.nworld, *like.shape[1:]), dtype=like.dtype))
    d.njmax_nnz = small.njmax_nnz
    return d


_OF_JACOBIAN = "J J_colind J_rownnz J_rowadr jtdaj_adr jtdaj_nrow Jqvel aref state island".split()
"""The Jacobian, and fields of rows that only MuJoCo Warp's `make_constraint`, solver and islands use."""
_OF_SOLVER = (
    "qH qHLD qHDiagInv qLU efm_fluid efm_c efm_diag efm_ca efm_ts efm_as dof_frictionadr dof_island map_dof2idof "
    "map_idof2dof dof_islandid dof_cdof cdof_dof"
).split()
"""What only they and the integrators `implicit` and `discrete` use."""


def make_data(mjm: mujoco.MjModel, nworld: int = 1, njmax: int | None = None, **sizes: int | None) -> mjw.Data:
    """MuJoCo Warp's data on the current device, without a Jacobian and what its solver needs.

    `njmax` rows hold kinds, residuals and forces.
    """
    # njmax_nnz=1: its default loops over all pairs of geoms in Python, for a Jacobian that is not there
    probe = mjw.make_data(mjm, nworld=1, nconmax=0, njmax=njmax, nvmax=sizes.get("nvmax"), njmax_nnz=1)
    d = mjw.make_data(mjm, nworld=nworld, njmax=1, **{**sizes, "njmax_nnz": 1})
    for field in dataclasses.fields(mjw.Constraint):
        like = getattr(probe.efc, field.name)
        if field.name not in _OF_JACOBIAN and like.ndim == 2:
            setattr(d.efc, field.name, wp.zeros((nworld, *like.shape[1:]), dtype=like.dtype))
    d.efc.J = wp.zeros((nworld, 0, 0), dtype=float)
    for name in _OF_SOLVER:
        setattr(d, name, wp.zeros((nworld, 0), dtype=getattr(d, name).dtype))
    d.njmax, d.njmax_pad = probe.njmax, probe.njmax_pad
    return d
