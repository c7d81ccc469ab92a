"""One step of the cone sweep as named stages over MuJoCo Warp's own, with the solver replaced by the sweeps."""

from collections.abc import Callable
from typing import Any

import mujoco_warp as mjw
import warp as wp

from stickslip.physics import mjwarp_private as private
from stickslip.physics.base import Stage
from stickslip.physics.conesweep import solver
from stickslip.physics.conesweep.model import Model, scratch_of
from stickslip.physics.rowfree import pipeline as rowfree
from stickslip.physics.rowfree.pipeline import Prediction, accelerate, fwd_acceleration, matrix, predict
from stickslip.physics.stages import compose, run

_NO_LIMITS = mjw.DisableBit.CONSTRAINT | mjw.DisableBit.LIMIT


def check_options(m: Model) -> None:
    """Raise Unsupported for options of the device model that cannot be honoured; they can change after put_model."""
    rowfree.check_options(m, Model, "cone-sweep", atomics=False)


def make_rows(m: Model, d: mjw.Data) -> None:
    """In the place of MuJoCo Warp's `make_constraint`: no rows, but those of limits for sensors that read them now."""
    for count in (d.ne, d.nf, d.nl, d.nefc):
        count.zero_()
    if m.sensor_limitpos_adr.size + m.sensor_limitvel_adr.size and not m.opt.disableflags & _NO_LIMITS:
        solver.write_limit_rows(m, d, scratch_of(d))


def resolve(m: Model, d: mjw.Data, prediction: Prediction) -> None:
    """Constraint forces: qfrc_constraint, efc.Ma, efc.force, contact.efc_address."""
    if m.opt.disableflags & mjw.DisableBit.CONSTRAINT or m.nv == 0:
        make_rows(m, d)
        scratch_of(d).forget()
        d.qfrc_constraint.zero_()
        wp.copy(d.efc.Ma, d.qfrc_smooth)
        return
    solver.solve(m, d, scratch_of(d), prediction.qacc, prediction.factor.H if prediction.factor else d.M)


def solve(m: Model, d: mjw.Data) -> Prediction:
    """Constraint forces and qacc, in the place of MuJoCo Warp's `solve`."""
    prediction = predict(m, d)
    resolve(m, d, prediction)
    accelerate(m, d)
    return prediction


def integrate(m: Model, d: mjw.Data, prediction: Prediction, join: Callable[[], None] | None = None) -> None:
    """Advance the state by the motion that the sweeps found, and keep their forces for the next step.

    `join` waits for qacc, where it is made beside this.
    """
    if m.opt.disableflags & mjw.DisableBit.CONSTRAINT or m.nv == 0:
        rowfree.integrate(m, d, prediction, join)
        return
    scratch = scratch_of(d)
    solver.remember(m, d, scratch)
    if join is not None:
        join()
    private.advance(m, d, scratch.qacc, scratch.velocity)


def stages(m: Model, d: mjw.Data, made: dict[str, Any] | None = None) -> list[Stage]:
    """The step as stages, to be run in this order; each may be repeated on its own to be timed.

    What one hands to another is in `made`; `run` adds to it.
    """
    check_options(m)
    made = {} if made is None else made

    def after_inertia() -> None:
        made["matrix"] = matrix(m, d)

    made["after inertia"] = after_inertia

    def prediction() -> None:
        made["prediction"] = predict(m, d, made.pop("matrix", None))

    return compose(
        m,
        d,
        rows=lambda: make_rows(m, d),
        acceleration=lambda: fwd_acceleration(m, d, factorize=True),
        solve=[
            ("prediction", prediction),
            ("contact", lambda: resolve(m, d, made["prediction"])),
            ("acceleration", lambda: accelerate(m, d)),
        ],
        integration=lambda: integrate(m, d, made["prediction"], made.pop("join", None)),
    )


def step(m: Model, d: mjw.Data) -> None:
    """Advance every world by its timestep."""
    made: dict[str, Any] = {}
    run(stages(m, d, made), m, d, made)
