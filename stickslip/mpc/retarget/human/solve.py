"""A human's motion on a robot: inverse kinematics, frame by frame.

Wanted in each frame: pelvis, feet and knees where the human has them, in the robot's size; the orientations of pelvis,
chest and feet; upper arms and forearms in the human's directions, with the robot's own lengths; feet and hands that
stand at one place; nothing below the floor. What cannot be had together is weighed. A first pass shows how far the
robot is over the floor where the human touches it; the next ones lower or lift it by that.
"""

import dataclasses
from collections.abc import Callable

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.errors import InputError
from stickslip.mpc.retarget import g1, ik
from stickslip.mpc.retarget.human.floor import FloorPoints
from stickslip.mpc.retarget.human.skeleton import SIDES, Human
from stickslip.mpc.retarget.human.tracks import Sizes, Tracks, scaled
from stickslip.mpc.retarget.ik import Target
from stickslip.mpc.retarget.motion import Array, Motion, smoothed
from stickslip.mpc.retarget.robots import ROBOTS, Options, Robot

PELVIS, TORSO = "pelvis", "torso_link"
BODIES = (
    PELVIS,
    TORSO,
    *(
        f"{side}_{link}"
        for side in SIDES
        for link in ("hip_pitch_link", "knee_link", "shoulder_roll_link", "elbow_link")
    ),
)
SITES = (*g1.FEET, *g1.HANDS)
"""What a robot must have."""
FASTEST = 20.0
"""Largest speed of a joint: that of the slowest drives of the G1 [rad/s]."""
PASSES = 3
"""How often the whole motion is solved."""
_SMOOTH = 0.05
"""Standard deviation of the filter of the height [s]."""
_SETTLE = 10
"""How often the first frame is solved."""
_LIES = 5e-3
"""Height up to which the robot touches the floor [m]."""
_NEAR = 0.05
"""Height of points that are kept out of the floor [m]."""
_HOME, _CALM = 3e-3, 0.02
"""Pull of joints towards the home posture, and towards the frame before."""
_FLOOR, _STANDING = 300.0, 300.0
_PELVIS, _CHEST, _FOOT, _TILT, _KNEE, _ARM = 1.0, 0.3, 3.0, 0.2, 0.2, 3.0
"""Weights of positions [1/m^2] and of orientations [1/rad^2]."""

Progress = Callable[[float], None]


def onto(human: Human, robot: Robot | None = None, progress: Progress | None = None) -> Motion:
    """A human's motion on a robot, with the contacts of feet and hands with the floor.

    Args:
        human: the human's motion
        robot: a robot with the bodies and sites of the G1; None: g1
        progress: called with the share that is done, from 0 to 1

    Raises:
        InputError: the robot lacks a body or a site
    """
    robot = robot or ROBOTS["g1"]
    mjm = robot.build(Options()).compile()
    _check(mjm, robot)
    sizes = _sizes(mjm)
    tracks = scaled(human, sizes)
    shift, found = np.zeros(len(tracks.pelvis)), None
    for number in range(PASSES):

        def tell(share: float, number: int = number) -> None:
            if progress is not None:
                progress((number + share) / PASSES)

        found = _solve(mjm, robot, human, _Wanted(mjm, human, tracks, sizes, shift), tell)
        shift = shift + smoothed(_correction(tracks, found), _SMOOTH * human.fps)
    assert found is not None
    return _motion(human, robot, mjm, tracks, found)


def _correction(tracks: Tracks, found: "_Found") -> Array:
    """What is to be added to heights (T,): where the robot is too high or low; where the floor has lifted its pelvis.

    The second is for a robot that lies, and not for one that stands: its legs follow the pelvis.
    """
    stands = np.max([limb.share for limb in tracks.limbs.values()], axis=0)
    lifted = np.where(found.low < tracks.clearance + _LIES, np.maximum(found.lifted, 0.0), 0.0)
    return (1.0 - stands) * lifted - (found.low - tracks.clearance)


def _check(mjm: mujoco.MjModel, robot: Robot) -> None:
    kinds = ((mujoco.mjtObj.mjOBJ_BODY, "body", BODIES), (mujoco.mjtObj.mjOBJ_SITE, "site", SITES))
    missing = [
        f"{what} {name}" for kind, what, names in kinds for name in names if mujoco.mj_name2id(mjm, kind, name) < 0
    ]
    if not robot.base:
        missing.insert(0, "a free base")
    if missing:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise InputError(
            f"the robot {robot.name} lacks {', '.join(missing[:5])}{more}: a human's motion is brought onto bodies and "
            f"sites by their names on the robot g1; name those of {robot.name} so, or choose g1"
        )


