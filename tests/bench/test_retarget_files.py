"""`retarget` of the bench with files of motions: cases by the names of files, and what cannot be measured."""

import numpy as np
import pytest

from stickslip.bench import runner
from stickslip.bench.experiments.planning.retarget import PAPER, Retarget
from stickslip.bench.result import load
from stickslip.errors import InputError
from stickslip.mpc import retarget
from stickslip.mpc.retarget import files, made

EXPERIMENT = Retarget()


def cases(*motions: str) -> dict[str, str]:
    return dict(EXPERIMENT.cases(EXPERIMENT.make_settings({"motions": motions})))


def test_cases_are_our_motions_or_files(tmp_path):
    assert cases(*PAPER) == {name: name for name in PAPER}
    for name in ("walk.txt", "dance.csv", "notes.md"):
        (tmp_path / name).write_text("")
    folder = str(tmp_path)
    assert cases("squat", folder) == {"squat": "squat", "dance": f"{folder}/dance.csv", "walk": f"{folder}/walk.txt"}
    assert cases("elsewhere/run.csv") == {"run": "elsewhere/run.csv"}  # so that a stored result can be shown
    with pytest.raises(InputError, match="'moonwalk': there is none; there are: squat.*folders of them"):
        cases("moonwalk")
    with pytest.raises(InputError, match="another motion called 'walk'; rename the file"):
        cases(folder, "walk.npz")
    with pytest.raises(InputError, match="another motion called 'kick'; rename the file"):
        cases("clips/kick.csv")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="has no file with the suffix .txt, .csv, .npz"):
        cases(str(tmp_path / "empty"))


def test_a_file_is_measured_and_another_leaves_its_reason(tmp_path):
    motion = made.make("squat").clip(0.0, 0.3)
    retarget.export(motion, tmp_path / "down.csv", "lafan1", fps=50.0)
    files.save(made.make("push-box").clip(0.0, 0.3), tmp_path / "box.npz")
    (tmp_path / "laikago.txt").write_text('{"Frames": [[0.1, 0, 0], [0.1, 0, 0]]}')
    settings = {"motions": (str(tmp_path),)}
    path = runner.run(
        EXPERIMENT, tmp_path / "out", methods=["cone-sweep"], settings=settings, device="cpu", quick=True, picture=False
    )
    result = load(path)
    assert result.cases == ["box", "down", "laikago"]
    assert result.metric("cone-sweep", "down", "completed") == 1.0
    assert result.metric("cone-sweep", "down", "base_pos") < 0.02
    assert np.isfinite(result.metric("cone-sweep", "down", "foot_slide"))
    reasons = {case: result.outcomes["cone-sweep"][case].get("unsupported", "") for case in result.cases}
    assert "moves the object 'box'" in reasons["box"] and "has 3 numbers" in reasons["laikago"]
    assert EXPERIMENT.reported(result) == []
