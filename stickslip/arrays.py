"""Arrays of any library, on the host or on a device, into arrays of a simulation, without a way through the host.

Values from the host are checked there, and raise. Values that are on the device already are checked there: a world
with one that is not finite is not written, and counted.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from stickslip.errors import InputError
from stickslip.state import as_numbers, check_array

wp.set_module_options({"enable_backward": False})

_LEAST = -float(np.finfo(np.float32).max)
_SCALARS = (
    wp.float16,
    wp.float32,
    wp.float64,
    wp.int8,
    wp.int16,
    wp.int32,
    wp.int64,
    wp.uint8,
    wp.uint16,
    wp.uint32,
    wp.uint64,
    wp.bool,
)


@wp.func
def is_taken(mask: wp.array[bool], worldid: int) -> bool:
    """Whether a world is in a mask; no mask stands for all."""
    if mask.shape[0] == 0:
        return True
    return mask[worldid]


@wp.kernel
def _write_worlds(
    # In:
    mask: wp.array[bool],
    value: wp.array2d[Any],
    least: float,
    check: bool,
    # Out:
    refused_out: wp.array[int],
    out: wp.array2d[float],
):
    """Write a world's values, unless one of them is not finite or below a bound."""
    worldid = wp.tid()
    if not is_taken(mask, worldid):
        return
    source = worldid % value.shape[0]
    fine = bool(True)
    for i in range(value.shape[1]):
        number = float(value[source, i])
        fine = fine and wp.isfinite(number) and number >= least
    if fine or not check:
        for i in range(value.shape[1]):
            out[worldid, i] = float(value[source, i])
    else:
        wp.atomic_add(refused_out, 0, 1)


@wp.kernel
def _write_flags(
    # In:
    mask: wp.array[bool],
    value: wp.array2d[Any],
    # Out:
    out: wp.array2d[bool],
):
    worldid, i = wp.tid()
    if not is_taken(mask, worldid):
        return
    out[worldid, i] = value[worldid % value.shape[0], i] != value.dtype(0)


for _scalar in _SCALARS:
    wp.overload(_write_flags, [wp.array[wp.bool], wp.array2d[_scalar], wp.array2d[wp.bool]])
    if _scalar is not wp.bool:
        wp.overload(
            _write_worlds,
            [wp.array[wp.bool], wp.array2d[_scalar], float, bool, wp.array[wp.int32], wp.array2d[wp.float32]],
        )


def shape_of(array: wp.array) -> tuple[int, ...]:
    """Shape with the components of vector and matrix types as trailing axes."""
    return tuple(array.shape) + tuple(getattr(array.dtype, "_shape_", ()))


def numpy_type(array: wp.array) -> Any:
    """The type that NumPy has for the numbers of an array."""
    return wp.dtype_to_numpy(getattr(array.dtype, "_wp_scalar_type_", array.dtype))


def device_array(name: str, value: Any, device: wp.Device) -> wp.array | None:
    """The same memory as a Warp array of scalars, if it is on the device; None if it is on the host.

    Raises InputError for memory of another CUDA device. An array of Warp on the CPU is on the device of a simulation on
    the CPU; other arrays on the host are not.
    """
    if isinstance(value, wp.array):
        array = value
    elif isinstance(value, (np.ndarray, np.generic, list, tuple, int, float, bool)):
        return None
    elif hasattr(value, "__cuda_array_interface__") or hasattr(value, "__dlpack__"):
        array = _shared(name, value, device)
    else:
        return None
    if array.device == device:
        return array if isinstance(value, wp.array) or device.is_cuda else None
    if array.device.is_cuda:
        raise InputError(
            f"{name} is on {array.device.alias}, the simulation on {device.alias}: move it there first, or copy it to "
            "the host"
        )
    return None


def _shared(name: str, value: Any, device: wp.Device) -> wp.array:
    """The memory of an array of another library."""
    if getattr(value, "requires_grad", False):
        value = value.detach()
    try:
        if hasattr(value, "__dlpack__"):
            return wp.from_dlpack(value)
        told = value.__cuda_array_interface__
        if not device.is_cuda:
            raise ValueError(f"it is on a CUDA device, the simulation on {device.alias}")
        shared = wp.array(
            ptr=told["data"][0],
            shape=tuple(told["shape"]),
            strides=told.get("strides"),
            dtype=wp.dtype_from_numpy(np.dtype(told["typestr"])),
            device=device,
        )
        shared._owner = value
        return shared
    except Exception as error:  # each library has errors of its own
        raise InputError(
            f"{name}: this {type(value).__name__} cannot be read: {error}; give an array of NumPy, Warp, PyTorch or JAX"
        ) from None


