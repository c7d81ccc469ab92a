"""The bodies of all worlds as batches of instances, one batch a shape; fixed bodies are sent once."""

import dataclasses
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.viewer import shapes
from stickslip.viewer.layout import Layout

VISUAL_GROUPS = 3
"""MuJoCo's viewers show geoms of groups below this."""
GLASS = 0.35
"""Opacity of bodies that are shown as if made of glass."""
TILES = 60
"""Tiles of a floor, along each side."""


@dataclasses.dataclass(frozen=True)
class Poses:
    """Of all bodies in some worlds: positions, m, (n, nbody, 3), and quaternions (n, nbody, 4)."""

    xpos: NDArray[np.floating]
    xquat: NDArray[np.floating]


def poses(
    mjm: mujoco.MjModel,
    mjd: mujoco.MjData,
    qpos: NDArray[np.floating],
    mocap_pos: NDArray[np.floating] | None,
    mocap_quat: NDArray[np.floating] | None,
) -> Poses:
    """Poses of the bodies for positions (n, nq), worked out on the host with the memory of `mjd`."""
    xpos = np.empty((len(qpos), mjm.nbody, 3))
    xquat = np.empty((len(qpos), mjm.nbody, 4))
    for i in range(len(qpos)):
        mjd.qpos[:] = qpos[i]
        if mocap_pos is not None and mocap_quat is not None and mjm.nmocap:
            mjd.mocap_pos[:], mjd.mocap_quat[:] = mocap_pos[i], mocap_quat[i]
        mujoco.mj_kinematics(mjm, mjd)
        xpos[i], xquat[i] = mjd.xpos, mjd.xquat
    return Poses(xpos, xquat)


@dataclasses.dataclass(frozen=True)
class _Group:
    """Parts that share a mesh, as arrays over the parts."""

    shape: shapes.Key
    moving: bool
    clear: bool  # some of it is transparent
    body: NDArray[np.integer]  # (n,)
    pos: NDArray[np.floating]  # (n, 3), in the frame of the body
    quat: NDArray[np.floating]  # (n, 4)
    scale: NDArray[np.floating]  # (n, 3)
    rgba: NDArray[np.floating]  # (n, 4)

    def place(self, where: Poses) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Positions (worlds, n, 3) and quaternions (worlds, n, 4)."""
        quat = where.xquat[:, self.body]
        return where.xpos[:, self.body] + rotated(quat, self.pos), product(quat, self.quat)


@dataclasses.dataclass
class _Batch:
    group: _Group
    handle: Any


class Bodies:
    """What is drawn of a model: batches of instances, for every lane and world of a layout.

    Args:
        scene: viser's scene
        mjm: the model
        layout: where worlds stand
        where: poses of every lane, for the worlds of the layout
        everything: show geoms of all groups, not only the visual ones
        clear: show bodies that move as if made of glass
    """

    def __init__(
        self,
        scene: Any,
        mjm: mujoco.MjModel,
        layout: Layout,
        where: list[Poses],
        everything: bool = False,
        clear: bool = False,
    ) -> None:
        self.layout = layout
        self._handles: list[Any] = []
        self._batches: list[_Batch] = []
        self.floors = _floors(mjm)
        _add_floors(scene, self.floors, layout, self._handles)
        for i, group in enumerate(_groups(mjm, set(self.floors), everything)):
            name = f"/scene/{'moving' if group.moving else 'fixed'}/{group.shape[0]}-{group.shape[1]}-{i}"
            positions, quats = self._instances(group, where)
            opacity = group.rgba[:, 3] * (GLASS if clear and group.moving else 1.0)
            opacities = (layout.opacities[None, :, None] * opacity).repeat(layout.lanes, axis=0).ravel()
            triangles = shapes.mesh(mjm, group.shape, shapes.segments(len(positions)))
            rows = len(positions) // len(group.body)
            handle = scene.add_batched_meshes_simple(
                name,
                triangles.vertices,
                triangles.faces,
                batched_wxyzs=quats,
                batched_positions=positions,
                batched_scales=np.tile(group.scale, (rows, 1)),
                batched_colors=np.tile(np.round(255 * group.rgba[:, :3]).astype(np.uint8), (rows, 1)),
                batched_opacities=opacities if opacities.min() < 1.0 else None,
                flat_shading=group.shape[0] in ("mesh", "hfield", "box", "plane"),
                side="double" if group.shape[0] in ("plane", "hfield") else "front",
                lod="off",
                cast_shadow=not group.clear and layout.mode != "ghosts",
                receive_shadow=True,
            )
            self._handles.append(handle)
            self._batches.append(_Batch(group, handle))

    def update(self, where: list[Poses]) -> None:
        """Move what moves."""
        for batch in self._batches:
            if batch.group.moving:
                positions, quats = self._instances(batch.group, where)
                batch.handle.batched_positions = positions
                batch.handle.batched_wxyzs = quats

    @property
    def movable(self) -> list[tuple[Any, NDArray[np.integer]]]:
        """The batches that move, each with the bodies of its parts."""
        return [(batch.handle, batch.group.body) for batch in self._batches if batch.group.moving]

    def instance(self, body: NDArray[np.integer], index: int) -> tuple[int, int, int]:
        """Lane, world and body of an instance in a batch."""
        row, part = divmod(index, len(body))
        lane, world = divmod(row, len(self.layout.worlds))
        return lane, self.layout.worlds[world], int(body[part])

    def remove(self) -> None:
        """Take everything off the page."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._batches.clear()

    def _instances(self, group: _Group, where: list[Poses]) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        placed = [group.place(lane) for lane in where]
        positions = np.stack([pos for pos, _ in placed]) + self.layout.offsets[:, :, None]
        quats = np.stack([quat for _, quat in placed])
        return positions.reshape(-1, 3).astype(np.float32), quats.reshape(-1, 4).astype(np.float32)


