"""Loads a MuJoCo model from a built-in scene, a file, XML text, a spec, or a robot of MuJoCo Menagerie.

MuJoCo is imported when the first model is loaded, so that `check` answers at once.
"""

from __future__ import annotations

import contextlib
import copy
import math
import numbers
import os
import re
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stickslip import model_files, scenes
from stickslip.errors import InputError, MissingExtra, SceneError, unknown
from stickslip.readout import readout
from stickslip.state import MIN_TIMESTEP

if TYPE_CHECKING:
    import mujoco

SUFFIXES = (".xml", ".mjb", ".urdf")
"""The model files that `load` reads."""

_MENAGERIE = "menagerie:"
_LINE = re.compile(r"\bline(?: number)?[ =]+(\d+)", re.IGNORECASE)
_INCLUDE = re.compile(r"<include\s+file\s*=\s*[\"']([^\"']+)")
_lock = threading.RLock()


def load(
    scene: str | os.PathLike[str] | mujoco.MjSpec | mujoco.MjModel,
    *,
    timestep: float | None = None,
    allow: Iterable[str | os.PathLike[str]] = (),
) -> mujoco.MjModel:
    """Returns the MuJoCo model of a scene.

    Args:
        scene: one of
            a built-in scene, "drop-test", or one with parameters, "drop-test:n=3,layers=5";
            a path to a file that ends in .xml, .mjb or .urdf;
            MJCF or URDF text, which starts with "<";
            a robot of MuJoCo Menagerie, "menagerie:unitree_go2", or one of its entry points,
            "menagerie:unitree_go2/scene_mjx";
            an MjSpec, which is compiled;
            an MjModel, which is returned as it is, or copied if `timestep` is given
        timestep: time step to set [s]; None keeps the model's own
        allow: folders that a file or a text may read, besides the one that it lies in

    MuJoCo's own warnings become Python warnings, unless `mujoco.set_mju_user_warning` was used.

    Raises:
        SceneError: the scene cannot be found, does not compile, or names files that are not allowed
        InputError: it is larger than `stickslip.limits` allows, `timestep` is not a positive number, or `scene` is of
            another type
        MissingExtra: a Menagerie robot is asked for and the package mujoco-menagerie is not installed
    """
    real = isinstance(timestep, numbers.Real) and not isinstance(timestep, bool)
    if timestep is not None and not (real and math.isfinite(timestep) and timestep > MIN_TIMESTEP):
        raise InputError(
            f"timestep={timestep} must be a finite number of seconds above {MIN_TIMESTEP:g}; 0.002 suits most scenes"
        )
    if isinstance(scene, str):
        check(scene)
    import mujoco

    model: Any = scene if isinstance(scene, mujoco.MjModel) else _compile(scene, list(allow))
    if timestep is not None:
        if model is scene:
            model = copy.copy(model)
        model.opt.timestep = timestep
    return model


def check(scene: str) -> None:
    """Raise SceneError if a string names a built-in scene, a parameter or a file that does not exist.

    It compiles and downloads nothing, and does not import MuJoCo.
    """
    if scene.lstrip().startswith("<") or scene.startswith(_MENAGERIE):
        return
    if _is_path(scene):
        _existing(Path(scene))
    else:
        scenes.resolve(scene)


def _is_path(scene: str) -> bool:
    return scene.lower().endswith(SUFFIXES) or "/" in scene or os.sep in scene or Path(scene).is_file()


def _compile(scene: Any, allow: Sequence[str | os.PathLike[str]]) -> mujoco.MjModel:
    import mujoco

    if isinstance(scene, mujoco.MjSpec):
        return _from_spec(scene, f"spec {scene.modelname!r}")
    if isinstance(scene, os.PathLike):
        return _from_file(Path(scene), allow)
    if not isinstance(scene, str):
        raise InputError(
            f"scene is of type {type(scene).__name__}; give a scene's name, a path, XML text, a mujoco.MjSpec or a "
            "mujoco.MjModel"
        )
    if scene.lstrip().startswith("<"):
        return _from_text(scene.lstrip(), "<XML string>", allow)
    if scene.startswith(_MENAGERIE):
        path = menagerie_file(scene.removeprefix(_MENAGERIE))
        return _from_file(path, [*allow, path.parent.parent])
    if _is_path(scene):
        return _from_file(Path(scene), allow)
    found, given = scenes.resolve(scene)
    return _from_spec(found.spec(**given), f"built-in scene {scene!r}")


