"""Provenance of a measurement: machine, package versions, and a digest of the code that produced it.

The digest covers the import closure of given modules within `stickslip` (and within the package of a method from
outside). Each module counts by its syntax tree, so comments, docstrings, messages and formatting do not change it.

- Modules in `CATALOGUES` list every physics, scene, experiment or planner. They do not count, and their imports are not
  followed; a name imported through one is followed to the module that defines it.
- Modules in `SILENT`, and modules called `picture` or `*_picture`, draw, report or check input. They do not count.
- In an experiment, what only reports does not count: `draw`, `scores`, `reported`, and what these alone use.
- What is imported from `stickslip.readout`, and functions with its decorator `readout`, only look at results.
- A scene counts where an experiment names it in a string, as in "stack:count=5", or goes through all scenes.
- Data files (`.xml`, `.h`, ...) count with the folder of a module; in the folder of a catalogue, only those named.
"""

import ast
import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import pathlib
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import warp as wp

import stickslip

CATALOGUES = (
    "stickslip",
    "stickslip.bench",
    "stickslip.bench.methods",
    "stickslip.mpc.planners.catalogue",
    "stickslip.physics.registry",
    "stickslip.scenes",
)
"""Modules that list everything of a kind: a new entry must not change the digest of the others."""
SILENT = (
    "stickslip.bench.report",
    "stickslip.bench.result",
    "stickslip.bench.runner",
    "stickslip.cli",
    "stickslip.errors",
    "stickslip.files",
    "stickslip.interrupts",
    "stickslip.mpc.trial.film",
    "stickslip.outline",
    "stickslip.parameters",
    "stickslip.physics.mjwarp.unfit",
    "stickslip.progress",
    "stickslip.provenance",
    "stickslip.readout",
    "stickslip.render",
    "stickslip.spec",
)
"""Modules and packages that do not influence a metric."""
READOUT = "readout"
"""Module of `stickslip`, and its decorator of functions, for what only looks at results."""
REPORTING = ("draw", "scores", "reported")
"""Methods of an experiment that only report what was measured."""
WORDS = ("summary", "source")
"""Attributes of an experiment that only describe it."""
DECLARING = ("parameter", "setting")
"""Functions that declare a parameter: default, meaning, bounds. The meaning is prose."""
EVERY_SCENE = ("CATALOGUE", "names")
"""Names of `stickslip.scenes` that stand for all scenes."""
DATA = (".xml", ".h", ".cuh", ".cu", ".obj", ".stl", ".npz", ".json")
"""Suffixes of data files."""
DIGITS = 16
"""Hexadecimal digits of a digest."""


def machine(device: str) -> dict[str, Any]:
    """The machine that a device belongs to."""
    chosen = wp.get_device(device)
    return {
        "device": chosen.name if chosen.is_cuda else _cpu_name(),
        "cores": os.cpu_count(),
        "arch": platform.machine(),
        "system": platform.system(),
        "cuda": ".".join(map(str, wp.get_cuda_driver_version())) if chosen.is_cuda else None,
    }


def _cpu_name() -> str:
    """The processor's name as lscpu reports it (/proc/cpuinfo has none on ARM), else the architecture."""
    try:
        report = subprocess.run(
            ["lscpu"], capture_output=True, text=True, timeout=10, env={**os.environ, "LC_ALL": "C"}
        )
    except (OSError, subprocess.TimeoutExpired):
        return platform.processor() or platform.machine()
    found = [line.split(":", 1)[1].strip() for line in report.stdout.splitlines() if line.startswith("Model name:")]
    return found[0] if found else platform.machine()


def versions() -> dict[str, str]:
    """Versions of stickslip, Python and the packages that every method uses."""
    names = ("mujoco", "mujoco-warp", "warp-lang", "numpy")
    found = {"stickslip": stickslip.__version__, "python": platform.python_version()}
    return {**found, **{name: package_version(name) for name in names}}


