"""Contacts as the physics has them: forces coloured by stick, slip and separation, friction cones, depth, pressure."""

from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.physics.base import Contacts
from stickslip.readout import Patches
from stickslip.viewer import shapes
from stickslip.viewer.bodies import rotated
from stickslip.viewer.layout import Layout

COLOURS = {"stick": (38, 150, 92), "slip": (222, 104, 28), "separating": (150, 156, 164)}
"""Of the arrow, or dot, of a contact."""
ON_CONE = 0.98
"""Share of the friction limit above which a contact counts as slipping."""
LEAST = 1e-12
"""Of the normal force of a point, in the mean normal of its patch [N]."""
MOST = 4000
"""Contacts that are drawn, those with the largest forces."""
_NAMES = tuple(COLOURS)


class Friction:
    """Sliding friction of a contact as MuJoCo combines it: of the pair, of the geom with priority, or the larger."""

    def __init__(self, mjm: mujoco.MjModel) -> None:
        self._friction = mjm.geom_friction[:, 0].copy()
        self._priority = mjm.geom_priority.copy()
        pairs = zip(mjm.pair_geom1, mjm.pair_geom2, mjm.pair_friction[:, 0], strict=True)
        self._pairs = {frozenset((int(a), int(b))): float(mu) for a, b, mu in pairs}

    def of(self, geom: NDArray[np.integer]) -> NDArray[np.floating]:
        """Coefficients of contacts of geoms (n, 2)."""
        first, second = geom[:, 0], geom[:, 1]
        mu = np.maximum(self._friction[first], self._friction[second])
        mu = np.where(self._priority[first] > self._priority[second], self._friction[first], mu)
        mu = np.where(self._priority[first] < self._priority[second], self._friction[second], mu)
        if self._pairs:
            mu = np.array([self._pairs.get(frozenset(map(int, g)), m) for g, m in zip(geom, mu, strict=True)])
        return mu


def kinds(contacts: Contacts, friction: NDArray[np.floating]) -> NDArray[np.integer]:
    """What each contact does, as a number in `COLOURS`: stick; slip, with a force on the friction cone; separate."""
    normal = contacts.force[:, 0]
    tangential = np.linalg.norm(contacts.force[:, 1:3], axis=1)
    slips = tangential >= ON_CONE * friction * normal
    least = 1e-6 * max(float(normal.max(initial=0.0)), 1e-9)
    return np.where(normal <= least, 2, np.where(slips, 1, 0))


def whole(
    contacts: Contacts, kind: NDArray[np.integer], patches: Patches | None
) -> tuple[Contacts, NDArray[np.integer]]:
    """Contacts and what they do, with one contact at the centre of pressure in place of the points of a patch.

    It sticks or slips as the points do that have most of the normal force.
    """
    if patches is None or not len(patches):
        return contacts, kind
    rows = [tuple(row) for row in np.column_stack([contacts.world, contacts.geom]).tolist()]
    places = {tuple(row): i for i, row in enumerate(np.column_stack([patches.world, patches.geom]).tolist())}
    patch = np.array([places.get(row, -1) for row in rows], dtype=int)
    share = np.zeros((len(patches), len(COLOURS)))
    np.add.at(share, (patch[patch >= 0], kind[patch >= 0]), np.maximum(contacts.force[patch >= 0, 0], 0.0))
    does = np.where(share.any(axis=1), share.argmax(axis=1), _NAMES.index("separating"))
    normal = np.zeros((len(patches), 3))
    np.add.at(normal, patches.patch, patches.normal * (patches.pressure * patches.weight + LEAST)[:, None])
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    across = [rotated(_from_z(normal), np.array(axis)) for axis in ([1.0, 0.0, 0.0], [0.0, 1.0, 0.0])]
    frame = np.stack([normal, *across], axis=1)
    force = np.zeros((len(patches), 6))
    force[:, :3] = np.einsum("nij,nj->ni", frame, patches.force)
    single = Contacts(patches.world, patches.geom, -patches.depth, patches.centre, frame, force)
    shown, alone = np.isin(np.arange(len(patches)), patch), patch < 0
    joined = (np.concatenate([getattr(contacts, name)[alone], getattr(single, name)[shown]]) for name in _FIELDS)
    return Contacts(*joined), np.concatenate([kind[alone], does[shown]])


