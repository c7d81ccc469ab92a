"""Which rows a model has, and the dofs of each: what follows from the model alone."""

import dataclasses
import enum
from collections.abc import Sequence

import mujoco
import numpy as np

from stickslip.physics.mjwarp.friction import friction_dofs


class Source(enum.IntEnum):
    """What a row comes from."""

    EQUALITY = 0
    LOWER = 1
    UPPER = 2
    BALL = 3
    TENDON_LOWER = 4
    TENDON_UPPER = 5
    DRY = 6
    TENDON_DRY = 7
    ACTUATOR = 8
    TENDON_SPRING = 9
    EXTERNAL = 10


@dataclasses.dataclass(frozen=True)
class Plan:
    """The rows of a model.

    Attributes:
        source: what each comes from, of which joint, dof, tendon, actuator or equality, and of a weld which row
        columns: the dofs of each
        eq_row: first row of each equality
        explicit: actuators whose force is taken as it is at the start of a step
    """

    source: list[tuple[int, int, int]]
    columns: list[list[int]]
    eq_row: list[int]
    explicit: list[int]


def make_plan(mjm: mujoco.MjModel, chains: list[list[int]], external: Sequence[int] = ()) -> Plan:
    """The rows of a model; `chains` are the dofs that move each body, `external` those that an external system acts on.

    The rows of that come last.
    """
    source: list[tuple[int, int, int]] = []
    columns: list[list[int]] = []

    def add(kind: Source, index: int, dofs: list[int], part: int = 0) -> None:
        source.append((int(kind), index, part))
        columns.append(dofs)

    def tendon(index: int) -> list[int]:
        adr = int(mjm.ten_J_rowadr[index])
        return [int(c) for c in mjm.ten_J_colind[adr : adr + int(mjm.ten_J_rownnz[index])]]

    flags = mjm.opt.disableflags
    D = mujoco.mjtDisableBit
    all_off = bool(flags & D.mjDSBL_CONSTRAINT)
    eq_row = []
    for i in range(mjm.neq):
        eq_row.append(len(source))
        kind, obj1, obj2 = int(mjm.eq_type[i]), int(mjm.eq_obj1id[i]), int(mjm.eq_obj2id[i])
        if kind in (int(mujoco.mjtEq.mjEQ_CONNECT), int(mujoco.mjtEq.mjEQ_WELD)):
            site = int(mjm.eq_objtype[i]) == int(mujoco.mjtObj.mjOBJ_SITE)
            bodies = [int(mjm.site_bodyid[o]) if site else o for o in (obj1, obj2)]
            dofs = sorted({dof for body in bodies for dof in chains[body]})
            count = 3 if kind == int(mujoco.mjtEq.mjEQ_CONNECT) else 6
        elif kind == int(mujoco.mjtEq.mjEQ_JOINT):
            dofs, count = sorted({int(mjm.jnt_dofadr[o]) for o in (obj1, obj2) if o >= 0}), 1
        else:
            dofs, count = sorted({dof for o in (obj1, obj2) if o >= 0 for dof in tendon(o)}), 1
        for part in range(count):
            add(Source.EQUALITY, i, dofs, part)
    if not (all_off or flags & D.mjDSBL_LIMIT):
        for j in np.flatnonzero(mjm.jnt_limited):
            dof = int(mjm.jnt_dofadr[j])
            if int(mjm.jnt_type[j]) == int(mujoco.mjtJoint.mjJNT_BALL):
                add(Source.BALL, int(j), [dof, dof + 1, dof + 2])
            else:
                add(Source.LOWER, int(j), [dof])
                add(Source.UPPER, int(j), [dof])
        for t in np.flatnonzero(mjm.tendon_limited):
            add(Source.TENDON_LOWER, int(t), tendon(int(t)))
            add(Source.TENDON_UPPER, int(t), tendon(int(t)))
    if not (all_off or flags & D.mjDSBL_FRICTIONLOSS):
        for i in friction_dofs(mjm):  # they act where there is friction, which may be set later
            add(Source.DRY, int(i), [int(i)])
        for t in range(mjm.ntendon):
            if tendon(t):
                add(Source.TENDON_DRY, t, tendon(t))
    springs = mjm.tendon_stiffness * (not flags & D.mjDSBL_SPRING) + mjm.tendon_damping * (not flags & D.mjDSBL_DAMPER)
    for t in np.flatnonzero(springs > 0.0):
        add(Source.TENDON_SPRING, int(t), tendon(int(t)))
    implicit = implicit_actuators(mjm)
    for i in implicit:
        target = int(mjm.actuator_trnid[i, 0])
        if int(mjm.actuator_trntype[i]) == int(mujoco.mjtTrn.mjTRN_TENDON):
            dofs = tendon(target)
        else:
            dofs = list(range(int(mjm.jnt_dofadr[target]), int(mjm.jnt_dofadr[target]) + _dofs_of_joint(mjm, target)))
        add(Source.ACTUATOR, i, dofs)
    for dof in external:
        add(Source.EXTERNAL, dof, [dof])
    explicit = [i for i in range(mjm.actuator_trntype.size) if i not in implicit]
    return Plan(source, columns, eq_row, explicit)


