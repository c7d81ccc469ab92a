"""Retargeting: optimise the controls over a horizon, apply the first ones to the plant, go on from where it is then.

The plant is MuJoCo in C. Several seeds run side by side, each as it would alone.
"""

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from stickslip import npz
from stickslip.errors import InputError
from stickslip.mpc.retarget.batch import Batch
from stickslip.mpc.retarget.motion import Array, Motion
from stickslip.mpc.retarget.problem import Problem
from stickslip.mpc.retarget.settings import Settings
from stickslip.physics.base import Physics

DONE, LOST, NOT_FINITE = "done", "lost", "not finite"
"""Why a run ended."""
LOST_POS, LOST_ROT, LOST_TIME = 0.5, 0.4, 1.0
"""A base that is farther from the reference than this [m or rad] for so long [s] is lost."""
SAVE_EVERY = 10
"""Optimisations between two saved states."""


@dataclasses.dataclass(frozen=True, eq=False)
class Retargeted:
    """A motion that the plant has followed. Frame j is at the time j dt, as in the reference.

    Attributes:
        problem: robot and motion
        seed: seed of the noise
        reason: why it ended: "done", "lost", "not finite"
        qpos: positions                                                        (n + 1, nq)
        qvel: velocities                                                       (n + 1, nv)
        ctrl: controls of each time step                                       (n, nu)
        rounds: rounds of each optimisation                                    (ticks,)
        seconds: time of each optimisation [s]; empty if several ran at once   (ticks,)
        predicted: cost of each time step that the plan's model predicted      (n,)
        notes: problems in the rollouts, each once
    """

    problem: Problem
    seed: int
    reason: str
    qpos: Array
    qvel: Array
    ctrl: Array
    rounds: Array
    seconds: Array
    predicted: Array
    notes: tuple[str, ...] = ()

    @property
    def completed(self) -> bool:
        """Whether the whole motion was followed."""
        return self.reason == DONE

    @property
    def time(self) -> Array:
        """Times of the frames [s]  (n + 1,)."""
        return self.problem.dt * np.arange(len(self.qpos), dtype=np.float64)


