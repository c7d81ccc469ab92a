"""A plant of Drake's from a model of MuJoCo's: free bodies, and bodies on a slide, above a world they fall on.

It has the masses, inertias, shapes and poses of the compiled model, who touches whom, stiffness and dissipation of each
geom (`user`), friction and stiction velocity. A geom that cannot move and names no stiffness is rigid; Drake has no
such thing, and gets 1e12 N/m. What Drake would do differently is refused, such as geoms of different friction, which
it combines as MuJoCo does not.

If a geom names a hydroelastic modulus (`user[3]`), contact is hydroelastic: that geom is compliant, those that name
none are rigid, and two rigid ones touch by points. The depth of the pressure (`user[4]`) can be chosen for planes
alone; of any other shape Drake takes the smallest half size.

Drake is handed in, as `dr`, the names of all its modules in one: this file needs none of it to be imported.
"""

import dataclasses
import logging
from collections.abc import Mapping
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

RIGID = 1e12
"""Stiffness of what is rigid [N/m]."""
_MODULUS, _DEPTH = 3, 4
"""Where `user` has them."""
_GEOM = mujoco.mjtGeom
_FREE, _SLIDE = mujoco.mjtJoint.mjJNT_FREE, mujoco.mjtJoint.mjJNT_SLIDE
_JOINTS = (_FREE, _SLIDE)


@dataclasses.dataclass(frozen=True)
class Model:
    """The plant, and where MuJoCo's positions stand in it.

    Attributes:
        mjm: the model it was written from
        start: MuJoCo's data at the start
        diagram, plant: Drake's
        geom: MuJoCo's geom by the number of Drake's
        qpos, qvel: where each of Drake's positions and velocities is in MuJoCo's         (nq,), (nv,)
        turns: first of the four of each quaternion in qpos, first of its velocities     (nfree, 2)
    """

    mjm: mujoco.MjModel
    start: mujoco.MjData
    diagram: Any
    plant: Any
    geom: Mapping[int, int]
    qpos: NDArray[np.integer]
    qvel: NDArray[np.integer]
    turns: NDArray[np.integer]


def start_of(mjm: mujoco.MjModel) -> mujoco.MjData:
    """Data at the model's start: key frame 0 if there is one."""
    mjd = mujoco.MjData(mjm)
    if mjm.nkey:
        mujoco.mj_resetDataKeyframe(mjm, mjd, 0)
    mujoco.mj_kinematics(mjm, mjd)
    return mjd


def _stiction(mjm: mujoco.MjModel) -> float | None:
    """The model's stiction velocity, m/s; None if it names none."""
    index = mujoco.mj_name2id(mjm, mujoco.mjtObj.mjOBJ_NUMERIC, "stiction_velocity")
    return None if index < 0 else float(mjm.numeric_data[mjm.numeric_adr[index]])


def hydroelastic(mjm: mujoco.MjModel) -> NDArray[np.float64]:
    """Modulus [Pa] and depth [m] of the pressure of each geom, (ngeom, 2): modulus 0 if it is rigid, depth as given."""
    user = np.zeros((mjm.ngeom, 2))
    given = mjm.geom_user[:, _MODULUS : _DEPTH + 1]
    user[:, : given.shape[1]] = given
    return user


def half_size(mjm: mujoco.MjModel, geom: int) -> float:
    """The smallest half size of a shape [m]; 0 of a plane."""
    kind = mjm.geom_type[geom]
    used = 3 if kind == _GEOM.mjGEOM_BOX else 2 if kind == _GEOM.mjGEOM_CYLINDER else 1
    return float(min(mjm.geom_size[geom, :used]))


def _other_depths(mjm: mujoco.MjModel) -> bool:
    """Whether a geom names a depth that Drake cannot have, or a plane none."""
    planes = mjm.geom_type == _GEOM.mjGEOM_PLANE
    modulus, depth = hydroelastic(mjm).T
    sizes = np.array([half_size(mjm, geom) for geom in range(mjm.ngeom)])
    other = np.where(planes, depth <= 0.0, (depth > 0.0) & ~np.isclose(depth, sizes, rtol=1e-4))
    return bool((other & (modulus > 0.0)).any())


