"""What stickslip takes from inside MuJoCo Warp 4.0, all in one place.

MuJoCo Warp's public stage functions reproduce its step, but the two integrators hide three things
that a physics with its own solve needs: the integrator's matrix (M plus the implicit part of the
damping), what gyroscopic forces of free bodies add to it, and the advance of the state by a given
acceleration. Collision detection is taken apart to look at
pairs of bodies before pairs of geoms, which is worth it where bodies have many geoms. The version is pinned to 4.0
in `pyproject.toml`; a test composes these pieces and compares with `mujoco_warp.step` bit for bit.
"""

import functools

import mujoco_warp as mjw
import warp as wp
from mujoco_warp._src import (
    collision_core,
    collision_driver,
    collision_sdf,
    derivative,
    forward,
    math,
    sensor,
    set_const,
    smooth,
    solver,
    support,
)
from mujoco_warp._src.types import ConstraintType, ContactType, EqType, vec5, vec10, vec11, vec12

__all__ = [
    "CollisionContext",
    "ConstraintType",
    "ContactType",
    "EqType",
    "actuator_velocity",
    "add_geom_pair",
    "advance",
    "advance_activation",
    "bound_geoms",
    "body_to_mocap",
    "broadphase_filter",
    "collision_context",
    "damping_slope",
    "energy_pos",
    "energy_vel",
    "go_to_qpos0",
    "has_implicit_part",
    "has_user_sdf",
    "integration_matrix",
    "mean_of_normals",
    "mesh_missing",
    "narrowphase",
    "next_act",
    "nxn_broadphase",
    "qpos0_to_qpos",
    "quat_integrate",
    "sap_broadphase",
    "sense_contacts",
    "set_kinematics0",
    "solve_free_bodies",
    "solves_free_bodies",
    "sum_in_one_order",
    "tendon_armature",
    "vec10",
    "vec11",
    "vec12",
    "vec5",
    "wrap_period",
]

tendon_armature = smooth.tendon_armature
mean_of_normals = smooth._transmission_body_moment_scale
bound_geoms = set_const._set_bound
go_to_qpos0 = set_const._kinematics0
qpos0_to_qpos = set_const._copy_qpos0_to_qpos
body_to_mocap = set_const._copy_body_to_mocap
set_kinematics0 = set_const._set_kinematics0
CollisionContext = collision_core.CollisionContext
narrowphase = collision_driver._narrowphase
nxn_broadphase = collision_driver.nxn_broadphase
sap_broadphase = collision_driver.sap_broadphase
mesh_missing = collision_driver._mesh_missing
broadphase_filter = collision_driver._broadphase_filter
add_geom_pair = collision_driver._add_geom_pair
collision_context = collision_core.create_collision_context
energy_pos = forward._energy_pos
energy_vel = forward._energy_vel
sense_contacts = sensor._eval_sensor_contact
next_act = support.next_act
wrap_period = forward._wrap_period
quat_integrate = math.quat_integrate


def sum_in_one_order() -> None:
    """Let the Newton solver, on a CPU, add up the Hessian of a world in one order, whatever the number of worlds is.

    MuJoCo Warp splits the rows of a world into groups, and the more worlds there are, the fewer groups. On a CPU they
    run one after another, so that all they do is to change the order of the sum: motions differed in the last bits
    with the number of worlds, and so with that of threads. This changes MuJoCo Warp itself, once; on CUDA it stays.
    """
    original = solver._jtdaj_groups_per_world
    if getattr(original, "in_one_order", False):
        return

    @functools.wraps(original)
    def groups(nworld: int, njmax: int, kernel: wp.Kernel) -> int:
        return 1 if wp.get_device().is_cpu else original(nworld, njmax, kernel)

    groups.in_one_order = True  # type: ignore[attr-defined]
    solver._jtdaj_groups_per_world = groups


def has_user_sdf() -> bool:
    """Whether a user has put functions in the place of those that only print that they are missing."""
    both = (collision_sdf.user_sdf, collision_sdf.user_sdf_grad)
    return all(function.func.__module__ != collision_sdf.__name__ for function in both)


