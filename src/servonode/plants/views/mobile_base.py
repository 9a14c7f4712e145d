"""The mobile base from above: its round body, its wheels, its heading."""

import numpy as np

from servonode.plants.view import Points, Values, View, circle


def outline(state: Values, parameters: Values) -> list[Points]:
    """Closed and open polylines (n, 2) [m], from above."""
    half, radius = parameters["l"], parameters["r"]
    origin, c, s = np.array([state["X"], state["Y"]]), np.cos(state["psi"]), np.sin(state["psi"])
    lines = [np.array([[-radius, side * half], [radius, side * half]]) for side in (1.0, -1.0)]
    lines.append(np.array([[0.0, 0.0], [1.3 * half, 0.0]]))
    return [circle(origin, 1.3 * half), *(line @ np.array([[c, s], [-s, c]]) + origin for line in lines)]


def frames(values: Values, _parameters: Values) -> dict[str, tuple[float, float, float]]:
    """The base at the middle of its axle."""
    return {"base": (values["X"], values["Y"], values["psi"])}


VIEW = View(trails={"base": ("X", "Y")}, goal=("x", "y"), axes=("x [m]", "y [m]"), outline=outline, frames=frames)
