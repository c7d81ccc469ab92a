"""Compiles kernels for a GPU on a machine without one: fills a cache for Warp.

    python benchmarks/kernels/compile_for.py --arch 90 --experiments rollouts speed --physics cone-sweep mujoco --out wc

Copy the folder to the machine with the GPU, and set WARP_CACHE_PATH to it there. Each scene, task, and case of an
experiment is a job for each physics, in a process of its own; jobs/ has what came of each, and its log. The same
command goes on where it stopped: a job is done if all its kernels are there and the code is the same. README.md says
what this relies on, and what it misses.
"""

import dataclasses
import hashlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import one_job
import tyro
import warp as wp
from one_job import Job

from stickslip import bench, compilation, files, mjcf, provenance, spec
from stickslip.bench import methods
from stickslip.errors import DamagedFile, DeviceError, InputError, StickslipError, unknown
from stickslip.physics.registry import PHYSICS

WRITTEN_FOR = "1.19"
"""The version of Warp whose private parts `stand_in` replaces."""
PACKED = (".cubin", ".meta")
LOG = 15
"""Lines of a log that are shown of a job that failed."""
UNFINISHED = re.compile(r".+_p\d+_t\d+")
"""Folders of Warp in which a process was compiling."""


@dataclasses.dataclass(frozen=True)
class Options:
    """What to compile, and for which GPU."""

    arch: str
    """compute capability of the GPU without the dot, such as 80 for an A100, 90 for an H100 or H200"""
    out: Path
    """folder of the cache; WARP_CACHE_PATH on the machine with the GPU"""
    scenes: tuple[str, ...] = ()
    """names of scenes, or model files"""
    tasks: tuple[str, ...] = ()
    """of `stickslip train`, with the number of worlds that it takes on a GPU"""
    experiments: tuple[str, ...] = ()
    """of `stickslip bench`, all cases, with the settings for a GPU"""
    physics: tuple[str, ...] = ("cone-sweep",)
    """each with all of them; with parameters, as in comfree:stiffness=0.1"""
    nworld: int = 4096
    """number of worlds of a scene"""
    jobs: int = 1
    """processes at the same time, one for each core at most: NVRTC compiles one kernel at a time in each"""
    limit: float = 3600.0
    """longest time of a job; what it has compiled by then stays [s]"""
    pack: Path | None = None
    """a file .tar.xz for what the GPU needs of the folder"""


def main(options: Options) -> int:
    """Compile what is missing; 0 if nothing is left to do."""
    arch = arch_of(options.arch)
    check(options)
    jobs = jobs_of(options, arch)
    with files.held(options.out, "run of compile_for.py"):
        for folder in _kernels(options.out).glob("*"):
            if UNFINISHED.fullmatch(folder.name):
                shutil.rmtree(folder)
        failed = compile_all(options, jobs)
        cubins = list(_kernels(options.out).glob("*/*.cubin"))
        size = sum(path.stat().st_size for path in cubins)
        print(f"{len(cubins)} cubins, {size / 1e6:.1f} MB in {options.out}; {failed} of {len(jobs)} jobs failed")
        if options.pack is not None:
            pack(options.out, options.pack)
    return 1 if failed else 0


# --- what to do ---


def arch_of(text: str) -> int:
    """The compute capability that a text means, if this machine can compile for it."""
    if not text.isdecimal():
        raise InputError(f"arch is {text!r}: write the GPU's compute capability without the dot, such as 90")
    if wp.__version__.rpartition(".")[0] != WRITTEN_FOR:
        raise DeviceError(
            f"Warp is {wp.__version__}, and stand_in.py replaces private parts of Warp {WRITTEN_FOR}: install that "
            f"(pip install 'warp-lang=={WRITTEN_FOR}.*'), or compare these parts and change WRITTEN_FOR"
        )
    with compilation.quiet():
        known = wp.get_cuda_supported_archs()
    if not known:
        raise DeviceError(
            "this Warp cannot compile for a GPU, it was built without CUDA or NVRTC: take the wheel of PyPI for Linux "
            "on x86_64"
        )
    if int(text) not in known:
        raise InputError(f"arch is {text}: this Warp compiles for {', '.join(map(str, known))}")
    return int(text)


def check(options: Options) -> None:
    """Raise for names that do not exist."""
    if not (options.scenes or options.tasks or options.experiments):
        raise InputError("there is nothing to compile: name --scenes, --tasks or --experiments")
    if not options.physics or options.jobs < 1 or options.nworld < 1:
        raise InputError("--physics, --jobs and --nworld: at least one is needed")
    if options.pack is not None and not options.pack.name.endswith(".tar.xz"):
        raise InputError(f"pack is {options.pack}: the name must end with .tar.xz")
    for name in options.physics:
        if options.scenes or options.tasks:
            spec.resolve(name, PHYSICS, "physics")
        method = methods.resolve([name])[name]
        for experiment in options.experiments:
            if experiment not in bench.EXPERIMENTS:
                raise unknown("experiment", experiment, bench.EXPERIMENTS)
            if method.kind != (kind := bench.EXPERIMENTS[experiment].kind):
                raise InputError(f"{name} is a {method.kind}, and {experiment} takes a {kind}")
    for name in options.scenes:
        mjcf.load(name)
    if options.tasks:
        from stickslip.envs.tasks import load_task

        for name in options.tasks:
            load_task(name)


