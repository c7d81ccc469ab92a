"""What the kernels of the cone sweep pass to each other, as Warp structs.

N is naconmax. There are at most N contacts, restored ones included, and as many pairs.
"""

from typing import NamedTuple

import warp as wp

from stickslip.physics.mjwarp.private import vec5
from stickslip.physics.mjwarp.touches import Gaps

wp.set_module_options({"enable_backward": False})

COLORS = wp.constant(16)
"""Colours of pairs. The last is for those that no other can take: they share bodies, whose masses are then split."""

SMOOTH = wp.constant(0)
SPIN = wp.constant(1)
ANY = wp.constant(2)
"""What the contacts of a pair are: with friction alike in both tangents, some of them with spin too, or any."""

SPINNING = wp.constant(-1.0)
ROUGH = wp.constant(-2.0)
"""In the place of a contact's coefficient of friction: there is spin too; there is more than that."""

MOST_OF_PAIR = wp.constant(8)
"""Contacts that are resolved together; two bodies with more of them are several pairs."""

FIXED = wp.constant(0)
LONE = wp.constant(1)
LINKED = wp.constant(2)
"""How a body moves: not at all, by itself, or with others of its tree."""


LIMIT = wp.constant(1)
EQUALITY = wp.constant(2)
FRICTION = wp.constant(3)
"""What a row on dofs is."""


class Traits(NamedTuple):
    """What a model has, so that its kernels leave out the rest.

    Attributes:
        coupled: trees of several bodies, rows on dofs, or equalities: the sweeps are in contact space
        linked: the same without rows of dry friction where the model has none
        rows: rows on dofs
        equalities: connects or welds
        rough: friction other than the same in both tangents: spin, rolling, of pairs, surfaces that move
    """

    coupled: bool
    linked: bool
    rows: bool
    equalities: bool
    rough: bool


@wp.struct
class Tree:
    """Bodies, dofs and kinematic trees of the model; fixed. The last part is of models of free bodies only."""

    nbody: int
    nv: int
    ntree: int
    body_rootid: wp.array[int]
    body_weldid: wp.array[int]
    body_treeid: wp.array[int]
    chain_adr: wp.array[int]  # (nbody + 1,) dofs that move a body
    chain: wp.array[int]
    geom_bodyid: wp.array[int]
    geom_local: wp.array[int]  # number of a geom among those of its body
    maxgeom: int  # most geoms of one body
    body_kind: wp.array[int]  # FIXED, LONE or LINKED
    dof_treeid: wp.array[int]
    tree_dofadr: wp.array[int]
    tree_lone: wp.array[int]  # the body of a tree


@wp.struct
class Contacts:
    """MuJoCo Warp's contacts."""

    nmax: int
    count: wp.array[int]
    dist: wp.array[float]
    pos: wp.array[wp.vec3]
    frame: wp.array[wp.mat33]
    includemargin: wp.array[float]
    friction: wp.array[vec5]
    dim: wp.array[int]
    geom: wp.array[wp.vec2i]
    worldid: wp.array[int]
    type: wp.array[int]
    geomcollisionid: wp.array[int]
    surfacevel: wp.array[wp.vec3]
    adhesion: wp.array[float]
    efc_address: wp.array2d[int]
    overflow: wp.array[int]  # of the data, (nworld,)
    gaps: Gaps


@wp.struct
class Bodies:
    """Kinematics of the step."""

    subtree_com: wp.array2d[wp.vec3]
    cdof: wp.array2d[wp.spatial_vector]
    xpos: wp.array2d[wp.vec3]
    xmat: wp.array2d[wp.mat33]
    qvel: wp.array2d[float]
    qacc_free: wp.array2d[float]
    timestep: wp.array[float]
    geom_rbound: wp.array2d[float]


@wp.struct
class Settings:
    """Parameters of the sweep."""

    substeps: int  # 0: by the timestep
    sweeps: int
    passes: int  # likewise
    jump: float
    warm_start: bool
    slop: float
    correction: float
    restitution: float


@wp.struct
class PreviousContacts:
    """Contacts of the previous step by world, sorted."""

    num: wp.array[int]  # (nworld,)
    adr: wp.array[int]
    key: wp.array[wp.int64]  # (N,) from here on
    local1: wp.array[wp.vec3]  # the two points that touched, each in the frame of its body
    local2: wp.array[wp.vec3]
    normal: wp.array[wp.vec3]  # in the frame of the first geom's body
    geom: wp.array[wp.vec2i]
    dim: wp.array[int]
    friction: wp.array[vec5]
    margin: wp.array[float]
    age: wp.array[int]  # steps since collision detection last found the two geoms
    force1: wp.array[wp.spatial_vector]  # torque and force on the second geom, in the frames of both bodies
    force2: wp.array[wp.spatial_vector]


