"""Every contact physics by name: where its class is, and what help texts, tables and plots say about it.

A built-in physics is one `Entry` in `_BUILT_IN`. A physics of another package is an `Entry` in that package, which it
names in its `pyproject.toml` (see docs/adding-a-physics.md):

    [project.entry-points."stickslip.physics"]
    NAME = "PACKAGE:ENTRY"

Names and descriptions are available without importing any physics; `PHYSICS[name]` imports one.
"""

import functools
import importlib
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from stickslip.errors import InputError, unknown

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from stickslip.physics.base import Physics

GROUP = "stickslip.physics"
"""The entry point group of physics from other packages."""

Role = Literal["production", "differentiable", "baseline"]
"""production: takes part in every experiment. differentiable: is compiled per model and has experiments of its own.
baseline: is there to compare with, in the experiments that name it."""


@dataclass(frozen=True)
class Entry:
    """A registered physics.

    Attributes:
        name: on the command line and in results
        where: its class, as "module:Class"
        summary: what it does, in one line
        good_at: what it is good at
        weak_at: what it is weak at
        colour: of its lines in plots, as "#rrggbb"
        role: whether every experiment takes it; see `Role`
        extra: the extra of the package to install for it; "" if it needs no extra
        readme: its equations, as a path from the root of the repository; "" if there is no such file
    """

    name: str
    where: str
    summary: str
    good_at: str
    weak_at: str
    colour: str
    role: Role = "production"
    extra: str = ""
    readme: str = ""


_BUILT_IN = (
    Entry(
        "mujoco",
        "stickslip.physics.mujoco:MuJoCo",
        "MuJoCo Warp unchanged: an iterative solver for all constraints together",
        "stiff contact, sticking friction, grasps, equalities; every integrator and option of MuJoCo Warp; "
        "`anti_creep=true` sets the elliptic cone and impratio 100",
        "slow in dense piles; stores a constraint Jacobian",
        "#4a7fb5",
    ),
    Entry(
        "comfree",
        "stickslip.physics.comfree.physics:ComFree",
        "one closed-form pass over all constraints, no solver",
        "cost linear in the number of contacts and the least per contact; no Jacobian, so little memory per "
        "world; smooth and exact-impedance variants",
        "friction creeps; contact, limits and equalities are soft; Euler and implicitfast only",
        "#e07b39",
        readme="stickslip/physics/comfree/README.md",
    ),
    Entry(
        "cone-sweep",
        "stickslip.physics.conesweep.physics:ConeSweep",
        "rigid contact with exact stick-slip friction: a fixed number of warm-started sweeps over all contacts",
        "rigid contact; friction that sticks in grasps, stacks and on slopes; hard limits and equalities; a fixed "
        "number of sweeps instead of a tolerance; no Jacobian",
        "no softness (`solref`, `solimp`); heavy bodies on light ones; on a GPU, robots at rest step slower than with "
        "MuJoCo Warp; Euler and implicitfast only",
        "#2a9d6f",
        readme="stickslip/physics/conesweep/README.md",
    ),
    Entry(
        "icf",
        "stickslip.physics.convex.icf.physics:Icf",
        "compliant contact as a convex problem, solved once per time step",
        "stable at any time step; one solve per step, so its cost varies less than that of `cenic`",
        "large piles are slow; first-order error in the time step",
        "#8a6bbf",
        readme="stickslip/physics/convex/icf/README.md",
    ),
    Entry(
        "cenic",
        "stickslip.physics.convex.cenic.physics:Cenic",
        "compliant contact as a convex problem, with error-controlled step sizes per world",
        "a chosen accuracy instead of a chosen time step; impacts, clutter, stiff controllers and external systems; "
        "static and dynamic friction, material parameters of geoms",
        "large piles are slow; creeps at 1e-6 m/s; loses energy in elastic bounces",
        "#5b3e99",
        readme="stickslip/physics/convex/cenic/README.md",
    ),
    Entry(
        "pbd-r",
        "stickslip.physics.pbd.physics:PbdR",
        "free bodies packed with spheres; contact impulses conserve momentum",
        "free bodies of any shape, convex or not, that slide, stick and roll; stacks of equal bodies; momentum "
        "conserved to rounding",
        "no joints, actuators or equalities; no torsional or rolling friction; edges are rounded by the spheres; heavy "
        "bodies on light ones; many spheres on a CPU; large piles on a GPU",
        "#7d6608",
        readme="stickslip/physics/pbd/README.md",
    ),
    Entry(
        "scm",
        "stickslip.physics.scm.physics:Scm",
        "smooth, differentiable contact of surfaces sampled as oriented points; in JAX",
        "first and second derivatives of a step and of rollouts by state, control and parameters; shapes that are not "
        "convex",
        "soft: friction creeps at 1 cm/s near its limit, contact sinks in by 0.1 mm to 1 mm; no equalities; JAX "
        "compiles each model for ten seconds or more",
        "#c8558d",
        role="differentiable",
        extra="jax",
        readme="stickslip/physics/scm/README.md",
    ),
)

