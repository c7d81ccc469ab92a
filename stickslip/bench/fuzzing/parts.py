"""Tendons, equalities, actuators and sensors at random, for what a model has."""

import dataclasses
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, SubElement

if TYPE_CHECKING:
    from stickslip.bench.fuzzing.models import Draw


@dataclasses.dataclass
class Have:
    """Names of what a model has."""

    bodies: list[str] = dataclasses.field(default_factory=list)
    geoms: list[str] = dataclasses.field(default_factory=list)
    sites: list[str] = dataclasses.field(default_factory=list)
    cameras: list[str] = dataclasses.field(default_factory=list)
    scalars: list[str] = dataclasses.field(default_factory=list)
    balls: list[str] = dataclasses.field(default_factory=list)
    limited: list[str] = dataclasses.field(default_factory=list)
    wraps: list[str] = dataclasses.field(default_factory=list)
    tendons: list[str] = dataclasses.field(default_factory=list)
    limited_tendons: list[str] = dataclasses.field(default_factory=list)
    actuators: list[str] = dataclasses.field(default_factory=list)


def add(root: Element, draw: "Draw", have: Have) -> None:
    """Add them to a model; actuators in the order of their names, sensors after all that they read."""
    for share, what in ((0.35, _tendons), (0.4, _equalities), (0.7, _actuators), (0.7, _sensors)):
        if draw.chance(share):
            what(root, draw, have)


def _tendons(root: Element, draw: "Draw", have: Have) -> None:
    parent = SubElement(root, "tendon")
    for index in range(draw.some(1, 2)):
        name = f"t{index}"
        if have.scalars and draw.chance(0.5):
            tendon = SubElement(parent, "fixed", name=name)
            for joint in have.scalars[: draw.some(1, 3)]:
                SubElement(tendon, "joint", joint=joint, coef=draw.vector(1.0, 1))
        elif len(have.sites) > 1:
            tendon = SubElement(parent, "spatial", name=name)
            SubElement(tendon, "site", site=have.sites[0])
            if have.wraps and draw.chance(0.4):
                SubElement(tendon, "geom", geom=draw.one(have.wraps))
            SubElement(tendon, "site", site=have.sites[1])
            if len(have.sites) > 3 and draw.chance(0.4):
                SubElement(tendon, "pulley", divisor=draw.size(2.0))
                for site in have.sites[2:4]:
                    SubElement(tendon, "site", site=site)
        else:
            continue
        for key, share, usual in (
            ("stiffness", 0.3, 10.0),
            ("damping", 0.3, 0.1),
            ("frictionloss", 0.2, 0.1),
            ("armature", 0.1, 0.01),
        ):
            if draw.chance(share):
                tendon.set(key, draw.size(usual))
        if draw.chance(0.3):
            tendon.set("limited", "true")
            tendon.set("range", f"0 {draw.size(0.5)}")
            have.limited_tendons.append(name)
        have.tendons.append(name)
    if not have.tendons:
        root.remove(parent)


def _equalities(root: Element, draw: "Draw", have: Have) -> None:
    parent = SubElement(root, "equality")
    for _ in range(draw.some(1, 3)):
        kind = draw.one(("connect", "weld", "joint", "tendon"))
        if kind in ("connect", "weld"):
            one = SubElement(parent, kind, body1=draw.one(have.bodies))
            others = [body for body in have.bodies if body != one.get("body1")]
            if others and draw.chance(0.6):
                one.set("body2", draw.one(others))
            if kind == "connect":
                one.set("anchor", draw.vector(0.1))
            elif draw.chance(0.3):
                one.set("torquescale", draw.size(1.0))
        elif kind == "joint" and have.scalars:
            one = SubElement(parent, "joint", joint1=have.scalars[0], polycoef=draw.vector(0.5, 5))
            if len(have.scalars) > 1 and draw.chance(0.7):
                one.set("joint2", have.scalars[1])
        elif kind == "tendon" and have.tendons:
            one = SubElement(parent, "tendon", tendon1=have.tendons[0], polycoef=draw.vector(0.5, 5))
        else:
            continue
        if draw.chance(0.2):
            one.set("active", "false")
        if draw.chance(0.2):
            one.set("solref", draw.sizes(0.02, 1.0))


_ARGUMENTS = {
    "motor": {},
    "position": {"kp": 20.0, "kv": 1.0},
    "velocity": {"kv": 2.0},
    "intvelocity": {"kp": 10.0},
    "damper": {"kv": 1.0},
    "cylinder": {"timeconst": 0.1, "area": 0.01},
    "muscle": {"force": 20.0},
    "dcmotor": {"resistance": 1.0},
    "pid": {"kp": 10.0, "ki": 1.0, "kv": 1.0},
}
"""Actuators, and arguments with usual values, some of which are left out."""


