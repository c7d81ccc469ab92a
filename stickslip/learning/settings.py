"""Settings of a training."""

import dataclasses
from typing import Any

from stickslip.envs.task import Task
from stickslip.parameters import checked, parameter

WORLDS_GPU, WORLDS_CPU = 4096, 256


@checked
@dataclasses.dataclass(frozen=True)
class Settings:
    """What PPO is told; a task has values of its own for some (`Task.training`)."""

    nworld: int | None = parameter(None, "number of worlds; none: 4096 on a GPU, 256 on a CPU", 1, 10**6, kind=int)
    iterations: int = parameter(1000, "updates of the policy", 1, 10**6)
    steps: int = parameter(24, "control steps between two updates", 1, 10000)
    epochs: int = parameter(5, "passes over these steps in an update", 1, 100)
    batches: int = parameter(4, "parts of a pass", 1, 1000)
    learning_rate: float = parameter(1e-3, "step size of Adam", 0.0, 1.0, above=True)
    desired_kl: float = parameter(0.01, "change of the policy that the step size is adapted to", 0.0, 1.0, above=True)
    adaptive: bool = parameter(True, "adapt the step size")
    least_rate: float = parameter(1e-4, "step size with which an update begins, at least, if it is adapted", 0.0, 1.0)
    gamma: float = parameter(0.99, "discount of a control step", 0.0, 1.0)
    lam: float = parameter(0.95, "of the advantage (GAE)", 0.0, 1.0)
    clip: float = parameter(0.2, "of the ratio of probabilities", 0.0, 1.0, above=True)
    entropy: float = parameter(0.005, "weight of the entropy", 0.0, 1.0)
    gradient: float = parameter(1.0, "largest norm of a gradient", 0.0, 1e6, above=True)
    std: float = parameter(1.0, "standard deviation of actions at the start", 0.0, 10.0, above=True)
    hidden: tuple[int, ...] = parameter((256, 128, 64), "sizes of the hidden layers", 1, 4096, kind=int, several=True)
    spread: bool = parameter(True, "first episodes begin at random times of the episode")

    def worlds(self, cuda: bool) -> int:
        """Number of worlds on a device."""
        return self.nworld or (WORLDS_GPU if cuda else WORLDS_CPU)


def settings_of(task: Task, given: dict[str, Any]) -> Settings:
    """The settings of a task, with those given in their place."""
    from stickslip.spec import make

    return make(Settings, {**task.training, **given}, "stickslip train")
