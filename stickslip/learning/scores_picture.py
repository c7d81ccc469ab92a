"""The table of scores as a picture: policies by the physics they were trained with, against the physics they meet."""

import io
from typing import Any

import numpy as np


def draw(table: list[dict[str, Any]]) -> bytes:
    """Success, or the mean return, of each policy under each physics, as a PNG file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = list(dict.fromkeys(row["physics"] for entry in table for row in entry["scores"]))
    rates = all(row["success"] is not None for entry in table for row in entry["scores"] if not row["refused"])
    shown = np.full((len(table), len(columns)), np.nan)
    texts = [["cannot run"] * len(columns) for _ in table]
    for i, entry in enumerate(table):
        for row in entry["scores"]:
            j = columns.index(row["physics"])
            if not row["refused"]:
                shown[i, j] = row["success"] if rates else row["total"]
                texts[i][j] = f"{100 * row['success']:.0f} %" if rates else f"{row['total']:.3g}"
    figure = Figure(figsize=(3.4 + 1.3 * len(columns), 1.6 + 0.6 * len(table)), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    ax = figure.subplots()
    ax.imshow(shown, cmap="RdYlGn", vmin=0.0 if rates else None, vmax=1.0 if rates else None, aspect="auto", alpha=0.5)
    for i, row in enumerate(texts):
        for j, text in enumerate(row):
            ax.text(j, i, text, ha="center", va="center")
    ax.set_xticks(range(len(columns)), columns)
    ax.set_yticks(range(len(table)), [f"{entry['task']}, trained with {entry['trained with']}" for entry in table])
    ax.set_xlabel("played with")
    ax.set_title("success" if rates else "mean return")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()
