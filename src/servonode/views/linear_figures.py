"""Pictures of a loop's linear views: its frequency response, its poles along a run, a periodic motion."""

from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator

from servonode.tables import named
from servonode.views.sheet import PRINT

if TYPE_CHECKING:
    from servonode.analysis.frequency_response import FrequencyResponse
    from servonode.analysis.orbits import PeriodicOrbit
    from servonode.analysis.poles_along import PolesAlong

WIDTH, PANEL = 7.0, 2.1  # in; of a figure, and of the height of each axis
PHASES = 90.0  # deg between ticks
LARGEST = 1e4  # a loop transfer beyond this, as at a pole without damping, is cut off
STILL = 1e-9  # a state that moves by less rests


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


@mpl.rc_context(PRINT)
def orbit_figure(orbit: "PeriodicOrbit", x: str | None, y: str | None) -> Figure:
    """The orbit in the plane of two states, and the multipliers with the unit circle."""
    moving = [name for name, column in zip(orbit.columns, orbit.states.T, strict=True) if np.ptp(column) > STILL]
    first = x or next(iter(moving), orbit.columns[0])
    rate = f"{first}_dot"
    second = y or (rate if rate in orbit.columns else next((each for each in moving if each != first), first))
    columns = dict(zip(orbit.columns, orbit.states.T, strict=True))
    figure = Figure(figsize=(WIDTH, 0.5 * WIDTH), layout="constrained")
    FigureCanvasAgg(figure)
    plane, circle = figure.subplots(1, 2)
    plane.plot(columns[first], columns[second])
    plane.plot(orbit.state[first], orbit.state[second], "o", color="C1")
    plane.set_xlabel(named(first, orbit.units[first]))
    plane.set_ylabel(named(second, orbit.units[second]))
    plane.set_title(f"periodic motion, {orbit.period:.4g} s", loc="left")
    angle = np.linspace(0.0, 2 * np.pi, 200)
    circle.plot(np.cos(angle), np.sin(angle), color="0.6", linewidth=0.8)
    circle.plot(orbit.multipliers.real, orbit.multipliers.imag, "o", color="C1")
    circle.set_aspect("equal", adjustable="datalim")
    circle.set_title("Floquet multipliers", loc="left")
    circle.set_xlabel("real part")
    circle.set_ylabel("imaginary part")
    return figure


def _figure(panels: int) -> Figure:
    figure = Figure(figsize=(WIDTH, PANEL * panels + 0.5), layout="constrained")
    FigureCanvasAgg(figure)
    return figure
