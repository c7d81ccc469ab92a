"""Trials to begin with: a finger pushes a T, simulated by MuJoCo in C, with noise."""

import csv
import io
import shlex
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stickslip.files import write_bytes_atomic
from stickslip.identification import pushes
from stickslip.identification.trial import Trial

FRICTION, MASS = 0.35, 0.8
"""The truth; mass in kg."""
NOISE = 1e-3
"""Standard deviation of a place [m]."""
TIMESTEP, DURATION = 0.004, 0.8
"""Of a trial [s]."""
PUSHES = {
    "push-1.csv": pushes.FOOT.beside(0.003),
    "push-2.npz": pushes.TOP.beside(-0.002),
    "test.csv": pushes.SIDE,
}
"""What the finger does in each file."""


def write(folder: Path) -> str:
    """Write the trials; returns what to tell."""
    rng = np.random.default_rng(0)
    for name, push in PUSHES.items():
        trial = pushes.record(
            push, FRICTION, MASS, place=NOISE, timestep=TIMESTEP, duration=DURATION, name=Path(name).stem
        )
        trial = pushes.spoil(trial, rng)
        if name.endswith(".npz"):
            trial.save(folder / name)
        else:
            write_bytes_atomic(folder / name, _csv(trial).encode())
    words = ["stickslip", "identify", pushes.SCENE, "--timestep", f"{TIMESTEP:g}", "--physics", "mujoco", "cone-sweep"]
    words += ["--data", *(str(folder / name) for name in PUSHES if name != "test.csv")]
    words += ["--held-out", str(folder / "test.csv"), "--noise", *(f"{one:g}" for one in pushes.noise(NOISE))]
    words += ["--parameters", "friction=0.05:2", "mass:T=0.1:3", "--out", str(folder)]
    return (
        f"Wrote {', '.join(PUSHES)} to {folder}: a finger pushes a T of friction {FRICTION:g} and mass {MASS:g} kg in "
        f"MuJoCo in C. Identify both:\n\n{shlex.join(words)}"
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
