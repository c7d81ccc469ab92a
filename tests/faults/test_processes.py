"""Processes that are killed, interrupted, out of disk, or not alone: nothing stored is lost or mixed."""

import errno
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import stickslip as ss
from stickslip import files, npz
from tests.faults import children

ROOT = Path(__file__).parents[2]


def start(name: str, *args: object, **more: object) -> subprocess.Popen:
    command = [sys.executable, "-m", "tests.faults.children", name, *map(str, args)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=ROOT, preexec_fn=_accept_ctrl_c, **pipes, **more)


def _accept_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def told(process: subprocess.Popen) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def ended(process: subprocess.Popen, number: int, after: float) -> list[str]:
    """Send a signal some time after the first line; the lines that the process wrote."""
    first = told(process)
    assert first, process.communicate()[1]
    time.sleep(after)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert "Traceback" not in err, err
    return [first, *out.split()]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["kill -9", "Ctrl-C"])
def test_a_process_is_ended_while_it_writes(number: int, tmp_path: Path) -> None:
    """At random moments: the file is the last one that the process told of, or the next one, and never a mixture."""
    path, draw, last = tmp_path / "state.npz", np.random.default_rng(5), 0
    children.state_of(0).save(path)
    unfinished = 0
    for _ in range(4):
        lines = ended(start("states", path, last), number, draw.uniform(0.0, 0.3))
        found = children.version_of(ss.State.load(path))
        assert found in (float(lines[-1]), float(lines[-1]) + 1.0)
        last = int(found)
        unfinished += len(list(tmp_path.glob(".*.tmp")))
        assert all(name == "state.npz" for name in files.tidy(tmp_path))  # what the next run finds, tells and removes
        assert [each.name for each in tmp_path.iterdir()] == ["state.npz"]
    assert number == signal.SIGKILL or not unfinished  # Ctrl-C leaves nothing behind


def test_what_was_killed_is_told_by_the_next_run(tmp_path: Path) -> None:
    """The name of the file; files of processes that live are left alone."""
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    node, mark = os.uname().nodename.replace(".", "_"), 32 * "a"
    (tmp_path / f".e.json.{node}-{dead.stdout.strip()}-{mark}.tmp").write_text("{")
    (tmp_path / f".f.json.{node}-{os.getpid()}-{mark}.tmp").write_text("{")
    (tmp_path / f".g.json.elsewhere-1-{mark}.tmp").write_text("{")
    assert files.tidy(tmp_path) == ["e.json"]
    assert len(list(tmp_path.iterdir())) == 2
    assert files.tidy(tmp_path / "nowhere") == []


def test_killed_writers_of_one_file_lose_nothing(tmp_path: Path) -> None:
    """Two processes add to one file; one is killed. Every trial that either told of is there."""
    path = tmp_path / "plan.json"
    pair = [start("plans", path, name) for name in ("cube", "ball")]
    lines = [ended(pair[0], signal.SIGKILL, 0.3), ended(pair[1], signal.SIGKILL, 0.2)]
    rows = {(row["object"], row["seed"]): row["error"] for row in files.read_json(path)["trials"]}
    for name, seeds in zip(("cube", "ball"), lines, strict=True):
        assert all(rows[name, int(seed)] == 0.5 * int(seed) for seed in seeds)


def test_files_of_one_run_are_never_mixed_with_those_of_another(tmp_path: Path) -> None:
    """Two processes write three files each, again and again; whoever was last wrote all of them."""
    pair = [start("sets", tmp_path, tag, 25) for tag in (1, 2)]
    assert [told(process) for process in pair] == ["ready", "ready"]
    for process in pair:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    looks = 0
    while any(process.poll() is None for process in pair):
        with files.locked(tmp_path):
            if (tmp_path / "about.json").exists():
                looks += 1
                assert len({_who(tmp_path / name) for name in children.SET}) == 1
    assert looks and all(process.wait() == 0 for process in pair)
    assert len({_who(tmp_path / name) for name in children.SET}) == 1
    for process in pair:
        process.communicate()


def _who(path: Path) -> tuple[float, float]:
    if path.suffix == ".json":
        found = files.read_json(path)
        return found["who"], found["version"]
    with npz.opened(path, "a test") as file:
        return float(file["who"][0]), float(file["version"])


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    """And given again when the process that held it was killed."""
    process = start("hold", tmp_path)
    assert told(process) == "held"
    with pytest.raises(ss.InputError, match="is written by another training: wait for its end, or name another folder"):
        files.held(tmp_path, "training").__enter__()
    process.kill()
    process.communicate()
    with files.held(tmp_path, "training"):
        pass


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 kB in memory; the test is skipped where this process may not mount one."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", place], capture_output=True)
    if mounted.returncode:
        pytest.skip("no file system can be mounted here: needs root")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def noise(size: int) -> np.ndarray:
    """Numbers that do not compress."""
    return np.random.default_rng(size).normal(size=(1, size))


