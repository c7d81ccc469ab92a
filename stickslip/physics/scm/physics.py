"""Scm: smooth contact of point clouds, as a physics. What needs JAX is imported when a model is put."""

import copy
import dataclasses
import functools
import hashlib
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, final

import mujoco
import mujoco_warp as mjw
import numpy as np
from numpy.typing import ArrayLike, NDArray

from stickslip.errors import InputError, MissingExtra, Unsupported
from stickslip.physics.base import Contacts, DifferentiablePhysics, Stage
from stickslip.physics.scm.cloud import Cloud
from stickslip.physics.scm.geometry import Surface, of_clouds, of_sizes
from stickslip.physics.scm.structure import unsupported_features, without_contact
from stickslip.physics.scm.survey import Survey, survey
from stickslip.physics.settings import check_choice, check_count, check_number
from stickslip.physics.warp import Data, WarpPhysics, naming_unsupported
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
@dataclasses.dataclass(frozen=True)
class Scm(WarpPhysics[Model], DifferentiablePhysics[Model, Data]):
    """Soft-minimum contact: surfaces are points with normals, and every force is a smooth function of the state.

    Attributes:
        points: of each geom, about
        mesh_points: of each mesh, about; up to four times as many where they are aligned (the extra `quads`)
        stiffness: of each pair of geoms, N/m; None: what lets the pair swing at 1/timeconst
        timeconst: of contacts and limits of joints, s
        dissipation: speed at which a force of contact is doubled when surfaces approach, m/s
        stiction: slip at which friction has reached 0.7 of its limit, m/s
        blend: how far the points of a surface melt into each other, of the square of their spacing
        select: how much less deep than the deepest a point may be and still carry, m
        reach: how far off a surface is felt, m
        contact: "spring" gives each pair a spring and a damper; "comfree" gives the ends of each patch of contact
            impulses that know the masses behind them
        comfree_stiffness, comfree_damping: gains of those, as in `ComFree`
        average: "planes" averages the planes of a surface where it is touched, "forces" the force of each of them
        integrator: "implicit" takes dissipation and friction at the end of a step, and is stable where "euler" and
            "rk4", which do not, ask for shorter steps
        block: points of all worlds to look at together; fewer take less memory and more time
    """

    name: ClassVar[str] = "scm"
    capturable: ClassVar[bool] = False
    points: int = 150
    mesh_points: int = 500
    stiffness: float | None = None
    timeconst: float = 0.01
    dissipation: float = 0.1
    stiction: float = 0.01
    blend: float = 0.5
    select: float = 1e-3
    reach: float = 1e-3
    contact: str = "spring"
    comfree_stiffness: float = 0.2
    comfree_damping: float = 0.001
    average: str = "planes"
    integrator: str = "implicit"
    block: int = 65536

    def __post_init__(self) -> None:
        check_count("points", self.points, 6, 1_000_000)
        check_count("mesh_points", self.mesh_points, 6, 1_000_000)
        check_number("stiffness", self.stiffness, 0.0, 1e12, optional=True)
        check_number("timeconst", self.timeconst, 0.0, 10.0)
        for name in ("dissipation", "stiction", "blend", "select", "reach"):
            check_number(name, getattr(self, name), 0.0, 1e6)
        check_choice("contact", self.contact, ("spring", "comfree"))
        check_number("comfree_stiffness", self.comfree_stiffness, 0.0, 1e6)
        check_number("comfree_damping", self.comfree_damping, 0.0, 1e6, included=True)
        if self.contact == "comfree" and self.integrator == "rk4":
            raise InputError(
                "integrator is 'rk4': contact='comfree' gives impulses of a step; take 'implicit' or 'euler'"
            )
        check_choice("average", self.average, ("planes", "forces"))
        check_choice("integrator", self.integrator, ("implicit", "euler", "rk4"))
        check_count("block", self.block, 16)

    def check(self, mjm: mujoco.MjModel) -> None:
        self.put_model(mjm)

    def put_model(self, mjm: mujoco.MjModel) -> Model:
        with naming_unsupported(self.name, unsupported_features(mjm)):
            m = mjw.put_model(without_contact(mjm, AUTO))
            shared = copy.copy(mjm)
            shared.opt.timestep = 1.0  # every call is told its own, so that one function serves all
            worlds = self.worlds(shared)
        own = Model.__new__(Model)
        own.__dict__.update(m.__dict__)
        own.worlds, own.surfaces, own.given, own.points, own.ready = worlds, {}, frozenset(), {}, set()
        return own

    def survey(self, mjm: mujoco.MjModel, geoms: Sequence[str | int] | None = None) -> Survey:
        """The clouds that this makes of a model and what is found of them, good or bad; needs no JAX.

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

    def allocate(self, mjm: mujoco.MjModel, nworld: int, nconmax: int | None, njmax: int | None) -> mjw.Data:
        return mjw.make_data(without_contact(mjm, AUTO), nworld=nworld, nconmax=1, njmax=1)

    def stages(self, m: Model, d: Data) -> list[Stage]:
        return [("step", lambda: self.advance(m, d))]

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

    def set_model(self, m: Model, d: Data, fields: Mapping[str, Any]) -> Model:
        unread = sorted(set(fields) - {*FIELDS, *OPTIONS, *SIZES})
        if unread:
            known = ", ".join((*FIELDS, *OPTIONS, *SIZES))
            raise Unsupported(f"{self.name} cannot change {', '.join(unread)} once a model is put; it can: {known}")
        surfaces, points = m.surfaces, m.points
        if "geom_size" in fields:
            w, now = m.worlds, m.geom_size.numpy()
            new = of_sizes(w.mjm, w.clouds, m.given, now, fields["geom_size"], d.nworld)
            surfaces = {g: s for g, s in {**surfaces, **new}.items() if s is not None}
            points = w.points_of(surfaces)
        m = super().set_model(m, d, fields)
        m.surfaces, m.points, m.ready = surfaces, points, set()
        return m

    def set_clouds(self, m: Model, d: Data, clouds: Mapping[str | int, Cloud | Sequence[Cloud]]) -> Model:
        """Give geoms other surfaces: clouds, one a world or one for all; masses and inertias stay.

        `sim.m = sim.physics.set_clouds(sim.m, sim.d, {"box": [cloud, ...]})`. The clouds of a geom must have the same
        number of points and of vertices in all worlds (`cloud.gathered` makes such), and pass `cloud.check`. Where that
        is the number that the geom had before, nothing is compiled anew but for the axis of worlds.

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
        """Bytes that a step of all worlds takes, as the compiler tells them."""
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
