"""How far a derivation or many runs have come: in a terminal, in a log, by calls of a function."""

import io
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from servonode.definitions import progress
from servonode.definitions.progress import counted, doing, done, progress_of, task
from servonode.errors import StatementError


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_each_part_and_at_the_end_the_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "FIRST", 0.0)
    monkeypatch.setattr(progress, "PERIOD", 0.0)
    stream = Terminal()
    with progress_of("machine car", stream):
        assert list(counted("deriving", "row", ["a", "b"])) == ["a", "b"]
        doing("compiling", "12 lines")
        done("machine car: derived in 1.0 s")
    lines = [each.strip() for each in stream.getvalue().split("\r") if each.strip()]
    assert lines == [
        "deriving machine car: row (1 of 2) ...",
        "deriving machine car: row (2 of 2) ...",
        "compiling machine car: 12 lines ...",
        "machine car: derived in 1.0 s",
    ]


@pytest.mark.parametrize(("stream", "first"), [(io.StringIO(), 0.0), (Terminal(), 60.0)])
def test_elsewhere_and_of_what_is_quick_nothing_is_written(
    stream: io.StringIO, first: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "FIRST", first)
    with progress_of("machine car", stream):
        doing("deriving", "row")
        done("machine car: derived in 0.1 s")
    assert stream.getvalue() == ""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the time."""
    now = SimpleNamespace(t=100.0)
    monkeypatch.setattr(progress, "monotonic", lambda: now.t)
    return lambda t: setattr(now, "t", t)


def runs(clock: Callable[[float], None], begin: float = 160.0) -> None:
    """A task of 100 runs, of which 40 are there: the others take a minute to begin, then ten seconds."""
    told = task()
    told.resumed(40)
    told.plan(60)
    clock(begin)
    told.noted = "1 failed"
    told.at(50)
    clock(begin + 2.0)
    told.at(60)
    told.more(5)
    clock(begin + 10.0)
    told.at(105)


def bar(full: int, text: str) -> str:
    return f"[{'#' * full:.<24}] {text}"


def test_a_terminal_sees_a_bar_with_what_is_left_and_at_last_the_time(clock: Callable[[float], None]) -> None:
    stream = Terminal()
    with progress_of("sweep", stream):
        runs(clock)
    assert [each.strip() for each in stream.getvalue().split("\r")] == [
        "",
        bar(12, "50 of 100 runs, 1 failed"),
        bar(14, "60 of 100 runs, 1 failed, 8 s left"),
        bar(24, "105 of 105 runs, 1 failed, in 70 s"),
        bar(24, "105 of 105 runs, 1 failed, in 70 s"),
    ]
    assert stream.getvalue().endswith("\n")


def test_a_log_has_a_line_every_few_seconds_where_it_is_asked_for(clock: Callable[[float], None]) -> None:
    stream = io.StringIO()
    with progress_of("sweep", stream, True):
        runs(clock)
    assert stream.getvalue().splitlines() == [
        bar(12, "50 of 100 runs, 1 failed"),
        bar(24, "105 of 105 runs, 1 failed, in 70 s"),
    ]


@pytest.mark.parametrize("asked", [None, False])
def test_a_file_has_nothing_and_who_wants_none_has_none(asked: bool | None, clock: Callable[[float], None]) -> None:
    stream = io.StringIO() if asked is None else Terminal()
    with progress_of("sweep", stream, asked):
        runs(clock)
        with progress_of("machine car", Terminal()):
            doing("deriving", "row")
    assert stream.getvalue() == ""


def test_a_function_is_called_with_what_is_done_of_how_many_and_with_what_is_derived_within(
    clock: Callable[[float], None],
) -> None:
    calls = list[Any]()
    with progress_of("sweep", Terminal(), lambda *given: calls.append(given)):
        runs(clock)
        with progress_of("machine car", Terminal()):
            list(counted("deriving", "row", ["a", "b"]))
    assert calls == [
        (40, 100, "runs"), (50, 100, "runs"), (60, 100, "runs"), (105, 105, "runs"),
        (0, 2, "deriving machine car: row (1 of 2)"),
    ]  # fmt: skip


def test_a_function_may_leave_the_text_out_and_what_it_raises_ends_the_task(clock: Callable[[float], None]) -> None:
    calls = list[Any]()
    with progress_of("sweep", progress=lambda finished, of: calls.append((finished, of))):
        runs(clock)
    assert calls[-1] == (105, 105)

    def interrupting(*_: Any) -> None:
        calls.append("once")
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"), progress_of("sweep", progress=interrupting):
        runs(clock)
    assert calls[-2:] == [(105, 105), "once"]


def test_a_notebook_has_one_display_that_changes(
    clock: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = list[str]()

    def display(data: dict[str, str], **_: Any) -> Any:
        shown.append(data["text/plain"])
        return SimpleNamespace(update=lambda data, **_: shown.append(data["text/plain"]))

    kernel, library = SimpleNamespace(kernel=1), SimpleNamespace(display=display)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: kernel, display=library))
    with progress_of("sweep", io.StringIO()):
        runs(clock)
    assert (shown[0], shown[-1]) == (bar(12, "50 of 100 runs, 1 failed"), bar(24, "105 of 105 runs, 1 failed, in 70 s"))


def test_progress_is_a_function_or_says_whether_there_is_a_line() -> None:
    asked: Any = 3
    with (
        pytest.raises(StatementError, match="3 is neither True nor False nor a function; give"),
        progress_of("", None, asked),
    ):
        pass
