"""LeRobot v3.0: the files as pyarrow and ffmpeg read them, the loader of lerobot, limits, and what a crash leaves."""

import io
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from stickslip import datasets
from stickslip.datasets import statistics, video
from stickslip.errors import InputError, StickslipError
from tests.test_datasets import LENGTHS, episode, killed, several

pq = pytest.importorskip("pyarrow.parquet", reason="needs the extra `datasets`")
FFMPEG = pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="needs the program ffmpeg")
SMALL = {"data_files_size_in_mb": 0.008, "video_files_size_in_mb": 0.003, "chunks_size": 2}
"""Limits that a few short episodes exceed."""
TOLERANCE = 6.0
"""Mean error of a picture after H.264, of 255."""


def written(folder: Path, **settings) -> list[datasets.Episode]:
    given = several()
    with datasets.LeRobotWriter(folder, fps=50, robot_type="arm", **settings) as writer:
        for each in given:
            writer.write(each)
        assert len(writer) == len(given) and not folder.exists()
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    return given


def decoded(path: Path) -> np.ndarray:
    """All pictures of a video, (T, 32, 48, 3)."""
    command = ["ffmpeg", "-loglevel", "error", "-i", str(path), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    raw = subprocess.run(command, capture_output=True, check=True).stdout
    return np.frombuffer(raw, dtype=np.uint8).reshape(-1, 32, 48, 3)


@FFMPEG
def test_the_files_hold_every_frame(tmp_path):
    folder = tmp_path / "a"
    given = written(folder, **SMALL)
    info = json.loads((folder / "meta/info.json").read_text())
    assert info["codebase_version"] == "v3.0" and info["fps"] == 50 and info["robot_type"] == "arm"
    assert (info["total_episodes"], info["total_frames"], info["total_tasks"]) == (4, sum(LENGTHS), 2)
    assert info["splits"] == {"train": "0:4"} and info["chunks_size"] == 2
    features = info["features"]
    assert features["observation.state"] == {
        "dtype": "float32",
        "shape": [7],
        "names": [f"qpos[{i}]" for i in range(7)],
    }
    assert features["observation.grid"]["shape"] == [2, 3] and features["observation.on"]["dtype"] == "bool"
    assert features["observation.images.front"]["info"]["video.fps"] == 50
    rows = [row for path in sorted(folder.glob("meta/episodes/*/*.parquet")) for row in pq.read_table(path).to_pylist()]
    assert [row["length"] for row in rows] == list(LENGTHS) and [row["tasks"] for row in rows][:2] == [
        ["push"],
        ["lift"],
    ]
    key = "observation.images.front"
    places = {(row["data/chunk_index"], row["data/file_index"]) for row in rows}
    films = {(row[f"videos/{key}/chunk_index"], row[f"videos/{key}/file_index"]) for row in rows}
    assert len(places) > 1 and len(films) > 1 and max(films)[1] < 2
    assert len(list(folder.glob("data/*/*"))) == len(places) and len(list(folder.glob("videos/*/*/*"))) == len(films)
    begin = 0
    for i, (row, each) in enumerate(zip(rows, given, strict=True)):
        table = pq.read_table(
            folder / info["data_path"].format(chunk_index=row["data/chunk_index"], file_index=row["data/file_index"])
        )
        mine = {n: np.array(v) for n, v in table.to_pydict().items()}
        mine = {name: values[mine["episode_index"] == i] for name, values in mine.items()}
        assert (row["dataset_from_index"], row["dataset_to_index"]) == (begin, begin + len(each))
        assert np.array_equal(mine["action"], each.actions) and np.array_equal(mine["next.reward"], each.rewards)
        assert np.array_equal(mine["observation.state"], each.observations["qpos"])
        assert np.array_equal(mine["observation.grid"], each.observations["grid"])
        assert np.array_equal(mine["observation.touch"], each.observations["touch"][:, 0])
        assert np.array_equal(mine["observation.on"], each.observations["on"])
        assert np.array_equal(mine["next.done"], each.dones)
        assert np.array_equal(mine["index"], begin + np.arange(len(each)))
        assert mine["timestamp"] == pytest.approx(np.arange(len(each)) / 50, abs=1e-6)
        film = decoded(
            folder
            / info["video_path"].format(
                video_key=key, chunk_index=row[f"videos/{key}/chunk_index"], file_index=row[f"videos/{key}/file_index"]
            )
        )
        first = round(50 * row[f"videos/{key}/from_timestamp"])
        assert row[f"videos/{key}/to_timestamp"] == pytest.approx((first + len(each)) / 50)
        apart = np.abs(film[first : first + len(each)].astype(float) - each.images["front"])
        assert apart.mean(axis=(1, 2, 3)).max() < TOLERANCE
        begin += len(each)
    tasks = pq.read_table(folder / "meta/tasks.parquet").to_pydict()
    assert tasks == {"task_index": [0, 1], "task": ["push", "lift"]}


@FFMPEG
def test_frames_of_a_long_video_lie_at_multiples_of_the_rate(tmp_path):
    frames = np.zeros((7, 16, 16, 3), dtype=np.uint8)
    video.encode(frames, 30, 20, tmp_path / "a.h264")
    video.join([tmp_path / "a.h264"] * 40, 30, tmp_path / "a.mp4")
    probe = ["ffprobe", "-loglevel", "error", "-show_entries", "packet=pts_time,flags", "-of", "csv=p=0"]
    lines = subprocess.run([*probe, str(tmp_path / "a.mp4")], capture_output=True, text=True, check=True).stdout.split()
    times = [float(line.split(",")[0]) for line in lines]
    assert times == pytest.approx(np.arange(280) / 30, abs=2e-6)
    assert sum("K" in line for line in lines) >= 140


def test_pictures_without_video_are_exact(tmp_path):
    given = written(tmp_path / "a", video=False)
    table = pq.read_table(next((tmp_path / "a").glob("data/*/*")))
    stored = [np.array(Image.open(io.BytesIO(each["bytes"]))) for each in table["observation.images.front"].to_pylist()]
    assert np.array_equal(stored, np.concatenate([each.images["front"] for each in given]))
    info = json.loads((tmp_path / "a/meta/info.json").read_text())
    assert info["video_path"] is None and info["features"]["observation.images.front"]["dtype"] == "image"


def test_statistics_are_those_of_all_frames(tmp_path):
    given = written(tmp_path / "a", video=False)
    stats = json.loads((tmp_path / "a/meta/stats.json").read_text())
    grid = np.concatenate([each.observations["grid"] for each in given]).astype(float)
    found = stats["observation.grid"]
    for name, right in (("min", grid.min(0)), ("max", grid.max(0)), ("mean", grid.mean(0)), ("std", grid.std(0))):
        assert np.array(found[name]) == pytest.approx(right, abs=1e-6)
    assert found["count"] == [len(grid)]
    shot = np.concatenate([each.images["front"] for each in given]) / 255.0
    found = stats["observation.images.front"]
    for name, right in (("mean", shot.mean((0, 1, 2))), ("std", shot.std((0, 1, 2))), ("max", shot.max((0, 1, 2)))):
        assert np.array(found[name])[:, 0, 0] == pytest.approx(right, abs=1e-9)
    assert np.shape(found["q50"]) == (3, 1, 1)
    assert stats["episode_index"]["max"] == [3.0] and stats["index"]["mean"] == pytest.approx([12.0])


def test_statistics_in_parts_are_those_of_the_whole():
    draw = np.random.default_rng(0)
    rows = draw.normal(size=(20_000, 2, 2)) * np.array([1.0, 100.0]) + 5.0
    rows[:, 1, 1] = 3.0
    total = statistics.Total(rows.min(0), rows.max(0))
    for part in np.split(rows, [3, 4, 1000]):
        total.add(part)
    found, right = total.stats(), statistics.of_rows(rows)
    width = rows.max(0) - rows.min(0)
    for name in right:
        apart = np.abs(found[name] - right[name])
        assert (apart <= (width / 2000 if name.startswith("q") else 1e-9)).all(), name


@FFMPEG
@pytest.mark.parametrize("video", [True, False])
def test_lerobot_reads_it(video, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    module = pytest.importorskip("lerobot.datasets.lerobot_dataset", reason="needs lerobot")
    given = written(tmp_path / "a", video=video, **SMALL)
    found = module.LeRobotDataset("local/a", root=tmp_path / "a")
    assert (len(found), found.num_episodes, found.fps) == (sum(LENGTHS), 4, 50)
    frames = iter(range(len(found)))
    for i, each in enumerate(given):
        for t in range(len(each)):
            frame = found[next(frames)]
            assert np.array_equal(frame["action"].numpy(), each.actions[t])
            assert np.array_equal(frame["observation.state"].numpy(), each.observations["qpos"][t])
            assert np.array_equal(frame["observation.grid"].numpy(), each.observations["grid"][t])
            assert frame["next.reward"].item() == each.rewards[t] and frame["next.done"].item() == each.dones[t]
            assert (frame["episode_index"].item(), frame["frame_index"].item()) == (i, t)
            assert frame["task"] == each.task
            shot = 255.0 * frame["observation.images.front"].numpy().transpose(1, 2, 0)
            assert np.abs(shot - each.images["front"][t]).mean() < (TOLERANCE if video else 1e-3)
    around = {"action": [-0.02, 0.0, 0.02], "observation.images.front": [-0.02, 0.0]}
    found = module.LeRobotDataset("local/a", root=tmp_path / "a", delta_timestamps=around)
    frame = found[6]  # the first of the third episode
    assert frame["action_is_pad"].tolist() == [True, False, False]
    assert np.array_equal(frame["action"].numpy(), given[2].actions[[0, 0, 1]])
    assert frame["observation.images.front"].shape == (2, 3, 32, 48)
    some = module.LeRobotDataset("local/a", root=tmp_path / "a", episodes=[2])
    assert len(some) == 12 and np.array_equal(some[3]["action"].numpy(), given[2].actions[3])


def test_observations_are_joined_as_told(tmp_path):
    one = episode(3, pictures=False)
    seen = dict(one.observations) | {"qvel": np.ones((3, 2))}
    for name, state, columns in (
        ("default", None, {"observation.state": 9}),
        ("chosen", ("qvel", "touch"), {"observation.state": 3, "observation.qpos": 7}),
        ("none", (), {"observation.qpos": 7, "observation.qvel": 2}),
    ):
        with datasets.LeRobotWriter(tmp_path / name, fps=10, state=state) as writer:
            writer.write(episode(3, pictures=False, observations=seen, final=None))
        features = datasets.summary(tmp_path / name).features
        assert all(features[key] == ("float32", (size,)) for key, size in columns.items())
    with (
        datasets.LeRobotWriter(tmp_path / "bad", fps=10, state=("grid",)) as writer,
        pytest.raises(InputError, match="'grid'"),
    ):
        writer.write(one)
    assert not (tmp_path / "bad").exists()


def test_what_cannot_be_written_is_refused(tmp_path, monkeypatch):
    for given, message in (
        ({"fps": 33.3}, "whole number"),
        ({"fps": 10, "crf": 52}, "from 0"),
        ({"fps": 10, "chunks_size": 0}, "positive"),
    ):
        with pytest.raises(InputError, match=message):
            datasets.LeRobotWriter(tmp_path / "a", **given)
    (tmp_path / "other").mkdir()
    for overwrite, message in ((False, "exists"), (True, "no LeRobot dataset")):
        with pytest.raises(InputError, match=message):
            datasets.LeRobotWriter(tmp_path / "other", fps=10, overwrite=overwrite)
    none = episode(3, pictures=False, actions=np.zeros((3, 0)))
    huge = episode(3, pictures=False, actions=np.full((3, 1), 1e300))
    with datasets.LeRobotWriter(tmp_path / "b", fps=10) as writer:
        for one, message in ((huge, "single precision"), (none, "action has no entries")):
            with pytest.raises(InputError, match=message):
                writer.write(one)
        writer.write(episode(3, pictures=False))
    monkeypatch.setenv("PATH", "")
    with datasets.LeRobotWriter(tmp_path / "c", fps=10) as writer, pytest.raises(StickslipError, match="install it"):
        writer.write(episode(3))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b", "other"]


@FFMPEG
def test_pictures_that_do_not_fit_are_refused(tmp_path):
    with datasets.LeRobotWriter(tmp_path / "b", fps=10) as writer:
        writer.write(episode(3, pictures=False))
        with pytest.raises(InputError, match="images/front"):
            writer.write(episode(3))
    odd = episode(3, images={"front": np.zeros((3, 33, 48, 3), dtype=np.uint8)}, final=None)
    with datasets.LeRobotWriter(tmp_path / "a", fps=10) as writer, pytest.raises(InputError, match="even numbers"):
        writer.write(odd)
    assert not (tmp_path / "a").exists()


def test_a_dataset_is_replaced_when_told(tmp_path):
    written(tmp_path / "a", video=False)
    with datasets.LeRobotWriter(tmp_path / "a", fps=20, overwrite=True) as writer:
        writer.write(episode(3, pictures=False))
        assert datasets.summary(tmp_path / "a").episodes == 4
    found = datasets.summary(tmp_path / "a")
    assert (found.episodes, found.fps) == (1, 20) and [path.name for path in tmp_path.iterdir()] == ["a"]


@FFMPEG
def test_after_a_crash_every_episode_that_was_written_is_there(tmp_path):
    folder = tmp_path / "a"
    told = killed("lerobot", folder)
    assert not folder.exists()
    with pytest.raises(InputError, match="append=True"):
        datasets.LeRobotWriter(folder, fps=50)
    with pytest.raises(InputError, match="fps is 20, and was 50"):
        datasets.LeRobotWriter(folder, fps=20, append=True)
    with datasets.LeRobotWriter(folder, fps=50, append=True):
        pass
    table = pq.read_table(next(folder.glob("data/*/*"))).to_pydict()
    assert table["episode_index"][-1] + 1 in (told, told + 1)
    for i in range(told):
        mine = np.array(table["episode_index"]) == i
        assert np.array_equal(np.array(table["action"])[mine], episode(3 + i, i).actions)
    film = next(folder.glob("videos/*/*/*"))
    assert len(decoded(film)) == len(table["index"])


@FFMPEG
def test_hdf5_becomes_lerobot(tmp_path):
    source = tmp_path / "a.hdf5"
    with datasets.Hdf5Writer(source, fps=50) as writer:
        for each in several():
            writer.write(each)
    seen = []
    assert datasets.convert(source, tmp_path / "a", advance=lambda done, of: seen.append((done, of))) == 4
    assert seen == [(i, 4) for i in range(1, 5)]
    first, second = datasets.summary(source), datasets.summary(tmp_path / "a")
    for name in ("episodes", "frames", "fps", "physics", "success", "tasks"):
        assert getattr(first, name) == getattr(second, name)
    assert second.success == 0.5 and second.physics == {"cone-sweep": 4}
    with datasets.Hdf5Writer(tmp_path / "b.hdf5", fps=50) as writer:
        writer.write(episode(3, actions=np.zeros((3, 5))))
    with pytest.raises(InputError, match="float64"):
        datasets.convert([source, tmp_path / "b.hdf5"], tmp_path / "c")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "a.hdf5", "b.hdf5"]
