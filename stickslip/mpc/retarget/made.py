"""Motions of our own, and motions for tests: spoiled ones, and ones that physics can follow exactly.

Our own are made from keyframes. They are kinematic, as recorded motions are: no physics made them. Keyframes of getup
and cartwheel were varied until contacts could give most of the forces that they need (`support.py`).
"""

import dataclasses
import math
from collections.abc import Callable, Mapping

import mujoco
import numpy as np

from stickslip.errors import InputError, unknown
from stickslip.mpc.retarget import g1, ik
from stickslip.mpc.retarget.contacts import detect_contacts
from stickslip.mpc.retarget.ik import Target
from stickslip.mpc.retarget.keyframes import (
    FASTEST,
    FPS,
    HEIGHT,
    Key,
    Path,
    Point,
    animate,
    flat,
    mirrored,
    planted,
    through,
)
from stickslip.mpc.retarget.motion import Array, Motion, exponential, multiplied
from stickslip.mpc.retarget.robots import ROBOTS, Options, Robot
from stickslip.mpc.tasks import leap

STANCE = (0.005, 0.116)
"""Place of the left foot of the standing robot: forward and to the left [m]."""


def _standing(duration: float) -> dict[str, Path]:
    """Both feet where the standing robot has them."""
    x, y = STANCE
    return {
        foot: Path(flat((0.0, x, side * y, 0.0)), [(0.0, duration)])
        for foot, side in zip(g1.FEET, (1.0, -1.0), strict=True)
    }


def squat() -> Motion:
    """Down until the thighs are nearly level, arms forward, and up again."""
    low = {"shoulder_pitch": -1.2, "elbow": 1.0, "hip_pitch": -1.5, "knee": 1.9, "ankle_pitch": -0.8}
    keys = [
        Key(0.0),
        Key(0.3),
        Key(1.4, (-0.06, 0.0, 0.50), (0.0, 0.45, 0.0), low),
        Key(1.8, (-0.06, 0.0, 0.50), (0.0, 0.45, 0.0), low),
        Key(2.8),
        Key(3.2),
    ]
    return animate("squat", keys, _standing(3.2), com=Path(flat((0.0, 0.01, 0.0, 0.0))))


def side_step(steps: int = 2, length: float = 0.12) -> Motion:
    """Steps to the left: weight to the right, left foot out, weight to the left, right foot after it."""
    x, y = STANCE
    away = {"shoulder_roll": 0.35}
    left, right = [(0.0, x, y, 0.0)], [(0.0, x, -y, 0.0)]
    on: dict[str, list[tuple[float, float]]] = {"left_foot": [], "right_foot": []}
    lean, keys, low, begun = [(0.0, 0.01, 0.0), (0.2, 0.01, 0.0)], [Key(0.0), Key(0.2)], 0.745, [0.0, 0.0]
    for i in range(steps):
        at, start = i * length, 0.8 + 1.9 * i
        for foot, path, side, begin, k in (
            ("left_foot", left, y, start, 0),
            ("right_foot", right, -y, start + 0.95, 1),
        ):
            over = -side + at + (length if k else 0.0)
            path += [
                (begin, x, side + at, 0.0),
                (begin + 0.2, x, side + at + 0.5 * length, 0.05),
                (begin + 0.4, x, side + at + length, 0.0),
            ]
            on[foot].append((begun[k], begin))
            begun[k] = begin + 0.4
            lean += [(begin, 0.02, 0.8 * over + 0.2 * at), (begin + 0.3, 0.02, 0.7 * over + 0.3 * (at + length * k))]
            keys += [Key(begin, (0.0, over, low), pose=away), Key(begin + 0.4, (0.0, over, low), pose=away)]
    last, there = keys[-1].time + 0.6, steps * length
    keys += [Key(last, (0.0, there, HEIGHT)), Key(last + 0.2, (0.0, there, HEIGHT))]
    lean += [(last, 0.01, there), (last + 0.2, 0.01, there)]
    for foot, since in zip(g1.FEET, begun, strict=True):
        on[foot].append((since, last + 0.2))
    paths = {"left_foot": Path(flat(*left), on["left_foot"]), "right_foot": Path(flat(*right), on["right_foot"])}
    return animate("side-step", keys, paths, com=Path(flat(*((t, a, b, 0.0) for t, a, b in lean))))


