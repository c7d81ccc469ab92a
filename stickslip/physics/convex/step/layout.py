"""What a convex step works with, as structs for kernels: the tree, the parameters, one problem a geometry, the solver.

Shapes: `slot` runs over the contacts of all worlds (naconmax), those of a world side by side; `row` over what acts
along one velocity: equalities, limits, dry friction, actuators, springs of tendons; `entry` over the dofs of all rows.
"""

import enum

import warp as wp

from stickslip.physics.convex.step.potential import vec5

wp.set_module_options({"enable_backward": False})

vec6 = wp.types.vector(length=6, dtype=wp.float64)


class Law(enum.IntEnum):
    """How the impulse of a row depends on its velocity."""

    OFF = 0
    RIGID = 1
    """Near-rigid, bilateral: equalities (18)."""
    LIMIT = 2
    """Near-rigid, unilateral: the distance to the limit must not become negative."""
    LINEAR = 3
    """A force that is linear in position and velocity, within bounds: actuators, springs and dampers (19)."""
    DRY = 4
    """Dry friction of a joint or tendon."""


@wp.struct
class Tree:
    """What follows from the model alone.

    Attributes:
        nv: dofs
        ntree: trees with dofs
        width: most dofs that a contact can move
        ndim: most rows of a contact
        tree_dofadr, tree_dofnum: (ntree,)
        chain_adr, chain_num: the dofs that move a body           (nbody,)
        chain_dof: from the root to the body
        body_treeid, body_rootid, geom_bodyid
        sym_adr, sym_num: entries of each row of the whole of M    (nv,)
        sym_col, sym_at: column of each, and where M keeps it
        diag_at: where M keeps the diagonal                       (nv,)
        linked: trees that rows bring together, 1 where they do   (ntree, ntree)
    """

    nv: int
    ntree: int
    width: int
    ndim: int
    tree_dofadr: wp.array[int]
    tree_dofnum: wp.array[int]
    chain_adr: wp.array[int]
    chain_num: wp.array[int]
    chain_dof: wp.array[int]
    body_treeid: wp.array[int]
    body_rootid: wp.array[int]
    geom_bodyid: wp.array[int]
    sym_adr: wp.array[int]
    sym_num: wp.array[int]
    sym_col: wp.array[int]
    sym_at: wp.array[int]
    diag_at: wp.array[int]
    linked: wp.array2d[wp.uint8]


@wp.struct
class Material:
    """Contact parameters, of one world that stands for all, or of each; they may be written to at any time.

    Attributes:
        geom_stiffness: N/m; 0: follows from solref and mass                    (*, ngeom)
        geom_dissipation: Hunt and Crossley's, s/m; -1: follows from solref     (*, ngeom)
        geom_static_friction: coefficient of static friction, 0: the dynamic one (*, ngeom)
        stiction: velocity that counts as sticking, m/s; of joints with dry friction rad/s or m/s (*,)
        rigidity: period of near-rigid constraints in steps: beta of (18)
    """

    geom_stiffness: wp.array2d[float]
    geom_dissipation: wp.array2d[float]
    geom_static_friction: wp.array2d[float]
    stiction: wp.array[float]
    rigidity: wp.float64


@wp.struct
class Touch:
    """The contacts of one geometry, by world.

    Attributes:
        adr, num: where the contacts of a world stand, and how many                  (nworld,)
        cursor: of the pool                                                          (1,)
        place: number of a contact in its world, -1: takes no part                   (naconmax,)
        con: contact of each slot                                                    (slot,)
        body1, body2: the bodies                                                     (slot,)
        dim: rows                                                                    (slot,)
        ndof: dofs that move it                                                      (slot,)
        dof, at: these dofs, of the first body, then the second, and their places    (slot * width,)
        J: rows of the Jacobian, for these dofs                                      (slot * ndim * width,)
        elastic: elastic force at the start of the step, negative when apart, N      (slot,)
        stiffness, dissipation: N/m and s/m                                          (slot,)
        start: normal force at the start of the step, N                              (slot,)
        lagged: normal force that friction goes by, N                                (slot,)
        musq: squares of the friction coefficients                                   (slot,)
        eps: length below which friction sticks: mu times the stiction velocity      (slot,)
        given: velocity of the surfaces themselves                                   (slot,)
        v, dv: velocity of the contact, and its change along the search direction    (slot,)
        normal, tangent, bend: slopes there: of the normal impulse; of friction across the slip, and what is taken off
            along it                                                                 (slot,)
    """

    adr: wp.array[int]
    num: wp.array[int]
    cursor: wp.array[int]
    place: wp.array[int]
    con: wp.array[int]
    body1: wp.array[int]
    body2: wp.array[int]
    dim: wp.array[int]
    ndof: wp.array[int]
    dof: wp.array[int]
    at: wp.array[int]
    J: wp.array[wp.float64]
    elastic: wp.array[wp.float64]
    stiffness: wp.array[wp.float64]
    dissipation: wp.array[wp.float64]
    start: wp.array[wp.float64]
    lagged: wp.array[wp.float64]
    musq: wp.array[vec5]
    eps: wp.array[wp.float64]
    given: wp.array[vec6]
    v: wp.array[vec6]
    dv: wp.array[vec6]
    normal: wp.array[wp.float64]
    tangent: wp.array[wp.float64]
    bend: wp.array[wp.float64]