DEFAULT = "cone-sweep"
"""The physics of a simulation that names none."""


def entries() -> dict[str, Entry]:
    """Every registered physics by name: the built-in ones, then those of other packages."""
    return dict(_registered())


@functools.cache
def _registered() -> Mapping[str, Entry]:
    from importlib.metadata import entry_points  # slow, and not needed to import stickslip

    found = {entry.name: entry for entry in _BUILT_IN}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        package = point.dist.name if point.dist else point.module
        try:
            found[point.name] = _check(point.load(), point, found)
        except Exception as error:  # whatever a stranger's module raises, the other physics stay usable
            reason = f"the physics {point.name!r} of the package {package!r} cannot be used: {error}"
            warnings.warn(reason, stacklevel=3)
    return found


def _check(entry: object, point: "EntryPoint", found: Mapping[str, Entry]) -> Entry:
    if not isinstance(entry, Entry):
        raise InputError(f"{point.value} is a {type(entry).__name__}; it must be a stickslip.physics.registry.Entry")
    if entry.name != point.name:
        raise InputError(f"{point.value} has the name {entry.name!r}; give entry point and entry the same name")
    if entry.name in found:
        raise InputError(f"there is another physics of that name, {found[entry.name].where}; choose another name")
    return entry


def names(*roles: Role) -> list[str]:
    """The names of every physics, or of each physics with one of these roles."""
    return [entry.name for entry in entries().values() if not roles or entry.role in roles]


def find(name: str) -> Entry:
    """The entry of that name; raises InputError with close names if there is none. Imports no physics."""
    known = entries()
    if name not in known:
        raise unknown("physics", name, known)
    return known[name]


class _Classes(Mapping[str, "type[Physics[Any, Any]]"]):
    """Name to class, imported when it is looked up."""

    def __getitem__(self, name: str) -> "type[Physics[Any, Any]]":
        entry = entries()[name]
        module, _, attribute = entry.where.partition(":")
        kind = getattr(importlib.import_module(module), attribute)
        if kind.name != name:
            raise InputError(f"{entry.where} is registered as {name!r} but its name is {kind.name!r}; they must agree")
        return kind

    def __contains__(self, name: object) -> bool:
        return name in entries()

    def __iter__(self) -> Iterator[str]:
        return iter(entries())

    def __len__(self) -> int:
        return len(entries())

    def __repr__(self) -> str:
        return f"<physics: {', '.join(self)}>"


PHYSICS: Mapping[str, "type[Physics[Any, Any]]"] = _Classes()
"""Every physics class by name."""


def public() -> dict[str, str]:
    """The module of each built-in physics class, by class name."""
    return {kind: module for module, _, kind in (entry.where.partition(":") for entry in _BUILT_IN)}


def table() -> list[tuple[str, str, str, str]]:
    """Rows (name, what it does, good at, weak at) for a table in Markdown; the second links to the equations."""
    rows = []
    for entry in _BUILT_IN:
        link = f" ([equations]({entry.readme}))" if entry.readme else ""
        rows.append((f"`{entry.name}`", entry.summary + link, entry.good_at, entry.weak_at))
    return rows
