"""The page: one HTML file that needs nothing else; films are links to files beside it."""

import html
import json
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from stickslip import files
from stickslip.bench.report import style
from stickslip.bench.report.page import STYLE
from stickslip.studies import records
from stickslip.studies.execute import plain_numbers
from stickslip.studies.records import DONE, FAILED
from stickslip.studies.report import plots
from stickslip.studies.report.columns import Axis, Columns, columns, keys
from stickslip.studies.store import Store

ROWS, CAUSES, FILMS, SHOWN = 200, 40, 200, 12
"""Cells, causes and films in the page, and films that are shown, at most."""
SPLIT = 8
"""Values of a parameter of words up to which the table of metrics has a column for each."""
FILM = (".gif", ".mp4")
OWN_STYLE = """
.tiles { display: flex; gap: 14px; flex-wrap: wrap; margin: 14px 0; }
.tile { border: 1px solid var(--line); border-radius: 8px; padding: 10px 18px; min-width: 110px; }
.tile b { display: block; font-size: 24px; font-weight: 600; } .bad b { color: #b3341e; }
.films { display: flex; flex-wrap: wrap; gap: 12px; } .films figure { margin: 0; width: 250px; }
figcaption { font-size: 12px; color: var(--quiet); overflow-wrap: anywhere; } td.cause { max-width: 46em; }
pre { background: #f6f7f8; padding: 10px; border-radius: 6px; font-size: 12px; overflow-x: auto; max-height: 320px; }
"""


def write(
    folder: str | os.PathLike[str],
    out: Path | None = None,
    table: Path | None = None,
    told: Callable[[str], None] = lambda line: None,
) -> Path:
    """Write the page of a study to `out`, by default report.html in its folder; and all cells as a table.

    The table is a file that ends in .parquet or .csv.
    """
    store = Store(folder)
    about = store.about()
    place = out or store.folder / "report.html"
    told("reading")
    rows = store.table()
    if table is not None:
        told("writing the table")
        records.write(records.wide(rows, store.definition().varied), table)
    text = page(store, about, columns(rows), place.parent, told)
    return files.write_bytes_atomic(place, text.encode())


def page(
    store: Store, about: dict[str, Any], found: Columns, place: Path, told: Callable[[str], None] = lambda line: None
) -> str:
    """The page, for a file in a folder `place`, from which films are linked."""
    name = str(about["study"].get("name", "study"))
    body = [f"<h1>{html.escape(name)}</h1>", _head(about, found)]
    body += [_metrics(found), _labels(found)]
    told("drawing")
    drawn = plots.pictures(found)
    if drawn:
        body.append(
            "<h2>Metrics over parameters</h2><p>Lines are medians over all cells of a value; bands hold 80 % of them."
            "</p>"
        )
    for parameter, source in drawn:
        body.append(
            f'<h3>{html.escape(parameter)}</h3><img alt="metrics over {html.escape(parameter)}" src="{source}">'
        )
    if len(found.varied) > plots.METRICS:
        body.append(f'<p class="quiet">Drawn are the first {plots.METRICS} metrics that vary.</p>')
    told("writing")
    body += [_failures(found), _messages(found), _films(store, found, place), _cells(found)]
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(name)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}{OWN_STYLE}</style></head>\n<body><main>\n" + "\n".join(filter(None, body))
        + "\n</main></body></html>\n"
    )  # fmt: skip


def _head(about: dict[str, Any], found: Columns) -> str:
    """Numbers of cells, what ran, where, with what."""
    done, failed = int(found.done.sum()), int((~found.done).sum())
    cells = int(about["cells"])
    tiles = [("cells", cells, ""), ("done", done, ""), ("failed", failed, "bad" if failed else "")]
    if cells > done + failed:
        tiles.append(("not run yet", cells - done - failed, ""))
    shown = "".join(f'<div class="tile {kind}"><b>{count:,}</b>{what}</div>' for what, count, kind in tiles)
    wall = float(np.nansum(found.rows["wall_s"].to_numpy())) if found.rows.num_rows else 0.0
    machines = Counter(found.rows["machine"].to_pylist())
    where = "; ".join(f"{_machine(text)}: {count:,} cells" for text, count in machines.most_common(5) if text != "{}")
    begun = [text for text in found.rows["began"].to_pylist() if text]
    when = f"begun {_time(min(begun))}, the last cell {_time(max(begun))} UTC" if begun else ""
    versions = next((text for text in found.rows["versions"].to_pylist() if text not in ("", "{}")), "{}")
    told = ", ".join(f"{k} {v}" for k, v in json.loads(versions).items() if v != "none")
    facts = [where, f"{wall:,.0f} s of work" if wall else "", when, told]
    varied = "".join(f"<li>{_axis_line(axis)}</li>" for axis in found.axes)
    fixed = ", ".join(f"{k} = {json.dumps(v)}" for k, v in about["study"].get("fixed", {}).items())
    return (
        f"<p>Each cell runs <code>{html.escape(str(about['study']['run']))}</code> on {html.escape(about['device'])}"
        f"{', with ' + html.escape(fixed) if fixed else ''}.</p>"
        f'<div class="tiles">{shown}</div>'
        + (f"<p>What varies:</p><ul>{varied}</ul>" if varied else "")
        + f'<p class="quiet">{html.escape(". ".join(filter(None, facts)))}</p>'
    )


