"""`stickslip study`: what it prints, and how it ends."""

import pytest

pytest.importorskip("pyarrow")

from rich.console import Console

from stickslip.cli import main as cli
from stickslip.cli import study as shown
from stickslip.studies.driver import Progress
from stickslip.studies.records import DONE
from stickslip.studies.store import Store

STUDY = 'run = "tests.studies.functions:{name}"\ndevice = "cpu"\ntries = 1\n[grid]\n'


def write(folder, name, grid):
    path = folder / f"{name}.toml"
    path.write_text(STUDY.format(name=name) + grid)
    return str(path)


def test_a_study_from_its_file_to_its_report(tmp_path, capsys):
    file, out = write(tmp_path, "poisoned", 'kind = ["good", "raise", "exit"]'), str(tmp_path / "out")
    assert cli.main(["study", "run", file, "--out", out, "--dry"]) == 0
    assert "3 cells in 1 groups, on cpu; nothing was run" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()
    assert cli.main(["study", "run", file, "--out", out, "--workers", "1"]) == 1
    told = capsys.readouterr().out
    assert "1 of 3 cells are done, 2 failed; 3 of them ran now" in told and "ValueError: seed # is wrong" in told
    assert cli.main(["study", "status", out]) == 1
    told = capsys.readouterr().out
    assert "nobody runs it" in told and "its process ended with exit status 3" in told
    assert cli.main(["study", "report", out, "--table", str(tmp_path / "all.csv")]) == 0
    assert (tmp_path / "out" / "report.html").stat().st_size > 2000 and (tmp_path / "all.csv").exists()
    assert cli.main(["study", "retry", out]) == 0
    assert "2 cells that failed run again" in capsys.readouterr().out
    assert cli.main(["study", "status", out]) == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "{tmp}/no.toml"], "is not a file"),
        (["run", "{file}", "--executor", "local", "--ray", "auto"], "choose the executor ray"),
        (["run", "{file}", "--workers", "0"], "workers is 0"),
        (["status", "{tmp}"], "holds no study"),
        (["report", "{tmp}"], "holds no study"),
        (["retry", "{tmp}"], "holds no study"),
        (["report", "{tmp}", "--table", "a.xls"], "ends in .parquet or .csv"),
    ],
)
def test_what_is_wrong_is_told(tmp_path, capsys, arguments, says):
    file = write(tmp_path, "quick", "x = [1.0]")
    given = [text.format(tmp=tmp_path, file=file) for text in arguments]
    out = ["--out", str(tmp_path / "out")] if given[0] == "run" else []
    assert cli.main(["study", *given, *out]) == 2
    assert says in " ".join(capsys.readouterr().err.split())


def test_a_full_disk_ends_with_status_1(tmp_path, capsys, monkeypatch):
    from stickslip import studies
    from stickslip.studies.driver import DiskFull

    def full(*args, **options):
        raise DiskFull("the disk is full (no space): 3 of 9 cells are stored and whole")

    monkeypatch.setattr(studies, "run", full)
    assert cli.main(["study", "run", write(tmp_path, "quick", "x = [1.0]"), "--out", str(tmp_path / "out")]) == 1
    assert "the disk is full" in capsys.readouterr().err


def test_the_live_table_tells_rate_and_time_left(capsys):
    console = Console(width=120)
    progress = Progress(cells=1000, done=240, failed=10, running=2, ran=250, seconds=50.0, note="Ctrl-C: waiting")
    console.print(shown.shown("fall", progress))
    told = capsys.readouterr().out
    for text in ("1,000 cells", "240", "10", "748", "5 a s", "2 min", "Ctrl-C: waiting"):
        assert text in told
    progress = Progress(cells=100, done=1, ran=1, seconds=400.0)
    console.print(shown.shown("slow", progress))
    told = capsys.readouterr().out
    assert "9 an hour" in told and "11 h 0 min" in told


def test_status_tells_who_runs_it(tmp_path, capsys):
    file, out = write(tmp_path, "quick", "x = [1.0, 2.0]"), tmp_path / "out"
    assert cli.main(["study", "run", file, "--out", str(out), "--workers", "1"]) == 0
    store = Store(out)
    cell = sorted(store.listed(DONE))[0]
    store.path(DONE, cell).unlink()
    store.tell("node7-123", {"running": 1, "ran": 10, "seconds": 5.0})
    capsys.readouterr()
    assert cli.main(["study", "status", str(out)]) == 0
    told = capsys.readouterr().out
    assert "node7-123" in told and "2 a s" in told
