"""Cells: one set of parameters each, with a hash over all that the result depends on."""

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from typing import Any

from stickslip import provenance
from stickslip.errors import StickslipError
from stickslip.studies import work
from stickslip.studies.definition import Definition
from stickslip.studies.work.base import Resolved

FORMAT = 1
"""Of the hash; raised when the meaning of a stored result changes."""
DIGITS = 40
"""Hexadecimal digits of a hash."""


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a study.

    Attributes:
        hash: over what it runs, all parameters, device, source, model and versions: equal hashes, equal results
        run: what it runs
        parameters: those that were given, as JSON
        device: "cpu" or "cuda"
        group: cells of one group use the same kernels
        source: digest of the code
        model: digests of models and files
    """

    hash: str
    run: str
    parameters: str
    device: str
    group: str
    source: str
    model: str

    def task(self) -> dict[str, Any]:
        """What a process is sent."""
        return {field: getattr(self, field) for field in ("hash", "run", "parameters", "device", "source", "model")}


def text(obj: Any) -> str:
    """JSON with sorted keys and nothing between: the same text for the same values."""
    return json.dumps(obj, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def device_of(definition: Definition) -> str:
    """ "cpu" or "cuda": what the study names, else what there is."""
    import warp as wp

    return definition.settings.device or ("cuda" if wp.is_cuda_available() else "cpu")


def digest_of(cell: dict[str, Any], resolved: Resolved, versions: dict[str, str]) -> tuple[str, str, str]:
    """Hash of a cell, digest of its code, digests of its models and files."""
    source, model = provenance_of(resolved.modules), text(resolved.contents)
    whole = {
        "format": FORMAT,
        "run": cell["run"],
        "values": resolved.values,
        "device": cell["device"],
        "source": source,
        "model": resolved.contents,
        "versions": versions,
    }
    return hashlib.sha256(text(whole).encode()).hexdigest()[:DIGITS], source, model


_digests: dict[tuple[str, ...], str] = {}


def provenance_of(modules: tuple[str, ...]) -> str:
    """Digest of the code of modules and all that they import."""
    if modules not in _digests:
        _digests[modules] = provenance.digest(modules)
    return _digests[modules]


def known_code() -> list[dict[str, Any]]:
    """The digests that this process found, with place, time and size of the files, for `trust`."""
    found = []
    for modules, digest in _digests.items():
        stats = {str(path): [path.stat().st_mtime_ns, path.stat().st_size] for path in provenance.files(modules)}
        found.append({"modules": list(modules), "digest": digest, "files": stats})
    return found


def trust(known: list[dict[str, Any]]) -> None:
    """Take over digests of code whose files are the same here: reading it all takes seconds."""
    for one in known:
        with contextlib.suppress(OSError):
            for path, stats in one["files"].items():
                found = os.stat(path)
                if [found.st_mtime_ns, found.st_size] != stats:
                    break
            else:
                _digests[tuple(one["modules"])] = one["digest"]


def cells(
    definition: Definition, device: str, progress: Callable[[int], None] = lambda done: None
) -> Iterator[Cell]:  # fmt: skip
    """The cells of a study, each hash once; raises what is wrong with the parameters of one."""
    subject = work.find(definition.run)
    versions = versions_of(subject.packages)
    seen: set[str] = set()
    for place, given in enumerate(definition.combinations()):
        try:
            resolved = subject.resolve(given, device)
        except StickslipError as error:
            shown = ", ".join(f"{name} = {given[name]!r}" for name in definition.varied if name in given)
            raise type(error)(f"{error}" + (f" (cell {place + 1}: {shown})" if shown else "")) from None
        found, source, model = digest_of({"run": definition.run, "device": device}, resolved, versions)
        if found not in seen:
            seen.add(found)
            yield Cell(found, definition.run, text(given), device, resolved.group, source, model)
        progress(place + 1)


@functools.cache
def versions_of(packages: tuple[str, ...]) -> dict[str, str]:
    """Versions of what every cell uses, and of some packages."""
    return {**provenance.versions(), **{name: provenance.package_version(name) for name in packages}}