def forces(contacts: Contacts) -> NDArray[np.floating]:
    """Forces on the second geom, in the world frame, N, (n, 3)."""
    return np.einsum("ni,nij->nj", contacts.force[:, :3], contacts.frame)


class Marks:
    """What is drawn of contacts, for every lane and world of a layout.

    Attributes:
        arrows, cones, depth, pressure: whether each is drawn
        scale: length of the arrow of the weight of a world, over its size
    """

    def __init__(self, scene: Any, mjm: mujoco.MjModel, layout: Layout) -> None:
        self.arrows, self.cones, self.depth, self.pressure = True, False, False, True
        self.scale = 0.6
        self._friction = Friction(mjm)
        self._layout = layout
        self._size = float(np.linalg.norm(layout.box.size))
        self._weight = max(float(mjm.body_subtreemass[0]) * float(np.linalg.norm(mjm.opt.gravity)), 1e-6)
        radius = 0.006 * self._size
        none = np.zeros((0, 3), dtype=np.float32)
        self._arrows = scene.add_arrows(
            "/scene/contacts/forces",
            np.zeros((0, 2, 3), dtype=np.float32),
            np.zeros((0, 3), dtype=np.uint8),
            shaft_radius=0.7 * radius,
            head_radius=1.7 * radius,
            head_length=4.0 * radius,
        )
        self._dots = self._points(scene, "dots", 1.2 * radius)
        self._depths = self._points(scene, "depth", 2.4 * radius)
        self._pressures = self._points(scene, "pressure", 1.0 * radius)
        cone = shapes.cylinder(1.0, 0.0, around=12, closed=False)
        self._cones = scene.add_batched_meshes_simple(
            "/scene/contacts/cones",
            0.5 * (cone.vertices + [0.0, 0.0, 1.0]) * [2.0, 2.0, 1.0],  # apex at the origin, height and radius 1
            cone.faces,
            batched_wxyzs=np.zeros((0, 4), dtype=np.float32),
            batched_positions=none,
            batched_scales=none,
            batched_colors=np.zeros((0, 3), dtype=np.uint8),
            wireframe=True,  # what is half transparent would be hidden inside bodies made of glass
            lod="off",
            cast_shadow=False,
            receive_shadow=False,
        )
        self._handles = [self._arrows, self._dots, self._depths, self._pressures, self._cones]

    @staticmethod
    def _points(scene: Any, name: str, size: float) -> Any:
        none = np.zeros((0, 3), dtype=np.float32)
        return scene.add_point_cloud(
            f"/scene/contacts/{name}",
            none,
            none.astype(np.uint8),
            point_size=size,
            point_shape="circle",
            precision="float32",
        )

    def remove(self) -> None:
        """Take everything off the page."""
        for handle in self._handles:
            handle.remove()

    def update(self, found: list[tuple[Contacts | None, Patches | None]]) -> list[dict[str, int]]:
        """Draw the contacts of every lane; returns how many of each lane's drawn ones stick, slip and separate."""
        rows, kind = [], []
        for contacts, patches in found:
            drawn = _drawn(contacts or _no_contacts(), self._layout)
            drawn, does = whole(drawn, kinds(drawn, self._friction.of(drawn.geom)), patches)
            rows.append(drawn)
            kind.append(does)
        lane = np.repeat(np.arange(len(rows)), [len(each) for each in rows])
        joined = Contacts(*(np.concatenate([getattr(each, name) for each in rows]) for name in _FIELDS))
        kind = np.concatenate(kind)
        if len(joined) > MOST:
            keep = np.argsort(-joined.force[:, 0])[:MOST]
            joined = Contacts(*(getattr(joined, name)[keep] for name in _FIELDS))
            kind, lane = kind[keep], lane[keep]
        place = {world: i for i, world in enumerate(self._layout.worlds)}
        pos = joined.pos + self._layout.offsets[lane, [place[int(world)] for world in joined.world]]
        mu = self._friction.of(joined.geom)
        counts = [
            {name: int(np.sum((kind == i) & (lane == each))) for i, name in enumerate(_NAMES)}
            for each in range(len(rows))
        ]
        colours = np.array([COLOURS[name] for name in _NAMES], dtype=np.uint8)[kind]
        self._draw_arrows(joined, pos, kind, colours)
        self._draw_cones(joined, pos, mu, colours, kind)
        deep = joined.dist < 0.0 if self.depth else np.zeros(len(pos), dtype=bool)
        _set_points(self._depths, pos[deep], _depth_colours(joined.dist[deep], self._size))
        self._draw_pressure([patches for _, patches in found])
        return counts

    def _draw_arrows(self, contacts: Contacts, pos: Any, kind: Any, colours: Any) -> None:
        force = forces(contacts)
        size = np.linalg.norm(force, axis=1)
        # lengths grow with the root of the force, so that small and large ones are both seen
        length = self.scale * self._size * np.minimum(np.sqrt(size / self._weight), 1.2)
        ends = pos + force * (length / np.maximum(size, 1e-12))[:, None]
        on = (kind < 2) if self.arrows else np.zeros(len(pos), dtype=bool)
        self._arrows.points = np.stack([pos, ends], axis=1)[on].astype(np.float32)
        self._arrows.colors = colours[on]
        _set_points(self._dots, pos[~on & self.arrows], colours[~on & self.arrows])

    def _draw_cones(self, contacts: Contacts, pos: Any, mu: Any, colours: Any, kind: Any) -> None:
        on = (kind < 2) if self.cones else np.zeros(len(pos), dtype=bool)
        height = 0.06 * self._size
        scales = np.stack([mu[on] * height, mu[on] * height, np.full(int(on.sum()), height)], axis=1)
        self._cones.batched_positions = pos[on].astype(np.float32)
        self._cones.batched_wxyzs = _from_z(contacts.frame[on, 0]).astype(np.float32)
        self._cones.batched_scales = scales.astype(np.float32)
        self._cones.batched_colors = colours[on]

    def _draw_pressure(self, found: list[Patches | None]) -> None:
        points: list[Any] = [np.zeros((0, 3))]
        pressures: list[Any] = [np.zeros(0)]
        for lane, patches in enumerate(found):
            if patches is None or not self.pressure or not len(patches):
                continue
            for i, world in enumerate(self._layout.worlds):
                of_world = (patches.world == world)[patches.patch] & (patches.pressure > 0.0)
                points.append(patches.pos[of_world] + self._layout.offsets[lane, i])
                pressures.append(patches.pressure[of_world])
        pressure = np.concatenate(pressures)
        share = np.sqrt(pressure / max(float(pressure.max(initial=0.0)), 1e-9))
        _set_points(self._pressures, np.concatenate(points), _ramp(share))