def has_implicit_part(m: mjw.Model) -> bool:
    """Whether the integrator's matrix can differ from M."""
    flags = m.opt.disableflags
    if m.opt.integrator == mjw.IntegratorType.EULER:
        return not flags & (mjw.DisableBit.EULERDAMP | mjw.DisableBit.DAMPER)
    every = mjw.DisableBit.ACTUATION | mjw.DisableBit.SPRING | mjw.DisableBit.DAMPER
    return flags & every != every


def damping_slope(m: mjw.Model, d: mjw.Data, slope: wp.array) -> None:
    """How much each dof is damped at its velocity, by its joint and by actuators: minus the slope of that force."""
    wp.launch(
        forward._compute_damping_deriv,
        dim=(d.nworld, m.nv),
        inputs=[
            m.jnt_actuatorid,
            m.dof_jntid,
            m.dof_damping,
            m.dof_dampingpoly,
            m.actuator_trntype,
            m.actuator_trnid,
            m.actuator_damping,
            m.actuator_dampingpoly,
            m.actuator_gear,
            d.qvel,
        ],
        outputs=[slope],
    )


def advance_activation(m: mjw.Model, d: mjw.Data, timestep: wp.array, act: wp.array) -> None:
    """The activations of actuators after a time of its own for each world."""
    wp.launch(
        forward._next_activation,
        dim=(d.nworld, m.nactuator),
        inputs=[
            timestep,
            m.jnt_type,
            m.actuator_trntype,
            m.actuator_dyntype,
            m.actuator_gaintype,
            m.actuator_biastype,
            m.actuator_actadr,
            m.actuator_actnum,
            m.actuator_trnid,
            m.actuator_dynprm,
            m.actuator_gainprm,
            m.actuator_biasprm,
            m.actuator_actlimited,
            m.actuator_actrange,
            m.actuator_gear,
            d.act,
            d.act_dot,
            d.actuator_length,
            d.actuator_velocity,
            1.0,
            True,
        ],
        outputs=[act],
    )


def actuator_velocity(m: mjw.Model, d: mjw.Data) -> None:
    """The first of `mujoco_warp.fwd_velocity`, which the velocities of bodies and the bias forces do not need."""
    wp.launch(
        forward._actuator_velocity,
        dim=(d.nworld, m.nactuator),
        inputs=[d.qvel, d.moment_rownnz, d.moment_rowadr, d.moment_colind, d.actuator_moment],
        outputs=[d.actuator_velocity],
    )


def integration_matrix(m: mjw.Model, d: mjw.Data) -> wp.array:
    """H = M + dt D (Euler: joint damping; implicitfast: all smooth velocity derivatives, free bodies as in M)."""
    if m.opt.integrator == mjw.IntegratorType.EULER:
        H = wp.clone(d.M)
        deriv = wp.empty((d.nworld, m.nv), dtype=float)
        damping_slope(m, d, deriv)
        wp.launch(
            forward._euler_damp_qfrc,
            dim=(d.nworld, m.nv),
            inputs=[m.opt.timestep, m.M_rownnz, m.M_rowadr, deriv],
            outputs=[H],
        )
        return H
    H = wp.empty((d.nworld, m.nC), dtype=float)
    derivative.deriv_smooth_vel(m, d, H)
    wp.launch(
        forward._implicit_free_body_reset_m,
        dim=(d.nworld, m.body_freeadr.size),
        inputs=[m.body_dofadr, m.M_rownnz, m.M_rowadr, m.body_freeadr, d.M],
        outputs=[H],
    )
    return H


def solves_free_bodies(m: mjw.Model) -> bool:
    """Whether `solve_free_bodies` does anything."""
    return m.opt.integrator == mjw.IntegratorType.IMPLICITFAST and m.body_freeadr.size > 0


def solve_free_bodies(m: mjw.Model, d: mjw.Data, x: wp.array, y: wp.array) -> None:
    """implicitfast also integrates the gyroscopic force of free bodies implicitly, each by a 6x6 solve."""
    if solves_free_bodies(m):
        forward.implicit_free_body(m, d, y, x, solve=True)


def advance(m: mjw.Model, d: mjw.Data, qacc: wp.array, velocity: wp.array | None = None) -> None:
    """Advance activation, velocity, position and time by an acceleration; positions by `velocity` if it is given."""
    forward._advance(m, d, qacc, velocity)
