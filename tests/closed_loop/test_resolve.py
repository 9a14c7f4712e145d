"""Resolving in stages: the machine is loaded once, a stage changes nothing of one before, errors are worded once."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from servonode.closed_loop.closed_loop import resolve
from servonode.closed_loop.launch_error import LaunchError, ProgramRefused, ProgramUnfit, naming_file, stated_in
from servonode.closed_loop.launch_file import read_launch
from servonode.closed_loop.parts import cached_property
from servonode.definitions.cache import CacheError
from servonode.errors import StatementError, about
from servonode.mechanics.expression import ExpressionError
from servonode.mechanics.machine import Machine, ParameterError
from servonode.plants import MachineSource
from servonode.plants.prepare import Unprepared


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[MachineSource]:
    """The machines that are loaded, one after the other."""
    found: list[MachineSource] = []
    load = MachineSource.load

    def noted(source: MachineSource, parameters: Any) -> Machine:
        found.append(source)
        return load(source, parameters)

    monkeypatch.setattr(MachineSource, "load", noted)
    return found


@pytest.mark.parametrize(
    ("name", "overrides"),
    [("hoop_source", []), ("trailer_pursuit", []), ("trailer_pursuit", ["controller.parameters.m2=2.5"])],
)
def test_a_machine_is_loaded_once(loads: list[MachineSource], name: str, overrides: list[str]) -> None:
    resolve(read_launch(name, overrides))
    assert len(loads) == 1


def test_the_law_has_a_machine_of_its_own_where_it_believes_in_another(loads: list[MachineSource]) -> None:
    closed_loop = resolve(read_launch("trailer_pursuit", ["plant.disturbance.U1=0.01"]))
    assert closed_loop.control is not None
    assert loads == [closed_loop.source, closed_loop.control.believed]


def test_a_law_that_has_started_is_another_one() -> None:
    closed_loop = resolve(read_launch("trailer_pursuit", []))
    assert closed_loop.control is not None
    law = closed_loop.control.law
    before, constants = dict(law.parameters), law.c.copy()
    x = law.machine.state({"X": 1.0})
    other = law.started(0.0, x, closed_loop.goal(0.0), ())
    assert other.parameters["rho0"] != before["rho0"]
    assert law.parameters == before
    assert np.array_equal(law.c, constants)
    assert np.array_equal(other.K, law.K)
    assert other.with_parameters({"rho0": before["rho0"]}).parameters == before


def line(error: Exception, **more: Any) -> str:
    """What a user reads of an error within a section."""
    with pytest.raises(LaunchError) as caught, naming_file("a.toml"), stated_in("plant", "machine", **more):
        raise error
    return str(caught.value)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ParameterError("m", "0 kg"), "a.toml [plant] m: 0 kg"),
        (Unprepared("plant.initial", "q", "no such point"), "a.toml [plant.initial] q: no such point"),
        (ExpressionError("bad"), "a.toml [plant] machine: bad"),
        (LaunchError("b.toml", "run", None, "as it is"), "b.toml [run]: as it is"),
    ],
)
def test_what_is_refused_names_the_place_that_it_knows_or_else_the_one_it_is_in(error: Exception, text: str) -> None:
    assert line(error) == text


def test_words_stand_around_what_is_refused() -> None:
    assert line(ExpressionError("bad"), before="x: ", after=" at 1 s") == "a.toml [plant] machine: x: bad at 1 s"


def test_a_refusal_is_of_the_kind_of_the_place_it_is_in() -> None:
    with pytest.raises(ProgramRefused), naming_file("a.toml"), stated_in("controller", "program", ProgramUnfit):
        raise StatementError("not here")
    with pytest.raises(LaunchError) as caught, naming_file("a.toml"), stated_in("controller", "program", ProgramUnfit):
        raise Unprepared("plant.initial", "q", "no such point")
    assert type(caught.value) is LaunchError


def test_threads_make_a_part_of_several_closed_loops_at_once() -> None:
    both = threading.Barrier(2)

    class Loop:
        @cached_property
        def place(self) -> int:
            return both.wait(60)

    with ThreadPoolExecutor(2) as threads:
        assert sorted(threads.map(lambda loop: loop.place, (Loop(), Loop()))) == [0, 1]


def test_what_is_no_refusal_is_not_worded() -> None:
    with pytest.raises(CacheError), naming_file("a.toml"), stated_in("plant"):
        raise CacheError("the disk is full")


def test_the_innermost_name_is_the_one_that_is_kept() -> None:
    with pytest.raises(StatementError) as caught, about("outer"), about("inner"):
        raise StatementError("not so")
    assert caught.value.key == "inner"
