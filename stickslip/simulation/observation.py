"""What a simulation shows of its worlds, on the device: results of `forward`, views by name, contacts."""

from typing import Any

import warp as wp
from numpy.typing import ArrayLike

from stickslip import arrays, compilation
from stickslip.physics.base import GrowingPhysics
from stickslip.physics.contacts import DeviceContacts
from stickslip.readout import readout
from stickslip.simulation import views
from stickslip.simulation.inputs import Inputs
from stickslip.simulation.views import Actuator, Body, Geom, Joint, Site


class Observation(Inputs):
    """The part of `Simulation` that looks at worlds and does not advance them.

    Poses, sensors, actuator forces and contacts are results of the last step and belong to the positions at its
    beginning, as in MuJoCo after `mj_step`. `forward` brings them up to date. With `pbd-r` and `scm` a step works out
    no poses: call `forward` before reading them.

    Views share their memory with the simulation. They are valid until `sim.d` is replaced.
    """

    __slots__ = ("_contacts", "_forward_graph", "_step_graph")

    def __init__(self) -> None:
        Inputs.__init__(self)
        self._step_graph: wp.Graph | None = None
        self._forward_graph: tuple[wp.Graph, Any, Any] | None = None  # with the model and data of its capture
        self._contacts: tuple[DeviceContacts, Any, Any] | None = None  # with the data, and the sizes of its buffers

    @property
    def _graph(self) -> wp.Graph | None:
        """The captured step. Whoever drops it drops the captured `forward` too."""
        return self._step_graph

    @_graph.setter
    def _graph(self, graph: wp.Graph | None) -> None:
        self._step_graph = graph
        if graph is None:
            self._forward_graph = None

    def forward(self) -> None:
        """Find poses, sensors, and contacts with their forces, of the present state, without stepping.

        State, inputs, warm starts and counters keep every bit: the next step is the one without this call. The first
        call compiles and captures it, later ones replay it.

        Forces are those that a step from here would find; with `cenic`, its first attempt. `pbd-r` and `scm` find poses
        only: contacts of `pbd-r` stay those of the last step, those of `scm` always belong to the present state.
        """
        physics = self.physics
        with wp.ScopedDevice(self.device), compilation.quiet():
            graph, m, d = self._forward_graph or (None, None, None)
            if graph is not None and m is self._m and d is self.d:
                wp.capture_launch(graph)
                return
            compilation.load_kernels(lambda: physics.forward(self._m, self.d), self.device)
            # a first run loads what that missed: nothing can be loaded while capturing
            self.d = physics.forward(self._m, self.d)
            graph = compilation.capture(lambda: physics.forward(self._m, self.d), self.device)
        self._forward_graph = (graph, self._m, self.d)

    @readout
    def kinematics(self, mask: ArrayLike | wp.array | None = None) -> None:
        """Find poses, velocities and the sensors that read only these, of the present state; no contacts.

        It takes a small part of the time of `forward`. Contacts, accelerations, and sensors of force and contact stay
        those of the last step. It only launches, so that a graph of your own can record it after a first call.

        Args:
            mask: one bool per world that needs it, as for `reset`; others may be brought up to date, too. None: all
        """
        with wp.ScopedDevice(self.device), compilation.quiet():
            worlds = None if mask is None else arrays.mask_of(mask, self.nworld, self.device)
            self.physics.kinematics(self._m, self.d, worlds)

    def find_field(self, name: str) -> wp.array:
        """The array of MuJoCo's name, (nworld, ...), on the device; raises Unsupported if the physics has none."""
        found = self.physics.field(self._m, self.d, name)
        if found is None:
            raise views.missing(self.physics.name, name)
        return found

    def body(self, name: str | int) -> Body:
        """A body by its name or number: `sim.body("torso").xpos`."""
        return Body(self, name)

    def site(self, name: str | int) -> Site:
        """A site by its name or number."""
        return Site(self, name)

    def geom(self, name: str | int) -> Geom:
        """A geom by its name or number."""
        return Geom(self, name)

    def joint(self, name: str | int) -> Joint:
        """A joint by its name or number: `sim.joint("knee").qpos = 0.1`."""
        return Joint(self, name)

    def actuator(self, name: str | int) -> Actuator:
        """An actuator by its name or number."""
        return Actuator(self, name)

    def sensor(self, name: str | int) -> wp.array:
        """Values of a sensor by its name or number, (nworld, dim): of the last step, or of `forward`."""
        return views.sensor_columns(self, name)

    @property
    def sensordata(self) -> wp.array:
        """Values of all sensors, (nworld, nsensordata): of the last step, or of `forward`."""
        return self.find_field("sensordata")

    @property
    def time(self) -> wp.array:
        """Simulated time, s, (nworld,), on the device."""
        return self.find_field("time")

    @property
    def ncon(self) -> wp.array:
        """Number of contacts of each world, (nworld,), on the device; counted when asked for."""
        return self._device_contacts().ncon

    def _device_contacts(self) -> DeviceContacts:
        """The contacts, in buffers that are made once for the data."""
        with wp.ScopedDevice(self.device), compilation.quiet():
            physics = self.physics
            sizes = physics.buffer_sizes(self._m, self.d) if isinstance(physics, GrowingPhysics) else None
            if self._contacts is None or self._contacts[1] is not self.d or self._contacts[2] != sizes:
                self._contacts = (physics.make_contacts(self._m, self.d), self.d, sizes)
            self.physics.fill_contacts(self._m, self.d, self._contacts[0])
        return self._contacts[0]
