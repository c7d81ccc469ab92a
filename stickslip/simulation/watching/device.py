"""The checks of a watch on the device: their memory, the arrays that they read, and their launches."""

from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
import warp as wp

from stickslip import compilation
from stickslip.errors import InputError, Unsupported
from stickslip.simulation.watching import checks, kinetics
from stickslip.simulation.watching.limits import (
    KINDS,
    LARGEST,
    Limits,
    energy_scale,
    energy_unwatched,
    thickness,
)

if TYPE_CHECKING:
    from stickslip.simulation.simulation import Simulation

ROOM = 1024
"""Events that the device holds between two looks of the host; more are counted only."""
_FORCES = ("qfrc_actuator", "qfrc_spring", "qfrc_gravcomp", "qfrc_fluid", "qfrc_adhesion", "qfrc_applied")
_PER_WORLD = {
    "qpos0": float,
    "body_pos": wp.vec3,
    "body_quat": wp.quat,
    "body_ipos": wp.vec3,
    "body_iquat": wp.quat,
    "body_mass": float,
    "body_inertia": wp.vec3,
    "jnt_pos": wp.vec3,
    "jnt_axis": wp.vec3,
    "dof_armature": float,
}
_FIXED = "body_parentid body_jntadr body_jntnum body_mocapid jnt_type jnt_qposadr jnt_dofadr".split()


