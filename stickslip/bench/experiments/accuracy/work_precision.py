"""`work-precision`: what a simulated second costs, against the error it has, the depth it allows and the work it takes.

A physics of fixed steps is made precise by its time step, one with error control by its accuracy. So a case is a scene
and a level, and a level is both: "hard-clutter, 5 ms or 1e-3". A physics with a parameter `accuracy` takes the
accuracy, and reports every `interval`; every other one takes the time step. A level pairs what is usual, not what is
equal: compare the lines in the picture, not the points.

Wall time is taken over the whole run, a stretch at a time, and nothing else happens in what is timed: a stretch ends
where somebody looks at the contacts, and worlds wait for each other. Where looks are more seldom than every `sample`,
peaks would be missed; there the run is made once more, untimed, with a look that often, and the deeper of the two
counts. Neither sees all: under error control looks cut steps short, so that the second run is not quite the one that
was timed, and less deep at low accuracies.

The error is the distance of the body that is farthest from where it is in a reference run of the same physics, which
is of the same contact model: at `reference_timestep` or `reference_accuracy`. Clutter is chaotic, and compares for a
few tenths of a second. A physics whose contact depends on its time step converges to no motion, and keeps its error.

On a GPU the question is another: what does it cost to go no deeper? MuJoCo's contact is as soft as `solref` says: with
a time constant of 5 ms instead of 20 it goes about as deep as the bodies of the paper do, and needs steps of 2 ms or
less. In the second scene bodies are harder, and MuJoCo's contact as hard as steps of 2 ms let it be: no time constant
is shorter than two steps. Speeds compare where depths do, whatever the level.

Cylinder and gripper touch in patches (hydroelastic), as in the paper, which gives no modulus: shape and trend compare,
not digits. At 1e7 Pa the peg slips by 4 mm when the gripper lands, so that there is an error to see. Depths of points
and of patches do not compare; in these scenes none is taken, and the picture has iterations against error instead. A
physics without patches has its own points there.

Physics that solve islands of touching bodies by themselves count an iteration of one by its share of the dofs; those of
Drake, and of the paper, are of the whole world.

In many worlds each but the first starts with velocities of its own, and a metric is the mean over the worlds of the
worst in each.
"""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.bench import methods, timing
from stickslip.bench.baselines import drake
from stickslip.bench.baselines.drake_plant import hydroelastic
from stickslip.bench.experiment import Experiment, Outcome, Reported, Score, Trial, problems
from stickslip.bench.experiments.accuracy.work_precision_cases import PAPER, Case, Scene, Settings, level, parse, power
from stickslip.bench.report import style
from stickslip.bench.result import Result
from stickslip.errors import InputError
from stickslip.physics.base import CountingPhysics, Physics
from stickslip.simulation import Simulation

Array = NDArray[np.float64]

COUNTED = ("steps", "rejections", "iterations", "factorizations")
"""Of `Stats`, the metrics of a physics that counts."""
TRACE = 100_000
"""Steps to remember where they are drawn."""
ITERATIONS = {1e-1: 4015, 1e-2: 9973, 1e-3: 19235, 1e-4: 39537, 1e-5: 95839}
"""Of Newton's method in hard clutter by accuracy, with factors kept: Table II."""
WORK = {
    (True, False): (499, 16624, 16624),
    (True, True): (510, 10557, 19235),
    (False, False): (1000, 3980, 3980),
    (False, True): (1000, 2293, 6068),
}
"""Steps, factorizations, iterations, by error control (1e-3, else 10 ms) and whether factors are kept: Table III."""


@dataclasses.dataclass(frozen=True)
class Run:
    """What a run gave.

    Attributes:
        seconds: wall time of each stretch                                    (stretches,)
        contacts: over all worlds, at the end of each                         (stretches,)
        deepest: deepest contact of each world at any of these moments, mm; NaN if nothing touched   (worlds,)
        early: positions of all bodies at the moment of comparison, m         (worlds, bodies, 3)
    """

    seconds: Array
    contacts: Array
    deepest: Array
    early: Array


def changed(physics: Physics[Any, Any], **parameters: Any) -> Physics[Any, Any]:
    """A physics with other parameters."""
    return dataclasses.replace(physics, **parameters)  # type: ignore[type-var]


