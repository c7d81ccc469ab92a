"""Drake as a method: the same bodies in its MultibodyPlant, under its own CENIC integrator.

Contact is point contact, or hydroelastic where a geom names a modulus, and time is continuous (`time_step` 0), so that
the accuracy decides the steps. One thread, one world after another. `drake_plant` writes the plant.

It is here to be compared with, and is not one of our physics: it is no dependency, and in no extra. Where `pip install
drake` was run it takes part; elsewhere it says what is missing.
"""

import collections
import dataclasses
import importlib.util
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, ClassVar, final

import mujoco
import numpy as np
import warp as wp
from numpy.typing import NDArray

from stickslip.bench.baselines.drake_plant import Model, build, start_of, unsupported
from stickslip.bench.baselines.states import arrays_state, put_state
from stickslip.errors import MissingExtra, Unsupported
from stickslip.parameters import checked, parameter
from stickslip.physics.base import Contacts, CountingPhysics, Health, StagedPhysics, Stats
from stickslip.state import INTEGRATION, State

_INPUTS = ("ctrl", "qfrc_applied", "xfrc_applied")
_LEAST = 1e-3
"""Least slope of the pressure across a face, of its gradient: as of our own patches."""


@dataclasses.dataclass
class World:
    """One simulator.

    Attributes:
        simulator: Drake's
        context: of the plant
        target: where the next step starts, s
        ends: when its last steps ended, s; kept if asked for
        failure: what Drake said when it gave up; "" if it did not
    """

    simulator: Any
    context: Any
    target: float
    ends: collections.deque[float]
    failure: str = ""


@dataclasses.dataclass
class Data:
    """Worlds, and the arrays that are seen from outside: copies of state and inputs, float32, (nworld, ...)."""

    worlds: list[World]
    arrays: dict[str, wp.array]
    ncon_peak: int = 0


