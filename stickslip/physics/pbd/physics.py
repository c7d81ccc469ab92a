"""The physics `Pbd` and `PbdR`: rigid bodies made of particles."""

import abc
import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, final

import mujoco
import mujoco_warp as mjw
import numpy as np
import warp as wp
from numpy.typing import NDArray

from stickslip.errors import InputError, Unsupported
from stickslip.physics.base import Contacts, Health, Stage
from stickslip.physics.pbd import model
from stickslip.physics.pbd.lanes import WARP
from stickslip.physics.pbd.layout import Exact, Hand, Options, Step, Touching, World
from stickslip.physics.pbd.model import room_of
from stickslip.physics.pbd.particles import advance_particles
from stickslip.physics.pbd.step import CROWD, advance, advance_crowded, advance_fitted, look
from stickslip.physics.settings import check_count, check_number
from stickslip.physics.warp import WORLD_FIELDS, Data, WarpPhysics, naming_unsupported
from stickslip.state import State

wp.set_module_options({"enable_backward": False})

OVERLAP = 0.5
"""Deepest overlap at the start that is let pass, in radii."""
_READ = frozenset("body_mass body_inertia body_ipos body_iquat geom_friction timestep gravity".split())
"""Fields of the model that a step reads anew."""
_SEEN = frozenset(name for name in WORLD_FIELDS if name.startswith(("cam_", "light_", "mat_", "site_", "geom_rgba")))
"""Fields that are there to be looked at."""
RELAXATION = 0.9
"""Share of its gap that a contact closes in an iteration, in the paper."""


@wp.kernel
def _forget(mask: wp.array[bool], exact: Exact, touching: Touching, hand: Hand):
    """The exact state follows the shown one to the last digit, there are no contacts, and nothing was moved by hand."""
    worldid = wp.tid()
    if mask[worldid]:
        touching.count[worldid] = 0
        touching.shown[worldid] = 0
        for i in range(hand.pos_before.shape[1]):
            hand.pos_before[worldid, i] = wp.vec3(wp.nan, wp.nan, wp.nan)
        for i in range(exact.qpos.shape[1]):
            exact.qpos[worldid, i] = wp.float64(wp.nan)
        for i in range(exact.qvel.shape[1]):
            exact.qvel[worldid, i] = wp.float64(wp.nan)


@wp.kernel
def _put(mask: wp.array[bool], pos: wp.array2d[wp.vec3], quat: wp.array2d[wp.quat], hand: Hand):
    """What is moved by hand begins where it is."""
    worldid = wp.tid()
    if mask[worldid]:
        for i in range(pos.shape[1]):
            hand.pos_before[worldid, i] = pos[worldid, i]
            hand.quat_before[worldid, i] = quat[worldid, i]


@wp.kernel
def _clear(nacon_out: wp.array[int]):
    nacon_out[0] = 0


