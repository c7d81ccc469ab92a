"""The physics `PbdR`: rigid bodies made of particles that conserve momentum."""

import abc
import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, final

import mujoco
import mujoco_warp as mjw
import numpy as np
import warp as wp
from numpy.typing import NDArray

from stickslip import parameters
from stickslip.errors import InputError, Unsupported
from stickslip.parameters import parameter
from stickslip.physics.base import Contacts, Health, Promises
from stickslip.physics.contacts import DeviceContacts
from stickslip.physics.mjwarp.fields import WORLD_FIELDS
from stickslip.physics.mjwarp.physics import WarpPhysics, naming_unsupported
from stickslip.physics.mjwarp.sizes import enlarged
from stickslip.physics.pbd import model, touches
from stickslip.physics.pbd.find import GENTLE
from stickslip.physics.pbd.lanes import WARP
from stickslip.physics.pbd.layout import Options, Step, World
from stickslip.physics.pbd.memory import ParticleMemory, remembered
from stickslip.physics.pbd.model import Data, Workspace, workspace_of
from stickslip.physics.pbd.step import BATCH_THREADS, advance, advance_batch, look

wp.set_module_options({"enable_backward": False})

OVERLAP = 0.5
"""Deepest overlap allowed at the start, in radii."""
_READ = frozenset("body_mass body_inertia body_ipos body_iquat geom_friction timestep gravity".split())
"""Fields of the model that every step reads."""
_SEEN = frozenset(name for name in WORLD_FIELDS if name.startswith(("cam_", "light_", "mat_", "site_", "geom_rgba")))
"""Fields that only rendering reads."""


@wp.kernel
def _clear(nacon_out: wp.array[int]):
    nacon_out[0] = 0