def wave() -> Motion:
    """Raise the right hand and wave it three times."""
    up = {"right_shoulder_pitch": -0.3, "right_shoulder_roll": -1.5, "right_shoulder_yaw": 0.0, "right_elbow": -0.3}
    out = {**up, "right_shoulder_yaw": -1.2, "waist_yaw": 0.1}
    swings = [out if i % 2 else {**out, "right_shoulder_yaw": -1.9} for i in range(6)]
    keys = [Key(0.0), Key(0.2)]
    keys += [Key(1.0 + 0.3 * i, pose={**swing, "waist_roll": 0.05}) for i, swing in enumerate(swings)]
    keys += [Key(3.4), Key(3.6)]
    return animate("wave", keys, _standing(3.6), com=Path(flat((0.0, 0.01, 0.0, 0.0))))


def kick() -> Motion:
    """Stand on the left foot and kick forward with the right, arms against it."""
    x, y = STANCE
    back = {"left_shoulder_pitch": -0.6, "right_shoulder_pitch": 0.7, "shoulder_roll": 0.4}
    front = {"left_shoulder_pitch": 0.6, "right_shoulder_pitch": -0.6, "shoulder_roll": 0.6, "waist_yaw": 0.15}
    keys = [
        Key(0.0),
        Key(0.9, (0.0, y, 0.745)),
        Key(1.3, (0.02, y, 0.745), (0.0, 0.12, 0.0), {**back, "right_knee": 1.2}),
        Key(1.75, (-0.02, y, 0.75), (0.0, -0.12, 0.0), {**front, "right_hip_pitch": -1.1}),
        Key(2.2, (0.0, y, 0.745), (0.0, 0.0, 0.0), {"right_knee": 0.9, "right_hip_pitch": -0.5}),
        Key(2.6, (0.0, y, 0.75)),
        Key(3.4),
    ]
    right = [
        (0.0, (x, -y, 0.0), (0.0, 0.0, 0.0)),
        (0.9, (x, -y, 0.0), (0.0, 0.0, 0.0)),
        (1.3, (-0.18, -y, 0.2), (0.0, 0.6, 0.0)),
        (1.75, (0.5, -y, 0.4), (0.0, -0.8, 0.0)),
        (2.2, (0.12, -y, 0.14), (0.0, 0.0, 0.0)),
        (2.6, (x, -y, 0.0), (0.0, 0.0, 0.0)),
    ]
    lean = [
        (0.0, 0.01, 0.0),
        (0.15, 0.01, 0.0),
        (0.85, 0.02, y - 0.005),
        (1.3, 0.0, y),
        (1.75, 0.05, y),
        (2.5, 0.02, y - 0.005),
        (3.2, 0.01, 0.0),
    ]
    return animate(
        "kick",
        keys,
        {
            "left_foot": Path(flat((0.0, x, y, 0.0)), [(0.0, 3.4)]),
            "right_foot": Path(right, [(0.0, 0.9), (2.6, 3.4)]),
        },
        com=Path(flat(*((t, a, b, 0.0) for t, a, b in lean))),
    )


