"""Loads a MuJoCo model from whatever names it: a built-in scene, a file, XML text or a robot of MuJoCo Menagerie."""

from __future__ import annotations

import copy
import difflib
import math
import os
import re
from pathlib import Path

import mujoco

from stickslip import scenes
from stickslip.errors import InputError, MissingExtra, SceneError
from stickslip.state import MIN_TIMESTEP

SUFFIXES = (".xml", ".mjb", ".urdf")
"""The kinds of model files that `load` reads."""

_MENAGERIE = "menagerie:"
_LINE = re.compile(r"\bline(?: number)?[ =]+(\d+)", re.IGNORECASE)
_INCLUDE = re.compile(r"<include\s+file\s*=\s*[\"']([^\"']+)")


def load(scene: str | os.PathLike[str] | mujoco.MjModel, *, timestep: float | None = None) -> mujoco.MjModel:
    """Returns the MuJoCo model of a scene.

    Args:
        scene: one of
            a built-in scene, "drop-test", or one with parameters, "drop-test:n=3,layers=5";
            a path to a file that ends in .xml, .mjb or .urdf;
            MJCF or URDF text, which starts with "<";
            a robot of MuJoCo Menagerie, "menagerie:unitree_go2", or one of its entry points,
            "menagerie:unitree_go2/scene_mjx";
            an MjModel, which is returned as it is, or copied if `timestep` is given
        timestep: time step to set [s]; None keeps the model's own

    Raises:
        SceneError: the scene cannot be found or does not compile
        InputError: `timestep` is not a positive number, or `scene` is of another type
        MissingExtra: a Menagerie robot is asked for and the package mujoco-menagerie is not installed
    """
    if timestep is not None and not (math.isfinite(timestep) and timestep > MIN_TIMESTEP):
        raise InputError(
            f"timestep={timestep} must be a finite number of seconds above {MIN_TIMESTEP:g}; 0.002 suits most scenes"
        )
    model = _model(scene)
    if timestep is not None:
        if model is scene:
            model = copy.copy(model)
        model.opt.timestep = timestep
    return model


def _model(scene: str | os.PathLike[str] | mujoco.MjModel) -> mujoco.MjModel:
    if isinstance(scene, mujoco.MjModel):
        return scene
    if isinstance(scene, os.PathLike):
        return _from_file(Path(scene))
    if not isinstance(scene, str):
        raise InputError(
            f"scene is of type {type(scene).__name__}; give a scene's name, a path, XML text or a mujoco.MjModel"
        )
    if scene.lstrip().startswith("<"):
        return _from_text(scene.lstrip(), "<XML string>")
    if scene.startswith(_MENAGERIE):
        return _from_file(menagerie_file(scene.removeprefix(_MENAGERIE)))
    if scene.lower().endswith(SUFFIXES) or "/" in scene or os.sep in scene or Path(scene).is_file():
        return _from_file(Path(scene))
    name, _, text = scene.partition(":")
    return _from_text(scenes.get(name).build(**_parameters(scene, text)), f"built-in scene {scene!r}")


def _parameters(scene: str, text: str) -> dict[str, str]:
    """Splits "n=3,layers=5" into names and values, still as text."""
    parameters: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (part.strip() for part in item.partition("="))
        if not name or not equals or not value:
            raise SceneError(f"scene {scene!r}: {item!r} is not name=value; write parameters as name:a=1,b=2")
        if name in parameters:
            raise SceneError(f"scene {scene!r}: parameter {name!r} is given twice; give it once")
        parameters[name] = value
    return parameters


def _from_text(text: str, origin: str) -> mujoco.MjModel:
    try:
        return mujoco.MjModel.from_xml_string(text)
    except ValueError as error:
        raise broken(origin, error, text) from error


def _from_file(path: Path) -> mujoco.MjModel:
    if not path.exists():
        raise SceneError(
            f"no model file at {str(path)!r}; check the path, or see `stickslip scenes` for built-in scenes"
        )
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES or not path.is_file():
        raise SceneError(f"{str(path)!r} is not a model file; give a file that ends in {', '.join(SUFFIXES)}")
    try:
        if suffix == ".mjb":
            return mujoco.MjModel.from_binary_path(str(path))
        return mujoco.MjModel.from_xml_path(str(path))
    except ValueError as error:
        text = "" if suffix == ".mjb" else path.read_text(encoding="utf-8", errors="replace")
        raise broken(str(path), error, text) from error


def broken(origin: str, error: ValueError, text: str) -> SceneError:
    """The error for a model that MuJoCo refuses: where it came from, the line if MuJoCo tells, and MuJoCo's words."""
    message = " ".join(str(error).split())
    found = _LINE.search(message)
    line = int(found[1]) if found else 0
    if line > 0:
        return SceneError(f"{origin}, line {line}: {message}")
    # MuJoCo numbers no lines inside included files.
    included = _INCLUDE.findall(text)
    where = f" (look in its included files too: {', '.join(included)})" if included else ""
    return SceneError(f"{origin}: {message}{where}")


def menagerie_file(name: str) -> Path:
    """The model file of a robot of Menagerie, "NAME" or "NAME/ENTRY"; downloads it on first use.

    Raises:
        MissingExtra: the package mujoco-menagerie is not installed
        SceneError: there is no such robot, or it cannot be downloaded
    """
    try:
        import mujoco_menagerie  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise MissingExtra(
            f"scene {_MENAGERIE + name!r} needs the package mujoco-menagerie; pip install 'stickslip[menagerie]'"
        ) from error
    robot_name, _, entry = name.partition("/")
    known = mujoco_menagerie.names()
    if robot_name not in known:
        close = difflib.get_close_matches(robot_name, known, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(repr(c) for c in close)}? " if close else ""
        raise SceneError(
            f"MuJoCo Menagerie has no robot {robot_name!r}; {hint}"
            f"it has {len(known)}, mujoco_menagerie.names() lists them"
        )
    try:
        return mujoco_menagerie.get(robot_name).xml(entry or None)
    except mujoco_menagerie.UnknownEntryPointError as error:
        raise SceneError(f"MuJoCo Menagerie: {error}") from error
    except mujoco_menagerie.DownloadError as error:
        raise SceneError(
            f"could not download the robot {robot_name!r} of MuJoCo Menagerie ({error}); "
            "check the internet connection, or set MENAGERIE_ROOT to a local checkout of mujoco_menagerie"
        ) from error
    except (mujoco_menagerie.MenagerieError, OSError) as error:
        raise SceneError(
            f"could not get the robot {robot_name!r} of MuJoCo Menagerie ({error}); "
            "set MENAGERIE_ROOT to a local checkout of mujoco_menagerie, or unset it to download the robot"
        ) from error
