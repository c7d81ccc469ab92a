"""States of worlds: get them, put worlds into them, bring worlds back to the start."""

import dataclasses
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
import warp as wp
from numpy.typing import ArrayLike, NDArray

from stickslip import arrays
from stickslip.errors import InputError, unknown
from stickslip.state import State, digest, parts_of

if TYPE_CHECKING:
    from stickslip.simulation.simulation import Simulation

_KEYFRAME = "time qpos qvel act ctrl mocap_pos mocap_quat".split()
"""What MuJoCo sets from a key frame."""


def get_state(sim: "Simulation", signature: int, worlds: int | slice | ArrayLike | None, device: bool) -> State:
    """See `Simulation.get_state`."""
    parts_of(signature)
    index = None if worlds is None else numbers(worlds, sim.nworld)
    sim._warn_if_unhealthy()
    with sim._on_device():
        state = sim.physics.get_state(sim._m, sim.d, int(signature))
    state = dataclasses.replace(state, model=digest(sim.mjm))
    if device:
        if index is not None:
            raise InputError("worlds can be chosen on the host only: leave out worlds or device=True")
        return state
    return state.numpy() if index is None else state[index]


def set_state(sim: "Simulation", state: State, worlds: ArrayLike | None) -> None:
    """See `Simulation.set_state`."""
    mask = None
    if not isinstance(state, State):
        raise InputError(f"state must be a stickslip.State, got {type(state).__name__}")
    if worlds is not None:
        index = numbers(worlds, sim.nworld)
        if state.nworld not in (1, len(index)):
            raise InputError(f"the state has {state.nworld} worlds, worlds names {len(index)}; name a world for each")
        chosen = np.zeros(sim.nworld, dtype=bool)
        chosen[index] = True
        if state.nworld > 1:
            rows = np.zeros(sim.nworld, dtype=int)
            rows[index] = np.arange(len(index))
            state = state[rows]
        with sim._on_device():
            mask = arrays.mask_of(chosen, sim.nworld, sim.device)
    check(sim, state)
    with sim._on_device():
        mask = _finite(sim, state, mask)
        sim.d = sim.physics.set_state(sim._m, sim.d, state, mask)
    sim._warned = False


def reset(sim: "Simulation", mask: Any, state: State | None, keyframe: int | str | None) -> None:
    """See `Simulation.reset`."""
    if state is not None and keyframe is not None:
        raise InputError("reset takes a state or a key frame, not both")
    with sim._on_device():
        chosen = arrays.mask_of(mask, sim.nworld, sim.device)
        if keyframe is not None:
            state = _keyframe(sim, keyframe)
        elif state is not None:
            check(sim, state)
            chosen = _finite(sim, state, chosen)
        sim.d = sim.physics.reset(sim._m, sim.d, chosen)
        if state is not None:
            sim.d = sim.physics.set_state(sim._m, sim.d, state, chosen)
    sim._warned = False
    if mask is None:
        sim._refused.zero_()
        for watch in sim._watches:
            watch.clear()


def numbers(worlds: int | slice | ArrayLike, nworld: int) -> NDArray[np.integer]:
    """Numbers of worlds."""
    try:
        return np.atleast_1d(np.arange(nworld)[worlds])  # type: ignore[call-overload]
    except (IndexError, TypeError, ValueError) as error:
        raise InputError(f"worlds is {worlds!r}: give numbers below {nworld} ({error})") from None


def check(sim: "Simulation", state: State) -> None:
    """Raise InputError unless a state is for this simulation; its arrays on the host are checked in full."""
    if not isinstance(state, State):
        raise InputError(f"state must be a stickslip.State, got {type(state).__name__}")
    check_structure(sim, state)
    own = sim.physics.arrays(sim._m, sim.d)
    shapes = {name: arrays.shape_of(array) for name, array in own.items()}
    dataclasses.replace(state, **dict.fromkeys(_on_device(sim, state))).check(shapes)


def check_structure(sim: "Simulation", state: State) -> None:
    """Raise InputError if a state is of a model of another structure."""
    if state.model and state.model != digest(sim.mjm):
        raise InputError(
            f"the state is of another model (digest {state.model[:8]}, this one has {digest(sim.mjm)[:8]}): names, "
            "trees, joints or geoms differ; if its numbers fit all the same, take state.without_memory()"
        )


def _on_device(sim: "Simulation", state: State) -> dict[str, wp.array]:
    """The parts of a state that are on the simulation's device."""
    found = {name: arrays.device_array(f"state.{name}", part, sim.device) for name, part in state.parts.items()}
    return {name: array for name, array in found.items() if array is not None}


def _finite(sim: "Simulation", state: State, mask: wp.array | None) -> wp.array | None:
    """The mask without worlds whose state, on the device, is not finite."""
    given = _on_device(sim, state)
    if not given:
        return mask
    own = sim.physics.arrays(sim._m, sim.d)
    like = [arrays.like(f"state.{name}", array, own[name]) for name, array in given.items()]
    return arrays.finite_worlds(like, mask, sim.nworld, sim._refused)


def _keyframe(sim: "Simulation", keyframe: int | str) -> State:
    """A key frame as a state of one world, on the device; uploaded when it is first asked for."""
    mjm = sim.mjm
    if isinstance(keyframe, str):
        index = mujoco.mj_name2id(mjm, mujoco.mjtObj.mjOBJ_KEY, keyframe)
        if index < 0:
            names = [mjm.key(i).name for i in range(mjm.nkey)]
            raise InputError(str(unknown("key frame", keyframe, [name for name in names if name])))
    else:
        index = int(keyframe)
        if not 0 <= index < mjm.nkey:
            raise InputError(f"key frame {keyframe!r}: the model has {mjm.nkey}, counted from 0")
    if index not in sim._keyframes:
        mjd = mujoco.MjData(mjm)
        mujoco.mj_resetDataKeyframe(mjm, mjd, index)
        own = sim.physics.arrays(sim._m, sim.d)
        parts = {
            name: arrays.like(f"keyframe.{name}", np.array(getattr(mjd, name), dtype=float)[None], own[name])
            for name in _KEYFRAME
            if name in own
        }
        sim._keyframes[index] = State(**{**dict.fromkeys(("time", "qpos", "qvel", "act")), **parts})
    return sim._keyframes[index]
