"""Stored files are whole, or said to be damaged: cut short, or with flipped bits. Files without a checksum load."""

import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stickslip as ss
from stickslip import files, npz
from stickslip.bench import result
from stickslip.cli.plan_store import Store as PlanStore
from stickslip.errors import DamagedFile
from stickslip.mpc.retarget.files import arrays as motions

Make = Callable[[Path], None]
Read = Callable[[Path], Any]


def state() -> ss.State:
    return ss.State(
        np.zeros(2), np.arange(14.0).reshape(2, 7), np.ones((2, 6)), np.zeros((2, 0)), memory={"a": np.ones(3)}
    )


def outcome() -> result.Result:
    record = result.Record(name="fake", time="2026-01-01")
    return result.Result(
        experiment="e",
        quick=False,
        seed=0,
        device="cpu",
        settings={},
        methods={"fake": record},
        cases=["a"],
        machine={"device": "x", "cores": 2, "arch": "cpu"},
        versions={},
        outcomes={"fake": {"a": {"metrics": {"error": 0.125}, "series": {"x": [1.0, 2.0]}}}},
    )


def trajectory() -> ss.Trajectory:
    return ss.Trajectory({"time": np.arange(6.0).reshape(2, 3), "qpos": np.ones((2, 3, 4))}, 0.002)


def trial() -> ss.Trial:
    return ss.Trial(time=np.arange(4.0), measured=np.arange(4.0)[:, None], noise=0.1)


def policy(path: Path) -> None:
    learned = pytest.importorskip("stickslip.learning.policy", reason="needs the extra `train`")
    one = np.ones((1, 1), dtype=np.float32)
    learned.Policy((one,), (one[0],), one[0], one[0], "elu", {"task": "x"}).save(path)


def read_policy(path: Path) -> Any:
    from stickslip.learning.policy import Policy

    found = Policy.load(path)
    return [found.weights[0], found.biases[0], found.mean, found.std]


