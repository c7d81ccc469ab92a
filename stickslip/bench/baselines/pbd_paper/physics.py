"""The published forms of position-based dynamics: `Pbd`, `PbdRPaper`, and `PbdRAblated` in between.

`PbdRPaper` is PBD-R with the paper's choices, `PbdRAblated` with those of `stickslip.PbdR`. Each choice is one
parameter, so that an experiment can change them one at a time.
"""

import abc
import dataclasses
from typing import Any, ClassVar, Literal, final

import mujoco
import warp as wp

from stickslip import parameters
from stickslip.bench.baselines.pbd_paper import fitted
from stickslip.bench.baselines.pbd_paper.particles import Changes, Particles, advance_particles
from stickslip.errors import InputError
from stickslip.parameters import parameter
from stickslip.physics.base import Promises
from stickslip.physics.mjwarp.memory import per_world
from stickslip.physics.pbd.layout import Options, Step
from stickslip.physics.pbd.memory import ParticleMemory, remembered
from stickslip.physics.pbd.model import MARGIN, Body, Data, Workspace
from stickslip.physics.pbd.physics import ParticlePhysics, launch_advance
from stickslip.physics.pbd.step import make_advance

RELAXATION = 0.9
"""Share of its gap that a contact closes in an iteration, in the paper."""
SWITCHES = ("velocity", "linear", "angular")
"""The parameters of `Changes`."""

advance_fitted = make_advance(fitted)


@dataclasses.dataclass
class OneByOneMemory(ParticleMemory):
    """The memory of particles that move one by one; see `Particles`. Only `x` and `v` last from step to step."""

    particle_x: wp.array = per_world(reset=False)
    particle_v: wp.array = per_world(reset=False)
    particle_start: wp.array = per_world(reset=False)
    particle_adr: wp.array = per_world(reset=False)
    particle_num: wp.array = per_world(reset=False)


class OneByOne(ParticlePhysics, abc.ABC):
    """A physics that may move particles one by one; they are then part of the memory."""

    @property
    @abc.abstractmethod
    def one_by_one(self) -> bool:
        """Whether particles move one by one."""

    @abc.abstractmethod
    def changes(self) -> Changes:
        """Which changes of PBD-R are on, for particles one by one."""

    def unsupported(self, mjm: mujoco.MjModel, bodies: tuple[Body, ...]) -> list[str]:
        bare = [repr(mjm.body(body.root).name or f"body {body.root}") for body in bodies if not len(body.radius)]
        if not bare or not self.one_by_one:
            return []
        listed = ", ".join(bare[:4]) + (f" and {len(bare) - 4} more" if len(bare) > 4 else "")
        return [f"bodies without a geom that collides: {listed}; give them one, or take pbd-r-paper:coordinates=body"]

    def make_memory(self, work: Workspace) -> ParticleMemory:
        shared = remembered(work.exact, work.touching, work.mocap)
        if not self.one_by_one:
            return ParticleMemory(**shared)
        shape = (work.exact.qpos.shape[0], sum(len(body.radius) for body in work.made))
        own = {f"particle_{name}": wp.zeros(shape, dtype=var.type.dtype) for name, var in Particles.vars.items()}
        return OneByOneMemory(**shared, **own)

    def launch(self, s: Step, d: Data, threads: int, block: int) -> None:
        if self.one_by_one:
            arrays, particles = d.memory.arrays(), Particles()
            for name in Particles.vars:
                setattr(particles, name, arrays[f"particle_{name}"])
            inputs = [s, particles, self.changes()]
            wp.launch(advance_particles, dim=threads, inputs=inputs, block_dim=block)
        elif not s.options.surface:
            wp.launch(advance_fitted, dim=threads, inputs=[s], block_dim=block)
        else:
            launch_advance(s, d, threads, block)


@final
@parameters.checked
@dataclasses.dataclass(frozen=True)
class Pbd(OneByOne):
    """Standard position-based dynamics: particles one by one, velocities from positions, single precision."""

    name: ClassVar[str] = "pbd"
    # velocities are differences of positions, with an ulp of 3e-8 m: 3e-5 m/s in each step of 1 ms
    promises: ClassVar[Promises] = Promises(
        free_bodies_only=True, contacts_per_face=None, contact_sensors=False, velocity_error=5e-3, poses_only=True
    )
    iterations: int = parameter(10, "iterations in a substep", 1, 100_000)
    relaxation: float = parameter(
        RELAXATION, "share of its gap that a contact closes in an iteration", 0.0, 2.0, above=True
    )

    @property
    def one_by_one(self) -> bool:
        return True

    def changes(self) -> Changes:
        return Changes()

    def options(self) -> Options:
        options = Options()
        options.substeps, options.iterations = self.substeps or 0, self.iterations
        options.relaxation, options.margin, options.packed = self.relaxation, MARGIN, 1
        return options