@final
@checked
@dataclasses.dataclass(frozen=True)
class Drake(CountingPhysics[Model, Data], StagedPhysics[Model, Data]):
    """Drake's CENIC with error control.

    Attributes:
        accuracy: error of positions that a step may have
        max_step: longest step [s]
        resolution: edge length of hydroelastic meshes, of the smallest half size of their geom
        polygons: whether hydroelastic surfaces are of polygons; Drake's default in continuous time is triangles
        trace: steps of each world to remember for `stats`
    """

    name: ClassVar[str] = "drake"
    capturable: ClassVar[bool] = False
    shardable: ClassVar[bool] = False
    accuracy: float = parameter(1e-3, "error of positions that a step may have", 0.0, above=True)
    max_step: float = parameter(0.1, "longest step [s]", 0.0, above=True)
    resolution: float = parameter(
        0.05, "edge length of hydroelastic meshes, of the smallest half size of their geom", 0.0, 10.0, above=True
    )
    polygons: bool = parameter(False, "hydroelastic surfaces of polygons, not of triangles, Drake's default here")
    trace: int = parameter(0, "steps of each world to remember for `stats`", 0)

    def check(self, mjm: mujoco.MjModel) -> None:
        _pydrake()
        found = unsupported(mjm)
        if found:
            raise Unsupported(f"{self.name} is given free bodies and slides alone, not: {', '.join(found)}")

    def put_model(self, mjm: mujoco.MjModel) -> Model:
        self.check(mjm)
        return build(_pydrake(), mjm, self.resolution, self.polygons)

    def make_data(
        self, mjm: mujoco.MjModel, nworld: int, *, nconmax: int | None = None, njmax: int | None = None
    ) -> Data:
        start = start_of(mjm)
        shapes = {
            "time": (),
            "qpos": (mjm.nq,),
            "qvel": (mjm.nv,),
            "act": (0,),
            "ctrl": (0,),
            "qfrc_applied": (mjm.nv,),
        }
        arrays = {name: wp.zeros((nworld, *shape), dtype=float) for name, shape in shapes.items()}
        arrays["xfrc_applied"] = wp.zeros((nworld, mjm.nbody), dtype=wp.spatial_vector)
        for name in ("qpos", "qvel"):
            arrays[name].assign(np.tile(getattr(start, name), (nworld, 1)))
        return Data([], arrays)

    def step(self, m: Model, d: Data) -> Data:
        qpos, qvel = d.arrays["qpos"].numpy().copy(), d.arrays["qvel"].numpy().copy()
        if any(d.arrays[name].numpy().any() for name in _INPUTS):
            raise Unsupported(
                f"{self.name} knows no controls and no applied forces: leave {', '.join(_INPUTS)} at zero"
            )
        for index, world in enumerate(self._worlds(m, d)):
            if not world.failure:
                _advance(m, world, qpos[index], qvel[index])
            qpos[index], qvel[index] = _read(m, world)
        d.arrays["qpos"].assign(qpos)
        d.arrays["qvel"].assign(qvel)
        d.arrays["time"].assign(np.array([world.target for world in d.worlds], dtype=np.float32))
        return d

    def stages(self, m: Model, d: Data) -> list[tuple[str, Callable[[], None]]]:
        """Geometry once, for its time alone, and the step, which finds its own as often as the integrator needs it."""

        def collision() -> None:
            for world in self._worlds(m, d):
                if not world.failure:
                    _collide(m, world)

        def advance() -> None:
            self.step(m, d)

        return [("collision", collision), ("contact", advance)]

    def _worlds(self, m: Model, d: Data) -> list[World]:
        """The worlds, made when they are first needed: data alone has no plant."""
        while len(d.worlds) < d.arrays["qpos"].shape[0]:
            d.worlds.append(self._fresh(m))
        return d.worlds

    def _fresh(self, m: Model) -> World:
        """A world at the start."""
        dr = _pydrake()
        simulator = dr.Simulator(m.diagram, m.diagram.CreateDefaultContext())
        config = dr.SimulatorConfig(
            integration_scheme="cenic", accuracy=self.accuracy, max_step_size=self.max_step, use_error_control=True
        )
        dr.ApplySimulatorConfig(config, simulator)
        context = m.plant.GetMyMutableContextFromRoot(simulator.get_mutable_context())
        world = World(simulator, context, 0.0, collections.deque(maxlen=self.trace + 1))
        if self.trace:
            simulator.set_monitor(lambda root: world.ends.append(root.get_time()))
        _write(m, world, m.start.qpos, m.start.qvel)
        return world

    def get_state(self, m: Model, d: Data, signature: int = INTEGRATION) -> State:
        return arrays_state(d.arrays, signature)

    def set_state(self, m: Model, d: Data, state: State, mask: wp.array | None = None) -> Data:
        chosen = put_state(d.arrays, state, mask)
        worlds = self._worlds(m, d)
        parts = state.numpy().parts  # in double precision
        time, qpos, qvel = (parts.get(name, d.arrays[name].numpy()) for name in ("time", "qpos", "qvel"))
        for index in np.flatnonzero(chosen):
            world = worlds[index] = self._fresh(m)
            world.target = float(time[index % len(time)])
            world.simulator.get_mutable_context().SetTime(world.target)
            _write(m, world, qpos[index % len(qpos)], qvel[index % len(qvel)])
        return d

    def reset(self, m: Model, d: Data, mask: wp.array | None = None) -> Data:
        chosen = np.ones(d.arrays["qpos"].shape[0], dtype=bool) if mask is None else mask.numpy()
        worlds = self._worlds(m, d)
        for index in np.flatnonzero(chosen):
            worlds[index] = self._fresh(m)
        for name, array in d.arrays.items():
            rows = array.numpy().copy()
            rows[chosen] = getattr(m.start, name) if name in ("qpos", "qvel") else 0.0
            array.assign(rows)
        return d

    def set_model(
        self,
        m: Model,
        d: Data,
        fields: Mapping[str, Any],
        mask: wp.array | None = None,
        refused: wp.array | None = None,
    ) -> Model:
        raise Unsupported(f"{self.name} cannot change {', '.join(fields)} of a model: build another simulation")

    def arrays(self, m: Model, d: Data) -> Mapping[str, wp.array]:
        return d.arrays

    def checkpoint(self, m: Model, d: Data) -> Callable[[], Data]:
        """State and counts only: what Drake's integrator has learnt about step sizes cannot be copied."""
        restore, state, peak = super().checkpoint(m, d), self.get_state(m, d), d.ncon_peak

        def restore_all() -> Data:
            restore()
            d.ncon_peak = peak
            return self.set_state(m, d, state)

        return restore_all

    def contact_count(self, m: Model, d: Data) -> int:
        return len(self.contacts(m, d))

    def contacts(self, m: Model, d: Data) -> Contacts:
        rows = [
            (index, *row)
            for index, world in enumerate(self._worlds(m, d))
            if not world.failure
            for row in _contacts(m, m.plant.get_contact_results_output_port().Eval(world.context))
        ]
        d.ncon_peak = max(d.ncon_peak, len(rows))
        world, geom, dist, pos, frame, force = zip(*rows, strict=True) if rows else [()] * 6
        return Contacts(
            world=np.array(world, dtype=int),
            geom=np.array(geom, dtype=int).reshape(-1, 2),
            dist=np.array(dist, dtype=float),
            pos=np.array(pos, dtype=float).reshape(-1, 3),
            frame=np.array(frame, dtype=float).reshape(-1, 3, 3),
            force=np.array(force, dtype=float).reshape(-1, 6),
        )

    def health(self, m: Model, d: Data) -> Health:
        rows = np.hstack([d.arrays[name].numpy() for name in ("qpos", "qvel")])
        broken = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        failures = [f"world {i} stopped at {w.target:.6g} s: {w.failure}" for i, w in enumerate(d.worlds) if w.failure]
        return Health((), (), tuple(int(i) for i in broken), d.ncon_peak, 0, tuple(failures))

    def stats(self, m: Model, d: Data) -> Stats:
        counts = [_counts(world) for world in self._worlds(m, d)]
        ends = [np.array(world.ends) for world in d.worlds]

        def counted(name: str) -> NDArray[np.integer]:
            return np.array([each[name] for each in counts], dtype=int)

        return Stats(
            steps=counted("integrator_num_steps_taken"),
            rejections=counted("integrator_num_step_shrinkages_from_error_control"),
            iterations=counted("cenic_total_solver_iterations"),
            factorizations=counted("cenic_total_hessian_factorizations"),
            searches=counted("cenic_total_ls_iterations"),
            smallest_dt=np.array([each["integrator_smallest_adapted_step_size_taken"] for each in counts], dtype=float),
            dt=np.full(len(counts), np.nan),
            trace=tuple((end[1:], np.diff(end)) for end in ends) if self.trace else (),
        )