def states() -> tuple[ss.State, ss.State]:
    """A small one and one that is too large for the disk."""
    parts = np.zeros(1), np.zeros((1, 6)), np.zeros((1, 0))
    return tuple(ss.State(parts[0], noise(size), *parts[1:]) for size in (100, 60_000))  # type: ignore[return-value]


def test_a_full_disk_leaves_the_file_before(small: Path) -> None:
    """The error names the file; there is no rest of the new one, and with room again it is written."""
    less, more = states()
    for path in (small / "s.npz", small / "t.npz"):
        less.save(path)
    with pytest.raises(OSError, match=r"No space left.*s\.npz"):
        more.save(small / "s.npz")
    assert sorted(each.name for each in small.iterdir()) == ["s.npz", "t.npz"]
    assert np.array_equal(ss.State.load(small / "s.npz").qpos, less.qpos)
    subprocess.run(["mount", "-o", "remount,size=4m", small], check=True)
    more.save(small / "s.npz")
    assert np.array_equal(ss.State.load(small / "s.npz").qpos, more.qpos)


def test_a_full_disk_leaves_files_that_belong_together(small: Path) -> None:
    """None of three is replaced if the third has no room."""
    before = {name: name.encode() for name in children.SET}
    files.write_together(small, before)
    for big in children.SET:
        content = {name: b"new" if name != big else bytes(300_000) for name in children.SET}
        with pytest.raises(OSError, match=f"No space left.*{big}") as caught:
            files.write_together(small, content)
        assert caught.value.errno == errno.ENOSPC
        assert {each.name: each.read_bytes() for each in small.iterdir()} == before


def test_a_file_that_may_not_grow_leaves_the_one_before(tmp_path: Path) -> None:
    """As a full disk, where no file system can be mounted: the system refuses to write more than 64 kB into a file."""
    less, more = states()
    path = tmp_path / "s.npz"
    less.save(path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))
    try:
        with pytest.raises(OSError, match=r"File too large.*s\.npz"):
            more.save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert [each.name for each in tmp_path.iterdir()] == ["s.npz"]
    assert np.array_equal(ss.State.load(path).qpos, less.qpos)


def test_a_folder_that_is_read_only(small: Path) -> None:
    """Who reads can read; who writes is told where; what is there stays."""
    from stickslip.cli.output import make_folder

    less, more = states()
    less.save(small / "s.npz")
    subprocess.run(["mount", "-o", "remount,ro", small], check=True)
    for write in (more.save, lambda path: files.write_json(path, {})):
        with pytest.raises(OSError, match=r"Read-only file system.*s\.npz"):
            write(small / "s.npz")
    with pytest.raises(ss.InputError, match="cannot write to this folder.*name another one"):
        make_folder(small)
    assert np.array_equal(ss.State.load(small / "s.npz").qpos, less.qpos)
    subprocess.run(["mount", "-o", "remount,rw", small], check=True)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match=r"s\.npz"):
        states()[0].save(tmp_path / "s.npz")


def test_a_result_cut_short_is_kept_and_measured_again(tmp_path: Path) -> None:
    """By the next run of the experiment, which says so; a run that was killed while it wrote is told, too."""
    from rich.console import Console

    from stickslip.bench import runner
    from tests.bench.test_runner import Counting, fake

    path = runner.run(Counting(), tmp_path, methods=fake(), device="cpu")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    screen = Console(record=True, width=400)
    runner.run(Counting(), tmp_path, methods=fake(), device="cpu", console=screen)
    said = screen.export_text()
    assert "counting.json is not a result" in said and "It is kept as counting.json.damaged" in said
    assert (tmp_path / "counting.json.damaged").read_bytes() == whole[: len(whole) // 2]
    assert json.loads(path.read_text())["outcomes"].keys() == json.loads(whole)["outcomes"].keys()


def test_ctrl_c_at_random_moments_of_a_run(tmp_path: Path) -> None:
    """From the first import to the last file: the status, no traceback, and files of one run or none."""
    draw = np.random.default_rng(11)
    command = [sys.executable, "-m", "stickslip", "run", "bouncing-ball", "--device", "cpu", "--out", str(tmp_path)]
    for _ in range(8):
        process = subprocess.Popen(
            [*command, "--steps", "2000"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=_accept_ctrl_c,
        )
        time.sleep(draw.uniform(0.0, 12.0))
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=300)
        assert process.returncode in (0, 130, -signal.SIGINT), err
        assert process.returncode != 130 or "Traceback" not in err
        assert not list(tmp_path.glob(".*.tmp"))
        if (tmp_path / "summary.json").exists():
            steps = files.read_json(tmp_path / "summary.json")["steps"]
            with npz.opened(tmp_path / "trajectory.npz", "a trajectory") as file:
                assert abs(file["time"][-1, 0] - steps * 0.002) < 1e-3 or steps == 0
