"""Rollouts: a scene under a physics for some steps, with random controls, starts and models; metrics and episodes."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stickslip import spec
from stickslip.errors import InputError, StickslipError, Unsupported
from stickslip.parameters import checked as checked_class
from stickslip.parameters import parameter
from stickslip.physics.base import CountingPhysics
from stickslip.physics.registry import DEFAULT, PHYSICS
from stickslip.simulation import Scale, Simulation
from stickslip.studies.work import base
from stickslip.studies.work.base import Outcome, Place, Resolved, Work

CONTROLS = ("keep", "random")


@checked_class
@dataclasses.dataclass(frozen=True)
class Parameters:
    """Parameters of a rollout, besides those of the scene and of the physics."""

    scene: str = parameter("", "a built-in scene, a file or menagerie:NAME")
    physics: str = parameter(DEFAULT, "contact physics, with or without parameters")
    seed: int = parameter(0, "of all random numbers", 0)
    nworld: int = parameter(1, "number of worlds", 1)
    steps: int = parameter(1000, "number of steps", 1)
    timestep: float | None = parameter(
        None, "length of a step [s]; none: the scene's", 0.0, above=True, kind=float
    )  # fmt: skip
    nconmax: int | None = parameter(None, "contacts per world; none: the scene's, or more where needed", 1, kind=int)
    njmax: int | None = parameter(None, "constraint rows per world; none: as for contacts", 1, kind=int)
    controls: str = parameter("keep", "keep those of the start, or draw random ones", choices=CONTROLS)
    decimation: int = parameter(10, "steps for which a control is held; a row of an episode", 1)
    speeds: float = parameter(0.0, "standard deviation of velocities added at the start [m/s or rad/s]", 0.0)
    measure: str = parameter("", "function module:function of the simulation at the end, for metrics of your own")
    arrays: str | None = parameter(
        None, "arrays to store over time, such as qpos, qvel; none: nothing", kind=str, several=True
    )
    every: int = parameter(10, "steps from one sample of arrays to the next", 1)
    episodes: bool = parameter(False, "write the worlds as episodes for imitation learning, one HDF5 file a cell")
    film: bool = parameter(False, "write a film of the first world")


class Rollout(Work):
    """A scene under a physics, from a random start with random controls and model if asked for."""

    name = "rollout"

    def resolve(self, given: Mapping[str, Any], device: str) -> Resolved:
        chosen, scene, physics, randomize = _chosen(given)
        values, of_scene, contents, named = base.scene_of(scene)
        method, of_physics, kind = base.physics_of(physics)
        modules = (type(self).__module__, *of_physics, *of_scene)
        if chosen.measure:
            base.function_of(chosen.measure)
            modules = (*modules, chosen.measure.partition(":")[0])
        if chosen.episodes and chosen.steps < chosen.decimation:
            raise InputError(f"steps is {chosen.steps}: an episode needs {chosen.decimation} (decimation) at least")
        whole = base.listed(dataclasses.asdict(chosen)) | {"scene": values, "physics": method, "randomize": randomize}
        return Resolved(whole, f"{named} {kind} {chosen.nworld}", modules, contents)

    def run(self, given: Mapping[str, Any], place: Place) -> Outcome:
        chosen, scene, physics, randomize = _chosen(given)
        sim = Simulation(
            scene,
            spec.resolve(physics, PHYSICS, "physics"),
            nworld=chosen.nworld,
            device=place.device,
            timestep=chosen.timestep,
            nconmax=chosen.nconmax,
            njmax=chosen.njmax,
        )
        if randomize:
            sim.randomize(seed=chosen.seed, **{name: Scale(ends[0], ends[1]) for name, ends in randomize.items()})
        sim.compile()
        rng = np.random.default_rng(chosen.seed)
        if chosen.speeds:
            qvel = sim.qvel.numpy()
            sim.qvel = qvel + rng.normal(0.0, chosen.speeds, qvel.shape).astype(qvel.dtype)
        asks = "controls = 'random'" if chosen.controls == "random" else "episodes = true" if chosen.episodes else ""
        if asks and not sim.mjm.nu:
            raise Unsupported(f"{asks}: the scene {chosen.scene!r} has no actuators, so there are no actions")
        start = sim.qpos.numpy().astype(float).copy()
        tape = _Tape(sim, chosen, place, randomize)
        _step(sim, chosen, rng, tape)
        tape.close()
        return _outcome(sim, chosen, start, tape)


def _chosen(given: Mapping[str, Any]) -> tuple[Parameters, str, str, dict[str, list[float]]]:
    """Parameters, the specs of scene and physics, and the factors of random model fields."""
    plain, of = base.split(given, ("scene", "physics", "randomize"))
    chosen = base.checked(Parameters, plain, "rollout", ["scene"])
    for name, ends in of["randomize"].items():
        numbers = isinstance(ends, list) and len(ends) == 2 and all(isinstance(x, int | float) for x in ends)
        if not numbers or not ends[0] <= ends[1]:
            raise InputError(f"randomize.{name} is {ends!r}: give two factors, such as [0.8, 1.2]")
    scene = base.joined(chosen.scene, of["scene"], "scene")
    return chosen, scene, base.joined(chosen.physics, of["physics"], "physics"), of["randomize"]


def _step(sim: Simulation, chosen: Parameters, rng: np.random.Generator, tape: "_Tape") -> None:
    """Step to the end, stopping where controls change or something is kept."""
    low, high = _ranges(sim)
    done = 0
    tape.sample(0)
    while done < chosen.steps:
        if chosen.controls == "random" and done % chosen.decimation == 0:
            sim.ctrl = rng.uniform(low, high, (sim.nworld, sim.mjm.nu)).astype(np.float32)
        n = min(stop - done % stop for stop in tape.stops)
        n = min(n, chosen.steps - done)
        sim.step(n)
        done += n
        tape.sample(done)


def _ranges(sim: Simulation) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Ends of the controls; -1 and 1 where there are none."""
    limited = sim.mjm.actuator_ctrllimited.astype(bool)
    low = np.where(limited, sim.mjm.actuator_ctrlrange[:, 0], -1.0)
    return low, np.where(limited, sim.mjm.actuator_ctrlrange[:, 1], 1.0)


