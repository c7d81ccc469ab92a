"""Episodes and their HDF5 files: what h5py and robomimic read, what is refused, and what a crash leaves."""

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from stickslip import datasets
from stickslip.errors import InputError, MissingExtra

h5py = pytest.importorskip("h5py", reason="needs the extra `datasets`")
ROOT = Path(__file__).parents[1]
LENGTHS = (5, 1, 12, 7)


def episode(steps: int, seed: int = 0, *, pictures: bool = True, **changed) -> datasets.Episode:
    """Of numbers drawn from a seed; pictures are smooth, for a video."""
    draw = np.random.default_rng(seed)
    seen = {
        "qpos": draw.normal(size=(steps, 7)).astype(np.float32),
        "grid": draw.normal(size=(steps, 2, 3)).astype(np.float32),
        "touch": draw.integers(0, 5, size=steps),
        "on": draw.random((steps, 2)) > 0.5,
    }
    y, x = np.mgrid[0:32, 0:48]
    front = [np.stack([3 * x + t + 4 * seed, 4 * y + 9 * seed, np.full_like(x, 5 * t)], -1) for t in range(steps)]
    images = {"front": np.stack(front).clip(0, 255).astype(np.uint8)} if pictures else {}
    given = {
        "observations": seen,
        "actions": draw.normal(size=(steps, 3)).astype(np.float32),
        "rewards": draw.normal(size=steps).astype(np.float32),
        "terminated": seed % 2 == 0,
        "truncated": seed % 2 == 1,
        "states": draw.normal(size=(steps, 9)),
        "images": images,
        "final": {name: rows[-1] + rows[-1] for name, rows in seen.items()} | {n: a[0] for n, a in images.items()},
        "final_state": draw.normal(size=9),
        "task": ("push", "lift")[seed % 2],
        "info": {"seed": seed, "success": seed % 3 == 0, "physics": "cone-sweep"},
    }
    return datasets.Episode(**(given | changed))


def several(**changed) -> list[datasets.Episode]:
    return [episode(steps, seed, **changed) for seed, steps in enumerate(LENGTHS)]


def same(a: datasets.Episode, b: datasets.Episode) -> bool:
    """Whether two episodes agree in every bit and type."""
    for name in ("observations", "images", "final", "model_fields"):
        one, other = getattr(a, name) or {}, getattr(b, name) or {}
        if one.keys() != other.keys() or any(not identical(one[key], other[key]) for key in one):
            return False
    rows = all(identical(getattr(a, n), getattr(b, n)) for n in ("actions", "rewards", "states", "controls"))
    told = ("terminated", "truncated", "task", "info")
    return rows and identical(a.final_state, b.final_state) and all(getattr(a, n) == getattr(b, n) for n in told)


def identical(one, other) -> bool:
    if one is None or other is None:
        return one is other
    return one.dtype == other.dtype and np.array_equal(one, other)


def test_a_file_has_the_layout_of_robomimic(tmp_path):
    path, given = tmp_path / "a.hdf5", several()
    env = {"env_name": "push", "type": 1, "env_kwargs": {"robot": "arm"}}
    with datasets.Hdf5Writer(path, env=env, model="<mujoco/>", fps=50, valid=0.25) as writer:
        for each in given:
            writer.write(each)
        assert len(writer) == 4 and not path.exists()
    assert [p.name for p in tmp_path.iterdir()] == ["a.hdf5"]
    with h5py.File(path) as file:
        data = file["data"]
        assert data.attrs["total"] == sum(LENGTHS) and json.loads(data.attrs["env_args"]) == env
        assert data.attrs["model_file"] == "<mujoco/>"
        assert sorted(data) == [f"demo_{i}" for i in range(4)]
        for i, each in enumerate(given):
            demo = data[f"demo_{i}"]
            assert demo.attrs["num_samples"] == len(each)
            assert np.array_equal(demo["dones"][()], [0] * (len(each) - 1) + [1])
            for name, rows in {**each.observations, **each.images}.items():
                assert identical(demo[f"obs/{name}"][()], rows)
                assert identical(demo[f"next_obs/{name}"][:-1], rows[1:])
                assert np.array_equal(demo[f"next_obs/{name}"][-1], each.final[name])
            for name in ("actions", "rewards", "states"):
                assert identical(demo[name][()], getattr(each, name))
        masks = {key: [name.decode() for name in file[f"mask/{key}"]] for key in file["mask"]}
    assert masks == {"train": ["demo_0", "demo_1", "demo_2"], "valid": ["demo_3"], "success": ["demo_0", "demo_3"]}
    with datasets.Hdf5Reader(path) as file:
        assert all(map(same, file, given)) and len(file) == 4 and file.fps == 50
        assert same(file[-1], given[3]) and same(file["demo_1"], given[1])
        with pytest.raises(InputError, match="no episode 4"):
            file[4]


