"""ComFree's model: MuJoCo Warp's model with ComFree's parameters, and data without a Jacobian."""

import dataclasses
from collections.abc import Iterable

import mujoco
import mujoco_warp as mjw
import numpy as np
import warp as wp

from stickslip.errors import InputError

DEFAULT_STIFFNESS = 0.2
DEFAULT_DAMPING = 0.001
_DAMPING = ("dof_damping", "dof_dampingpoly", "actuator_damping", "actuator_dampingpoly")


@dataclasses.dataclass
class Parameters:
    """What ComFree adds to a model; the arrays may be written to at any time.

    Attributes:
        stiffness: k_user, one value or one a world          (*,)
        damping: d_user, one value or one a world            (*,)
        smoothing: sharpness of the softplus, 1/N; 0 for the hard max(0, .)
        exact: whether contacts use the exact diagonal (10)
        damping_arrays: the model's joint damping that `undamped` speaks of
        undamped: whether no joint had damping when the model was made, so that H = M under Euler
        eq_order: equality constraints: connects, welds, joint and then tendon couplings (neq,)
        jnt_limited: joints with limits                                           (*,)
        body_subtreenum: bodies in the subtree of each body, itself included     (nbody,)
        dof_depth: number of dofs above each dof in its tree                      (nv,)
        maxdepth: length of the longest chain of dofs
    """

    stiffness: wp.array
    damping: wp.array
    smoothing: float
    exact: bool
    damping_arrays: tuple[wp.array, ...]
    undamped: bool
    eq_order: wp.array
    jnt_limited: wp.array
    body_subtreenum: wp.array
    dof_depth: wp.array
    maxdepth: int


@dataclasses.dataclass
class Model(mjw.Model):
    """MuJoCo Warp's model with ComFree's parameters; every MuJoCo Warp function takes it.

    Attributes:
        comfree: ComFree's parameters
    """

    comfree: Parameters

    @property
    def undamped(self) -> bool:
        """Whether no joint has damping: none had when the model was made, and its arrays were not replaced since.

        Damping written into those arrays in place is still felt, as an explicit force.
        """
        now = (getattr(self, name) for name in _DAMPING)
        return self.comfree.undamped and all(a is b for a, b in zip(now, self.comfree.damping_arrays, strict=True))


def impedance_values(name: str, value: float | Iterable[float]) -> tuple[float, ...]:
    """A stiffness or damping, one or one a world, as floats; raises InputError unless finite and not negative."""
    try:
        array = np.atleast_1d(np.asarray(value, dtype=float))
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a number or one number a world, got {value!r}") from None
    if array.ndim != 1 or array.size == 0:
        raise InputError(f"{name} has shape {array.shape}: give one number, or one a world as shape (nworld,)")
    bad = np.flatnonzero(~(np.isfinite(array) & (array >= 0.0)))
    if bad.size:
        where = f"{name}[{bad[0]}]" if array.size > 1 else name
        default = {"stiffness": DEFAULT_STIFFNESS, "damping": DEFAULT_DAMPING}[name]
        raise InputError(f"{where} is {array[bad[0]]}: it must be finite and at least 0; the default is {default}")
    return tuple(float(v) for v in array)


def put_model(
    mjm: mujoco.MjModel,
    batch_sizes: dict[str, int] | None = None,
    *,
    stiffness: float | Iterable[float] = DEFAULT_STIFFNESS,
    damping: float | Iterable[float] = DEFAULT_DAMPING,
    exact: bool = False,
    smoothing: float = 0.0,
) -> Model:
    """MuJoCo Warp's model on the current device, with ComFree's parameters."""
    k = impedance_values("stiffness", stiffness)
    d = impedance_values("damping", damping)
    base = mjw.put_model(mjm, batch_sizes)

    subtreenum = np.ones(mjm.nbody, dtype=np.int32)
    for body in range(mjm.nbody - 1, 0, -1):
        subtreenum[mjm.body_parentid[body]] += subtreenum[body]
    depth = np.zeros(mjm.nv, dtype=np.int32)
    for dof in range(mjm.nv):
        parent = mjm.dof_parentid[dof]
        depth[dof] = depth[parent] + 1 if parent >= 0 else 0

    model = Model.__new__(Model)
    model.__dict__.update(base.__dict__)
    model.comfree = Parameters(
        stiffness=wp.array(k, dtype=float),
        damping=wp.array(d, dtype=float),
        smoothing=smoothing,
        exact=exact,
        damping_arrays=tuple(getattr(base, name) for name in _DAMPING),
        undamped=not any(np.any(getattr(mjm, name)) for name in _DAMPING),
        eq_order=wp.array(np.argsort(mjm.eq_type, kind="stable"), dtype=int),  # the kinds are numbered in this order
        jnt_limited=wp.array(np.flatnonzero(mjm.jnt_limited), dtype=int),
        body_subtreenum=wp.array(subtreenum, dtype=int),
        dof_depth=wp.array(depth, dtype=int),
        maxdepth=int(depth.max(initial=0)) + 1,
    )
    return model


def without_jacobian(mjm: mujoco.MjModel, d: mjw.Data) -> mjw.Data:
    """Take the constraint Jacobian out of a Data: ComFree forms none."""
    small = mjw.make_data(mjm, nworld=1, nconmax=0, njmax=1)
    for name in ("J", "J_colind"):
        like = getattr(small.efc, name)
        setattr(d.efc, name, wp.zeros((d.nworld, *like.shape[1:]), dtype=like.dtype))
    d.njmax_nnz = small.njmax_nnz
    return d


def make_data(mjm: mujoco.MjModel, nworld: int = 1, njmax: int | None = None, **sizes: int | None) -> mjw.Data:
    """MuJoCo Warp's data on the current device, without a Jacobian; `njmax` rows hold kinds, residuals and forces."""
    probe = mjw.make_data(mjm, nworld=1, nconmax=0, njmax=njmax, nvmax=sizes.get("nvmax"))
    d = mjw.make_data(mjm, nworld=nworld, njmax=1, **{**sizes, "njmax_nnz": None})
    for field in dataclasses.fields(mjw.Constraint):
        like = getattr(probe.efc, field.name)
        if field.name not in ("J", "J_colind") and like.ndim == 2:
            setattr(d.efc, field.name, wp.zeros((nworld, *like.shape[1:]), dtype=like.dtype))
    d.njmax, d.njmax_pad = probe.njmax, probe.njmax_pad
    return d
