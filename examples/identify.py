"""Identify friction and mass of a T from a trajectory: Gauss-Newton, with derivatives through the simulation.

A finger on springs strikes a T, which slides on and turns. How soon the T stops depends on its friction. How far the
finger lags behind its target depends on the force, and so on the mass. The data come from `Scm` with other parameters
and noise, and from MuJoCo in C, which has a different contact model: the error is then one of the model, not of noise.
`ss.identify` finds parameters under any physics, without derivatives, and tells which the data do not determine.

    pip install 'stickslip[jax]'
    python examples/identify.py
"""

import sys
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
from rich.console import Console
from rich.table import Table

import stickslip as ss
from stickslip.bench.report import style

TRUE, GUESS = (0.35, 0.8), (0.7, 0.3)  # friction, mass of the T [kg]
START, STROKE, RISE = (-0.06, -0.05), 0.15, 0.2  # of the finger: start, stroke [m], duration [s]
TIMESTEP, STEPS, EVERY = 0.004, 200, 4  # s, steps, steps between measurements
NOISE = 1e-3  # of each measurement, standard deviation [m]
STIFFNESS = 4000.0  # of contact [N/m]; by default `Scm` derives it from the mass, which is not known here
# measured: x, y of the T; its rotation, as the displacement of a point 0.1 m away; x, y of the finger [m]
MEASURED, SCALE = [0, 1, 6, 7, 8], np.array([1.0, 1.0, 0.2, 1.0, 1.0])

Model = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Measurements (n, 5) and their Jacobian (n, 5, 2), of the logarithms of friction and mass."""


def scene(friction: float, mass: float) -> mujoco.MjModel:
    return ss.load(f"push-t:mu={friction},mass={mass},x={START[0]},y={START[1]}", timestep=TIMESTEP)


def controls(steps: int) -> np.ndarray:
    """Targets of the finger, (steps, 2): forward along x, then at rest."""
    stroke = STROKE * np.clip(np.arange(1, steps + 1) * TIMESTEP / RISE, 0.0, 1.0)
    return START + np.stack([stroke, np.zeros(steps)], axis=1)


def model(steps: int = STEPS, points: int = 60) -> Model:
    """The rollout of Scm as a function of friction and mass, and its derivative by JAX."""
    mjm = scene(1.0, 1.0)
    worlds = ss.Scm(points=points, stiffness=STIFFNESS).worlds(mjm)  # if JAX is missing, the error says what to install

    import jax  # pyright: ignore[reportMissingImports]
    import jax.numpy as jnp  # pyright: ignore[reportMissingImports]

    from stickslip.physics.scm.build import start_of

    params = worlds.params
    state, inputs = start_of(mjm)
    one = jnp.arange(mjm.nbody) == mjm.body("T").id

    def measurements(theta):
        friction, mass = jnp.exp(theta)
        scale = jnp.where(one, mass, 1.0)
        heavy = params.model.replace(
            body_mass=params.model.body_mass * scale, body_inertia=params.model.body_inertia * scale[:, None]
        )
        own = params._replace(model=heavy, friction=jnp.full(mjm.ngeom, friction))
        qpos = worlds.system.rollout(own, state, inputs, jnp.asarray(controls(steps))).qpos
        out = qpos[::EVERY][:, jnp.array(MEASURED)] * SCALE
        return out, out

    call = jax.jit(jax.jacfwd(measurements, has_aux=True))

    def both(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        slope, value = call(theta.astype(np.float32))
        return np.asarray(value, dtype=float), np.asarray(slope, dtype=float)

    return both


def mujoco_in_c(friction: float, mass: float, steps: int = STEPS) -> np.ndarray:
    """The same measurements of a simulation by MuJoCo in C."""
    mjm = scene(friction, mass)
    mjd = mujoco.MjData(mjm)
    mujoco.mj_resetDataKeyframe(mjm, mjd, 0)
    qpos = [mjd.qpos.copy()]
    for mjd.ctrl[:] in controls(steps):
        mujoco.mj_step(mjm, mjd)
        qpos.append(mjd.qpos.copy())
    return np.stack(qpos)[::EVERY, MEASURED] * SCALE


def fit(model: Model, data: np.ndarray, guess: tuple[float, float], iterations: int = 6) -> tuple[np.ndarray, ...]:
    """Gauss-Newton: friction and mass (iterations + 1, 2), residuals' rms of each, standard errors of the last."""
    theta, path, rms = np.log(guess), [], []
    for _ in range(iterations + 1):
        value, slope = model(theta)
        residual, slope = (data - value).ravel(), slope.reshape(-1, 2)
        path.append(np.exp(theta))
        rms.append(np.sqrt(np.mean(residual**2)))
        theta = theta + np.clip(np.linalg.lstsq(slope, residual, rcond=None)[0], -0.5, 0.5)
    spread = np.sqrt(np.diag(np.linalg.inv(slope.T @ slope))) * rms[-1]
    return np.stack(path), np.array(rms), path[-1] * spread


