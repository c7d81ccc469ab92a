"""What the kernels of particle bodies pass to each other, as Warp structs.

A *body* here is what moves as one: a MuJoCo body with a free joint, and whatever is welded to it. A *contact* is of
one particle, with a collider of the world or with a particle of another body; two particles that touch have a contact
each, and what they do to each other is worked out on both sides alike, so that no float is added by atomics.
"""

import warp as wp

from stickslip.physics.pbd.colliders import Colliders

wp.set_module_options({"enable_backward": False})

real = wp.float64
"""Bodies and contacts are in double precision: a micrometre at 16 m is more than the depth of a contact."""

NOBODY = wp.constant(-1)
"""In the place of the other particle: a collider of the world."""

Sums = wp.types.vector(length=15, dtype=wp.float64)
"""Over the contacts of a body, 15 numbers in double precision: a vector, a matrix (9) and what else there is to sum."""

Impulse = wp.types.vector(length=6, dtype=wp.float64)
"""Over the contacts of a body: mass times displacement (3), and its moment about the centre (3)."""


@wp.struct
class Shape:
    """Bodies, their particles, and what they meet; fixed.

    Cells are of a grid in the frame of each body, where its particles never move: it is made once, and whoever looks
    for neighbours looks in there.
    """

    nbody: int
    nparticle: int
    ncollider: int
    nword: int  # of 32 bits, one for each body
    # body
    body_qposadr: wp.array[int]
    body_dofadr: wp.array[int]
    body_memberadr: wp.array[int]
    body_membernum: wp.array[int]
    body_adr: wp.array[int]  # particles
    body_num: wp.array[int]
    body_mean: wp.array[wp.vec3d]  # of the places of its particles [m]
    body_square: wp.array[wp.mat33d]  # of x x^T of them [m^2]
    body_thick: wp.array[real]  # of r x r of its particles themselves, where they have no inertia otherwise [m^2]
    body_reach: wp.array[real]  # of its particles from its middle [m]
    body_middle: wp.array[wp.vec3d]  # of its particles, in its frame [m]
    body_celladr: wp.array[int]
    body_cells: wp.array[wp.vec3i]
    body_cell: wp.array[real]  # side of a cell [m]
    body_corner: wp.array[wp.vec3d]  # of the first cell [m]
    # member: MuJoCo's bodies that move as one
    member_id: wp.array[int]
    member_pos: wp.array[wp.vec3d]  # in the frame of the body [m]
    member_mat: wp.array[wp.mat33d]
    # particle
    place: wp.array[wp.vec3d]  # in the frame of the body [m]
    radius: wp.array[real]
    owner: wp.array[int]  # body
    geom: wp.array[int]
    # cluster: particles of a body that follow each other and are close together
    ncluster: int
    cluster_adr: wp.array[int]  # particles
    cluster_num: wp.array[int]
    cluster_body: wp.array[int]
    cluster_middle: wp.array[wp.vec3d]  # in the frame of the body [m]
    cluster_half: wp.array[wp.vec3d]  # half sides of the box with the centres of its particles [m]
    cluster_pad: wp.array[real]  # how far beyond that they reach, with what they look for [m]
    # cell
    cell_adr: wp.array[int]
    cell_particle: wp.array[int]
    # collider
    collider_geom: wp.array[int]
    collider_mocap: wp.array[int]  # -1: it stands still
    collider_pos: wp.array[wp.vec3d]  # in the world, or in the mocap body [m]
    collider_mat: wp.array[wp.mat33d]
    meets: wp.array2d[bool]  # whether two geoms may touch                     (ngeom, ngeom)


@wp.struct
class Body:
    """How a body is in a substep."""

    mass: real  # [kg]
    light: real  # 1 over that
    grain: real  # mass of a particle [kg]
    gain: real  # how far contacts may go in an iteration, of what they would have to
    centre: wp.vec3d  # of mass, in the frame of the body [m]
    model_centre: wp.vec3d  # the same as MuJoCo's model has it, which differs where the inertia is that of particles
    before: wp.vec3d  # the centre in the world, at the start of the substep [m]
    spin: wp.vec3d  # angular momentum about the centre [kg m^2/s]
    force: wp.vec3d  # applied, and weight [N]
    torque: wp.vec3d  # about the centre [N m]
    rotation: wp.mat33d  # at the start of the substep; in `fitted`, the part of `turn` that is one
    inertia: wp.mat33d  # about the centre, in the body's frame [kg m^2]
    inverse: wp.mat33d  # of that
    spread: wp.mat33d  # of x x^T over the mass, likewise
    # in `impulse`: the last two in the axes of the world, at the start of the substep
    inverse_now: wp.mat33d
    spread_now: wp.mat33d


@wp.struct
class Slot:
    """What iterations change of a body; there are two of each, one to read from and one to write to."""

    pos: wp.vec3d  # of the centre; in `impulse` that before iterations [m]
    vel: wp.vec3d  # [m/s]
    # a particle at rest in q is at pos + turn q
    turn: wp.mat33d
    rate: wp.mat33d  # in `fitted`: and moves with vel + rate q
    change: wp.mat33d  # in `impulse`: what was at r from the centre is at r + change r


