"""Motions from keyframes: smooth curves through them, and inverse kinematics that holds planted feet and hands."""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.mpc.retarget import g1, ik
from stickslip.mpc.retarget.ik import Target
from stickslip.mpc.retarget.motion import Array, Motion, conjugate, exponential, logarithm, multiplied, slerp
from stickslip.mpc.retarget.robots import ROBOTS, Options, Robot

Point = tuple[float, tuple[float, float, float], tuple[float, float, float]]
"""A time [s], a place (x, y, z) [m] and a turn (roll, pitch, yaw) [rad]."""

FPS = 50.0
"""Frames per second of our motions."""
HEIGHT = 0.778
"""Height of the pelvis of the standing robot [m]."""
_FIRM, _SOFT = 100.0, 1.0
"""Weights of planted sites and of the base."""
_FADE = 0.45
"""Time in which a hand goes from its posture to where it is planted [s]."""
FASTEST = 12.0
"""Largest speed of a joint [rad/s]."""
_SETTLE = 10
"""How often the first frame is solved."""


def through(times: Sequence[float] | Array, values: Array, at: Array) -> Array:
    """Values (n, k) at times (n,) of a smooth curve through values (m, k): cubic pieces that do not overshoot."""
    gaps = np.diff(np.asarray(times, dtype=np.float64))
    values = np.asarray(values, dtype=np.float64)
    slopes = _slopes(gaps, np.diff(values, axis=0) / gaps[:, None])
    piece, part = _pieces(times, at)
    gap = gaps[piece][:, None]
    return _cubic(part, values[piece], values[piece + 1], gap * slopes[piece], gap * slopes[piece + 1])


def turned_through(times: Sequence[float] | Array, quats: Array, at: Array) -> Array:
    """Quaternions (n, 4) at times (n,) of a smooth curve through quaternions (m, 4).

    Each piece is a cubic rotation vector in the frame of its first quaternion; a piece must turn by less than pi.
    """
    gaps, quats = np.diff(np.asarray(times, dtype=np.float64)), np.asarray(quats, dtype=np.float64)
    turns = logarithm(multiplied(conjugate(quats[:-1]), quats[1:]))
    slopes = _slopes(gaps, turns / gaps[:, None])
    piece, part = _pieces(times, at)
    gap = gaps[piece][:, None]
    turn = _cubic(part, np.zeros((len(at), 3)), turns[piece], gap * slopes[piece], gap * slopes[piece + 1])
    return multiplied(quats[piece], exponential(turn))


def _pieces(keyed: Sequence[float] | Array, at: Array) -> tuple[NDArray[np.intp], Array]:
    """The piece that each time is in, and where in it (n, 1), from 0 to 1; the curve stands still beyond its ends."""
    times = np.asarray(keyed, dtype=np.float64)
    piece = np.clip(np.searchsorted(times, at, side="right") - 1, 0, len(times) - 2)
    return piece, np.clip((at - times[piece]) / np.diff(times)[piece], 0.0, 1.0)[:, None]


def _slopes(gaps: Array, rates: Array) -> Array:
    """Slopes at the keyframes: zero at the ends and where a value turns back, else a mean that cannot overshoot."""
    slopes = np.zeros((len(rates) + 1, rates.shape[1]))
    before, after = rates[:-1], rates[1:]
    a, b = gaps[:-1, None] + 2.0 * gaps[1:, None], 2.0 * gaps[:-1, None] + gaps[1:, None]
    same = before * after > 0.0
    sides = np.where(same, a * after + b * before, 1.0)
    slopes[1:-1] = np.where(same, (a + b) * before * after / sides, 0.0)
    return slopes


def _cubic(part: Array, start: Array, end: Array, out: Array, into: Array) -> Array:
    s, t = part, 1.0 - part
    return t * t * ((1.0 + 2.0 * s) * start + s * out) + s * s * ((1.0 + 2.0 * t) * end - t * into)


def upright(roll: float = 0.0, pitch: float = 0.0, yaw: float = 0.0) -> Array:
    """Quaternion of a roll about x, then a pitch about y, then a yaw about z [rad]."""
    x, y, z = (exponential(np.array(turn)) for turn in ((roll, 0.0, 0.0), (0.0, pitch, 0.0), (0.0, 0.0, yaw)))
    return multiplied(z, multiplied(y, x))


