"""MJCF at random: bodies, joints, geoms and what belongs to them, with ordinary and extreme numbers.

The structure of a model, which decides what kernels it needs, and the numbers in it come from two seeds. Models of one
structure share their kernels, so that thousands of cases need not compile anything.
"""

import dataclasses
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from stickslip.bench.fuzzing import parts

EXTREME = 0.06
"""Share of numbers that are many orders of magnitude away from what is usual."""
TETRAHEDRON = "0 0 0  .1 0 0  0 .12 0  .02 .03 .14"
_GEOMS = ("sphere", "capsule", "cylinder", "box", "ellipsoid", "mesh")
_JOINTS = ("hinge", "slide", "ball")


@dataclasses.dataclass
class Draw:
    """Random numbers of a model.

    Attributes:
        structure: decides what there is
        numbers: decides how large it is
        tame: whether numbers stay ordinary
    """

    structure: np.random.Generator
    numbers: np.random.Generator
    tame: bool = False

    def chance(self, share: float) -> bool:
        """Whether something is there."""
        return bool(self.structure.random() < share)

    def one(self, options):
        """One of several."""
        return options[int(self.structure.integers(len(options)))]

    def some(self, low: int, high: int) -> int:
        """How many, both bounds included."""
        return int(self.structure.integers(low, high + 1))

    def size(self, usual: float) -> str:
        """A positive number near a usual one, or, seldom, many orders of magnitude away from it."""
        return f"{self._size(usual):.6g}"

    def _size(self, usual: float) -> float:
        extreme = not self.tame and self.numbers.random() < EXTREME
        return usual * 10.0 ** self.numbers.uniform(*((-6.0, 6.0) if extreme else (-0.4, 0.4)))

    def sizes(self, *usual: float) -> str:
        return " ".join(self.size(one) for one in usual)

    def vector(self, scale: float, n: int = 3) -> str:
        """A vector of any direction."""
        return " ".join(f"{x:.6g}" for x in self.numbers.normal(0.0, self._size(scale), n))

    def interval(self, scale: float) -> str:
        low, high = sorted(self.numbers.normal(0.0, self._size(scale), 2))
        return f"{low:.6g} {high + 1e-9 + abs(high) * 1e-6:.6g}"


def text(seed: int, structure: int, case: int) -> str:
    """A model as MJCF; the same for the same three numbers."""
    draw = Draw(
        np.random.default_rng([seed, structure]),
        np.random.default_rng([seed, structure, case]),
        tame=case % 3 == 0,
    )
    return ElementTree.tostring(make(draw), encoding="unicode")


def make(draw: Draw) -> Element:
    root = Element("mujoco", model="fuzz")
    free_only = draw.chance(0.3)  # models that a physics of free bodies can run
    _options(root, draw)
    asset = SubElement(root, "asset")
    SubElement(asset, "mesh", name="tetrahedron", vertex=TETRAHEDRON)
    world = SubElement(root, "worldbody")
    have = parts.Have()
    _ground(root, world, draw)
    bodies = [world]
    for number in range(draw.some(1, 5)):
        top = free_only or number == 0 or draw.chance(0.5)
        parent = world if top else draw.one(bodies[1:])
        bodies.append(_body(parent, number, top, free_only, draw, have))
    if not free_only and draw.chance(0.2):
        mocap = SubElement(world, "body", name="mocap", mocap="true", pos=draw.vector(0.5))
        SubElement(mocap, "geom", name="mocap_geom", size=draw.size(0.05))
        have.bodies.append("mocap")
    if draw.chance(0.2):
        contact = SubElement(root, "contact")
        SubElement(contact, "pair", geom1="ground", geom2=have.geoms[0], condim=draw.one(("1", "3", "4", "6")))
    if not free_only:
        parts.add(root, draw, have)
    return root


def _options(root: Element, draw: Draw) -> None:
    option = SubElement(root, "option", timestep=f"{min(float(draw.size(0.003)), 0.05):.6g}")
    option.set("integrator", draw.one(("Euler", "Euler", "implicitfast", "implicitfast", "implicit", "RK4")))
    option.set("cone", draw.one(("pyramidal", "elliptic")))
    option.set("gravity", draw.vector(9.81) if draw.chance(0.3) else "0 0 -9.81")
    if draw.chance(0.2):
        option.set("solver", draw.one(("CG", "Newton")))
        option.set("impratio", draw.size(5.0))
    if draw.chance(0.1):
        option.set("density", draw.size(1.2))
        option.set("viscosity", draw.size(2e-5))
        option.set("wind", draw.vector(1.0))
    if draw.chance(0.2):
        flag = SubElement(option, "flag")
        flag.set(draw.one(("gravity", "contact", "limit", "equality", "filterparent", "eulerdamp")), "disable")


