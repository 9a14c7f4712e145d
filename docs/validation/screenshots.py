"""Make the screenshots of the pages, in docs/images: the window, the page in a browser, and a report as a page.

    python docs/validation/screenshots.py           all of them, a minute and a half
    python docs/validation/screenshots.py NAME ...  only these

They need Xvfb for the window, chromium with its driver and `uv sync --group browser` for the pages. Runs are in real
time, so their columns of times differ each time.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gallery_entries.png import packed
from pictures import IMAGES
from PIL import Image, ImageGrab
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

SERVONODE = [sys.executable, "-m", "servonode.cli.main"]
RUN = [
    "--no-report",
    "--set",
    "plant.safety.command_timeout_floor=0.5",
    "--set",
    "run.duration=600",
    "--set",
    "run.speed=1",
]
SIZE, SCREEN = (1400, 880), "1500x950x24"
LINK = re.compile(r"http://127\S+")
REPORT = "sphero_pursuit"
SHARE = 0.4  # of a report's time, at which it is shown
TIMEOUT = 60.0  # s, until a program is ready
WATCHED = 20.0  # s of a run, before it is shown
TO_SHARE = """
const slider = document.querySelector('#time')
slider.value = Math.round(slider.max * arguments[0])
slider.dispatchEvent(new Event('input'))
"""


def main() -> None:
    makers = {"window.png": window, "page.png": page, "report_page.png": report_page}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="files to make; all without")
    names = parser.parse_args().names or list(makers)
    unknown = [name for name in names if name not in makers]
    if unknown:
        parser.error(f"{unknown[0]!r} is not one of these pictures; choose {', '.join(makers)}")
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            (IMAGES / name).write_bytes(packed(makers[name](Path(folder)).convert("RGB")))


def window(folder: Path) -> Image.Image:
    """The window on a run, on a virtual display that holds nothing else."""
    with display() as name, running("sphero_circle", "--plot", folder=folder, DISPLAY=name) as run:
        deadline = time.monotonic() + TIMEOUT
        while not ImageGrab.grab(xdisplay=name).getbbox():
            if run.poll() is not None or time.monotonic() > deadline:
                run.terminate()
                sys.exit(f"no window within {TIMEOUT:g} s; the run printed:\n{run.communicate()[0]}")
            time.sleep(0.5)
        time.sleep(WATCHED)
        shown = ImageGrab.grab(xdisplay=name)
        return shown.crop(shown.getbbox())


def page(folder: Path) -> Image.Image:
    """The page on a run."""
    with running("trailer_pursuit", "--page", folder=folder) as run, browser() as driver:
        printed = "".join(until_link(run))
        if not (found := LINK.search(printed)):
            sys.exit(f"no page; the run printed:\n{printed}")
        driver.get(found[0])
        time.sleep(WATCHED)
        return screenshot(driver, folder)


def until_link(run: subprocess.Popen[str]) -> Iterator[str]:
    """The lines that a run prints, to the first with the link of its page."""
    for line in run.stdout or ():
        yield line
        if LINK.search(line):
            return


def report_page(folder: Path) -> Image.Image:
    """A report at some time of its run."""
    file = folder / "report.html"
    subprocess.run([*SERVONODE, "simulate", REPORT, "--report", file], check=True, stdout=subprocess.DEVNULL)
    with browser() as driver:
        driver.get(file.as_uri())
        driver.execute_script(TO_SHARE, SHARE)
        time.sleep(1.0)
        return screenshot(driver, folder)


def tool(name: str) -> str:
    """Where a program is; ends with a message where it is not installed."""
    return shutil.which(name) or sys.exit(f"no {name} here; apt install xvfb chromium chromium-driver")


@contextmanager
def display() -> Iterator[str]:
    """A virtual display."""
    read, write = os.pipe()
    server = subprocess.Popen(
        [tool("Xvfb"), "-displayfd", str(write), "-noreset", "-screen", "0", SCREEN], pass_fds=[write]
    )
    os.close(write)
    try:
        with os.fdopen(read) as stream:
            yield f":{stream.readline().strip()}"
    finally:
        server.terminate()
        server.wait()


@contextmanager
def running(*words: str, folder: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A run in a folder, ended at the end."""
    with subprocess.Popen(
        [*SERVONODE, "run", *words, *RUN],
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as run:
        try:
            yield run
        finally:
            run.terminate()


@contextmanager
def browser() -> Iterator[Any]:
    """Chromium without a screen, in its light theme."""
    options = webdriver.ChromeOptions()
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(flag)
    options.binary_location, driver_file = tool("chromium"), tool("chromedriver")
    driver = webdriver.Chrome(options=options, service=Service(driver_file))
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": SIZE[0], "height": SIZE[1], "deviceScaleFactor": 1, "mobile": False},
    )
    try:
        yield driver
    finally:
        driver.quit()


def screenshot(driver: Any, folder: Path) -> Image.Image:
    """What the browser shows."""
    file = folder / "page.png"
    driver.save_screenshot(str(file))
    with Image.open(file) as image:
        return image.copy()


if __name__ == "__main__":
    main()
