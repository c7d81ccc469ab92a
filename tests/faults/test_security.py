"""What the code never does, by its syntax trees: pickle, code from text, shells, sockets for others; files of strangers
are bounded."""

import ast
import io
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stickslip as ss
from stickslip import files, limits, npz
from stickslip.errors import InputError

PACKAGE = Path(ss.__file__).parent
CODE = sorted(PACKAGE.rglob("*.py"))
PICKLES = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "joblib", "jsonpickle", "yaml"}
PICKLES_OF_OUR_OWN = {"mpc/realtime/process.py": ("pickle",)}
"""For a process that this one starts, over a pipe that nobody else has."""
NETWORK = {"socket", "socketserver", "http", "ftplib", "smtplib", "telnetlib", "xmlrpc", "requests", "httpx", "aiohttp"}
NETWORK_MEANT = {"viewer/server.py": "probes whether a port is free", "studies/executors/ray.py": "asks for a cluster"}
TEXT_AS_CODE = {"eval", "exec", "compile", "__import__", "execfile"}
SHELLS = {"os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput", "tempfile.mktemp"}
READERS = {"numpy.load", "np.load", "pandas.read_pickle", "numpy.genfromtxt", "np.genfromtxt"}
"""What reads files beside `npz.opened`, without its limits."""


def name(node: ast.expr) -> str:
    """A dotted name; "" for what is none."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (owner := name(node.value)):
        return f"{owner}.{node.attr}"
    return ""


def faults(tree: ast.AST, place: str = "") -> Iterator[str]:
    """What a module must not do."""
    for node in ast.walk(tree):
        where = f"line {getattr(node, 'lineno', 0)}"
        for module in _imports(node):
            first = module.partition(".")[0]
            if first in PICKLES and first not in PICKLES_OF_OUR_OWN.get(place, ()):
                yield f"{where} imports {module}"
            if (first in NETWORK or module.startswith("urllib") and module != "urllib.parse") and (
                place not in NETWORK_MEANT
            ):
                yield f"{where} imports {module}"
        if not isinstance(node, ast.Call):
            continue
        called, keywords = name(node.func), {each.arg: each.value for each in node.keywords}
        if called in TEXT_AS_CODE | SHELLS | READERS or called.endswith(
            (".loads_pickle", "pickle.load", "pickle.loads")
        ):
            yield f"{where} calls {called}"
        if called.endswith("torch.load") and not _is(keywords.get("weights_only"), True):
            yield f"{where} calls torch.load without weights_only=True"
        if "allow_pickle" in keywords and not _is(keywords["allow_pickle"], False):
            yield f"{where} allows pickle"
        if "shell" in keywords and not _is(keywords["shell"], False):
            yield f"{where} may start a shell"
        host = keywords.get("host")
        if isinstance(host, ast.Constant) and host.value not in ("127.0.0.1", "::1", "localhost"):
            yield f"{where} names the host {host.value!r}"


def _imports(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [each.name for each in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []


def _is(node: ast.expr | None, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


@pytest.mark.parametrize("folder", sorted({path.relative_to(PACKAGE).parts[0] for path in CODE}))
def test_the_code_does_nothing_of_it(folder: str) -> None:
    found = []
    for path in CODE:
        place = path.relative_to(PACKAGE).as_posix()
        if place.split("/")[0] == folder:
            found += [f"{place}, {fault}" for fault in faults(ast.parse(path.read_text()), place)]
    assert not found


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from joblib import load",
        "import marshal as m",
        "def f():\n    import shelve",
        "eval('1')",
        "x = compile('1', '', 'exec')",
        "exec(open('a').read())",
        "subprocess.run('ls', shell=True)",
        "subprocess.run('ls', shell=given)",
        "os.system('ls')",
        "np.load('a.npz')",
        "reader('a', allow_pickle=True)",
        "torch.load('a')",
        "torch.load('a', weights_only=False)",
        "import socket",
        "from urllib.request import urlopen",
        "Server(host='0.0.0.0')",
    ],
)
def test_the_test_would_find_it(text: str) -> None:
    assert list(faults(ast.parse(text)))


def test_exceptions_still_exist() -> None:
    """Those that the test above allows are there, so that the list does not outlive them."""
    for place in [*PICKLES_OF_OUR_OWN, *NETWORK_MEANT]:
        assert (PACKAGE / place).is_file()
    assert "pickle.load" not in (PACKAGE / "mpc/realtime/process.py").read_text()


def test_the_viewer_is_for_this_machine() -> None:
    """By default, and no other host is taken for it."""
    from stickslip.cli.commands.view import View
    from stickslip.viewer import server

    assert View.__dataclass_fields__["host"].default == server.HOST == "127.0.0.1"
    assert [server.is_local(host) for host in ("localhost", "::1", "0.0.0.0", "10.0.0.1", "example.org")] == [
        True,
        True,
        False,
        False,
        False,
    ]


# Files of strangers.


def archive(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for member, data in members.items():
            file.writestr(member, data)
    return path


def header(shape: tuple[int, ...], kind: str = "<f8") -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": kind, "fortran_order": False, "shape": shape})
    return buffer.getvalue()


def objects() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.array([{"a": 1}], dtype=object))
    return buffer.getvalue()


BAD: dict[str, tuple[dict[str, bytes], str]] = {
    "a shape beyond its bytes": ({"qpos.npy": header((10**12,))}, r"qpos: it says shape \(1000000000000,\) of float64"),
    "a negative shape": ({"qpos.npy": header((-1, 8))}, "qpos: it says shape"),
    "objects": ({"qpos.npy": objects()}, "qpos: it holds Python objects, a pickle"),
    "no array": ({"qpos.npy": b"text"}, "is not a saved state"),
    "nothing": ({"qpos.npy": b""}, "is not a saved state"),
}


@pytest.mark.parametrize(("members", "says"), BAD.values(), ids=BAD)
def test_arrays_of_strangers(members: dict[str, bytes], says: str, tmp_path: Path) -> None:
    """No memory is taken for what a header says, no object is made."""
    with pytest.raises(InputError, match=says):
        ss.State.load(archive(tmp_path / "s.npz", members))


def test_archives_that_unpack_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten megabytes in ten kilobytes, and thousands of arrays: the limit and how to change it are named."""
    path = archive(tmp_path / "bomb.npz", {"qpos.npy": header((1_250_000,)) + bytes(10_000_000)})
    assert path.stat().st_size < 20_000
    monkeypatch.setattr(limits, "arrays", 1_000_000)
    with pytest.raises(
        InputError, match=r"bomb\.npz unpacks to too many bytes.*at most 1000000.*limits\.arrays = 10000"
    ):
        ss.State.load(path)
    monkeypatch.setenv("STICKSLIP_LIMITS", "entries=3,arrays=2**30")
    many = archive(tmp_path / "many.npz", {f"{i}.npy": header((0,)) for i in range(4)})
    with pytest.raises(InputError, match=r"many\.npz has too many arrays.*: 4, at most 3.*STICKSLIP_LIMITS=entries=4"):
        ss.State.load(many)
    with npz.opened(path, "a test") as file:
        assert file["qpos"].shape == (1_250_000,)


