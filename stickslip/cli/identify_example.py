"""Trials to begin with: a finger strikes a T, simulated by MuJoCo in C, with noise."""

import csv
import io
import shlex
from pathlib import Path

import mujoco
import numpy as np
from numpy.typing import NDArray

import stickslip as ss
from stickslip.files import write_bytes_atomic
from stickslip.identification.trial import Trial

FRICTION, MASS = 0.35, 0.8
"""The truth; mass in kg."""
TIMESTEP, STEPS, EVERY = 0.004, 200, 4
"""s, steps of a trial, steps between measurements."""
STROKE, RISE = 0.15, 0.2
"""Of the finger: way along x [m], time of it [s]."""
COLUMNS = (0, 1, 6, 7, 8)
"""What is measured of qpos: x, y and angle of the T, x and y of the finger."""
NOISE = (1e-3, 1e-3, 5e-3, 1e-3, 1e-3)
"""Standard deviations: m, m, rad, m, m."""
STARTS = {"push-1.csv": -0.05, "push-2.npz": 0.05, "test.csv": -0.03}
"""Where along y the finger begins in each file [m]."""


def write(folder: Path) -> str:
    """Write the trials; returns what to tell."""
    rng = np.random.default_rng(0)
    for name, y in STARTS.items():
        trial = _trial(-0.06, y, Path(name).stem, rng)
        if name.endswith(".npz"):
            trial.save(folder / name)
        else:
            write_bytes_atomic(folder / name, _csv(trial).encode())
    words = ["stickslip", "identify", "push-t", "--timestep", f"{TIMESTEP:g}", "--physics", "mujoco", "cone-sweep"]
    words += ["--data", *(str(folder / name) for name in STARTS if name != "test.csv")]
    words += ["--held-out", str(folder / "test.csv"), "--noise", *(f"{one:g}" for one in NOISE)]
    words += ["--parameters", "friction=0.05:2", "mass:T=0.1:3", "--out", str(folder)]
    return (
        f"Wrote {', '.join(STARTS)} to {folder}: a finger pushes a T of friction {FRICTION:g} and mass {MASS:g} kg in "
        f"MuJoCo in C. Identify both:\n\n{shlex.join(words)}"
    )


def _trial(x: float, y: float, name: str, rng: np.random.Generator) -> Trial:
    mjm = ss.load(f"push-t:mu={FRICTION},mass={MASS},x={x},y={y}", timestep=TIMESTEP)
    mjd = mujoco.MjData(mjm)
    mujoco.mj_resetDataKeyframe(mjm, mjd, 0)
    way = STROKE * np.clip(np.arange(1, STEPS + 1) * TIMESTEP / RISE, 0.0, 1.0)
    ctrl = np.array([x, y]) + np.stack([way, np.zeros(STEPS)], axis=1)
    qpos = [mjd.qpos.copy()]
    for mjd.ctrl[:] in ctrl:
        mujoco.mj_step(mjm, mjd)
        qpos.append(mjd.qpos.copy())
    seen = np.stack(qpos)[::EVERY, list(COLUMNS)]
    measured = seen + rng.normal(0.0, 1.0, seen.shape) * NOISE
    return Trial(
        np.arange(0, STEPS + 1, EVERY) * TIMESTEP,
        measured,
        NOISE,
        [f"qpos[{k}]" for k in COLUMNS],
        ctrl=ctrl,
        ctrl_time=np.arange(STEPS) * TIMESTEP,
        qpos=qpos[0],
        name=name,
    )


def _csv(trial: Trial) -> str:
    """A trial as a log might be: a row for each control, with measurements in some of them, the start in the first."""
    assert trial.ctrl is not None and trial.ctrl_time is not None and trial.qpos is not None
    out = io.StringIO()
    out.write("# A finger pushes a T; times in s, lengths in m, angles in rad.\n")
    writer = csv.writer(out, lineterminator="\n")
    starts = [f"start:qpos[{k}]" for k in range(len(trial.qpos))]
    writer.writerow(["time", *(f"ctrl[{k}]" for k in range(trial.ctrl.shape[1])), *trial.channels, *starts])
    times = np.unique(np.round(np.concatenate([trial.time, trial.ctrl_time]), 9))
    for number, time in enumerate(times):
        given, seen = (
            _row(time, own, rows) for own, rows in ((trial.ctrl_time, trial.ctrl), (trial.time, trial.measured))
        )
        writer.writerow([f"{time:.6g}", *given, *seen, *(f"{x:.9g}" if number == 0 else "" for x in trial.qpos)])
    return out.getvalue()


def _row(time: float, times: NDArray[np.floating], rows: NDArray[np.floating]) -> list[str]:
    """The numbers of a moment as text; empty if there are none."""
    at = int(np.abs(times - time).argmin())
    return [f"{x:.6g}" if abs(times[at] - time) < 1e-8 else "" for x in rows[at]]