def getup() -> Motion:
    """From lying on the back: sit up, pull in the legs with the hands behind, come over the feet, stand up."""
    x, y, back = 0.18, STANCE[1], -0.5 * math.pi
    lying = {"hip_pitch": 0.0, "knee": 0.05, "ankle_pitch": 0.0, "shoulder_roll": 0.25, "elbow": 1.5}
    lying |= {"shoulder_pitch": 0.0}
    sitting = {"hip_pitch": -1.35, "knee": 0.1, "ankle_pitch": 0.0, "waist_pitch": 0.14, "shoulder_roll": 0.35}
    sitting |= {"shoulder_pitch": -0.15, "elbow": 1.73}
    pulled = {"hip_pitch": -2.0, "knee": 2.0, "waist_pitch": 0.22, "shoulder_roll": 0.35}
    pulled |= {"shoulder_pitch": 0.79, "elbow": 1.4}
    over = {"hip_pitch": -2.1, "knee": 2.3, "ankle_pitch": -0.6, "waist_pitch": 0.04, "shoulder_roll": 0.3}
    over |= {"shoulder_pitch": -0.35, "elbow": 0.34}
    crouching = {"hip_pitch": -2.0, "knee": 2.3, "ankle_pitch": -0.8, "waist_pitch": 1.15}
    crouching |= {"shoulder_pitch": -0.57, "elbow": 0.32}
    rising = {"hip_pitch": -1.2, "knee": 1.4, "ankle_pitch": -0.5, "waist_pitch": 0.09, "shoulder_pitch": -1.6}
    there = (x - STANCE[0], 0.0, HEIGHT)
    keys = [
        Key(0.0, (0.0, 0.0, 0.07), (0.0, back, 0.0), lying),
        Key(0.3, (0.0, 0.0, 0.07), (0.0, back, 0.0), lying),
        Key(1.25, (-0.12, 0.0, 0.155), (0.0, -0.43, 0.0), sitting),
        Key(1.9, (-0.02, 0.0, 0.118), (0.0, -0.34, 0.0), pulled),
        Key(2.85, (0.1, 0.0, 0.208), (0.0, 0.27, 0.0), over),
        Key(3.8, (x - 0.06, 0.0, 0.314), (0.0, 0.66, 0.0), crouching),
        Key(4.75, (x - 0.13, 0.0, 0.533), (0.0, 0.41, 0.0), rising),
        Key(5.7, there),
        Key(6.0, there),
    ]
    paths = {}
    for side, sign in (("left", 1.0), ("right", -1.0)):
        points = [
            (0.0, (0.79, sign * y, 0.102), (0.0, back, 0.0)),
            (1.25, (0.67, sign * y, 0.102), (0.0, back, 0.0)),
            (1.58, (0.48, sign * y, 0.15), (0.0, -0.6, 0.0)),
            (1.9, (x, sign * y, 0.0), (0.0, 0.0, 0.0)),
        ]
        paths[f"{side}_foot"] = Path(points, [(1.9, 6.0)])
        hand = planted(f"{side}_hand", (1.37, 1.8), at=(-0.14, sign * 0.38))
        paths[f"{side}_hand"] = hand
    return animate("getup", keys, paths)


def cartwheel() -> Motion:
    """Sideways to the left over both hands: left hand, right hand, right foot, left foot. The base turns by -2 pi."""
    far, last, wide, hand = 2.04, 5.47, 0.26, 0.79
    arms = {"shoulder_pitch": -2.9, "shoulder_roll": 0.68, "elbow": 1.5}
    legs = {"hip_roll": 0.35, "hip_pitch": -0.1, "knee": 0.2, "ankle_pitch": -0.1}
    split = {"hip_roll": 0.8, "hip_pitch": 0.0, "knee": 0.1, "ankle_pitch": 0.2, **arms}
    bent = {**split, "left_hip_pitch": -0.25, "left_knee": 0.5, "left_ankle_pitch": -0.25}

    def key(time: float, across: float, height: float, roll: float, pose: Mapping[str, float]) -> Key:
        return Key(time, (0.0, across, height), (-roll, 0.0, 0.0), pose)

    lifted = {**bent, "left_hip_roll": 0.51, "right_hip_roll": -0.76, "waist_roll": -0.42}
    tipped = {**bent, "left_hip_roll": 1.07, "right_hip_roll": -0.82, "waist_roll": -0.35}
    first = [
        key(0.0, 0.0, 0.789, 0.0, {**legs, "shoulder_roll": 1.69}),
        key(0.74, 0.097, 0.655, 0.068, {**legs, **arms}),
        key(1.31, 0.275, 0.809, 1.056, lifted),
        key(1.69, 0.558, 0.627, 1.929, tipped),
        key(2.09, 0.926, 0.786, 2.462, {**split, "waist_roll": 0.17}),
    ]
    second = [  # the first half backwards, seen from the other side
        key(last - k.time, far - k.pos[1], k.pos[2], 2.0 * math.pi + k.turn[0], mirrored(k.pose))
        for k in reversed(first)
    ]
    middle = key(0.5 * last, 0.5 * far, 0.831, math.pi, split)
    on, off = 1.62, 0.7  # the left foot leaves the floor, and the right one
    down, both = 1.74, 1.94  # the left hand touches it, and the right one
    paths = {
        "left_foot": planted("left_foot", (0.0, on), (last - off, last), at=(0.0, wide)),
        "right_foot": planted("right_foot", (0.0, off), (last - on, last), at=(0.0, -wide)),
        "left_hand": planted("left_hand", (down, last - both), at=(0.0, hand)),
        "right_hand": planted("right_hand", (both, last - down), at=(0.0, far - hand)),
    }
    for foot, start in (("left_foot", wide), ("right_foot", -wide)):
        points = flat((0.0, 0.0, start, 0.0), (0.48 * last, 0.0, start, 0.0), (0.52 * last, 0.0, start + far, 0.0))
        paths[foot] = dataclasses.replace(paths[foot], points=points)
    return animate("cartwheel", [*first, middle, *second], paths)


