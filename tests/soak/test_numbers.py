"""The numbers of a run on its page: sliders in a browser, and requests as a stranger or a broken page makes them."""

import json
from pathlib import Path
from typing import Any

from servonode.wings.web.server import LARGEST
from tests.helpers.pages import Link, PageProcess, begun, browser, needs_browser
from tests.helpers.runs import START_S, Runs, eventually

RATE, MASS = "controller.gains.lambda_phi", "controller.parameters.m1"
SLIDERS = "return [...page.numbers.rows.keys()]"


def posted(link: Link, body: bytes, origin: str | None = None) -> tuple[int, Any]:
    """Status and answer of a request for numbers."""
    connection = link.connection()
    try:
        headers = {"Host": link.host, "Origin": origin or link.origin}
        connection.request("POST", f"/{link.token}/numbers", body, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read()) if answer.status == 200 else answer.read().decode()
    finally:
        connection.close()


def test_numbers_are_read_and_changed_by_the_page_alone_and_judged(runs: Runs, tmp_path: Path) -> None:
    run = begun(runs, "trailer_circle")
    with PageProcess(tmp_path, run.name) as page:
        status, answer = posted(page.link, b"{}")
        numbers = {each["key"]: each for each in answer["numbers"]}
        assert (status, numbers[RATE]["value"], numbers[RATE]["high"]) == (200, 3.0, 9.0)
        _, answer = posted(page.link, json.dumps({RATE: 2.5, MASS: 4.2}).encode())
        assert answer["done"], answer
        assert answer["text"].startswith("acts from step ")
        assert run.ask("parameters", "controller")["values"] == {RATE: 2.5, MASS: 4.2}
        _, answer = posted(page.link, json.dumps({RATE: 90.0}).encode())
        assert not answer["done"]
        assert "the largest rate that is taken is 80 1/s" in answer["text"]
        for wrong in (b"nothing", b"[1]", b'{"%s": "2"}' % RATE.encode(), b'{"%s": NaN}' % RATE.encode(), b""):
            _, answer = posted(page.link, wrong)
            assert not answer["done"]
            assert answer["text"].startswith("give numbers by key")
        assert posted(page.link, b" " * (LARGEST + 1))[0] == 413
        assert posted(page.link, b"{}", origin="http://elsewhere")[0] == 403
        assert run.ask("parameters", "controller")["values"] == {RATE: 2.5, MASS: 4.2}
        assert page.link.stop()["confirmed"]


@needs_browser
def test_sliders_show_what_acts_and_change_it(runs: Runs, tmp_path: Path) -> None:
    from selenium.webdriver.common.keys import Keys  # absent where the browser's tests are skipped

    run = begun(runs, "trailer_circle")
    with PageProcess(tmp_path, run.name) as page, browser() as chromium:
        chromium.get(page.link.url)
        assert eventually(lambda: chromium.execute_script("return page.columns.count") > 20, START_S), page.stderr
        chromium.find_element("css selector", "#parameters summary").click()
        assert eventually(lambda: RATE in chromium.execute_script(SLIDERS), START_S)
        at = chromium.execute_script(SLIDERS).index(RATE)
        field = chromium.find_elements("css selector", ".slider input[type=number]")[at]
        slide = chromium.find_elements("css selector", ".slider input[type=range]")[at]

        def said() -> str:
            return str(chromium.find_element("id", "changed").text)

        chromium.execute_script("arguments[0].focus()", slide)
        slide.send_keys(Keys.ARROW_RIGHT)
        assert eventually(lambda: f"{RATE} acts from step" in said(), START_S), said()
        acting = run.ask("parameters", "controller")["values"][RATE]
        assert acting > 3.0
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys("90", Keys.ENTER)
        assert eventually(lambda: "the largest rate that is taken is 80" in said(), START_S), said()
        assert float(field.get_attribute("value")) == acting
        assert run.ask("parameters", "controller")["values"] == {RATE: acting}
        assert [each for each in chromium.get_log("browser") if each["level"] == "SEVERE"] == []