@wp.struct
class Work:
    """Scratch of one step. Contacts of a world are `adr[w] + [0, num[w])`, its pairs `adr[w] + [0, npair[w])`.

    Records (see `pack`) of body b in world w start at `(w nbody + b) ROWS`, those of contact i at `i TOUCH`, `i FORCE`,
    `i PULL` and `i TURN`. In contact space `touch` and `f` are the beginning of a contact's record (`space.layout`)
    before `build` makes that, and `f` is there again after the sweeps.
    """

    # worlds (nworld,)
    num: wp.array[int]
    adr: wp.array[int]
    npair: wp.array[int]
    start: wp.array[int]  # where they are while they are sorted
    cursor: wp.array[int]  # (2,) places of all worlds that are taken so far: to sort contacts, and for sorted ones
    substeps: wp.array[int]
    ncolor: wp.array[int]
    color_adr: wp.array2d[int]  # (nworld, COLORS + 1) where a colour begins in the order
    partial: wp.array2d[wp.vec3]  # (nworld, lanes)
    heads: wp.array2d[int]  # (nworld, lanes) first contact of each of a world's lists, counted from 1, 0: none
    # MuJoCo Warp's contacts (N,)
    next: wp.array[int]  # the one after it in its list, likewise
    found_key: wp.array[wp.int64]
    age: wp.array[int]  # as in the previous step
    # contacts to sort (2 N,): with place for all of the previous step, which may be restored
    unsorted_key: wp.array[wp.int64]
    unsorted_con: wp.array[int]
    sorted_key: wp.array[wp.int64]
    sorted_con: wp.array[int]
    # sorted contacts (N,)
    code: wp.array[int]  # the two bodies as one number
    of_pair: wp.array[int]
    key: wp.array[wp.int64]
    con: wp.array[int]
    matched: wp.array[int]
    hand: wp.array[float]  # -1: the geoms are the other way round than the bodies, and with them the second tangent
    touch_rows: int  # from one record of `touch` to the next
    f_step: int  # from one record of `f` to the next, in records
    touch: wp.array[wp.vec4]  # records; friction is 0: none, < 0: see SPINNING and ROUGH; approach < 0: it bounces
    pull: wp.array[wp.vec4]  # records: what forces change along normal and tangents, forces per velocity
    turn: wp.array[wp.vec4]  # records: the same for spin and rolling; (0,) if no contact has them
    f: wp.array[wp.vec4]  # records
    f_mark: wp.array[wp.vec4]
    # pairs of bodies in contact (N,)
    first: wp.array[int]
    ncon: wp.array[int]
    bodies: wp.array[wp.vec2i]
    lone: wp.array[wp.vec2i]  # the same, -1 for one that is not lone
    point: wp.array[wp.vec4]  # what wrenches and twists of the pair refer to; the last number is not used
    color: wp.array[int]
    place: wp.array[int]  # in the plan
    plan: wp.array[wp.vec4i]  # pairs by colour: pair, first contact, bodies with their kinds, count
    given: wp.array[wp.vec4]  # records: what the last sweep added, on the second body; what moves it without velocity
    next1: wp.array[int]  # pair after this one in the list of its first body, and of its second
    next2: wp.array[int]
    # bodies (nworld, nbody)
    head: wp.array2d[int]  # first pair of a body, -1: none
    used: wp.array2d[int]  # colours at a body, as bits
    motion: wp.array[wp.vec4]  # records: V, P, X, Px
    mark: wp.array[wp.vec4]  # records: V, P before the first and before the second of two sweeps
    Lam: wp.array[wp.vec4]  # records: twist per wrench, and what the twists of a body refer to
    # trees and dofs
    crowd: wp.array2d[int]  # (nworld, ntree) pairs of the last colour that act on a tree at once
    inverse: wp.array2d[wp.spatial_matrix]  # (nworld, ntree) H^-1 tree by tree
    v_free: wp.array2d[float]
    lag: wp.array2d[float]  # what moves positions, less v_free


@wp.struct
class RowSet:
    """Scalar rows on dofs: limits, dry friction, couplings. The columns are fixed, the values are of this step."""

    n: int
    adr: wp.array[int]  # (nrow,)
    nnz: wp.array[int]
    col: wp.array[int]  # (nnz,)
    val: wp.array2d[float]  # (nworld, nnz)
    kind: wp.array2d[int]  # (nworld, nrow) from here on; 0: idle
    phi: wp.array2d[float]
    low: wp.array2d[float]
    high: wp.array2d[float]
    weight: wp.array2d[float]
    f: wp.array2d[float]
    warm_start: wp.array2d[float]


@wp.struct
class Equalities:
    """Connects and welds: six directions between two bodies, three of them idle for a connect."""

    n: int
    bodies: wp.array[wp.vec2i]  # (nequality,)
    active: wp.array2d[int]  # (nworld, nequality) from here on; 0, 3 or 6 directions
    point: wp.array2d[wp.vec3]
    error: wp.array2d[wp.spatial_vector]  # turn, gap
    anchor: wp.array2d[wp.vec3]  # where MuJoCo's rows act
    quat: wp.array2d[wp.quat]  # of the second body or site, as MuJoCo stores it
    weight: wp.array2d[wp.spatial_vector]  # inverse mass of each direction
    f: wp.array2d[wp.spatial_vector]  # torque, force on the second body
    warm_start: wp.array2d[wp.spatial_vector]  # in the frame of the first body