def _sizes(mjm: mujoco.MjModel) -> Sizes:
    """Sizes, measured with all joints at 0, where legs are straight."""
    mjd = mujoco.MjData(mjm)
    mjd.qpos[mjm.jnt_qposadr[mjm.jnt_type >= int(mujoco.mjtJoint.mjJNT_SLIDE)]] = 0.0
    mujoco.mj_kinematics(mjm, mjd)
    pelvis, frame = mjd.body(PELVIS).xpos, mjd.body(PELVIS).xmat.reshape(3, 3)
    hips = [frame.T @ (mjd.body(f"{side}_hip_pitch_link").xpos - pelvis) for side in SIDES]
    feet = [frame.T @ (mjd.site(foot).xpos - pelvis) for foot in g1.FEET]
    elbow = mjd.body("left_elbow_link").xpos
    return Sizes(
        hip=0.5 * (hips[0] + hips[1]),
        width=float(abs(feet[0][1])),
        leg=float(hips[0][2] - feet[0][2]),
        upper_arm=float(np.linalg.norm(elbow - mjd.body("left_shoulder_roll_link").xpos)),
        forearm=float(np.linalg.norm(mjd.site("left_hand").xpos - elbow)),
        hand=g1.HAND,
    )


class _Wanted:
    """Targets of all frames; `shift` is added to the heights of what does not stand (T,)."""

    def __init__(self, mjm: mujoco.MjModel, human: Human, tracks: Tracks, sizes: Sizes, shift: Array) -> None:
        self.human, self.tracks, self.sizes = human, tracks, sizes
        self.lift = np.outer(shift, [0.0, 0.0, 1.0])
        root = mjm.body_rootid[mjm.body(PELVIS).id]
        self.points = FloorPoints(mjm, np.flatnonzero(mjm.body_rootid == root).tolist())
        up = np.array([0.0, 0.0, _FLOOR])
        self._floor = [
            Target(mjm.body(int(body)).name, np.array([0.0, 0.0, self.points.level + radius]), None, ik.BODY, up,
                   point=place, above=True)
            for body, place, radius in zip(self.points.bodies, self.points.places, self.points.radii, strict=True)
        ]  # fmt: skip

    def at(self, i: int) -> Callable[[mujoco.MjData], list[Target]]:
        """Targets of frame i, given where the robot is: points near the floor must not get below it."""
        still = self._still(i)

        def targets(mjd: mujoco.MjData) -> list[Target]:
            return [*still, *(self._floor[k] for k in np.flatnonzero(self.points.heights(mjd) < _NEAR))]

        return targets

    def _still(self, i: int) -> list[Target]:
        """Pelvis, chest, legs and arms."""
        turn, tracks, lift = self.human.orientations, self.tracks, self.lift[i]
        pelvis = tracks.pelvis[i] + lift
        targets = [
            Target(PELVIS, pelvis, turn["pelvis"][i], ik.BODY, _PELVIS, _PELVIS),
            Target(TORSO, pelvis, turn["chest"][i], ik.BODY, 0.0, _CHEST),
        ]
        for side in SIDES:
            foot = tracks.limbs[f"{side}_foot"]
            free = 1.0 - foot.share[i]
            weight, tilt = _between(_FOOT, _STANDING, foot.share[i]), _between(_TILT, _STANDING, foot.share[i])
            targets.append(Target(f"{side}_foot", foot.pos[i] + free * lift, foot.quat[i], ik.SITE, weight, tilt))
            targets.append(Target(f"{side}_knee_link", tracks.knees[side][i] + lift, None, ik.BODY, _KNEE * free))
            targets += self._arm(side, i)
        return targets

    def _arm(self, side: str, i: int) -> list[Target]:
        """Upper arm and forearm in the human's directions; a hand that stands, at its place."""
        hand, (upper, fore) = self.tracks.limbs[f"{side}_hand"], self.tracks.arms[side]
        shoulder, elbow, share = f"{side}_shoulder_roll_link", f"{side}_elbow_link", hand.share[i]
        weight = _ARM * (1.0 - 0.9 * share)
        targets = [
            Target(elbow, self.sizes.upper_arm * upper[i], None, ik.BODY, weight, origin=shoulder),
            Target(f"{side}_hand", self.sizes.forearm * fore[i], None, ik.SITE, weight, origin=elbow),
        ]
        if share > 0.0:
            targets.append(Target(f"{side}_hand", hand.pos[i], None, ik.SITE, _STANDING * share**3))
        return targets


def _between(free: float, standing: float, share: float) -> float:
    return free + (standing - free) * share**3


