"""Quadrature points of a patch as contacts in MuJoCo Warp's pool.

A point of weight A with pressure p0 and series gradient g, ``1/g = 1/g_A + 1/g_B``, is a contact with

    stiffness k = A g,   dist = -p0/g,   share = (1/g_A) / (1/g)

so that ``-k dist`` is its force A p0. Dissipation is weighted by the shares of the two geoms.
"""

import mujoco_warp as mjw
import warp as wp

from stickslip.physics.convex.hydro.fields import ZERO, Fields, Side, real, side_of
from stickslip.physics.convex.step.lanes import lane_sum
from stickslip.physics.mjwarp.private import vec5 as five
from stickslip.physics.mjwarp.private_contacts import contact_material_params
from stickslip.physics.mjwarp.touches import TOUCHING

wp.set_module_options({"enable_backward": False})

REDUCED = wp.constant(1)
CORNERS = wp.constant(2)
CELLS = wp.constant(4)
"""Bits of `Patches.notes`: a patch became its resultant; corners of a cell were merged; cells were left out."""

_LEAST = wp.constant(wp.float64(1.0e-25))
"""Least weight of a point, m^2: one without a stiffness would be taken for point contact."""


@wp.struct
class Patches:
    """Patches of one geometry: what was found, scratch, and what each contact has beside MuJoCo Warp's pool.

    Attributes:
        ncellmax, npolarmax: pairs that there is room for
        count: pairs found with cells and with polar patches, points wanted, contacts before patches   (4,)
        cells, polars: world and pair                                                 (ncellmax,), (npolarmax,)
        cell: scratch: faces of cells that are not empty, as i * nface_B + j          (nblock, MOST_CELLS)
        part: scratch: force, area and corners of the pressed and the open part       (nblock, 2 MOST_CELLS)
        slot: scratch: first point of each part; -1: none                             (nblock, 2 MOST_CELLS)
        ray: scratch: radius and load of each ray                                     (nblock, rays)
        stiffness: of a point, N/m; 0: point contact                                  (naconmax,)
        share: of the compliance that geom 0 has                                      (naconmax,)
        patch: number of the patch; -1: point contact                                 (naconmax,)
        area: weight of the point, m^2                                                (naconmax,)
        notes: bits as above                                                          (nworld,)
    """

    ncellmax: int
    npolarmax: int
    count: wp.array[int]
    cells: wp.array[wp.vec2i]
    polars: wp.array[wp.vec2i]
    cell: wp.array2d[int]
    part: wp.array2d[wp.vec3d]
    slot: wp.array2d[int]
    ray: wp.array2d[wp.vec4d]
    stiffness: wp.array[float]
    share: wp.array[float]
    patch: wp.array[int]
    area: wp.array[float]
    notes: wp.array[int]


@wp.struct
class Pairs:
    """Pairs of geoms that touch in patches; geom 1 is never a plane.

    Attributes:
        geom: the two geoms, in MuJoCo's order of types                 (npair,)
        id: number of the <pair> of the model; -1: none                 (npair,)
        margin: how far ahead of touch there are points, m              (npair,)
        is_flat: whether both are flat                                  (npair,)
    """

    geom: wp.array[wp.vec2i]
    id: wp.array[int]
    margin: wp.array[float]
    is_flat: wp.array[bool]


@wp.struct
class Blend:
    """Fields of MuJoCo Warp's model that the parameters of a contact come from."""

    geom_condim: wp.array[int]
    geom_priority: wp.array[int]
    geom_solmix: wp.array2d[float]
    geom_solref: wp.array2d[wp.vec2]
    geom_solimp: wp.array2d[five]
    geom_friction: wp.array2d[wp.vec3]
    geom_adhesion: wp.array2d[float]
    pair_dim: wp.array[int]
    pair_solref: wp.array2d[wp.vec2]
    pair_solreffriction: wp.array2d[wp.vec2]
    pair_solimp: wp.array2d[five]
    pair_adhesion: wp.array2d[float]
    pair_friction: wp.array2d[five]


