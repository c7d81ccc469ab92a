"""What can be identified: parameters with bounds, and how each is written into the worlds of a simulation."""

import abc
import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, final

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.errors import InputError, unknown

_OBJECTS = {
    "geom": (mujoco.mjtObj.mjOBJ_GEOM, "ngeom"),
    "body": (mujoco.mjtObj.mjOBJ_BODY, "nbody"),
    "joint": (mujoco.mjtObj.mjOBJ_JOINT, "njnt"),
    "actuator": (mujoco.mjtObj.mjOBJ_ACTUATOR, "nu"),
    "pair": (mujoco.mjtObj.mjOBJ_UNKNOWN, "npair"),
}


class Fields:
    """Fields of the model for some worlds, written in place.

    Args:
        mjm: the model
        base: gives a field of the simulation's model, (1 or nworld, ...), by name
        count: number of rows
    """

    def __init__(self, mjm: mujoco.MjModel, base: Callable[[str], NDArray[Any]], count: int) -> None:
        self.mjm, self.count, self._base = mjm, count, base
        self.arrays: dict[str, NDArray[np.floating]] = {}

    def __getitem__(self, name: str) -> NDArray[np.floating]:
        """A field to write to, (count, ...), at first with the model's own values."""
        if name not in self.arrays:
            own = self._base(name)[:1].astype(float)
            self.arrays[name] = np.repeat(own, self.count, axis=0)
        return self.arrays[name]


@dataclasses.dataclass(frozen=True)
class Parameter(abc.ABC):
    """A number to identify, between two bounds.

    Attributes:
        low, high: bounds, in the unit of the parameter
        unit: SI unit; empty if it has none
    """

    low: float
    high: float
    unit: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float, np.floating, np.integer)):
                raise InputError(f"{name} of {self.name} is {value!r}: it must be a number")
            if not math.isfinite(value):
                raise InputError(f"{name} of {self.name} is {value}: a bound must be finite")
        if not self.low < self.high:
            raise InputError(f"bounds of {self.name} are {self.low:g} to {self.high:g}: the first must be the smaller")
        if self.ratio and self.low <= 0.0:
            raise InputError(
                f"{self.name} is searched by its logarithm, from {self.low:g} on: the lower bound must be above 0, "
                "such as a thousandth of the upper one"
            )

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """What it is and of what, as in messages and results."""

    @property
    def ratio(self) -> bool:
        """Whether ratios count, not differences: it is searched by its logarithm."""
        return True

    @abc.abstractmethod
    def check(self, mjm: mujoco.MjModel) -> None:
        """Raise InputError unless the model has it."""

    @abc.abstractmethod
    def write(self, fields: Fields, values: NDArray[np.floating]) -> None:
        """Write one value for each row of the fields."""


def find(mjm: mujoco.MjModel, kind: str, name: str) -> int:
    """Number of an object of the model; raises InputError, with close names, if there is none."""
    objects, count = _OBJECTS[kind]
    found = mujoco.mj_name2id(mjm, objects, name)
    if found < 0:
        names = [mujoco.mj_id2name(mjm, objects, i) for i in range(getattr(mjm, count))]
        raise unknown(kind, name, [other for other in names if other])
    return found


def geoms(mjm: mujoco.MjModel, of: str | Iterable[str] | None) -> list[int]:
    """Numbers of geoms: those named, all of the bodies named, or all there are."""
    if of is None:
        return list(range(mjm.ngeom))
    found: list[int] = []
    for name in (of,) if isinstance(of, str) else tuple(of):
        body = mujoco.mj_name2id(mjm, mujoco.mjtObj.mjOBJ_BODY, name)
        if body >= 0:
            first, count = int(mjm.body_geomadr[body]), int(mjm.body_geomnum[body])
            if not count:
                raise InputError(f"body {name!r} has no geom")
            found += range(first, first + count)
        else:
            try:
                found.append(find(mjm, "geom", name))
            except InputError as error:
                raise InputError(f"neither a body nor a geom is named {name!r}: {error}") from None
    return list(dict.fromkeys(found))


def _text(of: Any) -> str:
    return "all geoms" if of is None else of if isinstance(of, str) else ", ".join(of)


@dataclasses.dataclass(frozen=True)
class _OfGeoms(Parameter):
    of: str | tuple[str, ...] | None = None

    def __init__(self, of: str | Iterable[str] | None, low: float, high: float) -> None:
        object.__setattr__(self, "of", of if of is None or isinstance(of, str) else tuple(of))
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        self.__post_init__()

    def check(self, mjm: mujoco.MjModel) -> None:
        geoms(mjm, self.of)


@final
@dataclasses.dataclass(frozen=True, init=False)
class Friction(_OfGeoms):
    """Sliding friction of geoms, of all geoms of bodies, or of all there are: `Friction("T", 0.05, 2.0)`.

    MuJoCo takes the larger one of two geoms that touch, unless one has a higher priority, and that of a `<pair>` where
    there is one; see `PairFriction`.
    """

    @property
    def name(self) -> str:
        return f"friction of {_text(self.of)}"

    def write(self, fields: Fields, values: NDArray[np.floating]) -> None:
        fields["geom_friction"][:, geoms(fields.mjm, self.of), 0] = values[:, None]