def _time(text: str) -> str:
    return text[:16].replace("T", " ")


def _machine(text: str) -> str:
    about = json.loads(text)
    return f"{about.get('node', '')}: {about.get('device', '')}, {about.get('cores', '')} cores".strip(": ")


def _axis_line(axis: Axis) -> str:
    if axis.numbers is not None and not axis.few:
        low, high = np.nanmin(axis.numbers), np.nanmax(axis.numbers)
        return f"<b>{html.escape(axis.name)}</b>: {len(axis.values):,} values from {low:.4g} to {high:.4g}"
    values = ", ".join(html.escape(_short(value)) for value in axis.values[:12])
    more = f" and {len(axis.values) - 12:,} more" if len(axis.values) > 12 else ""
    return f"<b>{html.escape(axis.name)}</b>: {values}{more}"


def _metrics(found: Columns) -> str:
    """Mean and spread of each metric, over all cells and for each value of a parameter of words."""
    if not found.metrics:
        return ""
    split = next((axis for axis in found.axes if axis.numbers is None and len(axis.values) <= SPLIT), None)
    groups: list[tuple[str, Any]] = [("all", slice(None))]
    if split is not None:
        groups += [(str(value), split.index == place) for place, value in enumerate(split.values)]
    else:
        groups += [("", None)]
    head = ["metric", "mean ± spread", "smallest", "median", "largest", *(label for label, _ in groups[1:] if label)]
    lines = []
    for name, values in found.metrics.items():
        cells = [f'<td class="name">{html.escape(name)}</td>', *map(_value, _statistics(values))]
        cells += [_value(_statistics(values[rows])[0]) for label, rows in groups[1:] if label]
        lines.append("<tr>" + "".join(cells) + "</tr>")
    note = "" if split is None else f"; at the right for each {html.escape(split.name)}"
    return f"<h2>Metrics</h2><p>Over all cells that are done{note}.</p>" + _table(head, lines, right=head[1:])


def _statistics(values: Any) -> list[str]:
    finite = values[np.isfinite(values)]
    if not len(finite):
        return ["–"] * 4
    spread = f" ± {style.number(float(finite.std()))}" if finite.min() < finite.max() else ""
    lost = len(values) - len(finite)
    note = f" ({lost:,} without)" if lost else ""
    numbers = [finite.min(), np.median(finite), finite.max()]
    return [style.number(float(finite.mean())) + spread + note, *(style.number(float(one)) for one in numbers)]


def _value(text: str) -> str:
    return f'<td class="value">{html.escape(text)}</td>'


def _labels(found: Columns) -> str:
    """How often each word of a label occurs."""
    body = []
    for name, values in found.labels.items():
        counts = Counter(values)
        told = ", ".join(f"{html.escape(str(word))} ({count:,})" for word, count in counts.most_common(8))
        body.append(f"<li><b>{html.escape(name)}</b>: {told}{', …' if len(counts) > 8 else ''}</li>")
    return f"<ul>{''.join(body)}</ul>" if body else ""


def _failures(found: Columns) -> str:
    """Failures by cause, with what their cells have in common and a message."""
    failed = found.rows.filter(~found.done) if len(found.done) else found.rows
    if not failed.num_rows:
        return ""
    rows = failed.select(["cause", "error", "parameters", "cell", "tries"]).to_pylist()
    causes = Counter(row["cause"] for row in rows)
    lines = []
    for cause, count in causes.most_common(CAUSES):
        mine = [row for row in rows if row["cause"] == cause]
        first, error = (html.escape(mine[0][name]) for name in ("cell", "error"))
        detail = f"<details><summary>{first[:12]}</summary><pre>{error}</pre></details>"
        lines.append(
            f'<tr><td class="value">{count:,}</td><td class="cause">{html.escape(cause)}{detail}</td>'
            f"<td>{html.escape(_common(mine, found))}</td></tr>"
        )
    rest = len(causes) - CAUSES
    more = f"<p>And {rest:,} other causes.</p>" if rest > 0 else ""
    return "<h2>Failures by cause</h2>" + _table(["cells", "because", "where"], lines) + more


