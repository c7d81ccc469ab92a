"""What is stored of a cell: a row of a parquet file of its own, and many rows together in a part."""

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stickslip import files, limits
from stickslip.errors import DamagedFile, InputError, MissingExtra

if TYPE_CHECKING:
    import pyarrow

DONE, FAILED = "done", "failed"
"""Status of a cell that has a record."""
EXACT = 2**53
"""Whole numbers up to this one are exact as float64."""
OWN = ("cell", "status", "cause", "error", "messages", "files", "tries", "wall_s", "began", "machine", "versions")
"""Columns of a table besides parameters, metrics and labels."""


@dataclasses.dataclass
class Record:
    """What came of a cell.

    Attributes:
        cell: its hash
        run: what it ran
        parameters: those that were given, as JSON
        status: "done" or "failed"
        metrics: numbers by name
        labels: words by name
        messages: what makes the metrics doubtful
        files: names of the files beside it
        cause: what failed, in short; cells that fail alike have the same
        error: the whole message
        tries: how often it was run
        machine, versions: where and with what, as JSON
        source, model: digests
        began: when, UTC, in ISO 8601
        wall_s: how long it took, with compiling [s]
    """

    cell: str
    run: str
    parameters: str
    status: str = DONE
    metrics: dict[str, float] = dataclasses.field(default_factory=dict)
    labels: dict[str, str] = dataclasses.field(default_factory=dict)
    messages: list[str] = dataclasses.field(default_factory=list)
    files: list[str] = dataclasses.field(default_factory=list)
    cause: str = ""
    error: str = ""
    tries: int = 1
    machine: str = "{}"
    versions: str = "{}"
    source: str = ""
    model: str = ""
    began: str = ""
    wall_s: float = 0.0

    def result(self) -> dict[str, Any]:
        """What depends on the parameters alone: the same in every run, on every machine of a kind."""
        names = ("cell", "run", "parameters", "status", "metrics", "labels", "messages", "files", "source", "model")
        return {name: getattr(self, name) for name in names}


