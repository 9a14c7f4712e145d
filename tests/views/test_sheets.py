"""What the reports of each machine draw, as numbers and words, is that of the sheets beside this file.

    python -m tests.views.test_sheets    writes the sheets anew; what differs is read in review

A sheet has each axis with its title, limits and legend, each curve with its colour and some of its numbers, the bodies
with their shades, and all texts. That nothing of a picture covers anything is seen in tests/soak/test_pictures.py.
"""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import servonode
from servonode.views.report import report_figure

SHEETS = Path(__file__).parent / "sheets"
LAUNCHES = ("ball_tilted", "hoop_bowl", "snowboarder_carve", "sphero_line", "trailer_line", "trailer_pursuit")
SAME = {"rel": 2e-3, "abs": 2e-6}  # of printed numbers, on all types of processors


def number(value: float) -> str:
    return f"{value + 0.0:.4g}"


def numbers(values: Any) -> str:
    return " ".join(map(number, values))


def of_line(line: Any) -> str:
    """A curve: its name, colour and style, its first and last point, its extent."""
    points = line.get_xydata()[np.isfinite(line.get_xydata()).all(axis=1)]
    label = "" if line.get_label().startswith("_") else line.get_label()
    what = f"curve {label!r} {to_hex(line.get_color())} {line.get_linestyle()}"
    if not len(points):
        return f"{what} without points"
    ends = numbers([*points[0], *points[-1], *points.min(axis=0), *points.max(axis=0)])
    return f"{what} from, to, least, most: {ends}"


def of_text(text: Any) -> str:
    return " ".join(text.get_text().split())


def sheet(figure: Figure) -> Iterator[str]:
    """The lines of a figure's sheet; curves of snapshots, which are many, by their number and shades."""
    yield f"size {numbers(figure.get_size_inches())}"
    for axis in figure.axes:
        yield f"axis {of_text(axis._left_title)!r} {axis.get_xscale()} {axis.get_yscale()} {axis.get_aspect()}"
        yield f"  limits {numbers([*axis.get_xlim(), *axis.get_ylim()])}"
        if legend := axis.get_legend():
            yield f"  legend {[of_text(each) for each in legend.get_texts()]}"
        long = [line for line in axis.lines if len(line.get_xdata()) > 40 or not line.get_label().startswith("_")]
        yield from (f"  {of_line(line)}" for line in long)
        rest = sorted((to_hex(line.get_color()), line.get_alpha() or 1.0) for line in axis.lines if line not in long)
        yield from (f"  drawn {what[0]} shade {what[1]:.3f} times {len(list(all_))}" for what, all_ in groupby(rest))
        bodies = [(to_hex(each.get_facecolor()), each.get_alpha() or 1.0) for each in axis.patches]
        yield from (f"  filled {what[0]} shade {what[1]:.3f} times {len(list(all_))}" for what, all_ in groupby(bodies))
        for kind, texts in (
            ("words", axis.texts),
            ("ticks", axis.get_xticklabels()),
            ("ticks", axis.get_yticklabels()),
        ):
            if said := [of_text(each) for each in texts if each.get_text().strip()]:
                yield f"  {kind} {said}"
    yield from (f"text {of_text(each)!r}" for each in figure.texts)


def drawn(launch: str) -> list[str]:
    return list(sheet(report_figure(servonode.simulate(launch), launch)))


def alike(one: str, other: str) -> bool:
    """Whether two words are the same, or numbers that hardly differ."""
    try:
        return float(one) == pytest.approx(float(other), **SAME)
    except ValueError:
        return one == other


@pytest.mark.parametrize("launch", LAUNCHES)
def test_a_report_draws_what_its_sheet_says(launch: str) -> None:
    found, written = drawn(launch), (SHEETS / f"{launch}.txt").read_text("utf-8").splitlines()
    wrong = []
    for here, there in zip(found, written, strict=False):
        ones, others = here.split(), there.split()
        if len(ones) != len(others) or not all(map(alike, ones, others)):
            wrong.append(f"drawn: {here}\nsheet: {there}")
    assert wrong == []
    assert len(found) == len(written)


if __name__ == "__main__":
    SHEETS.mkdir(exist_ok=True)
    for each in LAUNCHES:
        (SHEETS / f"{each}.txt").write_text("\n".join(drawn(each)) + "\n", "utf-8")