class WorkPrecision(Experiment[Settings]):
    name = "work-precision"
    summary = "wall time and iterations against error and depth, of clutter in a bin, a falling cylinder and a gripper"
    source = (
        "CENIC: Convex Error-controlled Numerical Integration for Contact, Figs. 6, 9, 10 and 17, Tables II and III"
    )
    settings = Settings
    cpu = {
        "scenes": (
            PAPER,
            "cylinder:modulus=1e7 for 1 compared at 0.5",
            "gripper:modulus=1e7 for 0.5 compared at 0.2",
        ),
        "timesteps": (0.01, 0.005, 0.002),
        "accuracies": (1e-2, 1e-3, 1e-4),
        "stretch": 0.01,
        "sample": 0.01,
        "reference_timestep": 2e-4,
        "reference_accuracy": 1e-6,
        "worlds": 1,
    }
    quick = {
        "scenes": ("soft-clutter:layers=1 for 0.2 compared at 0.1",),
        "timesteps": (0.01, 0.005),
        "accuracies": (1e-2, 1e-3),
        "stretch": 0.01,
        "sample": 0.01,
        "reference_timestep": 0.001,
        "reference_accuracy": 1e-4,
        "trace": 0.2,
        "worlds": 2,
    }
    extra = (drake.Drake.name,) if drake.installed() else ()
    timing = True

    def __init__(self) -> None:
        self._references: dict[Any, Array] = {}
        """Positions of reference runs: one serves all levels of a scene."""

    def cases(self, settings: Settings) -> Mapping[str, Case]:
        if len(settings.timesteps) != len(settings.accuracies):
            raise InputError(
                f"there are {len(settings.timesteps)} timesteps and {len(settings.accuracies)} accuracies: "
                "a level is one of each"
            )
        scenes = [parse(text) for text in settings.scenes]
        levels = list(zip(settings.timesteps, settings.accuracies, strict=True))
        for scene in scenes:
            _check_times(scene, settings)
        found = {
            f"{scene.name}, {level(*each)}": Case(scene, *each, scene == scenes[0] and each == levels[len(levels) // 2])
            for scene in scenes
            for each in levels
        }
        if len(found) < len(scenes) * len(levels):
            raise InputError("a scene or a level is there twice: name each of scenes once, and each pair of levels")
        return found

    def measure(self, case: Case, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        scene = case.scene
        controlled = methods.has(physics, "accuracy")
        chosen = changed(physics, accuracy=case.accuracy) if controlled else physics
        reference = self._reference(scene, physics, settings, trial)
        deepest = np.full(settings.worlds, np.nan)
        timestep = settings.interval if controlled else case.timestep
        # error control can report as often as is asked for, fixed steps after each at the most
        shortest = min(settings.sample, timestep) if controlled else timestep
        if max(settings.sample, shortest) < max(settings.stretch, timestep):
            fine = trial.simulation(scene.name, chosen, nworld=settings.worlds, timestep=shortest)
            deepest = _run(fine, scene, settings.sample, settings, trial).deepest
            del fine
        sim = trial.simulation(scene.name, chosen, nworld=settings.worlds, timestep=timestep)
        timing.warm_up(sim, 1)
        runs = []
        for _ in range(settings.repeats):
            sim.reset()
            before = _counts(sim)
            runs.append(_run(sim, scene, settings.stretch, settings, trial))
        seconds, doubts = timing.fastest([run.seconds for run in runs], [run.contacts for run in runs])
        _, speed, energy = bodies_of(sim)
        patches = hydroelastic(sim.mjm)[:, 0].any()
        wall = seconds.sum() / scene.duration
        error = np.linalg.norm(runs[-1].early - reference, axis=2).max(axis=1)
        metrics = {
            "wall_s_per_sim_s": wall,
            "world_seconds_per_s": settings.worlds / wall,
            "error_mm": 1e3 * _mean(error),
            "deepest_mm": np.nan if patches else _mean(np.fmax(deepest, runs[-1].deepest)),
            "end_speed_mm_per_s": 1e3 * _mean(speed.max(axis=1)),
            "end_energy_j": _mean(energy),
            "contacts_per_world": runs[-1].contacts.mean() / settings.worlds,
            "steps": round(scene.duration / timestep),
            **{name: after - before[name] for name, after in _counts(sim).items()},
        }
        found = problems(sim) + doubts
        if not np.isfinite(reference).any():
            found.append("the reference run is no longer finite: there is nothing to hold positions against")
        metrics = timing.unless_diverged(sim, metrics)
        return Outcome(metrics, _trace(chosen, scene, settings, trial) if case.traced else {}, found)

    def _reference(self, scene: Scene, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Array:
        """Positions of all bodies at the moment of comparison, as precise as it gets, (worlds, bodies, 3)."""
        shared = (settings.worlds, settings.noise, settings.interval)
        precise = (settings.reference_timestep, settings.reference_accuracy)
        key = (scene, physics, shared, precise, trial.device, trial.seed)
        if key not in self._references:
            timestep = settings.reference_timestep
            if methods.has(physics, "accuracy"):
                physics, timestep = changed(physics, accuracy=settings.reference_accuracy), settings.interval
            sim = trial.simulation(scene.name, physics, nworld=settings.worlds, timestep=timestep)
            _scatter(sim, settings, trial)
            sim.step(round(scene.early / timestep))
            self._references[key] = bodies_of(sim)[0]
        return self._references[key]

    def relate(self, result: Result) -> None:
        timing.add_ratios(result, "wall_s_per_sim_s", "speedup")
        for case in result.cases:
            theirs = result.metric(drake.Drake.name, case, "wall_s_per_sim_s")
            for label in result.ran(case) if np.isfinite(theirs) else []:
                ratio = theirs / result.metric(label, case, "wall_s_per_sim_s")
                result.outcomes[label][case]["metrics"]["speedup_over_drake"] = ratio

    def scores(self, settings: Settings) -> Sequence[Score]:
        (label,) = [label for label, case in self.cases(settings).items() if case.traced]
        early = parse(settings.scenes[0]).early
        return [
            Score(f"wall time of a simulated second, {label}", label, "wall_s_per_sim_s", "s"),
            Score(f"deepest penetration, {label}", label, "deepest_mm", "mm", absent="no contact"),
            Score(f"position error after {early:g} s, {label}", label, "error_mm", "mm"),
        ]

    def reported(self, result: Result) -> Sequence[Reported]:
        settings = self.make_settings(result.settings)
        cases = [(label, case) for label, case in self.cases(settings).items() if case.scene == parse(PAPER)]
        rows = []
        for (controlled, kept), numbers in WORK.items():
            how = f"{'accuracy 1e-3' if controlled else 'steps of 10 ms'}, factors {'kept' if kept else 'not kept'}"
            what = f"steps, factorizations, iterations in 10 s of hard clutter, {how}"
            found = [c for c, case in cases if (case.accuracy == 1e-3 if controlled else case.timestep == 0.01)]
            ours = "; ".join(_work(result, label, c) for c in found for label in _who(result, c, controlled, kept))
            rows += [Reported(what, ", ".join(map(style.number, numbers)), ours)] if ours else []
        for label, case in cases:
            paper = ITERATIONS.get(case.accuracy)
            who = [c for kept in (True, False) for c in _who(result, label, True, kept)]
            ours = ", ".join(f"{style.short(c)} {style.number(result.metric(c, label, 'iterations'))}" for c in who)
            if paper and ours:
                what = f"iterations in 10 s of hard clutter, accuracy {power(case.accuracy)}"
                rows.append(Reported(what, style.number(paper), ours))
        return rows

    def draw(self, result: Result) -> Any:
        from stickslip.bench.experiments.accuracy import work_precision_picture

        return work_precision_picture.draw(result, self.make_settings(result.settings), self.cases)


def _check_times(scene: Scene, settings: Settings) -> None:
    """Raise InputError unless steps of every length end at the moments a run has to meet."""
    steps = [("timesteps", step) for step in settings.timesteps]
    steps += [(name, getattr(settings, name)) for name in ("interval", "reference_timestep")]
    for (name, step), moment in itertools.product(steps, (scene.early, scene.duration)):
        parts = moment / step
        if round(parts) < 1 or abs(parts - round(parts)) > 1e-6 * parts:
            raise InputError(
                f"{name} has {step:g} s, and {moment:g} s of {scene.name} is no multiple of it: change one"
            )


def bodies_of(sim: Simulation) -> tuple[Array, Array, Array]:
    """Of every world, positions (bodies, 3) and speeds of the centres of all moving bodies, and their energy.

    Shapes (worlds, bodies, 3) in m, (worlds, bodies) in m/s, (worlds,) in J; NaN where a state is not finite.
    """
    mjm = sim.mjm
    mjd = mujoco.MjData(mjm)
    moving = np.flatnonzero(mjm.body_weldid)
    states = [sim.qpos.numpy().astype(float), sim.qvel.numpy().astype(float)]
    position = np.full((sim.nworld, len(moving), 3), np.nan)
    speed, energy = np.full((sim.nworld, len(moving)), np.nan), np.full(sim.nworld, np.nan)
    for world, (qpos, qvel) in enumerate(zip(*states, strict=True)):
        if not np.isfinite(np.r_[qpos, qvel]).all():
            continue
        mjd.qpos[:], mjd.qvel[:] = qpos, qvel
        mujoco.mj_kinematics(mjm, mjd)
        mujoco.mj_comPos(mjm, mjd)
        mujoco.mj_comVel(mjm, mjd)
        twist = np.zeros((len(moving), 6))
        for row, body in zip(twist, moving, strict=True):
            mujoco.mj_objectVelocity(mjm, mjd, mujoco.mjtObj.mjOBJ_BODY, int(body), row, 1)
        position[world] = mjd.xipos[moving]
        speed[world] = np.linalg.norm(twist[:, 3:], axis=1)
        mass, inertia = mjm.body_mass[moving], mjm.body_inertia[moving]
        kinetic = 0.5 * (mass * speed[world] ** 2 + (inertia * twist[:, :3] ** 2).sum(axis=1))
        energy[world] = (kinetic - mass * (mjd.xipos[moving] @ mjm.opt.gravity)).sum()
    return position, speed, energy


def _mean(values: Array) -> float:
    """Over the worlds that have a value."""
    return float(np.nanmean(values)) if np.isfinite(values).any() else np.nan


def _scatter(sim: Simulation, settings: Settings, trial: Trial) -> None:
    """Give every world but the first velocities of its own."""
    if settings.worlds > 1:
        noise = trial.random().normal(0.0, settings.noise, (settings.worlds, sim.mjm.nv))
        noise[0] = 0.0
        sim.qvel = sim.qvel.numpy() + noise


def _run(sim: Simulation, scene: Scene, seconds: float, settings: Settings, trial: Trial) -> Run:
    """Run a scene from its start, timing stretches as long as that, or as a step; contacts are seen in between."""
    timestep = float(sim.mjm.opt.timestep)
    stretch = max(1, round(seconds / timestep))
    early, total = round(scene.early / timestep), round(scene.duration / timestep)
    deepest = np.full(settings.worlds, np.nan)
    positions = np.zeros(0)
    rows, done = [], 0
    _scatter(sim, settings, trial)
    with timing.undisturbed():
        while done < total:
            steps = min(stretch, (early if done < early else total) - done)
            took = timing.timed(sim, steps, trial)
            contacts = sim.contacts()
            touching = contacts.dist <= 0.0
            np.fmax.at(deepest, contacts.world[touching], -1e3 * contacts.dist[touching])
            rows.append((took, touching.sum()))
            done += steps
            if done == early:
                positions = bodies_of(sim)[0]
            trial.progress(done / total)
    times, number = np.array(rows, dtype=float).T
    return Run(times, number, deepest, positions)


def _counts(sim: Simulation) -> dict[str, float]:
    """What the physics has counted, a mean over the worlds; nothing but NaN, and no steps, if it does not count."""
    if not isinstance(sim.physics, CountingPhysics):
        return dict.fromkeys(COUNTED[1:], np.nan)
    stats = sim.physics.stats(sim.m, sim.d)
    return {name: float(np.mean(getattr(stats, name))) for name in COUNTED}


def _trace(physics: Physics[Any, Any], scene: Scene, settings: Settings, trial: Trial) -> dict[str, Array]:
    """When the steps of one world ended and how long they were [s], of a physics that remembers them."""
    if not methods.has(physics, "trace"):
        return {}
    sim = trial.simulation(scene.name, changed(physics, trace=TRACE), timestep=settings.interval)
    if not isinstance(sim.physics, CountingPhysics):
        return {}
    sim.step(max(1, round(min(settings.trace, scene.duration) / settings.interval)))
    ((time, dt),) = sim.physics.stats(sim.m, sim.d).trace
    return {"trace_s": np.asarray(time, dtype=float), "trace_dt_s": np.asarray(dt, dtype=float)}


def _who(result: Result, case: str, controlled: bool, kept: bool) -> list[str]:
    """The methods that counted their work, by whether they control their error and whether they keep factors."""

    def fits(label: str) -> bool:
        iterations, factors = (result.metric(label, case, name) for name in ("iterations", "factorizations"))
        parameters = result.methods[label].parameters
        counted = np.isfinite(iterations) and np.isfinite(factors)
        return bool(counted and ("accuracy" in parameters) == controlled and (factors < iterations) == kept)

    return [label for label in result.ran(case) if fits(label)]


def _work(result: Result, label: str, case: str) -> str:
    numbers = [style.number(result.metric(label, case, name)) for name in ("steps", "factorizations", "iterations")]
    return f"{style.short(label)} {', '.join(numbers)}"
