"""Which versions fit together; checked before mjlab is imported."""

import importlib.metadata
import re

from stickslip.errors import MissingExtra, Unsupported

TESTED = ("1.6",)
"""Versions of mjlab, major and minor, that the tests ran with."""
WARP = "4.0"
"""The version of MuJoCo Warp that stickslip is for."""
INSTALL = "pip install 'stickslip[mjlab]' && pip install --no-deps mjlab==1.6.0"
"""mjlab pins another MuJoCo, so that pip must not look at what it requires."""


def check(any_version: bool = False) -> None:
    """Raise MissingExtra without mjlab, and Unsupported for versions that do not fit."""
    warp = _version("mujoco-warp")
    if _short(warp) != WARP:
        raise Unsupported(
            f"mujoco-warp is {warp or 'not installed'}: stickslip needs {WARP}.*, and installing mjlab with what it "
            f"requires replaces it; {INSTALL}"
        )
    mjlab = _version("mjlab")
    if mjlab is None:
        raise MissingExtra(f"stickslip.mjlab needs the package mjlab; {INSTALL}")
    if not any_version and _short(mjlab) not in TESTED:
        tested = ", ".join(f"{version}.*" for version in TESTED)
        raise Unsupported(
            f"mjlab is {mjlab}: tested are {tested}; pip install --no-deps mjlab==1.6.0, or give any_version=True"
        )


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _short(version: str | None) -> str:
    """Major and minor of a version."""
    found = re.match(r"\d+\.\d+", version or "")
    return found.group() if found else ""