@pytest.mark.parametrize("compression", ["gzip", "lzf"])
def test_a_compressed_file_holds_the_same(compression, tmp_path):
    path, given = tmp_path / "a.h5", several()
    with datasets.Hdf5Writer(path, compression=compression, next_obs=False) as writer:
        for each in given:
            writer.write(each)
    with datasets.Hdf5Reader(path) as file:
        assert all(map(same, file, given))
    with h5py.File(path) as file:
        assert file["data/demo_2/obs/front"].compression == compression and "next_obs" not in file["data/demo_2"]


def test_robomimic_reads_it(tmp_path):
    pytest.importorskip("robomimic", reason="needs robomimic")
    import robomimic.utils.obs_utils as obs_utils
    from robomimic.utils.dataset import SequenceDataset

    path, given = tmp_path / "a.hdf5", several()
    with datasets.Hdf5Writer(path, env="push", valid=0.25) as writer:
        for each in given:
            writer.write(each)
    obs_utils.initialize_obs_utils_with_obs_specs({"obs": {"low_dim": ["qpos", "touch"], "rgb": ["front"]}})
    keys = {"obs_keys": ("qpos", "touch", "front"), "dataset_keys": ("actions", "rewards", "dones")}
    found = SequenceDataset(str(path), **keys, hdf5_cache_mode=None)
    assert len(found) == sum(LENGTHS)
    frames = iter(range(len(found)))
    for each in given:
        for t in range(len(each)):
            frame = found[next(frames)]
            assert np.array_equal(frame["actions"][0], each.actions[t]) and frame["rewards"][0] == each.rewards[t]
            for name in keys["obs_keys"]:
                rows = {**each.observations, **each.images}[name]
                after = rows[t + 1] if t + 1 < len(each) else each.final[name]
                assert np.array_equal(frame["obs"][name][0], rows[t])
                assert np.array_equal(frame["next_obs"][name][0], after)
    more = {"seq_length": 3, "frame_stack": 2, "hdf5_cache_mode": "low_dim", "filter_by_attribute": "valid"}
    assert SequenceDataset(str(path), **keys, **more).demos == ["demo_3"]


BAD = {
    "nan": ({"actions": np.array([[0.0], [np.nan]])}, r"actions\[1, 0\] is nan"),
    "infinite": ({"states": np.full((2, 3), np.inf)}, r"states\[0, 0\] is inf"),
    "axes": ({"actions": np.zeros(2)}, "2 axes"),
    "empty": ({"actions": np.zeros((0, 1))}, "0 rows"),
    "lengths": ({"rewards": np.zeros(3)}, "actions 2 rows"),
    "observation": ({"observations": {"q": np.zeros((1, 2))}}, "actions 2 rows"),
    "name": ({"observations": {"a/b": np.zeros((2, 1))}}, "'a/b'"),
    "text": ({"observations": {"q": np.array(["a", "b"])}}, "the type <U1"),
    "complex": ({"actions": np.zeros((2, 1), complex)}, "complex"),
    "picture": ({"images": {"front": np.zeros((2, 4, 4), np.uint8)}}, "height, width, 3"),
    "floats": ({"images": {"front": np.zeros((2, 4, 4, 3))}}, "give uint8"),
    "twice": ({"images": {"q": np.zeros((2, 4, 4, 3), np.uint8)}}, "different names"),
    "final": ({"final": {"q": np.zeros(5)}}, "they must agree"),
    "unknown final": ({"final": {"p": np.zeros(5)}}, "neither an observation"),
    "final state": ({"final_state": np.zeros(5)}, "they must agree"),
    "info": ({"info": {"a": object()}}, "JSON"),
    "long info": ({"info": {"a": "b" * (1 << 20)}}, "at most 1,048,576"),
}


@pytest.mark.parametrize("given, message", BAD.values(), ids=BAD)
def test_a_bad_episode_is_refused(given, message):
    right = {"observations": {"q": np.zeros((2, 3))}, "actions": np.zeros((2, 1)), "rewards": np.zeros(2)}
    datasets.Episode(**right)
    with pytest.raises(InputError, match=message):
        datasets.Episode(**(right | given))


