"""Make the drawings of the gallery, docs/images/drawings: machines in motion, seen on a light and on a dark ground.

python docs/validation/drawings.py              all of them, a minute
python docs/validation/drawings.py NAME ...     only these
"""

import argparse
from dataclasses import replace
from itertools import cycle

import numpy as np
from matplotlib.figure import Figure
from pictures import IMAGES, ROOT

import servonode
from servonode.views.scene import Scene, spread
from servonode.views.shapes import box_of, is_closed, wanted_paths

EXAMPLES = ROOT / "examples"
# launch file, its view, the plant times [s] of the first and last outline, how many outlines
DRAWINGS: dict[str, tuple[str, int, tuple[float, float], int]] = {
    "base_eight": ("base_eight", 0, (0.0, 12.0), 6),
    "trailer_pursuit": ("trailer_pursuit", 0, (0.0, 24.0), 6),
    "trailer_reverse_circle": ("trailer_reverse_circle", 0, (0.0, 52.0), 6),
    "trailer_hitch_turning": ("trailer_hitch_turning", 0, (0.0, 20.0), 5),
    "trailer_hitch_swing": ("trailer_hitch_swing", 0, (0.0, 30.0), 5),
    "sphero_pursuit": ("sphero_pursuit", 0, (0.0, 20.0), 7),
    "sphero_bilimovich": ("sphero_bilimovich", 0, (0.0, 20.0), 5),
    "snowboarder_carve": ("snowboarder_carve", 0, (1.0, 3.2), 6),
    "hoop_rolls": ("hoop_rolls", 0, (0.0, 0.45), 5),
    "ball_circle": ("ball_circle", 0, (0.0, 10.0), 6),
    "crane": (str(EXAMPLES / "crane" / "crane.toml"), 0, (0.0, 4.5), 6),
    "crane_3d": (str(EXAMPLES / "crane_3d" / "crane_3d.toml"), 0, (0.0, 20.0), 6),
    "quadrotor": (str(EXAMPLES / "quadrotor" / "quadrotor.toml"), 0, (0.0, 8.0), 7),
    "arm": (str(EXAMPLES / "elastic_arm" / "arm.toml"), 0, (0.0, 3.0), 5),
    "snakeboard": (str(EXAMPLES / "snakeboard" / "snakeboard.toml"), 0, (0.0, 20.0), 6),
    "rose": (str(EXAMPLES / "mecanum" / "rose.toml"), 0, (0.0, 22.0), 4),
    "parking": (str(EXAMPLES / "parking" / "parking.toml"), 0, (0.0, 14.0), 5),
}
INCHES, DPI, ROOM = (3.6, 2.4), 200, 0.06
WIDER = 1.5  # of the room with floors and rails to the same without them, at most
INK, BODY, GUIDE, GOAL = "#7d8794", "#9aa4b0", "#aab2bc", "#e0703a"  # seen on white and on black alike
PATHS = ("#3f8fd6", "#d9a021", "#9a78d0")


def drawn(name: str) -> Figure:
    """The drawing of this name."""
    file, which, (first, last), count = DRAWINGS[name]
    run = servonode.simulate(file)
    scene = Scene.of(run)
    view = scene.views()[which]
    rows = np.searchsorted(run.t, np.linspace(first, min(last, float(run.t[scene.last])), count)).clip(max=scene.last)
    scene = replace(spread(scene, count), instants=sorted({int(i) for i in rows}))
    until = scene.instants[-1] + 1
    figure = Figure(figsize=INCHES, dpi=DPI)
    axis = figure.add_axes((0, 0, 1, 1))
    axis.set_axis_off()
    axis.set_aspect("equal", adjustable="datalim")
    shapes = [scene.shapes(i, view) for i in scene.instants]
    since = scene.instants[0]
    trails = [scene.path(view, pair)[:, since:until] for pair in view.trails.values()]
    lines = [*(line for each in shapes for line in each.lines), *(trail.T for trail in trails)]
    low, high = box_of(lines)
    width = float(np.max(high - low))
    least, most = box_of([*lines, *(line for each in shapes for line in each.thin)])
    if np.max(most - least) < WIDER * width:
        low, high = least, most
    for line in wanted_paths(run.closed_loop, view, low - 0.1 * width, high + 0.1 * width).values():
        axis.plot(*line.T, color=GOAL, linewidth=1.2, linestyle=(0, (4, 2.5)), zorder=2)
    if view.goal and all(each in scene.goals for each in view.goal):
        axis.plot(*view.path(scene.goals, view.goal)[since:until].T, color=GOAL, linewidth=1.2, linestyle=(0, (4, 2.5)))
    for colour, trail in zip(cycle(PATHS), trails, strict=False):
        axis.plot(*trail, color=colour, linewidth=1.6, zorder=2.5)
    for number, each in enumerate(shapes):
        shade = 0.35 + 0.65 * number / max(len(shapes) - 1, 1)
        for line in filter(is_closed, each.lines):
            axis.fill(*line.T, color=BODY, alpha=0.25 * shade, linewidth=0, zorder=1.6)
        for line in each.thin:
            axis.plot(*line.T, color=GUIDE, linewidth=0.7, alpha=shade, zorder=1.7)
        for line in each.lines:
            dot = {"marker": "o", "markersize": 3.5, "linestyle": "none"} if len(line) == 1 else {}
            axis.plot(*line.T, color=INK, linewidth=1.3, alpha=shade, zorder=3, **dot)
    room = ROOM * width
    axis.set_xlim(low[0] - room, high[0] + room)
    axis.set_ylim(low[1] - room, high[1] + room)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="drawings to make; all without")
    names = parser.parse_args().names or list(DRAWINGS)
    folder = IMAGES / "drawings"
    folder.mkdir(exist_ok=True)
    for name in names:
        drawn(name).savefig(folder / f"{name}.png", transparent=True)


if __name__ == "__main__":
    main()