@wp.struct
class RowSet:
    """Rows of one geometry; which there are follows from the model.

    Attributes:
        n: rows
        adr, num, col: entries and their dofs                                        (row,), (entry,)
        tree: a tree that it acts on, -1: on none                                    (row,)
        val: the Jacobian                                                            (nworld, entry)
        law: a Law                                                                   (nworld, row)
        residual: what a near-rigid row is off by, or the force of a linear one now  (nworld, row)
        weight: inverse mass of a near-rigid row, or the loss of a dry one           (nworld, row)
        rate: minus slope of a linear force over velocity                            (nworld, row)
        spring: minus slope of a linear force over position                          (nworld, row)
        low, high: bounds of a linear force                                          (nworld, row)
        vel: velocity at the start of the step                                       (nworld, row)
        bias, gain, least, most: the impulse as bias - gain s, clamped; of dry friction the loss and the stiction
            velocity                                                                 (nworld, row)
        s, ds: velocity along the row, and its change along the search direction     (nworld, row)
    """

    n: int
    adr: wp.array[int]
    num: wp.array[int]
    col: wp.array[int]
    tree: wp.array[int]
    val: wp.array2d[wp.float64]
    law: wp.array2d[int]
    residual: wp.array2d[wp.float64]
    weight: wp.array2d[wp.float64]
    rate: wp.array2d[wp.float64]
    spring: wp.array2d[wp.float64]
    low: wp.array2d[wp.float64]
    high: wp.array2d[wp.float64]
    vel: wp.array2d[wp.float64]
    bias: wp.array2d[wp.float64]
    gain: wp.array2d[wp.float64]
    least: wp.array2d[wp.float64]
    most: wp.array2d[wp.float64]
    s: wp.array2d[wp.float64]
    ds: wp.array2d[wp.float64]


@wp.struct
class Inertia:
    """Mass and forces of one geometry; `M` as MuJoCo Warp keeps it.

    Attributes:
        M: inertia matrix                                                            (nworld, nC)
        force: all forces on dofs that are taken as they are at the start            (nworld, nv)
        damping: minus slope of those forces over velocity                           (nworld, nv)
        spring: minus slope over position                                            (nworld, nv)
        near: trees that contacts and rows bring together                            (nworld, ntree, ntree)
        order, mark: scratch to order the trees                                      (nworld, ntree)
        at: place of each dof in the Hessian                                         (nworld, nv)
        first, adr, last: rows of the Hessian, see `skyline`                         (nworld, nv)
        size: entries of the Hessian                                                 (nworld,)
    """

    M: wp.array2d[float]
    force: wp.array2d[wp.float64]
    damping: wp.array2d[float]
    spring: wp.array2d[float]
    near: wp.array3d[wp.uint8]
    order: wp.array2d[int]
    mark: wp.array2d[int]
    at: wp.array2d[int]
    first: wp.array2d[int]
    adr: wp.array2d[int]
    last: wp.array2d[int]
    size: wp.array[int]


@wp.struct
class Islands:
    """Trees that contacts and rows bring together, of one geometry: each island is solved by itself.

    Attributes:
        num: islands of a world                                                      (nworld,)
        tree: island of each tree                                                    (nworld, ntree)
        dof_adr: first place of each island, and the end                             (nworld, ntree + 1)
        dof: dof at each place                                                       (nworld, nv)
        contact_adr: where the contacts of each island begin in `contact`            (nworld, ntree + 1)
        contact: slots, those of an island side by side                              (slot,)
        row_adr, row: the same of rows                                               (nworld, ntree + 1), (nworld, row)
    """

    num: wp.array[int]
    tree: wp.array2d[int]
    dof_adr: wp.array2d[int]
    dof: wp.array2d[int]
    contact_adr: wp.array2d[int]
    contact: wp.array[int]
    row_adr: wp.array2d[int]
    row: wp.array2d[int]


@wp.struct
class Share:
    """An island, and the lane that works on it.

    Attributes:
        worldid: its world
        dof, dof_end: its places in the Hessian
        contact, contact_end: its contacts in `Islands.contact`
        row, row_end: its rows in `Islands.row`
        lane, nlane: which lane of how many
    """

    worldid: int
    dof: int
    dof_end: int
    contact: int
    contact_end: int
    row: int
    row_end: int
    lane: int
    nlane: int


@wp.struct
class Solver:
    """Workspace for Newton's method, and what it remembers; one for all geometries.

    Attributes:
        v, g, p, x, Av, Ap, r: iterate, gradient, direction, products with A, right side (nworld, nv)
        factor: Hessian, then its Cholesky factor                                        (nworld, capacity)
        capacity: entries allocated for the factor
        iterations, factorizations, searches: counted, each island's times its dofs      (nworld,)
        unfinished: islands that stopped at the limit of iterations, counted             (nworld,)
        wanted: entries that a factor needed beyond its capacity                            (nworld,)
    """

    v: wp.array2d[wp.float64]
    g: wp.array2d[wp.float64]
    p: wp.array2d[wp.float64]
    x: wp.array2d[wp.float64]
    Av: wp.array2d[wp.float64]
    Ap: wp.array2d[wp.float64]
    r: wp.array2d[wp.float64]
    factor: wp.array2d[wp.float64]
    capacity: int
    iterations: wp.array[wp.int64]
    factorizations: wp.array[wp.int64]
    searches: wp.array[wp.int64]
    unfinished: wp.array[int]
    wanted: wp.array[int]
