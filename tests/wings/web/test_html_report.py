"""The report as HTML: a valid file that fetches nothing, with the run's own numbers, whatever the run and its names."""

import html
import json
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import servonode
from servonode.analysis.comparison import Compared, measures
from servonode.closed_loop.launch_file import launch_of_table, packaged, read_launch, table_of
from servonode.closed_loop.launch_text import launch_text
from servonode.record.run import Run
from servonode.views import limits
from servonode.views.palette import INK, SOURCES
from servonode.views.panels import columns_of, panels_of
from servonode.wings.web.access import HEADERS
from servonode.wings.web.colours import SEEN, colours_css, lighter, luminance
from servonode.wings.web.embedded import escaped, json_text, page
from servonode.wings.web.html_report import INSTANTS, PIECES, Motion, exercise_html, html_report, run_command
from servonode.wings.web.sections import Reported
from tests.helpers.drawn_cart import LAUNCH, Viewed, viewed_cart
from tests.helpers.html_files import HtmlFile, decoded
from tests.helpers.pages import browser

MACHINES = ("trailer_pursuit", "snowboarder_slalom")

LONG = ("ball_speeding_up", "hoop_source", "sphero_cascade", "trailer_pursuit")

LARGEST = 3_000_000  # bytes

EVIL = "</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">'\"&amp;<!--"

VIEW = f"View(outline, title={EVIL!r}, caption=lambda v, p: {EVIL!r}, strip=True)"


@pytest.fixture(scope="module")
def trailer() -> Run:
    return servonode.simulate("trailer_pursuit", run__duration=5)


@pytest.fixture(scope="module")
def report(trailer: Run) -> str:
    return html_report(trailer, "a")


@pytest.fixture(scope="module")
def cart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewed]:
    """A run of a machine of a user's own, whose texts are HTML."""
    with viewed_cart(tmp_path_factory.mktemp("cart"), f"# {EVIL}\n{LAUNCH}", EVIL, EVIL) as found:
        yield found


@pytest.mark.parametrize(
    ("name", "looks"),
    [("trailer_reverse", ["good"]), ("snowboarder_curve", ["warn"]), ("snowboarder_too_weak", ["bad", "warn"])],
)
def test_the_head_of_the_page_warns_as_the_run_does(name: str, looks: list[str]) -> None:
    run = servonode.simulate(name, every=5)
    page = html_report(run, name)
    head = page.partition("<main")[0]
    assert [each for each in ("bad", "warn", "good") if f'class="chip {each}"' in head] == looks
    for each in run.warnings:
        assert f'<p class="note warn">{escaped(str(each))}</p>' in head
    found = valid(page)
    marks = [{"t": each["t"], "text": f"{each['name']}: {each['text']}"} for each in run.faults]
    assert found.data["marks"] == marks
    assert all(each["text"] in found.words for each in run.faults)
    if name == "trailer_reverse":
        assert [line["name"] for line in found.data["views"][0]["wanted"]] == ["wanted line"]


def cut(run: Run, rows: int) -> Run:
    """The first rows of a run."""

    def first(columns: dict[str, Any]) -> dict[str, Any]:
        return {name: values[:rows] for name, values in columns.items()}

    alone = {name: getattr(run, name)[:rows] for name in ("t", "k", "energy", "work", "goal_t")}
    return replace(run, **alone, state=first(run.state), input=first(run.input), residual=first(run.residual))


def valid(text: str) -> HtmlFile:
    """The file, which is closed well, fetches nothing, and has the two scripts of servonode's own."""
    found = HtmlFile(text)
    assert (found.wrong, found.fetched, len(found.scripts)) == ([], [], 2)
    assert "default-src &#x27;none&#x27;" in text
    assert "script-src &#x27;sha256-" in text
    return found


