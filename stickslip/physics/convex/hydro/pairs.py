"""Pairs of geoms that touch in patches: taken out of MuJoCo Warp's collision detection, and found here."""

import dataclasses
import warnings

import mujoco
import mujoco_warp as mjw
import numpy as np
import warp as wp
from numpy.typing import NDArray

from stickslip.physics.convex.hydro.cells import LANES as CELL_LANES
from stickslip.physics.convex.hydro.cells import MOST_CELLS, make_cells
from stickslip.physics.convex.hydro.fields import Fields
from stickslip.physics.convex.hydro.geoms import Material, fields_of, is_flat, read_material
from stickslip.physics.convex.hydro.points import CELLS, CORNERS, REDUCED, Pairs, Patches, blend_of, sink_of
from stickslip.physics.convex.hydro.polar import LANES as POLAR_LANES
from stickslip.physics.convex.hydro.polar import Rule, make_polars, make_rule, rays_of
from stickslip.physics.mjwarp.private_contacts import contact_surfacevel
from stickslip.physics.mjwarp.sizes import geom_pairs

wp.set_module_options({"enable_backward": False})

ROUND_MARGIN = 1e-5
"""Largest margin of a round geom, m: the patch of a shallower contact is that of this depth, and its force coarse."""
BLOCKS = 8192
"""Pairs that are worked on side by side on CUDA."""
_BLOCK_DIM = 64
_MANY_FACES = 64


@dataclasses.dataclass
class Hydro:
    """What follows from the model alone.

    Attributes:
        fields: pressure fields of the geoms
        pairs: pairs that touch in patches
        ncell, npolar: how many of them have cells, and how many polar patches
        rule: quadrature of polar patches
    """

    fields: Fields
    pairs: Pairs
    ncell: int
    npolar: int
    rule: Rule


@dataclasses.dataclass(frozen=True)
class Room:
    """What there must be room for: pairs with cells, pairs with polar patches, and rays and points of one of these."""

    ncell: int
    npolar: int
    rays: int
    points: int