@final
@dataclasses.dataclass(frozen=True, init=False)
class Stiffness(_OfGeoms):
    """Contact stiffness of geoms, N/m, with `icf` and `cenic`. Two geoms that touch are springs in series."""

    unit: ClassVar[str] = "N/m"

    @property
    def name(self) -> str:
        return f"stiffness of {_text(self.of)}"

    def write(self, fields: Fields, values: NDArray[np.floating]) -> None:
        _of_material(fields, self, "geom_stiffness")[:, geoms(fields.mjm, self.of)] = values[:, None]


@final
@dataclasses.dataclass(frozen=True, init=False)
class Dissipation(_OfGeoms):
    """Hunt-Crossley dissipation of geoms, s/m, with `icf` and `cenic`."""

    unit: ClassVar[str] = "s/m"

    @property
    def name(self) -> str:
        return f"dissipation of {_text(self.of)}"

    def write(self, fields: Fields, values: NDArray[np.floating]) -> None:
        _of_material(fields, self, "geom_dissipation")[:, geoms(fields.mjm, self.of)] = values[:, None]


def _of_material(fields: Fields, parameter: Parameter, name: str) -> NDArray[np.floating]:
    """A field that only convex physics have; raises InputError, with the way out, under another."""
    try:
        return fields[name]
    except InputError:
        raise InputError(
            f"{parameter.name}: only icf and cenic have it; take one of them, or a field of this physics, such as "
            "ModelField('geom_solref', ...) for mujoco"
        ) from None


@final
@dataclasses.dataclass(frozen=True, init=False)
class Modulus(_OfGeoms):
    """Hydroelastic modulus of geoms, Pa, with `icf` and `cenic`, of geoms that have one in the model."""

    unit: ClassVar[str] = "Pa"

    @property
    def name(self) -> str:
        return f"modulus of {_text(self.of)}"

    def write(self, fields: Fields, values: NDArray[np.floating]) -> None:
        fields["geom_hydroelastic"][:, geoms(fields.mjm, self.of)] = values[:, None]


@final
@dataclasses.dataclass(frozen=True, init=False)
class StaticFriction(_OfGeoms):
    """Static friction of geoms, with `icf` and `cenic`; the larger one of two geoms counts."""

    @property
    def name(self) -> str:
        return f"static friction of {_text(self.of)}"

    def write(self, fields: Fields, values: NDArray[np.floating]) -> None:
        fields["geom_static_friction"][:, geoms(fields.mjm, self.of)] = values[:, None]


@final
@dataclasses.dataclass(frozen=True)
class PairFriction(Parameter):
    """Sliding friction of a `<contact><pair>`, in both directions: `PairFriction("finger-T", 0.05, 2.0)`."""

    pair: str = ""

    def __init__(self, pair: str, low: float, high: float) -> None:
        _set(self, low, high, pair=pair)

    @property
    def name(self) -> str:
        return f"friction of pair {self.pair}"

    def _index(self, mjm: mujoco.MjModel) -> int:
        names = [mjm.pair(i).name for i in range(mjm.npair)]
        if self.pair not in names:
            raise unknown("pair", self.pair, [name for name in names if name])
        return names.index(self.pair)

    def check(self, mjm: mujoco.MjModel) -> None:
        self._index(mjm)

    def write(self, fields: Fields, values: NDArray[np.floating]) -> None:
        fields["pair_friction"][:, self._index(fields.mjm), :2] = values[:, None]


@final
@dataclasses.dataclass(frozen=True)
class Mass(Parameter):
    """Mass of a body, kg; its inertia scales with it."""

    body: str = ""
    unit: ClassVar[str] = "kg"

    def __init__(self, body: str, low: float, high: float) -> None:
        _set(self, low, high, body=body)

    @property
    def name(self) -> str:
        return f"mass of {self.body}"

    def check(self, mjm: mujoco.MjModel) -> None:
        if mjm.body_mass[find(mjm, "body", self.body)] <= 0.0:
            raise InputError(f"body {self.body!r} has no mass in the model: its inertia could not scale with it")

    def write(self, fields: Fields, values: NDArray[np.floating]) -> None:
        body = find(fields.mjm, "body", self.body)
        fields["body_inertia"][:, body] *= (values / fields.mjm.body_mass[body])[:, None]
        fields["body_mass"][:, body] = values


@dataclasses.dataclass(frozen=True)
class _OfJoint(Parameter):
    joint: str = ""

    def __init__(self, joint: str, low: float, high: float) -> None:
        _set(self, low, high, joint=joint)

    def check(self, mjm: mujoco.MjModel) -> None:
        find(mjm, "joint", self.joint)

    def _write(self, fields: Fields, field: str, values: NDArray[np.floating]) -> None:
        joint = find(fields.mjm, "joint", self.joint)
        fields[field][:, fields.mjm.dof_jntid == joint] = values[:, None]


