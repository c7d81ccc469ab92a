"""Small helpers that several test files share."""

import dataclasses
from typing import Any

import mujoco
import numpy as np
import pytest
import warp as wp
from numpy.typing import ArrayLike, NDArray

import stickslip as ss

FIELDS = ("time", "qpos", "qvel", "act")
"""The fields of a State."""
COMPILED_BY_WARP = sorted({*ss.PHYSICS} - {"scm"})
"""Every physics but scm, which has tests of its own: JAX compiles it for each model, in half a minute."""
SCENES = ["scaling", "humanoid", "hand"]
"""Free bodies, a walker and a hand: the scenes of the conformance suite."""
STEPS = 60  # the bodies of "scaling" land after 30

XML = """
<mujoco>
  <option timestep="0.005"/>
  <default><geom condim="3"/></default>
  <worldbody>
    <geom type="plane" size="5 5 .1" name="floor"/>
    <body pos="0 0 .12" name="trunk">
      <freejoint/>
      <geom size=".1" name="ball"/>
      <body pos="0 0 .2" name="arm">
        <joint axis="0 1 0" name="hinge" damping=".1" range="-60 60"/>
        <geom type="box" size=".05 .05 .1" pos="0 0 .1"/>
      </body>
    </body>
    <body name="hand" mocap="true" pos="1 0 .1"><geom type="box" size=".1 .1 .1"/></body>
  </worldbody>
  <actuator>
    <general joint="hinge" dyntype="filter" dynprm=".05" gainprm="2" delay=".02" nsample="8" name="servo"/>
  </actuator>
  <keyframe>
    <key name="low" qpos="0 0 .1 1 0 0 0 .3" ctrl=".1" act=".2"/>
    <key name="high" qpos="0 0 2 1 0 0 0 0" qvel="1 0 0 0 0 0 0"/>
  </keyframe>
</mujoco>
"""
"""A trunk with an arm on a plane, a filtered and delayed servo, a mocap body, key frames: something of every part."""


def perturbed(mjm: mujoco.MjModel, nworld: int, *, scale: float = 0.05, seed: int = 0) -> ss.State:
    """Worlds near the first keyframe, each with velocities of its own of about `scale`, in m/s and rad/s.

    Args:
        mjm: the model; its first keyframe is the start if it has one
        nworld: number of worlds
        scale: standard deviation of what is added to each velocity
        seed: of the random numbers; world w gets the same velocities whatever nworld is
    """
    start = mujoco.MjData(mjm)
    if mjm.nkey:
        mujoco.mj_resetDataKeyframe(mjm, start, 0)
    noise = [np.random.default_rng((seed, w)).normal(0.0, scale, mjm.nv) for w in range(nworld)]
    return ss.State(
        time=np.zeros(nworld, dtype=np.float32),
        qpos=np.tile(start.qpos, (nworld, 1)).astype(np.float32),
        qvel=(start.qvel + np.stack(noise)).astype(np.float32),
        act=np.tile(start.act, (nworld, 1)).astype(np.float32),
    )


FREE_BODIES_ONLY = tuple(name for name in ss.PHYSICS if ss.PHYSICS[name].promises.free_bodies_only)
"""Physics without joints other than free ones."""


def simulate(scene: Any, physics: ss.Physics, **options: Any) -> ss.Simulation:
    """A simulation; skips the test, with the reason, if the physics takes free bodies only and the model has more."""
    try:
        return ss.Simulation(scene, physics, **options)
    except ss.Unsupported as error:
        if not physics.promises.free_bodies_only:
            raise
        pytest.skip(str(error))


def perturbed_simulation(scene: str, physics: ss.Physics, device: str, nworld: int, **options: object) -> ss.Simulation:
    """A simulation whose worlds start with different velocities."""
    sim = simulate(scene, physics, nworld=nworld, device=device, **options)
    sim.state = perturbed(sim.mjm, nworld)
    return sim


def world(state: ss.State, w: int) -> ss.State:
    """One world of a state, as the state of a simulation of one world."""
    return ss.State(*(getattr(state, name)[w : w + 1] for name in FIELDS))