def test_episodes_of_another_layout_are_refused(tmp_path):
    with datasets.Hdf5Writer(tmp_path / "a.hdf5") as writer:
        writer.write(episode(3))
        for changed, message in (
            ({"actions": np.zeros((3, 4), np.float32)}, r"float32 of shape \(4,\) .* float32 of shape \(3,\)"),
            ({"actions": np.zeros((3, 3))}, "float64"),
            ({"states": None, "final_state": None}, "states is missing"),
            ({"pictures": False}, "images/front is missing"),
        ):
            with pytest.raises(InputError, match=message):
                writer.write(episode(3, **changed))
        with pytest.raises(InputError, match="final has no 'qpos'"):
            writer.write(episode(3, final=None))
        writer.write(episode(3, 1))
    with datasets.Hdf5Reader(tmp_path / "a.hdf5") as file:
        assert len(file) == 2
    with pytest.raises(InputError, match="is closed"):
        writer.write(episode(3))


def test_what_exists_is_kept_unless_told(tmp_path):
    path = tmp_path / "a.hdf5"
    with datasets.Hdf5Writer(path, model="<mujoco/>", fps=10) as writer:
        writer.write(episode(3))
    before = path.read_bytes()
    with pytest.raises(InputError, match="overwrite=True"):
        datasets.Hdf5Writer(path)
    with pytest.raises(InputError, match="another model"):
        datasets.Hdf5Writer(path, model="<mujoco model='b'/>", append=True)
    with datasets.Hdf5Writer(path, append=True) as writer:
        with pytest.raises(InputError, match="is being written"):
            datasets.Hdf5Writer(path, append=True)
        with pytest.raises(InputError, match="float64"):
            writer.write(episode(3, actions=np.zeros((3, 3))))
        writer.write(episode(4, 1))
        assert path.read_bytes() == before
    with datasets.Hdf5Reader(path) as file:
        assert same(file[0], episode(3)) and same(file[1], episode(4, 1)) and file.fps == 10 and file.model().nbody == 1
    writer = datasets.Hdf5Writer(path, overwrite=True)
    writer.write(episode(2, 5))
    writer.discard()
    with datasets.Hdf5Writer(path, overwrite=True):  # nothing is written: it stays
        pass
    with datasets.Hdf5Reader(path) as file:
        assert len(file) == 2
    with datasets.Hdf5Writer(path, overwrite=True) as writer:
        writer.write(episode(2, 5))
    with datasets.Hdf5Reader(path) as file:
        assert len(file) == 1 and file.fps is None
    assert [p.name for p in tmp_path.iterdir()] == ["a.hdf5"]


def test_settings_out_of_range_are_refused(tmp_path):
    for given, message in (
        ({"path": "a.npz"}, "ends in .hdf5"),
        ({"valid": 1.0}, "below 1"),
        ({"fps": 0}, "positive"),
        ({"compression": "zip"}, "gzip"),
        ({"model": "hand"}, "MJCF text"),
        ({"append": True, "overwrite": True}, "one of them"),
    ):
        with pytest.raises(InputError, match=message):
            datasets.Hdf5Writer(**({"path": tmp_path / "a.hdf5"} | given))
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot write"):
        datasets.Hdf5Writer(tmp_path / "file" / "a.hdf5")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_to_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="cannot write"):
        datasets.Hdf5Writer(tmp_path / "a.hdf5")


def test_files_of_others_are_read_with_care(tmp_path):
    path = tmp_path / "a.hdf5"
    with h5py.File(path, "w") as file:
        demo = file.create_group("data/demo_0")
        demo["actions"], demo["obs/q"] = np.zeros((2, 1)), np.zeros((2, 1))
        demo["obs/other"] = h5py.ExternalLink("elsewhere.hdf5", "/secret")
        demo.attrs["num_samples"] = 2
        file["data"].attrs["env_args"] = json.dumps({"a": "b" * (1 << 20)})
    with pytest.raises(InputError, match="at most 1,048,576"):
        datasets.Hdf5Reader(path)
    with h5py.File(path, "a") as file:
        del file["data"].attrs["env_args"]
    with datasets.Hdf5Reader(path) as file, pytest.raises(InputError, match="another file"):
        file[0]
    for content, message in ((b"text", "not an HDF5 file"), (None, "there is no file")):
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(InputError, match=message):
            datasets.Hdf5Reader(path)
        path.touch()
    path.unlink()
    h5py.File(path, "w").close()
    with pytest.raises(InputError, match="no group 'data'"):
        datasets.Hdf5Reader(path)


