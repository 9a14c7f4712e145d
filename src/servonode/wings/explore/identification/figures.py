"""The picture of an identification: measured and fitted curves, their residuals, and the intervals of the estimates."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from servonode.views.palette import GOAL, GUIDE, INK, PALETTE
from servonode.views.sheet import PRINT, WIDTH, save
from servonode.views.symbols import mathtext, unit_text
from servonode.views.titles import SIZE
from servonode.wings.explore.identification.fit import Part
from servonode.wings.explore.identification.identification import Estimate, Identification

MOST = 6  # channels that are drawn, those whose residuals are not white, then the worst fitted
ROW, LAST = 1.05, 1.7  # in; heights
BAND = 2.0  # standard deviations between which a residual is expected
POINTS = 4000  # of a curve at most


def write_picture(found: Identification, file: Path) -> None:
    """Draw the identification into `file` (PNG or another format that matplotlib knows by its ending)."""
    save(identification_figure(found), file)


@mpl.rc_context(PRINT)
def identification_figure(found: Identification) -> Any:
    """The picture as a matplotlib Figure: a row for each channel of the longest record, below them the estimates."""
    from servonode.views.picture import Picture

    index = int(np.argmax([each.experiment.duration for each in found.fit.parts]))
    part, sigma = found.fit.parts[index], found.fit.noise[index]
    own = [each for each in found.residuals if each.experiment == part.experiment.name]
    shown = sorted(range(len(own)), key=lambda i: (own[i].white, own[i].fit))[:MOST]
    figure = Picture(figsize=(WIDTH, ROW * len(shown) + LAST + 0.3), layout="constrained")
    grid = figure.add_gridspec(len(shown) + 1, 2, height_ratios=[ROW] * len(shown) + [LAST], width_ratios=(1.5, 1))
    predicted = part.trajectories.predicted(found.fit.values, part.segments, part.starts)
    assert predicted is not None
    figure.legend(
        handles=[_line("o", GUIDE, "measured"), _line("-", PALETTE[0], "fitted"), _line("--", GOAL, "to be expected")],
        loc="outside upper right", ncols=3, handlelength=1.2,
    )  # fmt: skip
    for row, i in enumerate(sorted(shown)):
        axes = [figure.add_subplot(grid[row, side]) for side in (0, 1)]
        _channel(axes, part, i, predicted, float(sigma[i]))
        for axis in axes:
            axis.tick_params(labelbottom=row == len(shown) - 1)
            if row == len(shown) - 1:
                axis.set_xlabel("time t [s]")
    _intervals(figure.add_subplot(grid[-1, 0]), [*found.estimates.values(), *found.combinations])
    _correlation(figure.add_subplot(grid[-1, 1]), found, [own[i].channel for i in sorted(shown)], part.experiment.name)
    figure.suptitle(
        f"{found.machine}: parameters from {', '.join(found.records)}", x=0.01, ha="left", color=INK, fontsize=SIZE
    )
    return figure


def _line(style: str, color: str, label: str) -> Any:
    """An entry of the legend."""
    from matplotlib.lines import Line2D

    marker: Any = "o" if style == "o" else ""
    line: Any = "" if style == "o" else style
    return Line2D([], [], color=color, marker=marker, linestyle=line, markersize=3, label=label)


def _channel(axes: Sequence[Any], part: Part, i: int, predicted: Any, sigma: float) -> None:
    """What was measured and fitted on the left, residuals in units of their noise on the right."""
    experiment, channel = part.experiment, part.experiment.channels[i]
    own = np.flatnonzero(experiment.channel == i)
    own = own[:: -(-len(own) // POINTS)]
    t, measured, fitted = experiment.t[experiment.row[own]], experiment.values[own], predicted[own]
    left, right = axes
    left.plot(t, measured, ".", color=GUIDE, markersize=2.5, rasterized=True)
    left.plot(t, fitted, color=PALETTE[0])
    left.set_title(f"{mathtext(channel.name)}{unit_text(channel.unit)}", loc="left", pad=2, fontsize=SIZE)
    right.plot(t, channel.difference(measured, fitted) / sigma, ".", color=PALETTE[0], markersize=1.5, rasterized=True)
    for level in (-BAND, BAND):
        right.axhline(level, color=GOAL, linewidth=0.7, linestyle="--")
    right.set_ylim(-5, 5)
    unit = "" if channel.unit == "1" else f" {channel.unit}"
    right.set_title(f"residual / noise ({sigma:.2g}{unit})", loc="left", pad=2, fontsize=SIZE)


def _intervals(axis: Any, estimates: Sequence[Estimate]) -> None:
    """Each estimate with its interval as a share of the value before, which is the dashed line."""
    told = [each for each in estimates if np.isfinite(each.error)]
    for place, each in enumerate(reversed(told)):
        scale = abs(each.before) or abs(each.value) or 1.0
        change, error = 100 * (each.value - each.before) / scale, 100 * each.error / scale
        axis.errorbar(change, place, xerr=error, fmt="o", markersize=3, capsize=3, color=PALETTE[0])
        text = f"± {100 * each.relative:.2g} %" if np.isfinite(each.relative) else f"± {each.error:.2g}"
        axis.annotate(text, (change, place), (0, 4), textcoords="offset points", ha="center", va="bottom")
    axis.axvline(0, color=GOAL, linewidth=0.8, linestyle="--")
    axis.set_yticks(range(len(told)), [each.name.replace("**", "^").replace("*", " ") for each in reversed(told)])
    axis.set_ylim(-0.5, len(told) - 0.2)
    axis.margins(x=0.18)
    axis.set_title("estimates with 95 % intervals", loc="left", pad=2, fontsize=SIZE)
    axis.set_xlabel("change against the value before [%]")


def _correlation(axis: Any, found: Identification, names: Sequence[str], record: str) -> None:
    """The autocorrelation of the residuals with the band of white noise."""
    own = [each for each in found.residuals if each.experiment == record and each.channel in names]
    for each in own:
        lags = np.arange(1, len(each.correlation) + 1)
        axis.plot(lags, each.correlation, linewidth=0.9, color=PALETTE[0] if each.white else PALETTE[1])
    fewest = min(part.experiment.n_measurements / len(part.experiment.channels) for part in found.fit.parts)
    for sign in (-1, 1):
        axis.axhline(sign * 1.96 / np.sqrt(fewest), color=GOAL, linewidth=0.7, linestyle="--")
    coloured = [each.channel for each in own if not each.white]
    title = f"not white (orange): {', '.join(map(mathtext, coloured))}" if coloured else "residuals are white"
    axis.set_title(title, loc="left", pad=2, fontsize=SIZE)
    axis.set_xlabel("lag [samples]")
    axis.set_ylabel("autocorrelation")
