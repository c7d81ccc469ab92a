"""Simulations: graphs are captured when one is made, without a first step."""

from typing import Any

import mujoco
import mujoco_warp as mjwarp
import warp as wp

BROADPHASE = {"nxn": mjwarp.BroadphaseType.NXN}


class Simulation:
    """A model in several worlds."""

    def __init__(self, mjm: mujoco.MjModel, nworld: int, *, graph: bool = True, **sizes: int) -> None:
        mjd = mujoco.MjData(mjm)
        mujoco.mj_resetDataKeyframe(mjm, mjd, 0) if mjm.nkey else None
        mujoco.mj_forward(mjm, mjd)
        self.use_cuda_graph = graph
        self.wp_model: Any = mjwarp.put_model(mjm)
        self.wp_model.opt.broadphase = BROADPHASE["nxn"]
        self.wp_data: Any = mjwarp.put_data(mjm, mjd, nworld=nworld, **sizes)
        self.mask = wp.zeros(nworld, dtype=bool)
        self.create_graph()

    def create_graph(self) -> None:
        self.graphs = {}
        if not self.use_cuda_graph:
            return
        for name in ("step", "forward", "reset"):
            with wp.ScopedCapture() as capture:
                self._run(name)
            self.graphs[name] = capture.graph

    def run(self, name: str) -> None:
        """Step, forward or reset; by graph if there is one."""
        if name in self.graphs:
            wp.capture_launch(self.graphs[name])
        else:
            self._run(name)

    def replace(self, name: str, nworld: int) -> Any:
        """Give each world a value of its own of a field of the model: another array, and graphs again."""
        array = getattr(self.wp_model, name)
        expanded = wp.empty((nworld, *array.shape[1:]), dtype=array.dtype)
        for world in range(nworld):
            wp.copy(expanded[world], array[0])
        setattr(self.wp_model, name, expanded)
        self.create_graph()
        return expanded

    def _run(self, name: str) -> None:
        if name == "reset":
            mjwarp.reset_data(self.wp_model, self.wp_data, reset=self.mask)
        else:
            getattr(mjwarp, name)(self.wp_model, self.wp_data)
