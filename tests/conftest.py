"""What every test shares: a quiet Warp, and the devices to run on."""

import pytest
import warp as wp

wp.config.quiet = True
wp.config.verbose = False
wp.init()

DEVICES = ["cpu", "cuda:0"] if wp.is_cuda_available() else ["cpu"]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    """The CPU and, where there is one, the first CUDA device; whatever the test makes is made there."""
    with wp.ScopedDevice(request.param):
        yield request.param


@pytest.fixture
def cuda() -> str:
    """The first CUDA device; the test is skipped where there is none."""
    if not wp.is_cuda_available():
        pytest.skip("needs a CUDA device")
    with wp.ScopedDevice("cuda:0"):
        yield "cuda:0"
