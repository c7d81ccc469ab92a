"""benchmarks/kernels: kernels for a GPU that is not there, under the names that Warp looks for; errors."""

import importlib
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import warp as wp

from stickslip.errors import DeviceError, InputError, SceneError

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks" / "kernels"
JOB = re.compile(r"1/1  pendulum, 4 worlds, cone-sweep: (\d+) modules, (\d+) compiled")


def needs_nvrtc() -> None:
    if not wp.get_cuda_supported_archs():
        pytest.skip("this Warp was built without NVRTC")


@pytest.fixture
def compile_for(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of the command."""
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module("compile_for")


def test_kernels_of_a_scene_are_compiled_once(tmp_path: Path, compile_for: Any, capsys: pytest.CaptureFixture[str]):
    needs_nvrtc()
    out, packed = tmp_path / "wc", tmp_path / "wc.tar.xz"
    options = compile_for.Options(arch="90", out=out, scenes=("pendulum",), nworld=4, pack=packed)
    assert compile_for.main(options) == 0
    found = JOB.search(capsys.readouterr().out)
    assert found and int(found[1]) == int(found[2]) > 10
    kernels = out / wp.config.version
    modules = sorted(path.name for path in kernels.iterdir())
    assert len(modules) == int(found[1]) and any("conesweep" in name for name in modules)
    for name in modules:
        assert (kernels / name / f"{name}.sm90.cubin").read_bytes()[:4] == b"\x7fELF"
        assert (kernels / name / f"{name}.meta").is_file()
    with tarfile.open(packed) as archive:
        names = archive.getnames()
    assert len(names) == 2 * len(modules) and f"wc/{wp.config.version}/{modules[0]}/{modules[0]}.meta" in names

    assert compile_for.main(options) == 0 and "0 of 1 jobs to do" in capsys.readouterr().out
    lost = kernels / modules[0] / f"{modules[0]}.sm90.cubin"
    lost.unlink()
    times = {path: path.stat().st_mtime_ns for path in kernels.rglob("*.cubin")}
    assert compile_for.main(options) == 0
    resumed = JOB.search(capsys.readouterr().out)
    assert resumed and (int(resumed[1]), int(resumed[2])) == (len(modules), 1) and lost.is_file()
    assert times == {path: path.stat().st_mtime_ns for path in times}


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"arch": "sm_90"}, InputError, "'sm_90': write the GPU's compute capability"),
        ({"arch": "20"}, InputError, "arch is 20: this Warp compiles for"),
        ({"scenes": ("pendulun",)}, SceneError, "pendulun.*did you mean 'pendulum'"),
        ({"scenes": ("pendulum",), "physics": ("mujocu",)}, InputError, "did you mean 'mujoco'"),
        ({"experiments": ("sped",)}, InputError, "no experiment named 'sped'; did you mean 'speed'"),
        ({"experiments": ("speed",), "physics": ("newton",)}, InputError, "newton is a planner, and speed takes"),
        ({"tasks": ("push-tt",)}, InputError, "no task named 'push-tt'"),
        ({"scenes": ("pendulum",), "pack": Path("a.zip")}, InputError, "must end with .tar.xz"),
        ({}, InputError, "nothing to compile"),
    ],
)
def test_what_cannot_be_compiled(given: dict[str, Any], kind: Any, message: str, tmp_path: Path, compile_for: Any):
    needs_nvrtc()
    if "tasks" in given:
        pytest.importorskip("torch")
    with pytest.raises(kind, match=message):
        compile_for.main(compile_for.Options(**{"arch": "90", "out": tmp_path / "wc", **given}))
    assert not (tmp_path / "wc").exists()


def test_warp_of_another_version_or_without_nvrtc(compile_for: Any, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patch:
        patch.setattr(wp, "__version__", "1.20.3")
        with pytest.raises(DeviceError, match=r"Warp is 1\.20\.3, .*install that \(pip install 'warp-lang==1\.19"):
            compile_for.arch_of("90")
    monkeypatch.setattr(wp, "get_cuda_supported_archs", list)
    with pytest.raises(DeviceError, match="built without CUDA or NVRTC"):
        compile_for.arch_of("90")


def test_the_command_tells_an_error(tmp_path: Path):
    needs_nvrtc()
    command = [sys.executable, str(FOLDER / "compile_for.py"), "--arch", "ninety", "--out", str(tmp_path / "wc")]
    found = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=600)
    assert found.returncode == 2 and "error: arch is 'ninety'" in found.stderr and "Traceback" not in found.stderr
