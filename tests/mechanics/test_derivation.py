"""A machine is derived once while a launch file is resolved, and its equations are forgotten afterwards."""

import gc
import os
import subprocess
import sys
import weakref
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from servonode.mechanics import derive
from servonode.mechanics.derivation import derivation, derived_once
from tests.helpers.packaged import model_factory

BALL = model_factory("ball_on_turntable")


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests of other files share equations; here each test begins without."""
    monkeypatch.setattr("servonode.mechanics.derivation._kept", ContextVar("_kept", default=None))


@pytest.fixture
def derived(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the machines that are derived during the test."""
    names: list[str] = []
    real = derive.derive

    def counted(model: Any) -> Any:
        names.append(model.name)
        return real(model)

    monkeypatch.setattr(derive, "derive", counted)
    return names


def test_a_machine_is_derived_once_within_it_and_each_time_without(derived: list[str]) -> None:
    with derived_once(), derived_once():
        first, second = (derivation("key", BALL).equations for _ in range(2))
    assert first is second
    assert derivation("key", BALL).equations is not first
    assert derived == ["ball_on_turntable"] * 2


def test_a_machine_of_another_key_is_derived_itself(derived: list[str]) -> None:
    with derived_once():
        assert derivation("one", BALL).equations is not derivation("another", BALL).equations
    assert len(derived) == 2


def test_the_equations_are_forgotten_at_the_end() -> None:
    with derived_once():
        kept = weakref.ref(derivation("key", BALL))
        assert kept() is not None
    gc.collect()
    assert kept() is None


def test_what_fails_is_not_kept() -> None:
    def fails() -> Any:
        raise ValueError("no such machine")

    with derived_once():
        with pytest.raises(ValueError, match="no such machine"):
            derivation("key", fails)
        assert derivation("key", BALL).model.name == "ball_on_turntable"


FIRST_RUN = """
import servonode
from servonode.mechanics import derive

real = derive.derive
derive.derive = lambda model: print(model.name) or real(model)
servonode.simulate("trailer_rates", run__duration=0.01)
"""


@pytest.mark.slow
def test_a_first_run_derives_plant_and_law_from_one_derivation(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    run = subprocess.run([sys.executable, "-c", FIRST_RUN], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["diff_drive_trailer"]
