"""`study`: many runs that survive machines, from Python; `stickslip study` calls it too."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from stickslip import npz
from stickslip.errors import InputError, unknown
from stickslip.studies import cell as cells_module
from stickslip.studies import records
from stickslip.studies.cell import Cell
from stickslip.studies.definition import Definition, load, parse
from stickslip.studies.driver import Driver, Progress
from stickslip.studies.executors.base import Executor
from stickslip.studies.store import Store

if TYPE_CHECKING:
    import pyarrow

EXECUTORS = ("local", "ray")


def study(
    what: str | os.PathLike[str] | Mapping[str, Any] | Callable[..., Any],
    out: str | os.PathLike[str],
    *,
    fixed: Mapping[str, Any] | None = None,
    grid: Mapping[str, Any] | None = None,
    samples: Mapping[str, Any] | None = None,
    executor: Literal["local", "ray"] = "local",
    ray: str | None = None,
    workers: int | None = None,
    gpus: float = 1.0,
    told: Callable[[Progress], None] = lambda progress: None,
    **settings: Any,
) -> "pyarrow.Table":
    """Run the cells of a study that are not done yet, and give all of them as a table.

        table = ss.study("rollout", "out/slope", fixed={"scene": "box-on-slope", "steps": 200},
                         grid={"physics": ["cone-sweep", "mujoco"], "scene.angle": [10, 20, 30]})

    Args:
        what: a TOML file, its content as a dict, a sort of work such as "rollout", "module:function", or a function
            of a module that can be imported
        out: folder of the results; cells that are there are not run again
        fixed, grid, samples: sections of the study, where `what` is no whole study
        executor: processes of this machine, or Ray
        ray: address of a Ray cluster, or "auto"; None: a local one
        workers: processes; None: one a core, or one a GPU
        gpus: of a process of Ray on CUDA; may be a fraction
        told: is called with the progress
        settings: of the study: name, device, tries, timeout, memory, dataset

    Returns a table of Arrow with a row for each cell: parameters, metrics, status, error. `.to_pandas()` makes a data
    frame of it where pandas is installed.
    """
    sections = {"fixed": fixed, "grid": grid, "samples": samples}
    definition = _definition(what, {name: table for name, table in sections.items() if table is not None}, settings)
    run(definition, out, executor=executor, ray=ray, workers=workers, gpus=gpus, told=told)
    return table(out)


def _definition(what: Any, sections: dict[str, Any], settings: dict[str, Any]) -> Definition:
    if callable(what):
        name = getattr(what, "__qualname__", repr(what))
        if what.__module__ == "__main__" or not name.isidentifier():
            raise InputError(
                f"the function {name} is in {what.__module__}: other processes must be able to import it; put it at "
                "the top level of a module of its own"
            )
        what = f"{what.__module__}:{name}"
    if isinstance(what, Mapping):
        return parse({**what, **sections, **settings})
    text = os.fspath(what)
    if not text.endswith(".toml"):
        return parse({"run": text, **sections, **settings})
    if sections or settings:
        given = next(iter({**sections, **settings}))
        raise InputError(f"{given} is given, and {text} too, which says all of the study: write it there")
    return load(text)


def plan(
    definition: Definition, told: Callable[[int], None] = lambda done: None, device: str | None = None
) -> list[Cell]:
    """The cells of a study, all of them checked."""
    records.package()
    return list(cells_module.cells(definition, device or cells_module.device_of(definition), told))


def run(
    definition: Definition,
    out: str | os.PathLike[str],
    *,
    executor: str = "local",
    ray: str | None = None,
    workers: int | None = None,
    gpus: float = 1.0,
    told: Callable[[Progress], None] = lambda progress: None,
    planned: Callable[[int], None] = lambda done: None,
) -> Progress:
    """Run the cells of a study that are not done; see `study`."""
    if executor not in EXECUTORS:
        raise unknown("executor", executor, EXECUTORS)
    if executor != "ray" and ray is not None:
        raise InputError(f"ray is {ray!r}, and the executor {executor!r}: choose the executor ray")
    device = cells_module.device_of(definition)
    found = plan(definition, planned, device)
    if not found:
        raise InputError("the study has no cells; write a grid, a list or samples")
    store = Store(out)
    store.begin(definition, found)
    options = definition.settings
    memory = None if options.memory is None else int(options.memory * 1e9)
    with store.scratch() as scratch:
        where: Executor
        if executor == "ray":
            from stickslip.studies.executors.ray import Ray

            where = Ray(device, options.timeout, memory, address=ray, workers=workers, gpus=gpus)
        else:
            from stickslip.studies.executors.local import Local

            where = Local(scratch, device, options.timeout, memory, workers)
        try:
            progress = Driver(store, found, where, tries=options.tries, told=told).run()
        finally:
            where.close()
    if progress.complete and options.dataset:
        from stickslip.studies import datasets

        datasets.build(store, options.dataset)
    return progress


def table(out: str | os.PathLike[str], *, everything: bool = False) -> "pyarrow.Table":
    """The cells of a study that are done or failed, a row each; with `everything`, also of earlier forms of it."""
    store = Store(out)
    cells: Sequence[str] | None = None
    if everything:
        cells = sorted(store.listed(records.DONE) | store.listed(records.FAILED))
    return records.wide(store.table(cells), store.definition().varied)


def arrays(out: str | os.PathLike[str], cell: str) -> dict[str, Any]:
    """The arrays of a cell, by name."""
    path = Store(out).path(records.DONE, cell, ".npz")
    if not path.is_file():
        raise InputError(f"cell {cell!r} has no arrays: {path} does not exist; name a cell that wrote some")
    with npz.opened(path, "the arrays of a cell") as found:
        return found.read()


def retry(out: str | os.PathLike[str]) -> int:
    """Forget the failures of a study, so that it tries these cells again; returns how many."""
    store = Store(out)
    return store.forget(store.listed(records.FAILED) & store.manifest().keys())
