"""A few points for a whole patch of contact, selected softly; equation numbers are the paper's."""

# pyright: reportMissingImports=false

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from stickslip.physics.scm.field import Points, in_blocks, soft_plane

Array = jax.Array

CORNERS = np.array(list(itertools.product((-1.0, 1.0), repeat=3))) / np.sqrt(3.0)
"""Where a patch is looked for its ends: along the diagonals of the geom."""


def vertex_weights(weight: Array, faces: np.ndarray, nvertex: int) -> Array:
    """(12): weights of faces, (n,), as weights of their vertices, (nvertex,)."""
    corners = faces.copy()
    once = np.ones(faces.shape)
    once[:, 3] = faces[:, 3] != faces[:, 2]  # a triangle has its last vertex twice
    spread = jnp.asarray(once, dtype=weight.dtype) * weight[:, None]
    return jnp.zeros(nvertex, dtype=weight.dtype).at[corners.reshape(-1)].add(spread.reshape(-1))


def soft_top_k(z: Array, k: int, temperature: float = 0.1) -> Array:
    """(13): rows that pick the largest of z > 0, the second largest and so on, (k, n); each row sums to 1.

    Each row is a softmax of log z, from which the rows before have been taken out. Where entries are equal, a row is
    their mean: vertices of a face that lies flat on another all are, so `ends` is what contact uses.
    """
    logit = jnp.log(z)
    rows = []
    for _ in range(k):
        row = jax.nn.softmax(logit / temperature)
        rows.append(row)
        logit = logit + jnp.log1p(-row * (1.0 - 1e-6))
    return jnp.stack(rows)


def ends(corner: Array, out: Array, distance: Array, select: Array, spread: Array) -> Array:
    """The ends of a patch of contact, one in each direction, (len(out), 3).

    Each is an average of vertices: deeper ones count more, and so do those further out. To be `spread` further out
    makes up for being `select` less deep.

    Args:
        corner: vertices                                  (n, 3)
        out: directions                                   (k, 3)
        distance: soft signed distance of each            (n,)
        select: depth that counts, m
        spread: distance along a direction that counts as much, m
    """
    logit = -distance / select + (out @ corner.T) / spread
    return jax.nn.softmax(logit, axis=1) @ corner


def patch(corner: Array, turn: Array, surface: Points, blend: Array, select: Array, spread: Array, block: int):
    """Ends of the patch where vertices touch a surface, all in its frame: points, distances and unit normals.

    Args:
        corner: vertices of the other geom                (n, 3)
        turn: rotation of that geom                       (3, 3)
        surface: the surface
        blend, select: see `Law`
        spread: see `ends`
        block: vertices to look at together
    """
    distance = in_blocks(lambda some: soft_plane(some, surface, blend)[0], corner, block)
    at = ends(corner, jnp.asarray(CORNERS, dtype=corner.dtype) @ turn.T, distance, select, spread)
    gap, normal = soft_plane(at, surface, blend)
    return at, gap, normal / jnp.sqrt(jnp.sum(normal * normal, axis=1, keepdims=True) + 1e-12)
