"""What can be identified."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import ClassVar, final

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.errors import InputError, unknown
from stickslip.identification.parameter import Fields, Parameter, find, geoms, put


@dataclasses.dataclass(frozen=True)
class _OfGeoms(Parameter):
    """A number of geoms: those named, all of the bodies named, or with None all there are."""

    of: str | tuple[str, ...] | None = None
    what: ClassVar[str] = ""
    field: ClassVar[str] = ""

    def __init__(self, of: str | Iterable[str] | None, low: float, high: float) -> None:
        put(self, low, high, of=of if of is None or isinstance(of, str) else tuple(of))

    @property
    def name(self) -> str:
        of = "all geoms" if self.of is None else self.of if isinstance(self.of, str) else ", ".join(self.of)
        return f"{self.what} of {of}"

    def check(self, mjm: mujoco.MjModel) -> None:
        geoms(mjm, self.of)

    def write(self, fields: Fields, values: NDArray[np.floating]) -> None:
        fields[self.field][:, geoms(fields.mjm, self.of)] = values[:, None]


@final
@dataclasses.dataclass(frozen=True, init=False)
class Friction(_OfGeoms):
    """Sliding friction of geoms, of all geoms of bodies, or of all there are: `Friction("T", 0.05, 2.0)`.

    MuJoCo takes the larger one of two geoms that touch, unless one has a higher priority, and that of a `<pair>` where
    there is one; see `PairFriction`.
    """

    what: ClassVar[str] = "friction"
    field: ClassVar[str] = "geom_friction"

    def write(self, fields: Fields, values: NDArray[np.floating]) -> None:
        fields[self.field][:, geoms(fields.mjm, self.of), 0] = values[:, None]


@dataclasses.dataclass(frozen=True, init=False)
class _OfMaterial(_OfGeoms):
    """A number of geoms that only convex physics have."""

    def write(self, fields: Fields, values: NDArray[np.floating]) -> None:
        try:
            super().write(fields, values)
        except InputError:
            raise InputError(
                f"{self.name}: only icf and cenic have it; take one of them, or a field of this physics, such as "
                "ModelField('geom_solref', ...) for mujoco"
            ) from None


@final
@dataclasses.dataclass(frozen=True, init=False)
class Stiffness(_OfMaterial):
    """Contact stiffness of geoms, N/m, with `icf` and `cenic`. Two geoms that touch are springs in series."""

    what: ClassVar[str] = "stiffness"
    field: ClassVar[str] = "geom_stiffness"
    unit: ClassVar[str] = "N/m"


@final
@dataclasses.dataclass(frozen=True, init=False)
class Dissipation(_OfMaterial):
    """Hunt-Crossley dissipation of geoms, s/m, with `icf` and `cenic`."""

    what: ClassVar[str] = "dissipation"
    field: ClassVar[str] = "geom_dissipation"
    unit: ClassVar[str] = "s/m"


@final
@dataclasses.dataclass(frozen=True, init=False)
class Modulus(_OfMaterial):
    """Hydroelastic modulus of geoms, Pa, with `icf` and `cenic`, of geoms that have one in the model."""

    what: ClassVar[str] = "modulus"
    field: ClassVar[str] = "geom_hydroelastic"
    unit: ClassVar[str] = "Pa"


@final
@dataclasses.dataclass(frozen=True, init=False)
class StaticFriction(_OfMaterial):
    """Static friction of geoms, with `icf` and `cenic`; the larger one of two geoms counts."""

    what: ClassVar[str] = "static friction"
    field: ClassVar[str] = "geom_static_friction"


@final
@dataclasses.dataclass(frozen=True)
class PairFriction(Parameter):
    """Sliding friction of a `<contact><pair>`, in both directions: `PairFriction("finger-T", 0.05, 2.0)`."""

    pair: str = ""

    def __init__(self, pair: str, low: float, high: float) -> None:
        put(self, low, high, pair=pair)

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
        put(self, low, high, body=body)

    @property
    def name(self) -> str:
        return f"mass of {self.body}"

    def check(self, mjm: mujoco.MjModel) -> None:
        if mjm.body_mass[find(mjm, "body", self.body)] <= 0.0:
            raise InputError(
                f"body {self.body!r} has no mass in the model: its inertia could not scale with it"
                "; give it a mass, or leave this parameter out"
            )

    def write(self, fields: Fields, values: NDArray[np.floating]) -> None:
        body = find(fields.mjm, "body", self.body)
        fields["body_inertia"][:, body] *= (values / fields.mjm.body_mass[body])[:, None]
        fields["body_mass"][:, body] = values


@dataclasses.dataclass(frozen=True)
class _OfJoint(Parameter):
    """A number of a joint."""

    joint: str = ""
    what: ClassVar[str] = ""
    field: ClassVar[str] = ""

    def __init__(self, joint: str, low: float, high: float) -> None:
        put(self, low, high, joint=joint)

    @property
    def name(self) -> str:
        return f"{self.what} of {self.joint}"

    def check(self, mjm: mujoco.MjModel) -> None:
        find(mjm, "joint", self.joint)

    def write(self, fields: Fields, values: NDArray[np.floating]) -> None:
        joint = find(fields.mjm, "joint", self.joint)
        fields[self.field][:, fields.mjm.dof_jntid == joint] = values[:, None]


@final
@dataclasses.dataclass(frozen=True, init=False)
class JointDamping(_OfJoint):
    """Damping of a joint, N s/m or N m s/rad."""

    what: ClassVar[str] = "damping"
    field: ClassVar[str] = "dof_damping"


@final
@dataclasses.dataclass(frozen=True, init=False)
class JointFriction(_OfJoint):
    """Dry friction of a joint (`frictionloss`), N or N m."""

    what: ClassVar[str] = "dry friction"
    field: ClassVar[str] = "dof_frictionloss"


@final
@dataclasses.dataclass(frozen=True, init=False)
class Armature(_OfJoint):
    """Armature of a joint, kg or kg m^2."""

    what: ClassVar[str] = "armature"
    field: ClassVar[str] = "dof_armature"


@final
@dataclasses.dataclass(frozen=True)
class ServoGain(Parameter):
    """Gain of a position servo (`kp`), N/m or N m/rad."""

    actuator: str = ""

    def __init__(self, actuator: str, low: float, high: float) -> None:
        put(self, low, high, actuator=actuator)

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
        put(self, low, high, field=field, index=where, scale=scale, linear=linear)

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
            raise InputError(f"of is {of!r}: a delay is of measurements or of controls; choose one")
        put(self, low, high, of=of)

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