@dataclasses.dataclass(frozen=True)
class _PbdR(OneByOne, abc.ABC):
    """PBD-R with every choice of the paper and of `stickslip.PbdR`; the defaults are the paper's."""

    promises: ClassVar[Promises] = Promises(
        free_bodies_only=True, contacts_per_face=None, contact_sensors=False, poses_only=True
    )
    iterations: int = parameter(10, "most iterations in a substep", 1, 100_000)
    tolerance: float = parameter(
        0.0,
        "iterations end when none moves a contact farther than this share of a free fall in a substep; 0: never; "
        "unused with clamp=iteration",
        0.0,
        1.0,
    )
    relaxation: float | None = parameter(
        RELAXATION,
        "share of its gap that a contact closes in an iteration; None: as much as the contacts of a body allow",
        0.0,
        2.0,
        above=True,
        optional=True,
    )
    inertia: Literal["true", "packed"] = parameter(
        "packed",
        "true: the body's mass, centre and inertia; packed: those of its particles, which share its mass",
        choices=("true", "packed"),
    )
    contact: Literal["surface", "centre"] = parameter(
        "centre",
        "surface: contacts act where particles touch, bodies respond by impulses; centre: contacts act in the centres "
        "of particles, bodies are fitted to them",
        choices=("surface", "centre"),
    )
    slip: Literal["relative", "absolute"] = parameter(
        "absolute",
        "relative: friction between particles follows their relative velocity; absolute: each particle's own",
        choices=("relative", "absolute"),
    )
    clamp: Literal["substep", "iteration"] = parameter(
        "iteration",
        "substep: forces are bounded over a whole substep; iteration: in each iteration by itself",
        choices=("substep", "iteration"),
    )
    coordinates: Literal["body", "world"] = parameter(
        "world",
        "body: double precision, an iteration moves only touched bodies; world: particles one by one, single precision",
        choices=("body", "world"),
    )
    velocity: bool = parameter(True, "with coordinates=world: velocities follow from displacements")
    linear: bool = parameter(True, "with coordinates=world: shape matching conserves momentum")
    angular: bool = parameter(True, "with coordinates=world: shape matching conserves angular momentum")

    def __post_init__(self) -> None:
        parameters.check(self)
        off = [name for name in SWITCHES if not getattr(self, name)]
        if self.coordinates == "body" and off:
            raise InputError(f"{', '.join(off)}=false has no effect on bodies: take coordinates='world'")
        if self.coordinates == "world":
            wanted = {"inertia": "packed", "contact": "centre", "clamp": "iteration"}
            wrong = [f"{k}={getattr(self, k)!r}" for k, v in wanted.items() if getattr(self, k) != v]
            wrong += ["relaxation=None"] if self.relaxation is None else []
            if wrong:
                raise InputError(
                    f"{', '.join(wrong)} with coordinates='world': particles one by one are as in the paper; "
                    "begin with pbd-r-paper, or take coordinates='body'"
                )

    @property
    def one_by_one(self) -> bool:
        return self.coordinates == "world"

    def changes(self) -> Changes:
        changes = Changes()
        changes.velocity, changes.linear, changes.angular = self.velocity, self.linear, self.angular
        return changes

    def options(self) -> Options:
        options = Options()
        options.substeps, options.iterations = self.substeps or 0, self.iterations
        options.tolerance = self.tolerance if self.clamp == "substep" else 0.0
        options.relaxation, options.margin = self.relaxation or 0.0, MARGIN
        options.packed, options.surface = int(self.inertia == "packed"), int(self.contact == "surface")
        options.relative, options.accumulate = int(self.slip == "relative"), int(self.clamp == "substep")
        return options


@final
@parameters.checked
@dataclasses.dataclass(frozen=True)
class PbdRPaper(_PbdR):
    """PBD-R as published: particles one by one, in single precision."""

    name: ClassVar[str] = "pbd-r-paper"


def _ours(name: str, default: Any) -> Any:
    """A parameter of `_PbdR` with the default that `stickslip.PbdR` has."""
    return dataclasses.field(default=default, metadata=parameters.fields(_PbdR)[name].metadata)


@final
@parameters.checked
@dataclasses.dataclass(frozen=True)
class PbdRAblated(_PbdR):
    """PBD-R with the choices of `stickslip.PbdR`; each can be taken back to the paper's."""

    name: ClassVar[str] = "pbd-r-ablated"
    iterations: int = _ours("iterations", 50)
    tolerance: float = _ours("tolerance", 1e-4)
    relaxation: float | None = _ours("relaxation", None)
    inertia: Literal["true", "packed"] = _ours("inertia", "true")
    contact: Literal["surface", "centre"] = _ours("contact", "surface")
    slip: Literal["relative", "absolute"] = _ours("slip", "relative")
    clamp: Literal["substep", "iteration"] = _ours("clamp", "substep")
    coordinates: Literal["body", "world"] = _ours("coordinates", "body")