def _actuators(root: Element, draw: "Draw", have: Have) -> None:
    parent = SubElement(root, "actuator")
    for index in range(draw.some(1, 4)):
        kind = draw.one((*_ARGUMENTS, "adhesion", "general"))
        name = f"a{index}"
        if kind == "adhesion":
            one = SubElement(parent, kind, name=name, body=have.bodies[0], gain=draw.size(10.0))
            one.set("ctrlrange", "0 1")
            have.actuators.append(name)
            continue
        on = [("joint", joint) for joint in (*have.scalars, *have.balls)] + [("tendon", t) for t in have.tendons]
        on += [("site", have.sites[0])] if kind != "muscle" else []
        if not on:
            continue
        where, target = draw.one(on)
        one = SubElement(parent, kind, {"name": name, where: target})
        if where == "site" or target in have.balls:
            one.set("gear", draw.vector(1.0, 6))
        elif draw.chance(0.4):
            one.set("gear", draw.size(2.0))
        for key, usual in _ARGUMENTS.get(kind, {}).items():
            if kind in ("dcmotor", "pid") or draw.chance(0.7):
                one.set(key, draw.size(usual))
        if kind == "dcmotor":
            one.set("motorconst", f"{draw.size(0.1)} {draw.size(0.1)}")
        if kind == "damper":
            one.set("ctrlrange", "0 1")
        elif kind == "intvelocity":
            one.set("actrange", draw.interval(1.0))
        elif draw.chance(0.5):
            one.set("ctrllimited", "true")
            one.set("ctrlrange", draw.interval(1.0))
        if kind == "muscle":
            one.set("lengthrange", f"0.1 {1.0 + float(draw.size(0.5)):.6g}")
        if kind == "general":
            dynamics = draw.one(("none", "integrator", "filter", "filterexact"))
            one.set("dyntype", dynamics)
            one.set("biastype", draw.one(("none", "affine")))
            one.set("gainprm", draw.sizes(2.0))
            one.set("dynprm", draw.size(0.1))
        if draw.chance(0.2) and kind != "dcmotor":
            one.set("forcelimited", "true")
            one.set("forcerange", draw.interval(10.0))
        if draw.chance(0.1):
            one.set("delay", f"{min(float(draw.size(0.01)), 0.02):.6g}")
            one.set("nsample", "8")
        have.actuators.append(name)


_OF_SITE = "touch accelerometer velocimeter gyro force torque magnetometer rangefinder".split()
_OF_BODY = "subtreecom subtreelinvel subtreeangmom".split()
_OF_FRAME = (
    "framepos framequat framexaxis frameyaxis framezaxis framelinvel frameangvel framelinacc frameangacc".split()
)
_OF_NOTHING = "clock e_potential e_kinetic".split()


def _sensors(root: Element, draw: "Draw", have: Have) -> None:
    parent = SubElement(root, "sensor")
    families = [
        (_OF_SITE, "site", have.sites),
        ("jointpos jointvel jointactuatorfrc".split(), "joint", have.scalars),
        ("ballquat ballangvel".split(), "joint", have.balls),
        ("jointlimitpos jointlimitvel jointlimitfrc".split(), "joint", [j for j in have.limited if j in have.scalars]),
        ("tendonpos tendonvel tendonactuatorfrc".split(), "tendon", have.tendons),
        ("tendonlimitpos tendonlimitvel tendonlimitfrc".split(), "tendon", have.limited_tendons),
        ("actuatorpos actuatorvel actuatorfrc".split(), "actuator", have.actuators),
        (_OF_BODY, "body", have.bodies),
    ]
    for _ in range(draw.some(1, 6)):
        kind = draw.one(("family", "family", "family", "frame", "nothing", "distance", "contact", "camera"))
        if kind == "family":
            kinds, on, names = draw.one(families)
            if names:
                SubElement(parent, draw.one(kinds), {on: draw.one(names)})
        elif kind == "frame":
            one = SubElement(parent, draw.one(_OF_FRAME), objtype="site", objname=draw.one(have.sites))
            if draw.chance(0.3) and not one.tag.endswith("acc"):
                one.set("reftype", "body")
                one.set("refname", draw.one(have.bodies))
        elif kind == "nothing":
            SubElement(parent, draw.one(_OF_NOTHING))
        elif kind == "distance" and len(have.geoms) > 1:
            tag = draw.one(("distance", "normal", "fromto"))
            SubElement(parent, tag, geom1=have.geoms[0], geom2=have.geoms[-1], cutoff=draw.size(1.0))
        elif kind == "contact":
            data = draw.one(("found", "found force", "found force dist pos normal"))
            SubElement(parent, "contact", body1=draw.one(have.bodies), data=data, num=str(draw.some(1, 3)))
        elif kind == "camera" and have.cameras:
            SubElement(parent, "camprojection", site=draw.one(have.sites), camera=draw.one(have.cameras))
        if len(parent) and draw.chance(0.15) and not parent[-1].tag.endswith(("quat", "axis", "normal")):
            parent[-1].set("cutoff", draw.size(1.0))
