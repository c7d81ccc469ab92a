"""The panel beside the page: clock, worlds, contacts, physics, controls, parameters, plots, recordings."""

import dataclasses
import time
from typing import Any

import mujoco

from stickslip import films, parameters, scenes, spec
from stickslip.errors import StickslipError
from stickslip.physics.registry import PHYSICS
from stickslip.viewer import film, settings
from stickslip.viewer.lane import Shot
from stickslip.viewer.layout import MODES
from stickslip.viewer.page import NOBODY, Page, body_names
from stickslip.viewer.plots import WINDOW, Plots
from stickslip.viewer.refusals import Refusals
from stickslip.viewer.replay import Replay
from stickslip.viewer.session import Frame, Session

RATE = 5.0
"""Updates of text and plots a second."""


class Panel:
    """Controls and read-outs.

    Args:
        server: viser's server
        source: what is shown
        page: where it is shown
        scene: name of the built-in scene, with parameters, or "" for another model
        own: whether the session steps by itself, not beside somebody's loop, to whom physics and scene belong
    """

    def __init__(self, server: Any, source: Session | Replay, page: Page, scene: str, own: bool) -> None:
        self._server, self._gui, self._source, self._page = server, server.gui, source, page
        self._scene, self._own = scene, own
        self._last = 0.0
        self._moving = False
        self.recorder = film.Recorder(server)
        self._lanes: tuple[str, ...] = ()
        self._mjm: mujoco.MjModel = source.mjm
        self._plots: Plots | None = None
        self._made: list[Any] = []
        self._physics: list[Any] = []
        self.refusals = Refusals()
        self._refused: dict[str, str] | None = None
        gui = self._gui
        self._banner = gui.add_markdown("", visible=False)
        self._status = gui.add_markdown("starting")
        self._add_clock()
        tabs = gui.add_tab_group()
        with tabs.add_tab("view"):
            self._add_view()
        if isinstance(source, Session) and own:
            with tabs.add_tab("physics"):
                self._physics_place = gui.add_folder("contact physics")
                self._parameters_place = gui.add_folder("parameters", expand_by_default=False)
                self._scene_place = gui.add_folder("scene", expand_by_default=False)
        if isinstance(source, Session):
            if source.mjm.nu:
                with tabs.add_tab("controls"):
                    self._controls_place = gui.add_folder("controls of all worlds")
            with tabs.add_tab("plots"):
                self._plots_place = gui.add_folder(f"last {WINDOW:g} s of simulated time")
        with tabs.add_tab("record"):
            self._add_record()

    # --- built once ---

    def _add_clock(self) -> None:
        gui, source = self._gui, self._source
        self._pause = gui.add_button("resume" if source.paused else "pause")
        row = (
            gui.add_button_group("clock", ("step", "reset")) if self._own else gui.add_button_group("clock", ("step",))
        )
        if self._own:
            speed = gui.add_slider("speed", 0.05, 4.0, 0.05, 1.0, hint="simulated time over wall time")
            speed.on_update(lambda _: setattr(source, "speed", speed.value))
        if isinstance(source, Replay):
            self._time = gui.add_slider("time [s]", 0.0, max(source.duration, 1e-3), 0.001, 0.0)
            self._time.on_update(self._seek)
        self._pause.on_click(lambda _: self._toggle())

        @row.on_click
        def _(event: Any) -> None:
            if event.target.value == "step":
                source.single()
            elif isinstance(source, Session):
                source.order(source.reset, "reset")
            else:
                source.cursor = 0.0

        if isinstance(source, Session) and self._own and source.mjm.nkey:
            self._add_keyframes(source)

    def _add_keyframes(self, source: Session) -> None:
        mjm = source.mjm
        keys = tuple(mjm.key(i).name or f"key {i}" for i in range(mjm.nkey))
        chosen = self._gui.add_dropdown("key frame", keys)
        go = self._gui.add_button("go to the key frame")
        go.on_click(lambda _: source.order(lambda: source.reset(keys.index(chosen.value)), "reset"))

    def _toggle(self) -> None:
        self._source.paused = not self._source.paused

    def _seek(self, event: Any) -> None:
        if event.client is not None and isinstance(self._source, Replay):
            self._source.cursor = float(self._time.value)

    def _add_view(self) -> None:
        gui, choices, source = self._gui, self._page.choices, self._source
        nworld = source.nworld if isinstance(source, Replay) else source.lanes[0].sim.nworld
        if nworld > 1:
            mode = gui.add_dropdown("worlds", MODES, initial_value=choices.mode)
            mode.on_update(lambda _: setattr(choices, "mode", mode.value))
            world = gui.add_slider("world", 0, nworld - 1, 1, choices.world)
            world.on_update(lambda _: setattr(choices, "world", int(world.value)))
        follow = gui.add_dropdown("follow", (NOBODY, *body_names(source.mjm)[:500]), hint="a body that stays in place")
        follow.on_update(lambda _: setattr(choices, "follow", follow.value))
        everything = gui.add_checkbox("all geoms", choices.everything, hint="geoms of every group, also for collision")
        everything.on_update(lambda _: setattr(choices, "everything", everything.value))
        clear = gui.add_checkbox("glass", choices.clear, hint="shows forces inside bodies")
        clear.on_update(lambda _: setattr(choices, "clear", clear.value))
        shadows = gui.add_checkbox("shadows", choices.shadows, hint="slow without a graphics card")
        shadows.on_update(lambda _: self._server.scene.configure_default_lights(cast_shadow=shadows.value))
        home = gui.add_button("show all")
        home.on_click(lambda _: self._page.frame_cameras())
        if not isinstance(source, Session):
            return
        with gui.add_folder("contacts"):
            for name, label, hint in (
                ("arrows", "forces", "green: sticks; orange: slips; grey dots: touches without force"),
                ("cones", "friction cones", "of contacts under load"),
                ("depth", "penetration", "red: a thousandth of the scene's size or more"),
                ("pressure", "pressure", "on contact patches, of icf and cenic"),
            ):
                box = gui.add_checkbox(label, getattr(choices, name), hint=hint)
                box.on_update(lambda event, name=name: setattr(choices, name, event.target.value))
            scale = gui.add_slider("arrows", 0.05, 2.0, 0.05, choices.scale, hint="length of the weight of a world")
            scale.on_update(lambda _: setattr(choices, "scale", scale.value))
        with gui.add_folder("pull"):
            gui.add_markdown("Ctrl (Cmd on a Mac) + drag a body to pull at it.")
            alike = gui.add_checkbox("in all physics", source.pulls.alike, hint="pull the same body of every physics")
            alike.on_update(lambda _: setattr(source.pulls, "alike", alike.value))

    def _add_record(self) -> None:
        gui, recorder = self._gui, self.recorder
        name = (self._scene or self._mjm.names[: self._mjm.names.find(b"\0")].decode() or "scene").partition(":")[0]
        button = gui.add_button("record")
        shown = gui.add_markdown("nothing recorded")
        files = gui.add_button_group("download", (".viser", "gif", "mp4"))
        picture = gui.add_button("screenshot")
        self._record = (button, shown)

        @button.on_click
        def _(_event: Any) -> None:
            recorder.end() if recorder.is_on else recorder.begin(self._page.choices.world)

        @files.on_click
        def _(event: Any) -> None:
            self._tell(event.client, lambda: self._download(event.client, name, event.target.value))

        @picture.on_click
        def _(event: Any) -> None:
            if event.client is not None:
                pixels = event.client.get_render(height=900, width=1600)
                event.client.send_file_download(f"{name}.png", films.png(pixels), save_immediately=True)

    def _download(self, client: Any, name: str, kind: str) -> None:
        if kind == ".viser":
            clip = self.recorder.end()
            if not clip:
                raise StickslipError("nothing is recorded yet: press record first")
            client.send_file_download(f"{name}.viser", clip, save_immediately=True)
            return
        self.recorder.end()
        data, note = self.recorder.film(self._mjm, kind)
        client.send_file_download(f"{name}.{kind}", data, save_immediately=True)
        if note:
            client.add_notification("film", note, auto_close_seconds=8.0)

    @staticmethod
    def _tell(client: Any, do: Any) -> None:
        """Do something for a client, and tell it of errors."""
        if client is None:
            return
        try:
            do()
        except StickslipError as error:
            client.add_notification("not possible", str(error), auto_close_seconds=10.0, color="red")

    # --- rebuilt when lanes or model change ---

    def _rebuild(self, frame: Frame) -> None:
        for part in self._made:
            part.remove()
        self._made.clear()
        source = self._source
        if not isinstance(source, Session):
            return
        if self._own:
            self.refusals.ask(self._mjm)
            self._rebuild_physics(source)
            with self._parameters_place:
                for index, lane in enumerate(source.lanes):
                    self._add_parameters(source, index, lane.physics)
            with self._scene_place:
                self._add_scene(source)
        if self._mjm.nu and frame.shots[0].ctrl is not None:
            with self._controls_place:
                self._made += settings.add_controls(self._gui, self._mjm, frame.shots[0].ctrl[0], self._control)
        with self._plots_place:
            self._plots = Plots(self._gui, self._mjm, [shot.label for shot in frame.shots])
            self._made += self._plots.handles

    def _rebuild_physics(self, source: Session) -> None:
        for part in self._physics:
            part.remove()
        self._physics.clear()
        self._refused = self.refusals.found
        with self._physics_place:
            self._add_physics(source)

    def _add_physics(self, source: Session) -> None:
        """A drop-down for the first lane, a box for each other physics, greyed out with the reason if it cannot run."""
        gui, refused = self._gui, self._refused or {}
        usable = tuple(name for name, why in refused.items() if not why)
        first = source.lanes[0].label.partition(":")[0]
        chosen = gui.add_dropdown("physics", usable if first in usable else (first, *usable), initial_value=first)
        self._physics.append(chosen)
        if self._refused is None:
            self._physics.append(gui.add_markdown("<small>asking which physics can run this model ...</small>"))

        @chosen.on_update
        def _(event: Any) -> None:
            if event.client is not None:
                source.order(lambda: source.replace(0, PHYSICS[event.target.value]()), "physics 0")

        beside = [lane.label.partition(":")[0] for lane in source.lanes[1:]]
        for name, why in refused.items():
            if name == first:
                continue
            box = gui.add_checkbox(f"beside: {name}", name in beside, disabled=bool(why), hint=why or None)
            self._physics.append(box)
            if why:
                self._physics.append(gui.add_markdown(f"<small>{name} cannot run this model: {_plain(why)}</small>"))
            box.on_update(lambda event, name=name: self._beside(source, name, event))
        if beside:
            align = gui.add_button("same state again", hint="all physics continue from the state of the first")
            align.on_click(lambda _: source.order(source.align, "align"))
            self._physics.append(align)

    def _beside(self, source: Session, name: str, event: Any) -> None:
        if event.client is None:
            return

        def change() -> None:
            at = [lane.label.partition(":")[0] for lane in source.lanes]
            if event.target.value and name not in at:
                source.add(PHYSICS[name]())
            elif not event.target.value and name in at[1:]:
                source.drop(1 + at[1:].index(name))

        source.order(change, f"beside {name}")

    def _add_parameters(self, source: Session, index: int, physics: Any) -> None:
        inner = getattr(physics, "physics", physics)
        folder = self._gui.add_folder(inner.name)
        self._made.append(folder)

        def change(name: str, value: Any) -> None:
            def do() -> None:
                lane = source.lanes[index]
                now: Any = getattr(lane.physics, "physics", lane.physics)
                source.replace(index, dataclasses.replace(now, **{name: value}))

            source.order(do, f"parameter {index} {name}")

        with folder:
            values = {name: getattr(inner, name) for name in parameters.fields(inner)}
            settings.add(self._gui, inner, values, change)

    def _add_scene(self, source: Session) -> None:
        """The parameters of a built-in scene; a change rebuilds it."""
        if not self._scene:
            self._made.append(self._gui.add_markdown("Not a built-in scene: it has no parameters."))
            return
        scene, given = scenes.resolve(self._scene)
        values = scene.values(**given)
        if not parameters.fields(values):
            self._made.append(self._gui.add_markdown(f"{scene.name} has no parameters."))
            return

        def change(name: str, value: Any) -> None:
            def do() -> None:
                known, before = scenes.resolve(self._scene)
                new = spec.written(known.name, dataclasses.replace(known.values(**before), **{name: value}))
                from stickslip import mjcf

                source.rebuild(mjcf.load(new))
                self._scene = new

            source.order(do, f"scene {name}")

        holder = self._gui.add_folder(scene.name)
        self._made.append(holder)
        with holder:
            now = {name: getattr(values, name) for name in parameters.fields(values)}
            settings.add(self._gui, values, now, change)

    def _control(self, index: int, value: float) -> None:
        source = self._source
        assert isinstance(source, Session)

        def do() -> None:
            for sim in source.sims:
                ctrl = sim.ctrl.numpy().copy()
                ctrl[:, index] = value
                sim.ctrl = ctrl

        source.order(do, f"ctrl {index}")

    # --- with every frame, in the drawing thread ---

    def update(self, mjm: mujoco.MjModel, frame: Frame) -> None:
        """Bring controls, text and plots up to date."""
        labels = tuple(shot.label for shot in frame.shots)
        if labels != self._lanes or mjm is not self._mjm:
            self._lanes, self._mjm = labels, mjm
            self._rebuild(frame)
        elif self._own and isinstance(self._source, Session) and self._refused is not self.refusals.found:
            self._rebuild_physics(self._source)
        self.recorder.add(frame)
        world = min(self._page.choices.world, len(frame.shots[0].qpos) - 1)
        now = time.monotonic()
        due = now - self._last > 1.0 / RATE
        if due:
            self._last = now
            if self._plots is not None and isinstance(self._source, Session):
                self._plots.sample(frame.shots, world)
                self._plots.draw()
            self._show(frame)

    def idle(self) -> None:
        """While there are no frames: what the session is busy with, what went wrong."""
        self._alarm(())
        self._clock()

    def _clock(self) -> None:
        label = "resume" if self._source.paused else "pause"
        if self._pause.label != label:
            self._pause.label = label

    def _show(self, frame: Frame) -> None:
        self._clock()
        self._alarm(frame.shots)
        lines = [
            f"**t = {frame.shots[0].time:.3f} s**, {'paused' if frame.paused else f'{frame.rate:.2f} x real time'}"
        ]
        if isinstance(self._source, Session):  # a table: the controls below must not move when numbers change
            lines += ["", "| | step time | contacts | stick | slip | deepest |", "| --- " + "| ---: " * 5 + "|"]
            for shot, counts in zip(frame.shots, self._page.counts, strict=False):
                lines.append(
                    f"| **{_plain(shot.label)}** | {shot.step_ms:.2f} ms | {_number(shot)} | {counts['stick']} "
                    f"| {counts['slip']} | {1e3 * shot.deepest:.3f} mm |"
                )
        for shot, (by, apart, body) in zip(frame.shots[1:], self._page.differences, strict=False):
            lines += [
                "",
                f"{_plain(shot.label)} differs from {_plain(frame.shots[0].label)}: "
                f"qpos {by:.2e}, {_plain(body)} {1e3 * apart:.2f} mm",
            ]
        self._status.content = "\n".join(lines)
        if isinstance(self._source, Replay):
            self._time.value = float(self._source.cursor)
        button, shown = self._record
        recorder = self.recorder
        button.label = "stop recording" if recorder.is_on else "record"
        shown.content = f"{recorder.seconds:.1f} s recorded" if recorder.seconds else "nothing recorded"

    def _alarm(self, shots: Any) -> None:
        """The banner: what takes long, what is wrong."""
        source = self._source
        lines = [f"**{source.busy} ...**"] if source.busy else []
        lines += [f"**error:** {_plain(error)}" for error in source.errors[-3:]]
        lines += [f"**{shot.label}:** {_plain(message)}" for shot in shots for message in shot.messages]
        content = "\n\n".join(lines)
        if self._banner.content != content:
            self._banner.content, self._banner.visible = content, bool(content)


def _number(shot: Shot) -> str:
    """Of contacts, and of the patches they are in."""
    number = 0 if shot.contacts is None else len(shot.contacts)
    patches = 0 if shot.patches is None else len(shot.patches)
    return f"{number} in {patches}" if patches else str(number)


def _plain(text: str) -> str:
    """Text without what Markdown would read."""
    for sign in "\\`*_<>[]#":
        text = text.replace(sign, {"<": "&lt;", ">": "&gt;"}.get(sign, f"\\{sign}"))
    return text
