"""The session: all lanes on one clock, in one thread; clients give orders, the page takes the latest frame."""

import dataclasses
import threading
import time
from collections.abc import Callable
from typing import Any

import mujoco

from stickslip.errors import StickslipError
from stickslip.physics.base import Physics
from stickslip.simulation import Simulation
from stickslip.viewer.lane import Lane, Shot, moved
from stickslip.viewer.pull import Pulls

FPS = 30.0
"""Frames per second, at most."""
TICK = 0.008
"""Simulated time between two looks at orders and pulls, at most, and wall time of a piece of work, about [s]."""
LAG = 0.1
"""Wall time that the simulation may lag behind before the clock waits for it [s]."""


@dataclasses.dataclass(frozen=True)
class Frame:
    """A moment of all lanes.

    Attributes:
        number: counts frames
        shots: one of each lane
        rate: simulated time over wall time, lately
        paused: whether the clock stands
    """

    number: int
    shots: tuple[Shot, ...]
    rate: float
    paused: bool


class Session:
    """Lanes, their clock and the orders of clients.

    `tick` does a piece of work and returns; `start` calls it in a thread until `stop`. Beside somebody's own loop there
    is no thread: `sync` is called after each of their steps.
    """

    def __init__(self, lanes: list[Lane], *, paused: bool = False) -> None:
        self.lanes = lanes
        self.pulls = Pulls()
        self.speed = 1.0
        self.paused = paused
        self.contacts, self.patches = True, True
        self.busy = ""
        """What takes long at the moment, such as compiling; empty: nothing."""
        self.errors: list[str] = []
        """What went wrong; the page shows and clears it."""
        self._orders: dict[Any, Callable[[], None]] = {}
        self._lock = threading.Lock()
        self._wanted, self._ready = threading.Event(), threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._frame: Frame | None = None
        self._number, self._singles = 0, 0
        self._mjd = mujoco.MjData(self.mjm)
        self._start_clock()
        self._drawn = 0.0
        self._rate = 0.0
        self._measured = (time.perf_counter(), 0.0)
        self._simulated = 0.0

    @property
    def mjm(self) -> mujoco.MjModel:
        return self.lanes[0].sim.mjm

    @property
    def sims(self) -> list[Simulation]:
        return [lane.sim for lane in self.lanes]

    # --- for clients, in any thread ---

    def order(self, do: Callable[[], None], key: Any = None) -> None:
        """Have the session's thread do something between two steps; a later order with the same key replaces it."""
        with self._lock:
            self._orders[key if key is not None else object()] = do

    def single(self) -> None:
        """Pause, and do one step."""
        self.paused = True
        self._singles += 1

    def frame(self, timeout: float) -> Frame | None:
        """The next frame, or None if there is none in time; asking is what makes the session take one."""
        self._wanted.set()
        if not self._ready.wait(timeout):
            return None
        self._ready.clear()
        return self._frame

    # --- orders, in the session's thread ---

    def replace(self, index: int, physics: Physics[Any, Any]) -> None:
        """Another physics, or other parameters, in a lane; its state is kept."""
        old = self.lanes[index].sim
        lane = self._compiled(physics, old.nworld)
        moved(old.state, lane.sim)
        self.lanes = [lane if i == index else other for i, other in enumerate(self.lanes)]
        self.pulls.forget()

    def add(self, physics: Physics[Any, Any]) -> None:
        """A lane beside the others, in the state of the first one."""
        first = self.lanes[0].sim
        lane = self._compiled(physics, first.nworld)
        moved(first.state, lane.sim)
        self.lanes = [*self.lanes, lane]
        self.pulls.forget()

    def drop(self, index: int) -> None:
        """Take a lane away."""
        self.lanes = [lane for i, lane in enumerate(self.lanes) if i != index]
        self.pulls.forget()

    def align(self) -> None:
        """Put all lanes into the state of the first."""
        state = self.lanes[0].sim.state
        for lane in self.lanes[1:]:
            moved(state, lane.sim)

    def reset(self, keyframe: int | None = None) -> None:
        """All worlds of all lanes to the start, or to a key frame."""
        for sim in self.sims:
            sim.reset(keyframe=keyframe)

    def rebuild(self, mjm: mujoco.MjModel) -> None:
        """Another model in all lanes, from its start."""
        nworld, physics = self.lanes[0].sim.nworld, [lane.physics for lane in self.lanes]
        lanes = [self._compiled(each, nworld, mjm) for each in physics]
        self.lanes = lanes
        self._mjd = mujoco.MjData(mjm)
        self.pulls.forget()

    def _compiled(self, physics: Physics[Any, Any], nworld: int, mjm: mujoco.MjModel | None = None) -> Lane:
        self.busy = f"compiling {physics.name}"
        try:
            sim = Simulation(mjm or self.mjm, physics, nworld=nworld, device=str(self.lanes[0].sim.device))
            lane = Lane(sim)
            lane.compile()
            return lane
        finally:
            self.busy = ""
            self._start_clock()

    # --- the clock ---

    def start(self) -> None:
        """Run in a thread of its own."""
        self._thread = threading.Thread(target=self._run, name="stickslip-session", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread after the current piece of work; what takes longer, such as compiling, is left behind."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=5.0)

    @property
    def works(self) -> bool:
        """Whether the thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def _run(self) -> None:
        try:
            for lane in self.lanes:
                self.busy = f"compiling {lane.physics.name}"
                lane.compile()
            self.busy = ""
            self._start_clock()
        except Exception as error:
            self._fail(error)
        while not self._stop.is_set():
            self.tick()

    def tick(self) -> None:
        """Do what was ordered, step as far as the clock says, and take a frame if the page wants one."""
        self._obey()
        n = self._due()
        try:
            if n:
                self._step(n)
            self._publish()
        except Exception as error:  # the page shows it; the session goes on
            self.paused = True
            self._fail(error)
        if not n:
            time.sleep(0.002)

    def sync(self) -> None:
        """Beside somebody's own loop: do what was ordered, take a frame; while paused, wait."""
        self._count(self.mjm.opt.timestep)
        while True:
            self._obey()
            self.pulls.apply(self.sims, self._mjd)
            self._publish()
            if not self.paused or self._stop.is_set():
                return
            if self._singles:
                self._singles -= 1
                return
            time.sleep(0.005)

    def _obey(self) -> None:
        with self._lock:
            orders, self._orders = self._orders, {}
        for do in orders.values():
            try:
                do()
            except Exception as error:
                self._fail(error)

    def _fail(self, error: Exception) -> None:
        self.busy = ""
        kind = "" if isinstance(error, StickslipError) else f"{type(error).__name__}: "
        self.errors.append(f"{kind}{error}")

    def _start_clock(self) -> None:
        self._since, self._done = time.perf_counter(), 0.0

    def _due(self) -> int:
        """Steps to do now."""
        dt = float(self.mjm.opt.timestep)
        if self.paused:
            self._start_clock()
            n, self._singles = self._singles, 0
            return n
        behind = self.speed * (time.perf_counter() - self._since) - self._done
        if behind < dt:
            return 0
        if behind > LAG * self.speed:  # too slow for the clock: it waits
            self._start_clock()
        step = 1e-3 * sum(lane.step_ms for lane in self.lanes)
        most = max(1, min(round(TICK / dt), int(TICK / step) if step else 1))
        return min(int(behind / dt), most)

    def _step(self, n: int) -> None:
        self.pulls.apply(self.sims, self._mjd)
        for lane in self.lanes:
            lane.step(n)
        seconds = n * float(self.mjm.opt.timestep)
        self._done += seconds
        self._count(seconds)

    def _count(self, seconds: float) -> None:
        """Note how fast simulated time passes."""
        self._simulated += seconds
        now, (since, simulated) = time.perf_counter(), self._measured
        if now - since > 0.5:
            self._rate = (self._simulated - simulated) / (now - since)
            self._measured = (now, self._simulated)

    def _publish(self) -> None:
        """Take a frame if one is wanted and the last was long enough ago."""
        now = time.perf_counter()
        if not self._wanted.is_set() or now - self._drawn < 1.0 / FPS:
            return
        self._wanted.clear()
        self._drawn = max(now - 0.5 / FPS, self._drawn + 1.0 / FPS)  # a late frame does not delay the next
        self._number += 1
        shots = tuple(lane.shot(contacts=self.contacts, patches=self.patches) for lane in self.lanes)
        self._frame = Frame(self._number, shots, self._rate, self.paused)
        self._ready.set()
