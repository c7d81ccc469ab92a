"""Which physics the conformance suite runs with: those of the registry, or those of `--physics`.

    pytest tests/conformance --physics my_package.physics:MyPhysics,cone-sweep

A class that is not registered is named as "module:Class".
"""

import importlib

import pytest

import stickslip as ss
from tests import support


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "physics" in metafunc.fixturenames:
        chosen = metafunc.config.getoption("--physics")
        names = chosen.split(",") if chosen else support.COMPILED_BY_WARP
        metafunc.parametrize("physics", names, indirect=True)


@pytest.fixture
def physics(request: pytest.FixtureRequest) -> ss.Physics:
    """Each physics of the suite, at its defaults."""
    module, _, name = request.param.rpartition(":")
    return getattr(importlib.import_module(module), name)() if module else ss.PHYSICS[name]()