@dataclasses.dataclass(frozen=True)
class ParticlePhysics(WarpPhysics[model.Model, Data], abc.ABC):
    """A physics whose bodies are made of particles, with the parameters that all of them have."""

    name: ClassVar[str]
    substeps: int | None = parameter(
        None, "substeps of a step; None: as many as keep them at 1 ms or less", 1, 10_000, kind=int
    )
    iterations: int = parameter(50, "most iterations in a substep", 1, 100_000)
    resolution: int = parameter(4, "particles along the shortest side of a geom", 1, 200)
    mesh_resolution: int = parameter(16, "particles along the shortest side of a mesh", 2, 200)

    @abc.abstractmethod
    def options(self) -> Options:
        """The parameters of a step."""

    @abc.abstractmethod
    def unsupported(self, mjm: mujoco.MjModel, bodies: tuple[model.Body, ...]) -> list[str]:
        """What this physics cannot simulate of bodies that are packed, one sentence each."""

    @abc.abstractmethod
    def make_memory(self, work: Workspace) -> ParticleMemory:
        """The memory of data with that workspace."""

    @abc.abstractmethod
    def launch(self, s: Step, d: Data, threads: int, block: int) -> None:
        """Run the kernel of a step with so many threads, in blocks of that size."""

    def _bodies(self, mjm: mujoco.MjModel) -> tuple[model.Body, ...]:
        packed = bool(self.options().packed)
        return model.make_bodies(mjm, self.resolution, self.mesh_resolution, seated=not packed)

    def check(self, mjm: mujoco.MjModel) -> None:
        self.put_model(mjm)

    def put_model(self, mjm: mujoco.MjModel) -> model.Model:
        return self._put_model(mjm, None)

    def _put_model(self, mjm: mujoco.MjModel, made: tuple[model.Body, ...] | None) -> model.Model:
        """The model on the current device; `made` are its bodies, if they are packed already."""
        with naming_unsupported(self.name, model.unsupported_features(mjm)):
            made = self._bodies(mjm) if made is None else made
        with naming_unsupported(self.name, self.unsupported(mjm, made)):
            m = model.put_model(mjm, made)
        m.opt.warn_overflow = False  # health() says it, once and with the number to raise
        return m

    def allocate(self, mjm: mujoco.MjModel, nworld: int, nconmax: int | None, njmax: int | None) -> Data:
        d = mjw.make_data(mjm, nworld=nworld, nconmax=1, njmax=1, njmax_nnz=1)
        made = self._bodies(mjm)
        work = model.make_workspace(mjm, made, nworld, nconmax)
        return Data.extend(d, mjm, memory=self.make_memory(work), workspace=work)

    def make_data(
        self, mjm: mujoco.MjModel, nworld: int, *, nconmax: int | None = None, njmax: int | None = None
    ) -> Data:
        d = super().make_data(mjm, nworld, nconmax=nconmax, njmax=njmax)
        self._check_start(mjm, d)
        d.reset()
        return d

    def _check_start(self, mjm: mujoco.MjModel, d: Data) -> None:
        """Raise InputError if particles overlap at the model's start; changes the first world."""
        work = workspace_of(d)
        m = self._put_model(mjm, work.made)
        wp.launch(look, dim=work.nlane, inputs=[self._step(m, d)], block_dim=max(work.nlane, WARP))
        t = work.touching
        count = min(int(t.count.numpy()[0]), t.capacity)
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
        work, world, step = workspace_of(d), World(), Step()
        for name in ("body_mass", "body_inertia", "body_ipos", "body_iquat"):
            setattr(world, name, getattr(m, name))
        for name in ("qfrc_applied", "xfrc_applied", "time", "qpos", "qvel"):
            setattr(world, name, getattr(d, name))
        weightless = m.opt.disableflags & mjw.DisableBit.GRAVITY
        world.timestep, world.gravity = m.opt.timestep, m.weightless if weightless else m.opt.gravity
        work.mocap.pos, work.mocap.quat = d.mocap_pos, d.mocap_quat
        m.surface.friction = m.geom_friction
        step.shape, step.colliders, step.surface = m.shape, m.colliders, m.surface
        world.mocap, step.options, step.world = work.mocap, self.options(), world
        step.overflow, step.nacon = d.overflow, d.nacon
        for name in ("exact", "bodies", "touching", "near", "awake", "nlane", "nteam"):
            setattr(step, name, getattr(work, name))
        return step

    def advance(self, m: model.Model, d: Data) -> None:
        work = workspace_of(d)
        wp.launch(_clear, dim=1, outputs=[d.nacon])
        self.launch(self._step(m, d), d, d.nworld * work.nlane, max(work.nlane, WARP))

    def results(self, m: model.Model, d: Data) -> Mapping[str, wp.array]:
        touching = workspace_of(d).touching
        names = ("count", "shown", "particle", "other", "collider", "normal", "gap", "point", "last")
        return {**super().results(m, d), **{f"touching.{name}": getattr(touching, name) for name in names}}

    def contact_count(self, m: model.Model, d: Data) -> int:
        return int(workspace_of(d).touching.shown.numpy().sum())

    def contacts(self, m: model.Model, d: Data) -> Contacts:
        t = workspace_of(d).touching
        count = np.minimum(t.count.numpy(), t.capacity)
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

    def make_contacts(self, m: model.Model, d: Data) -> DeviceContacts:
        return DeviceContacts.make(d.nworld * workspace_of(d).touching.capacity, d.nworld)

    def fill_contacts(self, m: model.Model, d: Data, out: DeviceContacts) -> None:
        touches.fill_contacts(m.shape, workspace_of(d).touching, out)

    def default_sizes(self, mjm: mujoco.MjModel) -> tuple[int | None, int | None]:
        return None, 1  # the workspace counts its particles; there are no rows

    def buffer_sizes(self, m: model.Model, d: Data) -> tuple[int, int]:
        return workspace_of(d).touching.capacity // 2, d.njmax

    def needed_sizes(self, m: model.Model, d: Data, bits: int) -> tuple[int, int]:
        wanted = int(workspace_of(d).touching.most.numpy().max(initial=0))
        allowed, njmax = self.buffer_sizes(m, d)
        return enlarged(allowed, wanted / 2), njmax

    def health(self, m: model.Model, d: Data) -> Health:
        health = super().health(m, d)
        if not health.overflow:
            return health
        t = workspace_of(d).touching
        wanted = int(t.most.numpy().max(initial=0))
        allowed = t.capacity // 2
        raised = max(-(-wanted // 2), 2 * allowed)
        overflow = (f"contacts of particles were dropped: raise nconmax from {allowed} to at least {raised}",)
        return dataclasses.replace(health, overflow=overflow)

    def check_fields(self, m: model.Model, fields: Mapping[str, Any], nworld: int) -> Mapping[str, wp.array]:
        unread = sorted((fields.keys() & WORLD_FIELDS) - _READ - _SEEN)
        if unread:
            raise Unsupported(
                f"{self.name} cannot change {', '.join(unread)} of a model that is loaded: a step of it reads "
                f"{', '.join(sorted(_READ))}; change the rest in the MjModel and make a new Simulation"
            )
        return super().check_fields(m, fields, nworld)


def _frames(normal: NDArray[np.float64]) -> NDArray[np.float64]:
    """Normal and two tangents, (n, 3, 3)."""
    beside = np.where(np.abs(normal[:, :1]) < 0.5, [[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]])
    first = np.cross(normal, beside)
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    return np.stack([normal, first, np.cross(normal, first)], axis=1).astype(float)


def launch_advance(s: Step, d: Data, threads: int, block: int) -> None:
    """Advance bodies by the impulses of their contacts; with many threads on CUDA, with fewer registers for each."""
    kernel = advance_batch if threads > BATCH_THREADS and d.qpos.device.is_cuda else advance
    wp.launch(kernel, dim=threads, inputs=[s], block_dim=block)


@final
@parameters.checked
@dataclasses.dataclass(frozen=True)
class PbdR(ParticlePhysics):
    """Rigid bodies made of particles; contact impulses conserve momentum.

    Bodies have the mass and inertia of MuJoCo's model and are advanced in double precision. Contacts act where
    particles touch, and Coulomb's bound holds for the force of a whole substep.
    """

    name: ClassVar[str] = "pbd-r"
    promises: ClassVar[Promises] = Promises(
        free_bodies_only=True,
        contacts_per_face=16,  # one per particle
        separation_speed=float(GENTLE),
        contact_sensors=False,
        poses_only=True,
    )
    tolerance: float = parameter(
        1e-4,
        "iterations end when none moves a contact farther than this share of a free fall in a substep; 0: never",
        0.0,
        1.0,
    )
    relaxation: float | None = parameter(
        None,
        "share of its gap that a contact closes in an iteration; None: as much as the contacts of a body allow",
        0.0,
        2.0,
        above=True,
        kind=float,
    )

    def options(self) -> Options:
        options = Options()
        options.substeps, options.iterations = self.substeps or 0, self.iterations
        options.tolerance, options.relaxation, options.margin = self.tolerance, self.relaxation or 0.0, model.MARGIN
        options.packed, options.surface, options.relative, options.accumulate = 0, 1, 1, 1
        return options

    def unsupported(self, mjm: mujoco.MjModel, bodies: tuple[model.Body, ...]) -> list[str]:
        return []

    def make_memory(self, work: Workspace) -> ParticleMemory:
        return ParticleMemory(**remembered(work.exact, work.touching, work.mocap))

    def launch(self, s: Step, d: Data, threads: int, block: int) -> None:
        launch_advance(s, d, threads, block)