@wp.struct
class Sink:
    """MuJoCo Warp's pool of contacts."""

    nmax: int
    nacon: wp.array[int]
    geom_xpos: wp.array2d[wp.vec3]
    geom_xmat: wp.array2d[wp.mat33]
    dist: wp.array[float]
    pos: wp.array[wp.vec3]
    frame: wp.array[wp.mat33]
    includemargin: wp.array[float]
    friction: wp.array[five]
    solref: wp.array[wp.vec2]
    solreffriction: wp.array[wp.vec2]
    solimp: wp.array[five]
    dim: wp.array[int]
    geom: wp.array[wp.vec2i]
    efc_address: wp.array2d[int]
    worldid: wp.array[int]
    type: wp.array[int]
    geomcollisionid: wp.array[int]
    adhesion: wp.array[float]


@wp.struct
class Patch:
    """A patch while it is written.

    Attributes:
        a, b: the geoms, in the frame of geom 1
        rot, pos: pose of geom 1 in the world
        worldid, geom, dim, friction, solref, solreffriction, solimp: of its contacts
        margin: how far ahead of touch there are points, m
        number: of the patch
        adr: slot of the first point
        fits: whether there is room; if not, only its resultant is written
    """

    a: Side
    b: Side
    rot: wp.mat33d
    pos: wp.vec3d
    worldid: int
    geom: wp.vec2i
    dim: int
    friction: five
    solref: wp.vec2
    solreffriction: wp.vec2
    solimp: five
    margin: wp.float64
    number: int
    adr: int
    fits: bool


@wp.struct
class Sums:
    """Of the points of a patch: force, force times place, (force, stiffness, area), and share times stiffness."""

    force: wp.vec3d
    moment: wp.vec3d
    total: wp.vec3d
    share: wp.float64


def blend_of(m: mjw.Model) -> Blend:
    """Those fields of a model."""
    blend = Blend()
    for name in Blend.vars:
        setattr(blend, name, getattr(m, name))
    return blend


def sink_of(d: mjw.Data) -> Sink:
    """The pool of a Data."""
    sink = Sink()
    sink.nmax, sink.nacon = d.naconmax, d.nacon
    sink.geom_xpos, sink.geom_xmat = d.geom_xpos, d.geom_xmat
    for name in Sink.vars:
        if name not in ("nmax", "nacon", "geom_xpos", "geom_xmat"):
            setattr(sink, name, getattr(d.contact, name))
    return sink


@wp.func
def begin_patch(fields: Fields, blend: Blend, pairs: Pairs, sink: Sink, found: wp.vec2i, number: int) -> Patch:
    """Of a world and a pair: poses in the frame of geom 1, and the parameters of the contacts."""
    worldid = found[0]
    pair = found[1]
    geom = pairs.geom[pair]
    patch = Patch()
    patch.rot = wp.mat33d(sink.geom_xmat[worldid, geom[1]])
    patch.pos = wp.vec3d(sink.geom_xpos[worldid, geom[1]])
    back = wp.transpose(patch.rot)
    rot = back * wp.mat33d(sink.geom_xmat[worldid, geom[0]])
    pos = back * (wp.vec3d(sink.geom_xpos[worldid, geom[0]]) - patch.pos)
    patch.a = side_of(fields, worldid, geom[0], rot, pos)
    patch.b = side_of(fields, worldid, geom[1], wp.identity(n=3, dtype=wp.float64), wp.vec3d())
    patch.worldid = worldid
    patch.geom = geom
    condim, friction, solref, solreffriction, solimp, _adhesion = contact_material_params(
        blend.geom_condim,
        blend.geom_priority,
        blend.geom_solmix,
        blend.geom_solref,
        blend.geom_solimp,
        blend.geom_friction,
        blend.geom_adhesion,
        blend.pair_dim,
        blend.pair_solref,
        blend.pair_solreffriction,
        blend.pair_solimp,
        blend.pair_adhesion,
        blend.pair_friction,
        geom,
        pairs.id[pair],
        worldid,
    )
    patch.dim = wp.min(condim, 3)  # a patch has torsion and rolling resistance by itself
    patch.friction = friction
    patch.solref = solref
    patch.solreffriction = solreffriction
    patch.solimp = solimp
    patch.margin = real(pairs.margin[pair])
    patch.number = number
    return patch


