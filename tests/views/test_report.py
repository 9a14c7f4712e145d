"""The report picture: what is drawn of the views of a machine, and which views are refused before a run."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.quiver import Quiver, QuiverKey

import servonode
from servonode.errors import ModelError
from servonode.mechanics.machine import Machine
from servonode.plants import packaged_machine
from servonode.plants.view import leaning_by, shown_larger, signed
from servonode.views import planes
from servonode.views.report import report_figure
from servonode.views.shapes import wanted_paths
from servonode.views.view_checks import check_view
from tests.helpers.drawn_cart import CART, Viewed, viewed_cart
from tests.helpers.outlines import drawing
from tests.helpers.report_pages import reported

assert_allclose: Any = np.testing.assert_allclose  # its stub refuses nested lists of numbers of two kinds
STRIP = "View(side, strip=True, title='from the side', arrows=forces, caption=lambda v, p: f'{v[\"pull\"]:.1f} N')"
OLD = "View(outline=outline, trails={'cart': ('x', 'level')}, axes=('x [m]', ''))"


@pytest.fixture(scope="module")
def cart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewed]:
    """The run of the cart with a VIEW."""
    with viewed_cart(tmp_path_factory.mktemp("cart")) as found:
        yield found


def texts(axis: Any) -> list[str]:
    """Title, legend and scale of an axis."""
    legend = axis.get_legend()
    scales = [each.text.get_text() for each in axis.artists + axis.get_children() if isinstance(each, QuiverKey)]
    entries = [each.get_text() for each in legend.get_texts()] if legend else []
    return [axis.get_title(loc="left"), *entries, *dict.fromkeys(scales)]


def arrows(axis: Any) -> Any:
    return [each for each in axis.collections if isinstance(each, Quiver)]


def below(axis: Any) -> list[str]:
    return [each.get_text() for each in axis.get_xticklabels()]


# which views there are, and where they stand


def test_a_machine_without_a_view_has_its_panels_only(cart: Viewed) -> None:
    figure = report_figure(cart("None"), "cart")
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert titles == ["place $x$ [m]", r"rate of the place $\dot{x}$ [m/s]"]
    (note,) = (each.get_text() for each in figure.texts[1:])
    assert note == "cart: simulated. Zero throughout: force $F$ [N]."


def test_warnings_of_the_run_stand_below_the_title() -> None:
    run, figure = reported("snowboarder_curve")
    said = [text.get_text() for text in figure.texts]
    assert said[1] == f"Warning: {run.warnings[0]}"
    assert said[1].startswith("Warning: tipping: ")


def test_residuals_end_at_a_fault_whose_instant_is_shown() -> None:
    run, figure = reported("sphero_runs_over")
    assert run.fault is not None
    axis = next(each for each in figure.axes if "residual" in each.get_title(loc="left"))
    line = axis.lines[0]
    drawn = line.get_xdata()[np.isfinite(line.get_ydata())]
    assert drawn.max() <= run.fault["t"] + 0.02 < axis.get_xlim()[1]
    strip = next(axis for axis in figure.axes if axis.get_title(loc="left").startswith("from its right"))
    assert f"2: {run.fault['t']:.2f} s lean +79.1° fault" in [" ".join(each.split()) for each in below(strip)]
    assert len(below(strip)) in (7, 8)


def test_single_view_stands_beside_the_panels_with_path_and_outlines(cart: Viewed) -> None:
    run = cart(OLD.replace("outline=outline", "outline=lambda s, p: [[[0.0, 0.0], [0.0, 0.3]], [[s['x'], 0.0]]]"))
    figure = report_figure(run, "cart")
    path, *drawn = figure.axes[0].lines
    assert len(figure.axes) == 1 + 2
    assert_allclose(path.get_xdata(), run.state["x"])
    assert len(drawn) == 2 * 9
    dots = [line for line in drawn if line.get_marker() == "o"]
    assert_allclose(
        [line.get_xdata()[0] for line in dots], run.state["x"][np.linspace(0, len(run.t) - 1, 9).astype(int)]
    )
    assert texts(figure.axes[0]) == ["", "cart"]
    plane, *panels = (axis.get_position() for axis in figure.axes)
    assert all(plane.x1 < panel.x0 for panel in panels), (plane, panels)


def test_views_are_drawn_in_order_and_a_strip_adds_height(cart: Viewed) -> None:
    alone = report_figure(cart(OLD), "cart")
    path, *panels = (axis.get_position() for axis in alone.axes)
    assert all(panel.y1 < path.y0 for panel in panels)  # one that is much wider than high stands above them
    assert path.width > 0.85
    figure = report_figure(cart(f"({OLD}, {STRIP})"), "cart")
    assert [axis.get_title(loc="left") for axis in figure.axes[:2]] == ["", "from the side"]
    assert len(figure.axes) == 2 + 2
    assert figure.get_figheight() > alone.get_figheight()
    groups = ", ".join(each.get_text() for each in figure.axes[0].texts).split(", ")  # "4", or "1–3" that are close
    ends = [(int(first), int(last or first)) for first, _, last in (each.partition("–") for each in groups)]
    numbers = sorted(i for first, last in ends for i in range(first, last + 1))
    assert numbers == [int(each.partition(":")[0]) for each in below(figure.axes[1])]  # as in the strip below


def test_a_list_of_views_serves_as_a_tuple_does(cart: Viewed) -> None:
    for view, count in ((f"[{OLD}, {STRIP}]", 2), (OLD, 1), ("()", 0)):
        assert len(cart(view).closed_loop.views) == count


# strips and arrows


def test_strip_has_instants_side_by_side_with_captions_and_arrows_of_one_stated_scale(cart: Viewed) -> None:
    run = cart(STRIP)
    figure = report_figure(run, "cart")
    axis = figure.axes[0]
    x = [line.get_xdata()[1] - 0.1 for line in axis.lines if len(line.get_xdata()) == 3]
    assert len(x) == 7
    assert_allclose(np.diff(x), x[1] - x[0])
    assert x[1] - x[0] > 0.2  # so that they do not touch
    assert_allclose(axis.get_xticks(), x, atol=1e-12)
    assert below(axis)[0] == "1:  0.00 s\n-2.0 N"
    assert below(axis)[6] == f"7:  0.50 s\n{-4 * run.state['x'][-1]:.1f} N"
    figure.draw_without_rendering()
    (x0, y0), (x1, y1) = axis.transData.transform([(0.0, 0.0), (1.0, 1.0)])
    assert_allclose(x1 - x0, y1 - y0, rtol=1e-6)

    (pull,) = arrows(axis)
    assert_allclose(pull.U, -4 * run.state["x"][np.linspace(0, len(run.t) - 1, 7).astype(int)])
    assert_allclose(pull.V, 0.0)
    assert texts(axis) == ["from the side", "pull", "1 N"]  # round, at most 0.7 of the 2 N of the start
    (key,) = {each for each in axis.get_children() if isinstance(each, QuiverKey)}
    assert key.U == 1.0


def test_arrows_of_rounding_errors_are_not_drawn(cart: Viewed) -> None:
    noise = STRIP.replace("arrows=forces", "arrows=lambda v, p: {'pull': ([0, 0], [0.0, 1e-15 * v['pull']])}")
    axis = report_figure(cart(noise), "cart").axes[0]
    assert arrows(axis) == []
    assert texts(axis) == ["from the side"]


def test_strips_of_one_unit_share_what_is_longest(cart: Viewed) -> None:
    half = STRIP.replace("arrows=forces", "arrows=lambda v, p: {'half': ([0, 0.1], [0.5 * v['pull'], 0.0])}")
    figure = report_figure(cart(f"({STRIP}, {half})"), "cart")
    whole, less = (arrows(axis)[0] for axis in figure.axes[:2])
    assert_allclose(less.U, 0.5 * whole.U)
    assert_allclose(less.scale, whole.scale)
    assert [texts(axis)[-1] for axis in figure.axes[:2]] == ["1 N", "1 N"]


@pytest.mark.slow
def test_a_motion_that_escapes_is_drawn(tmp_path: Path) -> None:
    away: Any = {"controller__settings__Q_x": "1e3*exp(9*t)", "plant__safety__faults": False, "run__duration": 2.0}
    run = servonode.simulate("sphero_rolls", **away)
    assert not np.isfinite(run.outputs["N_z"]).all()
    report_figure(run, "sphero_rolls").savefig(tmp_path / "a.png")


def test_a_view_is_asked_once_for_the_paths_that_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(planes, "wanted_paths", lambda *given: asked.append(given) or wanted_paths(*given))
    axis = report_figure(servonode.simulate("trailer_line", run__duration=4.0), "trailer_line").axes[0]
    assert "wanted line" in texts(axis)
    assert len(asked) == 1


def test_planes_beside_each_other_leave_room_for_their_words() -> None:
    figure = report_figure(servonode.simulate("sphero_trajectory", run__duration=12.0), "sphero_trajectory")
    path, direction = figure.axes[:2]
    assert path.get_position().y0 == pytest.approx(direction.get_position().y0, rel=1e-12)
    assert direction.get_position().width * figure.get_figwidth() >= 2.0 - 1e-9
    assert direction.get_title(loc="left") == "direction n from above"


def test_a_panel_that_ends_earlier_has_times_of_its_own() -> None:
    _, figure = reported("ball_off_constraint")
    (slip,) = (axis for axis in figure.axes if axis.get_title(loc="left").startswith("residual"))
    assert slip.get_title(loc="left") == f"residuals, magnitude, first {slip.get_xlim()[1]:g} s [m/s]"
    assert slip.get_xlim()[1] < 11
    assert slip.get_xlabel() == "time $t$ [s]"


# words of the views


def test_a_lean_is_worded_alike_by_all_machines() -> None:
    assert leaning_by("lean", -0.1) == "lean \u22125.7°"
    assert leaning_by("pitch", -1e-5) == "pitch +0.0°"
    assert signed(-0.004, 2) == "+0.00"
    assert signed(1.5, 2) == "+1.50"
    assert shown_larger("from behind", "lean", 2.0) == "from behind, lean shown x2"
    assert shown_larger("from behind", "lean", 1.0) == "from behind"


# the machines of servonode


def shown(machine: Machine, **values: float) -> Any:
    """Of each view its outline, its arrows, its caption."""
    views, given = drawing(machine, **values)
    return [
        tuple(draw(given, {}) if draw else None for draw in (view.outline, view.arrows, view.caption)) for view in views
    ]


def test_shell_views_show_true_angles() -> None:
    sphero, tilt = packaged_machine("pendulum_sphero").load({}), np.radians(30)
    rolling = {"omega_0": -2.0, "n_2": -np.cos(tilt), "q_0": 1.0, "Q_y": -0.2}  # towards y
    forward, right = (shown(sphero, **rolling, **{name: np.sin(tilt)}) for name in ("n_1", "n_0"))
    for number, leaning, upright, name in ((2, forward, right, "N_y"), (3, right, forward, "N_x")):
        circle, body, centre = leaning[number][0]
        assert_allclose(body, [[0, 0.15], [0.15 * 0.5, 0.15 - 0.15 * np.cos(tilt)]])
        assert_allclose(centre, [[0.04 * 0.5, 0.15 - 0.04 * np.cos(tilt)]])
        assert_allclose(np.ptp(circle, axis=0), [0.3, 0.3])
        assert (leaning[number][2], upright[number][2]) == ("lean +30.0°", "lean +0.0°")
        force = drawing(sphero, **rolling, **{"n_1" if number == 2 else "n_0": np.sin(tilt)})[1][name]
        assert_allclose(leaning[number][1]["friction of the floor"], [[0, 0], [force, 0]], atol=1e-15)
    (push,) = right[1][1].values()  # Q_y < 0 drives towards +x
    assert_allclose(push, [[0.5, 0.0], [0.2 * np.cos(tilt), 0.0]], atol=1e-15)


def test_shell_at_rest_is_seen_along_lean_push_or_x() -> None:
    sphero = packaged_machine("pendulum_sphero").load({})
    pushed = {"n_2": -1.0, "q_0": 1.0, "Q_x": -0.3, "Q_y": 0.4}
    given = drawing(sphero, **pushed)[1]
    size = np.hypot(given["N_x"], given["N_y"])
    assert size > 0.1
    assert_allclose(shown(sphero, **pushed)[2][1]["friction of the floor"], [[0, 0], [size, 0]], atol=1e-15)
    leaning = shown(sphero, n_1=-0.6, n_2=-0.8, q_0=1.0)[2][0]
    assert_allclose(leaning[1][1], [0.09, 0.03], atol=1e-15)
    assert_allclose(shown(sphero, n_2=-1.0, q_0=1.0)[2][0][1], [[0, 0.15], [0, 0]], atol=1e-15)


def test_snowboarder_views_show_lean_and_pitch_with_their_signs() -> None:
    rider = packaged_machine("snowboarder").load({"c1": 2.0, "c2": 1.0})
    values = {"x0": 3.0, "y0": 4.0, "phi0": np.pi / 2, "theta": 0.2, "sigma": 0.3, "v": -3.0, "omega": 0.4}
    values |= {"F_t": 10.0, "M_sigma": 20.0}
    (above, behind, side), at = shown(rider, **values), drawing(rider, **values)[1]
    height = 1.8 * np.cos(0.3) * np.cos(0.2)
    for view, across, half in ((behind, -1.8 * np.sin(0.3), 0.13), (side, 1.8 * np.cos(0.3) * np.sin(0.2), 0.8)):
        board, body, centre = view[0]
        assert_allclose(board, [[-half, 0], [half, 0]])
        assert_allclose(body, [[0, 0], [across, height]])
        assert_allclose(centre, [[across / 2, height / 2]])
    drag = -2.0 * -3.0 + 9.0  # against the motion, which is backwards
    for view, foot, force in ((behind, -at["c_b"], -at["R"]), (side, at["c_t"], 10.0 + drag)):
        (arrow,) = view[1].values()
        assert_allclose(arrow, [[foot, 0], [force, at["N"]]], atol=1e-12)
    lateral, thrust = above[1].values()
    assert abs(at["R"]) > 1.0
    assert_allclose(lateral, [[3, 4], [-at["R"], 0]], atol=1e-12)
    assert_allclose(thrust, [[3, 4], [0, 10 + drag]], atol=1e-12)
    assert behind[2] == "lean +17.2°"
    assert shown(rider, theta=-1e-5)[2][2] == "pitch +0.0°"


# what is refused

REFUSED = {
    "3": "VIEW is not a View; write it as VIEW = View(...)",
    f"({OLD}, 3)": "VIEW[1] is not a View; write it as VIEW = (View(...), View(...))",
    f"({OLD}, View(side, trails={{'cart': ('x', 'up')}}))": (
        "VIEW[1] has a trail of 'up'; choose from x, x_dot, pull, level"
    ),
    f"({OLD}, View(lambda v, p: [[1.0]]))": (
        "VIEW[1]'s outline gave an array of shape (1,) as line 0; give points (n, 2)"
    ),
    "View(side, guides=lambda v, p: [[[1.0]]])": (
        "VIEW's guides gave an array of shape (1, 1) as line 0; give points (n, 2)"
    ),
    "View(side, arrows=lambda v, p: {'pull': ([0, 0], 3.0)})": (
        "VIEW's arrow 'pull' is not a foot and a vector; give two arrays of shape (2,)"
    ),
    "View(side, caption=lambda v, p: v['pull'])": "VIEW's caption gave -2.0; give a text",
    f"(View(side, goal='x'), {OLD})": "VIEW[0] has the goal 'x'; name two targets, or leave it out",
    "View(side, title=5)": "VIEW has the title 5; give a text",
    "View(side, axes='xy')": "VIEW has the axes 'xy'; give two labels",
    "View(side, trails={'t': ('x',)})": "VIEW has the trail 't' of ('x',); name two values",
}


@pytest.mark.parametrize("view", REFUSED)
def test_a_view_that_cannot_be_drawn_is_refused_by_its_number(cart: Viewed, view: str) -> None:
    with pytest.raises(ModelError) as error:
        check_view(cart(view).closed_loop)
    assert str(error.value) == f"cart.py: {REFUSED[view]}"


@pytest.mark.parametrize("part", ["outline", "guides", "arrows", "caption", "lean"])
def test_a_function_of_a_view_that_fails_is_named_by_its_line(cart: Viewed, part: str) -> None:
    given = {"outline": "side", part: "broken"}
    view = f"View({', '.join(f'{name}={function}' for name, function in given.items())})"
    line = 1 + CART[: CART.index('values["q"]')].count("\n")
    with pytest.raises(ModelError, match=rf"^cart\.py line {line}: KeyError: 'q'; correct this line$"):
        check_view(cart(f"({OLD}, {view})").closed_loop)


def test_inputs_and_outputs_reach_every_function_of_a_view(cart: Viewed) -> None:
    wanted = "lambda v, p: [[[v['x'], v['x_dot']], [v['F'], v['pull']], [v['level'], p['k']]]]"
    check_view(cart(f"View({wanted}, guides={wanted}, caption=lambda v, p: str(v['F']))").closed_loop)
