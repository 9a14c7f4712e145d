"""Pictures of a loop's linear views: its frequency response, its poles along a run."""

from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator

from servonode.views.picture import Picture
from servonode.views.sheet import PRINT

if TYPE_CHECKING:
    from servonode.wings.explore.linear.frequency_response import FrequencyResponse
    from servonode.wings.explore.linear.poles_along import PolesAlong

WIDTH, PANEL = 7.0, 2.1  # in; of a figure, and of the height of each axis
PHASES = 90.0  # deg between ticks
LARGEST = 1e4  # a loop transfer beyond this, as at a pole without damping, is cut off


@mpl.rc_context(PRINT)
def response_figure(response: "FrequencyResponse") -> Figure:
    """Magnitude and phase of L at each signal while the others stay closed, and the largest singular values of S, T."""
    figure = _figure(3)
    size, phase, peaks = figure.subplots(3, 1, sharex=True)
    for i, name in enumerate(response.names):
        L = 1 / response.S[:, i, i] - 1
        size.loglog(response.omega, np.abs(L), label=name)
        phase.semilogx(response.omega, np.degrees(np.unwrap(np.angle(L))), label=name)
    size.axhline(1.0, color="0.6", linewidth=0.8)
    size.set_ylim(top=min(size.get_ylim()[1], LARGEST))
    for level in (-180.0, 180.0):
        if phase.get_ylim()[0] < level < phase.get_ylim()[1]:
            phase.axhline(level, color="0.6", linewidth=0.8)
    phase.yaxis.set_major_locator(MultipleLocator(PHASES, offset=0.0))
    for word, values in (("S", response.S), ("T", response.T)):
        peaks.loglog(response.omega, np.linalg.norm(values, 2, axis=(1, 2)), label=word)
    peaks.axhline(1.0, color="0.6", linewidth=0.8)
    for axis, title in (
        (size, "loop transfer at one signal, the others closed"),
        (phase, "its phase [deg]"),
        (peaks, "largest singular value"),
    ):
        axis.set_title(title, loc="left")
        axis.margins(x=0)
    size.legend()
    peaks.legend()
    peaks.set_xlabel("angular frequency [rad/s]")
    return figure


@mpl.rc_context(PRINT)
def poles_figure(poles: "PolesAlong") -> Figure:
    """Real and imaginary parts of the poles over time."""
    figure = _figure(2)
    parts = figure.subplots(2, 1, sharex=True)
    for axis, values, title in (
        (parts[0], poles.rates.real, "real parts of the poles [1/s]"),
        (parts[1], poles.rates.imag, "imaginary parts [rad/s]"),
    ):
        axis.plot(poles.t, values, color="C0", linewidth=1.0)
        axis.axhline(0.0, color="0.6", linewidth=0.8)
        axis.set_title(title, loc="left")
        axis.margins(x=0)
    parts[1].set_xlabel("t [s]")
    return figure


def _figure(panels: int) -> Figure:
    return Picture(figsize=(WIDTH, PANEL * panels + 0.5), layout="constrained")