@wp.func
def reserve(patches: Patches, sink: Sink, n: int, lane: int, nlane: int) -> wp.vec2i:
    """Slots for n points, all or none: the first, and whether there is room.

    One slot for each pair stays free at the end of the pool, for its resultant.
    """
    first = int(0)
    if lane == 0:
        first = wp.atomic_add(patches.count, 2, n)
    # an integer below 2^53, and 0 in the other lanes
    first = int(lane_sum(wp.vec3d(real(first), ZERO, ZERO), nlane)[0])
    adr = patches.count[3] + first
    found = wp.min(patches.count[0], patches.ncellmax) + wp.min(patches.count[1], patches.npolarmax)
    return wp.vec2i(adr, wp.where(adr + n + found <= sink.nmax, 1, 0))


@wp.func
def store(
    patches: Patches,
    sink: Sink,
    patch: Patch,
    conid: int,
    dist: wp.float64,
    stiffness: wp.float64,
    share: wp.float64,
    area: wp.float64,
    place: wp.vec3d,
    into_a: wp.vec3d,
):
    """A contact, from a place and a normal in the frame of geom 1."""
    normal = wp.vec3(-(patch.rot * into_a))
    across = wp.vec3(0.0, 1.0, 0.0)
    if wp.abs(normal[1]) > 0.5:
        across = wp.vec3(0.0, 0.0, 1.0)
    first = wp.normalize(across - normal * wp.dot(normal, across))
    second = wp.cross(normal, first)
    sink.dist[conid] = float(dist)
    sink.pos[conid] = wp.vec3(patch.rot * place + patch.pos)
    sink.frame[conid] = wp.matrix_from_rows(normal, first, second)
    sink.includemargin[conid] = 0.0
    sink.friction[conid] = patch.friction
    sink.solref[conid] = patch.solref
    sink.solreffriction[conid] = patch.solreffriction
    sink.solimp[conid] = patch.solimp
    sink.dim[conid] = patch.dim
    sink.geom[conid] = patch.geom
    sink.worldid[conid] = patch.worldid
    sink.type[conid] = TOUCHING
    sink.geomcollisionid[conid] = 0
    sink.adhesion[conid] = 0.0
    for i in range(sink.efc_address.shape[1]):
        sink.efc_address[conid, i] = -1
    patches.stiffness[conid] = float(stiffness)
    patches.share[conid] = float(share)
    patches.patch[conid] = patch.number
    patches.area[conid] = float(area)


@wp.func
def add_point(
    patches: Patches,
    sink: Sink,
    patch: Patch,
    sums: Sums,
    slot: int,
    weight: wp.float64,
    place: wp.vec3d,
    into_a: wp.vec3d,
    p0: wp.float64,
    compliance_a: wp.float64,
    compliance_b: wp.float64,
) -> Sums:
    """Write a point; or add it to the resultant, if the patch has no room."""
    inverse = compliance_a + compliance_b
    area = wp.max(weight, _LEAST)
    k = area / inverse
    share = compliance_a / inverse
    out = sums
    if patch.fits:
        store(patches, sink, patch, patch.adr + slot, -p0 * inverse, k, share, area, place, into_a)
    elif p0 > ZERO:
        f = area * p0
        out.force = sums.force + f * into_a
        out.moment = sums.moment + f * place
        out.total = sums.total + wp.vec3d(f, k, area)
        out.share = sums.share + share * k
    return out


@wp.func
def end_patch(patches: Patches, sink: Sink, patch: Patch, sums: Sums, lane: int, nlane: int):
    """The resultant, at the centre of pressure, of a patch that has no room."""
    if patch.fits:
        return
    force = lane_sum(sums.force, nlane)
    moment = lane_sum(sums.moment, nlane)
    total = lane_sum(sums.total, nlane)
    share = lane_sum(wp.vec3d(sums.share, ZERO, ZERO), nlane)[0]
    if lane == 0:
        wp.atomic_or(patches.notes, patch.worldid, REDUCED)
        conid = sink.nmax - 1 - patch.number
        length = wp.length(force)
        if total[0] > ZERO and length > ZERO and conid >= patches.count[3]:
            # a force that is shorter than the sum of the pressures keeps its length, and the stiffness goes with it
            k = total[1] * length / total[0]
            store(
                patches,
                sink,
                patch,
                conid,
                -length / k,
                k,
                share / total[1],
                total[2],
                moment / total[0],
                force / length,
            )