_FIELDS = ("world", "geom", "dist", "pos", "frame", "force")


def _no_contacts() -> Contacts:
    none, three = np.zeros(0), np.zeros((0, 3))
    return Contacts(none.astype(int), np.zeros((0, 2), dtype=int), none, three, np.zeros((0, 3, 3)), np.zeros((0, 6)))


def _drawn(contacts: Contacts, layout: Layout) -> Contacts:
    """The contacts of worlds that are drawn in full."""
    solid = [world for i, world in enumerate(layout.worlds) if layout.opacities[i] >= 1.0]
    keep = np.isin(contacts.world, solid) & (contacts.geom >= 0).all(axis=1)
    return Contacts(*(getattr(contacts, name)[keep] for name in _FIELDS))


def _set_points(handle: Any, points: NDArray[Any], colours: NDArray[Any]) -> None:
    handle.points = points.astype(np.float32)
    handle.colors = colours.astype(np.uint8)


def _depth_colours(dist: NDArray[np.floating], size: float) -> NDArray[np.floating]:
    """From yellow at no depth to red at a thousandth of the world's size and more."""
    return _ramp(np.clip(-dist / (1e-3 * size), 0.0, 1.0))


def _ramp(share: NDArray[np.floating]) -> NDArray[np.floating]:
    """Yellow over orange to dark red, for numbers from 0 to 1."""
    stops = np.array([[255, 240, 130], [245, 140, 40], [200, 30, 40], [90, 0, 30]], dtype=float)
    return np.stack([np.interp(share, np.linspace(0, 1, len(stops)), stops[:, i]) for i in range(3)], axis=-1)


def _from_z(axis: NDArray[np.floating]) -> NDArray[np.floating]:
    """Quaternions that turn z to these unit vectors."""
    quat = np.column_stack([1.0 + axis[:, 2], -axis[:, 1], axis[:, 0], np.zeros(len(axis))])
    quat[axis[:, 2] < -0.999999] = (0.0, 1.0, 0.0, 0.0)
    return quat / np.linalg.norm(quat, axis=1, keepdims=True)