def installed() -> bool:
    """Whether there is a package of Drake's name; whether it is Drake shows when it is used."""
    return importlib.util.find_spec("pydrake") is not None


def _pydrake() -> SimpleNamespace:
    """What is used of Drake."""
    try:
        import pydrake.multibody.cenic  # pyright: ignore[reportMissingImports]  # noqa: F401
        from pydrake import geometry, math  # pyright: ignore[reportMissingImports]
        from pydrake.common.eigen_geometry import Quaternion  # pyright: ignore[reportMissingImports]
        from pydrake.multibody import plant, tree  # pyright: ignore[reportMissingImports]
        from pydrake.systems import analysis, framework  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise MissingExtra("the method drake needs Drake 1.58 or newer: pip install drake") from None
    found = {
        name: each for part in (framework, tree, math, geometry, plant, analysis) for name, each in vars(part).items()
    }
    return SimpleNamespace(**found, Quaternion=Quaternion)


def _counts(world: World) -> dict[str, float]:
    """What Drake's integrator has counted, by its own names."""
    return dict(world.simulator.get_integrator().GetStatisticsSummary())


def _advance(m: Model, world: World, qpos: NDArray[Any], qvel: NDArray[Any]) -> None:
    """One timestep, from the state seen outside if that was written to."""
    own = _read(m, world)
    if not all(np.array_equal(a, b.astype(np.float32)) for a, b in zip((qpos, qvel), own, strict=True)):
        if not np.isfinite(np.r_[qpos, qvel]).all():
            world.failure = "its state is not finite"
            return
        _write(m, world, qpos, qvel)
    world.target += float(m.mjm.opt.timestep)
    try:
        world.simulator.AdvanceTo(world.target)
    except RuntimeError as error:
        world.failure = " ".join(str(error).split())


def _collide(m: Model, world: World) -> None:
    """Find contact surfaces and points where the bodies are, as the plant does."""
    query = m.plant.get_geometry_query_input_port().Eval(world.context)
    if m.plant.get_contact_model() == _pydrake().ContactModel.kPoint:
        query.ComputePointPairPenetration()
    else:
        query.ComputeContactSurfacesWithFallback(m.plant.get_contact_surface_representation())


