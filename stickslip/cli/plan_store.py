"""The trials that `stickslip plan` has run, in a JSON file that several processes may share."""

import json
from pathlib import Path
from typing import Any

from stickslip import files
from stickslip.errors import DamagedFile, InputError

Key = tuple[str, int]
"""Object and seed of a trial."""


class Store:
    """Stored trials. Each is added to those in the file under a lock, so that processes do not lose each other's.

    Args:
        path: the JSON file
        head: what was run with what; trials of another head do not count
        again: run everything again; a file with another head is replaced

    Attributes:
        path: the JSON file
        done: rows of the trials that need not run
    """

    def __init__(self, path: Path, head: dict[str, Any], again: bool) -> None:
        self.path = path
        self.done: dict[Key, dict[str, Any]] = {}
        self._head = json.loads(json.dumps(files.plain(head)))
        self._replace = again
        if not again:
            self.done = self._read()

    def add(self, row: dict[str, Any]) -> None:
        """Store the row of a trial, which has `object` and `seed`."""
        row = files.plain(row)
        key = row["object"], row["seed"]
        with files.locked(self.path.parent):
            rows = {**self._read(), key: row}
            files.write_json(self.path, {**self._head, "trials": list(rows.values())})
        self._replace = False
        self.done[key] = row

    def _read(self) -> dict[Key, dict[str, Any]]:
        """Rows of the file; none if there is no file, or if it is to be replaced."""
        if not self.path.exists():
            return {}
        try:
            content = files.read_json(self.path, "a result of `stickslip plan`")
            rows = {(row["object"], int(row["seed"])): row for row in content["trials"]}
            stored = {name: content[name] for name in self._head}
        except (OSError, ValueError, KeyError, TypeError) as error:
            if self._replace:
                return {}
            if isinstance(error, DamagedFile):
                raise
            raise InputError(
                f"{self.path} is not a result of `stickslip plan` ({error}): remove it, or give another --out"
            ) from None
        other = [name for name, value in self._head.items() if stored[name] != value]
        if other and not self._replace:
            raise InputError(
                f"{self.path} holds trials with another {other[0]}; replace them with --again, or give another --out"
            )
        return {} if other else rows
