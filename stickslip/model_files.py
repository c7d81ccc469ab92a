"""Which files a model reads: only those of its own folder, unless more is allowed, and none without bound.

MJCF names meshes, textures and other models by paths, which may be absolute, begin with `..`, or be links. MuJoCo reads
whatever they name. So a model file is looked through before MuJoCo gets it.
"""

import math
import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from stickslip import limits
from stickslip.errors import SceneError

VARIABLE = "STICKSLIP_ALLOW"
"""Environment variable with folders that models may read, besides their own, as in PATH."""

_SKIPPED = {"<!--": "-->", "<![CDATA[": "]]>", "<?": "?>", "<!": ">"}
"""Beginnings and ends of what holds no elements."""
_OPEN = re.compile(r"<(/?)([\w:.-]+)")
_ATTRIBUTE = re.compile(r"\s+([\w:.-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_CLOSE = re.compile(r"\s*(/?)>")
_WHOLE = re.compile(r"\+?\d{1,18}(\.\d*)?")
_CHARACTER = re.compile(r"&(?:#x([0-9a-fA-F]+)|#(\d+)|(lt|gt|amp|quot|apos));")
_ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_FOLDERS = ("meshdir", "texturedir", "assetdir")
_MODELS = ("include", "model")
_COUNTED = ("replicate", "composite", "flexcomp")


def check(path: Path, allow: Iterable[str | os.PathLike] = ()) -> str:
    """Raise SceneError if a model file would read files elsewhere, InputError if it is beyond a limit; its text.

    Args:
        path: of an XML file
        allow: folders besides its own that it may read
    """
    look = _Look(str(path), [path.parent, Path(os.path.realpath(path)).parent, *allow])
    text = look.read(path)
    look.through(text, path.parent, str(path))
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def check_text(text: str, origin: str, allow: Iterable[str | os.PathLike] = ()) -> None:
    """The same for MJCF text, whose folder is the current one: MuJoCo looks there."""
    limits.check("text", len(text), f"{origin} has too many characters")
    _Look(origin, [Path.cwd(), *allow]).through(text, Path.cwd(), origin)


def check_size(path: Path) -> None:
    """Raise InputError if a file that is read as a whole is larger than `limits.asset`, SceneError if it is none."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise SceneError(f"{path} is no file that can be read as a whole; name a regular file")
    limits.check("asset", found.st_size, f"{path} has too many bytes for a file of a model")


class _Look:
    """A look through a model and all that it includes."""

    def __init__(self, origin: str, allowed: Iterable[str | os.PathLike]) -> None:
        more = filter(None, os.environ.get(VARIABLE, "").split(os.pathsep))
        ours = Path(__file__).parent  # scenes that come with stickslip
        self._allowed = [Path(os.path.realpath(folder)) for folder in [*allowed, *more, ours]]
        self._origin, self._bytes, self._elements = origin, 0, 0
        self._seen: set[str] = set()

    def read(self, path: Path) -> str:
        """The text of an XML file."""
        check_size(path)
        self._bytes += path.stat().st_size
        limits.check("text", self._bytes, f"{self._origin} has too many bytes, with all that it includes")
        self._seen.add(os.path.realpath(path))
        limits.check("entries", len(self._seen), f"{self._origin} includes too many files")
        return path.read_text(encoding="utf-8", errors="surrogateescape")  # names of files are bytes

    def through(self, text: str, folder: Path, origin: str) -> None:
        """Look through a model: its text, its folder, and what an error calls it."""
        found, waiting = [], [(text, folder, folder, origin)]
        folders = {""}
        while waiting:
            text, main, own, origin = waiting.pop()
            tags = list(_tags(text, origin))
            found.append((tags, (main, own), origin))
            own_folders = {attributes[name] for _, attributes in tags for name in _FOLDERS if name in attributes}
            for base in {main, own}:
                for name in own_folders:
                    self._inside(base / name, name, origin)
            folders |= own_folders
            for name, attributes in tags:
                if name in _MODELS and attributes.get("file"):
                    for path in _paths(attributes["file"], (main, own), own_folders | {""}):
                        self._inside(path, attributes["file"], origin)
                        if os.path.realpath(path) not in self._seen:
                            # what is attached has a folder of its own, what is included belongs to the model
                            base = main if name == "include" else path.parent
                            waiting.append((self.read(path), base, path.parent, str(path)))
        for tags, bases, origin in found:
            self._count(tags, origin)
            for name, attributes in tags:
                for key, value in attributes.items():
                    if name not in _MODELS and key.startswith("file"):
                        for path in _paths(value, bases, folders):
                            self._inside(path, value, origin)
                            check_size(path)

    def _count(self, tags: Iterable[tuple[str, dict[str, str]]], origin: str) -> None:
        """Raise InputError if elements lie too deep within each other, or are too many or large by their numbers."""
        copies: list[tuple[int, int]] = []
        depth = 0
        for name, attributes in tags:
            if name.startswith("/"):
                depth -= 1
                if copies and copies[-1][0] > depth:
                    copies.pop()
                continue
            depth += 1
            limits.check("depth", depth, f"{origin} has more levels of elements within each other")
            times = copies[-1][1] if copies else 1
            count = _product(attributes.get("count", "")) if name in _COUNTED else 1
            self._elements += times * count
            limits.check("elements", self._elements, f"{self._origin} makes too many elements by its counts")
            if name == "replicate":
                copies.append((depth, times * count))
            if name in ("texture", "hfield"):
                sizes = (_product(attributes.get(key, "")) for key in ("width", "height", "nrow", "ncol"))
                limits.check("asset", 4 * math.prod(sizes), f"{origin}: a {name} has too many bytes")

    def _inside(self, path: Path, name: str, origin: str) -> None:
        """Raise SceneError if a path leads to a folder that is not allowed."""
        path = Path(str(path).replace("\\", "/"))
        real = Path(os.path.realpath(path))
        if os.path.exists(path) and not any(real.is_relative_to(folder) for folder in self._allowed):
            folder = real if real.is_dir() else real.parent
            raise SceneError(
                f"{origin} names {name!r}, which is {str(real)!r}, outside of its folder "
                f"{str(self._allowed[0])!r}: a model reads files of its own folder only. If you trust it, allow the "
                f"other folder: ss.load(..., allow=[{str(folder)!r}]), `stickslip --allow {folder} ...`, or "
                f"{VARIABLE}={folder} in the environment"
            )


def _tags(text: str, origin: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Names and attributes of the elements of a text, with "/NAME" for their ends."""
    place = text.find("<")
    while place >= 0:
        skipped = next((begin for begin in _SKIPPED if text.startswith(begin, place)), None)
        if skipped is not None:
            end = text.find(_SKIPPED[skipped], place + len(skipped))
            if end < 0 or (skipped == "<!" and "[" in text[place:end]):
                raise _broken(text, place, origin)  # MuJoCo might read on where this cannot
            place = text.find("<", end)
            continue
        opened = _OPEN.match(text, place)
        if opened is None:
            raise _broken(text, place, origin)
        at, attributes = opened.end(), {}
        while found := _ATTRIBUTE.match(text, at):
            attributes[found[1]], at = _decoded(found[2] or found[3] or ""), found.end()
        closed = _CLOSE.match(text, at)
        if closed is None:
            raise _broken(text, place, origin)
        yield opened[1] + opened[2], attributes
        if closed[1] and not opened[1]:
            yield f"/{opened[2]}", {}
        place = text.find("<", closed.end())


def _broken(text: str, place: int, origin: str) -> SceneError:
    line = text.count("\n", 0, place) + 1
    return SceneError(
        f"{origin}, line {line}: not well-formed near {text[place : place + 40]!r}, so that it cannot be told which "
        "files it names: mend the XML"
    )


def _paths(value: str, bases: Iterable[Path], folders: Iterable[str]) -> Iterator[Path]:
    """Files that a name may stand for, wherever MuJoCo looks."""
    value = value.removeprefix("package://").replace("\\", "/")
    for base in dict.fromkeys(bases):
        for folder in sorted(folders):
            path = base / folder.replace("\\", "/") / value
            if value and "\0" not in str(path) and os.path.exists(path) and not path.is_dir():
                yield path


def _decoded(value: str) -> str:
    def character(found: re.Match[str]) -> str:
        digits, code = (found[1], 16) if found[1] else (found[2], 10)
        try:
            return chr(int(digits, code)) if digits else _ENTITIES[found[3]]
        except (ValueError, OverflowError):
            return found[0]

    return _CHARACTER.sub(character, value)


def _product(text: str) -> int:
    """Of the whole numbers in a text; 1 for what is none."""
    return math.prod(max(1, int(float(part))) for part in text.split() if _WHOLE.fullmatch(part))
