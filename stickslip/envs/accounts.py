"""What happened in episodes: returns, lengths, successes, parts of the reward; counted on the device, by world.

Worlds are added up when somebody asks, so that a control step has nothing to do with more than one world at once.
"""

from collections.abc import Sequence

import torch

LATELY = 0.99
"""How much episodes that have ended count a control step later, in `lately`."""
MEANS = ("return", "length", "success", "terminated")
COUNTS = ("diverged", "refused_actions")


class Accounts:
    """Sums over episodes.

    Args:
        nworld: number of worlds
        terms: names of the parts of the reward
        device: of torch
        dt: duration of a control step [s]
    """

    def __init__(self, nworld: int, terms: Sequence[str], device: torch.device, dt: float) -> None:
        self.names = (*MEANS, *(f"reward/{name}" for name in terms))
        self._dt = dt
        self._terms = torch.zeros((nworld, len(terms)), device=device)  # of the episodes that go on
        n = 1 + len(self.names)
        self._sums, self._lately = (torch.zeros((nworld, n), device=device) for _ in range(2))
        self._counts = torch.zeros((nworld, len(COUNTS)), dtype=torch.int64, device=device)
        self.unfit = torch.zeros((nworld, len(terms)), dtype=torch.int64, device=device)
        """How often each part of the reward was not finite, since the start, (nworld, nterm)."""

    def buffers(self) -> dict[str, torch.Tensor]:
        """What is kept from step to step."""
        return {
            "terms": self._terms,
            "sums": self._sums,
            "lately": self._lately,
            "counts": self._counts,
            "unfit": self.unfit,
        }

    def add(self, rewards: torch.Tensor, unfit: torch.Tensor) -> None:
        """Add a step's parts of the reward, and which were not finite, (nworld, nterm) each."""
        self._terms += rewards
        self.unfit += unfit

    def end(self, done: torch.Tensor, elapsed: torch.Tensor, success: torch.Tensor, terminated: torch.Tensor) -> None:
        """Count the episodes that end here."""
        seconds = self._dt * elapsed
        each = torch.stack([done.float(), self._terms.sum(dim=1), seconds, success.float(), terminated.float()], dim=1)
        ended = torch.where(done[:, None], torch.cat([each, self._terms], dim=1), 0.0)
        self._sums += ended
        self._lately.mul_(LATELY).add_(ended)
        self._terms.copy_(torch.where(done[:, None], 0.0, self._terms))

    def count(self, name: str, worlds: torch.Tensor) -> None:
        """Count worlds under a name of `COUNTS`, (nworld,) of bool."""
        self._counts[:, COUNTS.index(name)] += worlds

    def lately(self) -> dict[str, torch.Tensor]:
        """Means over the episodes that ended lately, about the last hundred control steps, on the device."""
        sums = self._lately.sum(dim=0)
        means = sums[1:] / sums[:1].clamp(min=1e-6)
        return dict(zip(self.names, means, strict=True))

    def taken(self) -> dict[str, float]:
        """Means over the episodes that ended since the last call, and counts; waits for the device."""
        sums, counts = self._sums.double().sum(dim=0).tolist(), self._counts.sum(dim=0).tolist()
        self._sums.zero_()
        self._counts.zero_()
        n = sums[0]
        means = {name: value / n for name, value in zip(self.names, sums[1:], strict=True)} if n else {}
        return {"episodes": n, **means, **dict(zip(COUNTS, map(float, counts), strict=True))}
