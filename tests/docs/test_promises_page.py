"""The table of promises in tests/safety/README.md: numbered without gaps, each with tests that are there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2] / "tests"
PAGE = (ROOT / "safety/README.md").read_text("utf-8")
ROWS = re.findall(r"^\| (\d+) \| (.+?) \| (.*?) \| (.*?) \| (.*?) \|$", PAGE, re.MULTILINE)
ROOMS = ("safety", "processes", "soak")


def test_the_promises_are_numbered_and_each_has_tests_that_are_there() -> None:
    assert [int(number) for number, *_ in ROWS] == list(range(1, 30))
    suite = (ROOT / "soak/suite.py").read_text("utf-8")
    for number, _, *shown in ROWS:
        assert shown[0] or shown[1], f"promise {number} is shown in soak alone"
        for room, cell in zip(ROOMS, shown, strict=True):
            for name in re.findall(r"`([\w/]+\.py)`", cell):
                assert (ROOT.parent / name if "/" in name else ROOT / room / name).is_file(), (number, name)
            for told in re.findall(r"suite (\d\d)", cell):
                assert f"def test_promise_{told}_" in suite, (number, told)
