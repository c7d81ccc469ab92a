"""The viewer in a real browser: a page that is clicked, dragged and looked at. Skipped where there is no browser."""

import time

import numpy as np
import pytest

import stickslip as ss
from stickslip.viewer import layout
from stickslip.viewer.plots import colour
from tests.browser import CTRL, Browser, program

pytest.importorskip("viser", reason="the viewer needs viser: pip install 'stickslip[viewer]'")

CORAL = (120, 25)
"""Of the capsule in `pinch`: much red, and that much more red than blue; the rest is grey and blue."""


@pytest.fixture(scope="module")
def viewer():
    program()
    with ss.view("pinch", nworld=1, device="cpu", paused=True, block=False) as shown:
        shown._server.scene.configure_default_lights(cast_shadow=False)  # slow without a graphics card
        yield shown


@pytest.fixture(scope="module")
def browser(viewer):
    with Browser() as page:
        page.open(viewer.url)
        page.wait_for("paused", 120)
        page.wait(lambda: len(capsule(page)) > 100, "capsule in the picture")
        yield page


def capsule(page: Browser) -> np.ndarray:
    """The pixels of the capsule, (n, 2) as x, y."""
    pixels = page.pixels().astype(int)
    found = (pixels[..., 0] > CORAL[0]) & (pixels[..., 0] - pixels[..., 2] > CORAL[1])
    found[:, 590:] = False  # the panel
    found[:160, :320] = False  # a notice on software rendering
    return np.argwhere(found)[:, ::-1]


def test_the_page_shows_bodies_and_says_what_they_do(browser):
    text = browser.text
    assert "t = 0.000 s" in text and "cone-sweep" in text and "contacts" in text
    assert len(np.unique(browser.pixels().reshape(-1, 3), axis=0)) > 200  # light and shade
    assert "share" not in text.lower()


def test_the_camera_fits_the_window(browser, viewer):
    page = viewer._page
    wanted = layout.look(page._mjm, page._mjd, page.layout, (1000, 640))
    (client,) = viewer._server.get_clients().values()
    browser.wait(lambda: np.allclose(client.camera.position, wanted.position, rtol=1e-3), "camera for this window")
    assert capsule(browser)[:, 0].min() > 0.0 and capsule(browser)[:, 0].max() < 585  # the panel begins there


def test_a_step_is_a_step(browser, viewer):
    browser.click("step")
    browser.wait_for("t = 0.002 s")
    browser.click("reset")
    browser.wait_for("t = 0.000 s")


def test_the_drop_down_swaps_the_physics_and_keeps_the_state(browser, viewer):
    before = viewer._source.sims[0].state
    browser.click("physics")
    browser.choose("cone-sweep", "comfree")
    browser.wait(lambda: viewer._source.lanes[0].label == "comfree", "physics comfree", 300)
    browser.wait_for("comfree\t")
    assert np.array_equal(viewer._source.sims[0].state.qpos, before.qpos)
    browser.wait_for("pbd-r cannot run this model")  # greyed out, with the reason
    assert browser.run("[...document.querySelectorAll('input[type=checkbox]')].filter(e => e.disabled).length") >= 1


def test_a_second_physics_stands_beside_the_first(browser, viewer):
    browser.wait(lambda: len(capsule(browser)), "the capsule")  # drawn again after the physics was swapped
    alone = len(capsule(browser))
    viewer._source.order(lambda: viewer._source.add(ss.ConeSweep()))
    browser.wait_for("cone-sweep differs from comfree: qpos 0.00e+00", 120)
    browser.wait(lambda: np.ptp(capsule(browser)[:, 0]) > 150, "two capsules, side by side")
    assert len(capsule(browser)) < 4 * alone
    viewer._source.order(lambda: viewer._source.drop(1))
    browser.wait(lambda: "differs" not in browser.text, "end of the comparison")


