"""Step: what a control step gives."""

import dataclasses

import torch


@dataclasses.dataclass(frozen=True)
class Step:
    """What a control step gives; tensors on the device, first axis worlds.

    Attributes:
        observation: for the policy; where an episode has ended, that of the next episode's start   (nworld, n)
        critic: for the critic                                                                      (nworld, m)
        reward: of this step                                                                        (nworld,)
        terminated: the episode has ended in a state of the task, or is no longer finite            (nworld,)
        truncated: the episode has ended by time-out                                                (nworld,)
        final: the observation before any reset, also of worlds whose episode goes on               (nworld, n)
        final_critic: the same for the critic                                                       (nworld, m)
        success: whether a world has succeeded at the end of this step                              (nworld,)
    """

    observation: torch.Tensor
    critic: torch.Tensor
    reward: torch.Tensor
    terminated: torch.Tensor
    truncated: torch.Tensor
    final: torch.Tensor
    final_critic: torch.Tensor
    success: torch.Tensor

    @property
    def done(self) -> torch.Tensor:
        """Whether the episode has ended, (nworld,)."""
        return self.terminated | self.truncated

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The attributes, in their order."""
        return tuple(field.name for field in dataclasses.fields(cls))

    def parts(self) -> tuple[torch.Tensor, ...]:
        """All tensors, in the order of the attributes."""
        return tuple(getattr(self, name) for name in self.names())

    def clone(self) -> "Step":
        """A copy."""
        return Step(*(part.clone() for part in self.parts()))