class _Tape:
    """What is kept of a rollout while it runs: arrays, episodes, pictures."""

    FRAMES = 60
    """Pictures of a film."""

    def __init__(
        self, sim: Simulation, chosen: Parameters, place: Place, randomize: Mapping[str, Any]
    ) -> None:  # fmt: skip
        self._sim, self._chosen, self._place = sim, chosen, place
        self._rows: dict[str, list[NDArray[Any]]] = {name: [] for name in ("time", *(chosen.arrays or ()))}
        for name in chosen.arrays or ():
            _array(sim, name)
        self._frames: list[NDArray[np.float64]] = []
        self._film_every = max(1, chosen.steps // self.FRAMES)
        self._writer: Any = None
        self._recorder: Any = None
        self.episodes = 0
        self.stops = [chosen.steps]
        if chosen.arrays:
            self.stops.append(chosen.every)
        if chosen.controls == "random" or chosen.episodes:
            self.stops.append(chosen.decimation)
        if chosen.film:
            self.stops.append(self._film_every)
        if chosen.episodes:
            self._open(randomize)

    def _open(self, randomize: Mapping[str, Any]) -> None:
        from stickslip.datasets import EpisodeRecorder, Hdf5Writer

        chosen, sim = self._chosen, self._sim
        rate = 1.0 / (chosen.decimation * float(sim.mjm.opt.timestep))
        path = self._place.folder / "episodes.hdf5"
        self._writer = Hdf5Writer(path, env=chosen.scene, model=sim.mjm, fps=rate)
        seen = {"qpos": "qpos", "qvel": "qvel", **({"sensordata": "sensordata"} if sim.mjm.nsensordata else {})}
        self._recorder = EpisodeRecorder(
            sim,
            self._writer,
            observations={name: source for name, source in seen.items()},
            decimation=chosen.decimation,
            model_fields=tuple(randomize),
            task=f"random controls in {chosen.scene}" if chosen.controls == "random" else f"motion of {chosen.scene}",
            info={"seed": chosen.seed},
            most_steps=chosen.steps // chosen.decimation + 1,
        )

    def sample(self, done: int) -> None:
        """Keep what is due after so many steps."""
        chosen, sim = self._chosen, self._sim
        if chosen.arrays and (done % chosen.every == 0 or done == chosen.steps):
            self._rows["time"].append(sim.time.numpy().astype(float).copy())
            for name in chosen.arrays:
                self._rows[name].append(_array(sim, name))
        if chosen.film and done % self._film_every == 0:
            self._frames.append(sim.qpos.numpy()[0].astype(float).copy())
        if self._recorder is not None and done and done % chosen.decimation == 0:
            over = np.full(sim.nworld, chosen.steps - done < chosen.decimation)
            self._recorder.step(sim.ctrl.numpy().copy(), np.zeros(sim.nworld), np.zeros(sim.nworld, bool), over)

    def close(self) -> None:
        """Write files."""
        if self._recorder is not None:
            self.episodes = self._recorder.episodes
            self._recorder.close()
            self._writer.close()
        if self._frames:
            from stickslip import films, render

            shown = [one.pixels for one in render.images(self._sim.mjm, list(self._frames), width=400, height=320)]
            dt = self._film_every * float(self._sim.mjm.opt.timestep)
            (self._place.folder / "film.gif").write_bytes(films.gif(shown, min(1.0 / dt, 30.0)))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What was sampled, time first: (samples, nworld, ...)."""
        return {name: np.stack(rows) for name, rows in self._rows.items() if rows}


def _array(sim: Simulation, name: str) -> NDArray[Any]:
    """A copy of an array of the simulation by name, (nworld, ...)."""
    from stickslip.simulation.tape import outputs_of

    return outputs_of(sim, [name])[name].numpy().copy()


def _outcome(sim: Simulation, chosen: Parameters, start: NDArray[np.float64], tape: _Tape) -> Outcome:
    """The metrics of a rollout; worlds that are no longer finite do not count."""
    health = sim.health()
    finite = ~np.isin(np.arange(sim.nworld), health.nan_worlds)
    qpos, qvel = sim.qpos.numpy().astype(float)[finite], sim.qvel.numpy().astype(float)[finite]
    contacts = sim.contacts()
    counted = finite[contacts.world]
    metrics: dict[str, Any] = {
        "simulated_s": float(np.max(sim.time.numpy()[finite], initial=0.0)),
        "contacts_per_world": float(counted.sum() / max(finite.sum(), 1)),
        "deepest_penetration_m": float(-np.minimum(contacts.dist[counted], 0.0).min(initial=0.0)),
        "moved": float(np.abs(qpos - start[finite]).max(initial=0.0)),
        "fastest": float(np.abs(qvel).max(initial=0.0)),
        "lost_worlds": int((~finite).sum()),
    }
    if isinstance(sim.physics, CountingPhysics):
        metrics["steps_per_world"] = float(sim.stats().steps.mean())
    if tape.episodes:
        metrics["recorded"] = tape.episodes
    if chosen.measure:
        from stickslip.studies.work.function import sorted_out

        own = base.function_of(chosen.measure)(sim)
        if not isinstance(own, Mapping):
            raise StickslipError(f"{chosen.measure} gave a {type(own).__name__}: it must return a dict of numbers")
        more = sorted_out(own)
        return Outcome(
            {**metrics, **more.metrics}, more.labels, {**tape.arrays(), **more.arrays}, tuple(health.messages)
        )
    return Outcome(metrics, {}, tape.arrays(), tuple(health.messages))
