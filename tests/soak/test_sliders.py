"""The numbers of a report that computes, in a browser: what a change draws and says, whoever wrote the texts."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import servonode
from servonode.wings.web.embedded import page
from servonode.wings.web.html_report import html_report
from tests.helpers.html_files import HtmlFile
from tests.helpers.pages import browser, needs_browser
from tests.wings.web.test_html_report import EVIL

pytestmark = needs_browser

LAMBDA, PHI = "controller.gains.lambda_speed", "plant.initial.phi"
LOGGED = "return [...document.querySelectorAll('script')].length + document.querySelectorAll('img').length"
WORDS = {"title", "name", "unit", "text", "reason", "caption", "zero", "note", "axes", "titles", "offered", "fixed"}
READY = "opened.then((varied) => { window.varied = varied; arguments[0](varied ? varied.agreed : ''); })"
IDLE = """
const done = arguments[0];
const look = () => (varied.working ? setTimeout(look, 10) : done(varied.said.textContent));
look();
"""
BUSY = """
varied.knobs.get(arguments[0]).slider.value = arguments[1];
varied.knobs.get(arguments[0]).slider.dispatchEvent(new Event(arguments[2]));
"""
TYPED = """
const knob = varied.knobs.get(arguments[0]);
knob.field.value = arguments[1];
knob.field.dispatchEvent(new Event("change"));
return [knob.value, knob.wrong.textContent, Number(knob.slider.max)];
"""
MORE = """
for (const option of [...document.getElementById("more").options].slice(1, 4)) {
  report.add({title: option.text, curves: [{name: option.text, column: option.value}]});
}
"""
ODD = "a, iframe, object, svg, [onerror], [onclick], [style*=javascript]"
SLID = """
const [key, from, to, done] = arguments;
const knob = varied.knobs.get(key);
const slide = async (value) => {
  const begun = performance.now();
  knob.slider.value = value;
  knob.slider.dispatchEvent(new Event("input"));
  while (varied.working) await new Promise((next) => setTimeout(next));
  return performance.now() - begun;
};
(async () => {
  const took = [];
  for (let i = 0; i < 12; i += 1) took.push(await slide(from + ((to - from) * i) / 12));
  done(took.sort((a, b) => a - b));
})();
"""


@pytest.fixture(scope="module")
def report() -> str:
    return html_report(servonode.simulate("trailer_pursuit", run__duration=20), "a")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as driver:
        yield driver


def opened(chromium: Any, folder: Path, text: str, fragment: str = "") -> str:
    """Open a report, and wait for its sliders; what it says of its first run, empty without sliders."""
    (folder / "a.html").write_text(text, encoding="utf-8")
    chromium.get("about:blank")
    chromium.get(f"file://{folder / 'a.html'}{fragment}")
    said: str = chromium.execute_async_script(READY)
    return said


def idle(chromium: Any) -> str:
    """Wait until nothing is computed; what is said then."""
    said: str = chromium.execute_async_script(IDLE)
    return said


def test_a_slider_computes_the_run_again_with_the_first_behind_it(chromium: Any, tmp_path: Path, report: str) -> None:
    run = chromium.execute_script
    assert opened(chromium, tmp_path, report).startswith("computed here: agrees to")
    columns = "return [report.run === report.first, report.run.columns.V.at(-1), Boolean(report.panels[0].pale)]"
    assert run(columns)[::2] == [True, False]
    run(BUSY, LAMBDA, 0.5, "input")
    assert idle(chromium).startswith("no fault in 20 s")
    first, slower, pale = run(columns)
    expected = servonode.simulate("trailer_pursuit", values={LAMBDA: 0.5}, run__duration=20)
    assert (first, pale) == (False, True)
    assert slower == pytest.approx(float(expected.state["V"][-1]), rel=1e-9)
    line, toml = run("return [varied.passed.line, varied.passed.toml]")
    assert line == f"servonode simulate trailer_pursuit --set run.duration=20.0 --set {LAMBDA}=0.5"
    assert toml == "[controller.gains]\nlambda_speed = 0.5"
    run("varied.restore.click()")
    idle(chromium)
    assert run(columns)[::2] == [True, False]
    assert chromium.get_log("browser") == []


def test_what_is_no_number_is_refused_beside_its_field(chromium: Any, tmp_path: Path, report: str) -> None:
    run = chromium.execute_script
    opened(chromium, tmp_path, report)
    assert run(TYPED, LAMBDA, "two") == [2, "“two” is no number; write one such as 2", 6]
    assert run(TYPED, LAMBDA, EVIL)[0] == 2
    assert run(TYPED, LAMBDA, "9.5") == [9.5, "", 9.5]  # the range widens
    assert run(TYPED, PHI, "−pi/4")[0] == pytest.approx(-0.785398, abs=1e-6)
    idle(chromium)
    assert run(TYPED, "controller.delay", "1.5")[1] == "1.5 is no whole number"


def test_a_refused_law_shows_its_words_where_the_curves_would_be(chromium: Any, tmp_path: Path, report: str) -> None:
    opened(chromium, tmp_path, report, "#controller.parameters.l=0")
    assert idle(chromium) == "This run is refused."
    assert chromium.find_element("id", "refused").text
    assert chromium.execute_script("return [report.run.t.length, Boolean(report.panels[0].pale)]") == [0, True]


def test_the_address_holds_the_numbers_and_a_strangers_address_is_read_with_care(
    chromium: Any, tmp_path: Path, report: str
) -> None:
    run = chromium.execute_script
    strange = (
        "&__proto__=1&constructor=2&%E0%A4%A=3&run.duration=NaN&javascript:alert(1)=4&<img src=x onerror=alert(1)>=5"
    )
    opened(chromium, tmp_path, report, f"#{PHI}=0.3{strange}")
    idle(chromium)
    assert run("return varied.values") == {PHI: 0.3}
    assert "not taken from the address: __proto__, constructor" in run("return varied.note.textContent")
    assert run(LOGGED) == 2
    run(BUSY, LAMBDA, 1, "change")
    idle(chromium)
    time.sleep(0.5)
    assert run("return location.hash") == f"#{LAMBDA}=1&{PHI}=0.3"
    run(f"location.hash = '#{PHI}=-0.2'")
    time.sleep(0.2)
    idle(chromium)
    assert run("return varied.values") == {PHI: -0.2}


def test_a_figure_begins_in_motion_unless_its_reader_wants_none(chromium: Any, tmp_path: Path, report: str) -> None:
    for wish, moves in (("no-preference", True), ("reduce", False)):
        features = [{"name": "prefers-reduced-motion", "value": wish}]
        chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        opened(chromium, tmp_path, report, f"#figure&{PHI}=0.5")
        time.sleep(1)
        assert chromium.execute_script("return report.playing > 0") == moves
        assert len(chromium.find_elements("css selector", ".knob")) == 4
        assert not chromium.find_element("id", "curves").is_displayed()
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_without_webassembly_the_report_says_why_and_is_what_it_was(chromium: Any, tmp_path: Path, report: str) -> None:
    added = chromium.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": "delete self.WebAssembly"})
    try:
        assert opened(chromium, tmp_path, report) == ""
    finally:
        chromium.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)
    assert "This browser has no WebAssembly" in chromium.find_element("id", "vary").text
    assert chromium.execute_script("return report.panels.length") > 3


def poisoned(value: Any, key: str = "") -> Any:
    """The data of a report, each text that a reader sees in it hostile."""
    if isinstance(value, dict):
        return {name: poisoned(each, key if key == "titles" else name) for name, each in value.items()}
    if isinstance(value, list):
        return [poisoned(each, key) for each in value]
    return f"{EVIL}\u2028javascript:{value}" if isinstance(value, str) and key in WORDS else value


def test_no_text_of_a_machine_runs_or_becomes_an_element(chromium: Any, tmp_path: Path, report: str) -> None:
    found = HtmlFile(report)
    data = {**found.data, "marks": [{"t": 3.0, "text": "fault"}], "offered": [LAMBDA, EVIL]}
    data["live"] |= {"fixed": [{"key": EVIL, "reason": EVIL}]}
    keep = {"live": {**data["live"], "keys": poisoned(data["live"]["keys"])}, "offered": data["offered"]}
    hostile = {**poisoned({name: each for name, each in data.items() if name != "live"}), **keep}
    body = report.partition("<body>")[2].partition('<script type="application/json"')[0]
    text = page(EVIL, body, hostile)
    assert "<" not in HtmlFile(text).scripts[0]
    assert opened(chromium, tmp_path, text).startswith("computed here")
    run = chromium.execute_script
    run("document.querySelectorAll('details').forEach((each) => { each.open = true; }); varied.shows.click();")
    run(BUSY, LAMBDA, 0.5, "change")
    idle(chromium)
    run(MORE)
    run("HTMLAnchorElement.prototype.click = () => {}; varied.picture(); report.go(1); report.go(4);")
    time.sleep(0.5)
    assert run(LOGGED) == 2
    assert run(f"return document.querySelectorAll({json.dumps(ODD)}).length") == 0
    assert chromium.title.startswith("</script>")
    assert chromium.get_log("browser") == []
    assert EVIL in run("return varied.passed.line.replaceAll(\"'\\\\''\", \"'\")")


def test_a_change_of_a_run_of_20_s_is_drawn_within_100_ms(chromium: Any, tmp_path: Path, report: str) -> None:
    opened(chromium, tmp_path, report)
    chromium.execute_async_script(SLID, LAMBDA, 1.0, 3.0)
    took = chromium.execute_async_script(SLID, LAMBDA, 1.0, 3.0)
    print(json.dumps({"slider to drawn [ms]": [round(each, 1) for each in took]}))
    assert took[len(took) // 3] < 100  # other work of the computer takes its time from the others
