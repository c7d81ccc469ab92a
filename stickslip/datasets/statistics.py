"""Statistics of features as LeRobot stores them: of each episode, and of all of them in bounded memory."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

QUANTILES = {"q01": 0.01, "q10": 0.1, "q50": 0.5, "q90": 0.9, "q99": 0.99}
_BINS = 4096

Stats = dict[str, NDArray[Any]]


def of_rows(rows: NDArray[Any]) -> Stats:
    """Of the rows of an array (T, ...): exact, over time."""
    values = rows.reshape(len(rows), *(rows.shape[1:] or (1,))).astype(np.float64)
    found = {"min": values.min(0), "max": values.max(0), "mean": values.mean(0), "std": values.std(0)}
    found["count"] = np.array([len(values)])
    return found | dict(zip(QUANTILES, np.quantile(values, list(QUANTILES.values()), axis=0), strict=True))


def counts_of(frames: NDArray[np.uint8]) -> NDArray[np.int64]:
    """How often each of 256 values occurs in pictures (T, height, width, 3), by channel, (3, 256)."""
    counts = np.zeros((3, 256), dtype=np.int64)
    for frame in frames:
        for channel in range(3):
            counts[channel] += np.bincount(frame[..., channel].ravel(), minlength=256)
    return counts


def of_counts(counts: NDArray[np.int64], frames: int) -> Stats:
    """Of pictures with values from 0 to 1: exact; (3, 1, 1) each, and the number of frames."""
    level = np.arange(256) / 255.0
    share = counts / counts.sum(1, keepdims=True)
    mean = share @ level
    seen = [np.flatnonzero(row) for row in counts]
    found = {
        "min": np.array([level[s[0]] for s in seen]),
        "max": np.array([level[s[-1]] for s in seen]),
        "mean": mean,
        "std": np.sqrt(np.maximum(share @ level**2 - mean**2, 0.0)),
    }
    found |= {
        name: np.array([level[np.searchsorted(np.cumsum(row), q * (1.0 - 1e-12))] for row in share])
        for name, q in QUANTILES.items()
    }
    return {name: value.reshape(3, 1, 1) for name, value in found.items()} | {"count": np.array([frames])}


class Total:
    """Statistics over all episodes. Bounds must be known first, from the episodes; then rows are added."""

    def __init__(self, low: NDArray[Any], high: NDArray[Any]) -> None:
        self._low, self._high = low.astype(np.float64), high.astype(np.float64)
        self._scale = np.where(self._high > self._low, self._high - self._low, 1.0)
        self._counts = np.zeros((self._low.size, _BINS), dtype=np.int64)
        self._n = 0
        self._mean = np.zeros_like(self._low)
        self._squares = np.zeros_like(self._low)  # sum of squared distances from the mean

    def add(self, rows: NDArray[Any]) -> None:
        """Add the rows of an episode, (T, ...)."""
        values = rows.reshape(len(rows), *self._low.shape).astype(np.float64)
        n, mean = len(values), values.mean(0)
        apart = mean - self._mean
        self._squares += ((values - mean) ** 2).sum(0) + apart**2 * (self._n * n / (self._n + n))
        self._mean += apart * (n / (self._n + n))
        self._n += n
        bins = ((values - self._low) / self._scale * _BINS).astype(np.int64).clip(0, _BINS - 1)
        for i, column in enumerate(bins.reshape(n, -1).T):
            self._counts[i] += np.bincount(column, minlength=_BINS)

    def stats(self) -> Stats:
        """What was found. Quantiles are right to the width of a bin, 1/4096 of the range."""
        found = {"min": self._low, "max": self._high, "mean": self._mean}
        found |= {"std": np.sqrt(self._squares / self._n), "count": np.array([self._n])}
        share = np.cumsum(self._counts, axis=1) / self._n
        for name, q in QUANTILES.items():
            place = np.array([np.interp(q, [0.0, *row], np.arange(_BINS + 1)) for row in share]) / _BINS
            value = self._low + self._scale * place.reshape(self._low.shape)
            found[name] = np.where(self._high > self._low, value, self._low)
        return found


def listed(stats: Mapping[str, Stats]) -> dict[str, dict[str, list]]:
    """For JSON."""
    return {name: {key: value.tolist() for key, value in found.items()} for name, found in stats.items()}
