"""The robot and its trailer from above."""

import numpy as np

from servonode.plants.view import Points, Values, View, Wanted, circle, line_through


def outline(state: Values, parameters: Values) -> list[Points]:
    """Closed and open polylines (n, 2) [m] of the robot, its wheels, the drawbar and the trailer, from above."""
    half, radius, b = parameters["l"], parameters["r"], parameters["b"]
    platform = np.array([[-0.6, -1], [1.0, -1], [1.7, 0], [1.0, 1], [-0.6, 1], [-0.6, -1]]) * half
    wheel = np.array([[-radius, 0.0], [radius, 0.0]])
    wheels = [wheel + np.array([0.0, side * half]) for side in (1.15, -1.15)]
    bed = np.array([[-0.9, -0.8], [0.9, -0.8], [0.9, 0.8], [-0.9, 0.8], [-0.9, -0.8]]) * half - np.array([b, 0.0])
    trailer_wheels = [wheel + np.array([-b, side * half]) for side in (1.0, -1.0)]
    drawbar = np.array([[0.0, 0.0], [-b, 0.0]])
    origin = np.array([state["X"], state["Y"]])
    robot = [_turned(line, state["psi"]) + origin for line in (platform, *wheels)]
    heading = state["psi"] + state["phi"]
    return robot + [_turned(line, heading) + origin for line in (bed, drawbar, *trailer_wheels)]


def frames(values: Values, parameters: Values) -> dict[str, tuple[float, float, float]]:
    """The robot at the middle of its axle, and the trailer at that of its own."""
    heading, b = values["psi"] + values["phi"], parameters["b"]
    trailer = (values["X"] - b * np.cos(heading), values["Y"] - b * np.sin(heading), heading)
    return {"robot": (values["X"], values["Y"], values["psi"]), "trailer": trailer}


def wanted(asked: Wanted) -> dict[str, Points]:
    """The line or circle on which the program `trailer_path` keeps the trailer's axle."""
    if asked.program != "trailer_path":
        return {}
    settings = asked.settings
    point = np.array([settings["point_0"], settings["point_1"]])
    if settings["path"] == "circle":
        return {"wanted circle": circle(point, settings["radius"], 181)}
    along = np.array([np.cos(settings["direction"]), np.sin(settings["direction"])])
    return {"wanted line": line_through(point, along, asked.low, asked.high)}


VIEW = View(
    trails={"robot": ("X", "Y"), "trailer": ("X2", "Y2")},
    goal=("x", "y"),
    axes=("x [m]", "y [m]"),
    outline=outline,
    paths=wanted,
    frames=frames,
)


def _turned(points: Points, angle: float) -> Points:
    c, s = np.cos(angle), np.sin(angle)
    turned: Points = points @ np.array([[c, s], [-s, c]])
    return turned
