"""`soak`: worlds left alone, under random controls, resets and models, with a watch that misses nothing.

Every model runs with every physics: new controls every so many steps, masses and friction of each world drawn
again with its resets, which come at random. Worlds 2k and 2k + 1 are twins: they get the same. On a CPU, and with
`deterministic` on a GPU, they have to stay equal bit for bit. A watch looks at every world after every step (see
`Simulation.watch`). What it finds are events; a world with an event is counted and reset.

After each command the host looks at the states itself, in NumPy and with MuJoCo in C (`soak_check.py`). What it finds
and the watch has not, or `health()` has not told, is silent. None may be.
"""

import dataclasses
import functools
import os
import pathlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

import stickslip as ss
from stickslip import scenes
from stickslip.bench.experiment import MIN_STEPS, Experiment, Outcome, Score, Trial
from stickslip.bench.experiments.accuracy import robust
from stickslip.bench.experiments.accuracy.soak_check import HostCheck
from stickslip.bench.report import style
from stickslip.bench.result import Result
from stickslip.errors import InputError, SceneError, Unsupported
from stickslip.parameters import parameter
from stickslip.physics.base import Physics
from stickslip.simulation.watching import KINDS, Limits

EVERY_MODEL = "every model"
"""The case that adds up the others."""
GROUPS = ("scenes", "menagerie", "mujoco-warp")
LARGE = 50
"""Degrees of freedom from which on a model takes fewer steps."""
RESETS = 0.05
"""Share of worlds that are reset after each command."""
DRAWN = {"body_mass": ss.Scale(0.7, 1.4), "geom_friction": ss.Scale(0.5, 1.5)}


@dataclasses.dataclass(frozen=True)
class Settings:
    models: tuple[str, ...] = parameter(
        ("scenes", "menagerie"),
        "scenes, model files, folders of them, or all of: scenes, menagerie (where MENAGERIE_ROOT has them), "
        "mujoco-warp (models of its tests)",
    )
    world_steps: int = parameter(
        5_000_000, "steps of all worlds together, of a model with a physics; fewer for large models", low=MIN_STEPS
    )
    nworld: int = parameter(4096, "worlds, an even number", low=2, high=1_000_000)
    every: int = parameter(20, "steps between two commands", low=1, high=100_000)
    seconds: float = parameter(
        0.0, "most time of a model with a physics [s], on a CPU processor time; 0: no limit", low=0.0
    )
    events: str = parameter("", "folder for the files of events; empty: none are written")