def package_version(name: str) -> str:
    """The version of an installed package, or "none"."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def model_digest(mjm: Any) -> str:
    """Digest of all arrays and options of a MuJoCo model but paths: the same model in another folder is the same."""
    found = hashlib.sha256()
    for part in (mjm, mjm.opt):
        for name in dir(part):
            value = getattr(part, name)
            if name.startswith("_") or name.endswith("pathadr"):
                continue
            if hasattr(value, "tobytes") and hasattr(value, "dtype"):  # an array, without importing NumPy
                found.update(f"{name} {value.shape} {value.dtype} ".encode() + value.tobytes())
            elif isinstance(value, int | float):
                found.update(f"{name} {value!r} ".encode())
    return found.hexdigest()[:DIGITS]


def digest(modules: Iterable[str]) -> str:
    """Digest of the import closure of modules, given by their dotted names."""
    code, data = closure(modules)
    total = hashlib.sha256()
    for name in sorted(code):
        total.update(f"{name} {_file_digest(_path_of(name))}\n".encode())
    for path in sorted(data, key=lambda path: path.as_posix()):
        total.update(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()[:DIGITS]


def files(modules: Iterable[str]) -> list[pathlib.Path]:
    """The files that a digest covers."""
    code, data = closure(modules)
    return sorted({*(_path_of(name) for name in code), *data})


def closure(modules: Iterable[str]) -> tuple[set[str], set[pathlib.Path]]:
    """Modules and data files that the code of some modules depends on, themselves included."""
    waiting = list(modules)
    roots = {"stickslip", *(name.partition(".")[0] for name in waiting)}
    code: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in code or name.partition(".")[0] not in roots or name in CATALOGUES or _silent(name):
            continue
        code.add(name)
        waiting += _parents(name)
        waiting += _needed(name)
    return code, _data_of(code)


def _silent(name: str) -> bool:
    last = name.rpartition(".")[2]
    return last == "picture" or last.endswith("_picture") or any(f"{name}.".startswith(f"{one}.") for one in SILENT)


def _parents(name: str) -> list[str]:
    parts = name.split(".")[:-1]
    names = [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
    return [name for name in names if _find(name) is not None]  # a namespace package has no code


def _path_of(name: str) -> pathlib.Path:
    path = _find(name)
    if path is None:
        raise ModuleNotFoundError(f"no Python source of module {name!r} was found, so it has no digest")
    return path


@functools.cache
def _find(name: str) -> pathlib.Path | None:
    """The source file of a module, found without importing anything."""
    root, *parts = name.split(".")
    if name == "__main__":
        return pathlib.Path(sys.modules[name].__file__ or "") if hasattr(sys.modules[name], "__file__") else None
    spec = importlib.util.find_spec(root)
    if spec is None:
        return None
    if not parts and spec.origin and spec.origin.endswith(".py"):
        return pathlib.Path(spec.origin)
    if not spec.submodule_search_locations:
        return None
    path = pathlib.Path(list(spec.submodule_search_locations)[0]).joinpath(*parts)
    found = [file for file in (path / "__init__.py", path.with_suffix(".py")) if file.is_file()]
    return found[0] if found else None


def _is_package(name: str) -> bool:
    path = _find(name)
    return path is not None and path.name == "__init__.py"


@functools.cache
def _needed(name: str) -> frozenset[str]:
    return frozenset(_needs(name, _path_of(name)))


def _needs(name: str, path: pathlib.Path) -> Iterator[str]:
    """Modules that a module imports or names in a string."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    names_scenes = name.startswith("stickslip.bench.") or not name.startswith("stickslip.")
    nodes = list(ast.walk(_tree(path)))
    plain = [alias for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    catalogues = {alias.asname or alias.name: alias.name for alias in plain if alias.name in CATALOGUES}
    taken = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module == "stickslip"]
    scenes = {alias.asname or alias.name for node in taken for alias in node.names if alias.name == "scenes"}
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if _find(alias.name) is not None)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            base = importlib.util.resolve_name(base, package) if node.level else base
            for alias in node.names:
                yield from _defining(base, alias.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id in catalogues:  # stickslip.ConeSweep after `import stickslip`
                yield from _defining(catalogues[node.value.id], node.attr)
            elif names_scenes and node.value.id in scenes and node.attr in EVERY_SCENE:
                yield from (module for modules in _scene_modules().values() for module in modules)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            head = node.value.partition(":")[0]
            if re.fullmatch(r"stickslip(\.\w+)+", head) and _find(head) is not None:
                yield head
            if names_scenes and head in _scene_modules():
                yield from _scene_modules()[head]


def _defining(module: str, name: str) -> Iterator[str]:
    """The modules behind `from module import name`."""
    if _find(f"{module}.{name}") is not None:
        yield f"{module}.{name}"
    elif module in CATALOGUES:
        source = _passed_on(module).get(name)
        if source is not None:
            yield from _defining(source, name)
    elif _find(module) is not None:
        yield module


@functools.cache
def _passed_on(module: str) -> dict[str, str]:
    """Where the names come from that a catalogue imports, also those it imports for type checkers alone."""
    path = _path_of(module)
    found = [node for node in ast.walk(_parse(path)) if isinstance(node, ast.ImportFrom) and node.module]
    return {alias.asname or alias.name: str(node.module) for node in found for alias in node.names}


@functools.cache
def _scene_modules() -> dict[str, list[str]]:
    """The modules of `stickslip.scenes` in which each scene's name stands as a string."""
    found: dict[str, list[str]] = {}
    for path in sorted(_path_of("stickslip.scenes").parent.glob("*.py")):
        if path.name != "__init__.py":
            for node in ast.walk(_tree(path)):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Scene":
                    for text in ast.walk(node):
                        if isinstance(text, ast.Constant) and isinstance(text.value, str):
                            found.setdefault(text.value, []).append(f"stickslip.scenes.{path.stem}")
    return found


def _data_of(code: set[str]) -> set[pathlib.Path]:
    """Data files in the folders of modules; in a catalogue's folder, those that a module names."""
    folders = {_path_of(name).parent: name if _is_package(name) else name.rpartition(".")[0] for name in code}
    named = {stem for name in code for stem in _stems(_path_of(name))}
    found = set()
    for folder, package in folders.items():
        if package in ("stickslip", ""):  # modules at the top, and those of no package, have no data of their own
            continue
        for path in _data_below(folder):
            if package not in CATALOGUES or path.stem.replace("_", "-") in named:
                found.add(path)
    return found


@functools.cache
def _stems(path: pathlib.Path) -> frozenset[str]:
    """What the strings of a module may name as a data file: "stack:count=5" and "robots/stack.xml" give `stack`."""
    values = [node.value for node in ast.walk(_tree(path)) if isinstance(node, ast.Constant)]
    short = [value for value in values if isinstance(value, str) and len(value) < 200]
    heads = {text.partition(":")[0] for text in short} | {pathlib.PurePath(text).stem for text in short}
    return frozenset(text.replace("_", "-") for text in heads)


@functools.cache
def _data_below(folder: pathlib.Path) -> tuple[pathlib.Path, ...]:
    """Data files of a package: in its folder and in folders below that are no packages."""
    found = []
    for path in sorted(folder.iterdir()):
        if path.is_dir() and path.name != "__pycache__" and not (path / "__init__.py").exists():
            found += _data_below(path)
        elif path.suffix in DATA:
            found.append(path)
    return tuple(found)


@functools.cache
def _parse(path: pathlib.Path) -> ast.Module:
    return ast.parse(path.read_text())


@functools.cache
def _file_digest(path: pathlib.Path) -> str:
    return hashlib.sha256(_dump(_tree(path)).encode()).hexdigest()


@functools.cache
def _tree(path: pathlib.Path) -> ast.Module:
    """The syntax tree of a module without what does not influence a metric."""
    return _Plain().visit(ast.parse(path.read_text()))


def normalised(source: str) -> str:
    """The form of a module's source that counts in a digest."""
    return _dump(_Plain().visit(ast.parse(source)))


def _dump(node: Any) -> str:
    """A syntax tree as text, the same in every version of Python: `ast.dump` is not."""
    if isinstance(node, ast.AST):
        fields = ((name, getattr(node, name, None)) for name in node._fields)
        written = (f"{name}={_dump(value)}" for name, value in fields if value not in (None, []) and name != "kind")
        return f"{type(node).__name__}({', '.join(written)})"
    return f"[{', '.join(map(_dump, node))}]" if isinstance(node, list) else repr(node)


class _Plain(ast.NodeTransformer):
    """Drops prose, imports for type checkers, and the reporting parts of an experiment."""

    def visit_Module(self, node: ast.Module) -> ast.Module:
        self.generic_visit(node)
        experiments = [part for part in node.body if isinstance(part, ast.ClassDef) and _is_experiment(part)]
        for part in experiments:
            part.body = [entry for entry in part.body if not _reports(entry)]
        if experiments:
            _prune(node)
        return node

    def visit_Expr(self, node: ast.Expr) -> Any:  # a docstring, or the description of an attribute
        text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return ast.Pass() if text else self.generic_visit(node)

    def visit_If(self, node: ast.If) -> Any:
        checking = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        return node.orelse if checking else self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> Any:
        return ast.Raise(node.exc.func, None) if isinstance(node.exc, ast.Call) else node

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in DECLARING:
            node.args = node.args[:1] + node.args[2:]
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        return None if node.module == f"stickslip.{READOUT}" else node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        marked = any(isinstance(mark, ast.Name) and mark.id == READOUT for mark in node.decorator_list)
        return None if marked else self.generic_visit(node)

    def visit_Pass(self, node: ast.Pass) -> None:
        return None


def _is_experiment(node: ast.ClassDef) -> bool:
    names = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
    return {"measure", *REPORTING[:2]} <= names


def _reports(node: ast.stmt) -> bool:
    if isinstance(node, ast.FunctionDef):
        return node.name in REPORTING
    return isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id in WORDS for t in node.targets)


def _prune(module: ast.Module) -> None:
    """Remove private functions and imports at the top of a module that nothing in it uses any longer."""
    uses = {id(part): {n.id for n in ast.walk(part) if isinstance(n, ast.Name)} for part in module.body}
    while True:
        kept: list[ast.stmt] = []
        for part in module.body:
            used = {name for other in module.body if other is not part for name in uses[id(other)]}
            if isinstance(part, ast.Import | ast.ImportFrom):
                part.names = [a for a in part.names if (a.asname or a.name).partition(".")[0] in used]
                if not part.names:
                    continue
            elif isinstance(part, ast.FunctionDef) and part.name.startswith("_") and part.name not in used:
                continue
            kept.append(part)
        if len(kept) == len(module.body):
            return
        module.body = kept
