"""Push a T to a goal by gradient descent, from a first guess that does not touch it.

In the first guess the finger does not move. A small motion of it does not touch the T, so finite differences of MuJoCo
and of ComFree are zero, and descent makes no progress. The contact of `Scm` acts at a distance: its gradient leads to
the T and beyond. `reach` is that distance; it starts large and shrinks. MuJoCo then replays the controls. They touch
the T now, so finite differences of MuJoCo adapt them to its contact. Takes a few minutes, one of them to compile.

    pip install 'stickslip[jax]'
    python examples/push_t_gradient.py
"""

import sys
from collections.abc import Callable
from pathlib import Path

import mujoco
import mujoco.rollout
import numpy as np
from matplotlib.animation import PillowWriter
from rich.progress import track

import stickslip as ss
from stickslip.bench.report import style
from stickslip.scenes import push_t

START, GOAL = np.array([-0.10, -0.10]), (0.10, 0.06, 0.65)  # of the finger [m]; of the T: x, y [m], angle [rad]
SCENE, TIMESTEP, STEPS = f"push-t:x={START[0]},y={START[1]}", 0.005, 200
WAYPOINTS, ITERATIONS, RATE = 6, 50, 0.01  # RATE: how far a waypoint moves in an iteration, about [m]
REACH = (0.01, 0.001)  # distance at which the contact of Scm begins, first and last [m]
OUTLINE = np.array(push_t.corners())

Rollout = Callable[[np.ndarray], np.ndarray]
"""Positions (n, steps, nq) over n sets of waypoints (n, WAYPOINTS, 2)."""
Gradient = Callable[[np.ndarray, float], tuple[float, np.ndarray]]
"""Cost and its gradient, of waypoints (WAYPOINTS, 2) and of how much of the descent is done, 0 to 1."""


def controls(waypoints, steps: int):
    """Targets of the finger, (..., steps, 2): on lines from the start through the waypoints."""
    knots = np.arange(WAYPOINTS + 1) * steps / WAYPOINTS
    share = np.stack([np.interp(np.arange(1, steps + 1), knots, row) for row in np.eye(WAYPOINTS + 1)], axis=1)
    return share[:, :1] * START + share[:, 1:] @ waypoints


def corners(x, y, cosine, sine):
    """Corners of a T at a position, rotated by an angle."""
    return x + cosine * OUTLINE[:, 0] - sine * OUTLINE[:, 1], y + sine * OUTLINE[:, 0] + cosine * OUTLINE[:, 1]


def corners_at(qpos):
    x, y, _, w, i, j, k = (qpos[..., n, None] for n in range(7))
    return corners(x, y, w * w + i * i - j * j - k * k, 2.0 * (w * k + i * j))


