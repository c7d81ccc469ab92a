"""Scm: smooth contact of point clouds, as a physics. What needs JAX is imported when a model is put."""

import copy
import dataclasses
import functools
import hashlib
import importlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, final

import mujoco
import mujoco_warp as mjw
import numpy as np
import warp as wp
from numpy.typing import ArrayLike, NDArray

from stickslip import parameters
from stickslip.errors import InputError, MissingExtra, Unsupported
from stickslip.parameters import parameter
from stickslip.physics.base import Contacts, DifferentiablePhysics, Health, Promises
from stickslip.physics.mjwarp.data import Data, extended
from stickslip.physics.mjwarp.physics import WarpPhysics, naming_unsupported
from stickslip.physics.scm.cloud import Cloud
from stickslip.physics.scm.geometry import Surface, of_clouds, of_sizes
from stickslip.physics.scm.structure import unsupported_features, without_contact
from stickslip.physics.scm.survey import Survey, survey
from stickslip.state import check_array

if TYPE_CHECKING:
    from stickslip.physics.scm.worlds import Worlds

FIELDS = ("body_mass", "body_inertia", "body_ipos", "body_iquat", "geom_friction", "dof_damping", "dof_armature")
OPTIONS = ("timestep", "gravity")
SIZES = ("geom_size",)
"""Of the model, what may differ between worlds; sizes through points."""
AUTO = mujoco.mjtJacobian.mjJAC_AUTO


@dataclasses.dataclass
class Model(mjw.Model):
    """MuJoCo Warp's model, and the functions of JAX that step it.

    Attributes:
        worlds: functions, and parameters that all worlds share
        surfaces: of geoms that have others than the model's own, by geom
        given: geoms whose clouds were given
        points: arrays of JAX of these surfaces, by name; see `Worlds.points_of`
        ready: numbers of worlds for which a step of it as it is has been compiled
    """

    worlds: "Worlds"
    surfaces: dict[int, Surface]
    given: frozenset[int]
    points: dict[str, Any]
    ready: set[int]