@wp.struct
class Bodies:
    """How bodies are and move."""

    body: wp.array2d[Body]  # (nworld, nbody)
    slot: wp.array2d[Slot]  # (nworld, 2 nbody)
    adr: wp.array2d[int]  # contacts
    num: wp.array2d[int]


@wp.struct
class Touching:
    """Contacts of each world, sorted by particle, (nworld, capacity); one array per field for coalesced reads."""

    capacity: int
    count: wp.array[int]  # in the last substep, dropped ones included  (nworld,)
    most: wp.array[int]  # that ever were of these  (nworld,)
    shown: wp.array[int]  # after the last step, of two sides one: those that touch or have a force  (nworld,)
    particle: wp.array2d[int]
    other: wp.array2d[int]  # particle, or NOBODY
    collider: wp.array2d[int]
    mass: wp.array2d[real]  # that a displacement is multiplied with [kg]
    friction: wp.array2d[real]
    normal: wp.array2d[wp.vec3d]  # towards the particle
    gap: wp.array2d[real]  # when it was found, and after a step then [m]
    place: wp.array2d[wp.vec3d]  # where it is touched, in the frame of its body about the centre of mass [m]
    opposite: wp.array2d[wp.vec3d]  # the same for the other body
    rest: wp.array2d[real]  # what is to be taken off normal . (centre - centre) of the particles for the gap [m]
    slack: wp.array2d[real]  # of the gap that may stay for now [m]; not positive
    lever: wp.array2d[wp.vec3d]  # from the centre of mass to `place` at the start of the substep, in the world [m]
    counter: wp.array2d[wp.vec3d]  # the same for `opposite`
    clearance: wp.array2d[real]  # what may be closed of the gap of the start of the substep [m]
    point: wp.array2d[wp.vec3d]  # in the world [m]
    arm: wp.array2d[wp.vec3d]  # from where the centre of mass was to where the push acts [m]
    drift: wp.array2d[wp.vec3d]  # velocity of the collider there [m/s]
    shift: wp.array2d[wp.vec3d]  # displacement so far in this substep [m]
    # the same after the last iteration, without what was extrapolated [m]; in the end, force [N]
    last: wp.array2d[wp.vec3d]


@wp.struct
class Exact:
    """The state in double precision, of which qpos and qvel show the first digits."""

    qpos: wp.array2d[real]
    qvel: wp.array2d[real]


@wp.struct
class Mocap:
    """Mocap bodies: their poses at the end of the last step and at the end of this one."""

    pos_before: wp.array2d[wp.vec3]  # (nworld, nmocap) [m]; NaN after a reset
    quat_before: wp.array2d[wp.quat]
    pos: wp.array2d[wp.vec3]
    quat: wp.array2d[wp.quat]


@wp.struct
class Surface:
    """What friction needs of a geom; MuJoCo's fields."""

    friction: wp.array2d[wp.vec3]  # (*, ngeom)
    condim: wp.array[int]
    priority: wp.array[int]


@wp.struct
class World:
    """MuJoCo Warp's fields that a step reads, and writes."""

    timestep: wp.array[float]
    gravity: wp.array[wp.vec3]
    body_mass: wp.array2d[float]
    body_inertia: wp.array2d[wp.vec3]
    body_ipos: wp.array2d[wp.vec3]
    body_iquat: wp.array2d[wp.quat]
    qfrc_applied: wp.array2d[float]
    xfrc_applied: wp.array2d[wp.spatial_vector]
    mocap: Mocap
    time: wp.array[float]
    qpos: wp.array2d[float]
    qvel: wp.array2d[float]


@wp.struct
class Options:
    """Parameters of a step. `PbdR` has fixed values for the flags; the published forms have others."""

    substeps: int
    iterations: int
    tolerance: real  # of the distance that weight falls in a substep; 0: all iterations are made
    relaxation: real  # 0: as far as the contacts of a body allow
    margin: real  # of a particle's radius
    packed: int  # mass, centre and inertia of a body are those of its particles (PbdR: 0)
    surface: int  # contacts act where particles touch, not in their centres (PbdR: 1)
    relative: int  # friction between bodies follows their relative velocity (PbdR: 1)
    accumulate: int  # forces are bounded over a substep, not in each iteration (PbdR: 1)


@wp.struct
class Step:
    """Everything the kernels of a step work on."""

    shape: Shape
    colliders: Colliders
    surface: Surface
    options: Options
    world: World
    exact: Exact
    bodies: Bodies
    touching: Touching
    near: wp.array3d[int]  # bits of bodies that may touch each other           (nworld, nbody, nword)
    awake: wp.array2d[int]  # clusters that may touch something, in order        (nworld, ncluster)
    nlane: int  # of a world
    nteam: int
    overflow: wp.array[int]  # MuJoCo Warp's bits of each world
    nacon: wp.array[int]  # contacts of all worlds


@wp.struct
class Moment:
    """A substep: its length, the length of the whole step [s], and the share of that which is over at its end."""

    dt: real
    timestep: real
    over: real


@wp.struct
class Iteration:
    """One of a substep."""

    read: int  # slot
    beta: real  # how much of its last step a contact takes on
    still: real  # step of a contact that counts as none [m]
    dt: real  # of the substep [s]
    per_dt: real  # 1 over that


@wp.struct
class Response:
    """Of a contact to an iteration."""

    push: wp.vec3d  # displacement [m]
    moved: int  # whether it counts as any