class Plant:
    """The robot in MuJoCo C, from the first frame of the motion on."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self.mjd = mujoco.MjData(problem.mjm)
        self.mjd.qpos[:] = problem.start
        self.mjd.qvel[:] = problem.reference.qvel[0]
        mujoco.mj_forward(problem.mjm, self.mjd)

    def step(self, ctrl: Array) -> bool:
        """A time step of the rollouts with controls (nu,); False if the state is no longer finite."""
        self.mjd.ctrl[:] = ctrl
        mujoco.mj_step(self._problem.mjm, self.mjd, self._problem.substeps)
        bad = (mujoco.mjtWarning.mjWARN_BADQPOS, mujoco.mjtWarning.mjWARN_BADQVEL, mujoco.mjtWarning.mjWARN_BADQACC)
        return bool(np.isfinite(self.mjd.qpos).all()) and not any(self.mjd.warning[int(w)].number for w in bad)

    def state(self) -> Array:
        """All that the next step depends on."""
        kind = mujoco.mjtState.mjSTATE_INTEGRATION
        state = np.zeros(mujoco.mj_stateSize(self._problem.mjm, kind))
        mujoco.mj_getState(self._problem.mjm, self.mjd, state, kind)
        return state

    def load(self, state: Array) -> None:
        """Go on from a state."""
        mujoco.mj_setState(self._problem.mjm, self.mjd, state, mujoco.mjtState.mjSTATE_INTEGRATION)
        mujoco.mj_forward(self._problem.mjm, self.mjd)


class _Run:
    """One seed in progress."""

    def __init__(self, problem: Problem, seed: int) -> None:
        self.problem, self.seed, self.reason = problem, seed, ""
        self.plant = Plant(problem)
        self.qpos, self.qvel = [problem.start.copy()], [problem.reference.qvel[0].copy()]
        self.ctrl: list[Array] = []
        self.predicted: list[float] = []
        self.rounds: list[int] = []
        self.notes: dict[str, None] = {}
        self.away = 0

    def apply(self, ctrl: Array, predicted: Array, keep_going: bool) -> None:
        """Apply controls (k, nu), until the motion is over or the run has failed."""
        for one, cost in zip(ctrl, predicted, strict=False):
            if self.reason:
                return
            good = self.plant.step(one)
            if not good:
                self.reason = NOT_FINITE
                return
            self.ctrl.append(one.copy())
            self.predicted.append(float(cost))
            self.qpos.append(self.plant.mjd.qpos.copy())
            self.qvel.append(self.plant.mjd.qvel.copy())
            frame = len(self.ctrl)
            self._watch(frame, keep_going)
            if frame == self.problem.steps and not self.reason:
                self.reason = DONE

    def _watch(self, frame: int, keep_going: bool) -> None:
        free = self.problem.free_joints()
        if "base" not in free or keep_going:
            return
        adr = self.problem.mjm.jnt_dofadr[free["base"]]
        away = self.problem.difference(self.qpos[-1], frame)[adr : adr + 6]
        lost = np.linalg.norm(away[:3]) > LOST_POS or np.linalg.norm(away[3:]) > LOST_ROT
        self.away = self.away + 1 if lost else 0
        if self.away * self.problem.dt >= LOST_TIME:
            self.reason = LOST

    def end(self, seconds: Sequence[float]) -> Retargeted:
        nu = self.problem.mjm.nu
        return Retargeted(
            self.problem,
            self.seed,
            self.reason,
            np.array(self.qpos),
            np.array(self.qvel),
            np.array(self.ctrl).reshape(-1, nu),
            np.array(self.rounds, dtype=np.float64),
            np.array(seconds),
            np.array(self.predicted),
            tuple(self.notes),
        )


@dataclasses.dataclass(frozen=True)
class Progress:
    """Where a run is: optimisations done and to do, rounds of the last one, distance of the base [m]."""

    tick: int
    ticks: int
    rounds: int
    away: float


def run(
    problem: Problem,
    physics: Physics[Any, Any],
    settings: Settings | None = None,
    *,
    device: str | None = None,
    seeds: Sequence[int] = (0,),
    keep_going: bool = False,
    state: str | Path | None = None,
    progress: Callable[[Progress], None] = lambda where: None,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Retargeted]:
    """Retarget a motion, once for each seed.

    Args:
        problem: robot and motion, compiled
        physics: contact physics of the rollouts
        settings: parameters of the optimisation
        device: "cpu", "cuda:0", ...; default: the first CUDA device, or the CPU if there is none
        seeds: seeds of the noise; several run side by side
        keep_going: go on when the base is lost
        state: file to which the state is saved now and then; if it is there, the run goes on from it
        progress: called after each optimisation
        clock: clock of `Retargeted.seconds` [s]
    """
    settings = settings or Settings(dt=problem.dt)
    if len(set(seeds)) != len(seeds) or not seeds or min(seeds) < 0:
        raise InputError(f"seeds {list(seeds)}: there must be one or more, different and not below 0")
    batch = Batch(problem, physics, settings, device, len(seeds))
    batch.compile()
    batch.reset(seeds)
    runs = [_Run(problem, seed) for seed in seeds]
    seconds: list[float] = []
    path = None if state is None else Path(state)
    key = repr((problem.motion.name, problem.robot.name, problem.steps, physics, settings, list(seeds)))
    begin = _resume(path, key, batch, runs, seconds)
    ticks = -(-problem.steps // settings.control_steps)
    while begin < problem.steps and any(not one.reason for one in runs):
        qpos, qvel = (np.array([getattr(one.plant.mjd, name) for one in runs]) for name in ("qpos", "qvel"))
        for i, one in enumerate(runs):
            if one.reason:  # its rollouts are not used; they start where all is finite
                qpos[i], qvel[i] = problem.reference.qpos[begin], 0.0
        before = clock()
        answers = batch.optimise(qpos, qvel, begin)
        seconds.append(clock() - before)
        for one, answer in zip(runs, answers, strict=True):
            if not one.reason:
                one.rounds.append(answer.rounds)
                if answer.note:
                    one.notes[answer.note] = None
                one.apply(answer.ctrl, answer.predicted, keep_going)
        begin += settings.control_steps
        tick = begin // settings.control_steps
        progress(Progress(tick, ticks, max(answer.rounds for answer in answers), _away(runs)))
        if path is not None and tick % SAVE_EVERY == 0 and begin < problem.steps:
            _save(path, key, begin, batch, runs, seconds)
    if path is not None:
        path.unlink(missing_ok=True)
    return [one.end(seconds if len(runs) == 1 else ()) for one in runs]


def _away(runs: Sequence[_Run]) -> float:
    """Largest distance of a base from the reference [m]."""
    found = [0.0]
    for one in runs:
        joint = one.problem.free_joints().get("base")
        if joint is not None:
            adr = one.problem.mjm.jnt_dofadr[joint]
            found.append(float(np.linalg.norm(one.problem.difference(one.qpos[-1], len(one.ctrl))[adr : adr + 3])))
    return max(found)


def open_loop(problem: Problem) -> Retargeted:
    """The plant with the reference's controls, without any optimisation."""
    one = _Run(problem, 0)
    one.apply(problem.reference.ctrl[:-1], np.zeros(problem.steps), keep_going=True)
    return one.end(())


