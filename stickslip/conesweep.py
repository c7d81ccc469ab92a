"""The cone sweep behind MuJoCo Warp's own names: `import stickslip.conesweep as mjw` and a script runs on.

Every public name of `mujoco_warp` is here with the same signature. `put_model` also takes the parameters of
`stickslip.ConeSweep`. What resolves constraints is the cone sweep's; everything else is MuJoCo Warp itself.
"""
# The wildcard brings all of MuJoCo Warp's names, those it may add included; the names below replace some of them.
# pyright: reportAssignmentType=false, reportWildcardImportFromLibrary=false

import mujoco as _mujoco
import mujoco_warp as _mjw
import warp as _wp
from mujoco_warp import *  # noqa: F403

from stickslip import parameters as _parameters
from stickslip.physics.conesweep import model as _model
from stickslip.physics.conesweep import physics as _physics
from stickslip.physics.conesweep import pipeline as _pipeline
from stickslip.physics.conesweep.model import Data as Data
from stickslip.physics.conesweep.model import Model as Model
from stickslip.physics.mjwarp.dropin import DropIn as _DropIn

__version__ = _mjw.__version__
_DEFAULT = _physics.ConeSweep()


@_parameters.explaining(_physics.ConeSweep)
def put_model(
    mjm: _mujoco.MjModel,
    batch_sizes: dict[str, int] | None = None,
    *,
    substeps: int | None = _DEFAULT.substeps,
    sweeps: int = _DEFAULT.sweeps,
    passes: int | None = _DEFAULT.passes,
    jump: float = _DEFAULT.jump,
    warm_start: bool = _DEFAULT.warm_start,
    slop: float = _DEFAULT.slop,
    correction: float = _DEFAULT.correction,
    restitution: float = _DEFAULT.restitution,
    speculative_margin: float = _DEFAULT.speculative_margin,
    deterministic: bool = _DEFAULT.deterministic,
) -> Model:
    """Creates a model on device; the keywords after `batch_sizes` are those of `stickslip.ConeSweep`."""
    physics = _physics.ConeSweep(
        substeps=substeps,
        sweeps=sweeps,
        passes=passes,
        jump=jump,
        warm_start=warm_start,
        slop=slop,
        correction=correction,
        restitution=restitution,
        speculative_margin=speculative_margin,
        deterministic=deterministic,
    )
    m = _physics.put_model(physics, mjm, batch_sizes, stacklevel=3)
    if deterministic:  # MuJoCo Warp's functions, called one by one, add by atomics
        m.opt.deterministic |= _mjw.DeterminismType.ATOMICS
    return m


@_wp.kernel(enable_backward=False)
def _mark_worlds(nkey: int, key: _wp.array[int], mask: _wp.array[bool]):
    worldid = _wp.tid()
    mask[worldid] = key[worldid] >= 0 and key[worldid] < nkey


def reset_data(m: Model, d: Data, reset: _wp.array | None = None) -> None:
    """Clear data, set defaults; optionally by world. The worlds that are reset start without a warm start."""
    _mjw.reset_data(m, d, reset)
    mask = reset
    if reset is not None and reset.dtype != _wp.bool:
        mask = _wp.empty(d.nworld, dtype=bool)
        _wp.utils.array_cast(reset, mask)
    _model.own_data(d).memory.clear(mask)


def reset_data_keyframe(m: Model, d: Data, key: int | _wp.array) -> None:
    """Reset data, set fields from specified keyframe. The worlds that are reset start without a warm start."""
    _mjw.reset_data_keyframe(m, d, key)
    mask = None
    if isinstance(key, _wp.array):
        mask = _wp.empty(d.nworld, dtype=bool)
        _wp.launch(_mark_worlds, dim=d.nworld, inputs=[m.nkey, key, mask])
    _model.own_data(d).memory.clear(mask)


_conesweep: _DropIn[Model, Data] = _DropIn(
    "cone-sweep", _pipeline, extend=_model.make_data, velocity=lambda d: d.workspace.velocity
)

make_data = _conesweep.make_data
put_data = _conesweep.put_data
get_data_into = _conesweep.get_data_into
make_constraint = _conesweep.make_constraint
fwd_position = _conesweep.fwd_position
transmission = _conesweep.transmission
fwd_acceleration = _conesweep.fwd_acceleration
solve = _conesweep.solve
forward = _conesweep.forward
step = _conesweep.step
step1 = _conesweep.step1
step2 = _conesweep.step2
implicit = _conesweep.implicit
rungekutta4 = _conesweep.rungekutta4
discrete = _conesweep.discrete
inverse = _conesweep.inverse
island = _conesweep.island
