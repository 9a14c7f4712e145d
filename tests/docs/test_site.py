"""The documentation site, built once: no warning, no broken link, nothing from a network; and walked in a browser."""

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.helpers.built_site import DOCS, ROOT, Page, Site, build
from tests.helpers.commands import commands
from tests.helpers.pages import browser, needs_browser

pytest.importorskip("myst_nb", reason="needs the dependency group docs")
pytestmark = pytest.mark.slow
WIDE, NARROW = 1400, 390  # px
WIDTHS = (WIDE, 1920, 400)
CUT_OFF = """  // tables with formulas, which cannot be broken, may scroll
const shown = [...document.querySelectorAll('.content pre, .content table')]
return shown.filter((each) => !each.querySelector('.math')).filter((each) => {
    const room = each.tagName === 'TABLE' ? each.parentElement : each
    return each.scrollWidth > room.clientWidth + 2
}).map((each) => [...each.innerText].slice(0, 60).join(''))
"""
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.py"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("site") / "html"
    result = build(folder)
    assert result.returncode == 0, result.stderr
    return Site(folder)


# links


def test_every_link_within_the_site_leads_to_a_page_and_an_anchor(site: Site) -> None:
    assert len(site.pages) > 40
    assert list(site.broken()) == []


def test_a_broken_link_would_be_found(site: Site) -> None:
    tampered = Site(site.folder)
    links = (
        '<a href="no.html"></a><a href="concepts.html#no"></a><img src="_images/no.png"><a href="concepts.html"></a>'
    )
    tampered.pages["index.html"] = Page(links)
    assert list(tampered.broken()) == [
        "index.html: no.html",
        "index.html: concepts.html#no",
        "index.html: _images/no.png",
    ]


def test_pages_fetch_nothing_from_a_network(site: Site) -> None:
    assert list(site.fetched_from_elsewhere()) == []
    scripts = [each for page in site.pages.values() for each in page.fetched if "mathjax" in each]
    assert len(scripts) > 10


def test_links_into_the_repository_lead_to_files_that_are_there(site: Site) -> None:
    address = re.compile(r"https://github\.com/servonode/servonode/(?:blob|tree)/main/([^#?]+)")
    linked = {found[1] for page in site.pages.values() for link in page.links if (found := address.match(link))}
    assert "src/servonode/launch/trailer_pursuit.toml" in linked
    assert [each for each in sorted(linked) if not (ROOT / each).exists()] == []


def test_every_picture_is_shown_somewhere() -> None:
    pages = [*DOCS.rglob("*.md"), *DOCS.rglob("*.py"), *ROOT.glob("*.md"), *ROOT.glob("*/*.md")]
    made = DOCS / "validation" / "pictures.py"  # names all that it makes, and shows nothing
    texts = "\n".join(each.read_text("utf-8") for each in pages if "_build" not in each.parts and each != made)
    pictures = [each.relative_to(DOCS / "images") for each in (DOCS / "images").rglob("*.*")]
    assert len(pictures) > 40
    assert [str(each) for each in pictures if f"images/{each}" not in texts] == []


# pages made from the code


@pytest.mark.parametrize("module", ["servonode", "servonode.mechanics", "servonode.controllers"])
def test_every_public_name_is_in_the_python_reference(site: Site, module: str) -> None:
    found = import_module(module)
    inner = vars(found) if module == "servonode.controllers" else ()  # of which programs use what needs sympy alone
    listed = {each for each in found.__all__ if each not in inner}
    assert len(listed) >= 8
    anchors = site.pages["reference/python.html"].anchors
    assert {each for each in listed if not anchors & {f"{module}.{each}", f"module-{module}.{each}"}} == set()


def test_every_command_is_in_the_reference_of_the_command_line(site: Site) -> None:
    words = [each for each in commands() if each != "servonode"]
    assert len(words) > 30
    anchors = site.pages["reference/command_line.html"].anchors
    assert [each for each in words if each.replace(" ", "-") not in anchors] == []


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda each: each.stem)
def test_a_notebook_is_a_page_with_its_results_and_a_file_to_download(site: Site, notebook: Path) -> None:
    page = (site.folder / "notebooks" / f"{notebook.stem}.html").read_text("utf-8")
    assert "cell_output" in page
    assert "<img" in page
    assert f'href="{notebook.stem}.ipynb"' in page
    cells = json.loads((site.folder / "notebooks" / f"{notebook.stem}.ipynb").read_text("utf-8"))["cells"]
    assert cells[0]["cell_type"] == "markdown"
    assert len(cells) >= 5


# in a browser


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as driver:
        yield driver


