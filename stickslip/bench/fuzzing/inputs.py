"""Values that a simulation, or a command line, is given: of wrong shapes, types, devices, not finite, tiny, huge."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import warp as wp

import stickslip as ss

_NAMES = "qpos qvel ctrl qfrc_applied xfrc_applied mocap_pos mocap_quat act eq_active".split()
_FIELDS = "body_mass body_inertia geom_friction dof_damping timestep gravity jnt_range geom_size no_such_field".split()


def value(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Something to assign to an array of a shape: often fit, more often not quite."""
    kind = int(rng.integers(16))
    array = rng.normal(0.0, 1.0, shape)
    if kind == 0:
        return array
    if kind == 1:
        return array.astype(np.float32)
    if kind == 2 and array.size:
        array.flat[int(rng.integers(array.size))] = rng.choice([np.nan, np.inf, -np.inf])
        return array
    if kind == 3:
        return array * 1e-42  # denormal in single precision
    if kind == 4:
        return array * 1e39  # beyond single precision
    if kind == 5:
        return array[..., :-1] if array.ndim and array.shape[-1] else array[None]
    if kind == 6:
        return np.zeros((0, *shape[1:]))
    if kind == 7:
        return array.astype(complex)
    if kind == 8:
        return [None, "x", b"1", object()][int(rng.integers(4))]
    if kind == 9:
        return float(rng.choice([0.0, -0.0, 1e-45, 3.4e38, np.nan]))
    if kind == 10:
        return wp.array(array.astype(np.float32), dtype=float, device="cpu") if array.ndim <= 4 else array
    if kind == 11:
        return array.astype(np.int64)
    if kind == 12:
        return array.tolist()
    if kind == 13:
        return array.astype(bool)
    if kind == 14 and array.size:
        bad = array.astype(np.float32)
        bad.flat[0] = np.nan
        return wp.array(bad, dtype=float, device="cpu")
    return array.T if array.ndim > 1 else array[::-1]


def calls(rng: np.random.Generator, sim: ss.Simulation, count: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Calls on a simulation, in words, and as functions."""
    n = sim.nworld
    odd = [0, -1, 1, 2.5, True, None, "3", np.int64(2), float("nan"), 10**3]
    for _ in range(count):
        kind = int(rng.integers(9))
        name = str(rng.choice(_NAMES))
        if kind <= 2:
            shape = getattr(sim.physics.arrays(sim._m, sim.d).get(name), "shape", (n, 3))
            given = value(rng, tuple(shape))
            yield f"sim.{name} = {_short(given)}", lambda name=name, given=given: setattr(sim, name, given)
        elif kind == 3:
            steps = odd[int(rng.integers(len(odd) - 1))]
            yield f"sim.step({steps!r})", lambda steps=steps: sim.step(steps)  # type: ignore[arg-type]
        elif kind == 4:
            mask = value(rng, (n,))
            yield f"sim.reset({_short(mask)})", lambda mask=mask: sim.reset(mask)
        elif kind == 5:
            field = str(rng.choice(_FIELDS))
            try:
                shape = tuple(sim.physics.model_field(sim._m, field).shape[1:])
            except ss.StickslipError:
                shape = (3,)
            given = value(rng, (n, *shape))
            yield f"sim.set_model({field}={_short(given)})", lambda f=field, g=given: sim.set_model(**{f: g})
        elif kind == 6:
            low, high = rng.choice([-1.0, 0.0, 0.5, 2.0, np.nan, np.inf], 2)
            yield (
                f"sim.randomize(body_mass=Scale({low}, {high}))",
                lambda low=low, high=high: sim.randomize(body_mass=ss.Scale(low, high)),
            )
        elif kind == 7:
            key = rng.choice(["no-such", -1, 99])
            yield f"sim.reset(keyframe={key!r})", lambda key=key: sim.reset(keyframe=key)
        else:
            given = value(rng, (n, 3, max(1, sim.mjm.nu)))
            yield f"sim.rollout({_short(given)})", lambda given=given: sim.rollout(given)


def _short(given: Any) -> str:
    """A value in few words."""
    if isinstance(given, np.ndarray | wp.array):
        return f"{type(given).__name__} {tuple(given.shape)} {getattr(given.dtype, '__name__', given.dtype)}"
    return repr(given)[:40]


def constructions(rng: np.random.Generator, scene: Any, physics: Any) -> tuple[str, Callable[[], Any]]:
    """A way to make a simulation that is often wrong."""
    name = str(rng.choice(["nworld", "device", "timestep", "nconmax", "njmax", "threads", "scene", "physics"]))
    odd: Any = [0, -1, 2.5, True, None, "x", float("nan"), np.inf, "cuda:7", 1e-12, [], 3][int(rng.integers(12))]
    if name == "scene":
        odd = [None, 3, "", "no-such", "<mujoco>", "<mujoco/>", "/no/such.xml", "stack:n=-1", "\0", "<"][
            int(rng.integers(10))
        ]
        return f"Simulation({odd!r})", lambda: ss.Simulation(odd, physics, device="cpu")
    if name == "physics":
        return f"Simulation(scene, {odd!r})", lambda: ss.Simulation(scene, odd, device="cpu")
    options = {"device": "cpu", name: odd}
    return f"Simulation(scene, physics, {name}={odd!r})", lambda: ss.Simulation(scene, physics, **options)


def command(rng: np.random.Generator, physics: str, model: Path, out: Path) -> list[str]:
    """A command line that is often wrong."""

    def pick(*options: Any) -> Any:
        return options[int(rng.integers(len(options)))]

    scene = pick(*[str(model)] * 6, "stack", "no-such", "", "stack:count=0", "stack:count=x", "-1", "\u00e9\u4e2d", ".")
    number = pick("1", "2", "0", "-3", "nan", "1e3", "", "x", "99999999999999999999")
    chosen = pick(*[physics] * 6, "no-such", f"{physics}:no=1", f"{physics}:", f"{physics}:a=b=c", "")
    kind = int(rng.integers(7))
    if kind <= 2:
        args = ["run", scene, "--physics", chosen, "--device", pick(*["cpu"] * 6, "cuda:9", "x"), "--steps", "2"]
        args += pick([], [], ["--nworld", number], ["--nconmax", number], ["--timestep", number])
        return args + pick([], ["--out", str(pick(out, out, "/dev/null/x", ""))])
    if kind == 3:
        return ["replay", pick(str(model), "no-such.npz", ""), "--physics", chosen]
    if kind == 4:
        return [pick("scenes", "physics", "tasks", "motions", "no-such"), *pick([], [scene], ["--no-such"])]
    if kind == 5:
        return ["bench", pick("list", "run", "report"), pick(scene, "stick", str(out)), *pick([], ["--set", "x"])]
    return ["points", scene, "--device", "cpu", *pick([], ["--out", str(out)], ["--no-such", number])]