def push_box(far: float = 0.45) -> Motion:
    """Reach for the box, push it forward with both hands in four steps, let go."""
    x, y = STANCE
    box_x, box_z, face, grip = g1.BOX_AT[0], 0.5 * g1.BOX_SIZE[2], g1.BOX_AT[0] - 0.5 * g1.BOX_SIZE[0] - g1.HAND, 0.66
    reach = {"shoulder_pitch": -0.6, "shoulder_roll": 0.1, "elbow": 0.6, "waist_pitch": 0.1}
    on, off, last = 1.1, 3.5, 4.2
    keys = [
        Key(0.0),
        Key(1.0, (0.03, 0.0, 0.69), (0.0, 0.35, 0.0), reach),
        Key(on, (0.03, 0.0, 0.69), (0.0, 0.35, 0.0), reach),
        Key(off, (0.03 + far, 0.0, 0.69), (0.0, 0.35, 0.0), reach),
        Key(last - 0.1, (far, 0.0, HEIGHT)),
        Key(last, (far, 0.0, HEIGHT)),
    ]

    def pushed(x: float, y: float, z: float) -> list[Point]:
        return [
            (time, (x + forward, y, z), (0.0, 0.0, 0.0))
            for time, forward in ((0.0, 0.0), (on, 0.0), (off, far), (last, far))
        ]

    third = far / 3.0
    left = [(0.0, 0.0), (1.2, 0.0), (1.6, third), (2.4, third), (2.8, far)]
    right = [(0.0, 0.0), (1.8, 0.0), (2.2, 2.0 * third), (3.0, 2.0 * third), (3.4, far)]
    paths = {}
    for side, sign, steps in (("left", 1.0, left), ("right", -1.0, right)):
        points = [(0.0, x, sign * y, 0.0)]
        for (leave, before), (land, after) in ((steps[1], steps[2]), (steps[3], steps[4])):
            points += [
                (leave, x + before, sign * y, 0.0),
                (0.5 * (leave + land), x + 0.5 * (before + after), sign * y, 0.04),
                (land, x + after, sign * y, 0.0),
            ]
        touches = [(0.0, steps[1][0]), (steps[2][0], steps[3][0]), (steps[4][0], last)]
        paths[f"{side}_foot"] = Path(flat(*points), touches)
        hand = pushed(face, sign * 0.15, grip)
        paths[f"{side}_hand"] = Path(hand, [(on, off)], turn=1.0, follow=[(on, off)])
    sway = [(0.0, 0.0), (1.0, -0.03), (1.6, -0.03), (1.8, 0.03), (2.2, 0.03), (2.4, -0.03), (2.8, -0.03)]
    sway += [(3.0, 0.03), (3.4, 0.03), (4.0, 0.0)]
    when = np.array([time for time, _ in sway])
    forward = Path(pushed(0.03, 0.0, 0.0)).at(when)[0][:, 0]
    com = Path(flat(*((t, float(f), side, 0.0) for (t, side), f in zip(sway, forward, strict=True))))
    box = Path(pushed(box_x, 0.0, box_z))
    return animate("push-box", keys, paths, com=com, robot=ROBOTS["g1-box"], objects={g1.BOX: box})