@final
@dataclasses.dataclass(frozen=True, init=False)
class JointDamping(_OfJoint):
    """Damping of a joint, N s/m or N m s/rad."""

    @property
    def name(self) -> str:
        return f"damping of {self.joint}"

    def write(self, fields: Fields, values: NDArray[np.floating]) -> None:
        self._write(fields, "dof_damping", values)


@final
@dataclasses.dataclass(frozen=True, init=False)
class JointFriction(_OfJoint):
    """Dry friction of a joint (`frictionloss`), N or N m."""

    @property
    def name(self) -> str:
        return f"dry friction of {self.joint}"

    def write(self, fields: Fields, values: NDArray[np.floating]) -> None:
        self._write(fields, "dof_frictionloss", values)


@final
@dataclasses.dataclass(frozen=True, init=False)
class Armature(_OfJoint):
    """Armature of a joint, kg or kg m^2."""

    @property
    def name(self) -> str:
        return f"armature of {self.joint}"

    def write(self, fields: Fields, values: NDArray[np.floating]) -> None:
        self._write(fields, "dof_armature", values)


@final
@dataclasses.dataclass(frozen=True)
class ServoGain(Parameter):
    """Gain of a position servo (`kp`), N/m or N m/rad."""

    actuator: str = ""

    def __init__(self, actuator: str, low: float, high: float) -> None:
        _set(self, low, high, actuator=actuator)

    @property
    def name(self) -> str:
        return f"gain of {self.actuator}"

    def check(self, mjm: mujoco.MjModel) -> None:
        i = find(mjm, "actuator", self.actuator)
        if mjm.actuator_gainprm[i, 0] <= 0.0 or mjm.actuator_biasprm[i, 1] != -mjm.actuator_gainprm[i, 0]:
            raise InputError(f"actuator {self.actuator!r} is not a position servo: take ModelField('actuator_gainprm')")

    def write(self, fields: Fields, values: NDArray[np.floating]) -> None:
        i = find(fields.mjm, "actuator", self.actuator)
        fields["actuator_gainprm"][:, i, 0] = values
        fields["actuator_biasprm"][:, i, 1] = -values


@final
@dataclasses.dataclass(frozen=True)
class ModelField(Parameter):
    """Any entry of a field that `Simulation.set_model` takes: `ModelField("geom_solref", (3, 0), 0.004, 0.1)`.

    Parameters of a physics that can differ between worlds are such fields, too: `ModelField("damping", (), 1e-4, 1e-2)`
    with ComFree.

    Attributes:
        field: its name
        index: of the entry within a world
        scale: the value is a factor of the model's own entry
        linear: differences count, not ratios; for what may be 0 or negative
    """

    field: str = ""
    index: tuple[int | slice, ...] = ()
    scale: bool = False
    linear: bool = False

    def __init__(
        self,
        field: str,
        index: int | Sequence[int | slice],
        low: float,
        high: float,
        *,
        scale: bool = False,
        linear: bool = False,
    ) -> None:
        where = (index,) if isinstance(index, (int, np.integer)) else tuple(index)
        _set(self, low, high, field=field, index=where, scale=scale, linear=linear)

    @property
    def name(self) -> str:
        where = ", ".join(":" if isinstance(i, slice) else str(i) for i in self.index)
        return f"{self.field}[{where}]" if where else self.field

    @property
    def ratio(self) -> bool:
        return not self.linear

    def check(self, mjm: mujoco.MjModel) -> None:
        """Nothing: the physics says which fields there are."""

    def write(self, fields: Fields, values: NDArray[np.floating]) -> None:
        array = fields[self.field]
        try:
            part = array[(slice(None), *self.index)]
        except IndexError:
            raise InputError(f"{self.name}: {self.field} of a world has shape {array.shape[1:]}") from None
        column = values.reshape(-1, *[1] * (part.ndim - 1))
        array[(slice(None), *self.index)] = part * column if self.scale else np.broadcast_to(column, part.shape)


@final
@dataclasses.dataclass(frozen=True)
class Delay(Parameter):
    """How much later measurements come than their times say, or controls act than theirs, s.

    Attributes:
        of: "measurements" or "controls"
    """

    of: str = "measurements"
    unit: ClassVar[str] = "s"

    def __init__(self, low: float, high: float, of: str = "measurements") -> None:
        if of not in ("measurements", "controls"):
            raise InputError(f"of is {of!r}: a delay is of measurements or of controls")
        _set(self, low, high, of=of)

    def __post_init__(self) -> None:
        Parameter.__post_init__(self)
        if self.low < 0.0:
            raise InputError(f"low of {self.name} is {self.low:g} s: a delay is 0 or more")

    @property
    def name(self) -> str:
        return f"delay of {self.of}"

    @property
    def ratio(self) -> bool:
        return False

    def check(self, mjm: mujoco.MjModel) -> None:
        """Nothing: every trial can be late."""

    def write(self, fields: Fields, values: NDArray[np.floating]) -> None:
        """Nothing in the model: `Rollouts` applies it."""


def _set(parameter: Parameter, low: float, high: float, **values: Any) -> None:
    for name, value in {"low": low, "high": high, **values}.items():
        object.__setattr__(parameter, name, value)
    parameter.__post_init__()
