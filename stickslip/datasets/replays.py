"""Replaying: a recorded episode under the physics that made it, or another, and how far it comes from the record."""

import contextlib
import dataclasses
import os
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stickslip import spec
from stickslip.datasets.hdf5_file import Hdf5Reader
from stickslip.datasets.recorder import full_physics
from stickslip.errors import InputError, Unsupported
from stickslip.physics.base import Physics
from stickslip.physics.registry import PHYSICS
from stickslip.simulation.simulation import Simulation
from stickslip.state import State

if TYPE_CHECKING:
    import mujoco


@dataclasses.dataclass(frozen=True, eq=False)
class Replay:
    """An episode as another run of it went, beside the record. Row t is the state before control step t.

    Attributes:
        physics: of the replay, as "name:key=value,..."
        recorded: physics of the record, in the same notation; "" if the file does not tell
        states: of the replay; the last one is after the last action        (T + 1, nstate)
        position: largest distance of a body from its recorded place [m]    (n,)
        qpos: largest distance of an entry of qpos from the recorded one    (n,)
        identical: whether every recorded state came back, bit for bit
        diverged: first control step before which the state was not finite, or None

    There are n = T + 1 rows if the record has the state after the last action, else n = T. After it diverged they are
    infinite.
    """

    physics: str
    recorded: str
    states: NDArray[np.float64]
    position: NDArray[np.float64]
    qpos: NDArray[np.float64]
    identical: bool
    diverged: int | None

    def __str__(self) -> str:
        if self.identical:
            return f"{self.physics}: the same, bit for bit"
        most, last = 1e3 * self.position.max(), 1e3 * self.position[-1]
        return f"{self.physics}: bodies {most:.3g} mm apart at most, {last:.3g} mm at the end"


def replay(
    file: str | os.PathLike[str] | Hdf5Reader,
    episode: int | str = 0,
    physics: Physics[Any, Any] | None = None,
    *,
    model: "str | os.PathLike[str] | mujoco.MjModel | None" = None,
    device: str | None = "cpu",
) -> Replay:
    """Put a simulation into the first state of an episode, apply its controls, and compare.

    The physics that recorded it gives it back bit for bit on a CPU, if the episode began with a reset: states have no
    memory of a physics, such as contact forces that warm-start it.

    Args:
        file: in the layout of `Hdf5Writer`, with states
        episode: its number or name
        physics: None: the one that recorded it
        model: what `stickslip.load` takes; None: the model in the file
        device: of the simulation
    """
    with contextlib.nullcontext(file) if isinstance(file, Hdf5Reader) else Hdf5Reader(file) as reader:
        found = reader[episode]
        from stickslip import mjcf

        mjm = reader.model() if model is None else mjcf.load(model)
    if found.states is None:
        raise InputError(f"episode {episode!r} has no states: record it with a model, by EpisodeRecorder")
    controls = found.controls if found.controls is not None else found.actions
    if controls.shape[1:] != (mjm.nu,):
        raise InputError(f"episode {episode!r} has {controls.shape[1]} controls, the model {mjm.nu}: give its model")
    if mjm.nmocap:
        raise Unsupported(
            f"the model has {mjm.nmocap} mocap bodies, whose poses are not part of the states"
            "; replay it without them, or record controls of actuators"
        )
    recorded = str(found.info.get("physics", ""))
    if physics is None:
        if not recorded:
            raise InputError(f"episode {episode!r} does not tell its physics: give one, such as stickslip.ConeSweep()")
        physics = spec.resolve(recorded, PHYSICS, "physics")
    decimation = found.info.get("decimation", 1)
    if not isinstance(decimation, int) or not 1 <= decimation <= 1_000_000:
        raise InputError(f"decimation is {decimation!r}: it must be a whole number of timesteps, at least 1")
    sim = Simulation(mjm, physics, device=device)
    if found.model_fields:
        sim.set_model(**found.model_fields)
    import mujoco

    sim.state = State.from_vector(mjm, found.states[0], int(mujoco.mjtState.mjSTATE_FULLPHYSICS))
    visited = [full_physics(sim)[0]]
    for ctrl in controls:
        sim.ctrl = ctrl
        sim.step(decimation)
        visited.append(full_physics(sim)[0])
    states = np.stack(visited)
    known = found.states if found.final_state is None else np.concatenate([found.states, found.final_state[None]])
    position, qpos = _apart(mjm, states[: len(known)], known)
    wrong = np.flatnonzero(~np.isfinite(states).all(axis=1))
    return Replay(
        spec.written(physics.name, physics),
        recorded,
        states,
        position,
        qpos,
        bool(np.array_equal(states[: len(known)], known)),
        int(wrong[0]) if len(wrong) else None,
    )


def _apart(
    mjm: "mujoco.MjModel", states: NDArray[np.float64], known: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Distances of bodies [m], and of qpos, state by state."""
    import mujoco

    signature = int(mujoco.mjtState.mjSTATE_FULLPHYSICS)
    if known.shape[1] != states.shape[1]:
        sizes = f"{known.shape[1]} numbers, the model's {states.shape[1]}"
        raise InputError(f"recorded states have {sizes}: give the model that they are of")
    mjd, places = mujoco.MjData(mjm), []
    both = [State.from_vector(mjm, rows, signature).qpos for rows in (states, known)]
    fine = np.isfinite(both[0]).all(axis=1)
    for rows in both:
        found = np.full((len(rows), mjm.nbody, 3), np.inf)
        for t in np.flatnonzero(fine):
            mjd.qpos[:] = rows[t]
            mujoco.mj_kinematics(mjm, mjd)
            found[t] = mjd.xpos
        places.append(found)
    position, apart = np.full(len(fine), np.inf), np.full(len(fine), np.inf)
    position[fine] = np.linalg.norm(places[0][fine] - places[1][fine], axis=2).max(axis=1)
    apart[fine] = np.abs(both[0][fine] - both[1][fine]).max(axis=1)
    return position, apart