def record(path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs the extra `study`")
    from stickslip.studies import records

    row = records.Record("c" * 40, "rollout", '{"a": 1}', metrics={"error": 0.25}, labels={"word": "yes"})
    files.write_bytes_atomic(path, records.encode([row]))


def read_record(path: Path) -> Any:
    from stickslip.studies import records

    table = records.read(path)
    if table is None:  # the store takes it for a cell that is to run again
        raise DamagedFile("damaged")
    return records.decode(table)


def plans(path: Path) -> None:
    PlanStore(path, {"task": "t"}, again=True).add({"object": "cube", "seed": 3, "error": 0.5})


def read_motion(path: Path) -> Any:
    with motions.open_arrays(path) as found:
        return [found[name] for name in found]


KINDS: dict[str, tuple[str, Make, Read]] = {
    "state": ("s.npz", lambda path: state().save(path), lambda path: ss.State.load(path).qpos),
    "trajectory": ("t.npz", lambda path: trajectory().save(path), lambda path: ss.Trajectory.load(path)["qpos"]),
    "trial": ("t.npz", lambda path: trial().save(path) and None, lambda path: ss.Trial.load(path).measured),
    "result": ("e.json", lambda path: outcome().save(path) and None, lambda path: result.load(path).outcomes),
    "plans": ("p.json", plans, lambda path: PlanStore(path, {"task": "t"}, again=False).done),
    "policy": ("p.npz", policy, read_policy),
    "cell": ("c.parquet", record, read_record),
    "motion": ("m.npz", lambda path: npz.write(path, {"qpos": np.ones((3, 36))}) and None, read_motion),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Read]:
    """A stored file of each sort, and its reader."""
    name, make, read = KINDS[request.param]
    make(tmp_path / name)
    return tmp_path / name, read


def same(one: Any, other: Any) -> bool:
    return repr(one) == repr(other)


def test_a_file_cut_short_is_found(kind: tuple[Path, Read]) -> None:
    """At every length: an error that names the file."""
    path, read = kind
    whole = path.read_bytes()
    for length in sorted({*range(0, len(whole), 37), *range(max(0, len(whole) - 130), len(whole))}):
        path.write_bytes(whole[:length])
        with pytest.raises(ss.InputError) as caught:
            read(path)
        assert path.name in str(caught.value) or str(caught.value) == "damaged"


def test_flipped_bits_are_found(kind: tuple[Path, Read]) -> None:
    """One bit in any byte: an error, or the content as it was, where the bit has no meaning."""
    path, read = kind
    whole, content = path.read_bytes(), read(path)
    draw = np.random.default_rng(0)
    found = 0
    places = draw.choice(len(whole), min(len(whole), 150), replace=False)
    for place in places:
        changed = bytearray(whole)
        changed[place] ^= 1 << draw.integers(8)
        path.write_bytes(changed)
        try:
            again = read(path)
        except ss.InputError:
            found += 1
        else:
            assert same(again, content), f"byte {place} of {len(whole)}"
    assert found > 0.9 * len(places)


def test_the_error_names_file_fault_and_cure(tmp_path: Path) -> None:
    path = tmp_path / "start.npz"
    state().save(path)
    changed = bytearray(path.read_bytes())
    changed[len(changed) // 2] ^= 4
    path.write_bytes(changed)
    with pytest.raises(
        DamagedFile, match=r"start\.npz is not a saved state as it was written: .*checksum.*take a copy"
    ):
        ss.State.load(path)
    path.write_bytes(changed[:100])
    with pytest.raises(DamagedFile, match=r"start\.npz .* it has 100 bytes and no end of an archive.*make it again"):
        ss.State.load(path)


def test_files_without_a_checksum_load(tmp_path: Path) -> None:
    """As earlier versions wrote them, and other programs write them."""
    state().save(tmp_path / "s.npz")
    with np.load(tmp_path / "s.npz") as file:  # NumPy passes over the checksum
        arrays = dict(file)
    np.savez(tmp_path / "old.npz", **arrays)
    with zipfile.ZipFile(tmp_path / "old.npz") as file:
        assert file.comment == b""
    assert np.array_equal(ss.State.load(tmp_path / "old.npz").qpos, state().qpos)

    outcome().save(tmp_path / "e.json")
    content = json.loads((tmp_path / "e.json").read_text())
    assert content.pop("checksum").startswith(files.SEAL)
    (tmp_path / "old.json").write_text(json.dumps(content))
    assert result.load(tmp_path / "old.json") == result.load(tmp_path / "e.json")


def test_stored_results_load() -> None:
    """Those of this repository, most of which are older than checksums."""
    found = sorted(Path(__file__).parents[2].glob("benchmarks/results/**/*.json"))[:5]
    assert found and all(result.load(path).outcomes for path in found)


def test_a_damaged_result_is_kept_aside(tmp_path: Path) -> None:
    path = tmp_path / "e.json"
    outcome().save(path)
    path.write_bytes(path.read_bytes()[:-200])
    damaged = path.read_bytes()
    kept = files.keep_aside(path)
    assert kept.name == "e.json.damaged" and kept.read_bytes() == damaged and not path.exists()


def test_a_folder_of_zarr_has_checksums(tmp_path: Path) -> None:
    pytest.importorskip("zarr", reason="needs the extra `zarr`")
    trajectory().save(tmp_path / "t.zarr")
    chunk = next(
        path for path in (tmp_path / "t.zarr" / "qpos").rglob("*") if path.is_file() and path.name != "zarr.json"
    )
    changed = bytearray(chunk.read_bytes())
    changed[-6] ^= 1
    chunk.write_bytes(changed)
    with pytest.raises(ss.InputError, match=r"t\.zarr.*checksum"):
        ss.Trajectory.load(tmp_path / "t.zarr")


def test_episodes_have_checksums(tmp_path: Path) -> None:
    """HDF5's own, of chunks and of its structure: what is read is what was written, or an error."""
    pytest.importorskip("h5py", reason="needs the extra `datasets`")
    from stickslip import datasets

    rows = np.arange(60.0).reshape(20, 3)
    one = datasets.Episode({"qpos": rows}, rows, np.ones(20), True, False, final={"qpos": rows[0]})
    with datasets.Hdf5Writer(tmp_path / "e.hdf5", fps=50.0) as writer:
        writer.write(one)
    whole, draw, found = (tmp_path / "e.hdf5").read_bytes(), np.random.default_rng(1), 0
    for place in draw.choice(len(whole), 60, replace=False):
        changed = bytearray(whole)
        changed[place] ^= 1 << draw.integers(8)
        (tmp_path / "x.hdf5").write_bytes(changed)
        try:
            with datasets.Hdf5Reader(tmp_path / "x.hdf5") as file:
                again = file[0]
        except ss.InputError:
            found += 1
        else:
            assert np.array_equal(again.actions, rows) and np.array_equal(again.observations["qpos"], rows)
    assert found


def test_checkpoints_have_checksums(tmp_path: Path) -> None:
    """A checkpoint of PyTorch is sealed as an npz file is; PyTorch still reads it."""
    torch = pytest.importorskip("torch")
    path = tmp_path / "checkpoint.pt"
    with path.open("wb+") as file:
        torch.save({"weights": torch.arange(5.0)}, file)
        npz.seal(file)
    with path.open("rb") as file:
        npz.check_seal(file, path, "a checkpoint")
        assert torch.load(file, weights_only=True)["weights"].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    shutil.copy(path, tmp_path / "copy.pt")
    changed = bytearray(path.read_bytes())
    changed[len(changed) // 2] ^= 1
    path.write_bytes(changed)
    with path.open("rb") as file, pytest.raises(DamagedFile, match=r"checkpoint\.pt is not a checkpoint"):
        npz.check_seal(file, path, "a checkpoint")


def test_json_that_was_changed_by_hand(tmp_path: Path) -> None:
    """The error says what to do about it."""
    path = files.write_json(tmp_path / "a.json", {"a": 1})
    path.write_text(path.read_text().replace("1,", "2,"))
    with pytest.raises(DamagedFile, match=r"a\.json.*by hand"):
        files.read_json(path)