CHILD = """
import sys
from tests.test_datasets import datasets, episode
kind, path = sys.argv[1:3]
writer = datasets.Hdf5Writer(path) if kind == "hdf5" else datasets.LeRobotWriter(path, fps=50)
for i in range(int(sys.argv[3]), int(sys.argv[4])):
    writer.write(episode(3 + i, i))
    print(i, flush=True)
if len(sys.argv) > 5:
    writer.close()
"""


def child(*args, **more) -> subprocess.Popen:
    command = [sys.executable, "-c", CHILD, *map(str, args)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


def killed(kind: str, path: Path) -> int:
    """Kill a process while it writes episodes; how many it said that it wrote."""
    process = child(kind, path, 0, 100_000)
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) == 3:
            break
    process.send_signal(signal.SIGKILL)
    told = process.communicate()[0]
    return 4 + len(told.split())


def test_after_a_crash_every_episode_that_was_written_is_there(tmp_path):
    path = tmp_path / "a.hdf5"
    told = killed("hdf5", path)
    assert not path.exists()
    with pytest.raises(InputError, match=f"holds ({told}|{told + 1}) episodes .* append=True"):
        datasets.Hdf5Writer(path)
    with pytest.raises(InputError, match="put them together"):
        datasets.Hdf5Reader(path)
    with datasets.Hdf5Writer(path, append=True) as writer:
        writer.write(episode(2, 99))
    with datasets.Hdf5Reader(path) as file:
        assert len(file) in (told + 1, told + 2)  # the last one may have been whole before it was told
        assert all(same(file[i], episode(3 + i, i)) for i in range(told)) and same(file[-1], episode(2, 99))
    assert [p.name for p in tmp_path.iterdir()] == ["a.hdf5"]


def test_a_crash_after_the_file_was_put_together_doubles_nothing(tmp_path, monkeypatch):
    path = tmp_path / "a.hdf5"
    writer = datasets.Hdf5Writer(path)
    writer.write(episode(3))
    monkeypatch.setattr(writer._parts, "remove", writer._parts.release)
    writer.close()
    (tmp_path / ".a.hdf5.0.tmp").touch()
    assert path.exists() and (tmp_path / "a.hdf5.parts").exists()
    with datasets.Hdf5Writer(path, append=True) as writer:
        assert len(writer) == 1
        writer.write(episode(4, 1))
    with datasets.Hdf5Reader(path) as file:
        assert len(file) == 2 and same(file[0], episode(3)) and same(file[1], episode(4, 1))
    assert [p.name for p in tmp_path.iterdir()] == ["a.hdf5"]


def test_processes_write_shards_that_become_one(tmp_path):
    parts = [tmp_path / f"a-{i}.hdf5" for i in range(2)]
    processes = [child("hdf5", path, 3 * i, 3 * i + 3, "close") for i, path in enumerate(parts)]
    for process in processes:
        assert process.wait(timeout=120) == 0, process.communicate()[1]
    assert datasets.convert(parts, tmp_path / "all.hdf5") == 6
    with datasets.Hdf5Reader(tmp_path / "all.hdf5") as file:
        assert all(same(file[i], episode(3 + i, i)) for i in range(6))


def test_a_disk_that_is_full_leaves_what_was_written(tmp_path):
    """As a limit on the size of files, which the system checks in the same place."""
    path = tmp_path / "a.hdf5"
    code = CHILD.replace("range(int", "(*range(int").replace("):\n    writer", "), 2000):\n    writer")
    process = subprocess.run(
        [sys.executable, "-c", code, "hdf5", str(path), "0", "2", "close"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)),
    )
    assert process.returncode == 1 and "OSError" in process.stderr and process.stdout.split() == ["0", "1"]
    assert str(tmp_path) in process.stderr
    with datasets.Hdf5Writer(path, append=True):
        pass
    with datasets.Hdf5Reader(path) as file:
        assert len(file) == 2 and same(file[1], episode(4, 1))


def test_without_the_packages_an_error_names_the_extra(tmp_path, monkeypatch):
    for package, write in (
        ("h5py", lambda: datasets.Hdf5Writer(tmp_path / "a.hdf5")),
        ("h5py", lambda: datasets.summary(__file__.replace(".py", ".h5"))),
        ("pyarrow", lambda: datasets.LeRobotWriter(tmp_path / "a", fps=10)),
    ):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, package, None)
            with pytest.raises(MissingExtra, match=r"pip install 'stickslip\[datasets\]'"):
                write()
    assert not list(tmp_path.iterdir())
