"""The page in a browser: what moves, the stop button, what it says when a connection or a run ends."""

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.pages import PageProcess, begun, browser, is_stopped, made_certificate, needs_browser, needs_openssl
from tests.helpers.runs import START_S, Process, Runs, eventually

WAY_POINTS = Path(__file__).parents[2] / "examples" / "goals" / "way_points.toml"
ESTIMATED = "const { data } = page.panels[2]; return data.slice(2).map((all) => all.findLast((each) => each !== null))"
PICTURE = "return [...document.querySelectorAll('{}')].map((each) => each.toDataURL())"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as driver:
        yield driver


def text(chromium: Any, name: str) -> str:
    found: str = chromium.find_element("id", name).text
    return found


def watched(chromium: Any, page: PageProcess) -> None:
    """Open a page and wait until it shows the run."""
    chromium.get("about:blank")
    chromium.get_log("browser")  # of the page before
    chromium.get(page.link.url)
    assert eventually(lambda: chromium.execute_script("return page.columns.count") > 20, START_S), page.stderr


def moves(chromium: Any, selector: str) -> list[bool]:
    """Of each canvas, whether it changes."""
    before = chromium.execute_script(PICTURE.format(selector))
    now = before

    def all_do() -> bool:
        nonlocal now
        now = chromium.execute_script(PICTURE.format(selector))
        return len(before) > 0 and all(a != b for a, b in zip(before, now, strict=True))

    eventually(all_do)
    return [a != b for a, b in zip(before, now, strict=True)]


def stops_by_click(chromium: Any, run: Process) -> None:
    assert not is_stopped(run)
    chromium.find_element("id", "stop").click()
    assert eventually(lambda: "stopped, confirmed by its plant" in text(chromium, "answer")), text(chromium, "answer")
    assert is_stopped(run)


def quiet_console(chromium: Any) -> None:
    """Nothing was refused by the policy, nothing failed."""
    assert [each for each in chromium.get_log("browser") if each["level"] == "SEVERE"] == []


@needs_browser
def test_browser_shows_the_trailer_and_stops_it(runs: Runs, chromium: Any, tmp_path: Path) -> None:
    from selenium.webdriver import ActionChains

    run = begun(runs, "trailer_estimated")
    with PageProcess(tmp_path, run.name) as page:
        watched(chromium, page)
        assert all(moves(chromium, ".machine canvas"))
        drawn = moves(chromium, ".panel canvas")
        assert (len(drawn), all(drawn)) == (8, True)
        assert text(chromium, "name") == run.name
        assert eventually(lambda: (text(chromium, "standing"), text(chromium, "arming")) == ("active", "armed"))
        assert "round trip" in text(chromium, "timing")
        assert "heading [rad]" in text(chromium, "residuals")
        assert not chromium.find_element("id", "connection").is_displayed()
        assert chromium.execute_script("return page.panels[3].plot.bands.length") == 1
        assert "φ estimated" in chromium.find_elements("css selector", ".panel header")[3].text
        estimated, low, high = chromium.execute_script(ESTIMATED)
        assert low < estimated < high
        over = chromium.find_elements("css selector", ".panel .u-over")[0]  # a part of the time, by dragging
        ActionChains(chromium).move_to_element(over).click_and_hold().move_by_offset(60, 0).release().perform()
        low, high = chromium.execute_script("return page.range")
        assert 0.5 < high - low < 10
        assert chromium.execute_script("return page.panels.map((each) => each.range)") == [[low, high]] * 8
        ActionChains(chromium).double_click(over).perform()
        assert chromium.execute_script("return page.range") is None
        stops_by_click(chromium, run)
        assert eventually(lambda: text(chromium, "standing") == "emergency stop")
        assert "Fault: estop" in text(chromium, "fault")
        quiet_console(chromium)
        chromium.execute_script("page.connection.socket.close(); page.columns = new Columns(1)")
        assert eventually(lambda: chromium.execute_script("return page.columns.count") > 20)  # it was told all again
        assert "stopped, confirmed by its plant" in text(chromium, "answer")
        chromium.execute_script("page.told = []; page.showStatus = () => { throw Error() }")
        seen = chromium.execute_script("return page.columns.last")
        assert eventually(lambda: chromium.execute_script("return page.columns.last") > seen + 2)
        page.popen.kill()
        assert eventually(lambda: text(chromium, "connection").startswith("Connection lost: the page shows old data"))
        assert "stale" in chromium.find_element("tag name", "body").get_attribute("class")
        chromium.find_element("id", "stop").click()
        assert eventually(lambda: text(chromium, "answer").startswith("NOT STOPPED: the server of this page does not"))