def package() -> tuple[Any, Any]:
    """pyarrow and its parquet; raises MissingExtra without them."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra("studies need pyarrow: pip install 'stickslip[study]'") from None
    return pyarrow, pyarrow.parquet


_schema: Any = None


def schema() -> Any:
    """Of every file of records."""
    global _schema
    if _schema is None:
        pa, _ = package()
        kinds: dict[str, Any] = {
            "metrics": pa.map_(pa.string(), pa.float64()),
            "labels": pa.map_(pa.string(), pa.string()),
            "messages": pa.list_(pa.string()),
            "files": pa.list_(pa.string()),
            "tries": pa.int32(),
            "wall_s": pa.float64(),
        }
        names = [field.name for field in dataclasses.fields(Record)]
        _schema = pa.schema([(name, kinds.get(name, pa.string())) for name in names])
    return _schema


def encode(records: Sequence[Record]) -> bytes:
    """A parquet file of records."""
    pa, _ = package()
    columns: list[Any] = []
    for field in schema():
        values = [getattr(record, field.name) for record in records]
        if field.name in ("metrics", "labels"):
            values = [list(value.items()) for value in values]
        columns.append(pa.array(values, type=field.type))
    many = len(records) > 1
    return packed(
        pa.Table.from_arrays(columns, schema=schema()),
        compression="zstd" if many else "none",
        use_dictionary=many,
        write_statistics=False,
    )


def packed(table: "pyarrow.Table", **options: Any) -> bytes:
    """The content of a parquet file with a checksum among its metadata."""
    pa, pq = package()
    out = pa.BufferOutputStream()
    with pq.ParquetWriter(out, table.schema, store_schema=False, **options) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({files.CHECKSUM: files.BLANK})
    return files.sealed(out.getvalue().to_pybytes())


def read(path: Path) -> "pyarrow.Table | None":
    """The rows of a file of records; None if it is damaged or of another kind."""
    pa, _ = package()
    try:
        return opened(files.read_bytes(path), path)
    except (OSError, KeyError, DamagedFile, pa.ArrowException):  # a file that a failing disk or a hand has changed
        return None


def opened(data: bytes, path: str | Path = "a table") -> "pyarrow.Table":
    """The rows of a file of records, given its content."""
    return table(data, path).select(schema().names).cast(schema())


def table(data: bytes, path: str | Path) -> "pyarrow.Table":
    """The table of a parquet file, given its content; raises InputError if it is larger than `limits` allows."""
    pa, pq = package()
    file = pq.ParquetFile(pa.BufferReader(data))
    about = file.metadata
    sizes = (about.row_group(group).total_byte_size for group in range(about.num_row_groups))
    size = max(sum(sizes), 8 * about.num_rows * about.num_columns)
    limits.check("arrays", size, f"{path} unpacks to too many bytes")
    return file.read()


def rows(table: "pyarrow.Table", places: Sequence[int]) -> "pyarrow.Table":
    """Some rows of a table, by their numbers."""
    pa, _ = package()
    return table.take(pa.array(places, type=pa.int64()))


def decode(table: "pyarrow.Table") -> list[Record]:
    """The records of a table of records."""
    return [Record(**row) for row in table.to_pylist(maps_as_pydicts="lossy")]


def metrics_of(found: Mapping[str, Any]) -> dict[str, float]:
    """Numbers as float64; raises InputError for what would change on the way."""
    kept: dict[str, float] = {}
    for name, value in found.items():
        if not isinstance(name, str) or not name:
            raise InputError(f"metric {name!r}: a name must be text")
        if isinstance(value, int) and abs(value) > EXACT:
            raise InputError(f"metric {name!r} is {value}: whole numbers above 2^53 are not exact; give it as text")
        kept[name] = float(value)
    return kept


def check_names(names: Iterable[str], parameters: Iterable[str]) -> None:
    """Raise InputError if a metric or label has the name of a parameter or of a column of its own."""
    taken = {*OWN, *parameters}
    for name in names:
        if name in taken:
            raise InputError(f"{name!r} is a metric, and a column of another kind already: give it another name")


def wide(table: "pyarrow.Table", parameters: Sequence[str] = ()) -> "pyarrow.Table":
    """A table with a column for each parameter, metric and label, from a table of records."""
    pa, _ = package()
    given: list[dict[str, Any]] = [json.loads(text) for text in table["parameters"].to_pylist()]
    names = list(dict.fromkeys([*parameters, *(name for row in given for name in row)]))
    columns: dict[str, Any] = {"cell": table["cell"], "status": table["status"]}
    for name in names:
        columns[name] = _column([row.get(name) for row in given])
    for kind in ("metrics", "labels"):
        columns |= spread(table[kind])
    for name in ("cause", "error", "messages", "files", "tries", "wall_s", "began", "machine", "versions"):
        columns[name] = table[name]
    return pa.table(columns)


def spread(column: Any) -> dict[str, Any]:
    """A column for each key of a column of maps; null where a row has none."""
    pa, _ = package()
    import pyarrow.compute as pc

    whole = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], type=column.type)
    offsets = whole.offsets.to_numpy()
    import numpy as np

    row_of = np.repeat(np.arange(len(whole)), np.diff(offsets))
    keys = whole.keys.slice(offsets[0], offsets[-1] - offsets[0]) if len(whole) else whole.keys
    items = whole.items.slice(offsets[0], offsets[-1] - offsets[0]) if len(whole) else whole.items
    coded = keys.dictionary_encode()
    found: dict[str, Any] = {}
    codes = coded.indices.to_numpy(zero_copy_only=False)
    for code, name in enumerate(coded.dictionary.to_pylist()):
        at = np.flatnonzero(codes == code)
        places = np.full(len(whole), -1, dtype=np.int64)
        places[row_of[at]] = at
        indices = pa.array(places, mask=places < 0)
        found[name] = pc.take(items, indices)
    return found


def _column(values: list[Any]) -> Any:
    """A column of parameters; text where kinds differ."""
    pa, _ = package()
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        values = [None if value is None else float(value) for value in values]
    elif len(kinds) > 1 or kinds & {list, dict}:
        values = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
    return pa.array(values)


def write(table: "pyarrow.Table", path: Path) -> None:
    """Write a wide table to a file that ends in .parquet or .csv, in which lists become JSON."""
    pa, pq = package()
    out = pa.BufferOutputStream()
    if path.suffix == ".csv":
        import pyarrow.csv

        for name in ("messages", "files"):
            texts = pa.array([json.dumps(value) for value in table[name].to_pylist()])
            table = table.set_column(table.column_names.index(name), name, texts)
        pyarrow.csv.write_csv(table, out)
    else:
        pq.write_table(table, out, compression="zstd")
    files.write_bytes_atomic(path, out.getvalue().to_pybytes())


def machine_text(machine: Mapping[str, Any]) -> str:
    """For a record."""
    return json.dumps(files.plain(dict(machine)), sort_keys=True)


def same(one: Record, other: Record) -> bool:
    """Whether two records have the same result, bit for bit; NaN equals NaN."""
    first, second = one.result(), other.result()
    mine, theirs = first.pop("metrics"), second.pop("metrics")
    equal = all(
        mine[name] == theirs[name] or (math.isnan(mine[name]) and math.isnan(theirs[name]))
        for name in mine
        if name in theirs
    )
    return first == second and mine.keys() == theirs.keys() and equal