@final
@parameters.checked
@dataclasses.dataclass(frozen=True)
class Scm(WarpPhysics[Model, Data], DifferentiablePhysics[Model, Data]):
    """Soft-minimum contact: surfaces are points with normals, and every force is a smooth function of the state."""

    name: ClassVar[str] = "scm"
    capturable: ClassVar[bool] = False
    shardable: ClassVar[bool] = False
    promises: ClassVar[Promises] = Promises(poses_only=True)
    points: int = parameter(150, "approximate number of points per geom", 6, 1_000_000)
    mesh_points: int = parameter(
        500,
        "approximate number of points per mesh; up to four times as many where they are aligned (extra `quads`)",
        6,
        1_000_000,
    )
    stiffness: float | None = parameter(
        None,
        "stiffness of each pair of geoms [N/m]; None: so that it oscillates at 1/timeconst",
        0.0,
        1e12,
        above=True,
        kind=float,
    )
    timeconst: float = parameter(0.01, "time constant of contacts and joint limits [s]", 0.0, 10.0, above=True)
    dissipation: float = parameter(0.1, "approach speed at which a contact force doubles [m/s]", 0.0, 1e6, above=True)
    stiction: float = parameter(
        0.01, "slip velocity at which friction has reached 0.7 of its limit [m/s]", 0.0, 1e6, above=True
    )
    blend: float = parameter(0.5, "blending of neighbouring points, in squares of their spacing", 0.0, 1e6, above=True)
    select: float = parameter(
        1e-3, "depth below the deepest point within which a point carries load [m]", 0.0, 1e6, above=True
    )
    reach: float = parameter(1e-3, "distance from a surface at which forces begin [m]", 0.0, 1e6, above=True)
    contact: str = parameter(
        "spring",
        "spring: a spring and a damper per pair; comfree: impulses at the ends of each contact patch, which know the "
        "masses behind them",
        choices=("spring", "comfree"),
    )
    comfree_stiffness: float = parameter(0.2, "stiffness of contact=comfree, as in `comfree`", 0.0, 1e6, above=True)
    comfree_damping: float = parameter(0.001, "damping of contact=comfree, as in `comfree`", 0.0, 1e6)
    average: str = parameter(
        "planes",
        "planes: average the planes of a surface where it is touched; forces: average their forces",
        choices=("planes", "forces"),
    )
    integrator: str = parameter(
        "implicit",
        "implicit: dissipation and friction at the end of a step, stable at longer steps; euler, rk4: explicit",
        choices=("implicit", "euler", "rk4"),
    )
    block: int = parameter(65536, "points of all worlds processed together; fewer take less memory and more time", 16)

    def __post_init__(self) -> None:
        if self.contact == "comfree" and self.integrator == "rk4":
            raise InputError(
                "integrator is 'rk4': contact='comfree' gives impulses of a step; take 'implicit' or 'euler'"
            )

    def check(self, mjm: mujoco.MjModel) -> None:
        self.put_model(mjm)

    def put_model(self, mjm: mujoco.MjModel) -> Model:
        with naming_unsupported(self.name, unsupported_features(mjm)):
            m = mjw.put_model(without_contact(mjm, AUTO))
            shared = copy.copy(mjm)
            shared.opt.timestep = 1.0  # each call passes its own, so that one function serves all
            worlds = self.worlds(shared)
        return extended(Model, m, worlds=worlds, surfaces={}, given=frozenset(), points={}, ready=set())

    def survey(self, mjm: mujoco.MjModel, geoms: Sequence[str | int] | None = None) -> Survey:
        """The point clouds of a model and a report on their quality; needs no JAX.

        Args:
            mjm: the model
            geoms: by name or number; those that may touch another unless given
        """
        return survey(mjm, self.points, self.mesh_points, geoms)

    def worlds(self, mjm: mujoco.MjModel) -> "Worlds":
        """The model as functions of JAX, over any number of worlds; made once for equal models."""
        need_jax()
        size = mujoco.mj_sizeModel(mjm)
        image = np.zeros(size, dtype=np.uint8)
        mujoco.mj_saveModel(mjm, None, image)
        return _worlds(self, hashlib.sha256(image.tobytes()).hexdigest(), _Held(mjm))

    def allocate(self, mjm: mujoco.MjModel, nworld: int, nconmax: int | None, njmax: int | None) -> Data:
        base = mjw.make_data(without_contact(mjm, AUTO), nworld=nworld, nconmax=1, njmax=1, njmax_nnz=1)
        return Data.extend(base, mjm)

    def compile(self, m: Model, d: Data) -> None:
        if d.nworld not in m.ready:  # asked before every step
            m.worlds.advance(m, d, 0)
            m.ready.add(d.nworld)

    def advance(self, m: Model, d: Data) -> None:
        m.worlds.advance(m, d, 1)

    def run(self, m: Model, d: Data, n: int) -> Data:
        if n:
            m.worlds.advance(m, d, n)
        return d

    def step(self, m: Model, d: Data) -> Data:
        return self.run(m, d, 1)

    def check_fields(self, m: Model, fields: Mapping[str, Any], nworld: int) -> Mapping[str, wp.array]:
        unread = sorted(set(fields) - {*FIELDS, *OPTIONS, *SIZES})
        if unread:
            known = ", ".join((*FIELDS, *OPTIONS, *SIZES))
            raise Unsupported(f"{self.name} cannot change {', '.join(unread)} once a model is put; it can: {known}")
        return super().check_fields(m, fields, nworld)

    def in_place(self, m: Model, d: Data, names: Collection[str]) -> None:
        return None  # points on geoms follow sizes, and JAX has copies

    def set_model(
        self,
        m: Model,
        d: Data,
        fields: Mapping[str, Any],
        mask: wp.array | None = None,
        refused: wp.array | None = None,
    ) -> Model:
        surfaces, points = m.surfaces, m.points
        if "geom_size" in fields:
            w, now = m.worlds, m.geom_size.numpy()
            new = of_sizes(w.mjm, w.clouds, m.given, now, fields["geom_size"], d.nworld)
            surfaces = {g: s for g, s in {**surfaces, **new}.items() if s is not None}
            points = w.points_of(surfaces)
        m = super().set_model(m, d, fields, mask, refused)
        m.surfaces, m.points, m.ready = surfaces, points, set()
        return m

    def set_clouds(self, m: Model, d: Data, clouds: Mapping[str | int, Cloud | Sequence[Cloud]]) -> Model:
        """Replace the surfaces of geoms by clouds, one per world or one for all; masses and inertias stay.

        `sim.m = sim.physics.set_clouds(sim.m, sim.d, {"box": [cloud, ...]})`. The clouds of a geom must have the same
        number of points and of vertices in all worlds (`cloud.gathered` makes such), and pass `cloud.check`. Where that
        is the number that the geom had before, nothing is recompiled except for the axis of worlds.

        Args:
            m, d: model and data
            clouds: by the name or number of a geom
        """
        worlds = m.worlds
        new = of_clouds(worlds.mjm, worlds.clouds, clouds, d.nworld)
        surfaces = {**m.surfaces, **{geom: surface for geom, (surface, _) in new.items()}}
        m.worlds = worlds.with_clouds({geom: cloud for geom, (_, cloud) in new.items()})
        m.surfaces, m.given, m.points = surfaces, m.given | new.keys(), m.worlds.points_of(surfaces)
        m.ready = set()
        return m

    def health(self, m: Model, d: Data) -> Health:
        health = super().health(m, d)
        return dataclasses.replace(health, notes=(*health.notes, *m.worlds.thin_walls))

    def contact_count(self, m: Model, d: Data) -> int:
        return int(d.nacon.numpy()[0])

    def contacts(self, m: Model, d: Data) -> Contacts:
        return m.worlds.contacts(m, d)

    def jacobian(self, m: Model, d: Data, wrt: Sequence[str] = ("state", "ctrl")) -> dict[str, NDArray[np.floating]]:
        return m.worlds.jacobian(m, d, wrt)

    def hessian(
        self, m: Model, d: Data, cost: Callable[..., Any], wrt: Sequence[str] = ("state", "ctrl")
    ) -> NDArray[np.floating]:
        return m.worlds.hessian(m, d, cost, wrt)

    def rollout(self, m: Model, d: Data, ctrl: ArrayLike) -> Any:
        return m.worlds.rollout(m, d, ctrl)

    def gradient(
        self, m: Model, d: Data, ctrl: ArrayLike, cost: Callable[..., Any]
    ) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        return m.worlds.gradient(m, d, ctrl, cost)

    def memory(self, m: Model, d: Data) -> int:
        """Bytes that a step of all worlds takes, as the compiler reports them."""
        return m.worlds.memory(m, d)

    def signed_distance(self, mjm: mujoco.MjModel, geom: int, places: ArrayLike) -> NDArray[np.floating]:
        """Soft signed distance (9) of places, (n, 3), in the frame of a geom, to its cloud; negative inside, m."""
        need_jax()
        from stickslip.physics.scm.build import distance_of

        return distance_of(self, mjm, geom, check_array("places", places, (len(np.atleast_1d(places)), 3)))


def need_jax() -> None:
    """Raise MissingExtra unless JAX and MJX can be imported."""
    missing = []
    for name in ("jax", "mujoco.mjx"):
        try:
            importlib.import_module(name)
        except ImportError:
            missing.append(name)
    if missing:
        raise MissingExtra(f"scm needs {' and '.join(missing)}: install the extra with pip install 'stickslip[jax]'")


@dataclasses.dataclass(frozen=True, eq=False)
class _Held:
    """A model that does not take part in a key."""

    mjm: mujoco.MjModel

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held)

    def __hash__(self) -> int:
        return 0


@functools.lru_cache(maxsize=16)
def _worlds(physics: Scm, digest: str, held: _Held) -> "Worlds":
    from stickslip.physics.scm.worlds import Worlds

    return Worlds(physics, held.mjm)