@needs_browser
def test_a_click_on_the_map_sends_the_goal_there(runs: Runs, chromium: Any, tmp_path: Path) -> None:
    from selenium.webdriver import ActionChains

    run = begun(runs, str(WAY_POINTS))
    with PageProcess(tmp_path, run.name) as page:
        watched(chromium, page)
        assert not chromium.find_element("id", "held").is_displayed()
        canvas = chromium.find_element("css selector", ".machine canvas")
        ActionChains(chromium).move_to_element_with_offset(canvas, 60, -40).click().perform()
        assert eventually(lambda: text(chromium, "answer").startswith("Goal: x = ")), text(chromium, "answer")
        asked = [float(each) for each in re.findall(r"= (-?[\d.]+),? ", text(chromium, "answer"))][:2]
        assert eventually(lambda: text(chromium, "held") == "goal held")  # nobody sends another one
        newest = "return [page.columns.of.target_x, page.columns.of.target_y].map((all) => all.at(-1))"
        assert eventually(lambda: chromium.execute_script(newest) == pytest.approx(asked, abs=0.01), START_S)
        chromium.execute_script("page.views[0].placeOf = () => [7, 0]")
        canvas.click()
        assert eventually(lambda: "No goal was given: x = 7 is beyond its range" in text(chromium, "answer"))
        post = "return fetch('goal', {method: 'POST', body: arguments[0]}).then((answer) => answer.json())"
        for body in ("[1]", '{"x": "1"}', '{"x": NaN}', "{}", '{"q": 1}'):
            assert chromium.execute_script(post, body)["done"] is False
        assert run.ask("status")["lifecycle"] == "active"
        quiet_console(chromium)


@needs_browser
@needs_openssl
def test_browser_shows_a_run_over_https_and_stops_it(runs: Runs, chromium: Any, tmp_path: Path) -> None:
    run = begun(runs, "trailer_pursuit")
    certificate, key = made_certificate(tmp_path)
    words = ("--host", "0.0.0.0", "--certfile", str(certificate), "--keyfile", str(key))
    with PageProcess(tmp_path, run.name, *words, certificate=certificate) as page:
        watched(chromium, page)
        assert all(moves(chromium, ".machine canvas"))
        stops_by_click(chromium, run)
        quiet_console(chromium)


@needs_browser
def test_the_sphero_with_its_four_views(runs: Runs, chromium: Any, tmp_path: Path) -> None:
    run = begun(runs, "sphero_pursuit")
    with PageProcess(tmp_path, run.name) as page:
        watched(chromium, page)
        drawn = moves(chromium, ".machine canvas")
        assert (len(drawn), all(drawn)) == (4, True)
        assert text(chromium, "machine").count("friction of the floor") == 3
        stops_by_click(chromium, run)
        quiet_console(chromium)


@needs_browser
def test_page_says_that_a_run_ended_and_shows_the_next(runs: Runs, chromium: Any, tmp_path: Path) -> None:
    run = begun(runs, "trailer_pursuit")
    with PageProcess(tmp_path, run.name) as page:
        watched(chromium, page)
        assert eventually(lambda: chromium.execute_script("return page.columns.last") > 4.0)
        run.popen.send_signal(signal.SIGINT)
        assert run.popen.wait(START_S) == 130
        assert eventually(lambda: text(chromium, "standing") in ("ended", "finished", "ended by a fault"))
        assert not chromium.find_element("id", "connection").is_displayed()  # nothing is wrong
        chromium.find_element("id", "stop").click()
        assert eventually(lambda: "STOP NOT CONFIRMED: no run" in text(chromium, "answer"))
        again = begun(runs, "trailer_pursuit", name=run.name)
        assert eventually(lambda: 0 < chromium.execute_script("return page.columns.last") < 4.0)
        assert eventually(lambda: text(chromium, "standing") == "active")
        assert not chromium.find_element("id", "answer").is_displayed()
        stops_by_click(chromium, again)