class ParticlePhysics(WarpPhysics[model.Model], abc.ABC):
    """A physics whose bodies are made of particles; the fields here are those that both have."""

    name: ClassVar[str]
    substeps: int | None
    iterations: int
    resolution: int
    mesh_resolution: int

    @abc.abstractmethod
    def options(self) -> Options:
        """The parameters of a step."""

    @property
    @abc.abstractmethod
    def one_by_one(self) -> bool:
        """Whether particles move one by one."""

    def check_shared(self) -> None:
        """Raise InputError unless the fields that both have are fit."""
        check_count("substeps", self.substeps, 1, 10_000, optional=True)
        check_count("iterations", self.iterations, 1, 100_000)
        check_count("resolution", self.resolution, 1, 200)
        check_count("mesh_resolution", self.mesh_resolution, 2, 200)

    def _bodies(self, mjm: mujoco.MjModel) -> tuple[model.Body, ...]:
        packed = bool(self.options().packed)
        return model.make_bodies(mjm, self.resolution, self.mesh_resolution, seated=not packed)

    def check(self, mjm: mujoco.MjModel) -> None:
        self.put_model(mjm)

    def put_model(self, mjm: mujoco.MjModel) -> model.Model:
        return self._put_model(mjm, None)

    def _put_model(self, mjm: mujoco.MjModel, made: tuple[model.Body, ...] | None) -> model.Model:
        """The model on the current device, with bodies that are made already, if they are."""
        with naming_unsupported(self.name, model.unsupported_features(mjm)):
            made = self._bodies(mjm) if made is None else made
        with naming_unsupported(self.name, model.bare_bodies(mjm, made) if self.one_by_one else []):
            m = model.put_model(mjm, made)
        m.opt.warn_overflow = False  # health() says it, once and with the number to raise
        return m

    def allocate(self, mjm: mujoco.MjModel, nworld: int, nconmax: int | None, njmax: int | None) -> mjw.Data:
        d = mjw.make_data(mjm, nworld=nworld, nconmax=1, njmax=1)
        made = self._bodies(mjm)
        return model.own_data(d, model.make_room(mjm, made, nworld, nconmax, one_by_one=self.one_by_one))

    def stages(self, m: model.Model, d: Data) -> list[Stage]:
        return [("step", lambda: self.advance(m, d))]

    def make_data(
        self, mjm: mujoco.MjModel, nworld: int, *, nconmax: int | None = None, njmax: int | None = None
    ) -> Data:
        d = super().make_data(mjm, nworld, nconmax=nconmax, njmax=njmax)
        self._check_start(mjm, d)
        return self._reset(d, wp.ones(nworld, dtype=bool))

    def _check_start(self, mjm: mujoco.MjModel, d: Data) -> None:
        """Raise InputError where particles overlap at the model's start, of which the first world is left changed."""
        room = room_of(d)
        m = self._put_model(mjm, room.made)
        wp.launch(look, dim=room.nlane, inputs=[self._step(m, d)], block_dim=max(room.nlane, WARP))
        t = room.touching
        count = min(int(t.count.numpy()[0]), t.room)
        gap, particle = t.gap.numpy()[0, :count], t.particle.numpy()[0, :count]
        radius = m.shape.radius.numpy()[particle] if count else np.zeros(0)
        if not (gap < -OVERLAP * radius).any():
            return
        worst = int(np.argmin(gap + OVERLAP * radius))
        other, collider = int(t.other.numpy()[0, worst]), int(t.collider.numpy()[0, worst])
        geoms = m.shape.geom.numpy()
        pair = (
            int(geoms[particle[worst]]),
            int(geoms[other] if other >= 0 else m.shape.collider_geom.numpy()[collider]),
        )
        names = " and ".join(repr(mujoco.mj_id2name(mjm, mujoco.mjtObj.mjOBJ_GEOM, g) or f"geom {g}") for g in pair)
        raise InputError(
            f"{names} overlap by {-1e3 * gap[worst]:.3g} mm at the start, by more than {OVERLAP:g} of the radius of a "
            f"particle, {1e3 * radius[worst]:.3g} mm: move them apart, exclude their contact, or lower the resolution"
        )

    def _step(self, m: model.Model, d: Data) -> Step:
        """What the kernels of a step are given."""
        room, world, step = room_of(d), World(), Step()
        for name in ("body_mass", "body_inertia", "body_ipos", "body_iquat"):
            setattr(world, name, getattr(m, name))
        for name in ("qfrc_applied", "xfrc_applied", "time", "qpos", "qvel"):
            setattr(world, name, getattr(d, name))
        weightless = m.opt.disableflags & mjw.DisableBit.GRAVITY
        world.timestep, world.gravity = m.opt.timestep, m.weightless if weightless else m.opt.gravity
        room.hand.pos, room.hand.quat = d.mocap_pos, d.mocap_quat
        m.surface.friction = m.geom_friction
        step.shape, step.colliders, step.surface = m.shape, m.colliders, m.surface
        world.hand, step.options, step.world = room.hand, self.options(), world
        step.overflow, step.nacon = d.overflow, d.nacon
        for name in ("exact", "bodies", "touching", "particles", "near", "awake", "nlane", "nteam"):
            setattr(step, name, getattr(room, name))
        return step

    def advance(self, m: model.Model, d: Data) -> None:
        room = room_of(d)
        threads = d.nworld * room.nlane
        kernel = advance_crowded if threads > CROWD and d.qpos.device.is_cuda else advance
        if self.one_by_one:
            kernel = advance_particles
        elif not self.options().surface:
            kernel = advance_fitted
        wp.launch(_clear, dim=1, outputs=[d.nacon])
        wp.launch(kernel, dim=threads, inputs=[self._step(m, d)], block_dim=max(room.nlane, WARP))

    def arrays(self, m: model.Model, d: Data) -> Mapping[str, wp.array]:
        room = room_of(d)
        own = {"exact_qpos": room.exact.qpos, "exact_qvel": room.exact.qvel, "contact_peak": room.touching.most}
        own |= {"mocap_pos_before": room.hand.pos_before, "mocap_quat_before": room.hand.quat_before}
        if self.one_by_one:
            own |= {"particle_x": room.particles.x, "particle_v": room.particles.v}
        return {**super().arrays(m, d), **own}

    def set_state(self, m: model.Model, d: Data, state: State) -> Data:
        super().set_state(m, d, state)
        self._start_anew(d, wp.ones(d.nworld, dtype=bool))
        return d

    def _reset(self, d: Data, mask: wp.array) -> Data:
        self._start_anew(d, mask)
        super()._reset(d, mask)
        hand = room_of(d).hand
        wp.launch(_put, dim=d.nworld, inputs=[mask, d.mocap_pos, d.mocap_quat, hand])
        return d

    def _start_anew(self, d: Data, mask: wp.array) -> None:
        room = room_of(d)
        wp.launch(_forget, dim=d.nworld, inputs=[mask, room.exact, room.touching, room.hand])

    def contact_count(self, m: model.Model, d: Data) -> int:
        return int(room_of(d).touching.shown.numpy().sum())

    def contacts(self, m: model.Model, d: Data) -> Contacts:
        t = room_of(d).touching
        count = np.minimum(t.count.numpy(), t.room)
        world = np.repeat(np.arange(d.nworld), count)
        index = np.arange(len(world)) - np.repeat(np.cumsum(count) - count, count)

        def field(name: str) -> NDArray:
            return getattr(t, name).numpy()[world, index]

        force, gap = field("last"), field("gap")
        chosen = (field("other") < field("particle")) & (force.any(axis=1) | (gap <= 0.0))
        world, index, force, gap = world[chosen], index[chosen], force[chosen], gap[chosen]
        particle, other, collider = (field(name) for name in ("particle", "other", "collider"))
        geom = np.append(m.shape.geom.numpy(), -1)
        still = np.append(m.shape.collider_geom.numpy(), -1)
        theirs = np.where(other >= 0, geom[other], still[collider])
        frame = _frames(field("normal"))
        wrench = np.zeros((len(world), 6))
        wrench[:, :3] = np.einsum("nij,nj->ni", frame, force)
        return Contacts(world, np.stack([theirs, geom[particle]], axis=1), gap, field("point"), frame, wrench)

    def health(self, m: model.Model, d: Data) -> Health:
        health = super().health(m, d)
        if not health.overflow:
            return health
        t = room_of(d).touching
        wanted = int(t.most.numpy().max(initial=0))
        room = t.room // 2
        raised = max(-(-wanted // 2), 2 * room)
        overflow = (f"contacts of particles were dropped: raise nconmax from {room} to at least {raised}",)
        return dataclasses.replace(health, overflow=overflow)

    def set_model(self, m: model.Model, d: Data, fields: Mapping[str, Any]) -> model.Model:
        unread = sorted((fields.keys() & WORLD_FIELDS) - _READ - _SEEN)
        if unread:
            raise Unsupported(
                f"{self.name} cannot change {', '.join(unread)} of a model that is loaded: a step of it reads "
                f"{', '.join(sorted(_READ))}; change the rest in the MjModel and make a new Simulation"
            )
        return super().set_model(m, d, fields)


def _frames(normal: NDArray[np.float64]) -> NDArray[np.float64]:
    """Normal and two tangents, (n, 3, 3)."""
    beside = np.where(np.abs(normal[:, :1]) < 0.5, [[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]])
    first = np.cross(normal, beside)
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    return np.stack([normal, first, np.cross(normal, first)], axis=1).astype(float)


@final
@dataclasses.dataclass(frozen=True)
class Pbd(ParticlePhysics):
    """Position based dynamics as it is known: every particle by itself, velocities from positions, single precision.

    It is here to be compared with; take `PbdR` to simulate.

    Attributes:
        substeps: of a step; None: as many as keep them at 1 ms or below
        iterations: of a substep
        resolution: particles along the shortest side of a geom
        mesh_resolution: likewise, of a mesh
        relaxation: share of its gap that a contact closes in an iteration
    """

    name: ClassVar[str] = "pbd"
    substeps: int | None = None
    iterations: int = 10
    resolution: int = 4
    mesh_resolution: int = 16
    relaxation: float = RELAXATION

    def __post_init__(self) -> None:
        self.check_shared()
        check_number("relaxation", self.relaxation, 0.0, 2.0)

    @property
    def one_by_one(self) -> bool:
        return True

    def options(self) -> Options:
        options = Options()
        options.substeps, options.iterations = self.substeps or 0, self.iterations
        options.relaxation, options.margin, options.packed = self.relaxation, model.MARGIN, 1
        return options


@final
@dataclasses.dataclass(frozen=True)
class PbdR(ParticlePhysics):
    """Rigid bodies made of particles that keep their momentum.

    `PbdR.paper()` is the method as published; every other choice here can be taken back to it by itself, except that
    `contact` also tells how bodies answer to contacts: by impulses, or fitted to their particles.

    Attributes:
        substeps: of a step; None: as many as keep them at 1 ms or below
        iterations: most of a substep
        tolerance: iterations end when none moves a contact farther than this share of what falls in a substep, or never
            if it is 0; unused with clamp="iteration", and so with coordinates="world"
        resolution: particles along the shortest side of a geom
        mesh_resolution: likewise, of a mesh
        relaxation: share of its gap that a contact closes in an iteration; None: as much as a body's contacts allow
        inertia: "true": the body's mass, centre and inertia; "packed": those of its particles, which share its mass
        contact: "surface": contacts act where particles touch, and bodies answer by impulses; "centre": they act in the
            centres of particles, to which bodies are fitted
        slip: "relative": friction between particles goes by their relative velocity; "absolute": by each one's own
        clamp: "substep": forces of a substep are bounded as a whole; "iteration": those of each iteration by itself
        coordinates: "body": double precision, and in an iteration only what is touched is moved; "world": particles one
            by one, in single precision
        velocity, linear, angular: with "world", whether velocities follow displacements, and whether momentum and
            angular momentum are kept when a body is fitted to its particles
    """

    name: ClassVar[str] = "pbd-r"
    substeps: int | None = None
    iterations: int = 50
    tolerance: float = 1e-4
    resolution: int = 4
    mesh_resolution: int = 16
    relaxation: float | None = None
    inertia: Literal["true", "packed"] = "true"
    contact: Literal["surface", "centre"] = "surface"
    slip: Literal["relative", "absolute"] = "relative"
    clamp: Literal["substep", "iteration"] = "substep"
    coordinates: Literal["body", "world"] = "body"
    velocity: bool = True
    linear: bool = True
    angular: bool = True

    def __post_init__(self) -> None:
        self.check_shared()
        check_number("tolerance", self.tolerance, 0.0, 1.0, included=True)
        if self.relaxation is not None:
            check_number("relaxation", self.relaxation, 0.0, 2.0)
        for field, choices in _CHOICES.items():
            if getattr(self, field) not in choices:
                raise InputError(f"{field} is {getattr(self, field)!r}: it must be {' or '.join(map(repr, choices))}")
        switches = {name: getattr(self, name) for name in ("velocity", "linear", "angular")}
        for name, value in switches.items():
            if not isinstance(value, bool):
                raise InputError(f"{name} is {value!r}: it must be True or False")
        if self.coordinates == "body" and not all(switches.values()):
            off = ", ".join(name for name, value in switches.items() if not value)
            raise InputError(f'without {off}: what they mend is rounding of particles; take coordinates="world"')
        if self.coordinates == "world":
            wanted = {"inertia": "packed", "contact": "centre", "clamp": "iteration"}
            wrong = [f"{k}={getattr(self, k)!r}" for k, v in wanted.items() if getattr(self, k) != v]
            if wrong or self.relaxation is None:
                wrong += ["relaxation=None"] if self.relaxation is None else []
                raise InputError(
                    f"{', '.join(wrong)} with coordinates='world': particles one by one are as in the paper; "
                    "begin with PbdR.paper(), or take coordinates='body'"
                )

    @classmethod
    def paper(cls, **changes: object) -> "PbdR":
        """The method as published, with some fields changed."""
        fields: dict[str, object] = {
            "iterations": 10,
            "tolerance": 0.0,
            "relaxation": RELAXATION,
            "inertia": "packed",
            "contact": "centre",
            "slip": "absolute",
            "clamp": "iteration",
            "coordinates": "world",
        }
        return cls(**{**fields, **changes})  # type: ignore[arg-type]

    @property
    def one_by_one(self) -> bool:
        return self.coordinates == "world"

    def options(self) -> Options:
        options = Options()
        options.substeps, options.iterations = self.substeps or 0, self.iterations
        options.tolerance = self.tolerance if self.clamp == "substep" else 0.0
        options.relaxation, options.margin = self.relaxation or 0.0, model.MARGIN
        options.packed, options.surface = int(self.inertia == "packed"), int(self.contact == "surface")
        options.relative, options.accumulate = int(self.slip == "relative"), int(self.clamp == "substep")
        options.velocity, options.linear, options.angular = self.velocity, self.linear, self.angular
        return options


_CHOICES = {
    "inertia": ("true", "packed"),
    "contact": ("surface", "centre"),
    "slip": ("relative", "absolute"),
    "clamp": ("substep", "iteration"),
    "coordinates": ("body", "world"),
}
