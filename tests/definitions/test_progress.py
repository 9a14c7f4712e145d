"""The line that says what a long derivation does."""

import io

import pytest

from servonode.definitions import progress
from servonode.definitions.progress import counted, doing, done, progress_of


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