def _read(m: Model, world: World) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """MuJoCo's qpos and qvel of a world; NaN if Drake gave up. Angular velocity is the body's own in MuJoCo."""
    qpos, qvel = np.full(m.mjm.nq, np.nan), np.full(m.mjm.nv, np.nan)
    if not world.failure:
        qpos[m.qpos] = m.plant.GetPositions(world.context)
        qvel[m.qvel] = m.plant.GetVelocities(world.context)
        for q, v in m.turns:
            inverse, turned = np.zeros(4), np.zeros(3)
            mujoco.mju_negQuat(inverse, qpos[q : q + 4])
            mujoco.mju_rotVecQuat(turned, qvel[v : v + 3], inverse)
            qvel[v : v + 3] = turned
    return qpos, qvel


def _write(m: Model, world: World, qpos: NDArray[Any], qvel: NDArray[Any]) -> None:
    """Put a world into MuJoCo's state."""
    qpos, qvel = qpos.astype(float), qvel.astype(float)
    for q, v in m.turns:
        mujoco.mju_normalize4(qpos[q : q + 4])
        turned = np.zeros(3)
        mujoco.mju_rotVecQuat(turned, qvel[v : v + 3], qpos[q : q + 4])
        qvel[v : v + 3] = turned
    m.plant.SetPositions(world.context, qpos[m.qpos])
    m.plant.SetVelocities(world.context, qvel[m.qvel])
    world.simulator.Initialize()


Row = tuple[Any, float, Any, Any, Any]
"""Geoms, distance, place, frame and force of a contact; the normal points from the first geom to the second."""


def _contacts(m: Model, results: Any) -> list[Row]:
    """One row a point contact, and one a patch."""
    points = range(results.num_point_pair_contacts())
    patches = range(results.num_hydroelastic_contacts())
    return [
        *(_point(m, results.point_pair_contact_info(place)) for place in points),
        *(_patch(m, results.hydroelastic_contact_info(place)) for place in patches),
    ]


def _frame(normal: NDArray[Any]) -> NDArray[Any]:
    """The normal and two directions across it, as rows."""
    across = np.cross(normal, np.eye(3)[np.argmin(np.abs(normal))])
    across /= np.linalg.norm(across)
    return np.stack([normal, across, np.cross(normal, across)])


def _point(m: Model, info: Any) -> Row:
    pair = info.point_pair()
    frame = _frame(-np.asarray(pair.nhat_BA_W))
    force = np.r_[frame @ info.contact_force(), 0.0, 0.0, 0.0]
    geoms = (m.geom[pair.id_A.get_value()], m.geom[pair.id_B.get_value()])
    return geoms, -pair.depth, info.contact_point(), frame, force


def _patch(m: Model, info: Any) -> Row:
    """Force and torque about the centroid; the normal is the mean over the area, the distance that of the patch."""
    surface, spatial = info.contact_surface(), info.F_Ac_W()
    faces = range(surface.num_faces())
    normal = -np.sum([surface.area(face) * surface.face_normal(face) for face in faces], axis=0)  # they point into M
    frame = _frame(normal / np.linalg.norm(normal))
    force = -np.r_[frame @ spatial.translational(), frame @ spatial.rotational()]  # on the second
    geoms = (m.geom[surface.id_M().get_value()], m.geom[surface.id_N().get_value()])
    return geoms, -_depth(surface), surface.centroid(), frame, force


def _depth(surface: Any) -> float:
    """Elastic force over stiffness of a patch [m], the stiffness that of its faces: area by gradient, in series."""
    if surface.is_triangle():
        mesh, field = surface.tri_mesh_W(), surface.tri_e_MN()
    else:
        mesh, field = surface.poly_mesh_W(), surface.poly_e_MN()
    sides = [(surface.HasGradE_M(), surface.EvaluateGradE_M_W), (surface.HasGradE_N(), surface.EvaluateGradE_N_W)]
    force = stiffness = 0.0
    for face in range(surface.num_faces()):
        area, normal = surface.area(face), surface.face_normal(face)
        fields = [np.asarray(gradient(face)) for has, gradient in sides if has]
        slopes = [max(abs(each @ normal), _LEAST * np.linalg.norm(each)) for each in fields]
        force += area * field.EvaluateCartesian(face, mesh.element_centroid(face))
        stiffness += area / sum(1.0 / slope for slope in slopes)
    return float(force / stiffness)