@dataclasses.dataclass(frozen=True, eq=False)
class _Found:
    """What inverse kinematics found.

    Attributes:
        qpos: positions                                                                  (T, nq)
        low: height of the lowest point over the floor [m]                               (T,)
        lifted: height of the pelvis over its target [m]                                 (T,)
        missed: distances to the targets by name: pelvis, feet and hands [m]             (T,) each
    """

    qpos: Array
    low: Array
    lifted: Array
    missed: dict[str, Array]


def _solve(mjm: mujoco.MjModel, robot: Robot, human: Human, wanted: _Wanted, tell: Progress) -> _Found:
    """All frames, one after the other."""
    fixed = (robot.object,) if robot.object else ()
    settings = ik.Settings(iterations=12, damping=0.02, pull=_HOME + _CALM, enough=1e-4)
    solver = ik.Solver(mjm, settings, fixed=fixed)
    home, mjd = (mjm.key_qpos[0] if mjm.nkey else mjm.qpos0), mujoco.MjData(mjm)
    adr, qpos = int(mjm.joint(robot.base).qposadr[0]), home.copy()
    names = (PELVIS, *SITES)
    count = len(wanted.lift)
    frames, low, missed = np.empty((count, mjm.nq)), np.empty(count), np.empty((count, len(names)))
    qpos[adr : adr + 7] = [*wanted.tracks.pelvis[0], *human.orientations["pelvis"][0]]
    for i in range(count):
        for _ in range(1 if i else _SETTLE):
            targets = wanted.at(i)
            posture = (_HOME * home + _CALM * qpos) / (_HOME + _CALM)  # of joints; the base is not pulled
            qpos = solver.solve(qpos, targets, posture, FASTEST / human.fps if i else np.inf)
        frames[i] = mjd.qpos[:] = qpos
        mujoco.mj_kinematics(mjm, mjd)
        low[i] = wanted.points.heights(mjd).min()
        asked = {target.name: target for target in targets(mjd) if target.name in names and target.point is None}
        missed[i] = [far for far, _ in solver.residuals(qpos, [asked[name] for name in names])]
        tell((i + 1) / count)
    lifted = frames[:, adr + 2] - (wanted.tracks.pelvis + wanted.lift)[:, 2]
    return _Found(frames, low, lifted, dict(zip(names, missed.T, strict=True)))


def _motion(human: Human, robot: Robot, mjm: mujoco.MjModel, tracks: Tracks, found: _Found) -> Motion:
    scalar = np.flatnonzero(mjm.jnt_type >= int(mujoco.mjtJoint.mjJNT_SLIDE))
    adr = int(mjm.joint(robot.base).qposadr[0])
    joints = found.qpos[:, mjm.jnt_qposadr[scalar]]
    names = tuple(mjm.joint(int(j)).name for j in scalar)
    limbs = tracks.limbs
    return Motion(
        name=human.name,
        fps=human.fps,
        joints=joints,
        joint_names=names,
        base=found.qpos[:, adr : adr + 7],
        contacts={name: limbs[name].on.astype(np.float64) for name in SITES},
        notes=(*human.notes, *_notes(robot, mjm, tracks, found, joints, names, scalar)),
    )


def _notes(
    robot: Robot,
    mjm: mujoco.MjModel,
    tracks: Tracks,
    found: _Found,
    joints: Array,
    names: tuple[str, ...],
    scalar: NDArray[np.intp],
) -> list[str]:
    """What was done: scale, residuals, joints at their limits, contacts."""
    worst = max(found.missed, key=lambda name: found.missed[name].max())
    frame = int(found.missed[worst].argmax())
    median = float(np.median(np.concatenate(list(found.missed.values()))))
    notes = [
        f"a human's motion, brought onto {robot.name} by inverse kinematics; scaled by {tracks.scale:.3f}, as its legs",
        f"pelvis, feet and hands are off their targets by {1e3 * median:.0f} mm in the median, and at most by "
        f"{1e3 * found.missed[worst][frame]:.0f} mm ({worst}, frame {frame})",
    ]
    low, high = mjm.jnt_range[scalar].T
    at = ((joints <= low + 1e-9) | (joints >= high - 1e-9)) & mjm.jnt_limited[scalar].astype(bool)
    if at.any():
        shares = sorted(
            ((float(on.mean()), name) for on, name in zip(at.T, names, strict=True) if on.any()), reverse=True
        )
        told = ", ".join(f"{name.removesuffix('_joint')} in {100.0 * share:.0f} %" for share, name in shares[:5])
        more = f" and {len(shares) - 5} more" if len(shares) > 5 else ""
        notes.append(f"joints at their limits, of the frames: {told}{more}")
    return notes
