"""`robust`: every built-in scene and every model of MuJoCo Warp's own tests under random controls: which ones survive.

Every 50 steps each actuator gets a random control within its range, or within 1 where it has none; the same for every
physics and for MuJoCo in C, which runs first. A model stays sound if its state is finite at the end and no velocity was
ever larger than 10 times the largest in C, or 1000 (m/s or rad/s). That is generous on purpose: the motion is chaotic,
so that two sound runs reach different speeds; a body that is dropped instead of held falls at 200 m/s after 20 s and
has not blown up; and some models are meant to be fast. A simulation that has gone wrong leaves such a bound within
a few steps. `times_c`, the largest velocity over that in C, shows what the bound lets pass.

Some models break in C too: their actuators or springs are too stiff for a step of 2 ms. They are run and shown, but do
not count, since the contact has no part in it. In C a model is called broken when MuJoCo calls it so: beyond 1e10,
which it hides by starting again unless it is told not to, as here.

A model that a physics does not support is listed with the reason and counts as neither. Buffers get room for eight
times the contacts and twice the rows that C had at most; what they drop all the same is noted. A model with more than
50 degrees of freedom takes fewer steps, in proportion: a pile of 125 bodies would take an hour on a CPU.
"""

import contextlib
import dataclasses
import functools
import importlib.resources
import math
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip import mjcf, scenes
from stickslip.bench.experiment import MIN_STEPS, Experiment, Outcome, Score, Trial, problems
from stickslip.bench.report import style
from stickslip.bench.result import Result
from stickslip.errors import InputError, SceneError
from stickslip.parameters import parameter
from stickslip.physics.base import Physics

ALL = "all"
EVERY_MODEL = "every model"
"""The case that counts the others."""
FAST = 1e3
"""Largest velocity that is never called too large [m/s, rad/s]."""
TIMES = 10.0
"""How many times the largest velocity in C may be exceeded."""
LARGE = 50
"""Degrees of freedom from which on a model takes fewer steps."""
LATER = ("push-t", "patch-spin", "eccentric-box", "bar-pinch", "edge-grip")
"""Scenes that are younger than the stored runs: not among `all` until those are run again."""
BLOWS_UP = "velocities beyond the bound: it blows up"


@dataclasses.dataclass(frozen=True)
class Settings:
    models: tuple[str, ...] = parameter(
        (ALL,),
        "scenes, model files or files of mujoco_warp's test_data; all: every one, without the youngest scenes; a "
        "folder, such as a checkout of MuJoCo Menagerie: every model in it and below",
    )
    steps: int = parameter(10_000, "steps of a run, fewer for large models", low=MIN_STEPS, high=10_000_000)
    every: int = parameter(50, "steps between two commands", low=1, high=1_000_000)
    timestep: float = parameter(0.002, "length of a step [s]", low=1e-5, high=0.1)


@dataclasses.dataclass(frozen=True)
class Reference:
    """What MuJoCo in C did with a model.

    Attributes:
        sound: whether its state stayed finite, and below what MuJoCo calls too large
        speed: largest velocity of any joint at the end of any step [m/s, rad/s]
        ncon: most contacts
        nefc: most constraint rows
    """

    sound: bool
    speed: float
    ncon: int
    nefc: int

    @property
    def limit(self) -> float:
        """Largest velocity with which a model still counts as sound."""
        return max(FAST, TIMES * self.speed) if self.sound else FAST


def data_folder() -> pathlib.Path:
    """The folder with the models of MuJoCo Warp's tests."""
    return pathlib.Path(str(importlib.resources.files("mujoco_warp"))) / "test_data"


@functools.cache
def every_model() -> tuple[str, ...]:
    """Every built-in scene, and every file of MuJoCo Warp's tests that is a whole model in which something moves.

    Models with plugins are left out: MuJoCo Warp leaves it to its user to write what those do.
    """
    found = [name for name in scenes.names() if name not in LATER]
    for path in moving_models(data_folder()):
        name = path.relative_to(data_folder()).as_posix()
        if not load(name).nplugin:
            found.append(name)
    return tuple(found)


def moving_models(folder: pathlib.Path) -> list[pathlib.Path]:
    """Every file in a folder, or below, that is a whole model in which something moves."""
    found = []
    for path in sorted(path for path in folder.rglob("*.xml") if path.is_file()):
        with contextlib.suppress(SceneError):  # a part of another model, or one whose meshes are not there
            if load(str(path)).nv:
                found.append(path)
    return found


