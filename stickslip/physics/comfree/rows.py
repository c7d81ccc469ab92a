"""What every constraint kernel shares: gains, the closed form of equation (8), and the rows that consumers read."""

import dataclasses

import mujoco_warp as mjw
import warp as wp

from stickslip.physics.comfree.model import Model
from stickslip.physics.contact import impedance
from stickslip.physics.mjwarp_private import vec5

wp.set_module_options({"enable_backward": False})

MIN_INVERSE_MASS = wp.constant(1.0e-15)
"""Floor under inverse masses, 1/kg, as MuJoCo's: constraints between bodies that cannot move get a finite force."""


@wp.func
def impedance_force(mass: float, k: float, d: float, timestep: float, u: float, phi: float) -> float:
    """-K (u dt + phi) - D u with K = k M / dt and D = d M / dt, equations (8) and (11)."""
    return -mass / timestep * (k * (u * timestep + phi) + d * u)


@wp.func
def unilateral(force: float, smoothing: float) -> float:
    """max(0, force), or its softplus of sharpness `smoothing` in 1/N where that is positive."""
    if smoothing <= 0.0:
        return wp.max(force, 0.0)
    x = smoothing * force
    return (wp.max(x, 0.0) + wp.log(1.0 + wp.exp(-wp.abs(x)))) / smoothing


@wp.struct
class Rows:
    """Where rows are written; shapes (nworld,) and (nworld, njmax)."""

    njmax: int
    nefc: wp.array[int]
    type: wp.array2d[int]
    id: wp.array2d[int]
    pos: wp.array2d[float]
    margin: wp.array2d[float]
    D: wp.array2d[float]
    frictionloss: wp.array2d[float]
    vel: wp.array2d[float]
    force: wp.array2d[float]


@wp.struct
class Gains:
    """ComFree's k_user and d_user, timestep and softplus sharpness; shapes (*,)."""

    timestep: wp.array[float]
    stiffness: wp.array[float]
    damping: wp.array[float]
    smoothing: float


@wp.func
def row_mass(solimp: vec5, phi: float, inverse: float) -> float:
    """M(phi) = r / (1 - r) over MuJoCo's approximate inverse mass of the row, equation (12)."""
    r = impedance(solimp, phi)
    return 1.0 / wp.max(inverse * (1.0 - r) / r, MIN_INVERSE_MASS)


@wp.func
def row_force(gains: Gains, worldid: int, mass: float, u: float, phi: float) -> float:
    """The impedance force of (8) on one row, before its clamp."""
    timestep = gains.timestep[worldid % gains.timestep.shape[0]]
    k = gains.stiffness[worldid % gains.stiffness.shape[0]]
    d = gains.damping[worldid % gains.damping.shape[0]]
    return impedance_force(mass, k, d, timestep, u, phi)


@wp.func
def free_velocity(
    gains: Gains, qvel_in: wp.array2d[float], qacc_free_in: wp.array2d[float], worldid: int, dofid: int
) -> float:
    """v_s of one dof, equation (2)."""
    timestep = gains.timestep[worldid % gains.timestep.shape[0]]
    return qvel_in[worldid, dofid] + timestep * qacc_free_in[worldid, dofid]


@wp.func
def store_row(
    rows: Rows,
    worldid: int,
    row: int,
    kind: int,
    id: int,
    pos: float,
    margin: float,
    mass: float,
    frictionloss: float,
    force: float,
):
    if row < rows.njmax:
        rows.type[worldid, row] = kind
        rows.id[worldid, row] = id
        rows.pos[worldid, row] = pos
        rows.margin[worldid, row] = margin
        rows.D[worldid, row] = mass
        rows.frictionloss[worldid, row] = frictionloss
        rows.force[worldid, row] = force


@wp.struct
class Tendons:
    """Lengths and Jacobians of tendons, as MuJoCo Warp keeps them."""

    J_rownnz: wp.array[int]
    J_rowadr: wp.array[int]
    J_colind: wp.array[int]
    invweight0: wp.array2d[float]
    J: wp.array2d[float]
    length: wp.array2d[float]


@wp.func
def tendon_free_velocity(
    gains: Gains,
    tendons: Tendons,
    qvel_in: wp.array2d[float],
    qacc_free_in: wp.array2d[float],
    worldid: int,
    tenid: int,
) -> float:
    u = float(0.0)
    adr = tendons.J_rowadr[tenid]
    for i in range(tendons.J_rownnz[tenid]):
        dofid = tendons.J_colind[adr + i]
        u += tendons.J[worldid, adr + i] * free_velocity(gains, qvel_in, qacc_free_in, worldid, dofid)
    return u


@wp.func
def tendon_velocity(tendons: Tendons, qvel_in: wp.array2d[float], worldid: int, tenid: int) -> float:
    """Rate of a tendon's length now; MuJoCo Warp's own comes after the rows of limits."""
    vel = float(0.0)
    adr = tendons.J_rowadr[tenid]
    for i in range(tendons.J_rownnz[tenid]):
        vel += tendons.J[worldid, adr + i] * qvel_in[worldid, tendons.J_colind[adr + i]]
    return vel


@wp.func
def pull_tendon(tendons: Tendons, worldid: int, tenid: int, force: float, qfrc_row_out: wp.array2d[float]):
    """Add J' force of a tendon."""
    adr = tendons.J_rowadr[tenid]
    for i in range(tendons.J_rownnz[tenid]):
        wp.atomic_add(qfrc_row_out, worldid, tendons.J_colind[adr + i], tendons.J[worldid, adr + i] * force)


@dataclasses.dataclass
class Scratch:
    """What the constraint kernels of one step pass to each other.

    Attributes:
        gains: ComFree's gains
        rows: where rows are written
        tendons: lengths and Jacobians of tendons
        qacc_free: acceleration without constraints                     (nworld, nv)
        twist: of every body for v_s, about its tree's subtree_com      (nworld, nbody)
        wrench: on every body, about the same point                     (nworld, nbody)
        qfrc_row: force on single dofs                                  (nworld, nv)
    """

    gains: Gains
    rows: Rows
    tendons: Tendons
    qacc_free: wp.array
    twist: wp.array
    wrench: wp.array
    qfrc_row: wp.array


def make_scratch(m: Model, d: mjw.Data, qacc_free: wp.array) -> Scratch:
    """Scratch of one step; `twist` and `wrench` are not filled yet."""
    gains, rows, tendons = Gains(), Rows(), Tendons()
    gains.timestep, gains.smoothing = m.opt.timestep, m.comfree.smoothing
    gains.stiffness, gains.damping = m.comfree.stiffness, m.comfree.damping
    rows.njmax, rows.nefc = d.njmax, d.nefc
    for name in ("type", "id", "pos", "margin", "D", "frictionloss", "vel", "force"):
        setattr(rows, name, getattr(d.efc, name))
    tendons.J_rownnz, tendons.J_rowadr, tendons.J_colind = m.ten_J_rownnz, m.ten_J_rowadr, m.ten_J_colind
    tendons.invweight0, tendons.J, tendons.length = m.tendon_invweight0, d.ten_J, d.ten_length
    return Scratch(
        gains,
        rows,
        tendons,
        qacc_free,
        twist=wp.empty((d.nworld, m.nbody), dtype=wp.spatial_vector),
        wrench=wp.empty((d.nworld, m.nbody), dtype=wp.spatial_vector),
        qfrc_row=wp.zeros((d.nworld, m.nv), dtype=float),
    )
