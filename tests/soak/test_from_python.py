"""From Python and from notebooks: what there is, how results show themselves, pictures, and one error for a mistake."""

import time
from typing import Any

import pytest

import servonode

BROADEST, MOST_LINES, MOST_CHARACTERS = 130, 30, 2500  # of what an object shows of itself


@pytest.fixture(scope="module")
def run() -> servonode.Run:
    return servonode.simulate("trailer_pursuit", run__duration=2.0)


@pytest.fixture(scope="module")
def loop() -> servonode.Loop:
    return servonode.load("trailer_pursuit", run__duration=2.0)


# what there is


# how things show themselves


def shown(loop: servonode.Loop, run: servonode.Run) -> list[Any]:
    assert loop.closed_loop.control is not None
    model = loop.closed_loop.source.build()
    program = loop.closed_loop.control.source.build(model, loop.closed_loop.control.options)
    symbolic = [loop.equations(), loop.servo()]
    numbers = [loop.closed_loop, loop.matrices(0.0)]
    return [loop, run, loop.check(), loop.machine, model, program, loop.closed_loop.control.law, *numbers, *symbolic]


def test_everything_shows_itself_in_few_lines_and_at_once(loop: servonode.Loop, run: servonode.Run) -> None:
    for each in shown(loop, run):
        begin = time.perf_counter()
        text, page = repr(each), each._repr_html_()
        assert time.perf_counter() - begin < 0.2
        assert len(text) <= MOST_CHARACTERS
        assert len(text.splitlines()) <= MOST_LINES
        assert max(map(len, text.splitlines())) <= BROADEST
        assert len(page) <= 4 * MOST_CHARACTERS
        assert "\u00a0" not in text


# pictures and movies


# runs on processes, and recordings


# one error for a mistake

# a call, and what its error must say: the value, the place, the remedy
