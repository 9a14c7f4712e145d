"""Pictures of machines that a user may write: odd views, names, texts and values. Nothing fails, nothing is covered."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.text import Text

import servonode
from servonode.errors import ModelError
from servonode.mechanics.description import Quantity
from servonode.record.run import Run
from servonode.views.palette import PALETTE
from servonode.views.panel_specs import PanelSpec, panel_specs
from servonode.views.panels import Panel
from servonode.views.report import report_figure
from servonode.views.titles import readable, shortened, text_width
from servonode.views.view_checks import check_view
from tests.helpers.drawn_cart import CONTROL, LAUNCH, Viewed, viewed_cart
from tests.helpers.report_pages import check_page, laid_out


@pytest.fixture(scope="module")
def cart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewed]:
    """The run of a cart with this view; a program moves it."""
    with viewed_cart(tmp_path_factory.mktemp("cart"), LAUNCH + CONTROL, "5 $ of place", "cart for 5 $") as found:
        yield found


def check_picture(found: Run) -> Any:
    """The report: all text on the page, no axis on another one, a height that a page has."""
    figure = laid_out(found, "cart")
    assert figure.get_figheight() < 12
    check_page(figure)
    return figure


WORDS = "x " * 120
NOT_A_NUMBER = "np.full((5, 2), np.nan)"
PLANES = "(View(outline=outline, trails=TRAIL), View(outline=outline, trails={'b': ('x_dot', 'pull')}))"
DRAWN = {
    "one point and nothing": "(View(outline=lambda s, p: [np.zeros((1, 2))]), View(outline=lambda s, p: []))",
    "no numbers": "View(outline=lambda s, p: [np.full((3, 2), np.nan)], trails=TRAIL)",
    "later empty": "View(outline=lambda s, p: outline(s, p) if s['x_dot'] == 0 else [np.zeros((0, 2))], trails=TRAIL)",
    "paths": f"View(outline=outline, trails=TRAIL, paths=lambda w: {{'line': {NOT_A_NUMBER}, 'empty': [], "
    f"'other': np.zeros((0, 2)), {WORDS!r}: np.zeros((2, 2))}})",
    "planes with a path of nan": f"(View(outline=outline, trails=TRAIL, paths=lambda w: {{'line': {NOT_A_NUMBER}}}), "
    "View(outline=outline, trails={'b': ('x_dot', 'pull')}))",
    "long words": f"(View(outline=outline, trails=TRAIL, title={WORDS!r}, axes=({WORDS!r}, {WORDS!r})), "
    "View(outline=outline, strip=True, caption=lambda s, p: 'some, ' + 'long' * 20 + ', for 5 $'))",
    "dollars": "View(outline, {'for 5 $ and $\\\\foo$': ('x', 'pull')}, title='5 $', axes=('$\\\\frac{$', '$'))",
}


@pytest.mark.parametrize("view", DRAWN.values(), ids=DRAWN)
def test_an_odd_view_is_drawn_and_nothing_covers_anything(view: str, cart: Viewed) -> None:
    found = cart(view)
    check_view(found.closed_loop)
    check_picture(found)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("'abc'", "is 'abc', not made of numbers"),
        ("[[0, 1], [2]]", "is '[[0, 1], [2]]', not made of numbers"),
        ("np.zeros((2, 5))", "has the shape (2, 5)"),
    ],
)
def test_a_wanted_path_that_is_no_line_is_refused_at_the_start(line: str, problem: str, cart: Viewed) -> None:
    with pytest.raises(ModelError) as error:
        check_view(cart(f"View(outline=outline, paths=lambda w: {{'line': {line}}})").closed_loop)
    assert str(error.value) == f"cart.py: a view's path 'line' {problem}; give points (n, 2)"


def test_an_outline_that_fails_later_names_file_and_shape(cart: Viewed) -> None:
    found = cart("View(outline=lambda s, p: outline(s, p) if s['x_dot'] == 0 else [np.zeros(3)], trails=TRAIL)")
    with pytest.raises(ModelError, match=r"cart.py: line 0 of a view has the shape \(3,\)"):
        report_figure(found, "cart")


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
    "1.7e308": lambda values: np.clip(values, -1, 1) * 1.7e308,
    "1e6": lambda values: values * 1e6,
    "far away": lambda values: 1e6 + 1e-7 * values,
    "nan": lambda values: values * np.nan,
}
SLOW = dict.fromkeys(("constant", "1e-300", "1e6"), pytest.mark.slow)


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("change", [pytest.param(VALUES[name], marks=SLOW.get(name, ()), id=name) for name in VALUES])
def test_odd_values_are_drawn(change: Any, cart: Viewed) -> None:
    check_picture(altered(cart(PLANES), change))


@pytest.mark.parametrize(("duration", "rows"), [(1e-3, None), (1.0, 1), (1.0, 2), (1e5, None)])
def test_odd_times_are_drawn_on_the_page(duration: float, rows: int | None, cart: Viewed) -> None:
    figure = check_picture(altered(cart(PLANES), lambda values: values, 2 * duration, rows))
    renderer = figure.canvas.get_renderer()
    for axis in figure.axes:
        for tick in axis.xaxis.get_major_ticks():
            low, high = axis.get_xlim()
            if tick.label1.get_visible() and low <= tick.get_loc() <= high:
                assert tick.label1.get_window_extent(renderer).x1 <= figure.bbox.x1


def test_times_beside_a_path_stand_inside_the_plane(cart: Viewed) -> None:
    figure = check_picture(cart("View(outline=lambda s, p: [], trails=TRAIL)"))
    renderer, axis = figure.canvas.get_renderer(), figure.axes[0]
    times = [each for each in axis.findobj(Text) if each.get_text().endswith(" s")]
    assert len(times) >= 4
    for each in times:
        box = Text.get_window_extent(each, renderer)
        assert axis.bbox.x0 - 1 <= box.x0
        assert box.x1 <= axis.bbox.x1 + 1


def test_residuals_beyond_the_colours_have_panels_of_their_own() -> None:
    closed_loop = servonode.load("trailer_pursuit").closed_loop
    names = [f"r_{n}" for n in range(2 * len(PALETTE) + 1)]
    residuals = [Quantity(name, "", "m") for name in names]
    specs = [each for each in panel_specs(closed_loop, residuals) if each.logarithmic]
    assert [name for each in specs for name in each.curves] == names
    assert max(len(each.curves) for each in specs) == len(PALETTE)


def test_a_panel_of_more_curves_than_colours_has_dashes() -> None:
    columns = {f"q_{n}": np.linspace(0.0, n + 1.0, 5) for n in range(3 * len(PALETTE))}
    curves = Panel(PanelSpec("", {name: name for name in columns}), columns, dict.fromkeys(columns, 0.0)).curves()
    assert len({(each.color, str(each.dashes)) for each in curves}) == len(columns)


def test_dollars_are_written_where_they_are_no_formula_and_long_names_end_with_dots() -> None:
    assert readable("for 5 $") == r"for 5 \$"
    assert readable(r"$\foo$") == r"\$\foo\$"
    assert readable(r"angle $\varphi$") == r"angle $\varphi$"
    assert text_width(shortened("a name that is too long", 0.5)) <= 0.5
    assert shortened("short", 2.0) == "short"
