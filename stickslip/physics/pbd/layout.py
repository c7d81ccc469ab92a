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
"""Over the contacts of a body: mass times displacement (3), that times place (9), angular momentum (3)."""


Singles = wp.types.vector(length=12, dtype=float)
"""Sums over the particles of a body, in single precision."""


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
class Bodies:
    """How bodies are and move; those with two slots are read from one and written to the other, (nworld, 2 nbody)."""

    mass: wp.array2d[real]  # [kg]
    spread: wp.array2d[wp.mat33d]  # of x x^T over the mass, about the centre, in the body's frame [kg m^2]
    inertia: wp.array2d[wp.mat33d]  # likewise
    inverse: wp.array2d[wp.mat33d]  # of that
    centre: wp.array2d[wp.vec3d]  # of mass, in the frame of the body [m]
    grain: wp.array2d[real]  # mass of a particle [kg]
    force: wp.array2d[wp.vec3d]  # applied, and weight [N]
    torque: wp.array2d[wp.vec3d]  # about the centre [N m]
    before: wp.array2d[wp.vec3d]  # centre of mass at the start of the substep [m]
    rotation: wp.array2d[wp.mat33d]  # the part of `turn` that is one
    spin: wp.array2d[wp.vec3d]  # angular momentum about the centre [kg m^2/s]
    gain: wp.array2d[real]  # how far contacts may go in an iteration, of what they would have to
    adr: wp.array2d[int]  # contacts
    num: wp.array2d[int]
    # two slots: a particle at rest in q is at pos + turn q and moves with vel + rate q
    pos: wp.array2d[wp.vec3d]
    turn: wp.array2d[wp.mat33d]
    vel: wp.array2d[wp.vec3d]
    rate: wp.array2d[wp.mat33d]


@wp.struct
class Touching:
    """Contacts of each world, sorted by particle, (nworld, room)."""

    room: int
    count: wp.array[int]  # (nworld,)
    moving: wp.array2d[int]  # whether any contact still moved, in three iterations by turns   (nworld, 3)
    particle_adr: wp.array2d[int]  # contacts of each particle, where they are asked for  (nworld, nparticle), or none
    particle_num: wp.array2d[int]
    particle: wp.array2d[int]
    other: wp.array2d[int]  # particle, or NOBODY
    collider: wp.array2d[int]
    normal: wp.array2d[wp.vec3d]  # towards the particle
    place: wp.array2d[wp.vec3d]  # where it is touched, in the frame of its body about the centre of mass [m]
    opposite: wp.array2d[wp.vec3d]  # where the other is
    point: wp.array2d[wp.vec3d]  # in the world [m]
    arm: wp.array2d[wp.vec3d]  # from where the centre of mass was to where the push acts [m]
    rest: wp.array2d[real]  # what is to be taken off normal . (place - opposite) for the gap [m]
    slack: wp.array2d[real]  # of the gap that may stay for now [m]; not positive
    gap: wp.array2d[real]  # when it was found [m]
    mass: wp.array2d[real]  # that a displacement is multiplied with [kg]
    friction: wp.array2d[real]
    drift: wp.array2d[wp.vec3d]  # velocity of the collider there [m/s]
    shift: wp.array2d[wp.vec3d]  # displacement so far in this substep [m]
    last: wp.array2d[wp.vec3d]  # the same after the last iteration, without what was extrapolated [m]


@wp.struct
class Particles:
    """Particles one by one, in single precision and in the coordinates of the world, (nworld, nparticle)."""

    x: wp.array2d[wp.vec3]  # [m]
    v: wp.array2d[wp.vec3]  # [m/s]
    start: wp.array2d[wp.vec3]  # where they were at the start of the substep [m]


@wp.struct
class Exact:
    """The state in double precision, of which qpos and qvel show the first digits."""

    qpos: wp.array2d[real]
    qvel: wp.array2d[real]


@wp.struct
class Hand:
    """Bodies that are moved by hand: where they were at the end of the last step, and are to be at the end of this."""

    pos_before: wp.array2d[wp.vec3]  # (nworld, nmocap) [m]; not a number where they have only just been put
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
    hand: Hand
    time: wp.array[float]
    qpos: wp.array2d[float]
    qvel: wp.array2d[float]


@wp.struct
class Options:
    """Parameters of a step; see `Pbd`."""

    substeps: int
    iterations: int
    tolerance: real  # of the distance that weight falls in a substep; 0: all iterations are made
    relaxation: real  # 0: as far as the contacts of a body allow
    margin: real  # of a particle's radius
    packed: int
    surface: int
    relative: int
    accumulate: int
    velocity: int  # whether velocities follow displacements, not positions
    linear: int  # whether shape matching leaves momentum alone
    angular: int


@wp.struct
class Step:
    """All that the kernels of a step are given; `particles` only where they move one by one."""

    shape: Shape
    colliders: Colliders
    surface: Surface
    options: Options
    world: World
    exact: Exact
    bodies: Bodies
    touching: Touching
    particles: Particles
    near: wp.array3d[int]  # bits of bodies that may touch each other           (nworld, nbody, nword)
    nlane: int  # of a world
    nteam: int
    overflow: wp.array[int]  # MuJoCo Warp's bits of each world


@wp.struct
class Moment:
    """A substep: its length, the length of the whole step [s], and the share of that which is over at its end."""

    dt: real
    timestep: real
    over: real
