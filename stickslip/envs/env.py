"""Env: many worlds of a task, torch in and torch out, on the device of the simulation."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import warp as wp

from stickslip import compilation, spec
from stickslip.envs.cycle import Autoreset, Cycle
from stickslip.envs.fused import Fused, fused
from stickslip.envs.graph import Recorded, check_host_reads
from stickslip.envs.step import Step
from stickslip.envs.task import Task
from stickslip.errors import InputError, Unsupported
from stickslip.simulation import Simulation

AUTORESET = ("same-step", "next-step", "disabled")


class Env:
    """Many worlds of a task.

    Worlds that end begin the next episode by themselves, with randomised start and model. Worlds that are no longer
    finite end, too, and are counted. On a GPU a control step is one graph, and nothing waits for the device.

    Args:
        sim: a simulation of the task's model and timestep; `stickslip.envs.make` builds it
        task: the task
        seed: of all random numbers
        autoreset: when a world that has ended starts again: in the same step, in the next one, or by `reset` only
        check: look at actions and rewards on the host in each step, and raise; None: on a CPU. Otherwise they are
            looked at on the device, and `health` tells
        record: record a control step into a graph; None: on CUDA, if the physics can be captured
        fuse: translate the task into a few kernels, see `fused`; None: on CUDA, if it can be done; True: or raise
    """

    def __init__(
        self,
        sim: Simulation,
        task: Task,
        *,
        seed: int = 0,
        autoreset: Autoreset = "same-step",
        check: bool | None = None,
        record: bool | None = None,
        fuse: bool | None = None,
    ) -> None:
        if autoreset not in AUTORESET:
            raise InputError(f"autoreset is {autoreset!r}: it must be one of {', '.join(AUTORESET)}")
        if abs(sim.mjm.opt.timestep - task.timestep) > 1e-9:
            raise InputError(
                f"the simulation's timestep is {sim.mjm.opt.timestep:g} s, that of task {task.name!r} "
                f"{task.timestep:g} s: build it with timestep={task.timestep:g}, or take stickslip.envs.make"
            )
        self.sim, self.task, self.autoreset = sim, task, autoreset
        self._check = not sim.device.is_cuda if check is None else check
        self._record = self._may_record(record)
        self.cycle = Cycle(sim, task, int(seed), autoreset)
        """What a control step does, and everything that it keeps."""
        self.nworld, self.naction, self.device = self.cycle.nworld, self.cycle.naction, self.cycle.device
        self.state = self.cycle.state
        self._graph: Recorded | None = None
        self._fused: Fused | None = None
        if sim.device.is_cuda if fuse is None else fuse:
            self._fused = fused(self.cycle, always=bool(fuse))
        self._closed = False

    def _may_record(self, record: bool | None) -> bool:
        possible = self.sim.device.is_cuda and self.sim.physics.capturable
        if record and not possible:
            raise Unsupported(
                f"record=True: {self.sim.physics.name} on {self.sim.device.alias} cannot be recorded; leave it out"
            )
        return possible if record is None else record

    # --- what callers see ---

    @property
    def dt(self) -> float:
        """Duration of a control step [s]."""
        return self.task.dt

    @property
    def physics(self) -> str:
        """The physics, with the parameters that are not the default."""
        physics = self.sim.physics
        inner: Any = getattr(physics, "physics", physics)  # of threads
        return spec.written(inner.name, inner)

    @property
    def fused(self) -> bool:
        """Whether the parts of a control step are translated into a kernel each."""
        return self._fused is not None

    @property
    def elapsed(self) -> torch.Tensor:
        """Control steps since the start of each episode, (nworld,)."""
        return self.state.elapsed

    @elapsed.setter
    def elapsed(self, value: torch.Tensor) -> None:
        self.state.elapsed.copy_(value)

    def spread(self) -> None:
        """Set the worlds' clocks to random times of an episode, so that they do not all end at once."""
        if self.task.longest is not None:
            self.elapsed = self.state.random.integers(0, self.task.longest - 1)[:, 0]

    @property
    def nobservation(self) -> int:
        """Numbers in an observation."""
        return self.cycle.observer.size

    @property
    def ncritic(self) -> int:
        """Numbers that the critic sees."""
        return self.cycle.observer.ncritic

    @property
    def limit(self) -> float:
        """Largest size of an action."""
        return self.cycle.control.limit

    @property
    def observations(self) -> Mapping[str, slice]:
        """Where each part of the observation is, by name."""
        return dict(self.cycle.observer.slices)

    def reset(self, mask: Any = None, *, seed: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Start all worlds, or those in a mask, (nworld,) of bool; the observations of all, for policy and critic.

        Args:
            mask: worlds to start; None: all
            seed: begin all random numbers again with this seed
        """
        self._open()
        if seed is not None:
            if mask is not None:
                raise InputError("seed is for all worlds: leave out mask, or seed")
            self.state.random.reseed(seed)
        chosen = None if mask is None else torch.as_tensor(mask, dtype=torch.bool, device=self.device)
        if chosen is not None and tuple(chosen.shape) != (self.nworld,):
            raise InputError(f"mask has shape {tuple(chosen.shape)}: it must be ({self.nworld},)")
        return self.cycle.reset(chosen)

    def step(self, action: Any) -> Step:
        """Advance all worlds by a control step.

        Args:
            action: (nworld, naction), within `limit`; what is beyond it is cut off
        """
        self._open()
        self._give(action)
        if self._record and self._graph is None:
            self._graph = self._recorded()
        if self._graph is not None:
            self._graph.replay()
        elif self._check:
            self._checked()
        else:
            self.cycle.advance()
        if self._fused is not None:
            return self._fused.step()
        found = Step(**self.cycle.made)
        return found.clone() if self._graph is not None else found

    def log(self) -> dict[str, float]:
        """Means over the episodes that ended since the last call, and counts; waits for the device."""
        return self.cycle.accounts.taken()

    def lately(self) -> dict[str, torch.Tensor]:
        """Means over the episodes of about the last hundred control steps; on the device, waits for nothing."""
        return self.cycle.accounts.lately()

    def health(self) -> list[str]:
        """What is wrong, one sentence each; empty if all is well. Waits for the device."""
        found = list(self.sim.health().messages)
        for name, times in zip(self.task.rewards, self.cycle.accounts.unfit.sum(dim=0).tolist(), strict=True):
            if times:
                found.append(f"reward {name!r} was not finite {times} times and counted as 0: check what it divides by")
        return found

    def poses(self, world: int = 0) -> tuple[Any, ...]:
        """What a picture of a world needs: positions, and positions and orientations of mocap bodies; on the host."""
        sim = self.sim
        mocap = (sim.mocap_pos, sim.mocap_quat) if sim.mjm.nmocap else ()
        return tuple(array.numpy()[world].copy() for array in (sim.qpos, *mocap))

    def close(self) -> None:
        """Drop the simulation."""
        self._closed = True
        self._graph = self._fused = None

    # --- a control step ---

    def _open(self) -> None:
        if self._closed:
            raise InputError("the environment is closed: make another one")

    def _give(self, action: Any) -> None:
        """Check actions, and copy them to the device."""
        given = torch.as_tensor(action)
        if tuple(given.shape) != (self.nworld, self.naction):
            raise InputError(f"action has shape {tuple(given.shape)}: it must be ({self.nworld}, {self.naction})")
        if given.is_complex() or given.dtype is torch.bool:
            raise InputError(f"action is of {given.dtype}: it must be real numbers")
        if self._check:
            fine = torch.isfinite(given).all(dim=1)
            if not bool(fine.all()):
                worlds = torch.nonzero(~fine)[:, 0].tolist()
                raise InputError(f"action is not finite in {_these(worlds)}: check the policy that gives it")
            if self.autoreset == "disabled" and bool(self.cycle.over.any()):
                worlds = torch.nonzero(self.cycle.over)[:, 0].tolist()
                raise InputError(f"the episode is over in {_these(worlds)}: start them with reset(mask)")
        self.cycle.asked.copy_(given)

    def _checked(self) -> None:
        """Advance; if a part of the reward is not finite, raise, with everything as before."""
        with self._undone_on_error():
            self.cycle.advance()
            for name, times in zip(self.task.rewards, self.cycle.accounts.unfit.unbind(dim=1), strict=True):
                worlds = torch.nonzero(times)[:, 0].tolist()
                if worlds:
                    raise InputError(
                        f"reward {name!r} is not finite in {_these(worlds)}: check what it divides by; the worlds are "
                        "as before this step"
                    )

    @contextmanager
    def _undone_on_error(self) -> Iterator[None]:
        state, kept = self.cycle.keep()
        try:
            yield
        except BaseException:  # also an error of a term, and Ctrl-C
            self.cycle.put_back(state, kept)
            raise

    # --- the graph ---

    def _recorded(self) -> Recorded:
        """Run a control step until nothing is compiled or uploaded any longer, record it, and undo these runs."""
        state, kept = self.cycle.keep()
        with wp.ScopedDevice(self.sim.device), compilation.quiet():
            self.cycle.advance()
            check_host_reads(self.task, self.state)
            self.cycle.advance()
            graph = Recorded(self.cycle.advance, self.device)
        self.cycle.put_back(state, kept)
        return graph


def _these(worlds: list[int]) -> str:
    shown = ", ".join(map(str, worlds[:8])) + (", ..." if len(worlds) > 8 else "")
    return f"{'world' if len(worlds) == 1 else 'worlds'} {shown}"
