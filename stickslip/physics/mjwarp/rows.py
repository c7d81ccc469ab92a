"""Rows without a Jacobian: what sensors and other readers find in `efc`; velocities of dofs and tendons."""

import mujoco_warp as mjw
import warp as wp

wp.set_module_options({"enable_backward": False})

MIN_INVERSE_MASS = wp.constant(1.0e-15)
"""Floor under inverse masses, 1/kg, as MuJoCo's: constraints between bodies that cannot move get a finite force."""


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


def rows_of(d: mjw.Data) -> Rows:
    """The rows of a Data."""
    rows = Rows()
    rows.njmax = d.njmax
    rows.nefc = d.nefc
    rows.type = d.efc.type
    rows.id = d.efc.id
    rows.pos = d.efc.pos
    rows.margin = d.efc.margin
    rows.D = d.efc.D
    rows.frictionloss = d.efc.frictionloss
    rows.vel = d.efc.vel
    rows.force = d.efc.force
    return rows


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


@wp.func
def free_velocity(
    opt_timestep: wp.array[float],
    qvel_in: wp.array2d[float],
    qacc_free_in: wp.array2d[float],
    worldid: int,
    dofid: int,
) -> float:
    """v + dt qacc of one dof."""
    timestep = opt_timestep[worldid % opt_timestep.shape[0]]
    return qvel_in[worldid, dofid] + timestep * qacc_free_in[worldid, dofid]


@wp.struct
class Tendons:
    """Lengths and Jacobians of tendons, as MuJoCo Warp keeps them."""

    J_rownnz: wp.array[int]
    J_rowadr: wp.array[int]
    J_colind: wp.array[int]
    invweight0: wp.array2d[float]
    J: wp.array2d[float]
    length: wp.array2d[float]


def tendons_of(m: mjw.Model, d: mjw.Data) -> Tendons:
    """The tendons of a model and its data."""
    tendons = Tendons()
    tendons.J_rownnz, tendons.J_rowadr, tendons.J_colind = m.ten_J_rownnz, m.ten_J_rowadr, m.ten_J_colind
    tendons.invweight0, tendons.J, tendons.length = m.tendon_invweight0, d.ten_J, d.ten_length
    return tendons


@wp.func
def tendon_free_velocity(
    opt_timestep: wp.array[float],
    tendons: Tendons,
    qvel_in: wp.array2d[float],
    qacc_free_in: wp.array2d[float],
    worldid: int,
    tenid: int,
) -> float:
    """Rate of a tendon's length for v + dt qacc."""
    u = float(0.0)
    adr = tendons.J_rowadr[tenid]
    for i in range(tendons.J_rownnz[tenid]):
        dofid = tendons.J_colind[adr + i]
        u += tendons.J[worldid, adr + i] * free_velocity(opt_timestep, qvel_in, qacc_free_in, worldid, dofid)
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
