"""State: what a simulation needs to continue, in MuJoCo's parts, with the memory of the physics."""

import dataclasses
import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stickslip import npz
from stickslip.errors import InputError

if TYPE_CHECKING:
    import mujoco

MIN_TIMESTEP = 1e-9
"""Shortest timestep, s: in single precision, time does not advance by much less."""

PARTS = {
    "time": 1 << 0,
    "qpos": 1 << 1,
    "qvel": 1 << 2,
    "act": 1 << 3,
    "history": 1 << 4,
    "qacc_warmstart": 1 << 5,
    "ctrl": 1 << 6,
    "qfrc_applied": 1 << 7,
    "xfrc_applied": 1 << 8,
    "eq_active": 1 << 9,
    "mocap_pos": 1 << 10,
    "mocap_quat": 1 << 11,
    "userdata": 1 << 12,
    "plastic": 1 << 14,
}
"""Parts of a state and their bits in a signature, those of `mujoco.mjtState`, in MuJoCo's order."""
_PLUGIN = 1 << 13
"""Bit of the state of plugins, which have none on a device."""
INTEGRATION = sum(PARTS.values()) | _PLUGIN
"""The signature mjSTATE_INTEGRATION: all parts."""

ENTRIES = "entries/"
"""Begins the name of what worlds have different numbers of: `num` of a world from `adr` on."""
SHARED = "shared/"
"""Begins the name of what all worlds have together."""
_VERSION = 1


