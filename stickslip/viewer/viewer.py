"""Viewer: a simulation in the browser, run by itself or beside a loop of your own."""

import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import mujoco

from stickslip import interrupts, mjcf, scenes, spec
from stickslip.errors import InputError
from stickslip.physics.base import Physics
from stickslip.physics.registry import DEFAULT, PHYSICS
from stickslip.simulation import Simulation, Trajectory
from stickslip.viewer import replay
from stickslip.viewer.lane import Lane
from stickslip.viewer.page import Choices, Page
from stickslip.viewer.panel import Panel
from stickslip.viewer.replay import Replay
from stickslip.viewer.server import HOST, halt, serve
from stickslip.viewer.session import Session

SHADED = 4
"""Worlds up to which shadows are on at first: without a graphics card they are slow."""
UNWATCHED = 0.5
"""Time between frames while no page is open [s]."""


class Viewer:
    """A page in the browser beside a loop of your own.

    `with ss.Viewer(sim) as viewer: while viewer.is_running(): sim.step(); viewer.sync()`. The page shows the state
    after each `sync`, at most 30 times a second, and writes pulls, controls and resets into the simulation there. A
    browser that is slow, or gone, costs the loop nothing. Pause on the page makes `sync` wait.

    Args:
        sim: a simulation, or several of one model, side by side
        port: of the web server; None: the first free one from 8080 on
        host: address to listen on; anything but this machine's own can be reached, and controlled, by others
    """

    def __init__(self, sim: Simulation | Sequence[Simulation], *, port: int | None = None, host: str = HOST) -> None:
        sims = [sim] if isinstance(sim, Simulation) else list(sim)
        _check(sims)
        self._begin(Session([Lane(each) for each in sims]), port, host, "", own=False)

    @classmethod
    def _of(cls, source: Session | Replay, port: int | None, host: str, scene: str) -> Self:
        viewer = cls.__new__(cls)
        viewer._begin(source, port, host, scene, own=True)
        return viewer

    def _begin(
        self,
        source: Session | Replay,
        port: int | None,
        host: str,
        scene: str,
        *,
        own: bool,
    ) -> None:
        self._server = serve(port, host, "stickslip")
        self._source, self._closed = source, threading.Event()
        pulls = source.pulls if isinstance(source, Session) else None
        self._page = Page(self._server, _choices(source), pulls)
        self._server.on_client_connect(self._page.frame_camera)
        self._panel = Panel(self._server, source, self._page, scene, own)
        self.errors: list[BaseException] = []
        """What went wrong while drawing; the simulation is not touched by it."""
        if pulls is not None:
            self._server.on_client_disconnect(lambda client: pulls.release(client.client_id))
        if own:
            source.start()
        self._thread = threading.Thread(target=self._draw, name="stickslip-viewer", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where the page is."""
        host = self._server.get_host()
        shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
        return f"http://{shown}:{self._server.get_port()}"

    def is_running(self) -> bool:
        """Whether the viewer is open; a page that was closed can be opened again."""
        return not self._closed.is_set()

    @property
    def works(self) -> bool:
        """Whether a thread still compiles or imports after `close`; Python must not be shut down under it."""
        return self._source.works or self._panel.refusals.works

    def sync(self) -> None:
        """After a step of your loop: show the state if a frame is due, take what clients have done; wait if paused."""
        if isinstance(self._source, Session) and not self._closed.is_set():
            self._source.sync()

    def close(self) -> None:
        """End the page, and the session if it runs by itself."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._panel.refusals.stop()
        self._source.stop()
        self._thread.join(timeout=10.0)
        halt(self._server)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait(self, tell: Callable[[str], None] | None = None) -> None:
        """Until Ctrl-C, or until it is closed by another thread; then it is closed.

        `tell` is given the address of the page as soon as Ctrl-C ends the viewer.
        """
        try:
            with interrupts.deferred() as request:
                if tell is not None:
                    tell(f"The viewer is at {self.url}; Ctrl-C ends it.")
                while not request.made and not self._closed.is_set():
                    time.sleep(0.1)
        finally:
            self.close()

    def _repr_html_(self) -> str:
        """The page, inline in a notebook."""
        return f'<iframe src="{self.url}" width="100%" height="600" style="border: 1px solid #ccc"></iframe>'

    def _draw(self) -> None:
        while not self._closed.is_set():
            frame = self._source.frame(0.25)
            try:
                if frame is None:
                    self._panel.idle()
                else:
                    mjm = self._source.mjm
                    if len(frame.shots[0].qpos[0]) == mjm.nq:  # else the scene has just been rebuilt
                        self._page.draw(mjm, frame)
                        self._panel.update(mjm, frame)
            except Exception as error:  # a drawing that fails must not end the simulation
                self._source.errors.append(f"{type(error).__name__}: {error}")
                self.errors.append(error)
            if not self._server.get_clients() and not self._panel.recorder.is_on:
                self._closed.wait(UNWATCHED)


def view(
    what: Simulation | Sequence[Simulation] | Trajectory | str | os.PathLike[str] | mujoco.MjModel,
    physics: Physics[Any, Any] | str | Sequence[Physics[Any, Any] | str] | None = None,
    *,
    scene: str | os.PathLike[str] | mujoco.MjModel | None = None,
    nworld: int = 1,
    device: str | None = None,
    port: int | None = None,
    host: str = HOST,
    paused: bool = False,
    block: bool | None = None,
) -> Viewer:
    """Show a simulation, a scene under one or more physics, or a recording, in the browser.

    It runs by itself, in step with the wall clock. In a script this returns after Ctrl-C. In a notebook it returns at
    once, and the viewer is shown inline.

    Args:
        what: a simulation, or several of one model; a scene, as for `Simulation`; a trajectory or the file of one
        physics: of a scene: one, or several side by side, as instances or as "name:key=value,..."; ConeSweep() if None
        scene: of a trajectory
        nworld: number of worlds of a scene
        device: of a scene
        port: of the web server; None: the first free one from 8080 on
        host: address to listen on; anything but this machine's own can be reached, and controlled, by others
        paused: whether the clock stands at first
        block: whether to return only after Ctrl-C; None: unless in a notebook
    """
    source, name = _source(what, physics, scene, nworld, device, paused)
    viewer = Viewer._of(source, port, host, name)
    if block if block is not None else not _in_notebook():
        viewer.wait(lambda text: print(text, flush=True))
    return viewer


def _source(
    what: Any, physics: Any, scene: Any, nworld: int, device: str | None, paused: bool
) -> tuple[Session | Replay, str]:
    """What is shown, and the name of the built-in scene that it is of, if it is."""
    if isinstance(what, Trajectory):
        if scene is None:
            raise InputError("a trajectory does not say of which scene it is: give scene=...")
        return Replay(mjcf.load(scene), [replay.from_trajectory(what)], paused=paused), ""
    if isinstance(what, (str, os.PathLike)) and str(what).endswith((".npz", ".zarr")):
        mjm, clips = replay.read(Path(what), scene)
        return Replay(mjm, clips, paused=paused), ""
    if isinstance(what, Simulation) or not isinstance(what, (str, os.PathLike, mujoco.MjModel)):
        sims: list[Any] = [what] if isinstance(what, Simulation) else list(what)  # type: ignore[arg-type]
        _check(sims)
        if physics is not None:
            raise InputError("physics is for a scene, and a simulation has its own: leave physics out")
        return Session([Lane(each) for each in sims], paused=paused), ""
    chosen = [physics] if physics is None or isinstance(physics, (str, Physics)) else list(physics)
    if not chosen:
        raise InputError("physics is empty: name at least one")
    kinds = [PHYSICS[DEFAULT]() if each is None else each for each in chosen]
    made = [spec.resolve(each, PHYSICS, "physics") if isinstance(each, str) else each for each in kinds]
    mjm = mjcf.load(what)
    lanes = [Lane(Simulation(mjm, each, nworld=nworld, device=device)) for each in made]
    name = what if isinstance(what, str) and what.partition(":")[0] in scenes.CATALOGUE else ""
    return Session(lanes, paused=paused), name


def _choices(source: Session | Replay) -> Choices:
    """What is shown at first."""
    nworld = source.nworld if isinstance(source, Replay) else source.lanes[0].sim.nworld
    return Choices(mode="grid" if nworld > 1 else "one", shadows=nworld <= SHADED)


def _check(sims: Sequence[Any]) -> None:
    if not sims or not all(isinstance(sim, Simulation) for sim in sims):
        kinds = ", ".join(type(sim).__name__ for sim in sims) or "nothing"
        raise InputError(f"the viewer shows simulations, got {kinds}: give stickslip.Simulation(...), or several")
    first = sims[0]
    for sim in sims[1:]:
        if (sim.mjm.nq, sim.mjm.nbody, sim.mjm.ngeom, sim.nworld) != (
            first.mjm.nq,
            first.mjm.nbody,
            first.mjm.ngeom,
            first.nworld,
        ):
            raise InputError("the simulations are of different models or numbers of worlds: they must agree")


def _in_notebook() -> bool:
    try:
        from IPython.core.getipython import get_ipython  # pyright: ignore[reportMissingImports]
    except ImportError:
        return False
    shell = get_ipython()
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"