def _common(rows: Sequence[dict[str, Any]], found: Columns) -> str:
    """The values of parameters that cells have, as far as they are few."""
    given = [json.loads(row["parameters"]) for row in rows[:5000]]
    told = []
    for axis_name in found.names:
        values = list(dict.fromkeys(json.dumps(row.get(axis_name)) for row in given))
        if len(values) <= 4:
            told.append(f"{axis_name} = {' or '.join(values)}")
        elif all(isinstance(row.get(axis_name), int | float) for row in given):
            numbers = [row[axis_name] for row in given]
            told.append(f"{axis_name} from {min(numbers):.4g} to {max(numbers):.4g}")
    return ", ".join(told)


def _messages(found: Columns) -> str:
    """What makes metrics doubtful, by how many cells say so."""
    counts: Counter[str] = Counter()
    for messages in found.rows["messages"].to_pylist():
        counts.update({plain_numbers(message) for message in messages})
    lines = [f"<li>{html.escape(text)} ({count:,} cells)</li>" for text, count in counts.most_common(20)]
    return f"<h2>Notes of cells</h2><ul>{''.join(lines)}</ul>" if lines else ""


def _films(store: Store, found: Columns, place: Path) -> str:
    """Links to films; the first ones are shown."""
    films = []
    for row in _with_files(found):
        for name in row["files"]:
            if name.endswith(FILM):
                path = store.path(DONE, row["cell"], "").parent / name
                films.append((quote(Path(os.path.relpath(path, place)).as_posix()), row))
    if not films:
        return ""
    names = found.names
    shown = []
    for link, row in films[:SHOWN]:
        caption = html.escape(_told(json.loads(row["parameters"]), names))
        image = f'<img loading="lazy" alt="film of {row["cell"][:12]}" src="{link}">' if link.endswith(".gif") else ""
        shown.append(
            f'<figure><a href="{link}">{image or row["cell"][:12]}</a><figcaption>{caption}</figcaption></figure>'
        )
    links = "".join(
        f'<li><a href="{link}">{row["cell"][:12]}</a> {html.escape(_told(json.loads(row["parameters"]), names))}</li>'
        for link, row in films[SHOWN:FILMS]
    )
    rest = f"<details><summary>more films</summary><ul>{links}</ul></details>" if links else ""
    return f'<h2>Films</h2><p>{len(films):,} cells have one.</p><div class="films">{"".join(shown)}</div>{rest}'


def _with_files(found: Columns) -> Iterable[dict[str, Any]]:
    counts = found.rows["files"].to_pylist()
    places = [place for place, names in enumerate(counts) if names and found.done[place]]
    return records.rows(found.rows.select(["cell", "files", "parameters"]), places).to_pylist()


def _told(given: dict[str, Any], names: Sequence[str]) -> str:
    """The parameters of a cell that vary."""
    return ", ".join(f"{name} {_short(given[name])}" for name in names if name in given)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _cells(found: Columns) -> str:
    """The first cells."""
    first = found.rows.slice(0, ROWS)
    names = found.names
    metrics, labels = keys(first, "metrics"), keys(first, "labels")
    lines = []
    for row in first.to_pylist(maps_as_pydicts="lossy"):
        given = json.loads(row["parameters"])
        cells = [f'<td class="name"><code>{row["cell"][:12]}</code></td>']
        cells += [f"<td>{html.escape(_short(given.get(name, '')))}</td>" for name in names]
        cells += [_value(_number(row["metrics"].get(name))) for name in metrics]
        cells += [f"<td>{html.escape(row['labels'].get(name, ''))}</td>" for name in labels]
        end = row["cause"] if row["status"] == FAILED else ""
        lines.append("<tr>" + "".join(cells) + f"<td>{html.escape(end)}</td></tr>")
    count = found.rows.num_rows
    note = (
        f"<p>The first {ROWS} of {count:,}; <code>stickslip study report --table cells.parquet</code> writes all.</p>"
    )
    return (
        "<h2>Cells</h2>"
        + (note if count > ROWS else "")
        + _table(["cell", *names, *metrics, *labels, ""], lines, right=metrics)
    )


def _number(value: float | None) -> str:
    return "" if value is None else "–" if not math.isfinite(value) else style.number(value)


def _table(head: Sequence[str], lines: Sequence[str], right: Sequence[str] = ()) -> str:
    top = "".join(f'<th class="{"value" if cell in right else ""}">{html.escape(cell)}</th>' for cell in head)
    body = "".join(lines)
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
