"""Motions: poses of a robot, and of objects, over time. They are kinematic: nothing says that physics can follow."""

import dataclasses
import math
from collections.abc import Mapping

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.errors import InputError

Array = NDArray[np.float64]

UNIT = 1e-2
"""Largest error of the norm of a quaternion that is corrected; beyond it is refused."""


@dataclasses.dataclass(frozen=True, eq=False)
class Motion:
    """A motion. Frame j is at the time j / fps.

    Attributes:
        name: its name
        fps: frames per second
        joints: angles or positions of hinges and slides [rad or m]                       (T, n)
        joint_names: their names                                                          (n,)
        base: pose of the free base: position [m], quaternion w first; None: it is fixed  (T, 7)
        objects: poses of free bodies by their name                                       (T, 7) each
        contacts: of sites by their name, 1 while they are to touch something              (T,) each
        source: where it comes from, such as a file
        notes: what was corrected when it was read
    """

    name: str
    fps: float
    joints: Array
    joint_names: tuple[str, ...]
    base: Array | None = None
    objects: Mapping[str, Array] = dataclasses.field(default_factory=dict)
    contacts: Mapping[str, Array] = dataclasses.field(default_factory=dict)
    source: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        where = f"motion {self.name!r}"
        if not (math.isfinite(self.fps) and self.fps > 0.0):
            raise InputError(f"{where}: fps is {self.fps}; it must be above 0")
        shape = np.shape(self.joints)
        if len(shape) != 2 or shape[0] < 2 or shape[1] != len(self.joint_names):
            raise InputError(
                f"{where}: joints have the shape {shape}; there must be 2 frames or more, and a column for each of the "
                f"{len(self.joint_names)} joint names"
            )
        twice = sorted({name for name in self.joint_names if self.joint_names.count(name) > 1})
        if twice:
            raise InputError(f"{where}: the joint {twice[0]!r} is there twice; give each column a name of its own")
        object.__setattr__(self, "joints", _finite(self.joints, f"{where}: joints"))
        if self.base is not None:
            object.__setattr__(self, "base", _poses(self.base, shape[0], f"{where}: base"))
        objects = {name: _poses(pose, shape[0], f"{where}: object {name!r}") for name, pose in self.objects.items()}
        object.__setattr__(self, "objects", objects)
        contacts = {name: np.asarray(on, dtype=np.float64) for name, on in self.contacts.items()}
        for name, on in contacts.items():
            if on.shape != (shape[0],) or not np.isin(on, (0.0, 1.0)).all():
                raise InputError(f"{where}: contact of {name!r} must be 0 or 1 in each of the {shape[0]} frames")
        object.__setattr__(self, "contacts", contacts)

    @property
    def frames(self) -> int:
        """Number of frames."""
        return len(self.joints)

    @property
    def duration(self) -> float:
        """Time from the first frame to the last [s]."""
        return (self.frames - 1) / self.fps

    def clip(self, begin: float = 0.0, end: float | None = None) -> "Motion":
        """The part between two times [s]: whole frames, at least two."""
        end = self.duration if end is None else end
        first, last = math.ceil(begin * self.fps - 1e-9), math.floor(end * self.fps + 1e-9)
        if not 0 <= first < last < self.frames:
            raise InputError(
                f"motion {self.name!r}: from {begin:g} to {end:g} s; it lasts from 0 to {self.duration:g} s, and two "
                "frames or more are needed"
            )
        return self._taken(slice(first, last + 1))

    def _taken(self, frames: slice) -> "Motion":
        return dataclasses.replace(
            self,
            joints=self.joints[frames],
            base=None if self.base is None else self.base[frames],
            objects={name: pose[frames] for name, pose in self.objects.items()},
            contacts={name: on[frames] for name, on in self.contacts.items()},
        )

    def resampled(self, fps: float) -> "Motion":
        """The motion at another rate, with exact times; it ends at the last frame of the new rate that it reaches.

        Positions are interpolated linearly, orientations along the shortest turn (slerp); contacts are those of the
        nearest frame.
        """
        times = np.arange(math.floor(self.duration * fps + 1e-9) + 1) / fps
        if len(times) < 2:
            raise InputError(
                f"motion {self.name!r} lasts {self.duration:g} s: at {fps:g} frames per second that is one"
            )
        place = np.clip(times * self.fps, 0.0, self.frames - 1)
        left = np.minimum(place.astype(int), self.frames - 2)
        part = (place - left)[:, None]

        def linear(values: Array) -> Array:
            return (1.0 - part) * values[left] + part * values[left + 1]

        def poses(values: Array) -> Array:
            return np.hstack([linear(values[:, :3]), slerp(values[left, 3:], values[left + 1, 3:], part[:, 0])])

        return dataclasses.replace(
            self,
            fps=fps,
            joints=linear(self.joints),
            base=None if self.base is None else poses(self.base),
            objects={name: poses(pose) for name, pose in self.objects.items()},
            contacts={name: on[np.rint(place).astype(int)] for name, on in self.contacts.items()},
        )


