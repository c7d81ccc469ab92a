"""One case of a fuzz test: what came of it, and whether that is allowed."""

import contextlib
import dataclasses
import io
import os
import runpy
import sys
import tempfile
import traceback
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

import stickslip as ss
from stickslip import mjcf, spec
from stickslip.bench.fuzzing import inputs, models

FAULTS = ("crash", "hang", "exception", "silent", "diverged", "changed", "message")
"""What is not allowed. The process died; it took too long; an error that is not ours; a state that is not finite and
`health` said nothing; not finite, though told, where MuJoCo in C stays calm; an error that changed the state; an error
without a message."""
CALM = 1e4
"""Largest velocity up to which MuJoCo in C is calm [m/s, rad/s]."""
NWORLD = 2
CALLS = 6
"""Calls on each simulation of a case of inputs."""
SCENES = ("stack", "pinch", "sliding-cube")
"""Models of the cases of inputs that are not generated."""


@dataclasses.dataclass(frozen=True)
class Case:
    """A case, as numbers and words that are enough to run it again.

    Attributes:
        kind: "model", "inputs" or "command"
        physics: spec of the physics
        seed, structure, number: of its random numbers
        steps: steps of a model
        device: where
        xml: a model in the place of the generated one, while it is shrunk
    """

    kind: str
    physics: str
    seed: int
    structure: int
    number: int
    steps: int = 60
    device: str = "cpu"
    xml: str = ""

    @property
    def text(self) -> str:
        """Its model."""
        return self.xml or models.text(self.seed, self.structure, self.number)

    def __str__(self) -> str:
        return f"{self.kind} {self.seed}/{self.structure}/{self.number}"


@dataclasses.dataclass(frozen=True)
class Ending:
    """What came of a case: "right", "refused" (by an error of ours), "reported" (not finite in C, too), or a fault."""

    what: str
    why: str = ""

    @property
    def is_fault(self) -> bool:
        return self.what in FAULTS


def run(case: Mapping[str, Any]) -> Ending:
    """Run a case, given as a dictionary, in this process."""
    one = Case(**case)
    physics = spec.resolve(one.physics, ss.PHYSICS, "physics")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mujoco.set_mju_user_warning(lambda message: None)
        try:
            return {"model": _model, "inputs": _inputs, "command": _command}[one.kind](one, physics)
        except ss.StickslipError as error:
            return _refused(error)
        except Exception as error:
            return Ending("exception", _told(error))
        finally:
            mujoco.set_mju_user_warning(None)


def _refused(error: Exception) -> Ending:
    return Ending("refused" if len(str(error).split()) >= 4 else "message", f"{type(error).__name__}: {error}"[:300])