def arrays_of(sim: ss.Simulation) -> dict[str, NDArray]:
    """Host copies of every array that a step reads or leaves to be read, by name."""
    physics = sim.physics
    arrays = {**physics.results(sim.m, sim.d), **physics.arrays(sim.m, sim.d)}
    return {name: array.numpy().copy() for name, array in arrays.items() if array.size}


def device_arrays(d: Any) -> dict[str, NDArray]:
    """Host copies of every array of a MuJoCo Warp Data, including those of `efc` and `contact`, by name."""
    out: dict[str, NDArray] = {}
    for owner, prefix in ((d, ""), (d.efc, "efc."), (d.contact, "contact.")):
        for field in dataclasses.fields(owner):
            value = getattr(owner, field.name)
            if isinstance(value, wp.array) and value.size:
                out[prefix + field.name] = value.numpy().copy()
    return out


def same_bits(a: ArrayLike, b: ArrayLike) -> bool:
    """Whether two float arrays are equal bit for bit; -0.0 is not 0.0, and a NaN equals itself."""
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def assert_same(got: ss.State, want: ss.State, device: str, *, atol: float = 1e-4) -> None:
    """States equal bit for bit on the CPU; on CUDA, where atomics add in any order, to `atol`."""
    for name in FIELDS:
        a, b = getattr(got, name), getattr(want, name)
        if device == "cpu":
            assert same_bits(a, b), f"{name} differs by up to {np.abs(a - b).max()}"
        else:
            np.testing.assert_allclose(a, b, atol=atol, rtol=1e-3, err_msg=name)


def exact(sim: ss.Simulation) -> tuple[NDArray, NDArray]:
    """Positions and velocities in double precision, of a physics with a convex step."""
    return sim.d.convex.qpos.numpy().copy(), sim.d.convex.qvel.numpy().copy()


def seconds_of(sim: ss.Simulation, steps: int) -> float:
    """How long that many timesteps are, as single precision has them."""
    return steps * float(np.float32(sim.mjm.opt.timestep))


def momentum(mjm: mujoco.MjModel, qpos: ArrayLike, qvel: ArrayLike) -> tuple[NDArray, NDArray]:
    """Linear momentum, and angular momentum about the origin, of all bodies, in float64 by C MuJoCo."""
    mjd = mujoco.MjData(mjm)
    mjd.qpos[:], mjd.qvel[:] = qpos, qvel
    mujoco.mj_fwdPosition(mjm, mjd)
    mujoco.mj_fwdVelocity(mjm, mjd)
    mujoco.mj_subtreeVel(mjm, mjd)
    linear = mjm.body_subtreemass[0] * mjd.subtree_linvel[0]
    return linear, mjd.subtree_angmom[0] + np.cross(mjd.subtree_com[0], linear)


def friction_and_condim(mjm: mujoco.MjModel, geom: NDArray) -> tuple[NDArray, NDArray]:
    """Friction (n, 5) and condim (n,) of contacts between geoms (n, 2) of equal priority: the larger of each."""
    triple = mjm.geom_friction[geom].max(axis=1)
    return triple[:, [0, 0, 1, 2, 2]], mjm.geom_condim[geom].max(axis=1)


class Interface:
    """An array that has nothing but the interface of CUDA arrays, or on the host that of DLPack."""

    def __init__(self, array: wp.array) -> None:
        self._array = array
        if array.device.is_cuda:
            self.__cuda_array_interface__ = array.__cuda_array_interface__
        else:
            self.__dlpack__, self.__dlpack_device__ = array.__dlpack__, array.__dlpack_device__
            self.__array__ = lambda dtype=None, copy=None: array.numpy()


def made(library: str, value: np.ndarray, device: str) -> Any:
    """The same numbers in an array of a library, on the device."""
    if library == "numpy":
        return value
    if library == "list":
        return value.tolist()
    if library == "warp":
        return wp.array(value, device=device)
    if library == "torch":
        torch = pytest.importorskip("torch")
        return torch.tensor(value, device=device)
    if library == "jax":
        jax = pytest.importorskip("jax")
        kind = "gpu" if device.startswith("cuda") else "cpu"
        return jax.device_put(value, jax.devices(kind)[0])
    return Interface(wp.array(value, device=device))