def test_a_slider_sets_a_control(browser, viewer):
    browser.click("controls")
    browser.wait_for("controls of all worlds")
    script = """(() => {
      const all = [...document.querySelectorAll('[role=slider]')].filter(e => e.offsetParent);
      const box = all[all.length - 1].getBoundingClientRect();
      return [box.x + box.width / 2, box.y + box.height / 2];
    })()"""
    x, y = browser.run(script)
    browser.mouse("mousePressed", x, y)
    for i in range(1, 6):
        browser.mouse("mouseMoved", x + 6 * i, y)
    browser.mouse("mouseReleased", x + 30, y)
    sim = viewer._source.sims[0]
    browser.wait(lambda: sim.ctrl.numpy()[0, 1] > 20.0, "control of the slider")
    assert sim.ctrl.numpy()[0, 0] == 3.0  # the other one is as it was
    browser.click("reset")
    browser.wait(lambda: sim.ctrl.numpy()[0, 1] == 3.0, "control of the key frame")


def test_a_body_is_pulled_with_the_mouse(browser, viewer):
    place = capsule(browser)
    x, y = place[np.argmin(np.abs(place - np.median(place, axis=0)).sum(axis=1))].tolist()
    control = {"key": "Control", "code": "ControlLeft", "windowsVirtualKeyCode": 17, "modifiers": CTRL}
    browser.call("Input.dispatchKeyEvent", type="rawKeyDown", **control)
    browser.mouse("mouseMoved", x, y, CTRL, button="none")
    browser.mouse("mousePressed", x, y, CTRL)
    for i in range(1, 12):
        browser.mouse("mouseMoved", x + 3 * i, y - 5 * i, CTRL)
        time.sleep(0.05)
    pulls = viewer._source.pulls
    browser.wait(lambda: pulls.all(), "pull")
    (pull,) = pulls.all().values()
    mjm = viewer._source.mjm
    assert mjm.body(pull.body).name in ("capsule", "left", "right")
    assert pull.target[2] > 0.0  # upwards
    viewer._source.single()
    sim = viewer._source.sims[0]
    browser.wait(lambda: sim.xfrc_applied.numpy()[0, pull.body, 2] > 0.0, "force upwards")
    browser.mouse("mouseReleased", x + 33, y - 55, CTRL)
    browser.call("Input.dispatchKeyEvent", type="keyUp", **{**control, "modifiers": 0})
    browser.wait(lambda: not pulls.all(), "release")


def test_plots_show_lines_up_to_now(browser, viewer):
    source = viewer._source
    source.speed, source.paused = 1.0, False
    end = float(source.sims[0].time.numpy()[0]) + 1.0
    browser.click("plots")
    browser.wait(lambda: float(source.sims[0].time.numpy()[0]) > end, "a second of simulation")
    source.paused = True
    label = source.lanes[0].label
    line = np.array([int(colour(label)[i : i + 2], 16) for i in (1, 3, 5)])

    def drawn() -> int:
        panel = browser.pixels()[:, 600:].astype(int)
        return int((np.abs(panel - line).max(axis=-1) < 60).sum())

    browser.wait(lambda: drawn() > 20, f"line of {label}")
    shown = "Object.values(window.__viserTestpoints.uplots)[0].chart"
    assert browser.run(f"[{shown}.scales.x.min, {shown}.scales.x.max]") == [-10.0, 0.0]
    assert browser.run(f"{shown}.data[0].at(-1)") == 0.0


def test_a_lost_client_lets_go_and_the_simulation_goes_on(viewer):
    from stickslip.viewer.pull import Pull

    source = viewer._source
    with Browser(600, 400) as other:
        other.open(viewer.url)
        other.wait_for("paused", 120)
        client = max(viewer._server.get_clients())
        source.pulls.set(client, Pull(0, 0, 1, np.zeros(3), np.ones(3)))
        assert source.pulls.all()
    end = time.monotonic() + 30.0
    while source.pulls.all():
        assert time.monotonic() < end
        time.sleep(0.1)
    source.paused = False
    before = float(source.sims[0].time.numpy()[0])
    while float(source.sims[0].time.numpy()[0]) < before + 0.05:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert not source.errors and not viewer.errors
