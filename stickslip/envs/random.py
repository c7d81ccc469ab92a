"""Random numbers on the device that belong to a seed, a world and a moment, whatever else is simulated beside it."""

from collections.abc import Callable

import torch
import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.kernel
def _draw_numbers(
    # In:
    place: int,
    moment: wp.array[int],
    normal: bool,
    # Out:
    numbers_out: wp.array2d[float],
):
    """Numbers of every world: uniform in [0, 1), or normal; `moment` holds the seed and a count."""
    worldid, i = wp.tid()
    of_world = wp.rand_init(moment[0], worldid)
    of_moment = wp.rand_init(wp.randi(of_world), moment[1])
    of_place = wp.rand_init(wp.randi(of_moment), place)
    state = wp.rand_init(wp.randi(of_place), i)
    if normal:
        numbers_out[worldid, i] = wp.randn(state)
    else:
        numbers_out[worldid, i] = wp.randf(state)


class Random:
    """Draws of all worlds.

    A draw depends on the seed, the world, how often `begin` was called, and how many draws came before it since then;
    not on the number of worlds. A graph that records draws makes other ones each time it is replayed.

    Args:
        nworld: number of worlds
        seed: of the numbers
        device: of torch
    """

    def __init__(self, nworld: int, seed: int, device: torch.device) -> None:
        self._nworld, self._device = nworld, device
        self.moment = torch.zeros(2, dtype=torch.int32, device=device)
        self._moment = wp.from_torch(self.moment, dtype=wp.int32)
        self.place = 0
        """How many draws there were since `begin`."""
        self.seen: Callable[[torch.Tensor, int, bool], None] | None = None
        """Told of each draw: the numbers, their place, and whether they are normally distributed."""
        self.reseed(seed)

    def reseed(self, seed: int) -> None:
        """Begin again with another seed; not in a graph."""
        self.moment.copy_(torch.tensor([int(seed) % 2**31, 0]))

    def begin(self) -> None:
        """A new moment."""
        self.moment[1] += 1
        self.place = 0

    def _draw(self, n: int, normal: bool) -> torch.Tensor:
        self.place += 1
        out = torch.empty((self._nworld, n), device=self._device)
        if n:
            wp.launch(
                _draw_numbers,
                dim=(self._nworld, n),
                inputs=[self.place, self._moment, normal],
                outputs=[wp.from_torch(out)],
                device=wp.device_from_torch(self._device),
            )
        if self.seen is not None:
            self.seen(out, self.place, normal)
        return out

    def uniform(self, low: float, high: float, n: int = 1) -> torch.Tensor:
        """Numbers between two bounds, (nworld, n)."""
        return low + (high - low) * self._draw(n, normal=False)

    def normal(self, n: int = 1, std: float = 1.0) -> torch.Tensor:
        """Normally distributed numbers, (nworld, n)."""
        return std * self._draw(n, normal=True)

    def integers(self, low: int, high: int, n: int = 1) -> torch.Tensor:
        """Whole numbers from `low` to `high`, both included, (nworld, n)."""
        return (low + torch.floor((high - low + 1) * self._draw(n, normal=False))).long().clamp_(low, high)
