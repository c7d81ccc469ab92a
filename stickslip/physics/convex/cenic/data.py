"""What the integrator keeps with the data: a second geometry, the clock of each world, states within a step."""

import dataclasses

import mujoco
import mujoco_warp as mjw
import warp as wp

from stickslip.errors import InputError
from stickslip.physics.convex.cenic.control import Clock, Trace
from stickslip.physics.convex.hydro.pairs import Room
from stickslip.physics.convex.step import data as convex
from stickslip.physics.convex.step.external import External
from stickslip.physics.convex.step.model import Problem, make_data, make_problem
from stickslip.physics.convex.step.potential import real
from stickslip.physics.mjwarp.memory import buffer, per_world

_SHARED = "ctrl qfrc_applied xfrc_applied mocap_pos mocap_quat eq_active userdata overflow time".split()
"""What the middle of a step has in common with its start."""


@dataclasses.dataclass
class Workspace(convex.Workspace):
    """What the integrator keeps with the data.

    Attributes:
        mid: problem of the second geometry, and its data
        clock: steps of each world
        trace: the last of them
        weights: of the error of positions                                           (nq,)
        qpos_full, v_full: end of the whole step                                     (nworld, nq), (nworld, nv)
        qpos_mid, v_mid: middle of the step                                          likewise
        qpos_end, v: end of the second half                                          likewise
        act_end: activations at the end                                              (nworld, na)
        qpos_last, qvel_last, v_last, dt_last: start, end and size of the last step that was accepted
        guess: where a solve starts                                                  (nworld, nv)
        graphs: captured graphs by name; empty when they must be captured again
    """

    mid: Problem
    clock: Clock
    trace: Trace
    weights: wp.array
    qpos_full: wp.array
    v_full: wp.array
    qpos_mid: wp.array
    v_mid: wp.array
    qpos_end: wp.array
    act_end: wp.array
    qpos_last: wp.array
    qvel_last: wp.array
    v_last: wp.array
    dt_last: wp.array
    guess: wp.array
    graphs: dict[str, wp.Graph] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class IntegratorMemory(convex.StepMemory):
    """What the integrator takes from before: the fields of its clock and of its trace, see `Clock` and `Trace`."""

    clock_asked: wp.array = buffer()
    clock_ahead: wp.array = per_world(reset=False)
    clock_left: wp.array = per_world(reset=False)
    clock_next: wp.array = per_world()
    clock_dt: wp.array = per_world(reset=False)
    clock_half: wp.array = per_world(reset=False)
    clock_whole: wp.array = per_world(reset=False)
    clock_least: wp.array = per_world()
    clock_steps: wp.array = per_world()
    clock_rejections: wp.array = per_world()
    clock_failed: wp.array = per_world()
    clock_failed_at: wp.array = per_world(reset=False)
    clock_error: wp.array = per_world(reset=False)
    clock_count: wp.array = buffer()
    trace_clock: wp.array = per_world()


def own_data(
    mjm: mujoco.MjModel,
    d: mjw.Data,
    nconmax: int | None,
    njmax: int | None,
    trace: int,
    weights: wp.array,
    external: External | None,
    room: Room | None,
) -> convex.Data:
    """MuJoCo Warp's data with the integrator's workspace."""
    base = convex.make_workspace(mjm, d, external, room)
    nworld = d.nworld
    mid = make_data(mjm, nworld, nconmax, njmax)
    for name in _SHARED:
        setattr(mid, name, getattr(d, name))
    clock, ring = Clock(), Trace()
    for name, var in Clock.vars.items():
        size = {"count": 3, "asked": 1}.get(name, nworld)
        setattr(clock, name, wp.zeros(size, dtype=var.type.dtype))
    clock.dt = base.dt
    ring.capacity = trace
    ring.time, ring.dt = (wp.zeros((nworld, trace), dtype=real) for _ in range(2))
    ring.clock = wp.zeros(nworld, dtype=real)

    def positions() -> wp.array:
        return wp.zeros((nworld, mjm.nq), dtype=real)

    def velocities() -> wp.array:
        return wp.zeros((nworld, mjm.nv), dtype=real)

    second = make_problem(mjm, mid, external.dofs if external else (), room)
    if base.problem.patches is not None and second.patches is not None:
        second.patches.notes = base.problem.patches.notes
    work = Workspace(
        **vars(base),
        mid=second,
        clock=clock,
        trace=ring,
        weights=weights,
        qpos_full=positions(),
        v_full=velocities(),
        qpos_mid=positions(),
        v_mid=velocities(),
        qpos_end=positions(),
        act_end=wp.zeros((nworld, mjm.na), dtype=float),
        qpos_last=positions(),
        qvel_last=velocities(),
        v_last=velocities(),
        dt_last=wp.zeros(nworld, dtype=real),
        guess=velocities(),
    )
    memory = IntegratorMemory(
        **convex.remembered(work),
        clock_asked=clock.asked,
        clock_ahead=clock.ahead,
        clock_left=clock.left,
        clock_next=clock.next,
        clock_dt=clock.dt,
        clock_half=clock.half,
        clock_whole=clock.whole,
        clock_least=clock.least,
        clock_steps=clock.steps,
        clock_rejections=clock.rejections,
        clock_failed=clock.failed,
        clock_failed_at=clock.failed_at,
        clock_error=clock.error,
        clock_count=clock.count,
        trace_clock=ring.clock,
    )
    return convex.own_data(mjm, d, work, memory)


def workspace_of(d: mjw.Data) -> Workspace:
    """The workspace of data made by Cenic."""
    work = convex.workspace_of(d)
    if not isinstance(work, Workspace):
        raise InputError("this data is not for error-controlled steps: make it with Cenic.make_data")
    return work