@dataclasses.dataclass(frozen=True)
class Key:
    """A keyframe of the base and the joints.

    Attributes:
        time: when [s]
        pos: position of the base [m]
        turn: roll, pitch and yaw of the base [rad]
        pose: angles of joints, by names without "_joint" [rad]; those of the home pose where not given. A name without
            side, such as "knee", is for both; the signs of roll and yaw are the left side's
    """

    time: float
    pos: tuple[float, float, float] = (0.0, 0.0, HEIGHT)
    turn: tuple[float, float, float] = (0.0, 0.0, 0.0)
    pose: Mapping[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Path:
    """Where a site or an object goes, smoothly from one point to the next.

    Attributes:
        points: the keyframes
        touches: when it touches something, (begin, end) [s]
        turn: weight of its orientation
        follow: when the site follows its path, (begin, end) [s], and the posture else; None: always
        weight: weight of its position
    """

    points: Sequence[Point]
    touches: Sequence[tuple[float, float]] = ()
    turn: float = _FIRM
    follow: Sequence[tuple[float, float]] | None = None
    weight: float = _FIRM

    def at(self, times: Array) -> tuple[Array, Array]:
        """Positions (n, 3) and orientations (n, 4)."""
        when = [point[0] for point in self.points]
        if len(when) == 1:
            one = self.points[0]
            return np.tile(one[1], (len(times), 1)), np.tile(upright(*one[2]), (len(times), 1))
        pos = through(when, np.array([point[1] for point in self.points]), times)
        return pos, turned_through(when, np.array([upright(*point[2]) for point in self.points]), times)

    def touching(self, times: Array) -> Array:
        """1 while the site touches something, else 0 (n,)."""
        on = np.zeros(len(times))
        for begin, end in self.touches:
            on[(times >= begin - 1e-9) & (times <= end + 1e-9)] = 1.0
        return on

    def share(self, times: Array) -> Array:
        """Share of the path, from 0, the posture, to 1 (n,)."""
        if self.follow is None:
            return np.ones(len(times))
        away = np.full(len(times), np.inf)
        for begin, end in self.follow:
            away = np.minimum(away, np.maximum(np.maximum(begin - times, times - end), 0.0))
        part = np.clip(1.0 - away / _FADE, 0.0, 1.0)
        return part * part * (3.0 - 2.0 * part)


def planted(site: str, *touches: tuple[float, float], at: tuple[float, float]) -> Path:
    """A foot or hand that touches the floor at a place (x, y) [m] during `touches` and is free else."""
    hand = site in g1.HANDS
    points = [(0.0, (*at, g1.HAND if hand else 0.0), (0.0, 0.0, 0.0))]
    return Path(points, touches, turn=0.0 if hand else 3.0, follow=touches)


def animate(
    name: str,
    keys: Sequence[Key],
    paths: Mapping[str, Path],
    *,
    com: Path | None = None,
    robot: Robot = ROBOTS["g1"],
    objects: Mapping[str, Path] | None = None,
) -> Motion:
    """A motion of a G1 from keyframes and the paths of its feet and hands; the base follows as the limbs allow.

    `com` is the path of the center of mass, of which only x and y count.
    """
    mjm = robot.build(Options()).compile()
    times = np.arange(math.floor(keys[-1].time * FPS + 1e-6) + 1) / FPS
    posture = _postures(mjm, keys, times)
    moved = {thing: np.hstack(path.at(times)) for thing, path in (objects or {}).items()}
    for thing, poses in moved.items():
        adr = mjm.joint(thing).qposadr[0]
        posture[:, adr : adr + 7] = poses
    solver = ik.Solver(mjm, ik.Settings(iterations=8, damping=0.1, pull=3e-3, enough=1e-4), fixed=tuple(moved))
    across = np.full(3, _SOFT) if com is None else np.array([0.02, 0.02, _SOFT])
    tracks = {site: (*path.at(times), path.share(times), path) for site, path in paths.items()}
    centers = None if com is None else com.at(times)[0]
    mjd, qpos, frames = mujoco.MjData(mjm), posture[0].copy(), []
    for i in range(len(times)):
        base, before = posture[i, :7], posture[max(0, i - 1), :7]
        mjd.qpos[:] = posture[i]  # on a base that moves from the last frame on as the keyframes say
        mjd.qpos[:3] = qpos[:3] + base[:3] - before[:3]
        mjd.qpos[3:7] = multiplied(multiplied(base[3:], conjugate(before[3:])), qpos[3:7])
        mujoco.mj_kinematics(mjm, mjd)
        targets = [Target("pelvis", base[:3], base[3:], ik.BODY, across, _SOFT)]
        targets += [_target(mjd, site, i, *track) for site, track in tracks.items() if track[2][i] > 0.0]
        if centers is not None:
            targets.append(Target("pelvis", centers[i], None, ik.COM, np.array([2.0, 2.0, 0.0])))
        qpos[-7 * len(moved) or len(qpos) :] = posture[i, -7 * len(moved) or len(qpos) :]
        shift = posture[i, 7:36] - posture[max(0, i - 1), 7:36]
        qpos[7:36] += shift
        within = FASTEST / FPS - np.abs(shift).max() if i else np.inf
        for _ in range(1 if i else _SETTLE):
            qpos = solver.solve(qpos, targets, posture[i], within)
        frames.append(qpos.copy())
    done = np.array(frames)
    return Motion(
        name=name,
        fps=FPS,
        joints=done[:, 7:36],
        joint_names=tuple(mjm.joint(j).name for j in range(1, 30)),
        base=done[:, :7],
        objects=moved,
        contacts={s: paths[s].touching(times) if s in paths else np.zeros(len(times)) for s in robot.contacts},
        source="stickslip",
    )


def _target(mjd: mujoco.MjData, site: str, i: int, pos: Array, quat: Array, share: Array, path: Path) -> Target:
    """Where a site is to be in frame i: on its path, or between that and where the posture has it."""
    part, own = share[i], np.empty(4)
    mujoco.mju_mat2Quat(own, mjd.site(site).xmat)
    place = part * pos[i] + (1.0 - part) * mjd.site(site).xpos
    turn = slerp(own[None], quat[i][None], np.array([part]))[0] if path.turn else None
    return Target(site, place, turn, weight=part**3 * path.weight, turn=part**3 * path.turn)


def _postures(mjm: mujoco.MjModel, keys: Sequence[Key], times: Array) -> Array:
    """Positions (n, nq) through the keyframes, before inverse kinematics."""
    when = [key.time for key in keys]
    qpos = np.tile(mjm.key_qpos[0], (len(times), 1))
    qpos[:, :3] = through(when, np.array([key.pos for key in keys]), times)
    qpos[:, 3:7] = turned_through(when, np.array([upright(*key.turn) for key in keys]), times)
    qpos[:, 7:36] = through(when, np.array([_pose(mjm, key.pose) for key in keys]), times)
    return qpos


def _pose(mjm: mujoco.MjModel, pose: Mapping[str, float]) -> Array:
    """Joint angles (29,) of a pose: see `Key`."""
    qpos = mjm.key_qpos[0].copy()
    for name, angle in pose.items():
        single = name.startswith(("left_", "right_", "waist_"))
        for joint in (name,) if single else (f"left_{name}", f"right_{name}"):
            mirrored = not single and joint.startswith("right_") and name.endswith(("roll", "yaw"))
            qpos[mjm.joint(f"{joint}_joint").qposadr[0]] = -angle if mirrored else angle
    return qpos[7:36]


def mirrored(pose: Mapping[str, float]) -> dict[str, float]:
    """The pose with left and right exchanged."""
    other = {"left": "right", "right": "left", "waist": "waist"}
    done = {}
    for name, angle in pose.items():
        side, _, rest = name.partition("_")
        odd = side in other and name.endswith(("roll", "yaw"))
        done[f"{other[side]}_{rest}" if side in other else name] = -angle if odd else angle
    return done


def flat(*points: tuple[float, float, float, float]) -> list[Point]:
    """Points of a path that does not turn, from (time, x, y, z)."""
    return [(time, (x, y, z), (0.0, 0.0, 0.0)) for time, x, y, z in points]
