"""The page: bodies, contacts, labels and pulls of a frame, drawn by one thread."""

import dataclasses
from typing import Any

import mujoco
import numpy as np

from stickslip.viewer import layout as layouts
from stickslip.viewer import pull as pulling
from stickslip.viewer.bodies import Bodies, Poses, moves, poses, rotated
from stickslip.viewer.contacts import Marks
from stickslip.viewer.lane import Shot
from stickslip.viewer.layout import Layout, Mode
from stickslip.viewer.pull import Pull, Pulls
from stickslip.viewer.session import Frame

_CLIENTS = ((214, 39, 140), (20, 130, 200), (240, 170, 0), (120, 80, 200))
"""Colours of the lines along which clients pull."""
NOBODY = "none"


@dataclasses.dataclass
class Choices:
    """What clients have chosen to see.

    Attributes:
        mode: one world, a grid, or ghosts
        world: the world that is shown, or solid among ghosts
        follow: name of a body that stays in place on the page
        everything: show geoms of all groups
        arrows, cones, depth, pressure: of contacts
        scale: of the arrows
        clear: show bodies as if made of glass, so that forces inside them are seen
        shadows: cast shadows
    """

    mode: Mode = "one"
    world: int = 0
    follow: str = NOBODY
    everything: bool = False
    arrows: bool = True
    cones: bool = False
    depth: bool = False
    pressure: bool = True
    scale: float = 0.6
    clear: bool = False
    shadows: bool = True


