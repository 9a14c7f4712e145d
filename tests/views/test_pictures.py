"""What every report picture keeps: text that can be read, axes that show something, nothing that covers anything."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from matplotlib.figure import Figure

import servonode
from servonode.mechanics import coordinate
from servonode.mechanics.description import Quantity
from servonode.views import limits
from servonode.views.curves import BRIEF, Curve, Curves, peaks_of, turns
from servonode.views.palette import ARROWS, GOAL, INK, PALETTE
from servonode.views.panel_specs import PanelSpec
from servonode.views.panels import Panel, zero_note
from servonode.views.planes import WIDER, Map, listed
from servonode.views.report import report_figure, write_report
from servonode.views.scene import Scene
from servonode.views.shapes import round_size
from servonode.views.symbols import mathtext, plain, titles, unit_text
from servonode.views.titles import text_width, wrapped

SHORT = 1.0  # s of a packaged run that nothing else looks at

NUMBERS = st.floats(-1e9, 1e9, allow_nan=False).filter(lambda x: x == 0 or abs(x) > 1e-9)

COLUMNS = arrays(float, st.integers(2, 30), elements=NUMBERS)

# limits


@given(COLUMNS)
def test_limits_are_round_with_room_and_ticks_are_written_as_they_are(values: Any) -> None:
    found = limits.round_limits([values])
    extent = found.high - found.low
    step = found.ticks[1] - found.ticks[0]
    for end in (found.low, found.high):
        assert abs(end / (step / 4) - round(end / (step / 4))) < 1e-6
    assert found.low <= values.min() - 0.02 * np.ptp(values)
    assert found.high >= values.max() + 0.02 * np.ptp(values)
    assert 2 <= len(found.ticks) <= 10
    assert all(found.low - 1e-9 * extent <= tick <= found.high + 1e-9 * extent for tick in found.ticks)
    texts = found.texts()
    assert len(set(texts)) == len(texts)
    shown = np.array([float(text.replace("\u2212", "-")) for text in texts]) * 10.0**found.power
    np.testing.assert_allclose(shown, found.ticks, rtol=1e-6, atol=1e-9 * extent)


@given(arrays(float, 40, elements=st.floats(-14, 3).map(lambda x: 10.0**x)), st.sampled_from([0.0, 1e-12, 1e-9]))
def test_log_limits_have_whole_decades_without_rounding(sizes: Any, floor: float) -> None:
    found = limits.log_limits([sizes], floor)
    for end in (found.low, found.high):
        assert abs(np.log10(end) - round(np.log10(end))) < 1e-9
    assert found.low < sizes.max() < found.high
    if sizes.max() > 100 * max(floor, 1e-13):
        assert found.low >= min(max(floor, sizes.max() * 1e-9), sizes.max() / 2) / 10 * 0.999
    assert 2 <= len(found.ticks) <= 5


def test_log_limits_show_every_curve_above_rounding() -> None:
    found = limits.log_limits([np.array([1.0, 10.0]), np.array([1e-8, 1e-8])], 1e-12)
    assert found.low < 1e-8


def test_log_limits_end_six_decades_below_what_is_largest() -> None:
    found = limits.log_limits([np.logspace(0, -11, 100)], 1e-12)
    assert (found.low, found.high) == pytest.approx((1e-6, 10.0))


def test_axis_of_constants_has_zero_and_that_of_others_does_not() -> None:
    constant, moving = np.array([-0.4, -0.401, -0.4]), np.array([-0.4, -0.43, -0.4])
    assert limits.round_limits([constant]).high > 0
    assert limits.round_limits([constant, constant + 1.0]).low < -0.4
    assert limits.round_limits([constant, moving]).high < -0.38


@given(st.floats(1e-2, 1e5))
def test_the_axis_of_time_ends_at_the_end_or_just_after_it(end: float) -> None:
    start, last = limits.time_limits(np.array([0.0, end]))
    assert start == 0.0
    assert end * (1 - 1e-9) <= last <= 1.06 * end


# what is zero


def panel(columns: dict[str, Any], logarithmic: bool = False, floor: float = 1e-12) -> Panel:
    spec = PanelSpec("|residual|", {name: name for name in columns}, logarithmic, "force", "force")
    return Panel(spec, {name: np.array(values) for name, values in columns.items()}, dict.fromkeys(columns, floor))


def test_zero_panel_is_not_drawn_and_a_note_says_so() -> None:
    nothing, noise, seen = panel({"F": [0.0, 0.0]}), panel({"F": [1e-15, -1e-16]}), panel({"F": [0.0, 1e-3]})
    assert [bool(each.seen) for each in (nothing, noise, seen)] == [False, False, True]
    assert zero_note([nothing]) == "Zero throughout: force."
    assert zero_note([noise]) == "Nearly zero (below $10^{-9}$ of the largest of its unit): force."
    assert zero_note([seen]) == ""


def test_zero_residual_is_named_and_the_others_keep_their_colours() -> None:
    mixed = panel({"a": [1e-15, 2e-16], "b": [1e-3, 1e-4]}, logarithmic=True)
    (curve,) = mixed.curves()
    assert (curve.name, curve.color) == ("$b$", PALETTE[1])
    assert "residual $a$" in zero_note([mixed])


def test_the_floor_follows_the_scale_of_the_unit() -> None:
    assert limits.floor_of("N", 1e6) == pytest.approx(1e-3)
    assert limits.floor_of("N", 0.0) == pytest.approx(1e-12)
    assert limits.floor_of("rad", 1e-9) == pytest.approx(1e-9)


# words


@pytest.mark.parametrize(
    ("name", "math", "text"),
    [
        ("phi", r"$\varphi$", "φ"),
        ("theta1_dot", r"$\dot{\theta}_{1}$", "θ̇₁"),
        ("M_phi0", r"$M_{\varphi_{0}}$", "M_φ₀"),
        ("v_x", "$v_{x}$", "v_x"),
        ("Omega", r"$\Omega$", "Ω"),
        ("friction_needed", "friction needed", "friction needed"),
        ("a_very_long_name_of_it", "a very long name of it", "a very long name of it"),
    ],
)
def test_names_are_written_as_symbols(name: str, math: str, text: str) -> None:
    assert (mathtext(name), plain(name)) == (math, text)


def quantity(name: str, description: str, unit: str) -> Quantity:
    return Quantity(name, description, unit)


def test_a_title_is_in_words_with_symbol_and_unit() -> None:
    phi = quantity("phi", "hitch angle, trailer relative to robot, unwrapped", "rad")
    assert titles([phi]) == (r"hitch angle $\varphi$ [rad]", "hitch angle φ [rad]")
    wheels = [quantity(f"U{i}", f"torque of the {side} wheel", "N m") for i, side in ((1, "left"), (2, "right"))]
    assert titles(wheels)[1] == "torque of the left and\u00a0right wheel [N\u202fm]"
    body = [quantity("phi0", "heading of the blade", "rad"), quantity("sigma", "lean of the body to the left", "rad")]
    assert titles(body)[1] == "heading and\u00a0lean [rad]"
    assert unit_text("kg m^2/s") == " [kg\u202fm²/s]"
    assert unit_text("N m, m^2") == " [N\u202fm,\u00a0m²]"  # a narrow space only between factors
    assert unit_text("1") == ""


def test_rates_are_titled_by_what_their_coordinates_are() -> None:
    def rate(name: str, description: str) -> Quantity:
        return coordinate(name, description, "rad").own_velocity().quantity

    hitch = rate("phi", "hitch angle, trailer relative to robot, unwrapped")
    assert titles([hitch])[1] == "rate of the hitch angle φ̇ [rad/s]"
    assert rate("q", "the turn of the crank").description == "rate of the turn of the crank"
    assert rate("q", "").description == "rate of q"
    arm = [rate("q", "angle of the motor"), rate("p", "angle of the arm, 0 hangs down")]
    assert titles(arm)[1] == "angular velocity of the motor and\u00a0arm [rad/s]"
    mixed = [rate("x", "lean of the body"), quantity("w", "yaw rate of the robot", "rad/s")]
    assert titles(mixed)[1] == "rate of the lean and\u00a0yaw rate [rad/s]"


@given(st.text("abc ", min_size=1, max_size=120).map(str.split).filter(bool).map(" ".join), st.floats(0.5, 4.0))
def test_lines_are_as_wide_as_their_room_and_keep_every_letter(text: str, width: float) -> None:
    lines = wrapped(text, width)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(text_width(line) <= width for line in lines)
    if all(text_width(word) <= width for word in text.split()):
        assert " ".join(lines) == text


# colours


def lab(color: str, sight: Any) -> Any:
    """CIE L*a*b* of a colour as it is seen; `sight` acts on linear RGB."""
    srgb = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.clip(np.array(sight) @ np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4), 0, 1)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    white = np.array([0.9505, 1.0, 1.089])
    ratio = to_xyz @ linear / white
    f = np.where(ratio > 0.008856, np.cbrt(ratio), 7.787 * ratio + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


SIGHTS = {  # Machado, Oliveira, Fernandes 2009, severity 1
    "usual": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


@pytest.mark.parametrize("sight", SIGHTS)
def test_what_stands_in_one_plane_differs_for_every_reader(sight: str) -> None:
    for one, other in combinations([*PALETTE[:2], GOAL, ARROWS[0], INK], 2):
        assert np.linalg.norm(lab(one, SIGHTS[sight]) - lab(other, SIGHTS[sight])) > 15, (one, other)
    for one, other in combinations(PALETTE[:3], 2):  # in grey print too
        assert abs(lab(one, np.eye(3))[0] - lab(other, np.eye(3))[0]) > 15


# curves that would fill their axis


def axis_of_panel() -> Any:
    return Figure(figsize=(4, 3)).add_subplot()


def test_turns_are_counted_that_are_deep_enough() -> None:
    t = np.linspace(0, 10, 20_001)
    assert turns(t, np.sin(2 * np.pi * t), 0.9) == 20
    assert turns(t, np.sin(2 * np.pi * t) + 0.1 * np.sin(200 * np.pi * t), 0.9) == 20
    assert turns(t, t, 1.0) == 0
    assert turns(t, np.full(len(t), np.nan), 1.0) == 0


def test_band_is_drawn_by_mean_lowest_and_highest() -> None:
    rng, t = np.random.default_rng(1), np.linspace(0, 10, 10_001)
    values = np.sin(t) + 0.1 * rng.standard_normal(len(t))
    axis, drawn = axis_of_panel(), Curves.of(t, [Curve("F", values, INK)], False)
    drawn.draw(axis)
    assert drawn.bands == (True,)
    (area,), (line,) = axis.collections, axis.lines
    assert len(line.get_xdata()) < 300
    np.testing.assert_allclose(line.get_ydata(), np.sin(line.get_xdata()), atol=0.1)
    ends = area.get_paths()[0].get_extents()
    assert (ends.y0, ends.y1) == (values.min(), values.max())
    assert (line.get_xdata()[0], line.get_xdata()[-1]) == (0.0, 10.0)
    smooth = axis_of_panel()
    Curves.of(t, [Curve("F", np.sin(t), INK)], False).draw(smooth)
    assert len(smooth.collections) == 0
    np.testing.assert_array_equal(smooth.lines[0].get_ydata(), np.sin(t))


def test_notched_sizes_are_drawn_by_their_peaks() -> None:
    t = np.linspace(0, 10, 10_001)
    notched, smooth = 1e-3 * np.abs(np.sin(2 * np.pi * t)), np.exp(-t)
    for sizes, title in ((notched, "residual x, peak magnitude [m]"), (smooth, "residual x, magnitude [m]")):
        drawn, axis = Curves.of(t, [Curve("x", sizes, INK)], True), axis_of_panel()
        assert drawn.entitled("residual x, magnitude [m]") == title
        drawn.draw(axis)
        at, shown = axis.lines[0].get_data()
        if drawn.peaks:
            assert shown[(at > 0.3) & (at < 9.7)].min() > 0.9e-3
            assert shown.max() == sizes.max()
        else:
            np.testing.assert_array_equal(shown, sizes)


def test_peaks_leave_no_narrow_notch_and_move_nothing_else() -> None:
    t = np.linspace(0, 10, 8_001)
    slow = np.exp(-t) + 1e-4 * (1 + np.cos(t))
    notched = np.where(np.abs(t % 1.0 - 0.5) < 0.05, 1e-9, slow)
    at, peaks = peaks_of(t, notched, 1e-8)
    np.testing.assert_allclose(peaks, np.interp(at, t, slow), rtol=0.12)  # as much as it changes over a notch
    at, smooth = peaks_of(t, slow, 1e-8)
    np.testing.assert_allclose(smooth, np.interp(at, t, slow), rtol=0.02)
    wide = np.where(np.abs(t - 5.0) < 1.0, 1e-6, 1e-2)  # a valley, not a notch
    at, found = peaks_of(t, wide, 1e-8)
    assert found[np.abs(at - 5.0) < 0.9].max() == 1e-6


def test_time_axis_ends_where_sizes_are_too_small() -> None:
    t = np.linspace(0, 22, 2201)
    drawn, axis = Curves.of(t, [Curve("slip x", 0.6 * np.exp(-5 * t), INK)], True), axis_of_panel()
    drawn.draw(axis)
    assert drawn.brief
    assert axis.get_xlim()[1] < BRIEF * 22
    assert drawn.entitled("residual, magnitude [m/s]") == f"residual, magnitude, first {axis.get_xlim()[1]:g} s [m/s]"
    assert 0.6 * np.exp(-5 * axis.get_xlim()[1]) < axis.get_ylim()[0] * 10
    assert not Curves.of(t, [Curve("slip x", 0.6 * np.exp(-5 * t), INK)], True, whole=True).brief
    assert not Curves.of(t, [Curve("slip x", 0.6 * np.exp(-1 * t), INK)], True).brief


def test_limits_leave_out_a_curve_that_a_final_fault_blows_up() -> None:
    t = np.linspace(0.0, 1.0, 1001)
    friction = 0.4 + 0.3 * np.sin(5 * t) + np.where(t > 0.99, 3e3 * (t - 0.99), 0.0)
    drawn = Curves.of(t, [Curve("mu", friction, INK)], False, whole=True, fault=1.0)
    assert drawn.between.high < 1.0
    assert Curves.of(t, [Curve("mu", friction, INK)], False).between.high > 30  # no fault
    assert Curves.of(t, [Curve("mu", friction, INK)], False, whole=True, fault=0.5).between.high > 30  # the run goes on
    steady = friction.clip(max=1.5)  # seen as it is, where the axis would hardly be finer without its end
    assert Curves.of(t, [Curve("mu", steady, INK)], False, whole=True, fault=1.0).between.high > 1.5


def test_expected_values_are_drawn_within_the_axis() -> None:
    t = np.linspace(0, 10, 1001)
    axis, expected = axis_of_panel(), 0.01 + np.exp(-t)
    Curves.of(t, [Curve("x", 0.01 + 0 * t, INK, expected=expected)], True).draw(axis)
    beside, curve = axis.lines
    np.testing.assert_array_equal(beside.get_ydata(), expected)
    assert curve.get_label() == "x"
    assert axis.get_ylim()[0] < 0.01 < 1.01 < axis.get_ylim()[1]


# whole pictures


def test_a_round_size_is_at_most_the_size() -> None:
    for size in (0.1, 0.09999999999999999, 1.0, 7.3, 2e-9):
        assert round_size(size) <= size * (1 + 1e-9)


@pytest.mark.parametrize("y0", [12.0, 250.0])
def test_a_plane_grows_to_a_wanted_path_beside_it_unless_it_is_too_far_away(y0: float) -> None:
    run = servonode.simulate("snowboarder_turns_back", plant__initial={"y0": y0, "v": 3.0})
    axis = report_figure(run, "beside").axes[0]
    wanted = [line for line in axis.lines if line.get_label() == "wanted slalom"]
    low, high = axis.get_ylim()
    if y0 < 30.0:
        assert low < wanted[0].get_ydata().max() < 2.0
        assert high < 30.0
    else:
        assert axis.get_title(loc="left").replace("\n", " ") == "from above, wanted slalom beyond the picture"
        assert not wanted
        assert low > 200.0


def test_arrows_do_not_make_a_plane_much_larger() -> None:
    run = servonode.simulate("snowboarder_carve")
    loop, scene = run.closed_loop, Scene.of(run)
    view = loop.views[0]
    assert Map.of(scene, view, True).arrows.names
    with_arrows, without = (Map.of(scene, each, True) for each in (view, replace(view, arrows=None)))
    assert (with_arrows.high - with_arrows.low <= WIDER * (without.high - without.low)).all()
    assert np.ptp(far_lines := np.array(with_arrows.arrows.tips)[..., 1]) > 2.0, far_lines  # seen, all the same


def written(text: str) -> list[int]:
    """The numbers that "1, 3–5" stands for."""
    ends = [[int(each) for each in part.split("–")] for part in text.split(", ")]
    return [number for each in ends for number in range(each[0], each[-1] + 1)]


def test_consecutive_numbers_are_written_as_a_range() -> None:
    names = [str(n) for n in range(1, 9)]
    assert listed([0], names) == "1"
    assert listed([0, 1], names) == "1, 2"
    assert listed([0, 2, 4, 5, 6], names) == "1, 3, 5–7"
    assert written("1, 3, 5–7") == [1, 3, 5, 6, 7]


@pytest.mark.slow
def test_spring_twist_is_drawn_larger_and_titled() -> None:
    run = servonode.simulate(Path(__file__).parents[2] / "examples" / "elastic_arm" / "arm.toml")
    strip = report_figure(run, "arm").axes[0]
    assert strip.get_title(loc="left").replace("\n", " ").endswith("twist of the spring shown x5")
    assert strip.get_xticklabels()[-1].get_text().endswith("twist +2.8°")
    (view,) = run.closed_loop.views
    factor_1, factor_5 = (
        each.outline({"t": 0.0, "q": 0.05, "p": 0.0, "q_dot": 0.0, "p_dot": 0.0, "tau": 0.0}, {})
        for each in (view, view.magnified(5.0))
    )
    mark = factor_5[1][1]
    np.testing.assert_allclose(np.arctan2(-mark[0], mark[1]), 5 * 0.05)
    np.testing.assert_allclose(np.arctan2(-factor_1[1][1][0], factor_1[1][1][1]), 0.05)


def test_small_values_have_a_stated_power_of_ten() -> None:
    axis, t = axis_of_panel(), np.linspace(0, 1, 50)
    assert Curves.of(t, [Curve("F", 4e-6 * t, INK)], False).draw(axis) == -6
    assert [tick.get_text() for tick in axis.get_yticklabels()][:3] == ["0", "1", "2"]


@pytest.mark.slow
def test_words_stay_words_in_pdf_and_svg(tmp_path: Any) -> None:
    run = servonode.simulate("trailer_line", run__duration=SHORT, every=20)
    for ending in ("pdf", "svg"):
        write_report(run, "trailer_line", tmp_path / f"a.{ending}")
    assert b">robot</text>" in (tmp_path / "a.svg").read_bytes()
    written = (tmp_path / "a.pdf").read_bytes()
    assert b"/FontFile2" in written  # the font is in the file, as TrueType
    assert b"/Type3" not in written.replace(b" ", b"")