class DeviceChecks:
    """What looks at all worlds of a simulation.

    Attributes:
        arrays: what is kept of each world, by name: see `checks.Memory`
        found: events, of which there are as many as `arrays["total"]` says, if there is room   (ROOM,)
        clock: steps that were looked at                                                        (1,)
        ignored: bits of `overflow` that are no events                                          (1,)
        overflow, time: those of the simulation                                                 (nworld,)
        unwatched: kinds that cannot be watched here, and why
    """

    def __init__(self, sim: "Simulation", limits: Limits) -> None:
        self._sim, self._limits = sim, limits
        self.unwatched: dict[str, str] = {}
        self._allocate()
        self._bind()

    def _allocate(self) -> None:
        sim = self._sim
        mjm, n = sim.mjm, sim.nworld
        self._energies = bool(self._limits.energy)
        if self._energies and (why := energy_unwatched(mjm)):
            self._energies = False
            self.unwatched["energy"] = why
        if self._energies and mjm.nv and any(sim.physics.field(sim._m, sim.d, name) is None for name in _needs(mjm)):
            self._energies = False
            self.unwatched["energy"] = f"{sim.physics.name} does not tell the forces of its actuators and springs"
        self._contacts = self._limits.depth is not None
        if self._contacts:
            try:
                sim.contacts(device=True)
            except Unsupported as error:
                self._contacts = False
                self.unwatched["penetration"] = str(error)
        nbody = mjm.nbody
        self._scratch = [
            wp.zeros((n, nbody), dtype=kind, device=sim.device) for kind in (wp.vec3, wp.quat, wp.vec3, wp.vec3)
        ]
        self._now, self._before = (
            [
                wp.zeros((n, nbody), dtype=float, device=sim.device),
                wp.zeros((n, nbody), dtype=wp.vec2, device=sim.device),
                wp.zeros(n, dtype=wp.float64, device=sim.device),
            ]
            for _ in range(2)
        )
        self._qvel = wp.zeros((n, mjm.nv), dtype=float, device=sim.device)
        self.found = wp.zeros(ROOM, dtype=checks.Found, device=sim.device)
        self._deepest = wp.zeros(n, dtype=float, device=sim.device)
        self._contact = wp.zeros(n, dtype=int, device=sim.device)
        self.clock = wp.zeros(1, dtype=int, device=sim.device)
        self.ignored = wp.zeros(1, dtype=int, device=sim.device)  # bits of `overflow` that are no events
        self._checked: wp.Graph | None = None
        self._launched = False
        self.arrays = {name: wp.zeros(n, dtype=int, device=sim.device) for name in ("active", "bits")}
        self.arrays |= {name: wp.zeros(n, dtype=float, device=sim.device) for name in ("lost", "excess", "peak")}
        self.arrays["time"] = wp.full(n, -1.0, dtype=float, device=sim.device)
        self.arrays["count"] = wp.zeros((n, len(KINDS)), dtype=int, device=sim.device)
        self.arrays["total"] = wp.zeros(1, dtype=int, device=sim.device)
        self._memory = checks.Memory()
        for name, array in self.arrays.items():
            setattr(self._memory, name, array)
        self._bounds = self._make_bounds()
        self._none = (wp.zeros(0, dtype=wp.vec2i, device=sim.device), wp.zeros(0, dtype=float, device=sim.device))

    def _make_bounds(self) -> Any:
        sim, limits = self._sim, self._limits
        mjm, bounds = sim.mjm, checks.Bounds()
        bounds.largest = LARGEST
        bounds.energy = float(limits.energy or 0.0) * energy_scale(mjm) if self._energies else 0.0
        bounds.depth = float(limits.depth or 0.0) if self._contacts else 0.0
        bounds.joint = float(limits.joint or 0.0)
        bounds.twins = -1.0 if limits.twins is None else limits.twins
        of_qpos = np.zeros(mjm.nq, dtype=np.int32)
        for joint, start in enumerate(mjm.jnt_qposadr):
            of_qpos[start:] = mjm.jnt_bodyid[joint]
        for name, value in (
            ("geom_bodyid", mjm.geom_bodyid),
            ("dof_bodyid", mjm.dof_bodyid),
            ("jnt_type", mjm.jnt_type),
            ("jnt_limited", mjm.jnt_limited),
            ("jnt_qposadr", mjm.jnt_qposadr),
            ("jnt_bodyid", mjm.jnt_bodyid),
            ("qpos_bodyid", of_qpos),
        ):
            setattr(bounds, name, wp.array(np.array(value, dtype=np.int32), dtype=int, device=sim.device))
        bounds.gap = wp.array(thickness(mjm), dtype=float, device=sim.device)
        return bounds

    def _field(self, name: str, kind: Any) -> wp.array:
        """A field of the model, with one row or one for each world."""
        sim = self._sim
        try:
            return sim.physics.model_field(sim._m, name)
        except (Unsupported, InputError):
            value = getattr(sim.mjm.opt if name in ("gravity", "timestep") else sim.mjm, name)
            return wp.array(np.array(value, dtype=np.float32)[None], dtype=kind, device=sim.device)

    def _bind(self) -> None:
        """Look up the arrays of the simulation, which may be others now."""
        sim = self._sim
        tree = kinetics.Tree()
        for name in _FIXED:
            setattr(
                tree, name, wp.array(np.array(getattr(sim.mjm, name), dtype=np.int32), dtype=int, device=sim.device)
            )
        for name, kind in _PER_WORLD.items():
            setattr(tree, name, self._field(name, kind))
        tree.gravity, tree.timestep = self._field("gravity", wp.vec3), self._field("timestep", float)
        self._tree, self._range = tree, self._field("jnt_range", wp.vec2)
        self._bound = (sim.d, sim.physics.captured(sim._m))
        self._checked, self._launched = None, False
        self._look_up()

    def _look_up(self) -> None:
        sim = self._sim
        own = sim.physics.arrays(sim._m, sim.d)
        self.time = sim.physics.field(sim._m, sim.d, "time")
        if self.time is None:
            raise Unsupported(f"{sim.physics.name} has no array of times: it cannot be watched")
        self.own = own
        none, none3 = (wp.zeros(0, dtype=kind, device=sim.device) for kind in (int, wp.vec3))
        self.overflow = own.get("overflow", none)
        self._mocap = own.get("mocap_pos"), own.get("mocap_quat")
        if self._mocap[0] is None or not self._mocap[0].size:
            self._mocap = none3.reshape((0, 0)), wp.zeros((0, 0), dtype=wp.quat, device=sim.device)
        empty = wp.zeros((0, 0), dtype=float, device=sim.device)
        forces = [sim.physics.field(sim._m, sim.d, name) for name in _FORCES]
        self._forces = [empty if force is None or not force.size else force for force in forces]
        xfrc = own["xfrc_applied"]
        self._xfrc = xfrc if xfrc.ndim == 2 else wp.array(
            ptr=xfrc.ptr, shape=xfrc.shape[:2], dtype=wp.spatial_vector, device=sim.device, copy=False
        )  # fmt: skip

    def _measure(self) -> None:
        sim = self._sim
        if self._energies:
            wp.launch(
                kinetics.measure_energy,
                dim=sim.nworld,
                inputs=[self._tree, self.own["qpos"], self.own["qvel"], *self._mocap, *self._scratch],
                outputs=self._now,
            )

    def check(self) -> None:
        """Launch the checks, or replay them: the second time that they are launched, they are captured."""
        sim = self._sim
        if self._checked is None and self._launched and sim.physics.capturable:
            self._checked = compilation.capture(self._launch, sim.device)
        if self._checked is not None:
            wp.capture_launch(self._checked)
        else:
            self._launch()
            self._launched = True

    def _launch(self) -> None:
        sim = self._sim
        self._measure()
        wp.launch(checks.start_check, dim=sim.nworld, outputs=[self.clock, self._deepest, self._contact])
        geom, dist = self._none
        if self._contacts:
            found = sim._device_contacts()
            geom, dist = found.geom, found.dist
            given = [self._bounds, found.count, found.world, geom, dist]
            wp.launch(checks.find_deepest, dim=found.capacity, inputs=given, outputs=[self._deepest])
            wp.launch(checks.find_contact, dim=found.capacity, inputs=[*given, self._deepest], outputs=[self._contact])
        wp.launch(
            checks.check_worlds,
            dim=sim.nworld,
            inputs=[
                self.clock,
                self.ignored,
                self._bounds,
                self._tree.timestep,
                self.time,
                self.own["qpos"],
                self.own["qvel"],
                self._range,
                self.overflow,
                *self._forces,
                self._xfrc,
                geom,
                dist,
                self._deepest,
                self._contact,
                *self._now,
                self._qvel,
                *self._before,
                self._memory,
            ],
            outputs=[self.found],
        )

    def refresh(self, *, always: bool = False, model: bool = False) -> None:
        """Look up the arrays of the simulation again if they are others; those of its model, too, if asked for."""
        sim = self._sim
        if always or sim.d is not self._bound[0] or (model and sim.physics.captured(sim._m) != self._bound[1]):
            self._bind()
        elif not sim.physics.capturable:
            self._look_up()

    def begin(self) -> None:
        """Take the present state as that before the next step."""
        self.refresh(model=True)
        self._measure()
        wp.launch(
            checks.begin_worlds,
            dim=self._sim.nworld,
            inputs=[self.time, self.overflow, self.own["qvel"], *self._now],
            outputs=[self._memory, self._qvel, *self._before],
        )


def _needs(mjm: mujoco.MjModel) -> list[str]:
    """Forces that have to be known of a model."""
    springs = bool(mjm.jnt_stiffness.any() or mjm.tendon_stiffness.any())
    return ["qfrc_actuator"] * bool(mjm.nu) + ["qfrc_spring"] * springs