def host_array(value: Any) -> Any:
    """An array of any library that is on the host, as NumPy reads it."""
    if isinstance(value, wp.array):
        return value.numpy()
    if getattr(value, "requires_grad", False):
        return value.detach().numpy()
    return value


def scalars(array: wp.array, rows: int) -> wp.array:
    """The same numbers as (rows, n) scalars; a copy on the device if they are not contiguous."""
    if not array.is_contiguous:
        array = array.contiguous()
    scalar = getattr(array.dtype, "_wp_scalar_type_", array.dtype)
    count = array.size * wp.types.type_size(array.dtype)
    return _alias(array, (rows, count // max(rows, 1)), scalar)


def _alias(array: wp.array, shape: tuple[int, ...], dtype: Any) -> wp.array:
    """The same memory, which stays as long as the alias does, with another shape and type."""
    alias = wp.array(ptr=array.ptr, shape=shape, dtype=dtype, device=array.device, copy=False)
    alias._owner = array
    return alias


def write(
    name: str,
    out: wp.array,
    value: Any,
    refused: wp.array,
    mask: wp.array | None = None,
    least: float | None = None,
    check: bool = True,
) -> None:
    """Write a value for every world, or one for all, into an array of floats or flags, (nworld, ...).

    Args:
        name: for messages
        out: the array
        value: of any library, (nworld, ...) or without the axis of worlds
        refused: counts worlds whose value, on the device, is not finite or too small, and not written       (1,)
        mask: worlds to write, on the device; None: all
        least: smallest value that is allowed
        check: whether values on the device are checked
    """
    shape = shape_of(out)
    given = device_array(name, value, out.device)
    least = _LEAST if least is None else least
    if given is None:
        given = _upload(name, value, out, least)
    elif shape_of(given) not in (shape, shape[1:], (1, *shape[1:])):
        raise InputError(f"{name} has shape {shape_of(given)}, expected {shape}, or {shape[1:]} for all worlds")
    if not out.size:
        return
    if not out.is_contiguous:
        whole = out.contiguous()
        write(name, whole, given, refused, mask, least, check)
        wp.copy(out, whole)
        return
    if getattr(given.dtype, "_wp_scalar_type_", given.dtype) not in _SCALARS:
        raise InputError(f"{name} has elements of type {given.dtype}: give numbers")
    worlds = shape[0] if shape_of(given) == shape else 1
    put(name, out, scalars(given, worlds), refused, mask, least, check)


def put(
    name: str,
    out: wp.array,
    source: wp.array,
    refused: wp.array,
    mask: wp.array | None,
    least: float = _LEAST,
    check: bool = False,
) -> None:
    """Write scalars of all worlds, or of one that stands for all, (nworld or 1, n), into an array; see `write`."""
    target = scalars(out, out.shape[0])
    if target.dtype is wp.bool:
        wp.launch(_write_flags, target.shape, inputs=[mask, source], outputs=[target], device=out.device)
    elif source.dtype is wp.bool:
        raise InputError(f"{name} has elements of type bool: give numbers")
    else:
        inputs = [mask, source, least, check]
        wp.launch(_write_worlds, out.shape[0], inputs=inputs, outputs=[refused, target], device=out.device)


def _upload(name: str, value: Any, out: wp.array, least: float) -> wp.array:
    """Checked values from the host, on the device."""
    shape = shape_of(out)
    value = host_array(value)
    is_flag = out.dtype is wp.bool
    array = as_numbers(name, value, shape, bool if is_flag else float)
    if array.shape not in (shape, shape[1:], (1, *shape[1:])):
        raise InputError(f"{name} has shape {array.shape}, expected {shape}, or {shape[1:]} for all worlds")
    if not is_flag:
        check_array(name, array, array.shape)
        if (array < least).any():
            raise InputError(f"{name} is {array.min():g} somewhere: it must be at least {least:g}")
    worlds = array.reshape(shape[0] if array.shape == shape else 1, -1)
    uploaded = wp.array(worlds, dtype=wp.bool if is_flag else wp.float32, device=out.device)
    return _alias(uploaded, array.shape or (1,), uploaded.dtype)


def like(name: str, value: Any, own: wp.array) -> wp.array:
    """A value for every world, or one for all, as an array like `own`, with as many worlds or one, on its device."""
    given = device_array(name, value, own.device)
    shape = shape_of(own)
    if given is None:
        given = _upload(name, value, own, _LEAST)
    elif shape_of(given) not in (shape, shape[1:], (1, *shape[1:])):
        raise InputError(f"{name} has shape {shape_of(given)}, expected {shape}, or {shape[1:]} for all worlds")
    worlds = shape[0] if shape_of(given) == shape else 1
    scalar = getattr(own.dtype, "_wp_scalar_type_", own.dtype)
    if getattr(given.dtype, "_wp_scalar_type_", given.dtype) is not scalar or not given.is_contiguous:
        out = wp.empty((worlds, *own.shape[1:]), dtype=own.dtype, device=own.device)
        write(name, out, given, wp.zeros(1, dtype=int, device=own.device), check=False)
        return out
    return _alias(given, (worlds, *own.shape[1:]), own.dtype)


def rows_like(name: str, value: Any, own: wp.array, rows: Sequence[int] | None) -> wp.array:
    """An array with rows like those of `own`, of any type, on its device; its values are not checked.

    Args:
        name: for messages
        value: the array
        own: an array with the type and the shape of rows
        rows: how many there may be; None: any number
    """
    given = device_array(name, value, own.device)
    shape = shape_of(own)
    if given is not None:
        found, fits = shape_of(given), given.dtype is own.dtype and given.is_contiguous
    else:
        value = np.asarray(host_array(value))
        found, fits = value.shape, True
    if found[1:] != shape[1:] or not fits or (rows is not None and found[0] not in rows):
        raise InputError(f"{name} has shape {found}, expected {shape}: is it of a model of other sizes?")
    if given is not None:
        return given
    return wp.array(value, dtype=own.dtype, shape=(found[0], *own.shape[1:]), device=own.device)


@wp.kernel
def _find_fit(
    # In:
    least: float,
    value: wp.array2d[Any],
    # Out:
    fine_out: wp.array[bool],
):
    worldid = wp.tid()
    for i in range(value.shape[1]):
        number = float(value[worldid % value.shape[0], i])
        if not wp.isfinite(number) or number < least:
            fine_out[worldid] = False


for _scalar in _SCALARS:
    if _scalar is not wp.bool:
        wp.overload(_find_fit, [float, wp.array2d[_scalar], wp.array[wp.bool]])


@wp.kernel
def _refuse(
    # In:
    mask: wp.array[bool],
    # Out:
    fine_out: wp.array[bool],
    refused_out: wp.array[int],
):
    worldid = wp.tid()
    if not is_taken(mask, worldid):
        fine_out[worldid] = False
    elif not fine_out[worldid]:
        wp.atomic_add(refused_out, 0, 1)


def find_fit(value: wp.array, nworld: int, least: float | None, fine: wp.array) -> None:
    """Clear the flag of each world that has a value that is not finite, or below a bound.

    `value` has a leading axis of worlds: as many as there are, or one that stands for all.
    """
    flat = scalars(value, value.shape[0])
    if flat.size and flat.dtype is not wp.bool:
        least = _LEAST if least is None else least
        wp.launch(_find_fit, nworld, inputs=[least, flat], outputs=[fine], device=fine.device)


def refuse(mask: wp.array | None, fine: wp.array, refused: wp.array) -> None:
    """Count the worlds of the mask that are not fine, and leave those of it that are."""
    wp.launch(_refuse, fine.shape[0], inputs=[mask], outputs=[fine, refused], device=fine.device)


def finite_worlds(values: Iterable[wp.array], mask: wp.array | None, nworld: int, refused: wp.array) -> wp.array:
    """The mask without worlds that have a value that is not finite, which are counted."""
    fine = wp.full(nworld, True, dtype=bool, device=refused.device)
    for value in values:
        find_fit(value, nworld, None, fine)
    refuse(mask, fine, refused)
    return fine


def mask_of(mask: Any, nworld: int, device: wp.Device) -> wp.array | None:
    """The mask of worlds, (nworld,) of bool on the device; None stands for all."""
    if mask is None:
        return None
    given = device_array("mask", mask, device)
    if given is None:
        array: NDArray[Any] = np.asarray(host_array(mask))
        if array.shape != (nworld,) or array.dtype != np.bool_:
            raise InputError(f"mask must be bool of shape ({nworld},), got {array.dtype} of shape {array.shape}")
        return wp.array(array, dtype=bool, device=device)
    if shape_of(given) != (nworld,) or given.dtype not in (wp.bool, wp.uint8, wp.int8, wp.int32):
        kind = getattr(given.dtype, "__name__", given.dtype)
        raise InputError(f"mask must be bool of shape ({nworld},), got {kind} of shape {shape_of(given)}")
    if given.dtype is wp.bool and given.is_contiguous:
        return given
    flags = wp.empty(nworld, dtype=bool, device=device)
    source = scalars(given, nworld)
    wp.launch(_write_flags, (nworld, 1), inputs=[None, source], outputs=[scalars(flags, nworld)], device=device)
    return flags