class Soak(Experiment[Settings]):
    name = "soak"
    summary = "every scene under random controls, resets and models: events a watch finds, and what is silent"
    source = "stickslip"
    settings = Settings
    quick = {"models": ("stack", "hand"), "world_steps": 160, "nworld": 4}
    cpu = {"world_steps": 4_000, "nworld": 8, "seconds": 15.0}

    def cases(self, settings: Settings) -> Mapping[str, str | None]:
        if settings.nworld % 2:
            raise InputError(f"nworld is {settings.nworld}: it must be even, since worlds 2k and 2k + 1 are twins")
        found: dict[str, str | None] = {}
        for name in settings.models:
            found |= _members(name)
        if not found:
            raise InputError(f"there is no model in {', '.join(settings.models)}: name scenes, files or folders")
        return {**found, EVERY_MODEL: None}

    def measure(self, case: str | None, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        if case is None:
            return Outcome({})  # filled by `relate`
        mjm = load(case)
        same_bits = trial.device == "cpu" or getattr(physics, "deterministic", False)
        twins = 0.0 if same_bits else None
        run = _Run(mjm, physics, settings, trial, Limits(twins=twins))
        run.go()
        metrics = {
            "world_steps": float(run.done * settings.nworld),
            "silent": float(len(run.silent)),
            "looked_at": float(run.looked),
            "resets": float(run.resets),
            **{_key(kind): float(count) for kind, count in run.counts.items()},
            "events": float(sum(run.counts.values())),
        }
        return Outcome(metrics, problems=run.told + [f"silent: {found}" for found in run.silent[:4]])

    def relate(self, result: Result) -> None:
        names = ("world_steps", "silent", "looked_at", "resets", "events", *map(_key, KINDS))
        for label in result.ran(EVERY_MODEL):
            models = [case for case in result.cases if result.has(label, case) and case != EVERY_MODEL]
            total = {name: float(sum(result.metric(label, case, name) for case in models)) for name in names}
            steps = max(total["world_steps"], 1.0)
            rates = {f"{name}_rate": 1e6 * total[name] / steps for name in ("events", *map(_key, KINDS))}
            common = [case for case in models if all(result.has(other, case) for other in _everywhere(result))]
            of_common = sum(result.metric(label, case, "world_steps") for case in common)
            shared = sum(result.metric(label, case, "events") for case in common)
            result.outcomes[label][EVERY_MODEL]["metrics"] = {
                **total,
                **rates,
                "models": float(len(models)),
                "common_rate": 1e6 * shared / of_common if of_common else float("nan"),
            }

    def scores(self, settings: Settings) -> Sequence[Score]:
        return [
            Score("silent events", EVERY_MODEL, "silent", ""),
            Score("reported events per 10^6 world-steps", EVERY_MODEL, "events_rate", ""),
            Score("the same on the models that all of these methods run", EVERY_MODEL, "common_rate", ""),
            Score("world-steps", EVERY_MODEL, "world_steps", "", "high"),
        ]

    def draw(self, result: Result) -> Any:
        labels = result.ran(EVERY_MODEL)
        fig, axes = style.figure(
            "soak: events that the watch reported, per 10^6 world-steps", 1, 1, width=9.0, height=4.2
        )
        ax = axes[0][0]
        for place, label in enumerate(labels):
            below = 0.0
            for kind, colour in zip(KINDS, _COLOURS, strict=True):
                rate = result.metric(label, EVERY_MODEL, f"{_key(kind)}_rate")
                rate = rate if np.isfinite(rate) else 0.0
                ax.barh(place, rate, 0.7, left=below, color=colour, label=kind)
                below += rate
            steps, silent = (result.metric(label, EVERY_MODEL, name) for name in ("world_steps", "silent"))
            ax.text(
                below, place, f"  {style.number(below)} in {steps:.3g}; silent: {silent:.0f}", va="center", fontsize=8
            )
        ax.set_yticks(range(len(labels)), [style.short(label) for label in labels])
        ax.invert_yaxis()
        ax.set_xlabel("events per 10^6 world-steps")
        ax.margins(x=0.3)
        style.legend(fig, axes)
        return fig


_COLOURS = ("#8c2d2d", "#d9705f", "#e0a13b", "#5f8fb5", "#7f7f7f", "#7a5fa0")


def _key(kind: str) -> str:
    return kind.replace(" ", "_")


def _everywhere(result: Result) -> list[str]:
    """The methods that run anything."""
    return [label for label in result.methods if any(result.has(label, case) for case in result.cases)]


@functools.cache
def _members(name: str) -> dict[str, str]:
    """The models that a name stands for: what `load` takes, by label."""
    if name == "scenes":
        return {scene: scene for scene in scenes.names()}
    if name == "mujoco-warp":
        return {one: one for one in robust.every_model() if one.endswith(".xml")}
    if name == "menagerie":
        root = os.environ.get("MENAGERIE_ROOT")
        return _files(pathlib.Path(root), "scene*.xml") if root else {}
    if pathlib.Path(name).is_dir():
        return _files(pathlib.Path(name), "*.xml")
    load(name)
    return {pathlib.Path(name).name if name.endswith(".xml") else name: name}


def _files(folder: pathlib.Path, pattern: str) -> dict[str, str]:
    """Whole models in a folder in which something moves, by their paths there."""
    found = {}
    for path in sorted(folder.rglob(pattern)):
        try:
            mjm = load(str(path))
        except SceneError:  # a part of another model
            continue
        if mjm.nv and not mjm.nplugin:
            found[path.relative_to(folder).as_posix()] = str(path)
    return found


def load(name: str) -> mujoco.MjModel:
    """A model by its name or path."""
    return robust.load(name)


class _Run:
    """One model with one physics."""

    def __init__(
        self, mjm: mujoco.MjModel, physics: Physics[Any, Any], settings: Settings, trial: Trial, limits: Limits
    ) -> None:
        self.settings, self.trial, self.mjm = settings, trial, mjm
        self.sim = trial.simulation(mjm, physics, nworld=settings.nworld)
        self.rng = trial.random()
        self.check = HostCheck(mjm, limits)
        self.limits = limits
        whole = max(MIN_STEPS, settings.world_steps // settings.nworld)
        self.steps = max(MIN_STEPS, whole * LARGE // max(mjm.nv, LARGE))
        self.done = self.looked = self.resets = 0
        self.counts = dict.fromkeys(KINDS, 0)
        self.silent: list[str] = []
        self._drawn: dict[str, NDArray[Any]] = {}  # fields that were drawn for each world
        self.told: list[str] = []

    def go(self) -> None:
        sim, settings = self.sim, self.settings
        clock = time.process_time if self.trial.device == "cpu" else time.perf_counter
        begun = clock()
        folder = settings.events or None
        with sim.watch(folder, limits=self.limits) as self.watch:
            self.told += [f"{kind} is not watched: {why}" for kind, why in self.watch.unwatched.items()]
            self._draw(None)
            while self.done < self.steps:
                self._command()
                self._advance(min(settings.every, self.steps - self.done))
                self.trial.progress(self.done / self.steps)
                if settings.seconds and clock() - begun > settings.seconds:
                    break

    def _pairs(self, values: NDArray[Any]) -> NDArray[Any]:
        """The same for twins."""
        return np.repeat(values, 2, axis=0)

    def _command(self) -> None:
        mjm = self.mjm
        if not mjm.nu:
            return
        limited = mjm.actuator_ctrllimited.astype(bool)
        low, high = (
            np.where(limited, bound, one) for bound, one in zip(mjm.actuator_ctrlrange.T, (-1.0, 1.0), strict=True)
        )
        self.sim.ctrl = self._pairs(self.rng.uniform(low, high, (self.settings.nworld // 2, mjm.nu)))

    def _draw(self, mask: NDArray[np.bool_] | None) -> None:
        """Draw models of worlds again; twins get the same."""
        sim = self.sim
        try:
            sim.randomize(mask, seed=self.trial.seed, **DRAWN)
        except Unsupported as error:
            if mask is None:
                self.told.append(f"no random models: {error}")
            return
        fields = {}
        for name in (*DRAWN, "body_inertia"):
            value = sim.physics.model_field(sim.m, name).numpy().copy()
            value[1::2] = value[::2]
            fields[name] = value
        sim.set_model(mask, **fields)
        for name, value in fields.items():
            chosen = np.ones(len(value), dtype=bool) if mask is None else mask
            self._drawn.setdefault(name, value.copy())[chosen] = value[chosen]

    def _advance(self, n: int) -> None:
        """Take n steps, and look: the watch, `health`, and the host by itself."""
        sim, watch = self.sim, self.watch
        world = int(self.rng.integers(self.settings.nworld))
        before = self._energy(world)
        sim.step(max(n - 1, 0))
        qpos, qvel = self._state()
        after = self._energy(world)
        sim.step(1)  # contacts of a step are those of its beginning
        self.done += n
        counts = watch.counts
        health = sim.health()
        late_qpos, late_qvel = self._state()
        broken = {}
        for name, worlds in self.check.broken(qpos, qvel).items():
            broken[name] = worlds
        for name, worlds in self.check.broken(late_qpos, late_qvel).items():
            broken[name] = broken[name] | worlds
        finite = not broken["not finite"][world]
        if finite and self.check.deep(qpos[world].astype(float)):
            broken["penetration"] = np.arange(len(qpos)) == world
        if finite and self.check.gained(before, after):
            broken["energy"] = np.arange(len(qpos)) == world
        self.looked += self.settings.nworld
        events = np.zeros(self.settings.nworld, dtype=int)
        for kind in KINDS:
            self.counts[kind] += int(counts[kind].sum())
            events += counts[kind]
            if kind in watch.unwatched or kind not in broken:
                continue
            # a world that fails one check may fail others in the same step, or is one that the watch already knows
            for w in np.flatnonzero(broken[kind] & (counts[kind] == 0)):
                self.silent.append(f"{kind}, world {w}, step {self.done}")
        if health.overflow and not counts["dropped"].any():
            self.silent.append(f"dropped, step {self.done}: {health.overflow[0]}")
        if events.any() and health.ok:
            self.silent.append(f"health() says nothing of {int(events.sum())} events, step {self.done}")
        if health.nan_worlds and not counts["not finite"][list(health.nan_worlds)].all():
            self.silent.append(f"not finite, worlds {health.nan_worlds[:4]}, step {self.done}")
        watch.clear()
        again = events.astype(bool) | self._pairs(self.rng.random(self.settings.nworld // 2) < RESETS)
        again = again | self._pairs(again[::2] | again[1::2])
        if again.any():
            self.resets += int(again.sum())
            sim.reset(again)
            self._draw(again)

    def _state(self) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        return self.sim.qpos.numpy().copy(), self.sim.qvel.numpy().copy()

    def _energy(self, world: int) -> tuple[float, float]:
        if not self.check.knows_energy:
            return 0.0, 0.0
        qpos, qvel = self._state()
        if not np.isfinite(np.r_[qpos[world], qvel[world]]).all():
            return 0.0, 0.0
        masses = {}
        for name in ("body_mass", "body_inertia"):
            value = self._drawn.get(name)
            if value is not None:
                masses[name] = value[world]
        return self.check.energy(qpos[world].astype(float), qvel[world].astype(float), masses)
