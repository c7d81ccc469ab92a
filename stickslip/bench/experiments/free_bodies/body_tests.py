"""A body that is pushed, turned or sliding, or that a rod pushes: the tests that `seven-tests` and others measure."""

import dataclasses
import functools
import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from stickslip import mjcf
from stickslip.bench.experiment import Outcome, Trial, problems, state_of
from stickslip.bench.references import motion, pushing
from stickslip.errors import InputError, Unsupported
from stickslip.parameters import parameter
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
"""Largest deviation of the rod from its commanded path [m]."""
TUMBLED = 45.0
"""Tilt from which a body counts as tumbled [deg]."""


@dataclasses.dataclass(frozen=True)
class Settings:
    tests: tuple[int, ...] = parameter((1, 2, 3, 4, 5, 6, 7), "which of the seven", low=1, high=7)
    mass: float = parameter(4.0, "mass of the box [kg]", low=1e-3, high=1e3)
    half: float = parameter(0.1, "half of the box's side [m]", low=0.005, high=1.0)
    mesh: str = parameter(
        "auto",
        "bunny; stand-in: a shape of our own in its place; auto: the bunny, or its stand-in where it cannot be read",
    )
    mu: float = parameter(
        0.4, "coefficient of friction, but for the torques, which turn without any", low=0.0, high=5.0
    )
    box_force: float = parameter(17.0, "force on the box [N]", low=0.0, high=1e4)
    bunny_force: float = parameter(10.0, "force on the bunny [N]", low=0.0, high=1e4)
    torque: float = parameter(0.01, "torque on box and bunny [N m]", low=0.0, high=100.0)
    slope: float = parameter(math.pi / 8, "angle of the slope [rad]", low=0.0, high=1.2)
    acceleration: float = parameter(0.05, "of the rod [m/s^2]; the paper's rod is given a force", low=1e-4, high=1.0)
    offsets: tuple[float, ...] = parameter((0.0, 0.01), "of the rod from the box's middle [m]", low=-0.1, high=0.1)
    runs: int = parameter(3, "runs with different noise", low=1, high=1000)
    noise: float = parameter(
        1e-4, "standard deviation of the initial velocity at the body's rim [m/s]", low=0, high=1.0
    )
    duration: float = parameter(10.0, "simulated time [s]", low=0.01, high=100.0)
    timestep: float = parameter(0.001, "length of a step [s]", low=1e-5, high=0.1)
    other_timesteps: tuple[float, ...] = parameter(
        (0.002, 0.01), "lengths of a step at which the seven are run once more [s]", low=1e-5, high=0.1
    )
    sweep_mu: tuple[float, ...] = parameter((0.1, 0.2, 0.3, 0.4, 0.5), "friction in the sweep of test 1", low=0, high=5)
    sweep_forces: tuple[float, ...] = parameter(
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


def mesh_of(settings: Settings) -> str:
    """Which of the two meshes it is."""
    if settings.mesh == "auto":
        return "bunny" if missing_bunny() is None else "stand-in"
    if settings.mesh not in ("bunny", "stand-in"):
        raise InputError(f"mesh is {settings.mesh!r}: it must be bunny, stand-in or auto")
    return settings.mesh


def measure(case: Case, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
    """Run one of the seven tests, or one entry of the sweep, with a physics."""
    if case.kind == "rod":
        return _measure_rod(case, physics, settings, trial)
    return _measure_body(case, physics, settings, trial)


@functools.lru_cache(maxsize=32)
def _path(push: pushing.Push, travel: float) -> pushing.Path:
    return pushing.pushed(push, travel)


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
    path, yaw = np.zeros((len(time), worlds, 3)), np.zeros((len(time), worlds))
    if case.kind == "torque":
        # the plane holds the body upright and takes none of its angular momentum about the vertical
        yaw = (
            motion.turned(case.value, inertia[2, 2], time)[:, None]
            + np.outer(time, start[:, 3:] @ inertia[2]) / inertia[2, 2]
        )
        path[..., :2] = time[:, None, None] * start[:, :2]
    elif case.kind == "slope":
        path[:] = motion.down_slope(angle, case.mu, time)[:, None, None] * [math.cos(angle), 0.0, -math.sin(angle)]
    else:
        path[..., 0] = np.stack([motion.pushed(force, case.mu, mass, time) for force in forces], axis=1)
    centre = _centre_of_mass(sim, qpos)
    off = np.linalg.norm(centre - centre[0] - path, axis=-1)
    turn = motion.product(motion.inverse(qpos[0, :, 3:7]), qpos[..., 3:7])  # in the body's own frame
    about = np.abs(motion.unwrapped(motion.twist_of(turn)) - yaw)
    wrong = about if case.kind == "torque" else motion.angle_of(turn)
    tilt = np.degrees(motion.tilt_of(turn)).max(axis=0)
    metrics = {
        **_errors(off[-1], wrong[-1]),
        "tilt_deg": tilt.max(),
        "tumbled": 100.0 * np.where(np.isfinite(tilt), tilt > TUMBLED, np.nan).mean(),
        "expected_m": np.linalg.norm(path[-1], axis=-1).mean(),
        "expected_deg": math.degrees(yaw[-1].mean()),
    }
    if sweep:
        last = {"position_error_m": off[-1], "rotation_error_deg": np.degrees(wrong[-1])}
        return Outcome(metrics, {"force": forces, **last}, problems(sim))
    return Outcome(metrics, {"time": time, **_courses(off, wrong)}, problems(sim))


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
        found.append(f"the rod strayed {1e3 * stray:.3g} mm from its path: what it pushed is not the reference's")
    metrics = {
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
        metrics |= {name + key: value for key, value in _errors(*over).items()}
        metrics[f"{name}reference_lost_s"] = min(math.sqrt(2.0 * path.lost / settings.acceleration), settings.duration)
        courses |= {name + key: values for key, values in _courses(off, wrong).items()}
        poses[name or "even_"] = path.at(travel)
    for name, pose in poses.items():
        courses |= {f"{name}x": pose[:, 0], f"{name}y": pose[:, 1], f"{name}deg": np.degrees(pose[:, 2])}
    return Outcome(metrics, courses, found)


def _rod_track(
    case: Case, push: pushing.Push, physics: Physics[Any, Any], settings: Settings, trial: Trial
) -> tuple[Simulation, Array, Array, Array]:
    """Test 7 simulated: time (n,), positions (n, worlds, nq), displacement of the rod (n, worlds) [m]."""
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


def _lost(qpos: Array, travel: Array, time: Array, push: pushing.Push) -> float:
    """When rod and box part [s]; the last time if they do not. Positions (n, nq), displacement of the rod (n,) [m]."""
    if not np.isfinite(qpos).all():
        return math.nan
    rod = np.stack([travel - push.distance, np.full(len(qpos), push.offset)], axis=1)
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
