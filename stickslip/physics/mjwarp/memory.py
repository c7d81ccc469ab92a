"""What a physics remembers from one step to the next, besides MuJoCo Warp's own state.

A physics with memory declares it as a dataclass of device arrays and gives it to its data:

    @dataclasses.dataclass
    class WarmStart(Memory):
        count: wp.array = per_world()  # (nworld,) contacts of the last step
        force: wp.array = buffer()  # (naconmax,) their forces; only the first `count` of a world are read

    Data.extend(mjw.make_data(...), mjm, memory=WarmStart(count=wp.zeros(nworld, dtype=int), force=...))

`WarpPhysics` does the rest: `arrays` lists every field by its name, so that a copy brings the simulation back exactly;
`set_state` and `reset` bring the fields that are per world back to the value they were made with. No method needs to
be overridden. Make a memory once, with its initial values: all worlds of a `per_world` array must start with the
values of world 0. A step writes into the arrays and never replaces them.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import warp as wp

wp.set_module_options({"enable_backward": False})

_KIND = "memory"
_FOLLOWS = "follows"


def per_world(*, follows: str | None = None) -> Any:
    """A field with a leading world axis, which `reset` and `set_state` bring back to its initial value.

    Args:
        follows: after a reset, the field is a copy of the array of this name in the data, as it is after that reset
    """
    return dataclasses.field(metadata={_KIND: "per world", _FOLLOWS: follows})


def buffer() -> Any:
    """A field that is saved and restored, but that no reset touches.

    Its entries are guarded by a count that is per world, or they count something over all resets.
    """
    return dataclasses.field(metadata={_KIND: "buffer", _FOLLOWS: None})


@wp.kernel
def _copy_words(mask: wp.array[bool], source: wp.array2d[wp.int32], out: wp.array2d[wp.int32]):
    worldid, i = wp.tid()
    if mask.shape[0] == 0 or mask[worldid]:
        out[worldid, i] = source[worldid % source.shape[0], i]


@wp.kernel
def _copy_bytes(mask: wp.array[bool], source: wp.array2d[wp.uint8], out: wp.array2d[wp.uint8]):
    worldid, i = wp.tid()
    if mask.shape[0] == 0 or mask[worldid]:
        out[worldid, i] = source[worldid % source.shape[0], i]


def _words(array: wp.array) -> wp.array:
    """The same memory as words of four bytes, or as bytes where these do not fit: one kernel then copies every type."""
    if not array.is_contiguous:
        raise ValueError(f"an array of shape {array.shape} is not contiguous: give a memory whole arrays")
    size = array.size // array.shape[0] * wp.types.type_size_in_bytes(array.dtype)
    dtype, width = (wp.int32, 4) if size % 4 == 0 else (wp.uint8, 1)
    return wp.array(ptr=array.ptr, shape=(array.shape[0], size // width), dtype=dtype, device=array.device)


def copy_worlds(mask: wp.array | None, source: wp.array, out: wp.array) -> None:
    """Copy the worlds in the mask, or all, from an array with as many worlds, or with one that stands for all."""
    if out.size:
        given, written = _words(source), _words(out)
        kernel = _copy_words if written.dtype is wp.int32 else _copy_bytes
        wp.launch(kernel, dim=written.shape, inputs=[mask, given], outputs=[written], device=out.device)


@dataclasses.dataclass
class Memory:
    """The memory of a physics; one without fields remembers nothing. See the module for how to declare one."""

    _start: dict[str, wp.array] = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._start = {}
        for field in self._fields():
            if field.metadata.get(_KIND) == "per world":
                array = getattr(self, field.name)
                self._start[field.name] = wp.clone(array[:1]) if array.size else array
            elif field.metadata.get(_KIND) != "buffer":
                raise TypeError(f"{type(self).__name__}.{field.name}: declare it with per_world() or buffer()")

    def _fields(self) -> Iterable[dataclasses.Field]:
        return (field for field in dataclasses.fields(self) if field.init)

    def arrays(self) -> dict[str, wp.array]:
        """Every array by its name; copies of all of them bring the memory back exactly."""
        return {field.name: getattr(self, field.name) for field in self._fields()}

    def clear(self, mask: wp.array | None = None) -> None:
        """Forget the past of the worlds in the mask (nworld,), or of all: their values are the initial ones."""
        for name, start in self._start.items():
            copy_worlds(mask, start, getattr(self, name))

    def reset(self, data: Mapping[str, wp.array], mask: wp.array | None = None) -> None:
        """Clear, then copy what follows the data, which has been reset."""
        self.clear(mask)
        for field in self._fields():
            followed = field.metadata[_FOLLOWS]
            if followed is not None:
                copy_worlds(mask, data[followed], getattr(self, field.name))