@pytest.mark.parametrize("name", [*MACHINES, pytest.param("hoop_incline", marks=pytest.mark.slow)])
def test_the_data_in_the_file_are_the_columns_of_the_run(name: str) -> None:
    run = servonode.simulate(name, run__duration=1)
    data = valid(html_report(run, name)).data
    columns = columns_of(run)
    assert len(run.t) <= 3 * PIECES
    np.testing.assert_array_equal(decoded(data["t"], "f8"), run.t)
    assert data["columns"].keys() == columns.keys() == data["titles"].keys()
    assert {*run.state, *run.input, *run.outputs, *(f"residual_{each}" for each in run.residual)} <= columns.keys()
    for column, values in columns.items():
        np.testing.assert_array_equal(decoded(data["columns"][column]), values.astype(np.float32), column)
    shown = {curve["column"] for panel in data["panels"] for curve in panel["curves"]}
    assert shown <= columns.keys()
    seen = [each for each in panels_of(run, {**run.state, **run.outputs, **run.input}) if each.seen]
    assert [panel["title"] for panel in data["panels"]] == [each.words for each in seen]
    assert [panel["logarithmic"] for panel in data["panels"]] == [each.spec.logarithmic for each in seen]


def test_html_report_of_a_long_run_keeps_peaks() -> None:
    run = servonode.simulate("trailer_pursuit", run__duration=6, every=1)
    assert len(run.t) > 3 * PIECES
    text = html_report(run, "long")
    data = valid(text).data
    t = decoded(data["t"], "f8")
    assert data["kept"] == len(t) <= 2 * (PIECES + 1)
    assert f"curves of {len(t):,} of {len(run.t):,} rows, lowest and highest values kept" in text
    columns = columns_of(run)
    for column in ("V", "U1", "residual_heading"):
        pairs = decoded(data["columns"][column]).reshape(-1, 2)
        for (start, end), pair in list(zip(t.reshape(-1, 2), pairs, strict=True))[::100]:
            values = columns[column][(run.t >= start) & (run.t <= end)].astype(np.float32)
            assert {pair.min(), pair.max()} == {values.min(), values.max()}


def test_html_report_draws_the_machine_at_a_few_hundred_instants(trailer: Run, report: str) -> None:
    data = valid(report).data
    instants = decoded(data["instants"], "f8")
    assert len(instants) == len(data["views"][0]["shapes"]) == len(data["ends"]) <= INSTANTS + 1
    assert (instants[0], instants[-1]) == (0.0, 5.0)
    view = trailer.closed_loop.views[0]
    row = int(np.searchsorted(trailer.t, instants[100]))
    values = {name: float(each[row]) for name, each in {**trailer.state, **trailer.outputs, **trailer.input}.items()}
    assert view.outline is not None
    lines = view.outline({**values, "t": float(trailer.t[row])}, trailer.closed_loop.machine.parameters)
    for drawn, line in zip(data["views"][0]["shapes"][100]["lines"], lines, strict=True):
        np.testing.assert_allclose(drawn, line, atol=1e-3)
    path = decoded(data["paths"]["X"])[: data["ends"][100]]
    assert path[-1] == np.float32(trailer.state["X"][row])
    motion = Motion.of(np.sort(np.random.default_rng(1).uniform(0, 9, 5000)))
    assert set(motion.instants) <= set(motion.rows)
    assert (motion.rows[0], motion.rows[-1]) == (0, 4999)


def test_the_tables_have_the_numbers_of_the_run(trailer: Run, report: str) -> None:
    words = valid(report).words
    found = measures(Compared.of_run("a", trailer), [Compared.of_run("a", trailer)])
    for each in found.residuals.values():
        assert f"{each['largest']:.4g}" in words
        assert f"{each['rms_late']:.4g}" in words
    assert found.path is not None
    assert f"{found.path['largest']:.4g}" in words
    assert "energy check" in words


def test_what_is_not_a_number_is_kept_as_a_gap(trailer: Run) -> None:
    residual = {name: values.copy() for name, values in trailer.residual.items()}
    residual["speed"][10:20] = np.nan
    data = valid(html_report(replace(trailer, residual=residual), "a")).data
    gap = np.isnan(decoded(data["columns"]["residual_speed"]))
    assert list(np.flatnonzero(gap)) == list(range(10, 20))


@pytest.mark.parametrize("rows", [0, 1])
def test_a_run_of_hardly_a_row_has_a_report(trailer: Run, rows: int) -> None:
    page = valid(html_report(cut(trailer, rows), "a"))
    assert len(decoded(page.data["t"], "f8")) == rows
    assert ("no row was recorded" in page.words) == (rows == 0)


