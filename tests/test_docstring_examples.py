"""The examples in docstrings of public functions, run as they stand: each must print what it says."""

import doctest
import importlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.helpers.extras import of_sweeps, oracle

MODULES = (
    "servonode.api",
    "servonode.loop",
    "servonode.record.run",
    "servonode.mechanics.functions",
    "servonode.mechanics.join",
    "servonode.mechanics.model",
    "servonode.mechanics.sensors",
    "servonode.mechanics.symbols",
    "servonode.controllers.engine.program",
)
# public functions and methods that a wing answers: tests/wings/explore plays their examples
OF_WINGS = (
    "fastest", "frequency_response", "identify", "margins", "poles", "region", "robustness", "sweep", "tune",
)  # fmt: skip
LEAST = 35  # examples; each of a public function or method


def examples(modules: Sequence[str] = MODULES) -> list[doctest.DocTest]:
    """The docstrings with examples, each run with nothing but what it imports itself."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = [test for name in modules for test in finder.find(importlib.import_module(name), globs={})]
    return [test for test in found if test.examples]


def asks(example: doctest.DocTest) -> str:
    """The name of the function or method that an example shows."""
    return example.name.rpartition(".")[2]


def plays(example: doctest.DocTest, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An example prints what it says, and leaves nothing in the folder."""
    monkeypatch.chdir(folder)
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.FAIL_FAST)
    runner.run(example, out=said.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(said)
    assert list(folder.iterdir()) == []


OWN = [each for each in examples() if asks(each) not in OF_WINGS]


@pytest.mark.parametrize("example", OWN, ids=lambda example: example.name.removeprefix("servonode."))
def test_an_example_prints_what_it_says(
    example: doctest.DocTest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if "to_dataframe" in example.docstring:
        oracle("pandas")
    if "to_xarray" in example.docstring:
        of_sweeps("xarray")
    plays(example, tmp_path, monkeypatch)


def test_there_are_examples_of_what_users_call() -> None:
    names = {example.name.rpartition(".")[2] for example in examples()}
    assert len(examples()) >= LEAST
    assert {"simulate", "run", "check", "load", "law", "Model", "Program", "together", "watch", "first_order"} <= names


def test_an_example_that_is_wrong_is_found() -> None:
    wrong = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, 0)
    runner = doctest.DocTestRunner()
    runner.run(wrong, out=lambda _: None)
    assert runner.summarize(verbose=False).failed == 1