@pytest.fixture(scope="module")
def address(site: Site) -> Iterator[str]:
    """Where the site is served."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site.folder))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def resized(chromium: Any, width: int) -> None:
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def awaited(chromium: Any, holds: Callable[[], Any]) -> bool:
    """Whether something holds within a minute."""
    from selenium.webdriver.support.ui import WebDriverWait  # absent where the browser's tests are skipped

    return bool(WebDriverWait(chromium, 60).until(lambda _: holds()))


def complaints(chromium: Any) -> list[str]:
    """Errors in the console since the last look."""
    return [each["message"] for each in chromium.get_log("browser") if each["level"] == "SEVERE"]


@needs_browser
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_no_page_is_wider_than_the_screen(site: Site, chromium: Any, address: str, width: int) -> None:
    resized(chromium, width)
    wider = []
    for name in site.pages:
        chromium.get(f"{address}/{name}")
        excess = chromium.execute_script("return document.documentElement.scrollWidth - window.innerWidth")
        wider += [f"{name}: {excess} px"] if excess > 0 else []
    assert wider == []
    assert complaints(chromium) == []


@needs_browser
@pytest.mark.parametrize("width", WIDTHS)
def test_no_table_and_no_block_of_code_is_cut_off(site: Site, chromium: Any, address: str, width: int) -> None:
    resized(chromium, width)
    cut = {}
    for name in site.pages:
        chromium.get(f"{address}/{name}")
        cut[name] = chromium.execute_script(CUT_OFF)
    assert {name: texts for name, texts in cut.items() if texts} == {}


@needs_browser
def test_formulas_are_typeset_from_the_site_itself(site: Site, chromium: Any, address: str) -> None:
    resized(chromium, WIDE)
    with_formulas = [name for name, page in site.pages.items() if any("mathjax" in each for each in page.fetched)]
    for name in with_formulas:
        chromium.get(f"{address}/{name}")
        stated = chromium.execute_script("return document.querySelectorAll('.math').length")
        typeset = "return document.querySelectorAll('.math mjx-container').length"
        assert awaited(chromium, lambda: chromium.execute_script(typeset) >= stated), name  # noqa: B023  (called at once)
        assert chromium.execute_script("return document.querySelectorAll('mjx-merror').length") == 0, name
    assert complaints(chromium) == []


@needs_browser
@pytest.mark.parametrize(("term", "page"), [
    ("relative degree", "concepts.html"), ("feedback linearization", "concepts.html"), ("URDF", "robots.html"),
    ("step response", "concepts.html"), *[(each, "questions.html") for each in (
        "reinforcement learning", "joystick", "obstacle avoidance", "trajectory from CSV", "pickle", "progress bar",
        "MATLAB",
    )],
])  # fmt: skip
def test_the_search_finds_a_page_by_a_term(chromium: Any, address: str, term: str, page: str) -> None:
    resized(chromium, WIDE)
    chromium.get(f"{address}/index.html")
    field = chromium.find_element("css selector", "input[name=q]")
    field.send_keys(term)
    field.submit()
    results = "return [...document.querySelectorAll('ul.search li > a')].map((each) => each.getAttribute('href'))"
    assert awaited(chromium, lambda: any(page in each for each in chromium.execute_script(results)))
    chromium.find_element("css selector", "ul.search li > a").send_keys("\n")
    assert awaited(chromium, lambda: "search.html" not in chromium.current_url)
    assert complaints(chromium) == []


@needs_browser
def test_each_kind_of_reader_comes_from_the_landing_page_to_a_page_by_one_click(chromium: Any, address: str) -> None:
    resized(chromium, WIDE)
    chromium.get(f"{address}/index.html")
    cards = chromium.find_elements("css selector", ".cards > div")
    assert [each.find_element("tag name", "strong").text for each in cards] == [
        "Researcher",
        "Roboticist",
        "Learning",
        "Teacher",
    ]
    for at in range(len(cards)):
        chromium.get(f"{address}/index.html")
        link = chromium.find_elements("css selector", ".cards > div")[at].find_element("tag name", "a")
        target = link.get_attribute("href")
        link.send_keys("\n")  # a click would miss it while the page still scrolls to it
        assert awaited(chromium, lambda: chromium.current_url == target)  # noqa: B023  (called at once)
        assert chromium.find_element("css selector", "article h1").text


# runs on pages


def live_frames(site: Site) -> dict[str, list[str]]:
    """The reports that each page shows, by page."""
    frames = {name: [each for each in page.fetched if "/live/" in each] for name, page in site.pages.items()}
    return {name: found for name, found in frames.items() if found}


def test_the_first_page_and_the_pages_of_machines_show_reports_that_are_there(site: Site) -> None:
    found = live_frames(site)
    tables = ("index", "robots")  # without a report
    systems = [f"systems/{each.stem}.html" for each in (DOCS / "systems").glob("*.md") if each.stem not in tables]
    assert {"index.html", "how_to/lesson.html", *systems} <= set(found)
    for name, reports in found.items():
        for each in reports:
            assert (site.folder / name).parent.joinpath(each.partition("#")[0]).is_file(), (name, each)


def test_the_lesson_is_one_file_that_holds_its_reports(site: Site) -> None:
    text = (site.folder / "_static" / "live" / "lesson.html").read_text("utf-8")
    assert text.count("<iframe srcdoc=") == 3
    assert list(Page(text).fetched) == []


def test_pages_are_listed_for_readers_that_are_programs(site: Site) -> None:
    text = (site.folder / "llms.txt").read_text("utf-8")
    left_out = {"index.html", "genindex.html", "search.html", "py-modindex.html"}
    assert [each for each in site.pages if each not in left_out and f"/{each})" not in text] == []


@needs_browser
def test_the_run_on_the_first_page_moves_by_itself(chromium: Any, address: str) -> None:
    resized(chromium, WIDE)
    chromium.get(f"{address}/index.html")
    chromium.switch_to.frame(chromium.find_element("css selector", ".live iframe"))
    clock = "return document.getElementById('clock')?.textContent"
    first = chromium.execute_script(clock)
    assert awaited(chromium, lambda: chromium.execute_script(clock) not in (None, "", first))
    chromium.switch_to.default_content()
    assert complaints(chromium) == []
