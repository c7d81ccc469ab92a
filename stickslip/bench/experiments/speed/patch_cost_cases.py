"""Scenes, settings and closed forms of `patch-cost`."""

import dataclasses

import mujoco

from stickslip import mjcf
from stickslip.bench.experiment import GRAVITY
from stickslip.bench.references import patches
from stickslip.parameters import parameter
from stickslip.simulation import Simulation

MASS, MODULUS, STIFFNESS = 0.5, 2e6, 1e5
"""Of a body that is dropped: kg, Pa with patches, N/m at a point."""
SIZES = {"box": (0.05, 0.04, 0.03), "sphere": (0.04,), "cylinder": (0.03, 0.05), "capsule": (0.03, 0.04)}
"""Half sizes in MuJoCo's order [m]; the capsule lies, the cylinder stands."""
HEIGHT = {"box": 0.03, "sphere": 0.04, "cylinder": 0.05, "capsule": 0.03}
"""Of the middle of a body that just touches the floor [m]."""
DROP, SPEED, APART = 0.005, 0.2, 0.25
"""Height of the fall [m], speed along the floor at the start [m/s], distance of neighbours [m]."""
ROOM = {"patches": 32, "points": 8}
"""Contacts of a body that there is room for."""
DROPPED = {
    "box": ("box",),
    "sphere": ("sphere",),
    "sphere on a box": ("sphere",),
    "8 boxes": ("box",) * 8,
    "8 round bodies": ("sphere", "cylinder", "capsule", "sphere") * 2,
}
"""Bodies of each scene that is made here."""
CYLINDER, GRIPPER = 1e7, 2e9
"""Modulus in the scenes of these names [Pa]."""
_LYING = 'quat="0.70710678 0.70710678 0 0"'
SCENES = (*DROPPED, "cylinder", "gripper")
FORMS = ("patches", "points")


@dataclasses.dataclass(frozen=True)
class Settings:
    scenes: tuple[str, ...] = parameter(("8 boxes", "8 round bodies"), "what is stepped", choices=SCENES)
    worlds: int = parameter(4096, "worlds; one on a CPU, and of a method that runs on the host", low=1, high=1 << 20)
    accuracy: float = parameter(1e-3, "of error control", low=1e-9, high=1.0)
    timestep: float = parameter(0.002, "length of a step, of fixed steps [s]", low=1e-5, high=0.1)
    interval: float = parameter(0.1, "time between reports under error control [s]", low=1e-3, high=1.0)
    duration: float = parameter(1.0, "simulated time [s]", low=0.01, high=100.0)
    noise: float = parameter(1e-3, "standard deviation of velocities at the start [m/s, rad/s]", low=0.0, high=10.0)
    repeats: int = parameter(1, "runs, of which the fastest of each stretch counts; several on a CPU", low=1, high=100)
    geometry_repeats: int = parameter(30, "times the geometry at the end is found", low=1, high=100_000)


@dataclasses.dataclass(frozen=True)
class Case:
    """A scene in one form: with patches or with points."""

    scene: str
    form: str

    @property
    def label(self) -> str:
        return f"{self.scene}, {self.form}"


def model(case: Case) -> mujoco.MjModel:
    """The scene of a case."""
    soft = case.form == "patches"
    if case.scene not in DROPPED:
        modulus = {"cylinder": CYLINDER, "gripper": GRIPPER}[case.scene] if soft else 0.0
        return mjcf.load(f"{case.scene}:modulus={modulus!r}")
    kinds = DROPPED[case.scene]
    room = ROOM[case.form] * len(kinds)
    user = f'user="{STIFFNESS} 20 0 {MODULUS if soft else 0.0} 0"'
    bodies = "".join(
        f'<body pos="{APART * place} 0 {HEIGHT[kind] + DROP}"><freejoint/><geom type="{kind}" mass="{MASS}" {user} '
        f'size="{" ".join(map(str, SIZES[kind]))}" {_LYING if kind == "capsule" else ""}/></body>'
        for place, kind in enumerate(kinds)
    )
    table = (
        'type="box" size="0.5 0.5 0.05" pos="0 0 -0.05"' if "on a box" in case.scene else 'type="plane" size="0 0 1"'
    )
    qvel = " ".join([f"0 {SPEED} 0 0 0 0"] * len(kinds))
    return mjcf.load(
        f"""
        <mujoco model="{case.scene}">
          <size nuser_geom="5"/>
          <default><geom friction="0.3 0.005 0.0001"/></default>
          <worldbody><geom {table}/>{bodies}</worldbody>
          <keyframe><key qvel="{qvel}"/></keyframe>
          <custom>
            <numeric name="stiction_velocity" data="1e-4"/>
            <numeric name="nconmax" data="{room}"/>
            <numeric name="njmax" data="{4 * room}"/>
          </custom>
        </mujoco>
        """
    )


def pressed(kind: str, deep: float) -> float:
    """The force of a body of that kind, `deep` in the floor [N]; none above it, NaN of NaN."""
    if not deep > 0.0:
        return 0.0 * deep
    size = SIZES[kind]
    slope = MODULUS / min(size)
    if kind == "box":
        return patches.box_force(slope, 2.0 * size[0], 2.0 * size[1], deep)
    if kind == "cylinder":
        return patches.cap_force(slope, size[0], deep)
    round_part = patches.sphere_force(MODULUS, size[0], deep)
    return round_part + (patches.flank_force(slope, size[0], 2.0 * size[1], deep) if kind == "capsule" else 0.0)


def force_errors(case: Case, sim: Simulation) -> list[float]:
    """What the closed form makes of the depth at rest, over the weight, of each body; of the gripper its grip [%].

    In the first world, less 100. Nothing of points.
    """
    if case.form == "points":
        return []
    if case.scene == "gripper":
        return [_percent(_grip(sim), _fit(sim.mjm))]
    height = sim.qpos.numpy()[0, 2::7].astype(float)
    if case.scene == "cylinder":
        geom, table = sim.mjm.geom("cylinder"), sim.mjm.geom("table")
        radius, half = geom.size[:2]
        deep = table.pos[2] + table.size[2] + radius - height[0]
        force = (
            patches.flank_force(CYLINDER / min(radius, half), radius, 2.0 * half, deep) if deep > 0.0 else 0.0 * deep
        )
        return [_percent(force, float(sim.mjm.body("cylinder").mass[0]) * GRAVITY)]
    deep = {place: HEIGHT[kind] - height[place] for place, kind in enumerate(DROPPED[case.scene])}
    forces = [pressed(kind, deep[place]) for place, kind in enumerate(DROPPED[case.scene])]
    return [_percent(force, MASS * GRAVITY) for force in forces]


def _percent(force: float, exact: float) -> float:
    return 100.0 * (force / exact - 1.0)


def _grip(sim: Simulation) -> float:
    """What a finger presses with [N]."""
    contacts = sim.contacts()
    own = (contacts.world == 0) & (contacts.geom == sim.mjm.geom("left").id).any(axis=1)
    return float(contacts.force[own, 0].sum())


def _fit(mjm: mujoco.MjModel) -> float:
    """What it should press with [N]: both in series, by the overlap, on the square; the rim has 0.1 % less."""
    finger, peg = mjm.geom("left"), mjm.geom("peg")
    overlap = peg.size[1] + finger.size[1] - abs(float(finger.pos[1]))
    return float(GRIPPER / (2.0 * finger.size[1]) * overlap * 4.0 * finger.size[2] * peg.size[0])
