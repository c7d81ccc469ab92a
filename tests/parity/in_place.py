"""A plugin of pytest that runs MuJoCo Warp's own tests with a drop-in module in its place (docs/mujoco-warp.md).

python -m pytest -p tests.parity.in_place --module stickslip.conesweep --pyargs mujoco_warp._src.sensor_test
"""

import importlib
import inspect
import types
from collections.abc import Iterator
from typing import Any

import mujoco_warp as mjw
import pytest
from mujoco_warp import test_data


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--module", metavar="NAME", default="stickslip.conesweep", help="the drop-in module")


def stand_in(name: str) -> types.ModuleType:
    """The drop-in module, and MuJoCo Warp's private names, which its tests use too."""
    module = types.ModuleType(name)
    public: dict[str, Any] = vars(importlib.import_module(name))
    module.__dict__.update({key: value for key, value in public.items() if not key.startswith("__")})
    module.__getattr__ = lambda key: getattr(mjw, key)  # type: ignore[method-assign]
    return module


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """Before the tests of a module are collected, swap MuJoCo Warp in it and in what makes models for it."""
    if isinstance(collector, pytest.Module):
        module = stand_in(collector.config.getoption("--module"))
        test_data.mjw = module
        for key, value in list(vars(collector.obj).items()):
            if value is mjw:
                setattr(collector.obj, key, module)
            elif inspect.isroutine(value) and value is getattr(mjw, key, None):  # imported by its name
                setattr(collector.obj, key, getattr(module, key))
    return (yield)