def _ground(root: Element, world: Element, draw: Draw) -> None:
    if draw.chance(0.15):
        rows = draw.some(2, 5)
        heights = " ".join(f"{x:.3g}" for x in draw.numbers.random(rows * rows))
        SubElement(root[1], "hfield", name="hills", nrow=str(rows), ncol=str(rows), size="2 2 .2 .1", elevation=heights)
        SubElement(world, "geom", name="ground", type="hfield", hfield="hills")
    else:
        SubElement(world, "geom", name="ground", type="plane", size="5 5 .1", friction=draw.sizes(0.8, 0.005, 1e-4))


def _body(parent: Element, number: int, top: bool, free_only: bool, draw: Draw, have: "parts.Have") -> Element:
    name = f"b{number}"
    at = f"{0.4 * number:.3g} 0 {float(draw.size(0.4)):.6g}" if top else draw.vector(0.1)
    body = SubElement(parent, "body", name=name, pos=at)
    have.bodies.append(name)
    if draw.chance(0.3):
        body.set("quat", draw.vector(1.0, 4))
    if draw.chance(0.1):
        body.set("gravcomp", draw.size(1.0))
    if free_only or (top and draw.chance(0.5)):
        SubElement(body, "freejoint", name=f"{name}_free")
    else:
        _joints(body, name, draw, have)
    if draw.chance(0.2):
        a, b = (float(draw.size(0.01)) for _ in range(2))
        SubElement(
            body, "inertial", pos=draw.vector(0.02), mass=draw.size(1.0), diaginertia=f"{a:.6g} {b:.6g} {max(a, b):.6g}"
        )
    for index in range(draw.some(1, 2)):
        _geom(body, f"{name}_g{index}", free_only, draw, have)
    SubElement(body, "site", name=f"{name}_s", pos=draw.vector(0.05), size=draw.size(0.02))
    have.sites.append(f"{name}_s")
    if draw.chance(0.1):
        SubElement(body, "camera", name=f"{name}_c", pos=draw.vector(0.1))
        have.cameras.append(f"{name}_c")
    return body


def _joints(body: Element, name: str, draw: Draw, have: "parts.Have") -> None:
    kinds = [draw.one(_JOINTS)] if draw.chance(0.7) else ["slide", "hinge"]
    for index, kind in enumerate(kinds):
        joint = SubElement(body, "joint", name=f"{name}_j{index}", type=kind)
        if kind != "ball":
            joint.set("axis", draw.vector(1.0))
            have.scalars.append(joint.get("name", ""))
        else:
            have.balls.append(joint.get("name", ""))
        if draw.chance(0.5):
            joint.set("pos", draw.vector(0.05))
        for key, share, usual in (
            ("damping", 0.4, 0.1),
            ("armature", 0.4, 0.01),
            ("stiffness", 0.2, 5.0),
            ("frictionloss", 0.2, 0.1),
        ):
            if draw.chance(share):
                joint.set(key, draw.size(usual))
        if draw.chance(0.4):
            joint.set("limited", "true")
            joint.set(
                "range", f"0 {draw.size(60.0)}" if kind == "ball" else draw.interval(0.3 if kind == "slide" else 60.0)
            )
            have.limited.append(joint.get("name", ""))
            if draw.chance(0.3):
                joint.set("solreflimit", draw.sizes(0.02, 1.0))
                joint.set("margin", draw.size(0.01))


def _geom(body: Element, name: str, free_only: bool, draw: Draw, have: "parts.Have") -> None:
    kind = draw.one(_GEOMS)
    geom = SubElement(body, "geom", name=name, type=kind, pos=draw.vector(0.03))
    if kind == "mesh":
        geom.set("mesh", "tetrahedron")
    else:
        geom.set("size", draw.sizes(0.06, 0.08, 0.05))
    if draw.chance(0.3):
        geom.set("quat", draw.vector(1.0, 4))
    geom.set("density", draw.size(1000.0))
    geom.set("friction", draw.sizes(0.8, 0.005, 1e-4))
    geom.set("condim", "3" if free_only else draw.one(("1", "3", "3", "4", "6")))
    if draw.chance(0.2):
        geom.set("solref", draw.sizes(0.02, 1.0) if draw.chance(0.7) else f"-{draw.size(2000.0)} -{draw.size(20.0)}")
    if draw.chance(0.15):
        geom.set("margin", draw.size(0.005))
        geom.set("gap", draw.size(0.002))
    if draw.chance(0.1):
        geom.set("solimp", "0.9 0.95 0.001 0.5 2")
        geom.set("priority", "1")
    have.geoms.append(name)
    if kind in ("sphere", "cylinder"):
        have.wraps.append(name)
