"""The picture of a periodic motion."""

from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from servonode.tables import named
from servonode.views.picture import Picture
from servonode.views.sheet import PRINT

if TYPE_CHECKING:
    from servonode.analysis.orbits import PeriodicOrbit

WIDTH = 7.0  # in
STILL = 1e-9  # a state that moves by less rests


@mpl.rc_context(PRINT)
def orbit_figure(orbit: "PeriodicOrbit", x: str | None, y: str | None) -> Figure:
    """The orbit in the plane of two states, and the multipliers with the unit circle."""
    moving = [name for name, column in zip(orbit.columns, orbit.states.T, strict=True) if np.ptp(column) > STILL]
    first = x or next(iter(moving), orbit.columns[0])
    rate = f"{first}_dot"
    second = y or (rate if rate in orbit.columns else next((each for each in moving if each != first), first))
    columns = dict(zip(orbit.columns, orbit.states.T, strict=True))
    figure = Picture(figsize=(WIDTH, 0.5 * WIDTH), layout="constrained")
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
