"""ComFree behind MuJoCo Warp's own names: `import stickslip.comfree as mjw` and a script runs on.

Every public name of `mujoco_warp` is here with the same signature. `put_model` also takes
`stiffness` and `damping`. What resolves contacts is ComFree's; everything else is MuJoCo Warp itself.
"""
# The wildcard brings all of MuJoCo Warp's names, those it may add included; the functions below replace some of them.
# pyright: reportAssignmentType=false, reportWildcardImportFromLibrary=false

from collections.abc import Iterable
from typing import Optional  # noqa: UP035 - signatures are kept as MuJoCo Warp writes them

import mujoco as _mujoco
import mujoco_warp as _mjw
from mujoco_warp import *  # noqa: F403

from stickslip.errors import Unsupported as _Unsupported
from stickslip.physics import stages as _stages
from stickslip.physics.comfree import host as _host
from stickslip.physics.comfree import model as _model
from stickslip.physics.comfree import physics as _physics
from stickslip.physics.comfree import pipeline as _pipeline
from stickslip.physics.comfree.model import Model as Model

Data = _mjw.Data
__version__ = _mjw.__version__


def put_model(
    mjm: _mujoco.MjModel,
    batch_sizes: dict[str, int] | None = None,
    *,
    stiffness: float | Iterable[float] = _model.DEFAULT_STIFFNESS,
    damping: float | Iterable[float] = _model.DEFAULT_DAMPING,
) -> Model:
    """Creates a model on device; `stiffness` and `damping` are ComFree's, one number or one a world."""
    return _physics.put_model(mjm, batch_sizes, stacklevel=3, stiffness=stiffness, damping=damping)


def make_data(
    mjm: _mujoco.MjModel,
    nworld: int = 1,
    nconmax: Optional[int] = None,
    nccdmax: Optional[int] = None,
    njmax: Optional[int] = None,
    njmax_nnz: Optional[int] = None,
    naconmax: Optional[int] = None,
    naccdmax: Optional[int] = None,
    nvmax: Optional[int] = None,
) -> Data:
    """Creates a data object on device; it holds no constraint Jacobian."""
    return _model.make_data(
        mjm,
        nworld,
        njmax,
        nconmax=nconmax,
        nccdmax=nccdmax,
        njmax_nnz=njmax_nnz,
        naconmax=naconmax,
        naccdmax=naccdmax,
        nvmax=nvmax,
    )


def put_data(
    mjm: _mujoco.MjModel,
    mjd: _mujoco.MjData,
    nworld: int = 1,
    nconmax: Optional[int] = None,
    nccdmax: Optional[int] = None,
    njmax: Optional[int] = None,
    njmax_nnz: Optional[int] = None,
    naconmax: Optional[int] = None,
    naccdmax: Optional[int] = None,
    nvmax: Optional[int] = None,
) -> Data:
    """Moves data from host to a device; it holds no constraint Jacobian."""
    sizes = (nworld, nconmax, nccdmax, njmax, njmax_nnz, naconmax, naccdmax, nvmax)
    return _model.without_jacobian(mjm, _mjw.put_data(mjm, mjd, *sizes))


def get_data_into(result: _mujoco.MjData, mjm: _mujoco.MjModel, d: Data, world_id: int = 0):
    """Gets data from a device into an existing mujoco.MjData; forms the Jacobian rows of that world."""
    _host.get_data_into(result, mjm, d, world_id)


def make_constraint(m: Model, d: Data):
    """Clears the rows: ComFree makes them in `solve`, with their forces; only limits that sensors read come now."""
    _pipeline.make_rows(m, d)


def fwd_position(m: Model, d: Data, factorize: bool = True):
    """Position-dependent computations."""
    _pipeline.fwd_position(m, d, factorize)


def fwd_acceleration(m: Model, d: Data, factorize: bool = False):
    """Add up all non-constraint forces, compute qacc_smooth."""
    _pipeline.fwd_acceleration(m, d, factorize)


def solve(m: Model, d: Data):
    """Finds constraint forces, in closed form."""
    _pipeline.check_options(m)
    _pipeline.solve(m, d)


def forward(m: Model, d: Data):
    """Forward dynamics."""
    for _, run in _pipeline.stages(m, d)[:-1]:
        run()


def step(m: Model, d: Data):
    """Advance simulation."""
    _pipeline.step(m, d)


def step1(m: Model, d: Data):
    """Advance simulation in two phases: before input is set by user."""
    _pipeline.check_options(m)
    _pipeline.fwd_position(m, d)
    _stages.sense_position(m, d)
    _mjw.fwd_velocity(m, d)
    _stages.sense_velocity(m, d)
    _stages.control(m, d)


def step2(m: Model, d: Data):
    """Advance simulation in two phases: after input is set by user."""
    _mjw.fwd_actuation(m, d)
    _pipeline.fwd_acceleration(m, d)
    prediction = _pipeline.solve(m, d)
    _stages.sense_force(m, d)
    _pipeline.integrate(m, d, prediction)


def rungekutta4(m: Model, d: Data):
    """Not available: it would use MuJoCo's solver at each of its four stages."""
    raise _Unsupported("comfree does not support rungekutta4: use euler or implicit (implicitfast)")


def discrete(m: Model, d: Data):
    """Not available: its effective metric belongs to MuJoCo's solver."""
    raise _Unsupported("comfree does not support the discrete integrator: use euler or implicit (implicitfast)")


def inverse(m: Model, d: Data):
    """Not available: it inverts MuJoCo's contact model."""
    raise _Unsupported("comfree does not support inverse: it inverts MuJoCo's contact model; call mujoco_warp.inverse")


def island(m: Model, d: Data):
    """Not available: islands are found from contact rows, which ComFree does not form."""
    raise _Unsupported("comfree does not support island: it forms no contact rows; call mujoco_warp.island")


del Iterable, Optional
