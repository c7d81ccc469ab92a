"""Surfaces that differ between worlds: primitives of other sizes, and clouds that are given; no JAX."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.errors import InputError, Unsupported
from stickslip.physics.scm.cloud import KINDS, Cloud, check
from stickslip.physics.scm.grids import areas
from stickslip.physics.scm.structure import name_of
from stickslip.physics.scm.survey import find_geom
from stickslip.state import check_finite

Array = NDArray[np.float64]

NUMBERS = {"sphere": 1, "capsule": 2, "cylinder": 2, "ellipsoid": 3, "box": 3}
"""How many numbers of a size each shape reads."""
SMALLEST, LARGEST = 1e-6, 1e6
"""Of sizes, m."""


class Surface(NamedTuple):
    """The clouds of a geom, with an axis of worlds, or of 1 where all worlds have the same.

    Attributes:
        place: points                          (nworld or 1, n, 3)
        normal: outwards                       (nworld or 1, n, 3)
        spacing: distance of neighbours, m     (nworld or 1,)
        corner: vertices of faces              (nworld or 1, v, 3)
    """

    place: Array
    normal: Array
    spacing: Array
    corner: Array


def resized(cloud: Cloud, kind: str, old: Array, new: Array) -> Surface:
    """The cloud of a primitive at other sizes, (nworld or 1, 3), with the same faces."""
    q = cloud.quads
    if kind == "capsule":
        # a ball's surface, moved along the axis
        place, corner = (_along_axis(x, old, new) for x in (q.point, q.vertices))
        normal = np.broadcast_to(q.normal, place.shape)
    else:
        read = {"sphere": [0, 0, 0], "cylinder": [0, 0, 1]}.get(kind, [0, 1, 2])
        factor = (new / np.where(old > 0.0, old, 1.0))[:, None, read]
        place, corner, normal = factor * q.point, factor * q.vertices, q.normal / factor
        normal = normal / np.linalg.norm(normal, axis=-1, keepdims=True)
    return Surface(place, normal, np.sqrt(areas(corner, q.faces).mean(axis=-1)), corner)


def _along_axis(x: Array, old: Array, new: Array) -> Array:
    middle = np.zeros_like(x)
    middle[:, 2] = np.clip(x[:, 2], -old[1], old[1])
    return (new[:, 0] / old[0])[:, None, None] * (x - middle) + (new[:, 1] / old[1])[:, None, None] * middle


def of_sizes(
    mjm: mujoco.MjModel, clouds: Mapping[int, Cloud], given: frozenset[int], now: Array, value: Any, nworld: int
) -> dict[int, Surface | None]:
    """The surfaces that sizes ask for, of geoms that may touch; None where it is the model's own.

    Args:
        mjm: the model
        clouds: of the geoms that may touch, at the model's sizes
        given: geoms whose clouds were given: they have no size
        now: sizes at present, (nworld or 1, ngeom, 3)
        value: new sizes, (nworld, ngeom, 3) or (ngeom, 3)
        nworld: number of worlds
    """
    sizes = _check_sizes(mjm, value, nworld)
    out: dict[int, Surface | None] = {}
    for geom, cloud in clouds.items():
        new = sizes[:, geom]
        kind = KINDS.get(int(mjm.geom_type[geom]))
        if kind is None or geom in given:
            if not cloud.open and not _equal(new, now[:, geom]):
                what = "its cloud was given" if geom in given else "it is a mesh"
                raise Unsupported(
                    f"scm cannot change geom_size of geom {name_of(mjm, mujoco.mjtObj.mjOBJ_GEOM, geom)}: {what}; "
                    "give the cloud of each world with set_clouds"
                )
            continue
        read = NUMBERS[kind]
        if _equal(new[:, :read], mjm.geom_size[geom, :read]):
            out[geom] = None
            continue
        if _equal(new[:, :read], new[0, :read]):
            new = new[:1]
        out[geom] = resized(cloud, kind, mjm.geom_size[geom], new)
    return out


def _equal(a: Array, b: Array) -> bool:
    """In single precision."""
    return bool(np.all(a.astype(np.float32) == b.astype(np.float32)))


def _check_sizes(mjm: mujoco.MjModel, value: Any, nworld: int) -> Array:
    shape = (mjm.ngeom, 3)
    try:
        sizes = np.asarray(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"geom_size must be numbers of shape {(nworld, *shape)}: {error}") from None
    if sizes.shape not in (shape, (1, *shape), (nworld, *shape)):
        raise InputError(
            f"geom_size has shape {sizes.shape}, expected {(nworld, *shape)} (one per world) or {shape} (for all)"
        )
    check_finite("geom_size", sizes)
    sizes = sizes.reshape(-1, *shape)
    for geom in range(mjm.ngeom):
        kind = KINDS.get(int(mjm.geom_type[geom]))
        if kind is None:
            continue
        read = sizes[:, geom, : NUMBERS[kind]]
        bad = np.argwhere((read < SMALLEST) | (read > LARGEST))
        if len(bad):
            world, k = (int(i) for i in bad[0])
            where = f" in world {world}" if len(sizes) > 1 else ""
            raise InputError(
                f"geom_size[{k}] of the {kind} {name_of(mjm, mujoco.mjtObj.mjOBJ_GEOM, geom)} is {read[world, k]:g}"
                f"{where}: it must be from {SMALLEST:g} to {LARGEST:g} m"
            )
    return sizes


def of_clouds(
    mjm: mujoco.MjModel, clouds: Mapping[int, Cloud], value: Mapping[str | int, Any], nworld: int
) -> dict[int, tuple[Surface, Cloud]]:
    """The surfaces of given clouds, one per world or one for all, and the first cloud of each geom."""
    out = {}
    for key, some in value.items():
        geom = find_geom(mjm, key)
        name = name_of(mjm, mujoco.mjtObj.mjOBJ_GEOM, geom)
        if geom not in clouds:
            raise InputError(f"geom {name} touches nothing and needs no cloud; see contype and conaffinity")
        if clouds[geom].open:
            raise InputError(f"geom {name} is a plane, which has no cloud: give clouds to other geoms")
        each = list(some) if isinstance(some, (list, tuple)) else [some]
        if len(each) not in (1, nworld):
            raise InputError(f"geom {name} is given {len(each)} clouds: give {nworld}, one per world, or one for all")
        checked = set()
        for world, cloud in enumerate(each):
            if id(cloud) not in checked:
                _check_cloud(cloud, each[0], f"{name} in world {world}" if len(each) > 1 else name)
            checked.add(id(cloud))
        same = all(cloud is each[0] for cloud in each)
        out[geom] = (stacked(each[:1] if same else each), each[0])
    return out


def _check_cloud(cloud: Cloud, first: Cloud, name: str) -> None:
    if not isinstance(cloud, Cloud):
        raise InputError(
            f"the cloud of geom {name} is {type(cloud).__name__}: give a stickslip.physics.scm.cloud.Cloud"
        )
    if cloud.open:
        raise InputError(f"the cloud of geom {name} is a plane's: give one that is closed")
    q = cloud.quads
    for what, array in (("point", q.point), ("normal", q.normal), ("vertices", q.vertices)):
        if array.ndim != 2 or array.shape[1] != 3 or (what != "vertices" and len(array) != len(q.point)):
            raise InputError(f"{what} of the cloud of geom {name} has shape {array.shape}, expected (n, 3)")
        check_finite(f"{what} of the cloud of geom {name}", array)
    check(cloud, name)
    length = np.linalg.norm(q.normal, axis=1)
    if np.abs(length - 1.0).max() > 1e-3:
        off = length[np.argmax(np.abs(length - 1.0))]
        raise InputError(f"normals of the cloud of geom {name} must have length 1, one has {off:.3g}: divide by it")
    if not 1e-3 * SMALLEST < cloud.spacing < LARGEST:
        raise InputError(f"spacing of the cloud of geom {name} is {cloud.spacing}: it must be above 0, in m")
    if not len(q.vertices):
        raise InputError(
            f"the cloud of geom {name} has no vertices to touch with: give its points where it has no faces"
        )
    sizes, wanted = ((len(x.quads.point), len(x.quads.vertices)) for x in (cloud, first))
    if sizes != wanted:
        raise InputError(
            f"the cloud of geom {name} has {sizes[0]} points and {sizes[1]} vertices, that of world 0 {wanted[0]} and "
            f"{wanted[1]}: all worlds need as many; `gathered` makes clouds of an exact number"
        )


def stacked(clouds: Sequence[Cloud]) -> Surface:
    """The surface of a geom that has one of the clouds in each world."""
    return Surface(
        np.stack([c.quads.point for c in clouds]),
        np.stack([c.quads.normal for c in clouds]),
        np.array([c.spacing for c in clouds]),
        np.stack([c.quads.vertices for c in clouds]),
    )