def _save(path: Path, key: str, begin: int, batch: Batch, runs: Sequence[_Run], seconds: Sequence[float]) -> None:
    """Write all that the rest of the run depends on."""
    kept: dict[str, Any] = {"key": np.array(key), "begin": np.array(begin), "seconds": np.array(seconds)}
    kept |= {f"batch_{name}": values for name, values in batch.state().items()}
    for i, one in enumerate(runs):
        kept |= {f"{i}_{name}": np.array(getattr(one, name)) for name in _KEPT}
        kept[f"{i}_plant"] = one.plant.state()
        kept[f"{i}_notes"] = np.array(list(one.notes), dtype=str)
        kept[f"{i}_reason"] = np.array(one.reason)
        kept[f"{i}_away"] = np.array(one.away)
    npz.write(path, kept)


_KEPT = ("qpos", "qvel", "ctrl", "predicted", "rounds")


def _resume(path: Path | None, key: str, batch: Batch, runs: Sequence[_Run], seconds: list[float]) -> int:
    """Go on from a saved state; returns the time step to go on at."""
    if path is None or not path.exists():
        return 0
    try:
        with npz.opened(path, "the state of a retargeting") as saved:
            kept: Mapping[str, Any] = saved.read()
        other = str(kept["key"]) != key
    except (OSError, KeyError) as error:
        raise InputError(f"{path} is no saved state ({error}); remove it") from error
    if other:
        raise InputError(f"{path} is the state of a run with other settings; remove it, or give another folder")
    batch.load({name[6:]: values for name, values in kept.items() if name.startswith("batch_")})
    seconds.extend(kept["seconds"].tolist())
    for i, one in enumerate(runs):
        for name in _KEPT:
            setattr(one, name, list(kept[f"{i}_{name}"]))
        one.plant.load(kept[f"{i}_plant"])
        one.notes = dict.fromkeys(kept[f"{i}_notes"].tolist())
        one.reason, one.away = str(kept[f"{i}_reason"]), int(kept[f"{i}_away"])
    return int(kept["begin"])


def motion_of(ran: Retargeted) -> Motion:
    """What the robot did, as a motion."""
    problem, mjm = ran.problem, ran.problem.mjm
    joints = [mjm.joint(name).qposadr[0] for name in problem.motion.joint_names]
    poses = {
        name: ran.qpos[:, (adr := mjm.jnt_qposadr[joint]) : adr + 7] for name, joint in problem.free_joints().items()
    }
    return Motion(
        f"{problem.motion.name}-retargeted",
        1.0 / problem.dt,
        ran.qpos[:, joints],
        problem.motion.joint_names,
        poses.pop("base", None),
        poses,
        source=problem.motion.source,
    )


def save(ran: Retargeted, path: str | Path) -> Path:
    """Write a run as npz, which `files.load` reads as a motion, with states, controls and reference beside it."""
    problem = ran.problem
    motion = motion_of(ran)
    kept: dict[str, Any] = {"base": motion.base} if motion.base is not None else {}
    kept |= {f"object/{name}": pose for name, pose in motion.objects.items()}
    arrays = dict(
        qpos=ran.qpos,
        qvel=ran.qvel,
        ctrl=ran.ctrl,
        time=ran.time,
        reference_qpos=problem.reference.qpos[: len(ran.qpos)],
        name=np.array(motion.name),
        notes=np.array(ran.notes, dtype=np.str_),
        fps=np.array(motion.fps),
        joints=motion.joints,
        joint_names=np.array(motion.joint_names),
        actuator_names=np.array([problem.mjm.actuator(i).name for i in range(problem.mjm.nu)]),
        seed=np.array(ran.seed),
        reason=np.array(ran.reason),
        **kept,
    )
    return npz.write(path, arrays)