def unsupported(mjm: mujoco.MjModel) -> list[str]:
    """What the plant would not have, in words."""
    modulus, planes = hydroelastic(mjm)[:, 0], mjm.geom_type == _GEOM.mjGEOM_PLANE
    touching = (mjm.geom_contype != 0) | (mjm.geom_conaffinity != 0)
    moving = mjm.body_weldid[mjm.geom_bodyid] != 0
    shapes = (
        _GEOM.mjGEOM_SPHERE,
        _GEOM.mjGEOM_CAPSULE,
        _GEOM.mjGEOM_BOX,
        _GEOM.mjGEOM_CYLINDER,
        _GEOM.mjGEOM_PLANE,
    )
    carried = mjm.body_weldid[mjm.body_parentid[mjm.jnt_bodyid]] != 0
    given = mjm.geom_user if mjm.nuser_geom >= 2 else np.zeros((mjm.ngeom, 2))
    unlike = {
        "joints other than one free joint or slide a body": not np.isin(mjm.jnt_type, _JOINTS).all()
        or (mjm.body_jntnum > 1).any(),
        "joint limits": mjm.jnt_limited.any(),
        "bodies on other bodies": (mjm.body_jntnum[mjm.body_weldid != 0] == 0).any() or carried.any(),
        "shapes other than spheres, capsules, boxes, cylinders and planes": not np.isin(
            mjm.geom_type[touching], shapes
        ).all(),
        "moving geoms without a stiffness": (given[touching & moving, 0] <= 0.0).any(),
        "static friction": given.shape[1] > 2 and given[:, 2].any(),
        "geoms of different friction": np.unique(mjm.geom_friction[touching, 0]).size > 1,
        "friction other than sliding": (mjm.geom_condim[touching] != 3).any(),
        "a hydroelastic depth other than the smallest half size": _other_depths(mjm),
        "soft planes under soft bodies": modulus[planes].any() and modulus[~planes].any(),
        "margins": mjm.geom_margin.any(),
        "no stiction velocity": _stiction(mjm) is None,
        "damped or heavy joints": mjm.dof_damping.any() or mjm.dof_armature.any() or mjm.dof_frictionloss.any(),
        "springs": mjm.jnt_stiffness.any(),
        "gravity compensation": mjm.body_gravcomp.any(),
        "air": mjm.opt.density or mjm.opt.viscosity,
    }
    numbers = {
        "actuators": mjm.nu,
        "equality constraints": mjm.neq,
        "tendons": mjm.ntendon,
        "flex": mjm.nflex,
        "mocap bodies": mjm.nmocap,
        "contact pairs": mjm.npair,
        "contact exclusions": mjm.nexclude,
    }
    return [what for what, there in {**unlike, **numbers}.items() if there]


def _worth_saying(record: logging.LogRecord) -> bool:
    """Every plane brings a warning about deformable bodies, of which there are none."""
    return "half space" not in record.getMessage()


def build(dr: Any, mjm: mujoco.MjModel, resolution: float, polygons: bool = False) -> Model:
    """The plant of a model that `unsupported` finds nothing against.

    Args:
        dr: the names of Drake
        mjm: the model
        resolution: edge length of the meshes of hydroelastic geoms, of their smallest half size
        polygons: whether their contact surfaces are of polygons instead of triangles
    """
    start = start_of(mjm)
    logging.getLogger("drake").addFilter(_worth_saying)
    builder = dr.DiagramBuilder()
    plant, _ = dr.AddMultibodyPlantSceneGraph(builder, time_step=0.0)
    plant.mutable_gravity_field().set_gravity_vector(mjm.opt.gravity)
    bodies, slides = {0: plant.world_body()}, {}
    for joint in range(mjm.njnt):
        body = int(mjm.jnt_bodyid[joint])
        bodies[body] = plant.AddRigidBody(f"body_{body}", _inertia(dr, mjm, body))
        if mjm.jnt_type[joint] == _SLIDE:
            slides[joint] = _slide(dr, mjm, plant, joint, bodies[body])
    geoms: dict[int, Any] = {}
    for geom in np.flatnonzero((mjm.geom_contype != 0) | (mjm.geom_conaffinity != 0)):
        owner = int(mjm.body_weldid[mjm.geom_bodyid[geom]])
        pos, quat = mjm.geom_pos[geom], mjm.geom_quat[geom]
        if owner == 0:  # where the world sees it
            pos, quat = start.geom_xpos[geom], np.zeros(4)
            mujoco.mju_mat2Quat(quat, start.geom_xmat[geom])
        pose = _pose(dr, pos, quat)
        shape, material = _shape(dr, mjm, int(geom)), _material(dr, mjm, int(geom), resolution)
        geoms[int(geom)] = plant.RegisterCollisionGeometry(bodies[owner], pose, shape, f"geom_{geom}", material)
    patches = bool(hydroelastic(mjm)[:, 0].any())
    plant.set_contact_model(dr.ContactModel.kHydroelasticWithFallback if patches else dr.ContactModel.kPoint)
    if polygons:
        plant.set_contact_surface_representation(dr.HydroelasticContactRepresentation.kPolygon)
    plant.Finalize()
    plant.set_stiction_tolerance(_stiction(mjm))
    diagram = builder.Build()
    _filter(dr, mjm, diagram, geoms)
    qpos, qvel, turns = np.zeros(mjm.nq, dtype=int), np.zeros(mjm.nv, dtype=int), []
    for joint in range(mjm.njnt):
        if joint in slides:
            qpos[slides[joint].position_start()] = mjm.jnt_qposadr[joint]
            qvel[slides[joint].velocity_start()] = mjm.jnt_dofadr[joint]
            continue
        own, q, their, v = _places(mjm, joint, bodies[int(mjm.jnt_bodyid[joint])])
        qpos[own], qvel[their] = q, v
        turns.append((q[0], v[0]))
    numbers = {number.get_value(): geom for geom, number in geoms.items()}
    return Model(mjm, start, diagram, plant, numbers, qpos, qvel, np.array(turns, dtype=int).reshape(-1, 2))