def _from_spec(spec: mujoco.MjSpec, origin: str) -> mujoco.MjModel:
    with _reported(origin, ""):
        return spec.compile()


def _from_text(text: str, origin: str, allow: Sequence[str | os.PathLike[str]]) -> mujoco.MjModel:
    import mujoco

    model_files.check_text(text, origin, allow=allow)
    with _reported(origin, text):
        return mujoco.MjModel.from_xml_string(text)


def _from_file(path: Path, allow: Sequence[str | os.PathLike[str]]) -> mujoco.MjModel:
    import mujoco

    if _existing(path) == ".mjb":
        model_files.check_size(path)
        with _reported(str(path), ""):
            return mujoco.MjModel.from_binary_path(str(path))
    with _reported(str(path), model_files.check(path, allow)):
        return mujoco.MjModel.from_xml_path(str(path))


@readout
def to_bytes(mjm: mujoco.MjModel) -> bytes:
    """A compiled model with all that belongs to it, for a file that is to be read on its own."""
    import mujoco
    import numpy as np

    buffer = np.zeros(mujoco.mj_sizeModel(mjm), dtype=np.uint8)
    mujoco.mj_saveModel(mjm, None, buffer)
    return buffer.tobytes()


@readout
def from_bytes(data: bytes, origin: str) -> mujoco.MjModel:
    """The model of `to_bytes`; raises SceneError if another version of MuJoCo has written it."""
    import mujoco

    with _reported(origin, ""):
        return mujoco.MjModel.from_binary_path("model.mjb", {"model.mjb": data})


def _existing(path: Path) -> str:
    """The suffix of a model file, in lower case; raises SceneError if there is no such file."""
    if not path.exists():
        raise SceneError(
            f"no model file at {str(path)!r}; check the path, or see `stickslip scenes` for built-in scenes"
        )
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES or not path.is_file():
        raise SceneError(f"{str(path)!r} is not a model file; give a file that ends in {', '.join(SUFFIXES)}")
    return suffix


@contextlib.contextmanager
def _reported(origin: str, text: str) -> Iterator[None]:
    """Turn MuJoCo's errors into SceneError and its warnings into Python's, instead of a file MUJOCO_LOG.TXT.

    A handler of the user's stays in place. MuJoCo has one handler per process, hence the lock.
    """
    import mujoco

    with _lock:
        found: list[str] = []
        ours = mujoco.get_mju_user_warning() is None
        if ours:
            mujoco.set_mju_user_warning(found.append)
        try:
            yield
        except ValueError as error:
            raise broken(origin, ValueError("; ".join([str(error), *found])), text) from error
        finally:
            if ours:
                mujoco.set_mju_user_warning(None)
    for message in found:
        warnings.warn(f"{origin}: {message}", UserWarning, stacklevel=2)


def broken(origin: str, error: ValueError, text: str) -> SceneError:
    """The error for a model that MuJoCo rejects: its origin, the line if MuJoCo gives one, and MuJoCo's message."""
    message = " ".join(str(error).split())
    found = _LINE.search(message)
    line = int(found[1]) if found else 0
    if line > 0:
        return SceneError(f"{origin}, line {line}: {message}")
    # MuJoCo gives no line numbers of included files.
    included = _INCLUDE.findall(text)
    where = f" (look in its included files too: {', '.join(included)})" if included else ""
    return SceneError(f"{origin}: {message}{where}")


def menagerie_file(name: str) -> Path:
    """The model file of a robot of Menagerie, "NAME" or "NAME/ENTRY"; it is downloaded on first use.

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
        raise SceneError(f"MuJoCo Menagerie: {unknown('robot', robot_name, known)}")
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
