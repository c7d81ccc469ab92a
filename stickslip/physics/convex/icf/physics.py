"""The physics `Icf`: one convex step of fixed size."""

import dataclasses
from typing import ClassVar, final

import mujoco
import numpy as np
import warp as wp

from stickslip import parameters
from stickslip.parameters import parameter
from stickslip.physics.base import Stage, StagedPhysics, Stats
from stickslip.physics.convex.physics import LEAST_MARGIN, ConvexPhysics
from stickslip.physics.convex.step import model
from stickslip.physics.convex.step.data import (
    Data,
    StepMemory,
    make_workspace,
    own_data,
    remembered,
    show_state,
    take_state,
    workspace_of,
)
from stickslip.physics.convex.step.external import advance, linearize
from stickslip.physics.convex.step.forces import sum_forces
from stickslip.physics.convex.step.motion import move
from stickslip.physics.convex.step.newton import Options
from stickslip.physics.convex.step.pipeline import collide, make_rows, prepare, solve
from stickslip.physics.convex.step.potential import real
from stickslip.physics.convex.step.report import report_step
from stickslip.physics.mjwarp import private
from stickslip.physics.mjwarp.plan import PlanStage
from stickslip.physics.mjwarp.smooth.smooth import find_smooth, is_fused
from stickslip.physics.mjwarp.stages import compose

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
@parameters.checked
@dataclasses.dataclass(frozen=True)
class Icf(ConvexPhysics, StagedPhysics[model.Model, Data]):
    """Compliant contact with friction as a convex problem per step, solved by Newton's method; stable at any step."""

    name: ClassVar[str] = "icf"
    tolerance: float = parameter(
        1e-8, "of the solve, relative to the speed (at least 0.01 m/s or rad/s)", 0.0, 1.0, above=True
    )

    def allocate(self, mjm: mujoco.MjModel, nworld: int, nconmax: int | None, njmax: int | None) -> Data:
        d = model.make_data(mjm, nworld, nconmax, njmax)
        work = make_workspace(mjm, d, self.external, self.room(mjm))
        return own_data(mjm, d, work, StepMemory(**remembered(work)))

    def look_ahead(self, mjm: mujoco.MjModel) -> float:
        # a flat body rocks between its edges by about this much, whatever its mass and stiffness
        return max(LEAST_MARGIN, float(np.linalg.norm(mjm.opt.gravity)) * mjm.opt.timestep**2)

    def advance(self, m: model.Model, d: Data) -> None:
        for _, stage in self.stages(m, d):
            stage()

    def stages(self, m: model.Model, d: Data) -> list[Stage]:
        work = workspace_of(d)
        options = Options()
        options.scale, options.weight = 1.0, 1.0
        options.tolerance, options.span = self.tolerance, 0.0
        options.iterations, options.reuse, options.passes = self.iterations, True, self.passes

        def smooth() -> None:
            find_smooth(m, d, begins=True)
            sum_forces(m, work.problem)

        def contact() -> None:
            wp.launch(_take_timestep, dim=d.nworld, inputs=[m.opt.timestep], outputs=[work.dt])
            take_state(m, d)
            prepare(m, work.problem, work.qvel)
            if work.system:
                linearize(m, work.system, work.problem.rows, work.dt, 1.0, work.qpos, work.qvel, work.system.z)
            solve(m, work.problem, work.solver, work.nlane, options, work.dt, work.qvel, work.qvel, work.v)
            report_step(m, work.problem, work.solver, work.dt, work.qvel, work.v)

        def integration() -> None:
            if m.na:
                private.advance_activation(m, d, m.opt.timestep, d.act)
            wp.launch(
                move,
                dim=(d.nworld, m.njnt),
                inputs=[m.jnt_type, m.jnt_qposadr, m.jnt_dofadr, work.dt, 1.0, work.qpos, work.v],
                outputs=[work.qpos],
            )
            wp.copy(work.qvel, work.v)
            if work.system:
                advance(work.system, work.dt, work.v, work.system.z)
            show_state(d, work.qpos, work.qvel)
            wp.launch(_advance_time, dim=d.nworld, inputs=[m.opt.timestep], outputs=[d.time])

        return compose(
            m,
            d,
            rows=lambda: make_rows(m, d),
            acceleration=lambda: sum_forces(m, work.problem),
            solve=(PlanStage("contact", contact, ("smooth acceleration", "collision")),),
            integration=PlanStage("integration", integration, ("force sensors",)),
            collide=lambda: collide(m, work.problem),
            smooth=smooth if is_fused(m) else None,
        ).timed()

    def stats(self, m: model.Model, d: Data) -> Stats:
        timestep = np.resize(m.opt.timestep.numpy().astype(float), d.nworld)
        steps = np.rint(d.time.numpy() / timestep).astype(int)
        return Stats(
            steps=steps,
            rejections=np.zeros_like(steps),
            smallest_dt=timestep,
            dt=timestep,
            trace=(),
            **workspace_of(d).counted(),
        )