def _dofs_of_joint(mjm: mujoco.MjModel, joint: int) -> int:
    return {0: 6, 1: 3}.get(int(mjm.jnt_type[joint]), 1)


def implicit_actuators(mjm: mujoco.MjModel) -> list[int]:
    """Actuators whose force is linear in the length and velocity of a joint or tendon.

    A joint that bounds the sum of several actuators has no such potential: those stay explicit, as do muscles, motors
    with a state of their own other than an activation, and what acts on sites.
    """
    T = mujoco.mjtTrn
    joint_kinds = (int(T.mjTRN_JOINT), int(T.mjTRN_JOINTINPARENT))
    gains = (int(mujoco.mjtGain.mjGAIN_FIXED), int(mujoco.mjtGain.mjGAIN_AFFINE))
    biases = (int(mujoco.mjtBias.mjBIAS_NONE), int(mujoco.mjtBias.mjBIAS_AFFINE))
    dynamics = [
        int(getattr(mujoco.mjtDyn, f"mjDYN_{name}")) for name in ("NONE", "INTEGRATOR", "FILTER", "FILTEREXACT")
    ]
    if mjm.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_ACTUATION:
        return []
    count = mjm.actuator_trntype.size
    everywhere = all(int(t) in joint_kinds for t in mjm.actuator_trntype)
    implicit = []
    for i in range(count):
        kind, target = int(mjm.actuator_trntype[i]), int(mjm.actuator_trnid[i, 0])
        if int(mjm.actuator_gaintype[i]) not in gains or int(mjm.actuator_biastype[i]) not in biases:
            continue
        if int(mjm.actuator_dyntype[i]) not in dynamics:
            continue
        if kind == int(T.mjTRN_TENDON):
            adr = int(mjm.ten_J_rowadr[target])
            joints = mjm.dof_jntid[mjm.ten_J_colind[adr : adr + int(mjm.ten_J_rownnz[target])]]
            held = mjm.jnt_actfrclimited[joints].astype(bool) | mjm.jnt_actgravcomp[joints].astype(bool)
            if not mjm.tendon_actfrclimited[target] and not held.any():
                implicit.append(i)
        elif kind in joint_kinds:
            if not mjm.jnt_actfrclimited[target] and not mjm.jnt_actgravcomp[target]:
                implicit.append(i)
            elif not mjm.jnt_actgravcomp[target] and everywhere:
                others = [j for j in range(count) if int(mjm.actuator_trnid[j, 0]) == target]
                if others == [i] and _dofs_of_joint(mjm, target) == 1 and mjm.actuator_gear[i, 0] != 0.0:
                    implicit.append(i)
    return implicit
