"""What the integrator keeps with the data: a second geometry, the clock of each world, states within a step."""

import dataclasses

import mujoco
import mujoco_warp as mjw
import warp as wp

from stickslip.errors import InputError
from stickslip.physics.cenic.control import Clock, Trace, forget_worlds
from stickslip.physics.convex import data as convex
from stickslip.physics.convex.external import External
from stickslip.physics.convex.model import Problem, make_data, make_problem
from stickslip.physics.convex.potential import real

_SHARED = "ctrl qfrc_applied xfrc_applied mocap_pos mocap_quat eq_active userdata overflow time".split()
"""What the middle of a step has in common with its start."""


@dataclasses.dataclass
class Room(convex.Room):
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
        graphs: what was captured, by name; empty when it has to be captured anew
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

    def carried(self) -> dict[str, wp.array]:
        clock = {f"clock_{name}": getattr(self.clock, name) for name in Clock.vars}
        return {**super().carried(), **clock, "trace_clock": self.trace.clock}

    def forget(self, mask: wp.array) -> None:
        """Worlds in the mask start anew, with the first step."""
        wp.launch(forget_worlds, dim=mask.size, inputs=[mask, self.trace, self.clock])
        super().forget(mask)


def own_data(
    mjm: mujoco.MjModel,
    d: mjw.Data,
    nconmax: int | None,
    njmax: int | None,
    trace: int,
    weights: wp.array,
    external: External | None,
) -> convex.Data:
    """MuJoCo Warp's data with room for the integrator."""
    base = convex.make_room(mjm, d, external)
    nworld = d.nworld
    mid = make_data(mjm, nworld, nconmax, njmax)
    for name in _SHARED:
        setattr(mid, name, getattr(d, name))
    clock, ring = Clock(), Trace()
    for name, var in Clock.vars.items():
        size = {"count": 3, "asked": 1}.get(name, nworld)
        setattr(clock, name, wp.zeros(size, dtype=var.type.dtype))
    clock.dt = base.dt
    ring.room = trace
    ring.time, ring.dt = (wp.zeros((nworld, trace), dtype=real) for _ in range(2))
    ring.clock = wp.zeros(nworld, dtype=real)

    def positions() -> wp.array:
        return wp.zeros((nworld, mjm.nq), dtype=real)

    def velocities() -> wp.array:
        return wp.zeros((nworld, mjm.nv), dtype=real)

    room = Room(
        **vars(base),
        mid=make_problem(mjm, mid, external.dofs if external else ()),
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
    return convex.own_data(d, room)


def room_of(d: mjw.Data) -> Room:
    """The integrator's room of data that it made."""
    room = convex.room_of(d)
    if not isinstance(room, Room):
        raise InputError("this data has no room for an integrator: make it with Cenic.make_data")
    return room