def cube_turn(angle: float = 0.4) -> Motion:
    """Three fingertips close on the cube, turn it on the palm, and let go."""
    mjm = ROBOTS["leap"].build(Options()).compile()
    times = np.arange(round(3.0 * FPS) + 1) / FPS
    palm = leap.palm_frame()[1]
    turns = through([0.0, 0.7, 2.1, 3.0], np.array([[0.0], [0.0], [angle], [angle]]), times)[:, 0]
    grasp = through([0.0, 0.6, 2.2, 2.9, 3.0], np.array([[0.0], [1.0], [1.0], [0.0], [0.0]]), times)[:, 0]
    home, solver = mjm.key_qpos[0], ik.Solver(mjm, ik.Settings(pull=1e-5), fixed=("object",))
    mjd = mujoco.MjData(mjm)
    mjd.qpos[:] = home
    mujoco.mj_kinematics(mjm, mjd)
    apart = {"index_tip": (0.041, 0.027), "ring_tip": (0.041, -0.027), "thumb_tip": (-0.041, 0.0)}
    qpos, frames = home.copy(), []
    for turn, part in zip(turns, grasp, strict=True):
        quat = multiplied(palm, exponential(np.array([0.0, 0.0, turn])))
        qpos[-7:] = [*leap.place(mjm, quat), *quat]
        targets = []
        for tip, (along, across) in apart.items():
            point = np.empty(3)
            mujoco.mju_rotVecQuat(point, np.array([(1.0 + 0.8 * part * (1.0 - part)) * along, across, 0.004]), quat)
            targets.append(Target(tip, part * (qpos[-7:-4] + point) + (1.0 - part) * mjd.site(tip).xpos))
        qpos = solver.solve(qpos, targets, home, FASTEST / FPS)
        frames.append(qpos)
    done = np.array(frames)
    touching = ((times >= 0.6 - 1e-9) & (times <= 2.2 + 1e-9)).astype(np.float64)
    return Motion(
        name="cube-turn",
        fps=FPS,
        joints=done[:, :-7],
        joint_names=tuple(mjm.joint(j).name for j in range(mjm.njnt - 1)),
        objects={"object": done[:, -7:]},
        contacts={tip: touching if tip in apart else np.zeros(len(times)) for tip in ROBOTS["leap"].contacts},
        source="stickslip",
    )


@dataclasses.dataclass(frozen=True)
class Made:
    """A motion of our own: one line about it, the robot it is for, and what makes it."""

    summary: str
    robot: str
    make: Callable[[], Motion]


MOTIONS: dict[str, Made] = {
    "squat": Made("down until the thighs are nearly level, and up again", "g1", squat),
    "side-step": Made("two steps to the left", "g1", side_step),
    "wave": Made("raise the right hand and wave it", "g1", wave),
    "kick": Made("stand on the left foot and kick forward with the right", "g1", kick),
    "getup": Made("from lying on the back over sitting and crouching to standing", "g1", getup),
    "cartwheel": Made("sideways over both hands, a full turn", "g1", cartwheel),
    "push-box": Made("push a box forward with both hands, in four steps", "g1-box", push_box),
    "cube-turn": Made("three fingertips turn a cube on the palm by 0.4 rad", "leap", cube_turn),
}


SPOILED = ("sunk", "sliding", "faster")
"""Ways to spoil a motion: 3 cm into the floor; all of it slides sideways by 5 cm and back, once in 2 s; 20 % faster."""


def known(name: str) -> bool:
    """Whether `find` finds a motion."""
    stem, _, how = name.rpartition("-")
    return name in MOTIONS or (stem in MOTIONS and how in SPOILED)


def find(name: str) -> Made:
    """The motion of that name, as kick, or spoiled, as kick-sliding; raises InputError, which names those there are."""
    if name in MOTIONS:
        return MOTIONS[name]
    if not known(name):
        raise unknown("motion", name, MOTIONS)
    stem, _, how = name.rpartition("-")
    own = MOTIONS[stem]
    return Made(f"{own.summary}; {how}", own.robot, lambda: spoiled(own.make(), how))


