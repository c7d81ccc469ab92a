"""A finger of a hand (`finger.xml`): four hinges with position servos, links that are capsules.

The scene "hand" has four of them as they are. For another hand, `attach` takes lengths and joint ranges of the links
from a table, and contact, joint and servo parameters from the defaults of that hand's MJCF.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from stickslip.scenes.look import Vector
from stickslip.scenes.scene import FOLDER

if TYPE_CHECKING:
    import mujoco

FILE = "finger.xml"


@dataclasses.dataclass(frozen=True)
class Link:
    """A link of a finger and the hinge that moves it.

    Attributes:
        name: of its body and geom; the finger's name comes before it
        range: of the hinge [rad]
        radius: of the capsule [m]
        end: of the capsule's axis [m]
        mass: [kg]
        pos: of the hinge on the link before [m]
        axis: of the hinge
        start: of the capsule's axis [m]
    """

    name: str
    range: tuple[float, float]
    radius: float
    end: Vector
    mass: float
    pos: Vector = (0.0, 0.0, 0.0)
    axis: Vector = (0.0, -1.0, 0.0)
    start: Vector = (0.0, 0.0, 0.0)


def attach(spec: mujoco.MjSpec, frame: mujoco.MjsFrame, name: str, links: tuple[Link, ...]) -> None:
    """Attach a finger to a frame of a palm. Its elements are called "index_base", its joints and servos "index_0".

    Args:
        spec: of the hand; its defaults of geom, joint and actuator are the finger's
        frame: where the finger starts
        name: of the finger
        links: from the palm to the fingertip, four
    """
    import mujoco

    finger = mujoco.MjSpec.from_file(str(FOLDER / FILE))
    ours = spec.default
    for body, joint, servo, link in zip(finger.bodies[1:], finger.joints, finger.actuators, links, strict=True):
        geom = body.geoms[0]
        body.name = geom.name = link.name
        body.pos, joint.axis, joint.range = link.pos, link.axis, link.range
        geom.size, geom.fromto, geom.mass = [link.radius, 0.0, 0.0], [*link.start, *link.end], link.mass
        _copy(ours.joint, joint, "damping armature frictionloss")
        _copy(ours.actuator, servo, "gainprm biasprm forcerange ctrlrange")
    for geom in finger.geoms:
        _copy(ours.geom, geom, "friction condim solref solimp")
    spec.attach(finger, frame=frame, prefix=f"{name}_")
    share_materials(spec)


def share_materials(spec: mujoco.MjSpec) -> None:
    """Give attached fingers the materials of the scene in place of the copies that came with each finger."""
    own = {material.name for material in spec.materials}
    for geom in spec.geoms:
        if geom.material and (shared := geom.material.rpartition("_")[2]) in own:
            geom.material = shared
    for material in list(spec.materials):
        if material.name.rpartition("_")[2] in own - {material.name}:
            spec.delete(material)


def _copy(source: Any, target: Any, names: str) -> None:
    for name in names.split():
        setattr(target, name, getattr(source, name))
