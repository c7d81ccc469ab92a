"""The report of a folder of results: one HTML page that needs nothing else, or Markdown for the documentation."""

import base64
import html
import io
import os
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stickslip import files
from stickslip.bench import sources
from stickslip.bench.experiment import Experiment
from stickslip.bench.report import summary
from stickslip.bench.result import Result

QUICK = "Smoke test: tiny problem sizes, the metrics are not meaningful."
BEST, DOUBT, STALE = "★", "†", "‡"
LEGEND = f"{STALE} Measured by an earlier version of the code of the method or of the experiment."
INTRODUCTION = (
    "All physics meant to be used. Baselines appear only in the experiments they were added for. A star marks the best "
    "value of each row, to the three digits printed; for an error, the smallest magnitude is best. A dash: not run. "
    "MuJoCo appears twice: with its defaults, and with the settings its users recommend against creep (elliptic cone, "
    "impratio 100)."
)
GENERATED = (
    "<!-- Written by `make results` from benchmarks/results; do not edit. -->",
    "The same as one page with all pictures: `stickslip bench report benchmarks/results`.",
    "What the experiments do: [benchmarks.md](benchmarks.md).",
)
"""Header of the project's own page, `docs/results.md`; a user's page has none."""

STYLE = """
:root { color-scheme: light; --ink: #22303c; --quiet: #64727f; --line: #dfe4e8; --best: #e4f3ea; --warn: #fff4e0; }
* { box-sizing: border-box; }
body { font: 15px/1.55 system-ui, -apple-system, "Segoe UI", sans-serif; color: var(--ink); margin: 0; }
main { max-width: 1120px; margin: 0 auto; padding: 24px 28px 80px; }
h1 { font-size: 30px; margin: 8px 0 4px; } h2 { font-size: 23px; margin: 52px 0 6px; border-top: 3px solid var(--ink);
  padding-top: 14px; } h3 { font-size: 18px; margin: 36px 0 2px; scroll-margin-top: 12px; }
p { margin: 6px 0 12px; max-width: 76ch; } .quiet { color: var(--quiet); font-size: 13px; }
table { border-collapse: collapse; margin: 12px 0 18px; font-size: 13.5px; font-variant-numeric: tabular-nums; }
th, td { padding: 5px 12px; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
thead th { border-bottom: 2px solid var(--ink); font-weight: 600; position: sticky; top: 0; background: white; }
td.value { text-align: right; white-space: nowrap; } th.value { text-align: right; }
td.best { background: var(--best); font-weight: 650; } td.none { color: var(--quiet); }
td.name { white-space: nowrap; } td.what { min-width: 13em; }
td.group { font-weight: 600; white-space: nowrap; } tr.first td { border-top: 1px solid #aab4bd; }
td abbr { text-decoration: none; cursor: help; color: #b3541e; }
img { max-width: 100%; height: auto; display: block; margin: 10px 0;
  border: 1px solid var(--line); border-radius: 6px; }
nav { columns: 4 180px; margin: 10px 0 4px; font-size: 14px; } a { color: #1f5fa0; text-decoration: none; }
a:hover { text-decoration: underline; } code { background: #f3f5f7; padding: 1px 5px; border-radius: 4px; }
details { margin: 8px 0; } summary { cursor: pointer; color: #1f5fa0; font-size: 14px; }
.warn { background: var(--warn); padding: 8px 14px; border-radius: 6px; font-size: 14px; } ul { padding-left: 20px; }
.wide { overflow-x: auto; }
@media print { nav, details > summary { display: none; } h3 { break-before: page; } thead th { position: static; } }
"""


def write(
    directory: pathlib.Path,
    out: pathlib.Path,
    experiments: Mapping[str, Experiment[Any]],
    progress: Callable[[str], None] = lambda line: None,
    header: Sequence[str] = (),
) -> pathlib.Path:
    """Write the report of all results in `directory` to `out`: Markdown if it ends in .md, else HTML.

    `header` holds lines below the title of a Markdown page.
    """
    folders = summary.read(directory, experiments)
    text = markdown(folders, out.parent, header) if out.suffix == ".md" else page(folders, progress)
    return files.write_bytes_atomic(out, text.encode())


