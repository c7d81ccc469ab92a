"""ComFree behind MuJoCo Warp's own names: `import stickslip.comfree as mjw` and a script runs on.

Every public name of `mujoco_warp` is here with the same signature. `put_model` also takes the parameters of
`stickslip.ComFree`. What resolves contacts is ComFree's; everything else is MuJoCo Warp itself.
"""
# The wildcard brings all of MuJoCo Warp's names, those it may add included; the names below replace some of them.
# pyright: reportAssignmentType=false, reportWildcardImportFromLibrary=false

from collections.abc import Iterable
from typing import Literal

import mujoco as _mujoco
import mujoco_warp as _mjw
from mujoco_warp import *  # noqa: F403

from stickslip.physics.comfree import model as _model
from stickslip.physics.comfree import physics as _physics
from stickslip.physics.comfree import pipeline as _pipeline
from stickslip.physics.comfree.model import Data as Data
from stickslip.physics.comfree.model import Model as Model
from stickslip.physics.mjwarp.dropin import DropIn as _DropIn

__version__ = _mjw.__version__
_DEFAULT = _physics.ComFree()


def put_model(
    mjm: _mujoco.MjModel,
    batch_sizes: dict[str, int] | None = None,
    *,
    stiffness: float | Iterable[float] = _model.DEFAULT_STIFFNESS,
    damping: float | Iterable[float] = _model.DEFAULT_DAMPING,
    impedance: Literal["heuristic", "exact"] = _DEFAULT.impedance,
    smoothing: float | None = _DEFAULT.smoothing,
    tangential: float | None = _DEFAULT.tangential,
) -> Model:
    """Creates a model on device; the keywords after `batch_sizes` are those of `stickslip.ComFree`.

    `stiffness` and `damping` are one number or one per world.
    """
    physics = _physics.ComFree(impedance=impedance, smoothing=smoothing, tangential=tangential)
    return _physics.put_model(
        mjm,
        batch_sizes,
        stacklevel=3,
        stiffness=stiffness,
        damping=damping,
        exact=physics.impedance == "exact",
        smoothing=physics.smoothing or 0.0,
        tangential=physics.tangential,
    )


_comfree: _DropIn[Model, Data] = _DropIn("comfree", _pipeline, extend=lambda mjm, d: Data.extend(d, mjm))

make_data = _comfree.make_data
put_data = _comfree.put_data
get_data_into = _comfree.get_data_into
make_constraint = _comfree.make_constraint
fwd_position = _comfree.fwd_position
transmission = _comfree.transmission
fwd_acceleration = _comfree.fwd_acceleration
solve = _comfree.solve
forward = _comfree.forward
step = _comfree.step
step1 = _comfree.step1
step2 = _comfree.step2
implicit = _comfree.implicit
rungekutta4 = _comfree.rungekutta4
discrete = _comfree.discrete
inverse = _comfree.inverse
island = _comfree.island

del Iterable, Literal