def _finite(values: Array, what: str) -> Array:
    values = np.asarray(values, dtype=np.float64)
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        raise InputError(f"{what}: frame {bad[0][0]}, column {bad[0][1]} is not finite; mend or cut it")
    return values


def _poses(poses: Array, frames: int, what: str) -> Array:
    """Poses with unit quaternions of continuous sign; raises InputError for those that are none."""
    if np.shape(poses) != (frames, 7):
        raise InputError(f"{what}: poses have the shape {np.shape(poses)}; they must have ({frames}, 7)")
    poses = _finite(poses, what).copy()
    norm = np.linalg.norm(poses[:, 3:], axis=1)
    worst = int(np.abs(norm - 1.0).argmax())
    if abs(norm[worst] - 1.0) > UNIT:
        raise InputError(
            f"{what}: the quaternion of frame {worst} has the norm {norm[worst]:.4g}; it must be 1 within {UNIT:g}"
        )
    poses[:, 3:] /= norm[:, None]
    turns = np.sign(np.einsum("ti,ti->t", poses[1:, 3:], poses[:-1, 3:]))
    poses[1:, 3:] *= np.cumprod(np.where(turns < 0.0, -1.0, 1.0))[:, None]
    return poses


def slerp(one: Array, other: Array, part: Array) -> Array:
    """Quaternions (n, 4) between two, along the shortest turn; part (n,) from 0 to 1."""
    return multiplied(one, exponential(part[:, None] * logarithm(multiplied(conjugate(one), other))))


def conjugate(quat: Array) -> Array:
    """Inverse of unit quaternions (..., 4)."""
    return quat * np.array([1.0, -1.0, -1.0, -1.0])


def multiplied(a: Array, b: Array) -> Array:
    """Products of quaternions (..., 4)."""
    w, v, x, u = a[..., :1], a[..., 1:], b[..., :1], b[..., 1:]
    real = w * x - (v * u).sum(-1, keepdims=True)
    return np.concatenate([real, w * u + x * v + np.cross(v, u)], axis=-1)


def smoothed(values: Array, width: float) -> Array:
    """Values (T,) through a Gaussian filter; `width` is its standard deviation in frames. Ends are continued."""
    reach = max(1, math.ceil(3.0 * width))
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / max(width, 1e-9)) ** 2)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(values, reach, mode="edge"), len(weights))
    return windows @ (weights / weights.sum())


def rotated(quat: Array, vector: Array | tuple[float, ...]) -> Array:
    """A vector (3,) turned by quaternions (..., 4): v + 2 u x (u x v + w v)."""
    w, u = quat[..., :1], quat[..., 1:]
    v = np.broadcast_to(np.asarray(vector, dtype=np.float64), u.shape)
    return v + 2.0 * np.cross(u, np.cross(u, v) + w * v)


