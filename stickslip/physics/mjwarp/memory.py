"""What a physics remembers from one step to the next, besides MuJoCo Warp's own state.

A physics with memory declares it as a dataclass of device arrays and gives it to its data:

    @dataclasses.dataclass
    class WarmStart(Memory):
        num: wp.array = per_world()  # (nworld,) contacts of the last step
        adr: wp.array = per_world(reset=False)  # (nworld,) where they begin
        force: wp.array = entries()  # (naconmax,) their forces; those of a world are `num` from `adr` on

    Data.extend(mjw.make_data(...), mjm, memory=WarmStart(num=wp.zeros(nworld, dtype=int), ...))

`WarpPhysics` does the rest: `arrays` lists every field by its name, so that a copy brings the simulation back exactly;
a reset brings the fields that are per world back to the value they were made with; a state has all of them, also of a
part of the worlds. No method needs to be overridden. Make a memory once, with its initial values: all worlds of a
`per_world` array must start with the values of world 0. A step writes into the arrays and never replaces them.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import warp as wp

from stickslip.copies import Pairs, Prepared, copy_worlds
from stickslip.physics.mjwarp.entries import EntryMoves
from stickslip.state import ENTRIES, SHARED

_KIND = "memory"
_FOLLOWS = "follows"
_RESET = "reset"
_SAVED = "saved"


def per_world(*, follows: str | None = None, reset: bool = True, saved: bool = True) -> Any:
    """A field with a leading world axis.

    Args:
        follows: after a reset, the field is a copy of the array of this name in the data, as it is after that reset
        reset: whether a reset brings it back to its initial value
        saved: whether a state has it; if not, it has its initial value after a state is set
    """
    return dataclasses.field(metadata={_KIND: "per world", _FOLLOWS: follows, _RESET: reset, _SAVED: saved})


def entries() -> Any:
    """A field whose entries belong to worlds: those of a world are `num` from `adr` on, two other fields."""
    return dataclasses.field(metadata={_KIND: "entries"})


def buffer() -> Any:
    """A field of all worlds together, which no reset touches."""
    return dataclasses.field(metadata={_KIND: "buffer"})


@dataclasses.dataclass
class Memory:
    """The memory of a physics; one without fields remembers nothing. See the module for how to declare one."""

    _start: dict[str, wp.array] = dataclasses.field(init=False, repr=False)
    _clear: Prepared = dataclasses.field(init=False, repr=False, default_factory=Prepared)
    _moves: EntryMoves = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._start = {}
        for field in self._fields():
            kind = field.metadata.get(_KIND)
            if kind == "per world" and field.metadata[_RESET]:
                array = getattr(self, field.name)
                self._start[field.name] = wp.clone(array[:1]) if array.size else array
            elif kind not in ("per world", "entries", "buffer"):
                raise TypeError(
                    f"{type(self).__name__}.{field.name}: declare it with per_world(), entries() or buffer()"
                )
        if self._names("entries") and not {"adr", "num"} <= set(self._names("per world")):
            raise TypeError(f"{type(self).__name__} has entries: declare adr and num with per_world()")
        self._moves = EntryMoves()
        self.clear()  # prepared here: what is captured cannot be

    def _fields(self) -> Iterable[dataclasses.Field]:
        return (field for field in dataclasses.fields(self) if field.init)

    def _names(self, kind: str) -> list[str]:
        return [field.name for field in self._fields() if field.metadata[_KIND] == kind]

    def arrays(self) -> dict[str, wp.array]:
        """Every array by its name; copies of all of them bring the memory back exactly."""
        return {field.name: getattr(self, field.name) for field in self._fields()}

    def starts(self) -> Pairs:
        """Arrays that a reset brings back, and their values in one world."""
        return [(getattr(self, name), start) for name, start in self._start.items()]

    def followers(self) -> list[tuple[wp.array, str]]:
        """Arrays that follow the data after a reset, and the names of what they follow."""
        followed = ((field.name, field.metadata.get(_FOLLOWS)) for field in self._fields())
        return [(getattr(self, name), other) for name, other in followed if other is not None]

    def clear(self, mask: wp.array | None = None) -> None:
        """Forget the past of the worlds in the mask (nworld,), or of all: their values are the initial ones."""
        self._clear.run(self.starts(), mask)

    def saved(self) -> dict[str, wp.array]:
        """The arrays by the names that a `State` has for them."""
        prefix = {"per world": "", "entries": ENTRIES, "buffer": SHARED}
        fields = [field for field in self._fields() if field.metadata.get(_SAVED, True)]
        names = {field.name: prefix[field.metadata[_KIND]] + field.name for field in fields}
        if self._names("entries"):
            names |= {name: ENTRIES + name for name in ("adr", "num")}
        return {name: getattr(self, own) for own, name in names.items()}

    def load(self, saved: Mapping[str, wp.array], mask: wp.array | None, overflow: wp.array) -> None:
        """Put arrays of a `State`, which are on the device, into the worlds in the mask, or into all.

        Arrays of all worlds together come back only with all worlds. A world whose entries find no place has none, and
        its overflow is set.
        """
        own = self.saved()
        apart = [name for name in own if name.startswith((ENTRIES, SHARED))]
        for name in own:
            if name not in apart:
                copy_worlds(mask, saved[name], own[name])
        moved = {name.removeprefix(ENTRIES): name for name in apart if name.startswith(ENTRIES)}
        if moved:
            mine, theirs = ({key: given[name] for key, name in moved.items()} for given in (own, saved))
            self._moves.run(mine, theirs, mask, overflow)
        if mask is None:
            for name in apart:
                if name.startswith(SHARED):
                    wp.copy(own[name], saved[name])
