"""The paths that programs ask of the snowboarder."""

import numpy as np

from servonode.plants.view import Points, View, Wanted, line_through

CURVE = 4000  # points of a curve that is integrated


def wanted(asked: Wanted) -> dict[str, Points]:
    """The slalom, line or curve that the packaged programs ask of the blade."""
    if asked.program == "curve":
        return {"wanted curve": _curve(asked)}
    if asked.program not in ("slalom", "carve", "literal"):
        return {}
    settings = asked.settings
    if settings.get("path") == "line":
        along = np.array([np.cos(settings["chi0"]), np.sin(settings["chi0"])])
        return {"wanted line": line_through(np.array([0.0, settings["y_c"]]), along, asked.low, asked.high)}
    x = np.linspace(asked.low[0], asked.high[0], 400)
    return {"wanted slalom": np.column_stack([x, settings["A"] * np.sin(settings["k"] * x)])}


def _curve(asked: Wanted) -> Points:
    """The curve of given curvature from where the run starts, until it leaves the region."""
    kappa0, kappa1, Lambda, chi0, s0, n0 = (
        float(asked.settings[name]) for name in ("kappa0", "kappa1", "Lambda", "chi0", "s0", "n0")
    )
    s = s0 + np.linspace(0.0, 4 * float(np.hypot(*(asked.high - asked.low))), CURVE)
    chi = chi0 + kappa0 * s + kappa1 * Lambda / (2 * np.pi) * np.sin(2 * np.pi * s / Lambda)
    across = n0 * np.array([-np.sin(chi[0]), np.cos(chi[0])])
    ahead = np.column_stack([np.cos(chi), np.sin(chi)])
    steps = (ahead[1:] + ahead[:-1]) / 2 * np.diff(s)[:, None]
    start = np.array([asked.start["x0"], asked.start["y0"]]) - across
    points: Points = start + np.vstack([np.zeros(2), np.cumsum(steps, axis=0)])
    edge = 0.05 * (asked.high - asked.low)  # the run may start on the region's side
    outside = np.any((points < asked.low - edge) | (points > asked.high + edge), axis=1)
    return points[: int(np.argmax(outside))] if outside.any() else points


VIEW = View(paths=wanted)
