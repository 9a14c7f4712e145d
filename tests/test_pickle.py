"""Runs and loops go through pickle, so that joblib, dask and process pools can return them."""

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import servonode
from servonode.definitions.references import _renew, reference_to
from servonode.errors import StatementError
from servonode.plants.diff_drive_trailer import model

FREE = {"run": {"duration": 0.02}, "plant": {"machine": model}}


def pickled(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


def assert_same(one: servonode.Run, other: servonode.Run) -> None:
    assert type(one) is type(other)
    for name, column in one.columns.items():
        np.testing.assert_array_equal(column, other.columns[name])


@pytest.mark.parametrize("again", [pickled, copy.copy, copy.deepcopy, lambda run: pickled(pickled(run))])
def test_a_run_has_the_same_columns_and_text_after_it_was_pickled_or_copied(again: Callable[[Any], Any]) -> None:
    run = servonode.simulate("trailer_pursuit", run__duration=0.2, controller__gains__lambda=3.0)
    assert repr(again(run)) == repr(run)
    assert_same(run, again(run))


def test_a_copy_has_the_closed_loop_of_its_run_and_what_cannot_be_resolved_says_why_each_time() -> None:
    run = servonode.simulate(FREE)
    assert copy.copy(run).closed_loop is run.closed_loop
    again = pickled(run)
    vars(again)["_stated"] = (int, ("no machine",))
    for _ in range(2):
        with pytest.raises(ValueError, match="no machine"):
            _ = again.closed_loop


def test_a_loop_simulates_the_same_bits_after_it_was_pickled() -> None:
    loop = servonode.load("trailer_pursuit", run__duration=0.2)
    assert_same(
        loop.simulate(values={"plant.initial.phi": 0.1}), pickled(loop).simulate(values={"plant.initial.phi": 0.1})
    )


@pytest.mark.parametrize("machine", [model, model()], ids=["function", "Model"])
def test_a_run_of_a_machine_in_memory_is_resolved_in_another_process(machine: Any) -> None:
    run = servonode.simulate({**FREE, "plant": {"machine": machine}})
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer).closed_loop.machine.description.name)"
    found = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(run), capture_output=True, check=True)
    assert found.stdout.decode().strip() == "diff_drive_trailer"


def test_of_a_function_without_a_name_in_a_module_goes_what_it_returns() -> None:
    run = servonode.simulate(lambda: model(), duration=0.02)
    again = pickled(run)
    assert_same(run, again)
    assert again.closed_loop.machine.description.name == "diff_drive_trailer"


def test_what_no_other_process_can_make_is_refused_when_it_is_pickled() -> None:
    run = servonode.simulate(lambda kind="large": model(), duration=0.02)  # noqa: ARG005
    with pytest.raises(
        StatementError, match=r"cannot be pickled .*; write it into a file, and name the file"
    ) as raised:
        pickle.dumps(run)
    assert "\n" not in str(raised.value)


def test_a_pickle_of_another_process_is_not_taken_for_what_is_here() -> None:
    first = servonode.load(model()).closed_loop.launch.plant.machine
    _renew()  # as after a fork, and as in a process that has the number of an earlier one
    assert reference_to(lambda: model()).split()[1] != first.split()[1]


def test_a_model_alone_is_a_machine_without_a_law_for_one_second() -> None:
    assert servonode.load(model()).closed_loop.launch.run.duration == 1.0
    assert servonode.simulate(model(), run__duration=0.02).fault is None


def test_what_is_no_launch_is_shown_on_one_line() -> None:
    with pytest.raises(StatementError) as raised:
        servonode.load(["word"] * 100)  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 250


def test_the_package_runs_as_a_module() -> None:
    found = subprocess.run([sys.executable, "-m", "servonode", "--version"], capture_output=True, text=True, check=True)
    assert found.stdout.startswith("servonode ")
