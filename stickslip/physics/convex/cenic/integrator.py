"""Error-controlled integration: attempts of a step, captured once and launched until every world has arrived."""

import dataclasses
from collections.abc import Callable
from typing import Literal

import mujoco_warp as mjw
import warp as wp

from stickslip import compilation
from stickslip.physics.convex.cenic import trapezoid
from stickslip.physics.convex.cenic.control import (
    FIRST,
    Bounds,
    Clock,
    choose_step,
    doubt_step,
    fail_late,
    judge_step,
    start_clock,
)
from stickslip.physics.convex.cenic.data import Workspace, workspace_of
from stickslip.physics.convex.step import data as convex
from stickslip.physics.convex.step.external import advance, linearize
from stickslip.physics.convex.step.forces import sum_forces
from stickslip.physics.convex.step.model import Model, Problem
from stickslip.physics.convex.step.motion import move
from stickslip.physics.convex.step.newton import Options, evaluate_at
from stickslip.physics.convex.step.pipeline import geometry, prepare, solve
from stickslip.physics.convex.step.potential import real
from stickslip.physics.convex.step.report import report_step
from stickslip.physics.mjwarp import private, stages
from stickslip.physics.mjwarp.data import Data, record_peak
from stickslip.physics.mjwarp.smooth.smooth import is_fused

wp.set_module_options({"enable_backward": False})

Scheme = Literal["doubling", "trapezoid"]

