"""A static page of clips: scenes under several physics, recorded, to be turned with the mouse; one file, no server."""

import base64
import dataclasses
import html
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from stickslip import files, mjcf, spec
from stickslip.errors import StickslipError
from stickslip.physics.registry import PHYSICS
from stickslip.simulation import Simulation
from stickslip.viewer.film import Recorder
from stickslip.viewer.lane import Lane
from stickslip.viewer.page import Choices, Page
from stickslip.viewer.server import HOST, halt, serve, viser
from stickslip.viewer.session import FPS, Frame


@dataclasses.dataclass(frozen=True)
class Clip:
    """A scene under a physics: the recording as a .viser file, or why there is none."""

    scene: str
    physics: str
    data: bytes = b""
    refused: str = ""


def record(scene: str, physics: str, seconds: float, device: str | None = None) -> Clip:
    """Simulate a scene, and record what the page would show."""
    try:
        sim = Simulation(scene, spec.resolve(physics, PHYSICS, "physics"), device=device)
        lane = Lane(sim)
        dt = float(sim.mjm.opt.timestep)
        stride = max(1, round(1.0 / (FPS * dt)))
        server = serve(None, HOST, "gallery")
        try:
            page, recorder = Page(server, Choices(), None), Recorder(server)
            for number in range(max(2, round(seconds * FPS))):
                shot = lane.shot(contacts=True, patches=True)
                page.draw(sim.mjm, Frame(number, (shot,), 1.0, False))
                if number == 0:
                    recorder.begin(0)
                recorder.add(Frame(number, (shot,), 1.0, False))
                lane.step(stride)
            return Clip(scene, physics, recorder.end())
        finally:
            halt(server)
    except StickslipError as error:
        return Clip(scene, physics, refused=str(error))


def write(
    path: Path,
    scenes: Sequence[str],
    physics: Sequence[str],
    seconds: float,
    device: str | None,
    tell: Callable[[str], None],
) -> int:
    """Record every scene under every physics and write the page; returns its size in bytes."""
    for scene in scenes:
        mjcf.check(scene)
    clips = []
    for scene in scenes:
        for name in physics:
            tell(f"recording {scene}, {name}")
            clips.append(record(scene, name, seconds, device))
    content = page(clips).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_bytes_atomic(path, content)
    return len(content)


def page(clips: Sequence[Clip]) -> str:
    """The page: a row of buttons for each scene, and one frame that plays the clip that was chosen."""
    client = Path(str(viser().__file__)).parent / "client" / "build" / "index.html"
    rows: dict[str, list[str]] = {}
    for i, clip in enumerate(clips):
        label = html.escape(clip.physics)
        if clip.refused:
            button = f'<button disabled title="{html.escape(clip.refused)}">{label}</button>'
        else:
            button = f'<button onclick="play({i}, this)">{label}</button>'
        rows.setdefault(clip.scene, []).append(button)
    body = "\n".join(f"<p><b>{html.escape(scene)}</b> {' '.join(buttons)}</p>" for scene, buttons in rows.items())
    body += "".join(
        f"\n<p><small>{html.escape(f'{each.scene}: {each.refused}')}</small></p>" for each in clips if each.refused
    )
    data = [base64.b64encode(clip.data).decode() for clip in clips]
    first = next((i for i, clip in enumerate(clips) if clip.data), -1)
    return _PAGE.format(
        body=body,
        client=base64.b64encode(client.read_bytes()).decode(),
        clips=json.dumps(data),
        first=first,
    )


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>stickslip gallery</title>
<style>
body {{ font: 15px/1.4 sans-serif; margin: 1em auto; max-width: 72em; padding: 0 1em; color: #222; }}
p {{ margin: 0.3em 0; }}
b {{ display: inline-block; min-width: 12em; }}
button {{ font: inherit; padding: 0.15em 0.7em; border: 1px solid #999; border-radius: 4px; background: #fff; }}
button.on {{ background: #2a9d6f; color: #fff; border-color: #2a9d6f; }}
button:disabled {{ color: #aaa; border-color: #ddd; }}
iframe {{ width: 100%; height: 34em; border: 1px solid #ccc; margin-top: 0.6em; }}
</style>
</head>
<body>
<h1>stickslip gallery</h1>
<p>Drag to turn, wheel to zoom. Arrows are contact forces of the physics: green sticks, orange slips.</p>
{body}
<iframe id="clip" title="clip"></iframe>
<script>
const client = atob("{client}"), clips = {clips};
const page = new TextDecoder().decode(Uint8Array.from(client, c => c.charCodeAt(0)));
function play(i, button) {{
  document.querySelectorAll("button.on").forEach(each => each.classList.remove("on"));
  if (button) button.classList.add("on");
  const told = "<script>window.__VISER_EMBED_DATA__=" + JSON.stringify(clips[i]) +
    ";window.__VISER_EMBED_CONFIG__={{darkMode:false}};<" + "/script>";
  const at = page.indexOf("</head>");
  const whole = new Blob([page.slice(0, at), told, page.slice(at)], {{type: "text/html"}});
  document.getElementById("clip").src = URL.createObjectURL(whole);
}}
const first = {first};
if (first >= 0) play(first, document.querySelector("button:not(:disabled)"));
</script>
</body>
</html>
"""
