"""How many frames a second the viewer gives to a page, and how fast the simulation behind it runs.

    python benchmarks/viewer/frames.py --out FILE.json

The client is a process that takes every message and draws nothing: as far as the viewer can tell, a browser whose
graphics card is fast enough. It shares the machine with the simulation, as a browser would.
"""

import dataclasses
import multiprocessing
import pathlib
import sys
import time
from typing import Any

import tyro

import stickslip as ss
from stickslip import files, provenance
from stickslip.viewer.session import FPS


@dataclasses.dataclass(frozen=True)
class Options:
    """What to show."""

    out: pathlib.Path
    """JSON file"""
    scenes: tuple[str, ...] = ("hand", "humanoid", "scaling")
    """scenes, each with the default physics"""
    worlds: tuple[int, ...] = (1, 16)
    """numbers of worlds"""
    device: str = "cpu"
    """as for `stickslip view`"""
    seconds: float = 15.0
    """of a measurement [s]"""


def main(options: Options) -> int:
    """Measure; 0 if every case has 30 frames a second, but for a twentieth."""
    found = [_measure(scene, n, options) for scene in options.scenes for n in options.worlds]
    machine, versions = provenance.machine(options.device), provenance.versions()
    versions["viser"] = provenance.package_version("viser")
    content = {"limit": FPS, "seconds": options.seconds, "cases": found, "machine": machine, "versions": versions}
    files.write_json(options.out, content)
    return 0 if all(case["frames_per_second"] > 0.95 * FPS for case in found) else 1


def _measure(scene: str, nworld: int, options: Options) -> dict[str, Any]:
    spawn = multiprocessing.get_context("spawn")
    with ss.view(scene, nworld=nworld, device=options.device, block=False) as viewer:
        begin, end, answer = spawn.Event(), spawn.Event(), spawn.Queue()
        client = spawn.Process(target=_take, args=(viewer.url, begin, end, answer), daemon=True)
        client.start()
        answer.get(timeout=60.0)
        _wait_for_steps(viewer)
        begin.set()
        source = viewer._source
        frames, cpu, simulated, since = source._number, time.process_time(), source._simulated, time.perf_counter()
        time.sleep(options.seconds)
        took = time.perf_counter() - since
        frames, cpu, simulated = source._number - frames, time.process_time() - cpu, source._simulated - simulated
        end.set()
        messages, size = answer.get(timeout=60.0)
        client.join(10.0)
    case = {
        "scene": scene,
        "nworld": nworld,
        "physics": viewer._source.lanes[0].label,
        "frames_per_second": frames / took,
        "simulated_seconds_per_second": simulated / took,
        "cpu_seconds_per_second": cpu / took,
        "megabytes_per_second": size / took / 1e6,
        "messages_per_frame": messages / max(frames, 1),
    }
    print(", ".join(f"{name} {value:.3g}" if isinstance(value, float) else f"{value}" for name, value in case.items()))
    return case


def _wait_for_steps(viewer: Any) -> None:
    """Until all is compiled, the simulation runs, and every physics has said whether it can run the model."""
    end = time.monotonic() + 600.0
    while viewer._source._simulated < 1.0 or viewer._panel.refusals.works:
        if time.monotonic() > end:
            raise TimeoutError(f"the simulation does not run after 600 s: {viewer._source.errors}")
        time.sleep(0.1)
    time.sleep(3.0)


def _take(url: str, begin: Any, end: Any, answer: Any) -> None:
    """Take all messages; count those between two events."""
    import msgspec
    import viser
    from viser._messages import ViewerCameraMessage
    from websockets.sync.client import connect

    camera = ViewerCameraMessage(
        wxyz=(1.0, 0.0, 0.0, 0.0),
        position=(1.0, 0.0, 0.5),
        fov=1.0,
        near=0.01,
        far=100.0,
        image_height=640,
        image_width=1000,
        look_at=(0.0, 0.0, 0.0),
        up_direction=(0.0, 0.0, 1.0),
    )
    messages = size = 0
    protocol: Any = f"viser-v{viser.__version__}"
    with connect(url.replace("http", "ws"), subprotocols=[protocol], max_size=None, compression=None) as socket:
        socket.send(msgspec.msgpack.encode(camera.as_serializable_dict()))  # only then it counts as an open page
        answer.put("connected")
        while not end.is_set():
            try:
                message = socket.recv(timeout=0.2)
            except TimeoutError:
                continue
            if begin.is_set():
                messages, size = messages + 1, size + len(message)
    answer.put((messages, size))


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Options, description=__doc__)))