def moves(mjm: mujoco.MjModel, body: int) -> bool:
    """Whether a body can move: it has a joint above it, or is a mocap body."""
    return bool(mjm.body_weldid[body] != 0 or mjm.body_mocapid[mjm.body_rootid[body]] >= 0)


def _groups(mjm: mujoco.MjModel, left_out: set[int], everything: bool) -> list[_Group]:
    shown = [
        geom
        for geom in range(mjm.ngeom)
        if (everything or mjm.geom_group[geom] < VISUAL_GROUPS) and geom not in left_out
    ]
    gathered: dict[tuple[shapes.Key, bool, bool], list[tuple[Any, ...]]] = {}
    far = 3.0 * float(mjm.stat.extent)
    for geom in shown:
        rgba = shapes.colour(mjm, geom)
        if rgba[3] <= 0.0:
            continue
        body = int(mjm.geom_bodyid[geom])
        for part in shapes.parts(mjm, geom, far):
            quat = mjm.geom_quat[geom]
            pos = mjm.geom_pos[geom] + rotated(quat[None], np.array([part.pos]))[0]
            key = (part.shape, moves(mjm, body), rgba[3] < 1.0)
            turned = product(quat[None], np.array([part.quat]))[0]
            gathered.setdefault(key, []).append((body, pos, turned, part.scale, rgba))
    groups = []
    for (shape, moving, clear), rows in gathered.items():
        groups.append(_Group(shape, moving, clear, *(np.array(column) for column in zip(*rows, strict=True))))
    return groups


def _floors(mjm: mujoco.MjModel) -> dict[int, float]:
    """Level planes without a size that belong to the world, and their heights; they are drawn once, as tiles."""
    found = {}
    for geom in range(mjm.ngeom):
        if mjm.geom_type[geom] != mujoco.mjtGeom.mjGEOM_PLANE or mjm.geom_bodyid[geom] != 0:
            continue
        up = rotated(mjm.geom_quat[geom][None], np.array([[0.0, 0.0, 1.0]]))[0]
        if up[2] > 0.9999 and mjm.geom_size[geom, 0] <= 0.0:
            found[geom] = float(mjm.geom_pos[geom, 2])
    return found


def _add_floors(scene: Any, floors: dict[int, float], layout: Layout, handles: list[Any]) -> None:
    """Tiles in two greys that fade into the background: a grid drawn by a shader is slow without a graphics card."""
    reach = float(np.linalg.norm(np.ptp(layout.offsets.reshape(-1, 3), axis=0) + layout.box.size))
    cell = _round_length(reach / 5.0)
    number = np.stack(np.meshgrid(np.arange(TILES), np.arange(TILES)), axis=-1).reshape(-1, 2)
    centre = (number - 0.5 * (TILES - 1)) * cell
    far = np.linalg.norm(centre, axis=1) / (0.5 * TILES * cell)
    number, centre, far = number[far < 1.0], centre[far < 1.0], far[far < 1.0]
    grey = np.where(number.sum(axis=1) % 2 == 0, 208.0, 190.0)
    grey += (255.0 - grey) * np.clip(1.5 * far - 0.5, 0.0, 1.0)
    tile = shapes.plane()
    for height in sorted(set(floors.values())):
        positions = np.column_stack([centre, np.full(len(centre), height - 1e-4 * reach)])
        handles.append(
            scene.add_batched_meshes_simple(
                f"/scene/floor-{len(handles)}",
                0.5 * cell * tile.vertices,
                tile.faces,
                batched_wxyzs=np.tile([1.0, 0.0, 0.0, 0.0], (len(positions), 1)),
                batched_positions=positions,
                batched_colors=np.tile(grey[:, None], (1, 3)).astype(np.uint8),
                side="double",
                lod="off",
                cast_shadow=False,
                receive_shadow=True,
            )
        )


def _round_length(length: float) -> float:
    """The largest of 1, 2 and 5 times a power of ten that is not above a length."""
    power = 10.0 ** np.floor(np.log10(max(length, 1e-3)))
    return float(power * max(factor for factor in (1.0, 2.0, 5.0) if factor * power <= max(length, 1e-3) * 1.000001))


def rotated(quat: NDArray[np.floating], vector: NDArray[np.floating]) -> NDArray[np.floating]:
    """Vectors (..., 3) turned by quaternions (..., 4), real part first."""
    real, imaginary = quat[..., :1], quat[..., 1:]
    vector = np.broadcast_to(vector, (*quat.shape[:-1], 3))
    twice = 2.0 * np.cross(imaginary, vector)
    return vector + real * twice + np.cross(imaginary, twice)


def product(first: NDArray[np.floating], second: NDArray[np.floating]) -> NDArray[np.floating]:
    """Products of quaternions (..., 4), real part first."""
    second = np.broadcast_to(second, first.shape)
    a, u = first[..., :1], first[..., 1:]
    b, v = second[..., :1], second[..., 1:]
    return np.concatenate([a * b - np.sum(u * v, axis=-1, keepdims=True), a * v + b * u + np.cross(u, v)], axis=-1)