def make(name: str) -> Motion:
    """The motion of that name; see `find`."""
    return find(name).make()


def spoiled(motion: Motion, how: str) -> Motion:
    """A motion that physics cannot follow, or not as easily: see `SPOILED`."""
    if how not in SPOILED:
        raise unknown("way to spoil a motion", how, SPOILED)
    name = f"{motion.name}-{how}"
    if how == "faster":
        return dataclasses.replace(motion, name=name, fps=1.2 * motion.fps)
    if motion.base is None:
        raise InputError(f"motion {motion.name!r} has a fixed base, which cannot be {how}; use faster")
    base, times = motion.base.copy(), np.arange(motion.frames) / motion.fps
    if how == "sunk":
        base[:, 2] -= 0.03
    else:
        base[:, 1] += 0.025 * (1.0 - np.cos(math.pi * times))
    return dataclasses.replace(motion, name=name, base=base)


def feasible(
    robot: Robot = ROBOTS["g1"],
    seed: int = 0,
    *,
    duration: float = 2.0,
    dt: float = 1.0 / 60.0,
    size: float = 0.1,
    options: Options | None = None,
) -> tuple[Motion, Array]:
    """A motion that physics can follow exactly, and the controls that do it.

    It is recorded in MuJoCo C, from the keyframe on, with smooth random targets around the keyframe's.

    Args:
        robot: the robot
        seed: of the random targets
        duration: of the motion [s]
        dt: time step, and time between frames [s]
        size: standard deviation of the targets every 0.4 s [rad or m]; of the joints of legs a third of it
        options: options of the robot

    Returns:
        the motion, with T frames, and the controls (T - 1, nu) that lead from each frame to the next
    """
    if not (duration > dt > 0.0 and size >= 0.0):
        raise InputError(f"duration={duration}, dt={dt}, size={size}: need duration above dt, dt above 0, size from 0")
    mjm = robot.build(options or Options()).compile()
    mjm.opt.timestep = dt
    steps = round(duration / dt)
    knots = 0.4 * np.arange(math.ceil(duration / 0.4) + 1, dtype=np.float64)
    legs = np.array([any(part in mjm.actuator(i).name for part in ("hip", "knee", "ankle")) for i in range(mjm.nu)])
    noise = np.random.default_rng(seed).normal(0.0, size, (len(knots), mjm.nu)) * np.where(legs, 1.0 / 3.0, 1.0)
    noise[0] = 0.0
    ctrl = mjm.key_ctrl[0] + through(knots, noise, dt * np.arange(steps, dtype=np.float64))
    ctrl = np.clip(ctrl, mjm.actuator_ctrlrange[:, 0], mjm.actuator_ctrlrange[:, 1])
    mjd = mujoco.MjData(mjm)
    mujoco.mj_resetDataKeyframe(mjm, mjd, 0)
    frames = [mjd.qpos.copy()]
    for now in ctrl:
        mjd.ctrl[:] = now
        mujoco.mj_step(mjm, mjd)
        frames.append(mjd.qpos.copy())
    motion = _recorded(mjm, robot, np.array(frames), 1.0 / dt, f"feasible-{robot.name}-{seed}")
    return (detect_contacts(motion, mjm, robot.contacts, robot.base) if robot.base else motion), ctrl


def _recorded(mjm: mujoco.MjModel, robot: Robot, qpos: Array, fps: float, name: str) -> Motion:
    """The motion of positions (T, nq), without contacts."""

    def pose(joint: int) -> Array:
        adr = int(mjm.jnt_qposadr[joint])
        return qpos[:, adr : adr + 7]

    free = mjm.jnt_type == mujoco.mjtJoint.mjJNT_FREE
    thing = mjm.body(robot.object).jntadr[0] if robot.object else -1
    return Motion(
        name=name,
        fps=fps,
        joints=qpos[:, mjm.jnt_qposadr[~free]],
        joint_names=tuple(mjm.joint(int(j)).name for j in np.flatnonzero(~free)),
        base=pose(mjm.joint(robot.base).id) if robot.base else None,
        objects={robot.object: pose(thing)} if robot.object else {},
        source="stickslip",
    )
