"""Drop-in modules captured without a first step, as mjlab does it, each in a fresh process."""

import pytest

from tests.test_mjlab import python

FIRST = """
import tests.conftest
import mujoco, numpy as np, warp as wp
import stickslip.{module} as mjw
from stickslip import mjcf
from stickslip.mjlab.capture import arrays_of

wp.set_device("{device}")
mjm = mjcf.load("{scene}")
mjd = mujoco.MjData(mjm)
mujoco.mj_resetDataKeyframe(mjm, mjd, 0)
mujoco.mj_forward(mjm, mjd)
sizes = dict(nworld=2, nconmax=48, njmax=192)

def started():
    return mjw.put_model(mjm), mjw.put_data(mjm, mjd, **sizes) if {put} else mjw.make_data(mjm, **sizes)

m, d = started()
mask = wp.zeros(2, dtype=bool)
runs = lambda: mjw.step(m, d), lambda: mjw.forward(m, d), lambda: mjw.reset_data(m, d, reset=mask)
"""
CAPTURED = """
graphs = []
for run in runs:
    with wp.ScopedCapture() as capture:
        run()
    graphs.append(capture.graph)
captured = d
for k in range(60):
    wp.capture_launch(graphs[0])
    wp.capture_launch(graphs[1])
    if k == 40:
        mask.assign(np.array([False, True]))
        wp.capture_launch(graphs[2])
m, d = started()
mask.zero_()
for k in range(60):
    mjw.step(m, d)
    mjw.forward(m, d)
    if k == 40:
        mask.assign(np.array([False, True]))
        mjw.reset_data(m, d, reset=mask)
assert captured.time.numpy()[0] > 0.9 * 60 * mjm.opt.timestep > captured.time.numpy()[1] > 0
for name in "time qpos qvel act qacc xpos sensordata nacon".split():
    got, want = getattr(captured, name).numpy(), getattr(d, name).numpy()
    assert np.isfinite(got).all()
    np.testing.assert_allclose(got, want, rtol=0, atol={atol} if got.dtype == np.float32 else 0, err_msg=name)
print("same")
"""
HOST_ALONE = """
uploads, of_array = [], wp.array.__init__
def init(self, data=None, *args, **kwargs):
    if data is not None:
        uploads.append(np.shape(data))
    of_array(self, data, *args, **kwargs)
def read(*args, **kwargs):
    raise AssertionError("the host reads or waits for the device")
wp.array.__init__ = init
for name in ("numpy", "list", "assign"):
    setattr(wp.array, name, read)
wp.synchronize = wp.synchronize_device = wp.synchronize_stream = read
for run in runs:
    run()
assert not uploads, uploads
print("same")
"""
CASES = [("conesweep", "hand", True), ("conesweep", "scaling", False), ("comfree", "hand", True)]


@pytest.mark.parametrize("module, scene, put", CASES)
def test_a_graph_needs_no_first_step(module: str, scene: str, put: bool) -> None:
    """In a fresh process: captured after put_model and put_data (make_data), step, forward and reset go as they do
    without a graph, bit for bit."""
    given = {"module": module, "scene": scene, "put": put, "device": "cpu", "atol": 0.0}
    assert python((FIRST + CAPTURED).format(**given)).split()[-1] == "same"


@pytest.mark.parametrize("module, scene, put", CASES)
def test_a_graph_needs_no_first_step_on_cuda(cuda: str, module: str, scene: str, put: bool) -> None:
    """The same without `stickslip.mjlab`; CUDA adds contacts in any order."""
    given = {"module": module, "scene": scene, "put": put, "device": cuda, "atol": 2e-2}
    code = (FIRST + CAPTURED).format(**given).replace("qacc xpos sensordata nacon", "xpos")
    assert python(code).split()[-1] == "same"


@pytest.mark.parametrize("module, scene, put", CASES)
def test_a_first_step_takes_nothing_from_the_host(module: str, scene: str, put: bool) -> None:
    """What it would upload, read or wait for could not be captured on CUDA; a CPU alone would not notice."""
    given = {"module": module, "scene": scene, "put": put, "device": "cpu"}
    assert python((FIRST + HOST_ALONE).format(**given)).split()[-1] == "same"
