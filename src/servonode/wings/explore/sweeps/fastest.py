"""`servonode fastest`: the largest speed of a goal at which limits hold and the goal is reached."""

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from servonode.analysis.goal_speed import FASTEST, SLOWEST, Drive, drive, drives, duration_at, goal_moves, largest_speed
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.launch_keys import Goal
from servonode.definitions.progress import task
from servonode.errors import StatementError
from servonode.tables import Row, Tabular, several

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TIME = re.compile(r"\bt\b")
BESIDE, REACH = 9, 4.0  # more speeds that are run for the picture, up to this factor below and half of it above
ABOUT = BESIDE + 11  # runs in all


@dataclass(frozen=True, repr=False)
class Fastest(Tabular):
    """The largest speed of a goal, as a factor of the launch file's, and the runs that tell it.

    speed: 0 where the slowest goal does not hold either. drives: in the order of their speeds. broken: the slowest run
    that does not hold; None where all do. lines: of a launch file with this speed; none where the goal named `curve`
    leads through points.
    """

    file: str
    speed: float
    drives: tuple[Drive, ...]
    broken: Drive | None
    lines: tuple[str, ...]
    curve: str = ""

    def table(self) -> tuple[str, list[Row]]:
        """The largest speed, what ends it, the launch-file lines that have it."""
        rows: list[Row] = [("largest speed", self._speed_text())]
        if self.broken is not None:
            if self.broken.first:
                rows += [("first at limit", f"{self.broken.first}, at t = {self.broken.first_t:.4g} s")]
            rows += [("beyond it", f"at {self.broken.speed:.4g} times: {self.broken.reason}")]
        at_largest = next((each for each in self.drives if each.speed == self.speed), None)
        if at_largest is not None:
            shares = (f"{name} {100 * share:.3g} %" for name, share in at_largest.shares.items())
            rows += [("peaks, of limits", several(shares))]
        rows += [("launch file" if i == 0 else "", line) for i, line in enumerate(self.lines)]
        if self.curve and self.speed:
            text = f"target.{self.curve} leads through points, which no lines replace: divide all their times"
            rows += [("launch file", f"{text}, and put factor*t for t elsewhere, by the factor {_rounded(self.speed)}")]
        return f"How fast the goal of {self.file} may be driven", rows

    def _speed_text(self) -> str:
        if not self.speed:
            text = f"none from {SLOWEST:g} times the launch file's on: the start asks for too much, whatever the goal"
            return f"{text} does"
        more = "" if self.broken else ", the fastest that was tried"
        return f"{self.speed:.4g} times the launch file's{more}"

    def as_dict(self) -> dict[str, Any]:
        """All of it, as `servonode fastest --json` prints it."""
        runs = [asdict(each) | {"first_t": each.first_t if each.first else None} for each in self.drives]
        return {"file": self.file, "speed": self.speed, "lines": list(self.lines), "runs": runs}

    def plot(self) -> "Figure":
        """The picture: the largest magnitude of each input over its limit against the speed, as a matplotlib Figure."""
        from servonode.wings.explore.sweeps.figures import speeds_figure

        shown = [each for each in self.drives if each.shares and self._near(each.speed)]
        shares = {name: np.array([each.shares[name] for each in shown]) for name in shown[0].shares}
        holds = np.array([not each.reason for each in shown])
        title = f"{self.file}: how fast the goal may be driven"
        note = f"Beyond {self.speed:.4g}: {self.broken.reason}." if self.broken else ""
        speeds = np.array([each.speed for each in shown])
        figure: Figure = speeds_figure(title, speeds, shares, holds, self.speed, note)
        return figure

    def _near(self, speed: float) -> bool:
        return not self.speed or self.speed / (REACH * 1.01) <= speed <= self.speed * REACH * 0.51


def fastest(closed_loop: ClosedLoop) -> Fastest:
    """The largest speed of the goal; see `Loop.fastest`."""
    _check(closed_loop)
    task().plan(ABOUT, about=True)
    found = drives(closed_loop)
    largest = largest_speed(found)
    if largest:
        beside = np.geomspace(largest / REACH, largest * REACH / 2, BESIDE)
        found += [drive(closed_loop, float(each)) for each in beside if SLOWEST <= each <= FASTEST]
    found.sort(key=lambda each: each.speed)
    broken = next((each for each in found if each.reason and each.speed > largest), None)
    return Fastest(
        closed_loop.launch.file, largest, tuple(found), broken, _lines(closed_loop, largest), _curve(closed_loop)
    )


def _check(closed_loop: ClosedLoop) -> None:
    """Refuse a closed loop whose goal cannot be driven faster, or has no limit.

    Raises:
        StatementError: that is so.
    """
    closed_loop.check_known_goals()
    file, limits = closed_loop.launch.file, closed_loop.safety.limits
    if closed_loop.control is None:
        raise StatementError(f"{file} has no [controller], so there is no goal to drive")
    if not goal_moves(closed_loop):
        text = "has no function of t in [target] or [controller.settings], so it has no speed; state one there"
        raise StatementError(f"{file}: the goal of program {closed_loop.control.law.description.name} {text}")
    if not np.isfinite([*limits.value, *limits.rate, limits.power]).any():
        remedy = "give plant.actuator.limit, as --set plant.actuator.limit=1"
        raise StatementError(f"{file} limits no input, so nothing says how fast is too fast; {remedy}")


def _lines(closed_loop: ClosedLoop, speed: float) -> tuple[str, ...]:
    """The lines of a launch file in which the goal's functions of t have this speed, rounded down; none with curves."""
    if not speed or _curve(closed_loop):
        return ()
    factor = _rounded(speed)
    sections = {"target": closed_loop.stated.target, "controller.settings": _signals(closed_loop)}
    lines = ["[run]", f"duration = {duration_at(closed_loop, speed):g}"]
    for section, stated in sections.items():
        functions = {name: each for name, each in stated.items() if isinstance(each, str) and TIME.search(each)}
        written = [f'{name} = "{TIME.sub(f"({factor}*t)", each)}"' for name, each in functions.items()]
        lines += [f"[{section}]", *written] if written else []
    return tuple(lines)


def _signals(closed_loop: ClosedLoop) -> dict[str, Any]:
    """The program's own functions of time by name, as they are stated or by default."""
    control, controller = closed_loop.control, closed_loop.stated.controller
    if control is None or controller is None:
        return {}
    program, settings = control.law.description, controller.settings
    defaults = zip((each.name for each in program.signals), program.signal_defaults, strict=True)
    return {name: settings.get(name, default) for name, default in defaults}


def _curve(closed_loop: ClosedLoop) -> str:
    """The name of a goal that is a curve through points; empty without one."""
    return next((name for name, each in closed_loop.stated.target.items() if isinstance(each, Goal)), "")


def _rounded(speed: float) -> str:
    return f"{np.floor(speed * 1000) / 1000:g}"