def _slide(dr: Any, mjm: mujoco.MjModel, plant: Any, joint: int, body: Any) -> Any:
    """A slide from the world, whose position is 0 where MuJoCo's is."""
    owner = int(mjm.jnt_bodyid[joint])
    start, axis = mujoco.MjData(mjm), mjm.jnt_axis[joint]
    start.qpos[mjm.jnt_qposadr[joint]] = 0.0
    mujoco.mj_kinematics(mjm, start)
    pose = _pose(dr, start.xpos[owner], start.xquat[owner])
    frame = plant.AddFrame(dr.FixedOffsetFrame(f"slide_{joint}", plant.world_frame(), pose))
    return plant.AddJoint(dr.PrismaticJoint(f"joint_{joint}", frame, body.body_frame(), axis))


def _places(
    mjm: mujoco.MjModel, joint: int, body: Any
) -> tuple[slice, NDArray[np.integer], slice, NDArray[np.integer]]:
    """Where a free body's seven positions and six velocities are in Drake, and which of MuJoCo's those are.

    Drake has rotation first, MuJoCo translation.
    """
    q, v = body.floating_positions_start(), body.floating_velocities_start_in_v()
    qpos, qvel = int(mjm.jnt_qposadr[joint]), int(mjm.jnt_dofadr[joint])
    return (
        slice(q, q + 7),
        qpos + np.array([3, 4, 5, 6, 0, 1, 2]),
        slice(v, v + 6),
        qvel + np.array([3, 4, 5, 0, 1, 2]),
    )


def _inertia(dr: Any, mjm: mujoco.MjModel, body: int) -> Any:
    """Mass, centre and inertia of a body about its origin."""
    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, mjm.body_iquat[body])
    about = turn.reshape(3, 3) @ np.diag(mjm.body_inertia[body]) @ turn.reshape(3, 3).T
    xx, yy, zz, xy, xz, yz = about[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
    central = dr.RotationalInertia(xx, yy, zz, xy, xz, yz)
    return dr.SpatialInertia.MakeFromCentralInertia(float(mjm.body_mass[body]), mjm.body_ipos[body], central)


def _pose(dr: Any, pos: NDArray[np.float64], quat: NDArray[np.float64]) -> Any:
    return dr.RigidTransform(dr.Quaternion(quat / np.linalg.norm(quat)), pos)


def _shape(dr: Any, mjm: mujoco.MjModel, geom: int) -> Any:
    kind, size = int(mjm.geom_type[geom]), mjm.geom_size[geom]
    if kind == _GEOM.mjGEOM_SPHERE:
        return dr.Sphere(size[0])
    if kind == _GEOM.mjGEOM_BOX:
        return dr.Box(*(2.0 * size))
    if kind == _GEOM.mjGEOM_CYLINDER:
        return dr.Cylinder(size[0], 2.0 * size[1])
    if kind == _GEOM.mjGEOM_CAPSULE:
        return dr.Capsule(size[0], 2.0 * size[1])
    return dr.HalfSpace()


def _material(dr: Any, mjm: mujoco.MjModel, geom: int, resolution: float) -> Any:
    """Stiffness, dissipation and friction of a geom; modulus and mesh, if any geom has them."""
    stiffness, dissipation = mjm.geom_user[geom, :2] if mjm.nuser_geom >= 2 else (0.0, 0.0)
    mu = float(mjm.geom_friction[geom, 0])
    properties = dr.ProximityProperties()
    dr.AddContactMaterial(
        dissipation=dissipation,
        point_stiffness=stiffness or RIGID,
        friction=dr.CoulombFriction(mu, mu),
        properties=properties,
    )
    parameters = hydroelastic(mjm)
    modulus, depth = parameters[geom]
    edge = resolution * half_size(mjm, geom)
    if mjm.geom_type[geom] == _GEOM.mjGEOM_PLANE and modulus:
        dr.AddCompliantHydroelasticPropertiesForHalfSpace(depth, modulus, properties)
    elif modulus:
        dr.AddCompliantHydroelasticProperties(edge, modulus, properties)
    elif parameters[:, 0].any():
        dr.AddRigidHydroelasticProperties(edge or 1.0, properties)
    return properties


def _filter(dr: Any, mjm: mujoco.MjModel, diagram: Any, geoms: Mapping[int, Any]) -> None:
    """Keep apart what `contype` and `conaffinity` keep apart; what is on one body never touches, in both."""
    kinds: dict[tuple[int, int], list[Any]] = {}
    for geom, number in geoms.items():
        kinds.setdefault((int(mjm.geom_contype[geom]), int(mjm.geom_conaffinity[geom])), []).append(number)
    scene = next(system for system in diagram.GetSystems() if isinstance(system, dr.SceneGraph))
    manager = scene.collision_filter_manager()
    for one, (type1, affinity1) in enumerate(kinds):
        for type2, affinity2 in list(kinds)[one:]:
            if not (type1 & affinity2 or type2 & affinity1):
                sets = [dr.GeometrySet(kinds[kind]) for kind in ((type1, affinity1), (type2, affinity2))]
                manager.Apply(dr.CollisionFilterDeclaration().ExcludeBetween(*sets))
