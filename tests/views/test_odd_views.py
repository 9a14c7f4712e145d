"""Pictures of machines that a user may write: odd views, names, texts and values. Nothing fails, nothing is covered."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.text import Text

import servonode
from servonode.errors import ModelError
from servonode.record.run import Run
from servonode.views import limits
from servonode.views.panels import PALETTE, Panel, PanelSpec, panel_specs
from servonode.views.report import report_figure
from servonode.views.symbols import mathtext, plain
from servonode.views.titles import readable, shortened, text_width, wrapped
from servonode.views.view_checks import check_view

MACHINE = '''
import numpy as np
from servonode.mechanics import Model, coordinate, input_, parameter
from servonode.plants.view import View


def model() -> Model:
    """A puck on a table."""
    x = coordinate("x", "position along the table", "m")
    y = coordinate("y", "5 $ of position", "m")
    m = parameter("m", "mass", "kg", default=1.0)
    F, G = input_("F", "force along", "N"), input_("G", "force across", "N")
    return Model(name="puck", description="puck for 5 $", coordinates=(x, y), parameters=(m,),
        kinetic=m * (x.rate**2 + y.rate**2) / 2, inputs={F: x.rate, G: y.rate}, safe={F: -x.rate, G: -y.rate})


def outline(s, p):
    at = np.array([s["x"], s["y"]])
    return [at + np.array([[-0.1, -0.05], [0.1, -0.05], [0.0, 0.1], [-0.1, -0.05]])]


PUCK = {"puck": ("x", "y")}
'''
LAUNCH = """
[run]
duration = 2.0
[plant]
machine = "./puck.py:model"
step = 0.001
[plant.initial]
x = 0.2
[controller]
period = 0.01
residuals = { a = "x - sin(t)", b = "y - 0.5*cos(2*t)" }
gains.lambda = 3.0
"""


def closed_loop(folder: Path, view: str) -> Any:
    """The launch file of a puck with this view, loaded."""
    (folder / "puck.py").write_text(f"{MACHINE}\nVIEW = {view}\n")
    (folder / "puck.toml").write_text(LAUNCH)
    return servonode.load(folder / "puck.toml")


def run(folder: Path, view: str) -> Run:
    """The run of a puck with this view."""
    return closed_loop(folder, view).simulate(every=10)


def check_picture(found: Run) -> Any:
    """The report: all text on the page, no axis on another one, a height that a page has."""
    figure = report_figure(found, "puck")
    figure.set_dpi(100)
    figure.draw_without_rendering()
    renderer, page = figure.canvas.get_renderer(), figure.bbox
    assert figure.get_figheight() < 12
    boxes = [axis.get_tightbbox(renderer) for axis in figure.axes]
    for i, box in enumerate(boxes):
        assert page.x0 - 1 <= box.x0
        assert box.x1 <= page.x1 + 4
        assert page.y0 - 1 <= box.y0
        for other in boxes[:i]:
            width, height = min(box.x1, other.x1) - max(box.x0, other.x0), min(box.y1, other.y1) - max(box.y0, other.y0)
            assert width <= 1 or height <= 1
    return figure


WORDS = "x " * 120
DRAWN = {
    "one point": "View(outline=lambda s, p: [np.zeros((1, 2))])",
    "nothing": "View(outline=lambda s, p: [])",
    "no numbers": "View(outline=lambda s, p: [np.full((3, 2), np.nan)], trails=PUCK)",
    "later empty": "View(outline=lambda s, p: outline(s, p) if s['x'] < 0.5 else [np.zeros((0, 2))], trails=PUCK)",
    "path of nan": "View(outline=outline, trails=PUCK, paths=lambda w: {'line': np.full((5, 2), np.nan)})",
    "planes with a path of nan": "(View(outline=outline, trails=PUCK, paths=lambda w: "
    "{'line': np.full((5, 2), np.nan)}), View(outline=outline, trails={'b': ('x_dot', 'y_dot')}))",
    "empty path": "View(outline=outline, trails=PUCK, paths=lambda w: {'line': [], 'other': np.zeros((0, 2))})",
    "long name": f"View(outline=outline, trails=PUCK, paths=lambda w: {{{WORDS!r}: np.zeros((2, 2))}})",
    "long title": f"View(outline=outline, trails=PUCK, title={WORDS!r}, axes=({WORDS!r}, {WORDS!r}))",
    "dollars": "View(outline, {'for 5 $ and $\\\\foo$': ('x', 'y')}, title='5 $', axes=('$\\\\frac{$', '$'))",
    "caption": "View(outline=outline, strip=True, caption=lambda s, p: 'some, ' + 'long' * 20 + ', for 5 $')",
    "planes": "(View(outline=outline, trails=PUCK), View(outline=outline, trails={'b': ('x_dot', 'y_dot')}))",
}


@pytest.mark.parametrize("view", DRAWN.values(), ids=DRAWN)
def test_an_odd_view_is_drawn_and_nothing_covers_anything(view: str, tmp_path: Path) -> None:
    found = run(tmp_path, view)
    check_view(found.closed_loop)
    check_picture(found)


REFUSED = {
    "View(outline=outline, title=5)": "title",
    "View(outline=outline, axes='xy')": "axes",
    "View(outline=outline, trails={'t': ('x',)})": "trail",
    "View(outline=outline, paths=lambda w: {'line': 'abc'})": "'line' is 'abc', not made of numbers",
    "View(outline=outline, paths=lambda w: {'line': [[0, 1], [2]]})": "'line'",
    "View(outline=outline, paths=lambda w: {'line': np.zeros((2, 5))})": r"'line' has the shape \(2, 5\)",
    "View(outline=outline, strip=True, lean=lambda s, p: s['no'])": "KeyError: 'no'",
}


@pytest.mark.parametrize("view", REFUSED)
def test_a_view_that_cannot_be_drawn_is_refused_at_the_start(view: str, tmp_path: Path) -> None:
    loop = closed_loop(tmp_path, view).closed_loop
    with pytest.raises(ModelError, match=REFUSED[view]):
        check_view(loop)


def test_an_outline_that_fails_later_names_file_and_shape(tmp_path: Path) -> None:
    found = run(tmp_path, "View(outline=lambda s, p: outline(s, p) if s['x'] < 0.5 else [np.zeros(3)], trails=PUCK)")
    with pytest.raises(ModelError, match=r"puck.py: line 0 of a view has the shape \(3,\)"):
        report_figure(found, "puck")


def altered(found: Run, change: Any, speed: float = 1.0, rows: int | None = None) -> Run:
    """The run with other values, over another time, of so many rows."""
    columns: Any = {
        part: {name: change(values)[:rows] for name, values in getattr(found, part).items()}
        for part in ("state", "input", "residual")
    }
    rest: Any = {name: getattr(found, name)[:rows] for name in ("k", "energy", "work")}
    t = found.t[:rows] * speed
    return replace(found, t=t, goal_t=t, **rest, **columns)


VALUES: dict[str, Any] = {
    "zero": lambda values: values * 0.0,
    "constant": lambda values: np.full_like(values, 3.7),
    "1e-300": lambda values: values * 1e-300,
    "1e300": lambda values: values * 1e300,
    "1.7e308": lambda values: np.clip(values, -1, 1) * 1.7e308,
    "1e6": lambda values: values * 1e6,
    "far away": lambda values: 1e6 + 1e-7 * values,
    "nan": lambda values: values * np.nan,
}


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("change", VALUES.values(), ids=VALUES)
def test_odd_values_are_drawn(change: Any, tmp_path: Path) -> None:
    check_picture(altered(run(tmp_path, DRAWN["planes"]), change))


@pytest.mark.parametrize(("duration", "rows"), [(1e-3, None), (1.0, 1), (1.0, 2), (1e5, None), (2e4, None)])
def test_odd_times_are_drawn_on_the_page(duration: float, rows: int | None, tmp_path: Path) -> None:
    figure = check_picture(altered(run(tmp_path, DRAWN["planes"]), lambda values: values, duration / 2, rows))
    renderer = figure.canvas.get_renderer()
    for axis in figure.axes:
        for tick in axis.xaxis.get_major_ticks():
            low, high = axis.get_xlim()
            if tick.label1.get_visible() and low <= tick.get_loc() <= high:
                assert tick.label1.get_window_extent(renderer).x1 <= figure.bbox.x1


def test_times_beside_a_path_stand_inside_the_plane(tmp_path: Path) -> None:
    found = run(tmp_path, "View(outline=lambda s, p: [], trails=PUCK)")
    figure = check_picture(found)
    renderer, axis = figure.canvas.get_renderer(), figure.axes[0]
    times = [each for each in axis.findobj(Text) if each.get_text().endswith(" s")]
    assert len(times) >= 4
    for each in times:
        box = Text.get_window_extent(each, renderer)
        assert axis.bbox.x0 - 1 <= box.x0
        assert box.x1 <= axis.bbox.x1 + 1


def test_residuals_beyond_the_colours_have_panels_of_their_own() -> None:
    description = servonode.load("trailer_pursuit").machine.description
    names = [f"r_{n}" for n in range(2 * len(PALETTE) + 1)]
    specs = [each for each in panel_specs(description, names) if each.logarithmic]
    assert [name for each in specs for name in each.curves] == names
    assert max(len(each.curves) for each in specs) == len(PALETTE)


def test_a_panel_of_more_curves_than_colours_has_dashes() -> None:
    columns = {f"q_{n}": np.linspace(0.0, n + 1.0, 5) for n in range(3 * len(PALETTE))}
    curves = Panel(PanelSpec("", {name: name for name in columns}), columns, dict.fromkeys(columns, 0.0)).curves()
    assert len({(each.color, str(each.dashes)) for each in curves}) == len(columns)


def test_dollars_are_written_where_they_are_no_formula() -> None:
    assert readable("for 5 $") == r"for 5 \$"
    assert readable(r"$\foo$") == r"\$\foo\$"
    assert readable(r"angle $\varphi$") == r"angle $\varphi$"


def test_long_words_are_broken_and_long_names_end_with_dots() -> None:
    assert all(text_width(line) <= 1.0 for line in wrapped("a_" * 60, 1.0))
    assert text_width(shortened("a name that is too long", 0.5)) <= 0.5
    assert shortened("short", 2.0) == "short"


def test_a_name_of_many_indices_is_words() -> None:
    assert mathtext("a_very_long_name_of_it") == plain("a_very_long_name_of_it") == "a very long name of it"


def test_the_greatest_number_does_not_break_an_axis() -> None:
    found = limits.round_limits([np.array([-1.7e308, 1.7e308, 1.0])])
    assert np.isfinite([found.low, found.high]).all()