@dataclasses.dataclass(frozen=True, eq=False)
class State:
    """What a simulation needs to continue; NumPy arrays on the host, unless they were asked for on the device.

    Parts that were not asked for are None. `state[worlds]` is the state of some of the worlds.

    Attributes:
        time: simulated time, s                                        (nworld,)
        qpos: positions, MuJoCo's layout                               (nworld, nq)
        qvel: velocities, MuJoCo's layout                              (nworld, nv)
        act: actuator activations                                      (nworld, na)
        history: of delayed controls and sensors                       (nworld, nhistory)
        qacc_warmstart: acceleration that MuJoCo's solver starts from  (nworld, nv)
        ctrl: controls                                                 (nworld, nu)
        qfrc_applied: applied generalized force                        (nworld, nv)
        xfrc_applied: applied force and torque on each body            (nworld, nbody, 6)
        eq_active: whether equality constraints are active             (nworld, neq)
        mocap_pos: positions of mocap bodies, m                        (nworld, nmocap, 3)
        mocap_quat: orientations of mocap bodies                       (nworld, nmocap, 4)
        userdata: user data                                            (nworld, nuserdata)
        plastic: plastic deformation                                   (nworld, nplastic)
        memory: what the physics remembers besides, by name; it comes with the warm start
        physics: name of the physics that the memory belongs to
        model: digest of the structure of the model (`digest`)
    """

    time: Any
    qpos: Any
    qvel: Any
    act: Any
    history: Any = None
    qacc_warmstart: Any = None
    ctrl: Any = None
    qfrc_applied: Any = None
    xfrc_applied: Any = None
    eq_active: Any = None
    mocap_pos: Any = None
    mocap_quat: Any = None
    userdata: Any = None
    plastic: Any = None
    memory: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    physics: str = ""
    model: str = ""

    @property
    def parts(self) -> dict[str, Any]:
        """The parts that it has, by name, in MuJoCo's order."""
        return {name: getattr(self, name) for name in PARTS if getattr(self, name) is not None}

    @property
    def signature(self) -> int:
        """The parts that it has, as a combination of the bits of `mujoco.mjtState`."""
        return sum(PARTS[name] for name in self.parts)

    @property
    def nworld(self) -> int:
        """Number of worlds."""
        return len(next(iter(self.parts.values())))

    def without_memory(self) -> Self:
        """The same state for any physics and model of the same sizes: no memory, no warm start."""
        return dataclasses.replace(self, memory={}, qacc_warmstart=None, physics="", model="")

    def numpy(self) -> Self:
        """The same state on the host."""
        parts = {name: _host(part) for name, part in self.parts.items()}
        return dataclasses.replace(self, **parts, memory={name: _host(part) for name, part in self.memory.items()})

    def __getitem__(self, worlds: int | slice | ArrayLike) -> Self:
        """The state of some of the worlds, by their numbers; on the host."""
        host = self.numpy()
        index = np.atleast_1d(np.arange(self.nworld)[worlds])  # type: ignore[call-overload]
        parts = {name: part[index] for name, part in host.parts.items()}
        return dataclasses.replace(host, **parts, memory=_sliced(host.memory, index))

    def check(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Raise InputError unless every part has the shape of its name, or of one world, and is finite."""
        for name, part in self.parts.items():
            shape = shapes.get(name)
            if shape is None:
                raise InputError(f"state.{name}: this simulation has none; take a state without it")
            given = np.shape(part)
            check_array(f"state.{name}", part, (1, *shape[1:]) if given[:1] == (1,) else shape)

    def vector(self) -> NDArray[np.float64]:
        """All parts in a row, as `mujoco.mj_getState` has them for this signature, (nworld, size)."""
        parts = self.numpy().parts.values()
        return np.concatenate([np.asarray(part, dtype=float).reshape(self.nworld, -1) for part in parts], axis=1)

    @classmethod
    def from_vector(cls, mjm: "mujoco.MjModel", vector: ArrayLike, signature: int = INTEGRATION) -> Self:
        """The state whose parts are in a row, as `mujoco.mj_getState` gives them, (size,) or (nworld, size)."""
        import mujoco

        size = mujoco.mj_stateSize(mjm, int(signature))
        rows = np.atleast_2d(np.asarray(vector, dtype=float))
        if rows.shape[1] != size:
            raise InputError(
                f"a state of signature {int(signature)} has {size} numbers, got {rows.shape[1]}"
                "; give the signature that it was taken with"
            )
        shapes, parts, at = part_shapes(mjm), {}, 0
        for name, bit in PARTS.items():
            if int(signature) & bit:
                shape = shapes[name]
                end = at + int(np.prod(shape))
                parts[name] = rows[:, at:end].reshape(len(rows), *shape)
                at = end
        parts |= {
            name: np.zeros((len(rows), *shapes[name])) for name in ("time", "qpos", "qvel", "act") if name not in parts
        }
        return cls(**parts)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file of NumPy (npz), without pickle and with a checksum: all of it, or nothing."""
        host = self.numpy()
        arrays = {f"part/{name}": part for name, part in host.parts.items()}
        arrays |= {f"memory/{name}": part for name, part in host.memory.items()}
        told = {"version": _VERSION, "physics": self.physics, "model": self.model}
        npz.write(path, arrays | {f"state/{name}": np.array(value) for name, value in told.items()})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read it from a file that `save` wrote."""
        with npz.opened(path, "a saved state") as file:
            arrays = file.read()
        try:
            version = int(arrays["state/version"])
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(
                f"{os.fspath(path)!r} is not a saved state: {error}; `State.save` writes one: check the path"
            ) from None
        if version > _VERSION:
            raise InputError(
                f"{os.fspath(path)!r} is a state of version {version}, this stickslip reads up to {_VERSION}: update it"
            )
        parts = {name.removeprefix("part/"): a for name, a in arrays.items() if name.startswith("part/")}
        memory = {name.removeprefix("memory/"): a for name, a in arrays.items() if name.startswith("memory/")}
        strange = parts.keys() - PARTS.keys()
        if strange or not {"time", "qpos", "qvel", "act"} <= parts.keys():
            raise InputError(
                f"{os.fspath(path)!r} is not a saved state: its parts are {', '.join(sorted(parts))}"
                "; `State.save` writes one: check the path"
            )
        return cls(**parts, memory=memory, physics=str(arrays["state/physics"]), model=str(arrays["state/model"]))


def digest(mjm: "mujoco.MjModel") -> str:
    """Of the structure of a model: names, trees, joints, geoms. It does not change with masses, sizes or options."""
    parts = [bytes(mjm.names)]
    for name in "body_parentid jnt_type jnt_bodyid geom_type geom_bodyid eq_type actuator_trntype sensor_type".split():
        parts.append(np.ascontiguousarray(getattr(mjm, name)).tobytes())
    parts.append(np.array([mjm.nq, mjm.nv, mjm.na, mjm.nu, mjm.nmocap, mjm.nuserdata], dtype=np.int64).tobytes())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def part_shapes(mjm: "mujoco.MjModel") -> dict[str, tuple[int, ...]]:
    """The shape of each part in one world; time has none."""
    import mujoco

    mjd = mujoco.MjData(mjm)
    return {name: np.shape(getattr(mjd, name)) for name in PARTS}


def parts_of(signature: int) -> list[str]:
    """The parts of a signature; raises InputError for one that is none of MuJoCo's."""
    every = sum(PARTS.values()) | _PLUGIN
    if isinstance(signature, bool) or int(signature) & ~every or int(signature) < 0:
        raise InputError(f"signature {signature!r}: give a combination of mujoco.mjtState, at most {every}")
    names = [name for name, bit in PARTS.items() if int(signature) & bit]
    if not names:
        raise InputError(f"signature {signature!r} has no part of a state: give a combination of mujoco.mjtState")
    return names


def _host(array: Any) -> NDArray[Any]:
    """An array on the host."""
    return array.numpy() if hasattr(array, "numpy") and not isinstance(array, np.ndarray) else np.asarray(array)


def _sliced(memory: Mapping[str, NDArray[Any]], worlds: NDArray[np.integer]) -> dict[str, NDArray[Any]]:
    """The memory of some of the worlds; entries follow each other."""
    out = {name: part[worlds] for name, part in memory.items() if not name.startswith((ENTRIES, SHARED))}
    out |= {name: part for name, part in memory.items() if name.startswith(SHARED)}
    if f"{ENTRIES}num" in memory:
        num, adr = (memory[f"{ENTRIES}{name}"][worlds] for name in ("num", "adr"))
        ends = np.cumsum(num)
        rows = np.repeat(adr - (ends - num), num) + np.arange(ends[-1] if len(ends) else 0)
        out |= {name: part[rows] for name, part in memory.items() if _is_entry(name)}
        out[f"{ENTRIES}num"], out[f"{ENTRIES}adr"] = num, (ends - num).astype(num.dtype)
    return out


def concatenated(states: Sequence[State]) -> State:
    """One state with the worlds of all, on the host; what worlds have together is that of the first."""
    first = states[0]
    parts = {name: np.concatenate([getattr(state, name) for state in states]) for name in first.parts}
    memory = {name: np.concatenate([state.memory[name] for state in states]) for name in first.memory}
    memory |= {name: part for name, part in first.memory.items() if name.startswith(SHARED)}
    if f"{ENTRIES}adr" in memory:
        sizes = [next(len(s.memory[k]) for k in s.memory if _is_entry(k)) for s in states]
        begins = np.cumsum([0, *sizes[:-1]])
        memory[f"{ENTRIES}adr"] = np.concatenate(
            [state.memory[f"{ENTRIES}adr"] + begin for state, begin in zip(states, begins, strict=True)]
        ).astype(np.int32)
    return dataclasses.replace(first, **parts, memory=memory)


def _is_entry(name: str) -> bool:
    """Whether a part of a memory has entries, of which each world has its own number."""
    return name.startswith(ENTRIES) and name.removeprefix(ENTRIES) not in ("num", "adr")


def check_array(name: str, value: object, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return `value` as a finite float array of exactly `shape`, or raise InputError."""
    array = as_numbers(name, value, shape)
    if array.shape != shape:
        raise InputError(f"{name} has shape {array.shape}, expected {shape}")
    check_finite(name, array)
    return array


def as_numbers(name: str, value: object, shape: tuple[int, ...], kind: type = float) -> NDArray[Any]:
    """Return `value` as an array of real numbers, of any shape; raise InputError naming the expected one."""
    try:
        array = np.asarray(value)
        if np.iscomplexobj(array):
            raise TypeError("it is complex; give real numbers, such as value.real")
        return array.astype(kind)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be numbers of shape {shape}, got {type(value).__name__}: {error}") from None


def check_finite(name: str, array: NDArray[Any]) -> None:
    """Raise InputError naming the first entry that is NaN, infinite or beyond single precision."""
    bad = np.argwhere(~(np.abs(array) <= np.finfo(np.float32).max))
    if len(bad):
        index = tuple(int(i) for i in bad[0])
        where = f"{name}[{', '.join(map(str, index))}]" if index else name
        raise InputError(f"{where} is {array[index]}: it must be finite, below 3.4e38 ({len(bad)} such entries)")