TOLERANCE = 1e-3
"""Of a solve, relative to the accuracy: kappa of (34)."""
SPAN = 0.1
"""Length of a step that the tolerance is for [s]; shorter ones have less."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """How to integrate.

    Attributes:
        bounds: accuracy, longest and shortest step
        scheme: how the error is found
        iterations: most of Newton's method
        reuse: whether a factor may serve two iterations
        passes: of friction in a solve
        attempts: most of a timestep, the mean over those of a call
    """

    bounds: Bounds
    scheme: Scheme
    iterations: int
    reuse: bool
    passes: int
    attempts: int

    def options(self, scale: float, weight: float = 1.0) -> Options:
        options = Options()
        options.scale, options.weight = scale, weight
        options.tolerance, options.span = TOLERANCE * self.bounds.accuracy, SPAN
        options.iterations, options.reuse = self.iterations, self.reuse
        options.passes = self.passes if weight == 1.0 else 1
        return options


@wp.kernel
def _mean(a: wp.array2d[real], b: wp.array2d[real], out: wp.array2d[real]):
    worldid, i = wp.tid()
    out[worldid, i] = real(0.5) * (a[worldid, i] + b[worldid, i])


@wp.kernel
def _advance_time(
    # Model:
    opt_timestep: wp.array[float],
    # In:
    clock: Clock,
    # Data out:
    time_out: wp.array[float],
):
    """The last of the requested timesteps; judge_step counts the others."""
    worldid = wp.tid()
    if clock.failed[worldid] <= real(0.0):
        time_out[worldid] += opt_timestep[worldid % opt_timestep.shape[0]]


def _move(m: Model, work: Workspace, scale: float, start: wp.array, v: wp.array, out: wp.array) -> None:
    wp.launch(
        move,
        dim=(v.shape[0], m.njnt),
        inputs=[m.jnt_type, m.jnt_qposadr, m.jnt_dofadr, work.dt, scale, start, v],
        outputs=[out],
    )


def look(m: Model, d: Data) -> None:
    """Geometry and problem at the start of a step."""
    work = workspace_of(d)
    convex.show_state(d, work.qpos, work.qvel)
    geometry(m, work.problem)
    record_peak(d)
    sum_forces(m, work.problem)
    prepare(m, work.problem, work.qvel)


def _solve(
    m: Model, work: Workspace, problem: Problem, options: Options, start: wp.array, guess: wp.array, out: wp.array
) -> None:
    solve(m, problem, work.solver, work.nlane, options, work.dt, start, guess, out)


def _linearize(
    m: Model, work: Workspace, problem: Problem, scale: float, qpos: wp.array, qvel: wp.array, z: str
) -> None:
    """Put the external system into the rows of a step of scale dt, from its state `z` or `z_mid`."""
    if work.system:
        linearize(m, work.system, problem.rows, work.dt, scale, qpos, qvel, getattr(work.system, z))


def begin_attempt(m: Model, d: mjw.Data, settings: Settings) -> None:
    """A step of every world that has not arrived, as far as it needs no second geometry."""
    work = workspace_of(d)
    wp.launch(choose_step, dim=d.nworld, inputs=[work.clock, settings.bounds])
    _linearize(m, work, work.problem, 1.0, work.qpos, work.qvel, "z")
    _solve(m, work, work.problem, settings.options(1.0), work.qvel, work.qvel, work.v_full)
    _move(m, work, 1.0, work.qpos, work.v_full, work.qpos_full)
    if settings.scheme == "doubling":
        wp.launch(_mean, dim=work.qvel.shape, inputs=[work.qvel, work.v_full], outputs=[work.guess])
        _linearize(m, work, work.problem, 0.5, work.qpos, work.qvel, "z")
        _solve(m, work, work.problem, settings.options(0.5), work.qvel, work.guess, work.v_mid)
        if work.system:
            advance(work.system, work.dt, work.v_mid, work.system.z_mid)
        _move(m, work, 0.5, work.qpos, work.v_mid, work.qpos_mid)
        _move(m, work, 0.5, work.qpos_mid, work.v_full, work.qpos_end)
        wp.launch(
            doubt_step,
            dim=d.nworld,
            inputs=[work.weights, settings.bounds, work.qpos_full, work.qpos_end],
            outputs=[work.clock],
        )


def end_attempt(m: Model, d: mjw.Data, settings: Settings) -> None:
    """The rest of the step."""
    if settings.scheme == "doubling":
        _double(m, d, settings)
    else:
        _trapezoid(m, d, settings)


def judge(m: Model, d: mjw.Data, settings: Settings) -> None:
    """Whether the step is kept, and how long the next one is."""
    work = workspace_of(d)
    none = wp.empty((d.nworld, 0), dtype=real)
    wp.launch(
        judge_step,
        dim=d.nworld,
        inputs=[
            m.opt.timestep,
            work.weights,
            settings.bounds,
            work.trace,
            work.qpos_full,
            work.qpos_end,
            work.v,
            work.v_full,
            work.act_end,
            work.system.z_end if work.system else none,
        ],
        outputs=[
            work.clock,
            d.time,
            work.qpos,
            work.qvel,
            d.act,
            work.system.z if work.system else none,
            work.qpos_last,
            work.qvel_last,
            work.v_last,
            work.dt_last,
        ],
    )


def _double(m: Model, d: mjw.Data, settings: Settings) -> None:
    """The second half step, (23)."""
    work, half = workspace_of(d), settings.options(0.5)
    mid = work.mid.d
    if m.na:
        private.advance_activation(m, d, work.clock.half, mid.act)
    convex.show_state(mid, work.qpos_mid, work.v_mid)
    geometry(m, work.mid)
    sum_forces(m, work.mid)
    prepare(m, work.mid, work.v_mid)
    _linearize(m, work, work.mid, 0.5, work.qpos_mid, work.v_mid, "z_mid")
    _solve(m, work, work.mid, half, work.v_mid, work.v_full, work.v)
    if work.system:
        advance(work.system, work.dt, work.v, work.system.z_end)
    _move(m, work, 0.5, work.qpos_mid, work.v, work.qpos_end)
    if m.na:
        private.advance_activation(m, mid, work.clock.half, work.act_end)


def _trapezoid(m: Model, d: mjw.Data, settings: Settings) -> None:
    """The mean of the forces at both ends, the second as the whole step found it, (25)."""
    work, tree = workspace_of(d), m.convex.tree
    mid = work.mid.d
    if m.na:
        private.advance_activation(m, d, work.clock.half, mid.act)
        private.advance_activation(m, d, work.clock.whole, work.act_end)
    convex.show_state(mid, work.qpos_full, work.v_full)
    geometry(m, work.mid)
    sum_forces(m, work.mid)
    prepare(m, work.mid, work.v_full)
    wp.launch(trapezoid.begin_forces, dim=d.nworld, inputs=[tree, work.problem.touch, work.qvel], outputs=[work.solver])
    wp.launch(trapezoid.mean_inertia, dim=d.M.shape, inputs=[d.M], outputs=[work.mid.inertia])
    wp.launch(
        trapezoid.mean_forces,
        dim=(d.nworld, m.nv),
        inputs=[work.problem.inertia, work.solver],
        outputs=[work.mid.inertia],
    )
    wp.launch(trapezoid.step_back, dim=d.nworld, inputs=[tree, work.dt, work.v_full], outputs=[work.mid.touch])
    _linearize(m, work, work.mid, 1.0, work.qpos, work.qvel, "z")
    _solve(m, work, work.mid, settings.options(1.0, 0.5), work.qvel, work.v_full, work.v)
    if work.system:
        advance(work.system, work.dt, work.v, work.system.z_end)
    wp.launch(_mean, dim=work.qvel.shape, inputs=[work.qvel, work.v], outputs=[work.guess])
    _move(m, work, 1.0, work.qpos, work.guess, work.qpos_end)


def look_back(m: Model, d: mjw.Data) -> None:
    """Geometry at the start of the last step of each world, for those who look at contacts and sensors."""
    work = workspace_of(d)
    convex.show_state(d, work.qpos_last, work.qvel_last)
    geometry(m, work.problem)
    sum_forces(m, work.problem)
    prepare(m, work.problem, work.qvel_last)


def report(m: Model, d: Data, settings: Settings) -> None:
    """Contacts, forces and sensors of the last step of each world; then the state that it ended in."""
    work, layout = workspace_of(d), m.convex
    wp.launch(
        evaluate_at,
        dim=d.nworld,
        inputs=[
            layout.tree,
            layout.material,
            work.problem.touch,
            work.problem.rows,
            work.dt_last,
            work.v_last,
            settings.passes,
        ],
    )
    report_step(m, work.problem, work.solver, work.dt_last, work.qvel_last, work.v_last)
    record_peak(d)
    _sense(m, d)
    convex.show_state(d, work.qpos, work.qvel)
    wp.launch(_advance_time, dim=d.nworld, inputs=[m.opt.timestep, work.clock], outputs=[d.time])


def _sense(m: Model, d: mjw.Data) -> None:
    """What nobody needs to integrate: cameras, lights and sensors."""
    if not is_fused(m):  # else the geometry has them
        mjw.camlight(m, d)
    stages.sense_position(m, d)
    stages.sense_velocity(m, d)
    stages.sense_force(m, d)


def observe(m: Model, d: Data, settings: Settings) -> None:
    """Contacts, forces and sensors of the whole step that would be tried next; the state stays, the clock does not."""
    work = workspace_of(d)
    work.clock.asked.fill_(1)
    begin(m, d, settings)
    look(m, d)
    wp.launch(choose_step, dim=d.nworld, inputs=[work.clock, settings.bounds])
    _linearize(m, work, work.problem, 1.0, work.qpos, work.qvel, "z")
    _solve(m, work, work.problem, settings.options(1.0), work.qvel, work.qvel, work.v_full)
    report_step(m, work.problem, work.solver, work.dt, work.qvel, work.v_full)
    _sense(m, d)


def begin(m: Model, d: mjw.Data, settings: Settings) -> None:
    """Take the state that users wrote, and set the target."""
    work = workspace_of(d)
    convex.take_state(m, d)
    wp.launch(
        start_clock,
        dim=d.nworld,
        inputs=[m.opt.timestep, FIRST * settings.bounds.longest],
        outputs=[work.clock],
    )


def run(m: Model, d: Data, settings: Settings, n: int) -> None:
    """Advance every world by n timesteps. Each meets the end of every one, but none waits there for the others."""
    work = workspace_of(d)
    compile_step(m, d, settings)
    work.clock.asked.fill_(n)
    wp.capture_launch(work.graphs["begin"])
    looked = False
    attempts = 0
    while True:
        if not looked:
            wp.capture_launch(work.graphs["look"])
        wp.capture_launch(work.graphs["begin attempt"])
        # on a GPU some world goes on nearly always, and asking takes longer than it saves
        if d.qpos.device.is_cuda or settings.scheme == "trapezoid" or work.clock.count.numpy()[2]:
            wp.capture_launch(work.graphs["end attempt"])
        wp.capture_launch(work.graphs["judge"])
        attempts += 1
        pending, accepted, _ = (int(count) for count in work.clock.count.numpy())
        looked = accepted == 0
        if pending == 0:
            break
        if attempts >= n * settings.attempts:
            wp.launch(fail_late, dim=d.nworld, inputs=[work.clock, work.qpos, work.qvel])
            break
    if d.nworld > 1 and attempts > 1:
        wp.capture_launch(work.graphs["look back"])
    wp.capture_launch(work.graphs["report"])


def compile_step(m: Model, d: Data, settings: Settings) -> None:
    """Compile the kernels and capture the parts of a step, unless that was done."""
    if not workspace_of(d).graphs:
        _capture(m, d, settings)


def _capture(m: Model, d: Data, settings: Settings) -> None:
    """Capture the parts of a step; the state stays as it is."""
    work = workspace_of(d)
    parts: dict[str, Callable[[], None]] = {
        "begin": lambda: begin(m, d, settings),
        "look": lambda: look(m, d),
        "begin attempt": lambda: begin_attempt(m, d, settings),
        "end attempt": lambda: end_attempt(m, d, settings),
        "judge": lambda: judge(m, d, settings),
        "look back": lambda: look_back(m, d),
        "report": lambda: report(m, d, settings),
    }
    device = d.qpos.device

    def run() -> None:
        for part in parts.values():
            part()

    names = "time qpos qvel act qacc_warmstart cvel cdof_dot overflow peak".split()
    kept = {name: wp.clone(getattr(d, name)) for name in names}
    memory = {name: wp.clone(array) for name, array in d.memory.arrays().items()}
    compilation.load_kernels(run, device)
    run()  # loads what that missed: nothing can be loaded while capturing
    for name, array in kept.items():
        wp.copy(getattr(d, name), array)
    for name, array in d.memory.arrays().items():
        wp.copy(array, memory[name])
    for name, part in parts.items():
        work.graphs[name] = compilation.capture(part, device)