def test_only_a_report_that_computes_may_compile_and_the_page_of_a_run_may_not(report: str) -> None:
    computing = page("a", "", {"live": {"module": ""}})
    for allowed in ("&#x27;wasm-unsafe-eval&#x27;", "worker-src blob:"):
        assert allowed in computing
        assert allowed in report
        assert allowed not in page("a", "", {"live": {"reason": "none"}})
        assert allowed not in page("a", "", {})
        assert html.unescape(allowed) not in "".join(HEADERS.values())
    assert "default-src &#x27;none&#x27;" in computing


def test_a_report_has_the_words_and_the_sliders_that_its_launch_file_states(tmp_path: Path) -> None:
    words = f"One.\n\n{EVIL}"
    section = [
        "[report]",
        f"title = {json.dumps(EVIL)}",
        f"text = {json.dumps(words)}",
        'vary = ["plant.parameters.a.b"]',
    ]
    (tmp_path / "-task.toml").write_text("\n".join([*section, LAUNCH]))
    launch = read_launch(tmp_path / "-task.toml", ["plant.initial.x=0.7"])
    stated = launch.section("report", Reported)
    assert stated is not None
    assert (stated.vary, stated.text) == (["plant.parameters.a_b"], words)
    assert HtmlFile(exercise_html(stated)).words == f"{EVIL}One.{EVIL}"
    assert exercise_html(None) == exercise_html(Reported()) == ""
    assert run_command(launch) == {"name": "./-task.toml", "set": {"plant.initial.x": "0.7"}}
    made = launch_of_table(table_of(launch), [])
    assert run_command(made)["note"].startswith("save the launch file as resolved")


@pytest.mark.slow
def test_no_text_of_a_user_becomes_html(cart: Viewed) -> None:
    assert valid(html_report(cart("None"), "cart")).data["views"] == []
    text = html_report(cart(VIEW), EVIL)
    page = valid(text)
    assert page.data["panels"]
    assert page.words.count(EVIL) >= 2  # the title and the description, as words
    assert page.data["views"][0]["layout"]["title"] == EVIL
    assert page.data["views"][0]["shapes"][0]["caption"] == EVIL
    assert "<img" not in text


def test_json_cannot_end_its_script() -> None:
    value = {"</script>": "<!-- \u2028 & ]]>", "n": [float("nan"), float("inf"), 1.5]}
    text = json_text(value)
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"</script>": "<!-- \u2028 & ]]>", "n": [None, None, 1.5]}


@pytest.mark.parametrize("name", packaged())
def test_the_launch_file_as_resolved_is_toml_that_says_the_same(name: str) -> None:
    launch = read_launch(name, ["run.seed=7"])
    again = launch_of_table(tomllib.loads(launch_text(launch)), [])
    assert table_of(again) == table_of(launch)
    assert again.run.seed == 7


def test_html_report_names_zeros_and_magnifies_no_rounding() -> None:
    run = servonode.simulate("trailer_coast", run__duration=1)
    page = valid(html_report(run, "a"))
    data = page.data
    assert not {"U1", "U2"} & {curve["column"] for panel in data["panels"] for curve in panel["curves"]}
    assert data["zero"].startswith("Zero throughout: ")
    for panel in data["panels"]:
        low, high = panel["limits"]
        values = np.concatenate([decoded(data["columns"][curve["column"]]) for curve in panel["curves"]])
        assert panel["logarithmic"] or high - low >= limits.STEADY * np.nanmax(np.abs(values))


@pytest.mark.parametrize("colour", SOURCES)
def test_page_colours_are_lighter_on_a_dark_ground(colour: str) -> None:
    light, dark = colours_css().split("@media")
    assert colour in light
    parts = [int(lighter(colour)[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    assert luminance(parts) > SEEN - 0.01
    assert colour == INK or lighter(colour) in dark


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_the_report_of_a_packaged_launch_file_is_valid_and_small(name: str) -> None:
    text = html_report(servonode.simulate(name), name)
    valid(text)
    assert len(text.encode()) < LARGEST


# in a browser


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as driver:
        yield driver


def shown(chromium: Any, folder: Path, text: str) -> None:
    """Open a file; nothing is wrong in it."""
    file = folder / "a.html"
    file.write_text(text, encoding="utf-8")
    chromium.get(f"file://{file}")
    chromium.set_window_size(1300, 1000)
    assert chromium.get_log("browser") == []
    assert chromium.execute_script("return performance.getEntriesByType('resource').length") == 0