def cost(qpos):
    """Mean squared distance of the corners to the goal over the last fifth of the time, of (..., steps, nq) [m^2]."""
    (x, y), goal = (
        corners_at(qpos[..., -(qpos.shape[-2] // 5) :, :]),
        corners(*GOAL[:2], np.cos(GOAL[2]), np.sin(GOAL[2])),
    )
    return ((x - goal[0]) ** 2 + (y - goal[1]) ** 2).mean((-1, -2))


def by_scm(steps: int = STEPS, points: int = 63) -> Gradient:
    """The gradient through the whole rollout, by JAX."""
    mjm = ss.load(SCENE, timestep=TIMESTEP)
    worlds = ss.Scm(points=points).worlds(mjm)  # if JAX is missing, the error says what to install
    import jax  # pyright: ignore[reportMissingImports]

    from stickslip.physics.scm.build import start_of

    state, inputs = start_of(mjm)

    @jax.jit
    @jax.value_and_grad
    def both(waypoints, reach):
        params = worlds.params._replace(reach=reach, select=reach)
        return cost(worlds.system.rollout(params, state, inputs, controls(waypoints, steps)).qpos)

    def gradient(waypoints: np.ndarray, done: float) -> tuple[float, np.ndarray]:
        value, slope = both(waypoints, REACH[0] * (REACH[1] / REACH[0]) ** min(1.0, 1.5 * done))
        return float(value), np.asarray(slope, dtype=float)

    return gradient


def by_differences(rollout: Rollout, h: float = 0.005) -> Gradient:
    """Central differences."""
    n = 2 * WAYPOINTS
    moved = np.concatenate([np.zeros((1, n)), h * np.eye(n), -h * np.eye(n)]).reshape(-1, WAYPOINTS, 2)

    def gradient(waypoints: np.ndarray, done: float) -> tuple[float, np.ndarray]:
        values = cost(rollout(waypoints + moved))
        return values[0], ((values[1 : n + 1] - values[n + 1 :]) / (2.0 * h)).reshape(WAYPOINTS, 2)

    return gradient


def in_c(steps: int = STEPS) -> Rollout:
    """MuJoCo in C."""
    mjm = ss.load(SCENE, timestep=TIMESTEP)
    mjd = mujoco.MjData(mjm)
    mujoco.mj_resetDataKeyframe(mjm, mjd, 0)
    start = np.concatenate([[0.0], mjd.qpos, mjd.qvel])

    def rollout(waypoints: np.ndarray) -> np.ndarray:
        starts = np.tile(start, (len(waypoints), 1))
        return mujoco.rollout.rollout(mjm, mjd, starts, controls(waypoints, steps))[0][..., 1 : 1 + mjm.nq]

    return rollout


def in_worlds(physics: ss.Physics, steps: int = STEPS) -> Rollout:
    """Any physics of stickslip; a world for each set of waypoints."""
    sim = ss.Simulation(SCENE, physics, nworld=4 * WAYPOINTS + 1, timestep=TIMESTEP, device="cpu")

    def rollout(waypoints: np.ndarray) -> np.ndarray:
        sim.reset()
        qpos = []
        for ctrl in np.moveaxis(controls(waypoints, steps), 1, 0):
            sim.ctrl = ctrl
            sim.step()
            qpos.append(sim.qpos.numpy().astype(float))
        return np.stack(qpos, axis=1)

    return rollout


def descend(gradient: Gradient, waypoints: np.ndarray, iterations: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Adam; waypoints (iterations, WAYPOINTS, 2) and costs (iterations,). A zero gradient changes nothing."""
    mean, square, path, costs = np.zeros_like(waypoints), np.zeros_like(waypoints), [], []
    for k in track(range(iterations), f"descent by {name}"):
        value, slope = gradient(waypoints, k / iterations)
        path.append(waypoints)
        costs.append(value)
        if not slope.any():
            return np.stack(path * iterations), np.array(costs * iterations)
        mean, square = 0.8 * mean + 0.2 * slope, 0.95 * square + 0.05 * slope**2
        direction = mean / (1.0 - 0.8 ** (k + 1)) / np.sqrt(square / (1.0 - 0.95 ** (k + 1)) + 1e-300)
        waypoints = waypoints - RATE * (1.0 - 0.9 * k / iterations) * direction
    return np.stack(path), np.array(costs)


def final_error(qpos: np.ndarray) -> str:
    """The distance of the end of a rollout (steps, nq) from the goal."""
    x, y, _, w, _, _, z = qpos[-1, :7]
    off = np.degrees(2.0 * np.arctan2(z, w) - GOAL[2])
    return f"{1e3 * np.hypot(x - GOAL[0], y - GOAL[1]):.1f} mm and {off:.1f} degrees from the goal"


def draw(qpos: np.ndarray, curves: list[tuple[str, str, str, int, np.ndarray]], folder: Path) -> None:
    """The push, (steps, nq), and curves of descents: label, colour, line, first iteration, costs."""
    folder.mkdir(exist_ok=True)
    fig, ((left, right),) = style.figure(
        "A T pushed by gradient descent, from a guess that does not touch it", 1, 2, height=4.6
    )
    distance = np.cumsum(np.hypot(*np.diff(corners_at(qpos), axis=1)).mean(-1))
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):  # of the distance that the T moves
        scene(left, qpos[np.searchsorted(distance, share * distance[-1])], 0.2 + 0.6 * share)
    left.plot(*qpos[:, 7:9].T, color=style.INK, lw=1.0)
    left.set_title("the push, as MuJoCo replays it", fontsize=10, loc="left")
    right.set_title("the descent", fontsize=10, loc="left")
    left.annotate("first guess: stay here", START, (0, -22), textcoords="offset points", ha="center", fontsize=8)
    for label, shade, line, first, costs in curves:
        right.plot(first + np.arange(len(costs)), 1e3 * np.sqrt(costs), line, color=style.COLOURS[shade], label=label)
    right.set(yscale="log", ylim=(None, 600.0), xlabel="iteration", ylabel="corners of the T to their goals, rms [mm]")
    right.legend(fontsize=8, loc="upper right")
    fig.savefig(folder / "push_t_gradient.png", dpi=130)

    fig, ((ax,),) = style.figure("", 1, 1, width=5.0, height=4.0)
    writer = PillowWriter(fps=20)
    with writer.saving(fig, str(folder / "push_t_gradient.gif"), dpi=80):
        for now in qpos[::10]:
            ax.clear()
            scene(ax, now, 1.0)
            writer.grab_frame()


def scene(ax, qpos: np.ndarray, alpha: float) -> None:
    """T and finger from above, and the goal."""
    ax.fill(*corners_at(qpos), fc=style.COLOURS["cone-sweep"], ec="white", alpha=alpha)
    angle = np.linspace(0.0, 2.0 * np.pi)
    ax.fill(
        qpos[7] + push_t.RADIUS * np.cos(angle),
        qpos[8] + push_t.RADIUS * np.sin(angle),
        fc=style.INK,
        alpha=alpha,
        lw=0,
    )
    ax.fill(*corners(*GOAL[:2], np.cos(GOAL[2]), np.sin(GOAL[2])), fc="none", ec=style.REFERENCE, ls="--")
    ax.set(aspect="equal", xlim=(-0.2, 0.3), ylim=(-0.2, 0.25), xlabel="x [m]", ylabel="y [m]")


def main() -> None:
    guess, scm, c = np.tile(START, (WAYPOINTS, 1)), by_scm(), in_c()
    gradients = {"comfree": by_differences(in_worlds(ss.ComFree())), "mujoco": by_differences(c), "scm": scm}
    path, curves = guess[None], []
    for name, gradient in gradients.items():
        size = np.linalg.norm(gradient(guess, 0.0)[1])
        print(f"{name}: the gradient at the first guess has norm {size:.2g} m")
        path, costs = descend(gradient, guess, ITERATIONS, name)
        line = "--" if name == "mujoco" else "-"  # it covers that of comfree
        curves.append((f"{name}: gradient at first {size:.2g} m", name, line, 0, costs))
    replays = c(path)
    print(f"scm: at the end the corners are {1e3 * curves[-1][-1][-1] ** 0.5:.1f} mm (rms) from the goal")
    print(f"its controls replayed by MuJoCo: {final_error(replays[-1])}")
    curves.append(("the controls of scm, replayed by mujoco", "scm", ":", 0, cost(replays)))
    more, costs = descend(by_differences(c), path[-1], ITERATIONS, "mujoco, from there")
    curves.append(("mujoco: best so far, from there", "mujoco", "-", ITERATIONS - 1, np.minimum.accumulate(costs)))
    best = c(more[costs.argmin()][None])[0]
    print(f"the best after finite differences of MuJoCo from there: {final_error(best)}")
    draw(best, curves, Path("out"))
    print("wrote out/push_t_gradient.png and out/push_t_gradient.gif")


if __name__ == "__main__":
    try:
        main()
    except ss.MissingExtra as error:
        sys.exit(f"error: {error}")
