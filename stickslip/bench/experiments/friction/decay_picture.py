"""The picture of `torsion` and `rolling`: a speed that friction brings to rest."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from stickslip.bench.references.decay import Decay
from stickslip.bench.report import style
from stickslip.bench.result import Result


def draw(title: str, result: Result, cases: Mapping[str, Decay], span: float, quantity: str) -> Any:
    """Speed over time for up to three of the cases, and three metrics for all of them."""
    labels = list(cases)
    shown = labels if len(labels) <= 3 else [labels[0], labels[len(labels) // 2], labels[-1]]
    fig, axes = style.figure(title, 2, 3, height=3.4, width=14.0)
    for ax, case in zip(axes[0], shown, strict=False):
        for method in result.ran(case):
            time = result.series(method, case, "time")
            style.line(ax, result, method, time, result.series(method, case, "speed"))
        moments = np.linspace(0.0, span * cases[case].stop, 200)
        style.reference(ax, moments, cases[case].speed(moments))
        style.label(ax, case, "time [s]", quantity)
    for ax in axes[0][len(shown) :]:
        ax.set_visible(False)
    ran = [c for c in result.methods if any(result.has(c, case) for case in labels)]
    metrics = {
        "rms_percent": ("error of the speed, rms over the run", "of the start speed [%]"),
        "left_percent": ("speed left when it must stand still, magnitude", "of the start speed [%]"),
        "braking_percent": ("error of the braking, first half, magnitude", "of the exact braking [%]"),
    }
    for ax, (metric, (what, unit)) in zip(axes[1], metrics.items(), strict=True):
        values = {c: [result.metric(c, case, metric) for case in labels] for c in ran}
        style.bars(ax, result, labels, values, log=True)
        style.label(ax, what, "", unit)
    style.legend(fig, axes)
    return fig
