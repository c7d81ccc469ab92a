"""Error-controlled integration: attempts of a step, captured once and launched until every world has arrived."""

import dataclasses
from collections.abc import Callable
from typing import Literal

import mujoco_warp as mjw
import warp as wp

from stickslip import compilation
from stickslip.physics import mjwarp_private as private
from stickslip.physics import stages
from stickslip.physics.cenic import trapezoid
from stickslip.physics.cenic.control import (
    FIRST,
    Bounds,
    Clock,
    choose_step,
    doubt_step,
    fail_late,
    judge_step,
    start_clock,
)
from stickslip.physics.cenic.data import Room, room_of
from stickslip.physics.convex import data as convex
from stickslip.physics.convex.external import advance, linearize
from stickslip.physics.convex.forces import sum_forces
from stickslip.physics.convex.model import Model, Problem
from stickslip.physics.convex.motion import move
from stickslip.physics.convex.newton import Options, look_at
from stickslip.physics.convex.potential import real
from stickslip.physics.convex.report import tell
from stickslip.physics.convex.step import geometry, prepare, solve
from stickslip.physics.warp import Data, record_peak

wp.set_module_options({"enable_backward": False})

Scheme = Literal["doubling", "trapezoid"]

TOLERANCE = 1e-3
"""Of a solve, relative to the accuracy: kappa of (34)."""
SPAN = 0.1
"""Length of a step that the tolerance is for [s]; shorter ones have less."""
ATTEMPTS = 100_000
"""Most attempts of a timestep, the mean over those of a call; worlds that need more are given up."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """How to integrate.

    Attributes:
        bounds: accuracy, longest and shortest step
        scheme: how the error is found
        iterations: most of Newton's method
        reuse: whether a factor may serve two iterations
        passes: of friction in a solve
    """

    bounds: Bounds
    scheme: Scheme
    iterations: int
    reuse: bool
    passes: int

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
    """The last timestep of those that were asked for; judge_step counts the others."""
    worldid = wp.tid()
    if clock.failed[worldid] <= real(0.0):
        time_out[worldid] += opt_timestep[worldid % opt_timestep.shape[0]]


def _move(m: Model, room: Room, scale: float, start: wp.array, v: wp.array, out: wp.array) -> None:
    wp.launch(
        move,
        dim=(v.shape[0], m.njnt),
        inputs=[m.jnt_type, m.jnt_qposadr, m.jnt_dofadr, room.dt, scale, start, v],
        outputs=[out],
    )


def look(m: Model, d: Data) -> None:
    """Geometry and problem at the start of a step."""
    room = room_of(d)
    convex.show_state(d, room.qpos, room.qvel)
    geometry(m, d)
    record_peak(d)
    sum_forces(m, room.problem)
    prepare(m, room.problem, room.qvel)


def _solve(
    m: Model, room: Room, problem: Problem, options: Options, start: wp.array, guess: wp.array, out: wp.array
) -> None:
    solve(m, problem, room.solver, room.nlane, options, room.dt, start, guess, out)


def _linearize(m: Model, room: Room, problem: Problem, scale: float, qpos: wp.array, qvel: wp.array, z: str) -> None:
    """Put the external system into the rows of a step of scale dt, from its state `z` or `z_mid`."""
    if room.system:
        linearize(m, room.system, problem.rows, room.dt, scale, qpos, qvel, getattr(room.system, z))


def begin_attempt(m: Model, d: mjw.Data, settings: Settings) -> None:
    """A step of every world that has not arrived, as far as it needs no second geometry."""
    room = room_of(d)
    wp.launch(choose_step, dim=d.nworld, inputs=[room.clock, settings.bounds])
    _linearize(m, room, room.problem, 1.0, room.qpos, room.qvel, "z")
    _solve(m, room, room.problem, settings.options(1.0), room.qvel, room.qvel, room.v_full)
    _move(m, room, 1.0, room.qpos, room.v_full, room.qpos_full)
    if settings.scheme == "doubling":
        wp.launch(_mean, dim=room.qvel.shape, inputs=[room.qvel, room.v_full], outputs=[room.guess])
        _linearize(m, room, room.problem, 0.5, room.qpos, room.qvel, "z")
        _solve(m, room, room.problem, settings.options(0.5), room.qvel, room.guess, room.v_mid)
        if room.system:
            advance(room.system, room.dt, room.v_mid, room.system.z_mid)
        _move(m, room, 0.5, room.qpos, room.v_mid, room.qpos_mid)
        _move(m, room, 0.5, room.qpos_mid, room.v_full, room.qpos_end)
        wp.launch(
            doubt_step,
            dim=d.nworld,
            inputs=[room.weights, settings.bounds, room.qpos_full, room.qpos_end],
            outputs=[room.clock],
        )


def end_attempt(m: Model, d: mjw.Data, settings: Settings) -> None:
    """The rest of the step."""
    if settings.scheme == "doubling":
        _double(m, d, settings)
    else:
        _trapezoid(m, d, settings)


def judge(m: Model, d: mjw.Data, settings: Settings) -> None:
    """Whether the step is kept, and how long the next one is."""
    room = room_of(d)
    none = wp.empty((d.nworld, 0), dtype=real)
    wp.launch(
        judge_step,
        dim=d.nworld,
        inputs=[
            m.opt.timestep,
            room.weights,
            settings.bounds,
            room.trace,
            room.qpos_full,
            room.qpos_end,
            room.v,
            room.v_full,
            room.act_end,
            room.system.z_end if room.system else none,
        ],
        outputs=[
            room.clock,
            d.time,
            room.qpos,
            room.qvel,
            d.act,
            room.system.z if room.system else none,
            room.qpos_last,
            room.qvel_last,
            room.v_last,
            room.dt_last,
        ],
    )


def _double(m: Model, d: mjw.Data, settings: Settings) -> None:
    """The second half step, (23)."""
    room, half = room_of(d), settings.options(0.5)
    mid = room.mid.d
    if m.na:
        private.advance_activation(m, d, room.clock.half, mid.act)
    convex.show_state(mid, room.qpos_mid, room.v_mid)
    geometry(m, mid)
    sum_forces(m, room.mid)
    prepare(m, room.mid, room.v_mid)
    _linearize(m, room, room.mid, 0.5, room.qpos_mid, room.v_mid, "z_mid")
    _solve(m, room, room.mid, half, room.v_mid, room.v_full, room.v)
    if room.system:
        advance(room.system, room.dt, room.v, room.system.z_end)
    _move(m, room, 0.5, room.qpos_mid, room.v, room.qpos_end)
    if m.na:
        private.advance_activation(m, mid, room.clock.half, room.act_end)


def _trapezoid(m: Model, d: mjw.Data, settings: Settings) -> None:
    """The mean of the forces at both ends, the second as the whole step found it, (25)."""
    room, tree = room_of(d), m.convex.tree
    mid = room.mid.d
    if m.na:
        private.advance_activation(m, d, room.clock.half, mid.act)
        private.advance_activation(m, d, room.clock.whole, room.act_end)
    convex.show_state(mid, room.qpos_full, room.v_full)
    geometry(m, mid)
    sum_forces(m, room.mid)
    prepare(m, room.mid, room.v_full)
    wp.launch(trapezoid.begin_forces, dim=d.nworld, inputs=[tree, room.problem.touch, room.qvel], outputs=[room.solver])
    wp.launch(trapezoid.mean_inertia, dim=d.M.shape, inputs=[d.M], outputs=[room.mid.inertia])
    wp.launch(
        trapezoid.mean_forces,
        dim=(d.nworld, m.nv),
        inputs=[room.problem.inertia, room.solver],
        outputs=[room.mid.inertia],
    )
    wp.launch(trapezoid.step_back, dim=d.nworld, inputs=[tree, room.dt, room.v_full], outputs=[room.mid.touch])
    _linearize(m, room, room.mid, 1.0, room.qpos, room.qvel, "z")
    _solve(m, room, room.mid, settings.options(1.0, 0.5), room.qvel, room.v_full, room.v)
    if room.system:
        advance(room.system, room.dt, room.v, room.system.z_end)
    wp.launch(_mean, dim=room.qvel.shape, inputs=[room.qvel, room.v], outputs=[room.guess])
    _move(m, room, 1.0, room.qpos, room.guess, room.qpos_end)


def look_back(m: Model, d: mjw.Data) -> None:
    """Geometry at the start of the last step of each world, for those who look at contacts and sensors."""
    room = room_of(d)
    convex.show_state(d, room.qpos_last, room.qvel_last)
    geometry(m, d)
    sum_forces(m, room.problem)
    prepare(m, room.problem, room.qvel_last)


def report(m: Model, d: Data, settings: Settings) -> None:
    """Contacts, forces and sensors of the last step of each world; then the state that it ended in."""
    room, layout = room_of(d), m.convex
    wp.launch(
        look_at,
        dim=d.nworld,
        inputs=[
            layout.tree,
            layout.material,
            room.problem.touch,
            room.problem.rows,
            room.dt_last,
            room.v_last,
            settings.passes,
        ],
    )
    tell(m, room.problem, room.solver, room.dt_last, room.qvel_last, room.v_last)
    record_peak(d)
    mjw.camlight(m, d)
    stages.sense_position(m, d)
    stages.sense_velocity(m, d)
    stages.sense_force(m, d)
    convex.show_state(d, room.qpos, room.qvel)
    wp.launch(_advance_time, dim=d.nworld, inputs=[m.opt.timestep, room.clock], outputs=[d.time])


def begin(m: Model, d: mjw.Data, settings: Settings) -> None:
    """Take the state that users wrote, and set the target."""
    room = room_of(d)
    convex.take_state(m, d)
    wp.launch(
        start_clock,
        dim=d.nworld,
        inputs=[m.opt.timestep, FIRST * settings.bounds.longest],
        outputs=[room.clock],
    )


def run(m: Model, d: Data, settings: Settings, n: int) -> None:
    """Advance every world by n timesteps. Each meets the end of every one, but none waits there for the others."""
    room = room_of(d)
    compile_step(m, d, settings)
    room.clock.asked.fill_(n)
    wp.capture_launch(room.graphs["begin"])
    looked = False
    attempts = 0
    while True:
        if not looked:
            wp.capture_launch(room.graphs["look"])
        wp.capture_launch(room.graphs["begin attempt"])
        # on a GPU some world goes on nearly always, and asking takes longer than it saves
        if d.qpos.device.is_cuda or settings.scheme == "trapezoid" or room.clock.count.numpy()[2]:
            wp.capture_launch(room.graphs["end attempt"])
        wp.capture_launch(room.graphs["judge"])
        attempts += 1
        pending, accepted, _ = (int(count) for count in room.clock.count.numpy())
        looked = accepted == 0
        if pending == 0:
            break
        if attempts >= n * ATTEMPTS:
            wp.launch(fail_late, dim=d.nworld, inputs=[room.clock, room.qpos, room.qvel])
            break
    if d.nworld > 1 and attempts > 1:
        wp.capture_launch(room.graphs["look back"])
    wp.capture_launch(room.graphs["report"])


def compile_step(m: Model, d: Data, settings: Settings) -> None:
    """Compile the kernels and capture the parts of a step, unless that was done."""
    if not room_of(d).graphs:
        _capture(m, d, settings)


def _capture(m: Model, d: Data, settings: Settings) -> None:
    """Capture the parts of a step; the state stays as it is."""
    room = room_of(d)
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
    exact = {name: wp.clone(array) for name, array in room.carried().items()}
    compilation.load_kernels(run, device)
    run()  # loads what that missed: nothing can be loaded while capturing
    for name, array in kept.items():
        wp.copy(getattr(d, name), array)
    for name, array in room.carried().items():
        wp.copy(array, exact[name])
    for name, part in parts.items():
        with wp.ScopedCapture(device=device) as capture:
            part()
        room.graphs[name] = capture.graph
