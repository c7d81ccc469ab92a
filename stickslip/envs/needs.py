"""Optional packages of environments: an error that names the extra where one is missing."""

import importlib.util

from stickslip.errors import MissingExtra


def torch() -> None:
    """Raise MissingExtra unless PyTorch is installed."""
    if importlib.util.find_spec("torch") is None:
        raise MissingExtra("environments need PyTorch: pip install 'stickslip[envs]'")


def gymnasium() -> None:
    """Raise MissingExtra unless Gymnasium is installed."""
    torch()
    if importlib.util.find_spec("gymnasium") is None:
        raise MissingExtra("environments of Gymnasium need its package: pip install 'stickslip[envs]'")


def rsl_rl() -> None:
    """Raise MissingExtra unless rsl_rl is installed."""
    torch()
    if importlib.util.find_spec("rsl_rl") is None:
        raise MissingExtra("training needs rsl-rl-lib: pip install 'stickslip[train]'")