def page(folders: Sequence[summary.Folder], progress: Callable[[str], None] = lambda line: None) -> str:
    """The HTML page: a summary a machine, then every experiment with its picture, tables and settings."""
    body = [f"<h1>stickslip: results</h1><p>{html.escape(INTRODUCTION)} {LEGEND}</p>"]
    if len(folders) > 1:
        links = [f'<a href="#{_anchor(folder.name)}">{html.escape(_title(folder))}</a>' for folder in folders]
        body.append(f"<p>Machines: {' &middot; '.join(links)}</p>")
    for folder in folders:
        body.append(f'<h2 id="{_anchor(folder.name)}">{html.escape(_title(folder))}</h2>')
        body += [f'<p class="warn">Left out: {html.escape(reason)}</p>' for reason in folder.skipped]
        if not folder.results:
            continue
        body.append(_navigation(folder))
        body.append(_summary_table(folder))
        for experiment, result in folder.results:
            progress(f"{folder.name}: {experiment.name}")
            try:
                body.append(_section(folder, experiment, result))
            except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:  # a file changed by hand
                text = html.escape(f"{experiment.name} cannot be shown, its file is damaged: {error!r}")
                body.append(f'<p class="warn" id="{_anchor(folder.name, experiment.name)}">{text}</p>')
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>stickslip: results</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head>\n<body><main>\n" + "\n".join(body) + "\n</main></body></html>\n"
    )


def _title(folder: summary.Folder) -> str:
    devices = dict.fromkeys(str(result.machine["device"]) for _, result in folder.results)
    return f"{folder.name}: {', '.join(devices)}" if devices else folder.name