def touch_in_patches(mjm: mujoco.MjModel, material: Material, pair: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Which of pairs of geoms do: one has a modulus, both a field, and none sticks."""
    sticky = mjm.geom_adhesion != 0.0
    sticky[mjm.pair_geom1[mjm.pair_adhesion != 0.0]] = True
    return (material.modulus > 0.0)[pair].any(axis=1) & material.has_field[pair].all(axis=1) & ~sticky[pair].any(axis=1)


def room_of(mjm: mujoco.MjModel, modulus: float | None) -> Room | None:
    """For the pairs of a model that can touch in patches; None if there are none."""
    material = read_material(mjm, modulus)
    if not (material.modulus > 0.0).any():
        return None
    pair = np.stack(geom_pairs(mjm), axis=1)
    pair = pair[touch_in_patches(mjm, material, pair)]
    if not len(pair):
        return None
    flat = is_flat(mjm)[pair].all(axis=1)
    m, g = material.points
    return Room(int(flat.sum()), int((~flat).sum()), rays_of(m), m * g)


def make_hydro(mjm: mujoco.MjModel, m: mjw.Model, modulus: float | None, margin: float) -> Hydro | None:
    """The pairs of a model that touch in patches, which MuJoCo Warp then no longer looks at; None if there are none.

    Args:
        mjm, m: the model, and MuJoCo Warp's, whose lists of pairs change
        modulus: of geoms of moving bodies, Pa; None: their own
        margin: how far ahead of touch there are points, m
    """
    material = read_material(mjm, modulus)
    if not (material.modulus > 0.0).any():
        return None
    for kind, number in material.left_out.items():
        warnings.warn(f"{number} geoms with a hydroelastic modulus touch as points: {kind}", stacklevel=5)
    pair, pairid = m.nxn_geom_pair_filtered.numpy(), m.nxn_pairid_filtered.numpy()
    if not len(pair):
        return None
    chosen = np.flatnonzero((pairid[:, 0] >= -1) & touch_in_patches(mjm, material, pair))
    if not len(chosen):
        return None
    geoms, ids = pair[chosen].copy(), pairid[chosen, 0].copy()
    swap = mjm.geom_type[geoms[:, 0]] > mjm.geom_type[geoms[:, 1]]
    geoms[swap] = geoms[swap][:, ::-1]
    used = np.unique(geoms)
    fields, faces = fields_of(mjm, material, used)
    if faces.max() > _MANY_FACES:
        geom = int(faces.argmax())
        warnings.warn(
            f"the hull of geom {geom} has {faces[geom]} faces, and a patch takes time by their product: "
            f'up to {_MANY_FACES} are fast; name <mesh maxhullvert="32"/>',
            stacklevel=5,
        )
    pairs = Pairs()
    flat = is_flat(mjm)[geoms].all(axis=1)
    pairs.geom = wp.array(geoms, dtype=wp.vec2i)
    pairs.id = wp.array(ids, dtype=int)
    pairs.margin = wp.array(np.where(flat, margin, min(margin, ROUND_MARGIN)), dtype=float)
    pairs.is_flat = wp.array(flat, dtype=bool)
    _take_out(mjm, m, chosen)
    return Hydro(fields, pairs, int(flat.sum()), int((~flat).sum()), make_rule(*material.points))


def _take_out(mjm: mujoco.MjModel, m: mjw.Model, chosen: NDArray[np.integer]) -> None:
    """Let MuJoCo Warp not look at these pairs of its filtered list, unless a distance sensor does."""
    pair, pairid = m.nxn_geom_pair_filtered.numpy(), m.nxn_pairid_filtered.numpy().copy()
    every = m.nxn_pairid.numpy().copy()
    first, second = pair[chosen].min(axis=1).astype(int), pair[chosen].max(axis=1).astype(int)
    every[first * (2 * mjm.ngeom - first - 3) // 2 + second - 1, 0] = -2  # as MuJoCo Warp numbers them
    pairid[chosen, 0] = -2
    kept = (pairid[:, 0] > -2) | (pairid[:, 1] >= 0)
    m.nxn_pairid = wp.array(every, dtype=wp.vec2i)
    m.nxn_geom_pair_filtered = wp.array(pair[kept], dtype=wp.vec2i)
    m.nxn_pairid_filtered = wp.array(pairid[kept], dtype=wp.vec2i)


def make_patches(room: Room, d: mjw.Data) -> Patches:
    """Room for the patches of a geometry."""
    patches = Patches()
    blocks = BLOCKS if d.qpos.device.is_cuda else 1
    patches.ncellmax = min(d.nworld * room.ncell, d.naconmax)
    patches.npolarmax = min(d.nworld * room.npolar, d.naconmax)
    patches.count = wp.zeros(4, dtype=int)
    patches.cells = wp.zeros(patches.ncellmax, dtype=wp.vec2i)
    patches.polars = wp.zeros(patches.npolarmax, dtype=wp.vec2i)
    cells, polars = min(blocks, patches.ncellmax), min(blocks, patches.npolarmax)
    patches.cell = wp.zeros((cells, int(MOST_CELLS)), dtype=int)
    patches.part = wp.zeros((cells, 2 * int(MOST_CELLS)), dtype=wp.vec3d)
    patches.slot = wp.zeros((cells, 2 * int(MOST_CELLS)), dtype=int)
    patches.ray = wp.zeros((polars, room.rays), dtype=wp.vec4d)
    patches.stiffness, patches.share, patches.area = (wp.zeros(d.naconmax, dtype=float) for _ in range(3))
    patches.patch = wp.full(d.naconmax, -1, dtype=int)
    patches.notes = wp.zeros(d.nworld, dtype=int)
    return patches


@wp.kernel
def _clear_patches(
    # Data in:
    naconmax: int,
    nacon_in: wp.array[int],
    # Out:
    patches: Patches,
):
    """No patches yet; the contacts of MuJoCo Warp are points."""
    conid = wp.tid()
    patches.stiffness[conid] = 0.0
    patches.patch[conid] = -1
    patches.area[conid] = 0.0
    if conid == 0:
        for i in range(3):
            patches.count[i] = 0
        patches.count[3] = wp.min(nacon_in[0], naconmax)


@wp.func
def _half_width(half: wp.vec3, rot: wp.mat33, axis: wp.vec3) -> float:
    """Of a box along an axis."""
    along = wp.transpose(rot) * axis
    return wp.abs(along[0]) * half[0] + wp.abs(along[1]) * half[1] + wp.abs(along[2]) * half[2]


@wp.func
def _column(rot: wp.mat33, i: int) -> wp.vec3:
    return wp.vec3(rot[0, i], rot[1, i], rot[2, i])


@wp.kernel
def _find_pairs(
    # Model:
    geom_aabb: wp.array3d[wp.vec3],
    geom_rbound: wp.array2d[float],
    pairs: Pairs,
    # Data in:
    geom_xpos_in: wp.array2d[wp.vec3],
    geom_xmat_in: wp.array2d[wp.mat33],
    # Out:
    patches: Patches,
):
    """Pairs whose boxes come closer than the margin, along the axes of the two boxes.

    The lists have all worlds of a pair one after the other: lanes of a warp then work on the same kinds of geoms.
    """
    pair, worldid = wp.tid()
    geom = pairs.geom[pair]
    margin = pairs.margin[pair]
    bounds = worldid % geom_aabb.shape[0]
    rot1 = geom_xmat_in[worldid, geom[0]]
    rot2 = geom_xmat_in[worldid, geom[1]]
    half1 = geom_aabb[bounds, geom[0], 1]
    half2 = geom_aabb[bounds, geom[1], 1]
    place2 = geom_xpos_in[worldid, geom[1]] + rot2 * geom_aabb[bounds, geom[1], 0]
    if geom_rbound[worldid % geom_rbound.shape[0], geom[0]] == 0.0:  # a plane
        up = _column(rot1, 2)
        if wp.dot(place2 - geom_xpos_in[worldid, geom[0]], up) > _half_width(half2, rot2, up) + margin:
            return
    else:
        apart = place2 - geom_xpos_in[worldid, geom[0]] - rot1 * geom_aabb[bounds, geom[0], 0]
        for i in range(3):
            axis = _column(rot1, i)
            if wp.abs(wp.dot(apart, axis)) > half1[i] + _half_width(half2, rot2, axis) + margin:
                return
            axis = _column(rot2, i)
            if wp.abs(wp.dot(apart, axis)) > half2[i] + _half_width(half1, rot1, axis) + margin:
                return
    if pairs.is_flat[pair]:
        place = wp.atomic_add(patches.count, 0, 1)
        if place < patches.ncellmax:
            patches.cells[place] = wp.vec2i(worldid, pair)
    else:
        place = wp.atomic_add(patches.count, 1, 1)
        if place < patches.npolarmax:
            patches.polars[place] = wp.vec2i(worldid, pair)


@wp.kernel
def _end_patches(
    # In:
    patches: Patches,
    # Data in:
    naconmax: int,
    # Data out:
    nacon_out: wp.array[int],
    ncollision_out: wp.array[int],
    contact_type_out: wp.array[int],
):
    """Count what was written, and what was wanted; slots that stayed empty between points and resultants are none."""
    conid = wp.tid()
    found = wp.min(patches.count[0], patches.ncellmax) + wp.min(patches.count[1], patches.npolarmax)
    wanted = patches.count[2]
    is_reduced = wanted > 0 and patches.count[3] + wanted + found > naconmax
    if is_reduced and conid >= patches.count[3] and patches.patch[conid] < 0:
        contact_type_out[conid] = 0
    if conid == 0:
        nacon_out[0] += wanted + wp.where(is_reduced, found, 0)
        ncollision_out[0] += patches.count[0] + patches.count[1]


def find_patches(m: mjw.Model, d: mjw.Data, hydro: Hydro, patches: Patches) -> None:
    """Add the points of all patches to the contacts that MuJoCo Warp found."""
    off = mjw.DisableBit.CONSTRAINT | mjw.DisableBit.CONTACT
    if d.naconmax == 0 or m.opt.disableflags & off:
        return
    wp.launch(_clear_patches, dim=d.naconmax, inputs=[d.naconmax, d.nacon], outputs=[patches])
    wp.launch(
        _find_pairs,
        dim=(hydro.ncell + hydro.npolar, d.nworld),
        inputs=[m.geom_aabb, m.geom_rbound, hydro.pairs, d.geom_xpos, d.geom_xmat],
        outputs=[patches],
    )
    blend, sink = blend_of(m), sink_of(d)
    is_cuda = d.qpos.device.is_cuda
    shape = {"block_dim": _BLOCK_DIM} if is_cuda else {}
    if hydro.ncell:
        nblock, nlane = patches.cell.shape[0], CELL_LANES if is_cuda else 1
        inputs = [hydro.fields, blend, hydro.pairs, nblock, nlane]
        wp.launch(make_cells, dim=(nblock, nlane), inputs=inputs, outputs=[sink, patches], **shape)
    if hydro.npolar:
        nblock, nlane = patches.ray.shape[0], POLAR_LANES if is_cuda else 1
        inputs = [hydro.fields, blend, hydro.rule, hydro.pairs, nblock, nlane]
        wp.launch(make_polars, dim=(nblock, nlane), inputs=inputs, outputs=[sink, patches], **shape)
    wp.launch(
        _end_patches,
        dim=d.naconmax,
        inputs=[patches, d.naconmax],
        outputs=[d.nacon, d.ncollision, d.contact.type],
    )
    if m.flg_surfacevel:
        contact_surfacevel(m, d)


def explain(notes: int) -> tuple[str, ...]:
    """Sentences for the bits of `Patches.notes`."""
    causes = {
        int(REDUCED): "hydroelastic patches became one contact each, for lack of room: raise nconmax",
        int(CORNERS): "cells of a hydroelastic patch had more than 32 corners, and the shortest edges were merged: "
        "use hulls with fewer faces (maxhullvert)",
        int(CELLS): f"cells of a hydroelastic patch were left out, there is room for {int(MOST_CELLS)}: "
        "use hulls with fewer faces (maxhullvert)",
    }
    return tuple(text for bit, text in causes.items() if notes & bit)
