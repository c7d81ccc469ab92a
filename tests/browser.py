"""A headless Chromium, driven by the devtools protocol: for tests that look at a page as a person does."""

import base64
import io
import itertools
import json
import shutil
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CTRL = 2


def program() -> str:
    """The browser, or skip."""
    found = next((path for name in PROGRAMS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"no browser: none of {', '.join(PROGRAMS)} is installed")
    return found


class Browser:
    """A browser with one page."""

    def __init__(self, width: int = 1000, height: int = 640) -> None:
        sync = pytest.importorskip("websockets.sync.client", reason="no websockets to drive the browser with")
        self._folder = tempfile.TemporaryDirectory(prefix="stickslip-browser-")
        command = [program(), "--headless=new", "--no-sandbox", "--remote-debugging-port=0", "--no-first-run"]
        command += ["--disable-gpu", "--enable-unsafe-swiftshader", "--disable-dev-shm-usage", "--disable-quic"]
        command += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
        command += [f"--window-size={width},{height}", f"--user-data-dir={self._folder.name}", "about:blank"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        port = self._port()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as answer:
            page = next(each for each in json.load(answer) if each["type"] == "page")
        self._socket = sync.connect(page["webSocketDebuggerUrl"], max_size=None)
        self._numbers = itertools.count(1)
        self.call("Page.enable")
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)

    def _port(self) -> int:
        told = Path(self._folder.name, "DevToolsActivePort")
        for _ in range(300):
            if told.exists() and told.read_text().strip():
                return int(told.read_text().splitlines()[0])
            if self._process.poll() is not None:
                pytest.skip(f"the browser does not start here: exit status {self._process.returncode}")
            time.sleep(0.1)
        self.close()
        pytest.skip("the browser does not start here within 30 s")

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, method: str, **params: Any) -> Any:
        """A command of the devtools protocol, and its result."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            answer = json.loads(self._socket.recv(timeout=120))
            if answer.get("id") == number:
                assert "error" not in answer, answer["error"]
                return answer["result"]

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    @property
    def text(self) -> str:
        """What the page says."""
        return self.run("document.body ? document.body.innerText : ''") or ""

    def wait_for(self, text: str, timeout: float = 60.0) -> str:
        """Until the page says something; returns all that it says then."""
        return self.wait(lambda: text in self.text, f"{text!r} on the page", timeout)

    def wait(self, condition: Any, what: str, timeout: float = 60.0) -> str:
        end = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < end, f"no {what} after {timeout:.0f} s; the page says:\n{self.text}"
            time.sleep(0.2)
        return self.text

    def pixels(self) -> np.ndarray:
        """A screenshot, (height, width, 3)."""
        from PIL import Image

        data = base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))

    def mouse(self, kind: str, x: float, y: float, modifiers: int = 0, button: str = "left") -> None:
        pressed = 0 if kind == "mouseReleased" else 1
        self.call(
            "Input.dispatchMouseEvent",
            type=kind, x=x, y=y, button=button, buttons=pressed, clickCount=1, modifiers=modifiers,
        )  # fmt: skip

    def click(self, text: str, *, exact: bool = True) -> None:
        """Click on what says that: a button, tab, label or option."""
        x, y = self.find(text, exact=exact)
        time.sleep(0.3)
        while (now := self.find(text, exact=exact)) != (x, y):  # the page still moves
            x, y = now
            time.sleep(0.3)
        self.mouse("mouseMoved", x, y, button="none")
        self.mouse("mousePressed", x, y)
        self.mouse("mouseReleased", x, y)
        time.sleep(0.3)

    def choose(self, value: str, option: str) -> None:
        """In the drop-down that shows a value, choose another one."""
        script = f"""(() => {{
          const shown = e => e.value === {json.dumps(value)} && e.getClientRects().length;
          const found = [...document.querySelectorAll('input')].find(shown);
          if (!found) return null;
          found.scrollIntoView({{block: 'nearest'}});
          const box = found.getBoundingClientRect();
          return [box.x + box.width / 2, box.y + box.height / 2];
        }})()"""
        place = self.run(script)
        assert place, f"no drop-down shows {value!r}; the page says:\n{self.text}"
        self.mouse("mouseMoved", place[0], place[1], button="none")
        self.mouse("mousePressed", place[0], place[1])
        self.mouse("mouseReleased", place[0], place[1])
        time.sleep(0.3)
        self.click(option)

    def find(self, text: str, *, exact: bool = True) -> tuple[float, float]:
        """The middle of the smallest visible element that says that, scrolled into view."""
        script = f"""(() => {{
          const wanted = {json.dumps(text)}, says = e => (e.innerText || e.value || '').trim();
          const fits = e => {"says(e) === wanted" if exact else "says(e).includes(wanted)"};
          const found = [...document.querySelectorAll('body *')].filter(e => fits(e) && e.getClientRects().length);
          found.sort((a, b) => a.querySelectorAll('*').length - b.querySelectorAll('*').length);
          if (!found.length) return null;
          found[0].scrollIntoView({{block: 'nearest'}});
          const box = found[0].getBoundingClientRect();
          return [box.x + box.width / 2, box.y + box.height / 2];
        }})()"""
        place = self.run(script)
        assert place, f"nothing says {text!r}; the page says:\n{self.text}"
        return place[0], place[1]