def _told(error: BaseException) -> str:
    """An error, and where in the package it was raised."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "stickslip" in f.filename]
    place = ""
    if frames:
        path = frames[-1].filename
        place = f" at {path[path.rindex('stickslip') :]}:{frames[-1].name}"
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}{place}"


def _calm_in_c(mjm: mujoco.MjModel, steps: int, ctrl: np.ndarray) -> bool:
    """Whether MuJoCo in C stays finite and slow."""
    mjm.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
    mjd = mujoco.MjData(mjm)
    mjd.ctrl[:] = ctrl
    for _ in range(steps):
        mujoco.mj_step(mjm, mjd)
        if not np.abs(mjd.qvel).max(initial=0.0) <= CALM or not np.isfinite(mjd.qpos).all():
            return False
    return bool(np.isfinite(mjd.sensordata).all())


def _model(case: Case, physics: ss.Physics[Any, Any]) -> Ending:
    """A generated model: finite, or told not to be where C is not calm either."""
    mjm = mjcf.load(case.text)
    sim = ss.Simulation(mjm, physics, nworld=NWORLD, device=case.device)
    ctrl = np.random.default_rng([case.seed, case.structure, case.number, 1]).normal(0.0, 0.5, mjm.nu)
    if mjm.nu:
        sim.ctrl = ctrl
    sim.step(case.steps)
    health = sim.health()
    state = {"qpos": sim.qpos.numpy(), "qvel": sim.qvel.numpy()}
    lost = [name for name, array in state.items() if not np.isfinite(array).all()]
    if not lost and not physics.promises.poses_only and mjm.nsensordata:
        lost = ["sensordata"] * (not np.isfinite(sim.sensordata.numpy()).all())
    if not lost and not health.nan_worlds:
        return Ending("right")
    if not health.messages and lost != ["sensordata"]:
        return Ending("silent", f"{', '.join(lost)} not finite, and health() says nothing")
    calm = _calm_in_c(mjm, case.steps, ctrl)
    if lost == ["sensordata"]:
        bad = np.argwhere(~np.isfinite(sim.sensordata.numpy()))[0, 1]
        sensor = int(np.searchsorted(mjm.sensor_adr, bad, side="right")) - 1
        kind = mujoco.mjtSensor(mjm.sensor_type[sensor]).name
        told = f"sensor {kind} is not finite, and health() says nothing"
        return Ending("silent", told) if calm else Ending("reported", "a sensor, as in C")
    return Ending("diverged", "not finite, though told; MuJoCo in C is calm") if calm else Ending("reported")


def _inputs(case: Case, physics: ss.Physics[Any, Any]) -> Ending:
    """Calls with values that may be wrong: each is taken, or refused and nothing has changed."""
    rng = np.random.default_rng([case.seed, case.structure, case.number, 2])
    scene = SCENES[case.structure % len(SCENES)]
    if case.number % 4 == 0:
        words, make = inputs.constructions(rng, scene, physics)
        try:
            make()
        except Exception as error:
            return _judged(error, words)
        return Ending("right")
    sim = ss.Simulation(scene, physics, nworld=NWORLD, device=case.device)
    refused = 0
    for words, call in inputs.calls(rng, sim, CALLS):
        before = {name: array.numpy().copy() for name, array in sim.physics.arrays(sim._m, sim.d).items()}
        try:
            call()
        except Exception as error:
            judged = _judged(error, words)
            if judged.is_fault:
                return judged
            refused += 1
            for name, array in sim.physics.arrays(sim._m, sim.d).items():
                if array.numpy().tobytes() != before[name].tobytes():
                    return Ending("changed", f"{words} was refused ({error}), but {name} has changed"[:300])
    sim.step(2)
    finite = np.isfinite(sim.qpos.numpy()).all() and np.isfinite(sim.qvel.numpy()).all()
    if not finite and sim.health().ok:
        return Ending("silent", "not finite after calls that were taken, and health() says nothing")
    return Ending("refused" if refused else "right")


def _judged(error: Exception, words: str) -> Ending:
    """Whether an error is ours."""
    if isinstance(error, ss.StickslipError):
        ending = _refused(error)
        return dataclasses.replace(ending, why=f"{words}: {ending.why}")
    return Ending("exception", f"{words}: {_told(error)}")


def _command(case: Case, physics: ss.Physics[Any, Any]) -> Ending:
    """A command line: it ends with one of its exit statuses, and errors take one line."""
    rng = np.random.default_rng([case.seed, case.structure, case.number, 3])
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.xml"
        model.write_text(case.text)
        args = inputs.command(rng, spec.written(physics.name, physics), model, Path(folder) / "out")
        words = " ".join(args).replace(folder, "DIR")
        out = io.StringIO()
        here, given = os.getcwd(), sys.argv
        try:
            os.chdir(folder)
            sys.argv = ["stickslip", *args]
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                runpy.run_module("stickslip", run_name="__main__")
            return Ending("exception", f"stickslip {words}: it ended without an exit status")
        except SystemExit as end:
            status = end.code
        except Exception as error:
            return Ending("exception", f"stickslip {words}: {_told(error)}")
        finally:
            os.chdir(here)
            sys.argv = given
    if status not in (0, 1, 2):
        return Ending("exception", f"stickslip {words}: exit status {status}")
    if status and not out.getvalue().strip():
        return Ending("message", f"stickslip {words}: exit status {status} without a word")
    return Ending("right" if status == 0 else "refused", "" if status == 0 else out.getvalue().strip()[-200:])
