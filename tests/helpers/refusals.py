"""Refusals: what a call raises, and the one line with which a command ends."""

from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result

from servonode.cli.main import main


def refusal(error: type[Exception], call: Callable[..., Any], *args: Any, **named: Any) -> str:
    """The text of the error that the call raises."""
    with pytest.raises(error) as caught:
        call(*args, **named)
    return str(caught.value)


def command(*words: str) -> Result:
    """The command line in this process; an exception that is no exit is raised."""
    result = CliRunner().invoke(main, words)
    if not isinstance(result.exception, SystemExit | None):
        raise result.exception
    return result


def line_of(result: Result, code: int = 2) -> str:
    """The one line on stderr of a command that ended with this code, without the program's name."""
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    line, end, rest = result.stderr.partition("\n")
    assert (end, rest) == ("\n", "")
    assert line.startswith("servonode: ")
    return line.removeprefix("servonode: ")


def refused_command(*words: str) -> str:
    """The one line, without the program's name, of a command that is refused."""
    return line_of(command(*words))


def has_passages(text: str, passages: str) -> bool:
    """Whether a text begins with the first of these passages and has the others after it (` ... ` parts them)."""
    first, *others = passages.split(" ... ")
    if not text.startswith(first):
        return False
    rest = text.removeprefix(first)
    for each in others:
        _, said, rest = rest.partition(each)
        if not said:
            return False
    return True
