"""EpisodeRecorder: collects episodes of many worlds while they are stepped, and hands each to writers when it ends."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from stickslip.datasets.episode import Episode
from stickslip.errors import InputError, StickslipError
from stickslip.simulation.shards import Threaded
from stickslip.simulation.tape import outputs_of
from stickslip.simulation.trajectory import about

if TYPE_CHECKING:
    from stickslip.simulation.simulation import Simulation

Source = str | Callable[[], Any] | Any
"""Where an observation comes from: the name of an array of the simulation, a function, or an array to read again."""
_MEMORY = 4 << 30


class EpisodeWriter(Protocol):
    """What takes episodes: `Hdf5Writer`, `LeRobotWriter`, or your own."""

    def write(self, episode: Episode) -> None:
        """Add an episode."""

    def close(self) -> None:
        """Finish."""


class EpisodeRecorder:
    """Collects episodes of all worlds of a simulation on the host. Call `step` after each control step.

    Arrays may be NumPy's, Warp's, PyTorch's, JAX's or any that DLPack knows, on the host or on a GPU, world axis first.

        with Hdf5Writer("out/data.hdf5", model=sim.mjm) as writer, EpisodeRecorder(sim, writer, ...) as recorder:
            while ...:
                sim.ctrl = action
                sim.step(10)
                recorder.step(action, reward, terminated, truncated)
                sim.reset(terminated | truncated)
                recorder.begin()

    An environment that resets worlds by itself gives the last observations as `final`, and the controls; then `begin`
    is not needed.

    Args:
        sim: the simulation
        writers: what takes the episodes, one or several; they are not closed
        observations: by name; see `Source`
        cameras: functions that give pictures of all worlds, (nworld, height, width, 3) uint8, by name
        decimation: timesteps in a control step
        model_fields: fields of the model that differ between worlds, by name, such as "geom_friction"
        task: what is to be done, in words
        info: written with each episode
        most_steps: control steps after which an episode must have ended
        memory: most bytes for episodes that have not ended
    """

    def __init__(
        self,
        sim: "Simulation",
        writers: EpisodeWriter | Sequence[EpisodeWriter],
        *,
        observations: Mapping[str, Source],
        cameras: Mapping[str, Callable[[], Any]] | None = None,
        decimation: int = 1,
        model_fields: Sequence[str] = (),
        task: str = "",
        info: Mapping[str, Any] | None = None,
        most_steps: int = 100_000,
        memory: int = _MEMORY,
    ) -> None:
        for name, value in (("decimation", decimation), ("most_steps", most_steps), ("memory", memory)):
            if isinstance(value, bool) or int(value) != value or value < 1:
                raise InputError(f"{name} is {value!r}: it must be a whole number, at least 1")
        self._sim, self._writers = sim, tuple(writers) if isinstance(writers, Sequence) else (writers,)
        self._sources, self._cameras = dict(observations), dict(cameras or {})
        both = self._sources.keys() & self._cameras.keys()
        if both:
            raise InputError(f"{sorted(both)[0]!r} names an observation and a camera: give them different names")
        self._most_steps, self._memory, self._task = int(most_steps), int(memory), task
        self._info = dict(info or {}) | {"physics": about(sim, 1)["physics"], "decimation": int(decimation)}
        self._fields = tuple(model_fields)
        self._buffers: dict[str, NDArray[Any]] = {}  # (nworld, room, ...), by "kind/name"
        self._steps = np.zeros(sim.nworld, dtype=np.int64)
        self._ended = np.zeros(sim.nworld, dtype=bool)  # worlds that have to begin before the next step
        self._episodes = 0
        self._own: list[dict[str, NDArray[Any]]] = [{} for _ in range(sim.nworld)]
        self._now = self._read()
        self._keep_fields(np.arange(sim.nworld))

    @property
    def episodes(self) -> int:
        """Episodes that were handed to the writers."""
        return self._episodes

    def step(
        self,
        actions: Any,
        rewards: Any,
        terminated: Any,
        truncated: Any,
        *,
        final: Mapping[str, Any] | None = None,
        controls: Any = None,
        info: Mapping[str, Any] | None = None,
    ) -> None:
        """Record a control step of every world, after the simulation took it.

        An episode that cannot be written, such as one with NaN, is dropped and raises. All other worlds are recorded
        before that, so that you can catch the error and go on.

        Args:
            actions: what was commanded                                               (nworld, na)
            rewards: of this step                                                     (nworld,)
            terminated: worlds whose episode ended, such as by success or a fall      (nworld,)
            truncated: worlds whose episode was cut off                               (nworld,)
            final: if worlds that ended were reset already: observations, and pictures, before the reset, by name,
                (nworld, ...); rows of other worlds are not read
            controls: `ctrl` of this step, (nworld, nu); None: `sim.ctrl`. Needed with `final`
            info: of the episodes that end now, by name, (nworld,): such as success
        """
        nworld = self._sim.nworld
        if self._ended.any():
            worlds = np.flatnonzero(self._ended)[:8].tolist()
            raise InputError(f"worlds {worlds} ended in the step before: reset them, then call begin()")
        rows = {"actions": _host("actions", actions, nworld), "rewards": _host("rewards", rewards, nworld)}
        flags = [_host(n, v, nworld).astype(bool) for n, v in (("terminated", terminated), ("truncated", truncated))]
        if any(flag.shape != (nworld,) for flag in flags) or rows["rewards"].shape != (nworld,):
            shapes = [rows["rewards"].shape, *(flag.shape for flag in flags)]
            raise InputError(f"rewards, terminated and truncated have the shapes {shapes}: each must be ({nworld},)")
        over = flags[0] | flags[1]
        last = {} if final is None else {name: _host(f"final[{name!r}]", a, nworld) for name, a in final.items()}
        more = {name: _host(f"info[{name!r}]", a, nworld) for name, a in (info or {}).items()}
        rows |= self._now
        if controls is None and final is not None and over.any():
            raise InputError("controls is missing: worlds that were reset lost theirs; give the ctrl of this step")
        rows["controls/"] = _host("controls", self._sim.ctrl if controls is None else controls, nworld)
        self._store(rows)
        self._now = self._read()
        ended, refused = np.flatnonzero(over), []
        for world in ended:
            try:
                self._hand_over(int(world), flags, last if final is not None else None, more)
            except InputError as error:  # such as of a world that is no longer finite
                refused.append(InputError(f"the episode of world {world} is dropped: {error}"))
            except (StickslipError, OSError) as error:
                refused.append(error)
        if final is None:
            self._ended = over
        else:
            self._keep_fields(ended)
        if refused:
            raise refused[0]

    def begin(self) -> None:
        """Tell that the worlds that ended were reset: read their first observations."""
        self._now = self._read()
        self._keep_fields(np.flatnonzero(self._ended))
        self._ended[:] = False

    def close(self, *, truncate: bool = False) -> None:
        """Hand over episodes that have not ended, as truncated; or drop them."""
        if truncate:
            cut = [np.zeros(self._sim.nworld, dtype=bool), np.ones(self._sim.nworld, dtype=bool)]
            for world in np.flatnonzero(self._steps):
                self._hand_over(int(world), cut, None, {})
        self._steps[:] = 0
        self._buffers.clear()

    def _read(self) -> dict[str, NDArray[Any]]:
        """Observations, pictures and states of now, on the host, by "kind/name"."""
        sim, now = self._sim, {}
        for name, source in self._sources.items():
            array = outputs_of(sim, [source])[source] if isinstance(source, str) else source
            now[f"observations/{name}"] = _host(name, array() if callable(array) else array, sim.nworld)
        for name, camera in self._cameras.items():
            now[f"images/{name}"] = _host(name, camera(), sim.nworld)
        now["states/"] = full_physics(sim)
        return now

    def _store(self, rows: Mapping[str, NDArray[Any]]) -> None:
        """Append a row to the episode of each world."""
        longest = int(self._steps.max()) + 1
        if longest > self._most_steps:
            raise InputError(f"an episode has {longest} steps, most_steps is {self._most_steps}: end it, or raise it")
        worlds = np.arange(self._sim.nworld)
        if not self._buffers or longest > next(iter(self._buffers.values())).shape[1]:
            room = min(self._most_steps, max(64, 2 * (longest - 1)))
            need = room * sum(array.nbytes for array in rows.values())
            if need > self._memory:
                raise InputError(
                    f"episodes of {longest} steps in {len(worlds)} worlds need {need / 1e9:.2g} GB, memory is "
                    f"{self._memory / 1e9:.2g} GB: record fewer worlds or smaller pictures, end episodes sooner, or "
                    "raise memory"
                )
            grown = {name: np.zeros((len(worlds), room, *a.shape[1:]), a.dtype) for name, a in rows.items()}
            for name, old in self._buffers.items():
                grown[name][:, : old.shape[1]] = old
            self._buffers = grown
        for name, row in rows.items():
            buffer = self._buffers[name]
            if row.shape[1:] != buffer.shape[2:] or row.dtype != buffer.dtype:
                raise InputError(
                    f"{name.strip('/')} is {row.dtype} of shape {row.shape}, and was {buffer.dtype} of shape "
                    f"{(len(row), *buffer.shape[2:])}: give the same in each step"
                )
        for name, row in rows.items():
            self._buffers[name][worlds, self._steps] = row
        self._steps += 1

    def _hand_over(
        self,
        world: int,
        flags: Sequence[NDArray[np.bool_]],
        final: Mapping[str, NDArray[Any]] | None,
        more: Mapping[str, NDArray[Any]],
    ) -> None:
        """Give the episode of a world to the writers, and forget it."""
        steps, self._steps[world] = int(self._steps[world]), 0  # also if it is refused below
        rows = {name: buffer[world, :steps].copy() for name, buffer in self._buffers.items()}
        seen = {"observations": {}, "images": {}}
        for name in rows:
            kind, _, key = name.partition("/")
            if key:
                seen[kind][key] = rows[name]
        if final is None:
            last = {name.partition("/")[2]: a[world] for name, a in self._now.items() if not name.endswith("/")}
            last_state = self._now["states/"][world]
        else:
            last, last_state = {name: array[world] for name, array in final.items()}, None
        told = self._info | {"world": world} | {name: array[world].tolist() for name, array in more.items()}
        terminated, truncated = (bool(flag[world]) for flag in flags)
        episode = Episode(
            seen["observations"],
            rows["actions"],
            rows["rewards"],
            terminated,
            truncated,
            rows["states/"],
            rows["controls/"],
            seen["images"],
            last,
            last_state,
            self._own[world],
            self._task,
            told,
        )
        for writer in self._writers:
            writer.write(episode)
        self._episodes += 1

    def _keep_fields(self, worlds: NDArray[np.integer]) -> None:
        """Read the fields of the model that episodes of these worlds begin with."""
        for name in self._fields:
            values = self._field(name)
            for world in worlds:
                self._own[world][name] = values[world % len(values)].copy()

    def _field(self, name: str) -> NDArray[Any]:
        physics, sim = self._sim.physics, self._sim
        if isinstance(physics, Threaded):
            parts = [(physics.physics.model_field(s._m, name).numpy(), s.nworld) for s in sim.d.shards]
            return np.concatenate([np.resize(values, (n, *values.shape[1:])) for values, n in parts])
        return physics.model_field(sim.m, name).numpy()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> Literal[False]:
        self.close()
        return False


def full_physics(sim: "Simulation") -> NDArray[np.float64]:
    """MuJoCo's full physics state of all worlds, (nworld, nstate)."""
    import mujoco

    return sim.get_state(int(mujoco.mjtState.mjSTATE_FULLPHYSICS)).vector()


def _host(name: str, array: Any, nworld: int) -> NDArray[Any]:
    """A copy of an array of any library on the host, world axis first."""
    if not isinstance(array, (np.ndarray, np.generic, list, tuple, int, float, bool)):
        for method in ("detach", "cpu"):  # PyTorch's
            array = getattr(array, method)() if hasattr(array, method) else array
        if hasattr(array, "numpy"):
            array = array.numpy()
        elif not hasattr(array, "__array__") and hasattr(array, "__dlpack__"):
            array = np.from_dlpack(array)
    found = np.array(array)
    if found.ndim < 1 or len(found) != nworld:
        raise InputError(f"{name} has shape {found.shape}: its first axis must be that of the {nworld} worlds")
    return found