def draw(model: Model, sets: dict[str, np.ndarray], fits: dict[str, tuple[np.ndarray, ...]], path: Path) -> None:
    """Parameters over iterations, and the first data with the model before and after the fit."""
    fig, (axes,) = style.figure("Friction and mass of a T, found from how a finger pushes it", 1, 3, height=3.8)
    for (name, (found, *_)), shade in zip(fits.items(), ("scm", "mujoco"), strict=True):
        for n, what in enumerate(("friction", "mass of the T [kg]")):
            axes[n].plot(found[:, n], "o-", ms=4, color=style.COLOURS[shade], label=f"data from {name}")
            axes[n].set(xlabel="iteration", ylabel=what)
    for n, value in enumerate(TRUE):
        axes[n].axhline(value, color=style.REFERENCE, ls="--", lw=1.0, label="truth")
        axes[n].set_ylim(bottom=0.0)
    axes[0].legend(fontsize=8)
    name, data = next(iter(sets.items()))
    time = np.arange(len(data)) * EVERY * TIMESTEP
    before, after = (1e3 * model(np.log(fits[name][0][k]))[0] for k in (0, -1))
    for n, what, shade in ((0, "T, x", "cone-sweep"), (2, "T, turn", "cenic"), (3, "finger, x", "comfree")):
        axes[2].plot(time, 1e3 * data[:, n], ".", ms=4, color=style.COLOURS[shade], alpha=0.6)
        axes[2].plot(time, before[:, n], "--", lw=1.0, color=style.COLOURS[shade])
        axes[2].plot(time, after[:, n], color=style.COLOURS[shade], label=what)
    axes[2].plot([], [], "k.", ms=4, label="data")
    axes[2].plot([], [], "k--", lw=1.0, label="first guess")
    axes[2].plot([], [], "k-", label="fit")
    axes[2].set(xlabel="time [s]", ylabel="[mm]")
    axes[2].legend(fontsize=8, ncol=2)
    fig.savefig(path, dpi=130)


def main() -> None:
    console = Console()
    console.print("compiling the rollout and its derivative, and making data")
    scm = model()
    exact = scm(np.log(TRUE))[0]
    noise = np.random.default_rng(0).normal(0.0, NOISE, exact.shape)
    sets = {"scm, with noise": exact + noise, "mujoco in C, with noise": mujoco_in_c(*TRUE) + noise}
    table = Table("data from", "friction", "mass [kg]", "rms of residuals [mm]")
    table.add_row("truth", f"{TRUE[0]:.3f}", f"{TRUE[1]:.3f}", f"{1e3 * NOISE:.2f} (noise)")
    fits = {}
    for name, data in sets.items():
        console.print(f"fitting the data from {name}")
        fits[name] = values, rms, error = fit(scm, data, GUESS)
        found = [f"{v:.3f} ± {e:.3f}" for v, e in zip(values[-1], error, strict=True)]
        table.add_row(name, *found, f"{1e3 * rms[-1]:.2f}")
    console.print(table)
    path = Path("out/identify.png")
    path.parent.mkdir(exist_ok=True)
    draw(scm, sets, fits, path)
    console.print(f"wrote {path}")


if __name__ == "__main__":
    try:
        main()
    except ss.MissingExtra as error:
        sys.exit(f"error: {error}")
