"""The path that a program asks of the trailer."""

from servonode.plants.view import Points, View, Wanted, line_or_circle


def wanted(asked: Wanted) -> dict[str, Points]:
    """The line or circle on which the program `trailer_path` keeps the trailer's axle."""
    if asked.program != "trailer_path":
        return {}
    return line_or_circle(asked, asked.settings["path"], asked.settings.get("direction", 0.0))


VIEW = View(paths=wanted)