def jobs_of(options: Options, arch: int) -> list[Job]:
    """All jobs; those of different physics side by side, since they share fewer kernels, for which they would wait."""
    what: list[dict[str, Any]] = [{"kind": "scene", "name": name, "nworld": options.nworld} for name in options.scenes]
    what += [{"kind": "task", "name": name} for name in options.tasks]
    for name in options.experiments:
        experiment = bench.EXPERIMENTS[name]
        cases = experiment.cases(experiment.make_settings(device=one_job.DEVICE))
        what += [{"kind": "experiment", "name": name, "case": case} for case in cases]
    return [Job(**one, physics=physics, arch=arch) for one in what for physics in options.physics]


# --- doing it ---


def compile_all(options: Options, jobs: list[Job]) -> int:
    """Run the jobs that are not done; how many failed."""
    code = _digest()
    waiting = [job for job in jobs if not _is_done(options.out, job, code)]
    total, ended, failed, running = len(waiting), 0, 0, dict[Job, tuple["subprocess.Popen[bytes]", float]]()
    print(f"{total} of {len(jobs)} jobs to do", flush=True)
    try:
        while waiting or running:
            while waiting and len(running) < options.jobs:
                job = waiting.pop(0)
                running[job] = _started(options.out, job), time.monotonic() + options.limit
            for job, (process, end) in list(running.items()):
                if time.monotonic() > end:
                    process.kill()
                    process.wait()
                if process.poll() is not None:
                    del running[job]
                    ended += 1
                    done = _ended(options.out, job, process.returncode, code)
                    failed += not done
                    print(f"{ended}/{total}  {job}: {_told(options.out, job, done)}", flush=True)
            time.sleep(0.1)
    finally:
        for process, _ in running.values():
            process.kill()
            process.wait()
    return failed


def _kernels(out: Path) -> Path:
    """Where Warp has the folders of modules."""
    return out / wp.__version__


def _file(out: Path, job: Job, suffix: str) -> Path:
    """A file of a job."""
    name = re.sub(r"[^\w.=-]+", "-", f"{job.kind} {job} sm{job.arch}")
    digest = hashlib.sha256(json.dumps(dataclasses.asdict(job)).encode()).hexdigest()[:6]
    return out / "jobs" / f"{name[:100]}-{digest}{suffix}"


def _digest() -> str:
    """Of all code and models, and of the versions of packages."""
    found = hashlib.sha256(json.dumps(provenance.versions(), sort_keys=True).encode())
    package, here = Path(bench.__file__).parents[1], Path(__file__).parent
    for path in sorted(itertools.chain(package.rglob("*.py"), package.rglob("*.xml"), here.glob("*.py"))):
        found.update(path.read_bytes())
    return found.hexdigest()


def _is_done(out: Path, job: Job, code: str) -> bool:
    try:
        record = files.read_json(_file(out, job, ".json"), "what came of a job")
    except (FileNotFoundError, DamagedFile):
        return False
    return record.get("code") == code and not _missing(out, job, record)


def _missing(out: Path, job: Job, record: dict[str, Any]) -> list[str]:
    """Modules of a job that the folder does not have."""
    kernels = _kernels(out)
    return [
        name
        for name in record["modules"]
        if not all((kernels / name / f"{name}{end}").is_file() for end in (f".sm{job.arch}.cubin", ".meta"))
    ]


def _started(out: Path, job: Job) -> "subprocess.Popen[bytes]":
    record, log = _file(out, job, ".json"), _file(out, job, ".txt")
    record.parent.mkdir(parents=True, exist_ok=True)
    record.unlink(missing_ok=True)
    command = [sys.executable, one_job.__file__, str(record.resolve()), json.dumps(dataclasses.asdict(job))]
    with open(log, "wb") as written:
        environment = {**os.environ, "WARP_CACHE_PATH": str(out.resolve())}
        return subprocess.Popen(command, stdout=written, stderr=subprocess.STDOUT, env=environment)


def _ended(out: Path, job: Job, returned: int, code: str) -> bool:
    """Note that a job is done; whether it is."""
    path = _file(out, job, ".json")
    if returned != 0 or not path.is_file():
        return False
    record = {**files.read_json(path), "code": code}
    files.write_json(path, record)
    return not _missing(out, job, record)


def _told(out: Path, job: Job, done: bool) -> str:
    """What came of a job, in a line; of one that failed also the end of its log."""
    path, log = _file(out, job, ".json"), _file(out, job, ".txt")
    record = files.read_json(path) if path.is_file() else {"modules": [], "compiled": 0, "seconds": 0.0}
    found = f"{len(record['modules'])} modules, {record['compiled']} compiled, {record['seconds']:.0f} s"
    if done:
        return f"{found}{', not supported' if record['unsupported'] else ''}"
    shown = log.read_text(errors="replace").strip().splitlines()[-LOG:]
    return "\n".join([f"failed; {found}; {log} ends with", *(f"  {line}" for line in shown)])


def pack(out: Path, path: Path) -> None:
    """Write the files that a GPU needs into an archive, below the name of the folder."""
    root = out.resolve()
    found = sorted(one for one in _kernels(root).glob("*/*") if one.suffix in PACKED)
    unfinished = path.with_name(f".{path.name}.tmp")
    with tarfile.open(unfinished, "w:xz") as archive:
        for one in found:
            archive.add(one, one.relative_to(root.parent))
    unfinished.replace(path)
    print(f"{len(found)} files, {path.stat().st_size / 1e6:.1f} MB in {path}")


if __name__ == "__main__":
    try:
        sys.exit(main(tyro.cli(Options, description=__doc__)))
    except StickslipError as wrong:
        print(f"error: {wrong}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("interrupted; the same command goes on", file=sys.stderr)
        sys.exit(130)
