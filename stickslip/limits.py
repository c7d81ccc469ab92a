"""How large the files may be that are read: a file of a stranger cannot fill the memory.

`stickslip.limits.text = 2**30` changes a limit, and so does STICKSLIP_LIMITS="text=2**30,depth=200" in the environment,
which counts first.
"""

import os
import re
from typing import Final

from stickslip.errors import InputError, unknown

VARIABLE: Final = "STICKSLIP_LIMITS"
_NUMBER = re.compile(r"(\d+)(?:\*\*(\d{1,2}))?")

text: int = 2**28
"""Bytes of a file of text: XML with all that it includes, JSON, TOML, csv."""
arrays: int = 2**34
"""Bytes of the arrays of one file, unpacked."""
entries: int = 10_000
"""Arrays of one file."""
asset: int = 2**31
"""Bytes of a mesh, texture or height field that a model names."""
depth: int = 500
"""Levels of XML, JSON or TOML within each other."""
elements: int = 10**6
"""Elements that a model makes by counts: copies of a replicate, points of a flexcomp, numbers of a height field ..."""

_NAMES = ("text", "arrays", "entries", "asset", "depth", "elements")


def get(name: str) -> int:
    """A limit as it is now; raises InputError for an environment variable that does not say limits."""
    for given in filter(None, os.environ.get(VARIABLE, "").split(",")):
        key, _, value = (part.strip() for part in given.partition("="))
        found = _NUMBER.fullmatch(value)
        if key not in _NAMES:
            raise InputError(f"{VARIABLE}: {unknown('limit', key, _NAMES)}")
        if found is None:
            raise InputError(f"{VARIABLE}: {key}={value!r} must be a whole number, such as 1000 or 2**30")
        if key == name:
            return int(found[1]) ** int(found[2] or 1)
    return int(globals()[name])


def check(name: str, value: int, what: str) -> None:
    """Raise InputError if a value is above a limit; `what` begins the message: `x.json has bytes`."""
    most = get(name)
    if value > most:
        raise InputError(
            f"{what}: {value}, at most {most} are read. If you trust it, set stickslip.limits.{name} = {value}, or "
            f"{VARIABLE}={name}={value} in the environment"
        )
