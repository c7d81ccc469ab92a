"""Many worlds of one system: from Warp's arrays to JAX and back."""

# pyright: reportMissingImports=false

import dataclasses
import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import warp as wp
from jax.flatten_util import ravel_pytree
from numpy.typing import ArrayLike, NDArray

from stickslip.errors import DeviceError, InputError
from stickslip.physics.base import Contacts
from stickslip.physics.mjwarp.data import Data
from stickslip.physics.scm.build import build
from stickslip.physics.scm.cloud import Cloud
from stickslip.physics.scm.field import Points
from stickslip.physics.scm.geometry import Surface, stacked
from stickslip.physics.scm.grids import frames
from stickslip.physics.scm.motion import difference, integrate
from stickslip.physics.scm.structure import make_clouds
from stickslip.physics.scm.system import System
from stickslip.physics.scm.values import Inputs, Params, State
from stickslip.physics.scm.walls import thin_walls
from stickslip.state import State as HostState
from stickslip.state import check_array

if TYPE_CHECKING:
    from stickslip.physics.scm.physics import Model, Scm

Array = jax.Array
_LOG = logging.getLogger("stickslip")

NEAR = 3.0
"""Distance, in units of `reach`, from which on a pair counts as a contact: it then pushes as if 0.05 `reach` deep."""
PARAMETERS = ("friction", "body_mass", "stiffness", "points")
"""What a step may be differentiated by, besides "state", "ctrl" and "qfrc_applied"."""


