"""Every error stickslip raises on purpose.

A message names the value that was given, the limit it broke and what to do about it.
Each class is also the built-in exception a caller would expect, so `except ValueError` keeps working.
"""

import difflib
from collections.abc import Iterable


class StickslipError(Exception):
    """Base of all errors raised on purpose."""


class InputError(StickslipError, ValueError):
    """A value of the wrong shape, kind or range: NaN, a negative stiffness, zero worlds."""


class DamagedFile(InputError):
    """A file that is not as it was written: cut short, or changed by a disk, a transfer or by hand."""


class SceneError(StickslipError, ValueError):
    """A scene that cannot be found or does not compile."""


class DeviceError(StickslipError, RuntimeError):
    """A device that this machine does not have."""


class Unsupported(StickslipError, NotImplementedError):
    """Features of a model that a physics cannot honour; the message names each of them."""


class MissingExtra(StickslipError, ImportError):
    """An optional package that is not installed; the message names the extra to install."""


class BufferOverflow(StickslipError, RuntimeError):
    """A fixed-size buffer was too small: contacts or constraint rows were dropped."""


class Diverged(StickslipError, RuntimeError):
    """A state that is no longer finite."""


class HealthWarning(UserWarning):
    """Problems found when state or contacts of a simulation were read; `health()` gives details."""


def unknown(kind: str, name: object, names: Iterable[str]) -> InputError:
    """The error for a name that is not among those there are, with close ones: `no scene named 'pil'; did you ...`."""
    known = list(names)
    close = difflib.get_close_matches(str(name), known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(map(repr, close))}? " if close else ""
    return InputError(f"no {kind} named {name!r}; {hint}there are: {', '.join(known) or 'none'}")
