"""The examples in docstrings of this wing, and of the public functions and methods that it answers."""

import doctest
from pathlib import Path

import pytest

from tests.helpers.extras import of_sweeps
from tests.test_docstring_examples import OF_WINGS, asks, examples, plays

FOUND = [
    *(each for each in examples() if asks(each) in OF_WINGS),
    *examples(["servonode.wings.explore.linear.frequency_response"]),
]


@pytest.mark.parametrize("example", FOUND, ids=lambda example: example.name.removeprefix("servonode."))
def test_an_example_prints_what_it_says(
    example: doctest.DocTest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if asks(example) == "sweep":
        of_sweeps("xarray")
    plays(example, tmp_path, monkeypatch)


def test_every_function_that_the_wing_answers_has_an_example() -> None:
    assert {asks(each) for each in FOUND} >= set(OF_WINGS)
