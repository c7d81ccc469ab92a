"""`seven-tests`: seven motions of one rigid body whose exact course is known.

A box and a bunny are pushed over a plane, turned on one without friction, and let go on a slope near the angle of
friction; a rod pushes the box off its middle. After 10 s the error of a force has been integrated twice, so that little
passes unseen: one percent of friction is 2 m in the first test.

What the paper leaves open, and where we deviate from it:

- Runs differ by noise in the initial velocity. Without friction the exact answer takes it along; with friction it moves
  the exact answer by some 1 mm in 10 s. The pushed box is also run without noise, for comparison with the
  paper: a body that hops can do so evenly as long as nothing disturbs it, and then its errors cancel.
- The paper's rod is pushed with 0.1 N, which cannot move a box that takes 15.7 N to move. Ours is led along a way, with
  an acceleration so low that inertia does not count.
- A physics that knows no joints gets a rod that is moved by hand.
- The rod has two references (see `pushing`): even pressure under the box, and a box on its corners, which turns more
  slowly. Physics that give it four contacts have the second; its figures begin with `corner_`. The rod also pushes
  above the ground, which shifts the pressure to the front; neither reference knows of it.
- The error of the pushed box grows until the rod slips off, so that it must not be read near that. It is the root mean
  square over the first half of the push: from the first touch to half of the rod's way until the first of the two
  references loses the box. A physics that loses the box earlier has no such figure.
- A box that is pushed in its middle stands on a knife's edge: any error grows e-fold every few centimetres until the
  rod slips off. When that happens tells something, the error does not, so that time is its score.
- The bunny stands on a face of its convex hull, 1 degree from upright. Its reference assumes that it keeps this pose,
  although it may rock a little on the small faces around that one without the physics being wrong. Under a torque it
  turns with the inertia of the solid bunny (even density, not its hull) about the vertical through its centre of mass
  in that pose, which is the inertia that MuJoCo's model of it has.
- A body that has tumbled may lie anyhow: the angle between two orientations is at most 180 degrees and tells no more
  than that. Of the bunny that is pushed or slides, its way and the share of runs in which it tumbled are scored.
- Rotation is compared as orientation; where a torque acts, as the angle about the vertical with whole turns counted.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from stickslip import mjcf
from stickslip.bench import contenders, motion, pushing, series, style
from stickslip.bench.experiment import Experiment, Outcome, Reported, Score, Trial, problems, setting, state_of
from stickslip.bench.result import Result
from stickslip.errors import InputError, Unsupported
from stickslip.physics.base import Physics
from stickslip.scenes import bunny, rod_push
from stickslip.scenes.mesh import missing_bunny
from stickslip.simulation import Simulation

Kind = Literal["push", "torque", "slope", "rod", "sweep"]
Array = NDArray[np.float64]

REACH = 0.1
"""Of the bunny from its centre of mass, about [m]."""
START = 0.06
"""From the rod's axis to the box's face at the start [m]."""
STRAY = 1e-4
"""How far the rod may be from the way it is told [m]."""
TUMBLED = 45.0
"""Tilt from which a body counts as tumbled [deg]."""


@dataclasses.dataclass(frozen=True)
class Settings:
    tests: tuple[int, ...] = setting((1, 2, 3, 4, 5, 6, 7), "which of the seven", low=1, high=7)
    mass: float = setting(4.0, "mass of the box [kg]", low=1e-3, high=1e3)
    half: float = setting(0.1, "half of the box's side [m]", low=0.005, high=1.0)
    mesh: str = setting(
        "auto",
        "bunny; stand-in: a shape of our own in its place; auto: the bunny, or its stand-in where it cannot be read",
    )
    mu: float = setting(0.4, "coefficient of friction, but for the torques, which turn without any", low=0.0, high=5.0)
    box_force: float = setting(17.0, "force on the box [N]", low=0.0, high=1e4)
    bunny_force: float = setting(10.0, "force on the bunny [N]", low=0.0, high=1e4)
    torque: float = setting(0.01, "torque on box and bunny [N m]", low=0.0, high=100.0)
    slope: float = setting(math.pi / 8, "angle of the slope [rad]", low=0.0, high=1.2)
    acceleration: float = setting(0.05, "of the rod [m/s^2]; the paper's rod is given a force", low=1e-4, high=1.0)
    offsets: tuple[float, ...] = setting((0.0, 0.01), "of the rod from the box's middle [m]", low=-0.1, high=0.1)
    runs: int = setting(3, "runs with different noise", low=1, high=1000)
    noise: float = setting(1e-4, "standard deviation of the initial velocity at the body's rim [m/s]", low=0, high=1.0)
    duration: float = setting(10.0, "simulated time [s]", low=0.01, high=100.0)
    timestep: float = setting(0.001, "length of a step [s]", low=1e-5, high=0.1)
    other_timesteps: tuple[float, ...] = setting(
        (0.002, 0.01), "lengths of a step at which the seven are run once more [s]", low=1e-5, high=0.1
    )
    sweep_mu: tuple[float, ...] = setting((0.1, 0.2, 0.3, 0.4, 0.5), "friction in the sweep of test 1", low=0, high=5)
    sweep_forces: tuple[float, ...] = setting(
        (20.0, 25.0, 30.0, 40.0, 50.0), "force in the sweep of test 1 [N]", low=0.0, high=1e4
    )


@dataclasses.dataclass(frozen=True)
class Case:
    """What is done to which body.

    Attributes:
        kind: "sweep" is a push with another force in every world
        body: "box", "bunny" or "stand-in"
        mu: coefficient of friction
        value: force, torque, angle of the slope, or offset of the rod
        timestep: length of a step [s]
        noise: of the initial velocity
    """

    kind: Kind
    body: str
    mu: float
    value: float
    timestep: float
    noise: bool = True


def _mesh(settings: Settings) -> str:
    """Which of the two meshes it is."""
    if settings.mesh == "auto":
        return "bunny" if missing_bunny() is None else "stand-in"
    if settings.mesh not in ("bunny", "stand-in"):
        raise InputError(f"mesh is {settings.mesh!r}: it must be bunny, stand-in or auto")
    return settings.mesh


def _label(number: int, settings: Settings) -> str:
    """The label of one of the tests 1 to 6."""
    body = "box" if number <= 3 else _mesh(settings)
    return f"{number} " + (f"pushed {body}", f"{body} with torque", f"{body} on slope")[(number - 1) % 3]


def _calm_label(settings: Settings) -> str:
    return f"{_label(1, settings)}, no noise"


def _rod_label(offset: float) -> str:
    return f"7 rod, {1e3 * offset:g} mm off" if offset else "7 rod, centred (unstable)"


def _sweep_label(mu: float) -> str:
    return f"sweep, mu {mu:g}"


def _step_label(label: str, timestep: float) -> str:
    """The label of a test at another step length."""
    return f"{label}, {series.tick(timestep)}"


def _other_timesteps(settings: Settings) -> list[float]:
    return [timestep for timestep in settings.other_timesteps if timestep != settings.timestep]


def _off_centre(settings: Settings) -> list[float]:
    """The offset of the rod whose error is scored; empty if the rod only pushes in the middle."""
    return [offset for offset in settings.offsets if offset][:1]


@functools.lru_cache(maxsize=32)
def _path(push: pushing.Push, travel: float) -> pushing.Path:
    return pushing.pushed(push, travel)


class SevenTests(Experiment[Settings]):
    name = "seven-tests"
    summary = "a box and a bunny that are pushed, turned or sliding, and a rod that pushes: error after 10 s"
    source = "Physically Accurate Rigid-Body Dynamics in Particle-Based Simulation, Tables I and II, Figs. 3, 7 and 8"
    settings = Settings
    extra = (contenders.PAPER,)
    quick = {
        "tests": (1, 5, 7),
        "mesh": "stand-in",
        "duration": 0.05,
        "offsets": (0.01,),
        "sweep_mu": (0.4,),
        "sweep_forces": (20.0, 40.0),
        "other_timesteps": (0.01,),
    }

    def make_settings(
        self, given: Mapping[str, Any] | None = None, *, quick: bool = False, device: str | None = None
    ) -> Settings:
        """As in `Experiment`, but with the mesh there is in the place of "auto", so that results store which it was."""
        made = super().make_settings(given, quick=quick, device=device)
        return dataclasses.replace(made, mesh=_mesh(made))

    def cases(self, settings: Settings) -> Mapping[str, Case]:
        found: dict[str, Case] = {}
        step = settings.timestep
        for number in (n for n in range(1, 7) if n in settings.tests):
            kind: Kind = ("push", "torque", "slope")[(number - 1) % 3]
            body = "box" if number <= 3 else _mesh(settings)
            force = settings.box_force if body == "box" else settings.bunny_force
            value = {"push": force, "torque": settings.torque, "slope": settings.slope}[kind]
            found[_label(number, settings)] = Case(kind, body, 0.0 if kind == "torque" else settings.mu, value, step)
        if 7 in settings.tests:
            found |= {_rod_label(offset): Case("rod", "box", settings.mu, offset, step) for offset in settings.offsets}
        scored = {label: case for label, case in found.items() if label != _rod_label(0.0)}
        if 1 in settings.tests:
            found[_calm_label(settings)] = Case("push", "box", settings.mu, settings.box_force, step, noise=False)
            found |= {_sweep_label(mu): Case("sweep", "box", mu, math.nan, step) for mu in settings.sweep_mu}
        for other in _other_timesteps(settings):
            found |= {_step_label(label, other): dataclasses.replace(c, timestep=other) for label, c in scored.items()}
        return found

    def measure(self, case: Case, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        if case.kind == "rod":
            return _measure_rod(case, physics, settings, trial)
        return _measure_body(case, physics, settings, trial)

    def scores(self, settings: Settings) -> Sequence[Score]:
        after, mesh = f"after {settings.duration:g} s", _mesh(settings)
        way, turn = "position_error_m", "rotation_error_deg"
        rows = [
            (1, Score(f"pushed box, error of its way {after}", _label(1, settings), way, "m")),
            (1, Score(f"pushed box without noise, error of its way {after}", _calm_label(settings), way, "m")),
            (3, Score(f"box on slope, error of its way {after}", _label(3, settings), way, "m")),
            (4, Score(f"pushed {mesh}, error of its way {after}", _label(4, settings), way, "m")),
            (4, Score(f"pushed {mesh}, runs in which it tumbled", _label(4, settings), "tumbled", "%")),
            (6, Score(f"{mesh} on slope, error of its way {after}", _label(6, settings), way, "m")),
            (6, Score(f"{mesh} on slope, runs in which it tumbled", _label(6, settings), "tumbled", "%")),
        ]
        for offset in _off_centre(settings):
            title = f"box pushed by a rod {1e3 * offset:g} mm off its middle, error of its way over half of the push"
            label = _rod_label(offset)
            rows += [
                (7, Score(f"{title}, against even pressure under it", label, way, "m", absent="lost")),
                (7, Score(f"{title}, against support on its corners", label, f"corner_{way}", "m", absent="lost")),
            ]
        if 0.0 in settings.offsets:
            kept = f"time until the box is lost (an exact push keeps it to the end, {settings.duration:g} s)"
            title = f"box pushed by a rod in its middle, which is unstable: {kept}"
            rows.append((7, Score(title, _rod_label(0.0), "lost_s", "s", best="high")))
        rows += [
            (2, Score(f"box with torque, error of its rotation {after}", _label(2, settings), turn, "deg")),
            (5, Score(f"{mesh} with torque, error of its rotation {after}", _label(5, settings), turn, "deg")),
        ]
        for step in _other_timesteps(settings):
            for number in (1, 3, 4, 6):
                label = _step_label(_label(number, settings), step)
                rows.append((number, Score(f"{label[2:]}, error of its way {after}", label, way, "m")))
            for offset in _off_centre(settings):
                label = _step_label(_rod_label(offset), step)
                title = f"box pushed by a{label[1:]}, error of its way against even pressure"
                rows.append((7, Score(title, label, way, "m", absent="lost")))
        return [row for number, row in rows if number in settings.tests]

    def reported(self, result: Result) -> Sequence[Reported]:
        settings = self.make_settings(result.settings)
        if settings != Settings(mesh=settings.mesh):
            return ()  # the paper's figures belong to its settings

        def ours(case: str, *wanted: tuple[str, str]) -> str:
            def told(contender: str) -> str:
                return ", ".join(f"{style.number(result.figure(contender, case, name))} {u}" for name, u in wanted)

            return "; ".join(f"{contender} {told(contender)}" for contender in result.ran(case))

        rows = [
            Reported(
                "1 pushed box without noise: error of position after 10 s",
                "only bars; the authors' model of it in MuJoCo (in C, elliptic cone), run by us: 0.0192 m",
                ours(_calm_label(settings), ("position_error_m", "m")),
            ),
        ]
        if settings.mesh == "bunny":
            for label, where in ((_label(4, settings), "Fig. 8 and text"), (_label(6, settings), "text")):
                seen = ours(label, ("tumbled", "% of runs"), ("tilt_deg", "deg"))
                rows.append(Reported(f"{label}: tumbled, largest tilt", f"MuJoCo tumbles ({where})", seen))
        return rows

    def draw(self, result: Result) -> Any:
        from stickslip.bench import seven_tests_picture

        return seven_tests_picture.draw(result, self.make_settings(result.settings))


def _noise(case: Case, settings: Settings, trial: Trial, worlds: int, size: float) -> Array:
    """Initial velocities (worlds, 6): linear and, for a body that reaches `size` m from its middle, angular ones."""
    scale = settings.noise if case.noise else 0.0
    return scale * trial.random().normal(size=(worlds, 6)) / np.repeat([1.0, size], 3)


def _centre_of_mass(sim: Simulation, qpos: Array) -> Array:
    """Of the first body, (..., 3), from positions (..., nq)."""
    return qpos[..., :3] + motion.rotate(qpos[..., 3:7], np.broadcast_to(sim.mjm.body_ipos[1], (*qpos.shape[:-1], 3)))


def _measure_body(case: Case, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
    """Tests 1 to 6 and the sweep: a body under a constant force or torque, or on a slope."""
    sweep, box = case.kind == "sweep", case.body == "box"
    angle = case.value if case.kind == "slope" else 0.0
    given = f"angle={angle!r},mu={case.mu!r}"
    if box:
        scene = f"pushed-box:{given},mass={settings.mass!r},half={settings.half!r}"
        mass, inertia = settings.mass, motion.box_inertia(settings.mass, settings.half) * np.eye(3)
    else:
        which = bunny.BUNNY if case.body == "bunny" else bunny.STAND_IN
        scene = f"bunny:{given},mesh={which}"
        mass, inertia = bunny.MASS, bunny.shape(which).inertia(bunny.MASS)
    worlds = len(settings.sweep_forces) if sweep else settings.runs if case.noise else 1
    forces = np.array(settings.sweep_forces) if sweep else np.full(worlds, case.value)

    sim = trial.simulation(scene, physics, nworld=worlds, timestep=case.timestep)
    start = _noise(case, settings, trial, worlds, settings.half if box else REACH)
    sim.qvel = start
    applied = np.zeros((worlds, sim.mjm.nbody, 6))
    if case.kind != "slope":
        applied[:, 1, 5 if case.kind == "torque" else 0] = forces
    sim.xfrc_applied = applied
    track = trial.record(sim, round(settings.duration / case.timestep), state_of)

    time, qpos = track["time"], track["qpos"]
    way, yaw = np.zeros((len(time), worlds, 3)), np.zeros((len(time), worlds))
    if case.kind == "torque":
        # the plane holds the body upright and takes none of its angular momentum about the vertical
        yaw = (
            motion.turned(case.value, inertia[2, 2], time)[:, None]
            + np.outer(time, start[:, 3:] @ inertia[2]) / inertia[2, 2]
        )
        way[..., :2] = time[:, None, None] * start[:, :2]
    elif case.kind == "slope":
        way[:] = motion.down_slope(angle, case.mu, time)[:, None, None] * [math.cos(angle), 0.0, -math.sin(angle)]
    else:
        way[..., 0] = np.stack([motion.pushed(force, case.mu, mass, time) for force in forces], axis=1)
    centre = _centre_of_mass(sim, qpos)
    off = np.linalg.norm(centre - centre[0] - way, axis=-1)
    turn = motion.product(motion.inverse(qpos[0, :, 3:7]), qpos[..., 3:7])  # in the body's own frame
    about = np.abs(motion.unwrapped(motion.twist_of(turn)) - yaw)
    wrong = about if case.kind == "torque" else motion.angle_of(turn)
    tilt = np.degrees(motion.tilt_of(turn)).max(axis=0)
    figures = {
        **_errors(off[-1], wrong[-1]),
        "tilt_deg": tilt.max(),
        "tumbled": 100.0 * np.where(np.isfinite(tilt), tilt > TUMBLED, np.nan).mean(),
        "expected_m": np.linalg.norm(way[-1], axis=-1).mean(),
        "expected_deg": math.degrees(yaw[-1].mean()),
    }
    if sweep:
        last = {"position_error_m": off[-1], "rotation_error_deg": np.degrees(wrong[-1])}
        return Outcome(figures, {"force": forces, **last}, problems(sim))
    return Outcome(figures, {"time": time, **_courses(off, wrong)}, problems(sim))


def _measure_rod(case: Case, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
    """Test 7: a rod led along x pushes the box."""
    push = pushing.Push(
        half=settings.half,
        radius=rod_push.RADIUS,
        distance=settings.half + START,
        offset=case.value,
        mu=case.mu,
        ratio=pushing.patch_ratio(settings.half),
    )
    sim, time, qpos, rod = _rod_track(case, push, physics, settings, trial)
    travel = 0.5 * settings.acceleration * time**2
    paths = {
        "": _path(push, float(travel[-1])),
        "corner_": _path(dataclasses.replace(push, ratio=pushing.corner_ratio(settings.half)), float(travel[-1])),
    }
    scored = pushing.first_half(travel, push, min(path.lost for path in paths.values()))
    since, until = time[scored][[0, -1]]
    lost = np.array([_lost(qpos[:, world], rod[:, world], time, push) for world in range(settings.runs)])
    stray = float(np.abs(rod - travel[:, None]).max())
    found = problems(sim)
    if stray > STRAY:
        found.append(f"the rod strayed {1e3 * stray:.3g} mm from its way: what it pushed is not the reference's")
    figures = {
        "tilt_deg": np.degrees(motion.tilt_of(qpos[..., 3:7])).max(),
        "scored_from_s": since,
        "scored_until_s": until,
        "lost_s": lost.mean(),
        "stray_mm": 1e3 * stray,
    }
    poses = {"seen_": _flat(qpos[:, 0])}
    courses = {"time": time}
    for name, path in paths.items():
        off, wrong = _rod_errors(sim, qpos, path.at(travel), settings)
        over = [np.where(lost >= until, np.sqrt((each[scored] ** 2).mean(axis=0)), math.nan) for each in (off, wrong)]
        figures |= {name + key: value for key, value in _errors(*over).items()}
        figures[f"{name}reference_lost_s"] = min(math.sqrt(2.0 * path.lost / settings.acceleration), settings.duration)
        courses |= {name + key: values for key, values in _courses(off, wrong).items()}
        poses[name or "even_"] = path.at(travel)
    for name, pose in poses.items():
        courses |= {f"{name}x": pose[:, 0], f"{name}y": pose[:, 1], f"{name}deg": np.degrees(pose[:, 2])}
    return Outcome(figures, courses, found)


def _rod_track(
    case: Case, push: pushing.Push, physics: Physics[Any, Any], settings: Settings, trial: Trial
) -> tuple[Simulation, Array, Array, Array]:
    """Test 7 simulated, and its course: time (n,), positions (n, worlds, nq), way of the rod (n, worlds) [m]."""
    given = f"mu={case.mu!r},offset={push.offset!r},distance={push.distance!r}"
    scene = f"rod-push:{given},mass={settings.mass!r},half={settings.half!r}"
    by_hand = not _has_joints(physics, scene)
    sim = trial.simulation(f"{scene},mocap={int(by_hand)}", physics, nworld=settings.runs, timestep=case.timestep)
    noise = _noise(case, settings, trial, settings.runs, settings.half)
    sim.qvel = np.pad(noise, ((0, 0), (0, sim.mjm.nv - 6)))
    start = sim.mocap_pos.numpy().copy() if by_hand else np.zeros(3)

    def lead(index: int) -> None:
        now = index * case.timestep
        if by_hand:  # a step ends where the hand is
            sim.mocap_pos = start + [0.5 * settings.acceleration * (now + case.timestep) ** 2, 0.0, 0.0]
            return
        target = 0.5 * settings.acceleration * now**2
        sim.ctrl = [rod_push.command(target, settings.acceleration * now, settings.acceleration)]

    def sample(sim: Simulation) -> dict[str, Array]:
        state = state_of(sim)
        rod = (sim.mocap_pos.numpy() - start)[:, 0, 0] if by_hand else state["qpos"][:, 7]
        return {**state, "rod": rod}

    track = trial.record(sim, round(settings.duration / case.timestep), sample, before=lead)
    return sim, track["time"], track["qpos"], track["rod"]


def _has_joints(physics: Physics[Any, Any], scene: str) -> bool:
    """Whether a physics can lead the rod by its servo."""
    try:
        physics.check(mjcf.load(scene))
    except Unsupported:
        return False
    return True


def _rod_errors(sim: Simulation, qpos: Array, pose: pushing.Pose, settings: Settings) -> tuple[Array, Array]:
    """Error of the position [m] and of the orientation [rad], (n, worlds), against a course (n, 3)."""
    centre = _centre_of_mass(sim, qpos)
    expected = np.insert(pose[:, :2], 2, settings.half, axis=1)
    off = np.linalg.norm(centre - expected[:, None], axis=-1)
    return off, motion.angle_of(motion.product(motion.inverse(motion.yaw(pose[:, None, 2])), qpos[..., 3:7]))


def _flat(qpos: Array) -> pushing.Pose:
    """x, y and yaw of the box in time, (n, 3), from positions (n, nq)."""
    return np.concatenate([qpos[:, :2], motion.unwrapped(motion.twist_of(qpos[:, 3:7]))[:, None]], axis=1)


def _lost(qpos: Array, way: Array, time: Array, push: pushing.Push) -> float:
    """When rod and box part [s]; the last time if they do not. Positions (n, nq), way of the rod (n,) [m]."""
    if not np.isfinite(qpos).all():
        return math.nan
    rod = np.stack([way - push.distance, np.full(len(qpos), push.offset)], axis=1)
    parted = pushing.parted(_flat(qpos), rod, push)
    return float(time[-1 if parted is None else parted])


def _errors(off: Array, wrong: Array) -> dict[str, float]:
    """Mean and spread over runs of the errors of position [m] and orientation [rad], (worlds,)."""
    degrees = np.degrees(wrong)
    return {
        "position_error_m": float(off.mean()),
        "position_error_std_m": float(off.std()),
        "rotation_error_deg": float(degrees.mean()),
        "rotation_error_std_deg": float(degrees.std()),
    }


def _courses(off: Array, wrong: Array) -> dict[str, Array]:
    return {"position_error_m": off.mean(axis=1), "rotation_error_deg": np.degrees(wrong).mean(axis=1)}
