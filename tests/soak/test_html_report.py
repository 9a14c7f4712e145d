"""Reports as HTML in a browser: each kind runs, and does what its reader asks."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import servonode
from servonode.record.run import Run
from servonode.wings.web.html_report import html_report
from tests.helpers.drawn_cart import LAUNCH, Viewed, viewed_cart
from tests.helpers.pages import browser, needs_browser
from tests.wings.web.test_html_report import EVIL, VIEW, cut, shown


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


# in a browser

LAMBDA = "sideways force on the driven axle Λ₁ [N]"

VALUE = "return report.panels[0].box.querySelector('output').textContent"

MOVE = "const s = document.getElementById('time'); s.value = arguments[0]; s.dispatchEvent(new Event('input'))"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as driver:
        yield driver


def picture(chromium: Any) -> str:
    found: str = chromium.execute_script("return document.querySelector('#views canvas').toDataURL()")
    return found


def ranges(chromium: Any) -> list[list[float]]:
    """What of the time each panel shows."""
    found: list[list[float]] = chromium.execute_script(
        "return report.panels.map(({plot}) => [plot.scales.x.min, plot.scales.x.max])"
    )
    return found


@needs_browser
def test_the_report_in_a_browser_does_what_its_reader_asks(chromium: Any, tmp_path: Path, report: str) -> None:
    from selenium.webdriver import ActionChains
    from selenium.webdriver.support.ui import WebDriverWait

    shown(chromium, tmp_path, report)
    run: Callable[..., Any] = chromium.execute_script
    at_the_end, value = picture(chromium), run(VALUE)
    run(MOVE, 150)  # the slider moves the machine and the values
    assert picture(chromium) != at_the_end
    assert run(VALUE) != value
    t = run("return report.time")
    assert chromium.find_element("id", "clock").text == f"t = {t:.3f} s"
    assert t == pytest.approx(2.5, abs=0.03)

    assert ranges(chromium) == [[0, 5]] * len(ranges(chromium))
    first, second = chromium.find_elements("css selector", ".u-over")[:2]
    drag = ActionChains(chromium).move_to_element_with_offset(second, -100, 0).click_and_hold()
    drag.move_by_offset(200, 0).release().perform()  # zooms all panels, a double click shows all
    (low, high), *others = ranges(chromium)
    assert 0 < low < 2.5 < high < 5
    assert others == [[low, high]] * len(others)
    ActionChains(chromium).double_click(second).perform()
    assert ranges(chromium) == [[0, 5]] * len(ranges(chromium))

    run("report.go(0)")
    chromium.find_element("id", "play").click()
    WebDriverWait(chromium, 30).until(lambda _: 0.2 < run("return report.time") < 5)
    chromium.find_element("id", "play").click()
    assert run("return report.playing") == 0
    ActionChains(chromium).move_to_element(first).click().perform()  # goes there
    assert run("return report.time") == pytest.approx(2.5, abs=0.05)

    chromium.find_element("css selector", "#more option[value='Lambda1']").click()  # one panel more
    assert len(ranges(chromium)) == len(others) + 2
    assert chromium.find_elements("css selector", ".panel .title")[-1].text == LAMBDA


TRACED = """
const view = new MachineView(document.body, {title: "", axes: ["x", "y"], trails: [{name: "a", columns: ["x", "y"]}]});
view.draw({lines: [], guides: [], inertias: [], arrows: []}, {x: [null, 5, 6], y: [null, 5, 7]}, 3);
[view.width, view.height, view.pen] = [100, 100, view.canvas.getContext("2d")];
const points = [];
for (const name of ["moveTo", "lineTo"]) view.pen[name] = (x, y) => points.push([name, x, y]);
view.place();
view.trace({x: [null, 5, 6], y: [null, 5, 7], first: 0, end: 3}, "black", 1);
return [points, [["moveTo", view.x(5), view.y(5)], ["lineTo", view.x(6), view.y(7)]]];
"""


@needs_browser
@pytest.mark.parametrize("kind", ["zero", "one", "gap", "evil", "bare", "fault"])
def test_every_kind_of_report_runs_in_a_browser(
    chromium: Any, tmp_path: Path, trailer: Run, cart: Viewed, kind: str
) -> None:
    name = EVIL if kind in ("evil", "bare") else "a"
    run = {
        "zero": lambda: cut(trailer, 0),
        "one": lambda: cut(trailer, 1),
        "gap": lambda: replace(
            trailer, state=trailer.state | {"X": np.where(trailer.t < 2.5, trailer.state["X"], np.nan)}
        ),
        "evil": lambda: cart(VIEW),
        "bare": lambda: cart("None"),
        "fault": lambda: servonode.simulate("trailer_open_loop", controller__settings={"U1": 1e200, "U2": 0.0}),
    }[kind]()
    shown(chromium, tmp_path, html_report(run, name))
    assert chromium.title.startswith(EVIL if name == EVIL else "a · servonode")
    assert not chromium.find_elements("css selector", "img")
    if kind == "gap":  # a path begins where it is known
        drawn, wanted = chromium.execute_script(TRACED)
        assert drawn == wanted