class Page:
    """Draws frames. All of it runs in the drawing thread, but for what clients drag and their cameras."""

    def __init__(self, server: Any, choices: Choices, pulls: Pulls | None) -> None:
        self._server, self._scene = server, server.scene
        self._pulls = pulls
        self.choices = choices
        self.counts: list[dict[str, int]] = []
        """Of each lane: how many of the contacts that are drawn stick, slip and separate."""
        self.differences: list[tuple[float, float, str]] = []
        """Of each lane but the first: largest difference of qpos, of a body's position [m], and which body."""
        self._root = self._scene.add_frame("/scene", show_axes=False)
        self._key: Any = None
        self._bodies: Bodies | None = None
        self._marks: Marks | None = None
        self._labels: list[Any] = []
        self._lines: Any = None
        self._mjd: mujoco.MjData | None = None
        self._mjm: mujoco.MjModel | None = None
        self._origin: np.ndarray | None = None
        self._followed = NOBODY
        self._where: list[Poses] = []
        self._look: layouts.Look | None = None
        self._welcomed: set[int] = set()
        self.layout: Layout | None = None
        self._scene.configure_default_lights(cast_shadow=choices.shadows)

    def draw(self, mjm: mujoco.MjModel, frame: Frame) -> None:
        """Show a frame."""
        choices, shots = self.choices, frame.shots
        if self._mjm is not mjm or self._mjd is None:
            self._mjm, self._mjd, self._key = mjm, mujoco.MjData(mjm), None
        nworld = len(shots[0].qpos)
        world = min(choices.world, nworld - 1)
        shown = (world,) if choices.mode == "one" else tuple(range(nworld))
        where = [self._poses(mjm, shot, shown) for shot in shots]
        key = (
            id(mjm),
            tuple(shot.label for shot in shots),
            nworld,
            choices.mode,
            world,
            choices.everything,
            choices.clear,
        )
        with self._server.atomic():
            if key != self._key:
                # the labels, the number of worlds and the mode say how much there is to see
                self._build(mjm, shots, where, nworld, world, keep=self._key is not None and self._key[1:4] == key[1:4])
                self._key = key
            elif self._bodies is not None:
                self._bodies.update(where)
            self._where = where
            self._draw_contacts(shots)
            self._follow(mjm, where)
            self._draw_pulls()
        self._welcome()
        self.differences = self._compare(mjm, shots, where, world, shown)

    def _poses(self, mjm: mujoco.MjModel, shot: Shot, shown: tuple[int, ...]) -> Poses:
        assert self._mjd is not None
        index = list(shown)
        qpos = np.nan_to_num(shot.qpos[index])
        mocap = [None if part is None else part[index] for part in (shot.mocap_pos, shot.mocap_quat)]
        return poses(mjm, self._mjd, qpos, mocap[0], mocap[1])

    def _build(
        self, mjm: mujoco.MjModel, shots: tuple[Shot, ...], where: list[Poses], nworld: int, world: int, keep: bool
    ) -> None:
        """Rebuild everything: lanes, worlds or model have changed. What is kept stays in its place."""
        self._remove()
        assert self._mjd is not None
        occupied = self.layout.box if keep and self.layout is not None else self._occupied(mjm, shots, world)
        along = layouts.to_the_right(layouts.view_direction(mjm, self._mjd))
        self.layout = layouts.place(occupied, len(shots), nworld, self.choices.mode, world, along)
        self._bodies = Bodies(self._scene, mjm, self.layout, where, self.choices.everything, self.choices.clear)
        self._marks = Marks(self._scene, mjm, self.layout)
        if len(shots) > 1:
            for lane, shot in enumerate(shots):
                self._labels.append(self._label(lane, shot.label, occupied, np.cross([0.0, 0.0, 1.0], along)))
        self._look = look = layouts.look(mjm, self._mjd, self.layout)
        camera = self._server.initial_camera
        camera.position, camera.look_at, camera.up, camera.fov = look.position, look.target, (0.0, 0.0, 1.0), look.fov
        camera.near, camera.far = 0.01 * float(mjm.stat.extent), 400.0 * float(mjm.stat.extent)
        if not keep:
            self.frame_cameras()
        if self._pulls is not None:
            for handle, body in self._bodies.movable:
                self._draggable(handle, body)

    def _occupied(self, mjm: mujoco.MjModel, shots: tuple[Shot, ...], world: int) -> layouts.Box:
        """What a world takes up now, in any of the lanes; cameras are where the first lane has them."""
        assert self._mjd is not None
        boxes = []
        for shot in reversed(shots):
            self._poses(mjm, shot, (world,))
            boxes.append(layouts.box(mjm, self._mjd))
        mujoco.mj_comPos(mjm, self._mjd)
        mujoco.mj_camlight(mjm, self._mjd)
        return layouts.union(boxes)

    def frame_cameras(self) -> None:
        """Bring every client's camera to where all worlds are in view."""
        for client in self._server.get_clients().values():
            self.frame_camera(client)

    def frame_camera(self, client: Any) -> None:
        """Bring a client's camera to where all worlds are in view in its window."""
        if self._mjm is None or self._mjd is None or self.layout is None:
            return
        window = (client.camera.image_width, max(1, client.camera.image_height))
        look = layouts.look(self._mjm, self._mjd, self.layout, window)
        with client.atomic():
            client.camera.up_direction = (0.0, 0.0, 1.0)
            client.camera.position, client.camera.look_at = look.position, look.target

    def _welcome(self) -> None:
        """Bring cameras that are where every page begins to where all worlds are in view in their window.

        A page takes up that place some time after it has connected.
        """
        if self._look is None:
            return
        for client in self._server.get_clients().values():
            if client.client_id in self._welcomed:
                continue
            if np.allclose(client.camera.position, self._look.position, rtol=1e-5):
                self.frame_camera(client)
                self._welcomed.add(client.client_id)

    def _label(self, lane: int, text: str, occupied: layouts.Box, away: np.ndarray) -> Any:
        assert self.layout is not None
        offsets = self.layout.offsets[lane]
        middle = offsets.mean(axis=0)
        # of a grid, above the row at the back
        place = occupied.centre + middle + away * float(((offsets - middle) @ away).max())
        top = np.array([place[0], place[1], occupied.high[2] + layouts.LABEL * occupied.size.max()])
        return self._scene.add_label(f"/scene/label-{lane}", text, position=top, anchor="bottom-center")

    def _remove(self) -> None:
        for part in (self._bodies, self._marks, *self._labels):
            if part is not None:
                part.remove()
        self._labels.clear()
        self._origin = None

    def _draw_contacts(self, shots: tuple[Shot, ...]) -> None:
        marks, choices = self._marks, self.choices
        if marks is None:
            return
        marks.arrows, marks.cones = choices.arrows, choices.cones
        marks.depth, marks.pressure, marks.scale = choices.depth, choices.pressure, choices.scale
        self.counts = marks.update([(shot.contacts, shot.patches) for shot in shots])

    def _follow(self, mjm: mujoco.MjModel, where: list[Poses]) -> None:
        """Move everything the other way, so that a body stays in place and cameras are left alone."""
        name = self.choices.follow
        if name != self._followed:
            self._followed, self._origin = name, None
        if name == NOBODY:
            if np.any(self._root.position != 0.0):
                self._root.position = (0.0, 0.0, 0.0)
            return
        index = 0 if self.choices.mode == "one" else min(self.choices.world, len(where[0].xpos) - 1)
        body = mujoco.mj_name2id(mjm, mujoco.mjtObj.mjOBJ_BODY, name)
        if body < 0:
            return
        at = where[0].xpos[index, body]
        if self._origin is None:
            self._origin = at + np.asarray(self._root.position)
        self._root.position = self._origin - at

    def _compare(
        self, mjm: mujoco.MjModel, shots: tuple[Shot, ...], where: list[Poses], world: int, shown: tuple[int, ...]
    ) -> list[tuple[float, float, str]]:
        index = shown.index(world)
        found = []
        for shot, other in zip(shots[1:], where[1:], strict=True):
            if shot.qpos.shape != shots[0].qpos.shape:
                continue
            by = float(np.abs(shot.qpos[world] - shots[0].qpos[world]).max(initial=0.0))
            apart = np.linalg.norm(other.xpos[index] - where[0].xpos[index], axis=1)
            body = int(apart.argmax())
            found.append((by, float(apart[body]), mjm.body(body).name or f"body {body}"))
        return found

    # --- pulling ---

    def _draggable(self, handle: Any, body: Any) -> None:
        bodies = self._bodies
        assert bodies is not None

        async def drag(event: Any) -> None:
            self._drag(event, bodies, body)

        handle.on_drag("left", modifier="cmd/ctrl")(drag)

    def _drag(self, event: Any, bodies: Bodies, body: Any) -> None:
        pulls, layout = self._pulls, bodies.layout
        if pulls is None:
            return
        if event.phase == "end" or bodies is not self._bodies:
            pulls.release(event.client_id)
            return
        lane, world, number = bodies.instance(body, event.instance_index or 0)
        row = layout.worlds.index(world)
        offset = layout.offsets[lane, row] + np.asarray(self._root.position)
        target = np.asarray(event.end_position) - offset
        known = pulls.all().get(event.client_id)
        if event.phase == "start" or known is None:
            where = self._where[lane]
            grabbed = np.asarray(event.start_position) - offset
            point = pulling.take(grabbed, where.xpos[row, number], where.xquat[row, number])
            known = Pull(lane, world, number, point, target)
        pulls.set(event.client_id, dataclasses.replace(known, target=target))

    def _draw_pulls(self) -> None:
        """A line from each point that is pulled at to the mouse of its client."""
        active = self._pulls.all() if self._pulls is not None else {}
        if not active or self.layout is None:
            if self._lines is not None:
                self._lines.remove()
                self._lines = None
            return
        ends, colours = [], []
        for client, pull in active.items():
            if pull.world not in self.layout.worlds or pull.lane >= len(self._where):
                continue
            row = self.layout.worlds.index(pull.world)
            where, offset = self._where[pull.lane], self.layout.offsets[pull.lane, row]
            from_ = where.xpos[row, pull.body] + _turned(where.xquat[row, pull.body], pull.point)
            ends.append([from_ + offset, pull.target + offset])
            colours.append([_CLIENTS[client % len(_CLIENTS)]] * 2)
        points, shades = np.array(ends, dtype=np.float32).reshape(-1, 2, 3), np.array(colours, dtype=np.uint8)
        if self._lines is not None:
            self._lines.points, self._lines.colors = points, shades.reshape(-1, 2, 3)
        elif ends:
            self._lines = self._scene.add_line_segments(
                "/scene/pulls", points, shades, thickness=3.0, thickness_units="screen"
            )


def _turned(quat: np.ndarray, vector: np.ndarray) -> np.ndarray:
    return rotated(quat[None], vector[None])[0]


def body_names(mjm: mujoco.MjModel) -> list[str]:
    """The bodies with a name that can move."""
    return [mjm.body(i).name for i in range(mjm.nbody) if mjm.body(i).name and moves(mjm, i)]