def expanded(models: Sequence[str]) -> tuple[str, ...]:
    """The models with every one named in the place of `all` and of folders."""
    found: list[str] = []
    for name in models:
        if name == ALL:
            found += every_model()
        elif pathlib.Path(name).is_dir():
            inside = moving_models(pathlib.Path(name))
            if not inside:
                raise InputError(f"models: no file in {name!r} is a whole model in which something moves; name another")
            found += map(str, inside)
        else:
            found.append(name)
    return tuple(found)


def load(name: str, timestep: float | None = None) -> mujoco.MjModel:
    """A model by its name among the settings."""
    path = data_folder() / name
    with _silenced():
        return mjcf.load(path if path.is_file() else name, timestep=timestep)


@contextlib.contextmanager
def _silenced() -> Iterator[None]:
    """Keep MuJoCo from printing what it warns of, and from writing it into a file: models that break are expected."""
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(None)


def steps_of(mjm: mujoco.MjModel, settings: Settings) -> int:
    """How many steps a model takes."""
    return max(MIN_STEPS, settings.steps * LARGE // max(mjm.nv, LARGE))


def commands(mjm: mujoco.MjModel, settings: Settings, seed: int) -> NDArray[np.float64]:
    """The controls of a run, (commands, nu)."""
    limited = mjm.actuator_ctrllimited.astype(bool)
    low, high = (
        np.where(limited, bound, one) for bound, one in zip(mjm.actuator_ctrlrange.T, (-1.0, 1.0), strict=True)
    )
    return np.random.default_rng(seed).uniform(low, high, (-(-steps_of(mjm, settings) // settings.every), mjm.nu))


@functools.lru_cache(maxsize=2)
def in_c(name: str, settings: Settings, seed: int) -> Reference:
    """Run a model with MuJoCo in C; kept for the next physics."""
    mjm = load(name, settings.timestep)
    mjm.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
    mjd = mujoco.MjData(mjm)
    if mjm.nkey:
        mujoco.mj_resetDataKeyframe(mjm, mjd, 0)
    control = commands(mjm, settings, seed)
    speed, ncon, nefc = 0.0, 0, 0
    with _silenced():
        for step in range(steps_of(mjm, settings)):
            mjd.ctrl[:] = control[step // settings.every]
            mujoco.mj_step(mjm, mjd)
            now = np.abs(mjd.qvel).max()
            if not now <= mujoco.mjMAXVAL:
                return Reference(False, speed, ncon, nefc)
            speed, ncon, nefc = max(speed, float(now)), max(ncon, mjd.ncon), max(nefc, mjd.nefc)
    return Reference(bool(np.isfinite(mjd.qpos).all()), speed, ncon, nefc)


class Robust(Experiment[Settings]):
    name = "robust"
    summary = "every scene and every model of MuJoCo Warp's tests under random controls: which stay finite and sane"
    source = "stickslip; models of MuJoCo Warp"
    settings = Settings
    quick = {"models": ("hand", "stack"), "steps": 60, "every": 20}

    def make_settings(
        self, given: Mapping[str, Any] | None = None, *, quick: bool = False, device: str | None = None
    ) -> Settings:
        """As in `Experiment`, but with every model named in the place of "all" and folders: results store them."""
        made = super().make_settings(given, quick=quick, device=device)
        return dataclasses.replace(made, models=expanded(made.models))

    def cases(self, settings: Settings) -> Mapping[str, str | None]:
        if len(set(settings.models)) < len(settings.models):
            raise InputError(f"models has one twice: {', '.join(settings.models)}; name each once")
        return {**{name: name for name in settings.models}, EVERY_MODEL: None}

    def measure(self, case: str | None, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        if case is None:
            return Outcome({})  # filled by `relate`
        mjm = load(case, settings.timestep)
        reference = in_c(case, settings, trial.seed)
        room = {"nconmax": 8 * reference.ncon + 64, "njmax": 2 * reference.nefc + 256}
        sim = trial.simulation(mjm, physics, **room)
        control, steps = commands(mjm, settings, trial.seed), steps_of(mjm, settings)
        speed, done, finite = 0.0, 0, True
        while done < steps and finite and speed <= reference.limit:
            if done % settings.every == 0:
                sim.ctrl = control[done // settings.every]
                trial.progress(done / steps)
            sim.step()
            done += 1
            now = float(np.abs(sim.qvel.numpy()).max())
            finite = math.isfinite(now)
            speed = max(speed, now) if finite else speed
        health = sim.health()
        finite = finite and not health.nan_worlds
        sound = finite and speed <= reference.limit
        metrics = {
            "sound": float(sound),
            "finite": float(finite),
            "largest_speed": speed,
            "times_c": speed / reference.speed if reference.sound and reference.speed else math.nan,
            "survived_s": done * settings.timestep,
            "overflow": float(bool(health.overflow)),
            "sound_in_c": float(reference.sound),
            "largest_speed_in_c": reference.speed,
        }
        blown = [BLOWS_UP + ("" if reference.sound else ", in C too")] if finite and not sound else []
        return Outcome(metrics, problems=problems(sim) + blown)

    def relate(self, result: Result) -> None:
        for label in result.ran(EVERY_MODEL):
            models = [case for case in result.cases if result.has(label, case) and case != EVERY_MODEL]
            fair = [case for case in models if result.metric(label, case, "sound_in_c")]
            sound = [case for case in fair if result.metric(label, case, "sound")]
            result.outcomes[label][EVERY_MODEL]["metrics"] = {
                "sound": float(len(sound)),
                "broken": float(len(fair) - len(sound)),
                "not_finite": float(sum(not result.metric(label, case, "finite") for case in fair)),
                "broken_in_c": float(len(models) - len(fair)),
                "unsupported": float(len(result.unsupported(label))),
                "overflow": float(sum(result.metric(label, case, "overflow") for case in models)),
            }

    def scores(self, settings: Settings) -> Sequence[Score]:
        number = len(self.cases(settings)) - 1
        return [
            Score(f"models of {number} that break, though not in C", EVERY_MODEL, "broken", ""),
            Score(f"models of {number} that stay finite and do not blow up", EVERY_MODEL, "sound", "", "high"),
            Score(f"models of {number} that are not supported", EVERY_MODEL, "unsupported", ""),
        ]

    def draw(self, result: Result) -> Any:
        models = [case for case in result.cases if case != EVERY_MODEL]
        columns = 2 if len(models) > 8 else 1
        length = -(-len(models) // columns)
        title = "robust: largest velocity [m/s, rad/s] under random controls; C: MuJoCo in C"
        fig, axes = style.figure(title, 1, columns, width=13.0, height=1.0 + 0.24 * length)
        for index, ax in enumerate(axes[0]):
            _draw_table(ax, result, models[index * length : (index + 1) * length])
        style.legend(fig, axes)
        return fig


SHADES = {
    "sound": "#d8eee0",
    "sound, but contacts were dropped": "#f6ecc4",
    "blows up": "#f2b79f",
    "no longer finite": "#d9705f",
    "not supported": "#e3e7ea",
    "not run": "#ffffff",
}
"""Colour of each fate of a model."""


def _fate(result: Result, label: str, case: str) -> tuple[str, str]:
    """What became of a model, and what to write."""
    if not result.has(label, case):
        return ("not supported", "–") if case in result.unsupported(label) else ("not run", "")
    speed = style.number(result.metric(label, case, "largest_speed"))
    if not result.metric(label, case, "finite"):
        return "no longer finite", "×"
    if not result.metric(label, case, "sound"):
        return "blows up", speed
    return ("sound, but contacts were dropped" if result.metric(label, case, "overflow") else "sound"), speed


def _fate_in_c(result: Result, case: str) -> tuple[str, str]:
    for label in result.ran(case):
        speed = style.number(result.metric(label, case, "largest_speed_in_c"))
        return ("sound", speed) if result.metric(label, case, "sound_in_c") else ("blows up", "×")
    return "not run", ""


def _draw_table(ax: Any, result: Result, models: Sequence[str]) -> None:
    """A row a model, a column a method, in the colour of what became of it."""
    labels = list(result.methods)
    fates = [[*(_fate(result, label, case) for label in labels), _fate_in_c(result, case)] for case in models]
    for row, line in enumerate(fates):
        for column, (fate, text) in enumerate(line):
            ax.barh(row, 0.96, 0.9, left=column - 0.48, color=SHADES[fate], label=fate)
            ax.text(column, row, text, ha="center", va="center", fontsize=7.5, color=style.INK)
    ax.set_xticks(range(len(labels) + 1), [*map(style.short, labels), "C"])
    ax.xaxis.tick_top()
    ax.set_yticks(range(len(models)), [case.removesuffix(".xml") for case in models])
    ax.set_ylim(len(models) - 0.5, -0.5)
    ax.grid(False)
