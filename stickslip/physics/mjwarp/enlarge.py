"""Larger buffers for data that is in use: what does not depend on their size stays in the same arrays."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import warp as wp
from warp._src.codegen import StructInstance  # private: the class of what @wp.struct makes

from stickslip.physics.mjwarp.data import Data


def adopt(d: Data, larger: Data, remembered: Mapping[str, wp.array], theirs: Mapping[str, wp.array]) -> None:
    """Give data the buffers of other data, made for the same model and as many worlds but of other sizes.

    Both are walked side by side: their parts, structs and dictionaries. An array whose shape is the same in both stays,
    the very object, so that views of it stay valid, and so do values that nobody has named. All else, arrays of
    another shape and plain values, is taken from `larger`.

    Args:
        d: the data in use; changed in place
        larger: fresh data with the new sizes; shares arrays with `d` afterwards, so throw it away
        remembered: what a step of `d` reads from before, by name
        theirs: the same of `larger`; what `d` remembers is copied to the beginning of each
    """
    for name, array in remembered.items():
        _copy_beginning(array, theirs[name])
    changes = list(_compare(d, larger, set()))
    replaced = [old for _, _, old, new in changes if isinstance(old, wp.array) and not _alike(old, new)]
    for owner, name, old, new in changes:
        if not _alike(old, new) or any(_overlap(old, other) for other in replaced):
            _put(owner, name, new)


def _compare(old: Any, new: Any, seen: set[int]) -> Iterator[tuple[Any, str, Any, Any]]:
    """Owner, name and both values of every leaf; a part that is reached twice is compared once."""
    if id(old) in seen:
        return
    seen.add(id(old))
    for name in list(_members(old)):
        one, two = _get(old, name), _get(new, name)
        if _is_part(one) and type(one) is type(two) and _members(one) == _members(two):
            yield from _compare(one, two, seen)
        elif one is not two:
            yield old, name, one, two


def _is_part(value: Any) -> bool:
    if isinstance(value, (StructInstance, dict)):
        return True
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _members(part: Any) -> list[str]:
    if isinstance(part, StructInstance):
        return list(type(part)._cls.vars)  # pyright: ignore[reportAttributeAccessIssue]
    return list(part) if isinstance(part, dict) else list(vars(part))


def _get(part: Any, name: str) -> Any:
    return part[name] if isinstance(part, dict) else getattr(part, name)


def _put(part: Any, name: str, value: Any) -> None:
    if isinstance(part, dict):
        part[name] = value
    elif isinstance(part, StructInstance):
        setattr(part, name, value)
    else:
        object.__setattr__(part, name, value)  # frozen ones too


def _alike(one: Any, two: Any) -> bool:
    """Whether both are arrays of the same shape and type."""
    arrays = isinstance(one, wp.array) and isinstance(two, wp.array)
    return arrays and one.shape == two.shape and one.dtype is two.dtype


def _overlap(one: wp.array, two: wp.array) -> bool:
    """Whether two arrays share memory: then one is a view of the other, or both are of a third."""
    if not (one.ptr and two.ptr and one.size and two.size):
        return False
    return one.ptr < two.ptr + two.capacity and two.ptr < one.ptr + one.capacity


def _copy_beginning(source: wp.array, target: wp.array) -> None:
    """Copy an array into one that is at least as long along every axis."""
    if source.size:
        wp.copy(target[tuple(slice(0, n) for n in source.shape)], source)
