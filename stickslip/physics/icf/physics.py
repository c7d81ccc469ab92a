"""The physics `Icf`: one convex step of fixed size."""

import dataclasses
from typing import ClassVar, final

import mujoco
import mujoco_warp as mjw
import numpy as np
import warp as wp

from stickslip.physics import mjwarp_private as private
from stickslip.physics.base import Stage, Stats
from stickslip.physics.convex import model
from stickslip.physics.convex.broadphase import collide
from stickslip.physics.convex.data import (
    make_room,
    own_data,
    room_of,
    show_state,
    take_state,
)
from stickslip.physics.convex.external import External, advance, linearize
from stickslip.physics.convex.forces import sum_forces
from stickslip.physics.convex.motion import move
from stickslip.physics.convex.newton import Options
from stickslip.physics.convex.physics import ConvexPhysics
from stickslip.physics.convex.potential import real
from stickslip.physics.convex.report import tell
from stickslip.physics.convex.step import make_rows, prepare, solve
from stickslip.physics.settings import check_number
from stickslip.physics.stages import compose
from stickslip.physics.warp import Data

wp.set_module_options({"enable_backward": False})


@wp.kernel
def _take_timestep(
    # Model:
    opt_timestep: wp.array[float],
    # Out:
    dt_out: wp.array[real],
):
    worldid = wp.tid()
    dt_out[worldid] = real(opt_timestep[worldid % opt_timestep.shape[0]])


@wp.kernel
def _advance_time(
    # Model:
    opt_timestep: wp.array[float],
    # Data out:
    time_out: wp.array[float],
):
    worldid = wp.tid()
    time_out[worldid] += opt_timestep[worldid % opt_timestep.shape[0]]


@final
@dataclasses.dataclass(frozen=True)
class Icf(ConvexPhysics):
    """Compliant contact with friction as one convex problem a step, solved by Newton's method; stable for any timestep.

    Attributes:
        stiffness: of every contact geom [N/m]; None: a geom's own, the model's, or what follows from solref and mass
        dissipation: Hunt and Crossley's, of every geom [s/m]; None: likewise
        stiction: velocity below which contacts stick [m/s]; None: the model's, or 1e-6
        ahead: distance at which contacts are noticed before they touch, on top of the model's gap [m]
        tolerance: of the solve, relative to the speed, at least 0.01 m/s or rad/s
        iterations: most of Newton's method
        passes: solves of a step, each with friction by the normal forces of the one before; the paper has 1
        external: a system of your own that acts on the model
    """

    name: ClassVar[str] = "icf"
    stiffness: float | None = None
    dissipation: float | None = None
    stiction: float | None = None
    ahead: float = 0.005
    tolerance: float = 1e-8
    iterations: int = 100
    passes: int = 2
    external: External | None = None

    def __post_init__(self) -> None:
        self.check_shared()
        check_number("tolerance", self.tolerance, 0.0, 1.0)

    def allocate(self, mjm: mujoco.MjModel, nworld: int, nconmax: int | None, njmax: int | None) -> mjw.Data:
        d = model.make_data(mjm, nworld, nconmax, njmax)
        return own_data(d, make_room(mjm, d, self.external))

    def advance(self, m: model.Model, d: Data) -> None:
        for _, stage in self.stages(m, d):
            stage()

    def stages(self, m: model.Model, d: Data) -> list[Stage]:
        room = room_of(d)
        options = Options()
        options.scale, options.weight = 1.0, 1.0
        options.tolerance, options.span = self.tolerance, 0.0
        options.iterations, options.reuse, options.passes = self.iterations, True, self.passes

        def contact() -> None:
            wp.launch(_take_timestep, dim=d.nworld, inputs=[m.opt.timestep], outputs=[room.dt])
            take_state(m, d)
            prepare(m, room.problem, room.qvel)
            if room.system:
                linearize(m, room.system, room.problem.rows, room.dt, 1.0, room.qpos, room.qvel, room.system.z)
            solve(m, room.problem, room.solver, room.nlane, options, room.dt, room.qvel, room.qvel, room.v)
            tell(m, room.problem, room.solver, room.dt, room.qvel, room.v)

        def integration() -> None:
            if m.na:
                private.advance_activation(m, d, m.opt.timestep, d.act)
            wp.launch(
                move,
                dim=(d.nworld, m.njnt),
                inputs=[m.jnt_type, m.jnt_qposadr, m.jnt_dofadr, room.dt, 1.0, room.qpos, room.v],
                outputs=[room.qpos],
            )
            wp.copy(room.qvel, room.v)
            if room.system:
                advance(room.system, room.dt, room.v, room.system.z)
            show_state(d, room.qpos, room.qvel)
            wp.launch(_advance_time, dim=d.nworld, inputs=[m.opt.timestep], outputs=[d.time])

        return compose(
            m,
            d,
            rows=lambda: make_rows(m, d),
            acceleration=lambda: sum_forces(m, room.problem),
            solve=[("contact", contact)],
            integration=integration,
            collide=lambda: collide(m, d, m.convex.groups),
        )

    def stats(self, m: model.Model, d: Data) -> Stats:
        timestep = np.resize(m.opt.timestep.numpy().astype(float), d.nworld)
        steps = np.rint(d.time.numpy() / timestep).astype(int)
        return Stats(
            steps=steps,
            rejections=np.zeros_like(steps),
            smallest_dt=timestep,
            dt=timestep,
            trace=(),
            **room_of(d).counted(),
        )
