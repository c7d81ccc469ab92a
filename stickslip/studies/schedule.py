"""Which cell runs where next: those of one group stay with one slot as long as others have work of their own."""

import collections
from collections.abc import Iterable

from stickslip.studies.cell import Cell


class Schedule:
    """Cells that wait, by group.

    Args:
        cells: in their order
        offset: share of the groups, from 0 to 1, at which to begin: two drivers of one study begin apart
    """

    def __init__(self, cells: Iterable[Cell], offset: float = 0.0) -> None:
        self._groups: dict[str, collections.deque[Cell]] = {}
        for cell in cells:
            self._groups.setdefault(cell.group, collections.deque()).append(cell)
        names = list(self._groups)
        first = int(offset * len(names))
        self._groups = {name: self._groups[name] for name in names[first:] + names[:first]}
        for group in self._groups.values():
            group.rotate(-int(offset * len(group)))
        self._of: dict[str, str] = {}  # the group of each slot
        self._count = sum(map(len, self._groups.values()))

    def __len__(self) -> int:
        return self._count

    def next(self, slot: str) -> Cell | None:
        """The next cell for a slot."""
        name = self._of.get(slot)
        if name is None or name not in self._groups:
            name = self._choose()
            if name is None:
                return None
            self._of[slot] = name
        cell = self._groups[name].popleft()
        self._count -= 1
        if not self._groups[name]:
            del self._groups[name]
        return cell

    def back(self, cell: Cell, *, last: bool) -> None:
        """Put a cell back, before all others of its group or behind them."""
        group = self._groups.setdefault(cell.group, collections.deque())
        (group.append if last else group.appendleft)(cell)
        self._count += 1

    def _choose(self) -> str | None:
        """The group with the most cells for each slot that works on it, one that nobody has before others."""
        if not self._groups:
            return None
        users = collections.Counter(self._of.values())
        return max(self._groups, key=lambda name: (users[name] == 0, len(self._groups[name]) / (1 + users[name])))
