"""docs/how_to/, followed word for word: every command of every page is typed, but for those of OUTSIDE.

Runs in real time get more time for an answer than the pages say, for tests share their processors with others; runs of
which a page prints no numbers are shorter or faster.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import matplotlib.image
import pytest

from servonode.mechanics import discrete
from servonode.views.movie import ffmpeg
from tests.helpers.followed import DOCS, Desk, Page, Step, Written, check
from tests.helpers.packages import install_wheels
from tests.helpers.pages import Link, browser, needs_browser
from tests.helpers.runs import START_S, eventually

HOW_TO = DOCS / "how_to"
ROOT = DOCS.parent
OUTSIDE = {  # what cannot be typed here, and why
    'pip install "servonode[web]"': "the environment of the tests is not changed",
    'pip install "servonode[mujoco]"': "the environment of the tests is not changed",
    "pip install examples/driver": "the environment of the tests is not changed; the test installs it into a folder",
    "ssh -L 8642:localhost:8642 robot servonode page": "needs a second computer",
    "ssh -L 9872:127.0.0.1:9872 USER@ROBOT": "needs a second computer",
}
REPLACED = dict.fromkeys(OUTSIDE, ":") | {  # a busy computer ends no run that a reader only looks at
    " --no-report": " --no-report --set plant.safety.command_timeout_floor=0.5"
}
REPLACED |= {
    "--set run.duration=15 --movie": "--set run.duration=3 --movie",
    "simulate trailer_reverse --movie": "simulate trailer_reverse --set run.duration=6 --movie",
    "run trailer_reverse --no-report --record": "run trailer_reverse --set run.duration=6 --no-report --record",
    'simulate("trailer_reverse")\nprint(run.movie(': 'simulate("trailer_reverse", run__duration=6.0)\nprint(run.movie(',
    "run trailer_reverse --no-report\n": "run trailer_reverse --set run.speed=8 --no-report\n",
    "run trailer_reverse_mujoco": "run trailer_reverse_mujoco --set run.speed=8",
    "--set run.duration=30": "--set run.duration=5",
    "run trailer_pursuit_lockstep\n": "run trailer_pursuit_lockstep --set run.duration=10\n",
}
NOT_RUN = {"to_rerun.py": "rerun is no dependency of servonode or of its tests"}
NEEDS = {  # what a page's commands need beside servonode
    "export_to_c": lambda: shutil.which("cc"),
    "movies": ffmpeg,
    "mujoco": lambda: find_spec("mujoco"),
    "page": lambda: shutil.which("chromedriver") and find_spec("uvicorn"),
    "teaching": lambda: shutil.which("pdflatex"),
    "window": lambda: shutil.which("Xvfb") and ffmpeg(),
}
MADE = {  # the files that a page's commands leave, beside those that it shows
    "figures": (
        "pursuit.png", "pursuit.pdf", "pursuit.svg", "first40.pdf", "distance.pdf", "slide.png", "hitch.pdf",
        "hitch.png", "machine.pdf", "machine.png", "pursuit.csv", "path.pdf",
    ),
    "export_to_c": ("pursuit.c", "loop", "by_c.txt"),
    "movies": ("pursuit.mp4", "reverse.gif", "over.mp4", "recorded.mp4", "from_python.mp4"),
    "mujoco": ("compare.png",),
    "python": ("reverse.html", "whole.png", "chosen.pdf", "path.png", "reverse.gif"),
    "recordings": (
        "pursuit.mcap", "trailer_reverse.mcap", "pursuit.html", "pursuit.npz", "states.csv", "compare.png", "hitch.png",
    ),
    "reports": (
        "pursuit.html", "pursuit.png", "trailer_pursuit_lockstep.png", "compare.png", "distance.pdf", "measured.csv",
    ),
    "teaching": (
        "coast.png", "equations.pdf", "straight.png", "jackknife.html", "reverse.html", "crane.png", "result.json",
    ),
    "window": ("sphero.png",),
}  # fmt: skip
BEGINS = {
    ".png": b"\x89PNG", ".pdf": b"%PDF", ".gif": b"GIF8", ".mcap": b"\x89MCAP", ".npz": b"PK",
    ".html": b"<!doctype html", ".svg": b"<?xml", ".json": b"{",
}  # fmt: skip


class Reader:
    """A reader of a how-to, with a folder, terminals and a runtime folder of their own."""

    def __init__(self, name: str, folder: Path) -> None:
        self.page = Page(f"how_to/{name}.md", replaced=REPLACED)
        self.folder, programs = folder / "folder", folder / "programs"
        for each in (self.folder, programs, folder / "runtime"):
            each.mkdir(mode=0o700)
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "SERVONODE_RUNTIME_DIR": str(folder / "runtime"),
        }
        self.screens = {n: programs / f"terminal_{n}" for n in range(1, 5)}
        self.desk = Desk(self.folder, programs, environment)

    def follow(self, looks: "dict[str, Callable[[Reader, Step], None]] | None" = None) -> None:
        """Write the files, do all steps and check them; a look is done after the step whose last command begins so."""
        left = dict(looks or {})
        try:
            for name, text in self.page.files.items():
                self.desk.write(Written(name, text))
            for step in self.page.steps:
                check(step, self.desk.do(step))
                for word in [each for each in left if step.commands and step.commands[-1].startswith(each)]:
                    left.pop(word)(self, step)
        finally:
            self.desk.close()
        assert not left, f"no step for {list(left)}"

    def has(self, name: str) -> bool:
        """Whether a file is there and begins as its ending says."""
        file = self.folder / name
        content = file.read_bytes() if file.is_file() else b""
        return bool(content) and content[:20].lower().startswith(BEGINS.get(file.suffix, b"").lower())


def pages() -> list[str]:
    return sorted(file.stem for file in HOW_TO.glob("*.md") if file.stem != "index")


def marks(name: str) -> Any:
    """A page is slow but for those whose commands take a few seconds."""
    fast = name == "export_to_c"
    return pytest.param(name, marks=[] if fast else pytest.mark.slow)


FOLLOWED_ELSEWHERE = {
    "own_laws": "tests/test_pages_computed.py",
    "stable_inversion": "tests/test_pages_computed.py",
}
LIVE = ("page", "window", "drivers")  # tests of their own below


def needs(name: str) -> None:
    if name in NEEDS and not NEEDS[name]():
        pytest.skip(f"needs what docs/how_to/{name}.md asks for")


@pytest.mark.parametrize("name", [marks(each) for each in pages() if each not in (*FOLLOWED_ELSEWHERE, *LIVE)])
def test_a_page_is_followed(name: str, tmp_path: Path) -> None:
    needs(name)
    reader = Reader(name, tmp_path)
    assert reader.page.steps, "a how-to without a command"
    reader.follow()
    assert [each for each in MADE.get(name, ()) if not reader.has(each)] == []


@pytest.fixture
def display(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A virtual display of 1500 x 950 pixels."""
    needs("window")
    read, write = os.pipe()
    command = ["Xvfb", "-displayfd", str(write), "-noreset", "-screen", "0", "1500x950x24"]
    server = subprocess.Popen(command, pass_fds=[write], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.close(write)
    with os.fdopen(read) as stream:
        name = f":{stream.readline().strip()}"
    monkeypatch.setenv("DISPLAY", name)
    yield name
    server.terminate()
    server.wait(START_S)


def screenshot(display: str, file: Path) -> Any:
    """The pixels (950, 1500, 3) of the display."""
    command = [str(ffmpeg()), "-v", "error", "-y", "-f", "x11grab", "-video_size", "1500x950", "-i", display]
    subprocess.run([*command, "-frames:v", "1", str(file)], check=True)
    return matplotlib.image.imread(file)[..., :3]


@pytest.mark.slow
def test_the_window_of_its_page_shows_the_machine(display: str, tmp_path: Path) -> None:
    def is_drawn() -> bool:
        pixels = screenshot(display, tmp_path / "window.png")
        return bool((pixels.min(axis=2) > 0.9).mean() > 0.3)  # white paper, on a black display

    def look(reader: Reader, step: Step) -> None:
        assert eventually(is_drawn, START_S), reader.screens[step.terminal].read_text()
        time.sleep(3.0)  # curves
        assert is_drawn()

    reader = Reader("window", tmp_path)
    reader.follow({"servonode run trailer_pursuit --plot": look, "servonode plot": look})
    assert reader.has("sphero.png")


@needs_browser
@pytest.mark.slow
def test_the_page_of_its_page_opens_and_stops_the_run(tmp_path: Path) -> None:
    def look(reader: Reader, step: Step) -> None:
        screen = reader.screens[step.terminal]
        assert eventually(lambda: "http://" in screen.read_text(), START_S)
        link = Link.read(screen.read_text())
        with browser() as driver:
            driver.get(link.url)
            assert eventually(lambda: "trailer_pursuit" in driver.page_source, START_S)
            time.sleep(2.0)
            driver.save_screenshot(str(tmp_path / "page.png"))
            text = driver.find_element("tag name", "body").text
            assert "speed" in text
            assert "heading" in text
        answer = link.stop()
        assert "trailer_pursuit" in str(answer)

    needs("page")
    Reader("page", tmp_path).follow({"servonode page": look})


@pytest.mark.slow
def test_the_example_of_the_page_on_drivers_is_observed_and_then_driven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site").mkdir()
    install_wheels(tmp_path / "site")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    reader = Reader("drivers", tmp_path)
    (reader.folder / "examples").symlink_to(ROOT / "examples")
    reader.follow()


def test_what_is_not_typed_stands_on_a_page() -> None:
    texts = [(HOW_TO / f"{name}.md").read_text("utf-8") for name in pages()]
    assert [each for each in OUTSIDE if not any(f"\n{each}\n" in text for text in texts)] == []


@pytest.mark.parametrize("name", pages())
def test_nothing_of_a_page_stands_outside_what_is_followed(name: str) -> None:
    text = (HOW_TO / f"{name}.md").read_text("utf-8")
    page = Page(f"how_to/{name}.md")
    assert page.pieces == []
    typed = "\n".join(command for step in page.steps for command in step.commands)
    others = "\n".join(page.files.values())
    unused = [each for each in page.files if each.endswith((".py", ".toml")) and Path(each).stem not in typed + others]
    assert [each for each in unused if each not in NOT_RUN] == []
    assert not re.search(r"^```(bash|shell)$", text, re.MULTILINE)
    shown = re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert [each for each in shown if re.search(r"^\$ ", each, re.MULTILINE)] == []


@pytest.mark.parametrize("name", pages())
def test_a_page_begins_with_what_one_gets_and_needs(name: str) -> None:
    first = (HOW_TO / f"{name}.md").read_text("utf-8").split("\n## ")[0]
    assert "**You get**" in first
    assert "**You need**" in first.replace("\n", " ")


def test_the_limits_that_tuning_prints_are_those_of_the_sampled_law() -> None:
    rows = re.findall(r"^\| ([\d.]+) \| (.*) \|$", (HOW_TO / "tuning.md").read_text("utf-8"), re.MULTILINE)
    assert len(rows) == 4
    for delay, numbers in rows:
        found = []
        for relative_degree in (1, 2):
            limit = discrete.limit(relative_degree, float(delay))
            found += [limit, limit / 3, discrete.best(relative_degree, float(delay))[0]]
        printed = [float(each) for each in numbers.split(" | ")]
        assert printed == pytest.approx(found, rel=2e-3)