def readers() -> dict[str, tuple[str, Callable[[Path], Any]]]:
    from stickslip.bench import result
    from stickslip.cli.plan_store import Store
    from stickslip.mpc.retarget import files as motions
    from stickslip.studies import definition

    return {
        "JSON": ("a.json", files.read_json),
        "result": ("a.json", result.load),
        "plans": ("a.json", lambda path: Store(path, {}, again=False)),
        "motion in JSON": ("a.txt", motions.load),
        "motion in csv": ("a.csv", motions.load),
        "trial": ("a.csv", ss.Trial.load),
        "study": ("a.toml", definition.load),
    }


@pytest.mark.parametrize("kind", readers())
def test_text_of_strangers(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that are too large are not read: a hole of a terabyte takes no disk."""
    file, read = readers()[kind]
    path = tmp_path / file
    with path.open("wb") as hole:
        hole.write(b'{"Frames": ')
        hole.truncate(2**40)
    with pytest.raises(InputError, match=r"too many bytes.*at most \d+ are read.*limits\.text = \d+"):
        read(path)


@pytest.mark.parametrize("depth", [600, 200_000])
def test_levels_within_each_other(depth: int, tmp_path: Path) -> None:
    """JSON and TOML: the limit, not the recursion of Python, and no crash."""
    from stickslip.studies import definition

    path = tmp_path / "a.json"
    path.write_text("[" * depth + "]" * depth)
    with pytest.raises(InputError, match=r"more levels within each other: \d+, at most 500"):
        files.read_json(path)
    path = tmp_path / "a.toml"
    path.write_text("a = " + "[" * depth + "]" * depth)
    with pytest.raises(InputError, match="more levels within each other|is not TOML"):
        definition.load(path)


def test_episodes_of_strangers(tmp_path: Path) -> None:
    """HDF5: an array of a terabyte that was never written, and groups that form a ring."""
    h5py = pytest.importorskip("h5py", reason="needs the extra `datasets`")
    from stickslip import datasets

    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file.create_dataset("data/demo_0/actions", shape=(2**37,), dtype="f8", chunks=(2**20,))
        file.create_dataset("data/demo_1/actions", data=np.zeros((2, 1)))
        file["data/demo_1/obs"] = file["data/demo_1"]
    with datasets.Hdf5Reader(tmp_path / "a.hdf5") as file:
        with pytest.raises(InputError, match=r"actions has too many bytes: \d+, at most"):
            file[0]
        with pytest.raises(InputError, match="groups within each other: 501, at most 500"):
            file[1]


def test_tables_of_strangers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parquet: rows without number in few bytes, and cells whose names are paths."""
    pa = pytest.importorskip("pyarrow", reason="needs the extra `study`")
    import pyarrow.parquet as pq

    from stickslip.studies import records
    from stickslip.studies.store import Store

    pq.write_table(pa.table({"cell": pa.nulls(10_000_000, pa.string())}), tmp_path / "cells.parquet")
    assert (tmp_path / "cells.parquet").stat().st_size < 100_000
    monkeypatch.setattr(limits, "arrays", 10_000_000)
    with pytest.raises(InputError, match=r"cells\.parquet unpacks to too many bytes.*at most 10000000"):
        Store(tmp_path).manifest()
    table = pa.table({"cell": ["../../../etc/passwd"], "parameters": ["{}"]})
    (tmp_path / "cells.parquet").write_bytes(records.packed(table))
    with pytest.raises(InputError, match="names a cell '../../../etc/passwd': a cell is a hash"):
        Store(tmp_path).manifest()