def _anchor(*parts: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", "-".join(parts).lower())


def _navigation(folder: summary.Folder) -> str:
    links = [f'<a href="#{_anchor(folder.name, e.name)}">{html.escape(e.name)}</a><br>' for e, _ in folder.results]
    return "<nav>" + "".join(links) + "</nav>"


def _summary_table(folder: summary.Folder) -> str:
    labels = summary.columns([result for _, result in folder.results])
    tables = [(experiment, summary.rows(experiment, result, labels)) for experiment, result in folder.results]
    old = summary.stale_columns([row for _, table in tables for row in table], labels)
    head = "".join(f'<th class="value">{html.escape(_marked(label, label in old))}</th>' for label in labels)
    lines = []
    for experiment, table in tables:
        for index, row in enumerate(table):
            link = f'<a href="#{_anchor(folder.name, experiment.name)}">{html.escape(experiment.name)}</a>'
            unit = f" [{row.score.unit}]" if row.score.unit else ""
            more = ", more is better" if row.score.best == "high" else ""
            lines.append(
                f'<tr class="{"first" if index == 0 else ""}"><td class="group">{link if index == 0 else ""}</td>'
                f'<td class="what">{html.escape(row.score.title + unit + more)}</td>'
                + "".join(_html_cell(row.cells[label], label in old) for label in labels)
                + "</tr>"
            )
    return (
        f'<div class="wide"><table><thead><tr><th>experiment</th><th>what</th>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _marked(text: str, stale: bool) -> str:
    return f"{text} {STALE}" if stale else text


def _html_cell(cell: summary.Cell, known: bool = False) -> str:
    """A cell; its staleness is marked unless it is `known` from its heading."""
    kind = "value best" if cell.best else "value" if cell.value else "value none"
    text = _marked(html.escape(cell.text) + (f" {BEST}" if cell.best else ""), cell.stale and not known)
    note = f' <abbr title="{html.escape(cell.note)}">?</abbr>' if cell.note else ""
    return f'<td class="{kind}">{text}{note}</td>'


def _section(folder: summary.Folder, experiment: Experiment[Any], result: Result) -> str:
    image = io.BytesIO()
    experiment.draw(result).savefig(image, format="png", dpi=120)
    encoded = base64.b64encode(image.getvalue()).decode()
    quick = f'<p class="warn">{QUICK}</p>' if result.quick else ""
    notes = "".join(f"<li>{html.escape(note)}</li>" for note in summary.notes(result))
    rows = [[html.escape(text) for text in line] for line in summary.settings_of(experiment, result)]
    return (
        f'<h3 id="{_anchor(folder.name, experiment.name)}">{html.escape(experiment.name)}</h3>'
        f"<p>{html.escape(_sentence(experiment.summary))} "
        f'<span class="quiet">Source: {html.escape(experiment.source)}.</span></p>{quick}'
        f'<img alt="{html.escape(experiment.name)}: {html.escape(experiment.summary)}" '
        f'src="data:image/png;base64,{encoded}">'
        + _scores_table(experiment, result)
        + _reported_table(experiment, result)
        + (f"<p>Notes</p><ul>{notes}</ul>" if notes else "")
        + f"<details><summary>Settings</summary>{_html_table(['setting', 'value', 'meaning'], rows)}</details>"
        + f'<p class="quiet">{html.escape(summary.machine_line(result))}{_seconds(result)}</p>'
    )


def _scores_table(experiment: Experiment[Any], result: Result) -> str:
    """Every method of the experiment, with its variants and all its scores."""
    table = summary.rows(experiment, result, list(result.methods))
    old = sources.stale(experiment, result)
    head = "".join(f'<th class="value">{html.escape(_heading(row))}</th>' for row in table)
    lines = [
        f'<tr><td class="name">{html.escape(_marked(label, label in old))}</td>'
        + "".join(_html_cell(row.cells[label], known=True) for row in table)
        + "</tr>"
        for label in result.methods
    ]
    return (
        f'<div class="wide"><table><thead><tr><th>method</th>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _sentence(text: str) -> str:
    """A summary as a sentence, which may be a question."""
    return text[0].upper() + text[1:] + ("" if text[-1] in ".?!" else ".")


def _seconds(result: Result) -> str:
    return f"; {result.seconds:.0f} s of measurement" if result.seconds else ""


def _heading(row: summary.Row) -> str:
    return f"{row.score.title} [{row.score.unit}]" if row.score.unit else row.score.title


def _reported_table(experiment: Experiment[Any], result: Result) -> str:
    rows = [
        [html.escape(r.quantity), html.escape(r.paper), html.escape(r.measured)] for r in experiment.reported(result)
    ]
    return _html_table(["quantity", "the paper reports", "measured here"], rows) if rows else ""


def _html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th>{cell}</th>" for cell in head)
    lines = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{lines}</tbody></table>"


def markdown(folders: Sequence[summary.Folder], place: pathlib.Path, header: Sequence[str] = ()) -> str:
    """The same as Markdown; `place` is the folder of the page, from which pictures are linked."""
    lines = [
        "# Results",
        "",
        *(line for text in header for line in (text, "")),
        INTRODUCTION.replace("A star", f"A star ({BEST})"),
        "",
        f"{DOUBT} See the notes below the experiment's table. {LEGEND}",
        "",
    ]
    for folder in folders:
        lines += [f"## {_title(folder)}", ""]
        lines += [f"Left out: {reason}\n" for reason in folder.skipped]
        labels = summary.columns([result for _, result in folder.results])
        table = []
        found = [(experiment, summary.rows(experiment, result, labels)) for experiment, result in folder.results]
        old = summary.stale_columns([row for _, rows in found for row in rows], labels)
        for experiment, rows in found:
            for row in rows:
                more = ", more is better" if row.score.best == "high" else ""
                cells = [_markdown_cell(row.cells[label], label in old) for label in labels]
                table.append([f"[{experiment.name}](#{_slug(folder, experiment)})", _heading(row) + more, *cells])
        lines += _markdown_table(["experiment", "what", *(_marked(label, label in old) for label in labels)], table)
        for experiment, result in folder.results:
            lines += _markdown_section(folder, experiment, result, place)
    return "\n".join(lines).rstrip() + "\n"


def _slug(folder: summary.Folder, experiment: Experiment[Any]) -> str:
    return f"{experiment.name}-on-{folder.name}".lower()


def _markdown_section(
    folder: summary.Folder, experiment: Experiment[Any], result: Result, place: pathlib.Path
) -> list[str]:
    picture = pathlib.Path(os.path.relpath(folder.path / f"{experiment.name}.png", place)).as_posix()
    table = summary.rows(experiment, result, list(result.methods))
    old = sources.stale(experiment, result)
    scores = [
        [_marked(f"`{label}`", label in old), *(_markdown_cell(row.cells[label], known=True) for row in table)]
        for label in result.methods
    ]
    lines = [
        f"### {experiment.name} on {folder.name}",
        "",
        f"{_sentence(experiment.summary)} Source: {experiment.source}.",
        *([QUICK] if result.quick else []),
        "",
        f"![{experiment.name}]({picture})",
        "",
        *_markdown_table(["method", *map(_heading, table)], scores),
    ]
    reported = [[r.quantity, r.paper, r.measured] for r in experiment.reported(result)]
    if reported:
        lines += _markdown_table(["quantity", "the paper reports", "measured here"], reported)
    lines += [f"- {_escape(note)}" for note in summary.notes(result)]
    given = ", ".join(f"{name} {value}" for name, value, _ in summary.settings_of(experiment, result))
    return [*lines, f"- Settings: {given}", f"- {summary.machine_line(result)}", ""]


def _markdown_cell(cell: summary.Cell, known: bool = False) -> str:
    """A cell; its staleness is marked unless it is `known` from its heading."""
    text = f"**{cell.text}** {BEST}" if cell.best else cell.text + (f" {DOUBT}" if cell.note else "")
    return _marked(text, cell.stale and not known)


def _markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(map(_escape, head)) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    return [*lines, *("| " + " | ".join(map(_escape, row)) + " |" for row in rows), ""]


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