class Compiled:
    """A function that JAX compiles when it is first called, and that knows what memory it takes."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._ready: Any = None

    def _compile(self, *args: Any) -> Any:
        if self._ready is None:
            self._ready = jax.jit(self._function).lower(*args).compile()
        return self._ready

    def __call__(self, *args: Any) -> Any:
        return self._compile(*args)(*args)

    def memory(self, *args: Any) -> int:
        """Bytes of inputs, outputs and temporaries, as the compiler reports them."""
        memory = self._compile(*args).memory_analysis()
        return memory.argument_size_in_bytes + memory.output_size_in_bytes + memory.temp_size_in_bytes


class Worlds:
    """Compiled functions of one system over many worlds."""

    def __init__(self, physics: "Scm", mjm: mujoco.MjModel, clouds: dict[int, Cloud] | None = None) -> None:
        self.physics, self.mjm = physics, mjm
        self.clouds = make_clouds(mjm, physics.points, physics.mesh_points) if clouds is None else clouds
        self.system, self.params = build(physics, mjm, self.clouds)
        self.first = np.concatenate([g.first for g in self.system.groups]) if self.system.groups else np.zeros(0, int)
        self.second = np.concatenate([g.second for g in self.system.groups]) if self.system.groups else np.zeros(0, int)
        self._compiled: dict[Any, Compiled] = {}

    # -- surfaces

    @functools.cached_property
    def thin_walls(self) -> tuple[str, ...]:
        """A sentence for each shape with walls thinner than the spacing of its points."""
        return thin_walls(self.mjm, self.clouds)

    def with_clouds(self, clouds: Mapping[int, Cloud]) -> "Worlds":
        """These worlds if each cloud has as many points as its geom's old one; else new ones, to be compiled."""
        sizes = [[(len(c.quads.point), len(c.quads.vertices)) for c in (clouds[g], self.clouds[g])] for g in clouds]
        return self if all(a == b for a, b in sizes) else Worlds(self.physics, self.mjm, {**self.clouds, **clouds})

    def points_of(self, surfaces: Mapping[int, Surface]) -> dict[str, Points]:
        """Arrays of clouds that hold one of the surfaces, by name, with a leading axis of worlds, or of 1."""
        out = {}
        for k, geoms in enumerate(self.system.members):
            if not any(g in surfaces for g in geoms):
                continue
            kind, rows = self.params.points[k].place.dtype, []
            for g in geoms:
                s = surfaces.get(g) or stacked([self.clouds[g]])
                rows.append(Points(s.place, s.normal, s.spacing**2, s.corner))  # type: ignore[arg-type]
            count = max(len(row.place) for row in rows)
            wide = [[np.broadcast_to(x, (count, *x.shape[1:])) for x in row] for row in rows]
            out[f"points {k}"] = Points(
                *(jnp.asarray(np.stack(x, axis=1), dtype=kind) for x in zip(*wide, strict=True))
            )
        return out

    # -- in and out

    def _system(self, nworld: int) -> System:
        return dataclasses.replace(self.system, block=max(16, self.physics.block // nworld))

    def _given(self, m: "Model", d: Data) -> tuple[dict[str, Any], State, Inputs]:
        """What Warp holds, as arrays of JAX that share its memory."""
        from stickslip.physics.scm.physics import FIELDS, OPTIONS

        device = _device_of(d.qpos)
        fields = {name: _put(getattr(m, name), device) for name in FIELDS}
        fields |= {name: _put(getattr(m.opt, name), device) for name in OPTIONS} | m.points
        state = State(*(_put(getattr(d, name), device) for name in State._fields))
        return fields, state, Inputs(*(_put(getattr(d, name), device) for name in Inputs._fields))

    def _params(self, base: Params, fields: dict[str, Any]) -> Params:
        """Parameters of one world."""
        names = ("body_mass", "body_inertia", "body_ipos", "body_iquat", "dof_damping", "dof_armature")
        model = base.model.replace(**{name: fields[name] for name in names})
        model = model.tree_replace({"opt.timestep": fields["timestep"], "opt.gravity": fields["gravity"]})
        points = tuple(fields.get(f"points {k}", shelf) for k, shelf in enumerate(base.points))
        return base._replace(model=model, friction=fields["geom_friction"][:, 0], points=points)

    def _over_worlds(
        self, key: Any, make: Callable[[System], Callable[..., Any]], d: Data, fields: dict[str, Any]
    ) -> "Compiled":
        """`make(system)(params, state, inputs, *rest)` compiled for all worlds; rest is the same for all.

        Only fields that differ between worlds have an axis of worlds there. `key` begins with a word for what it is.
        """
        wide = frozenset(name for name, value in fields.items() if jax.tree.leaves(value)[0].shape[0] != 1)
        whole = (key, d.nworld, wide, frozenset(fields), d.qpos.device.alias)
        if whole not in self._compiled:
            function = make(self._system(d.nworld))

            def many(params: Params, fields: dict[str, Any], state: State, inputs: Inputs, *rest: Any) -> Any:
                same = {name: jax.tree.map(lambda x: x[0], fields[name]) for name in fields if name not in wide}

                def one(own: dict[str, Any], x: State, u: Inputs) -> Any:
                    return function(self._params(params, {**same, **own}), x, u, *rest)

                return jax.vmap(one)({name: fields[name] for name in wide}, state, inputs)

            self._compiled[whole] = Compiled(many)
            what = key if isinstance(key, str) else key[0]
            _LOG.info(
                "scm: JAX compiles the %s for %s; seconds to a minute, kept until the program ends", what, whole[-1]
            )
        return self._compiled[whole]

    # -- time

    def advance(self, m: "Model", d: Data, n: int) -> None:
        """Advance Warp's data by n steps; none compiles."""
        fields, state, inputs = self._given(m, d)
        call = self._over_worlds("step", _steps, d, fields)
        state, count, most = jax.block_until_ready(call(self.params, fields, state, inputs, np.int32(n)))
        if n == 0:
            return
        for name in State._fields:
            if getattr(d, name).size:
                wp.copy(getattr(d, name), wp.from_jax(getattr(state, name)))
        d.nacon.assign(np.array([int(count.sum())], dtype=np.int32))
        peak = d.peak.numpy()
        peak[0] = max(peak[0], int(most.sum()))
        d.peak.assign(peak)

    def memory(self, m: "Model", d: Data) -> int:
        """Bytes that a step of all worlds takes, as the compiler reports them: inputs, outputs and temporaries."""
        fields, state, inputs = self._given(m, d)
        call = self._over_worlds("step", _steps, d, fields)
        return call.memory(self.params, fields, state, inputs, np.int32(1))

    def rollout(self, m: "Model", d: Data, ctrl: ArrayLike) -> HostState:
        """See `DifferentiablePhysics`."""
        fields, state, inputs, length = self._planned(m, d, ctrl)
        out = self._over_worlds(("rollout", length), _rollout, d, fields)(self.params, fields, state, inputs)
        time, qpos, qvel, act = (np.asarray(x) for x in out)
        return HostState(time, qpos, qvel, act)

    def gradient(
        self, m: "Model", d: Data, ctrl: ArrayLike, cost: Callable[[State], Array]
    ) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """See `DifferentiablePhysics`; `cost` is a function of JAX of a `State` with a leading axis of time."""
        fields, state, inputs, length = self._planned(m, d, ctrl)

        def make(system: System) -> Callable[..., Any]:
            def of_controls(ctrl: Array, params: Params, x: State, u: Inputs) -> Array:
                return cost(_rollout(system)(params, x, u._replace(ctrl=ctrl)))

            return lambda params, x, u: jax.value_and_grad(of_controls)(u.ctrl, params, x, u)

        call = self._over_worlds(("gradient", length, cost), make, d, fields)
        value, slope = call(self.params, fields, state, inputs)
        return np.asarray(value), np.asarray(slope)

    def _planned(self, m: "Model", d: Data, ctrl: ArrayLike) -> tuple[dict[str, Array], State, Inputs, int]:
        """What Warp holds, with controls of a whole rollout, (nworld, T, nu), and T."""
        if np.ndim(ctrl) != 3 or np.shape(ctrl)[1] < 1:
            raise InputError(f"ctrl has shape {np.shape(ctrl)}, expected ({d.nworld}, T, {m.nu}) with T of 1 or more")
        length = np.shape(ctrl)[1]
        given = check_array("ctrl", ctrl, (d.nworld, length, m.nu))
        fields, state, inputs = self._given(m, d)
        put = jax.device_put(jnp.asarray(given, dtype=state.qpos.dtype), _device_of(d.qpos))
        return fields, state, inputs._replace(ctrl=put), length

    # -- contacts

    def contacts(self, m: "Model", d: Data) -> Contacts:
        """Pairs that are nearer than `NEAR`; one contact each, where its force acts."""
        fields, state, inputs = self._given(m, d)

        def make(system: System) -> Callable[..., Any]:
            return lambda params, x, u: system.contacts(params, x, u)

        distance, spot, force = (
            np.asarray(x, dtype=float)
            for x in self._over_worlds("contacts", make, d, fields)(self.params, fields, state, inputs)
        )
        world, pair = np.nonzero(distance <= NEAR * self.physics.reach)
        f = force[world, pair]
        # MuJoCo's normal points from the first geom to the second, and force acts on the second
        size = np.linalg.norm(f, axis=1, keepdims=True)
        normal = np.where(size > 0.0, -f / np.maximum(size, 1e-30), [[0.0, 0.0, 1.0]])
        frame = frames(normal)
        wrench = np.zeros((len(world), 6))
        wrench[:, :3] = np.einsum("nij,nj->ni", frame, -f)
        geom = np.stack([self.first[pair], self.second[pair]], axis=1)
        return Contacts(world, geom, distance[world, pair], spot[world, pair], frame, wrench)

    # -- derivatives

    def _wanted(self, wrt: Sequence[str]) -> tuple[str, ...]:
        known = ("state", "ctrl", "qfrc_applied", *PARAMETERS)
        names = (wrt,) if isinstance(wrt, str) else tuple(wrt)
        bad = [name for name in names if name not in known]
        if bad or not names:
            raise InputError(f"wrt is {wrt!r}: it must be one or more of {', '.join(known)}")
        return names

    def _moved(self, names: tuple[str, ...], params: Params, x: State, u: Inputs) -> tuple[Any, Callable[[Any], Any]]:
        """Zeros for each name, and what state, inputs and parameters are when those are added."""
        m = params.model
        zero = {
            "state": jnp.zeros(2 * m.nv + m.na, x.qpos.dtype),
            "ctrl": jnp.zeros_like(u.ctrl),
            "qfrc_applied": jnp.zeros_like(u.qfrc_applied),
            "friction": jnp.zeros_like(params.friction),
            "body_mass": jnp.zeros_like(m.body_mass),
            "stiffness": jnp.zeros_like(params.stiffness),
            "points": jnp.zeros(sum(p.place.size + p.corner.size for p in params.points), x.qpos.dtype),
        }

        def apply(change: dict[str, Array]) -> tuple[Params, State, Inputs]:
            p, y, v = params, x, u
            if "state" in change:
                dq, dv, da = jnp.split(change["state"], [m.nv, 2 * m.nv])
                y = y._replace(qpos=integrate(m, y.qpos, dq, 1.0), qvel=y.qvel + dv, act=y.act + da)
            if "ctrl" in change:
                v = v._replace(ctrl=v.ctrl + change["ctrl"])
            if "qfrc_applied" in change:
                v = v._replace(qfrc_applied=v.qfrc_applied + change["qfrc_applied"])
            if "friction" in change:
                p = p._replace(friction=p.friction + change["friction"])
            if "body_mass" in change:
                p = p._replace(model=p.model.replace(body_mass=p.model.body_mass + change["body_mass"]))
            if "stiffness" in change:
                p = p._replace(stiffness=p.stiffness + change["stiffness"])
            if "points" in change:
                start, shelves = 0, []
                for shelf in p.points:
                    own = {}
                    for name in ("place", "corner"):
                        old = getattr(shelf, name)
                        own[name] = old + change["points"][start : start + old.size].reshape(old.shape)
                        start += old.size
                    shelves.append(shelf._replace(**own))
                p = p._replace(points=tuple(shelves))
            return p, y, v

        return {name: zero[name] for name in names}, apply

    def jacobian(self, m: "Model", d: Data, wrt: Sequence[str]) -> dict[str, NDArray[np.floating]]:
        """See `DifferentiablePhysics`."""
        names = self._wanted(wrt)

        def make(system: System) -> Callable[..., Any]:
            def derivative(params: Params, x: State, u: Inputs) -> Any:
                base = system.step(params, x, u)
                zero, apply = self._moved(names, params, x, u)

                def after(change: dict[str, Array]) -> Array:
                    y = system.step(*apply(change))
                    return jnp.concatenate([difference(params.model, y.qpos, base.qpos), y.qvel, y.act])

                size = sum(z.size for z in zero.values())
                out = 2 * params.model.nv + params.model.na
                return (jax.jacrev if size > 2 * out else jax.jacfwd)(after)(zero)

            return derivative

        fields, state, inputs = self._given(m, d)
        out = self._over_worlds(("jacobian", names), make, d, fields)(self.params, fields, state, inputs)
        return {name: np.asarray(value) for name, value in out.items()}

    def hessian(self, m: "Model", d: Data, cost: Callable[[State], Array], wrt: Sequence[str]) -> NDArray[np.floating]:
        """See `DifferentiablePhysics`; `cost` is a function of JAX of a `State`."""
        names = self._wanted(wrt)

        def make(system: System) -> Callable[..., Any]:
            def derivative(params: Params, x: State, u: Inputs) -> Any:
                zero, apply = self._moved(names, params, x, u)
                flat, unflatten = ravel_pytree(tuple(zero[name] for name in names))

                def after(change: Array) -> Array:
                    return cost(system.step(*apply(dict(zip(names, unflatten(change), strict=True)))))

                return jax.hessian(after)(flat)

            return derivative

        fields, state, inputs = self._given(m, d)
        call = self._over_worlds(("hessian", names, cost), make, d, fields)
        return np.asarray(call(self.params, fields, state, inputs))


def _steps(system: System) -> Callable[..., tuple[State, Array, Array]]:
    """So many steps, and how many pairs were in contact in the last and at most."""

    def steps(params: Params, x: State, u: Inputs, count: Array) -> tuple[State, Array, Array]:
        def body(_: Any, carry: tuple[State, Array, Array]) -> tuple[State, Array, Array]:
            x, _, most = carry
            x, distance = system.step_and_distance(params, x, u)
            touching = jnp.sum(distance <= NEAR * params.reach)
            return x, touching, jnp.maximum(most, touching)

        zero = jnp.zeros((), dtype=int)
        return jax.lax.fori_loop(0, count, body, (x, zero, zero))

    return steps


def _rollout(system: System) -> Callable[[Params, State, Inputs], State]:
    """A rollout over the controls in its inputs, (T, nu)."""
    return lambda params, x, u: system.rollout(params, x, u._replace(ctrl=u.ctrl[0]), u.ctrl)


def _device_of(array: wp.array) -> Any:
    """JAX's device of the same memory."""
    if array.device.is_cpu:
        return jax.devices("cpu")[0]
    try:
        return jax.devices("cuda")[array.device.ordinal]
    except (RuntimeError, IndexError):
        raise DeviceError(
            f"scm on {array.device.alias} needs JAX with CUDA, and this JAX has {jax.default_backend()}: "
            "pip install 'jax[cuda13]', or take device='cpu'"
        ) from None


def _put(array: wp.array, device: Any) -> Array:
    """A copy on the same device: a running call does not see what Warp writes afterwards."""
    if array.size == 0:
        shape = tuple(array.shape) + tuple(getattr(array.dtype, "_shape_", ()))
        return jax.device_put(jnp.zeros(shape), device)
    return wp.to_jax(array)