def exponential(turn: Array) -> Array:
    """Quaternions of rotation vectors (..., 3) [rad]."""
    angle = np.linalg.norm(turn, axis=-1, keepdims=True)
    return np.concatenate([np.cos(0.5 * angle), 0.5 * np.sinc(0.5 * angle / math.pi) * turn], axis=-1)


def logarithm(quat: Array) -> Array:
    """Rotation vectors (..., 3) of quaternions, at most pi long [rad]."""
    quat = np.where(quat[..., :1] < 0.0, -quat, quat)
    size = np.linalg.norm(quat[..., 1:], axis=-1, keepdims=True)
    angle = 2.0 * np.arctan2(size, quat[..., :1])
    return np.where(size > 1e-12, angle / np.maximum(size, 1e-12), 2.0) * quat[..., 1:]


def qpos_of(motion: Motion, mjm: mujoco.MjModel, base: str = "", *, missing: str = "keyframe") -> Array:
    """Positions (T, nq) of a model that moves as a motion says.

    Joints are found by their names, and so are objects, whose free joint or whose body has the object's name.

    Args:
        motion: the motion
        mjm: the model
        base: name of the free joint of the base; empty: the first free joint that is no object's
        missing: joints of the model that the motion does not have: "keyframe", where the first keyframe (or qpos0) has
            them, or "error"
    """
    home = mjm.key_qpos[0] if mjm.nkey else mjm.qpos0
    qpos = np.tile(home, (motion.frames, 1))
    names = [mjm.joint(j).name for j in range(mjm.njnt)]
    kinds = {name: int(mjm.jnt_type[j]) for j, name in enumerate(names)}
    scalar = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))
    unknown = [name for name in motion.joint_names if kinds.get(name) not in scalar]
    if unknown:
        raise InputError(
            f"motion {motion.name!r} has joints that the robot does not have as hinge or slide: {_few(unknown)}; the "
            f"robot has {_few([name for name in names if kinds[name] in scalar])}"
        )
    for column, name in enumerate(motion.joint_names):
        qpos[:, mjm.joint(name).qposadr[0]] = motion.joints[:, column]
    left = [n for n in names if kinds[n] in scalar and n not in motion.joint_names]
    if left and missing == "error":
        raise InputError(f"motion {motion.name!r} does not have these joints of the robot: {_few(left)}")
    free = [(j, name) for j, name in enumerate(names) if mjm.jnt_type[j] == mujoco.mjtJoint.mjJNT_FREE]
    of_object: dict[str, int] = {}
    for name in motion.objects:
        body = mujoco.mj_name2id(mjm, mujoco.mjtObj.mjOBJ_BODY, name)
        own = [j for j, joint in free if joint == name or mjm.jnt_bodyid[j] == body]
        if not own:
            raise InputError(
                f"motion {motion.name!r} has the object {name!r}, and the model no free body of that name; choose a "
                "robot with it"
            )
        of_object[name] = own[0]
    rest = [j for j, joint in free if j not in of_object.values() and base in ("", joint)]
    if motion.base is not None:
        if base and not rest:
            raise InputError(f"the robot has no free joint {base!r}, and motion {motion.name!r} moves its base")
        if not rest:
            raise InputError(f"motion {motion.name!r} moves the base, and the base of the robot is fixed")
        adr = mjm.jnt_qposadr[rest[0]]
        qpos[:, adr : adr + 7] = motion.base
    for name, joint in of_object.items():
        adr = mjm.jnt_qposadr[joint]
        qpos[:, adr : adr + 7] = motion.objects[name]
    return qpos


def velocities(mjm: mujoco.MjModel, qpos: Array, dt: float) -> Array:
    """Velocities (T, nv) of positions (T, nq) at intervals dt [s]: central differences, one-sided at the ends."""
    qvel = np.zeros((len(qpos), mjm.nv))
    for frame in range(len(qpos)):
        before, after = max(0, frame - 1), min(len(qpos) - 1, frame + 1)
        mujoco.mj_differentiatePos(mjm, qvel[frame], (after - before) * dt, qpos[before], qpos[after])
    return qvel


def _few(names: list[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
