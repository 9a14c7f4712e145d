"""What is wrong with a launch file: whoever resolves a section refuses a key, one place names the file.

A section's own functions raise `KeyRefused`; `naming_file` makes a LaunchError of it, which a user sees.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from servonode.errors import StatementError, did_you_mean

if TYPE_CHECKING:
    from servonode.controllers import ServoLaw

LONGEST_PART = 1000  # characters of each part of an error, whatever is quoted in it


class LaunchError(StatementError):
    """One line: `file [section] key: what is wrong; how to fix it`.

    Where the value came from the command line, `option` is named instead: `file --set option: ...`; where it was an
    argument of a Python function, `argument` is: `file, argument: ...`.
    """

    argument: str | None = None

    def __init__(
        self, file: str | Path, section: str | None, key: str | None, text: str, option: str | None = None
    ) -> None:
        super().__init__(file, section, key, text, option)
        self.file, self.section, self.key, self.text, self.option = str(file), section, key, text, option

    def __str__(self) -> str:
        section = f"[{self.section}]" if self.section else None
        option = self.argument or f"--set {self.option}"
        place = (option,) if self.option is not None else (section, self.key)
        line = " ".join([self.file or '""', *(_cut(part) for part in place if part)]) + f": {_cut(self.text)}"
        return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


class ProgramRefused(LaunchError):
    """The program is given well, but it cannot or must not run on this machine. `law`: its law, where it has one."""

    law: "ServoLaw | None" = None


class KeyRefused(StatementError):
    """A section or key of a launch file, whose name is not known where it is refused; the text has the remedy."""

    def __init__(self, section: str, key: str | None, text: str) -> None:
        super().__init__(section, key, text)
        self.section, self.key, self.text = section, key, text

    def __str__(self) -> str:
        return self.text


class ProgramUnfit(KeyRefused):
    """A program that is given well, and cannot or must not run on this machine: a
    ProgramRefused, once its file is named."""

    law: "ServoLaw | None" = None


class CodeRefused(LaunchError):
    """A launch file, or that in a recording, names Python code that must not run; the text names it and the remedy."""


class UnknownCode(KeyRefused):
    """A machine or program is Python code that must not run: a CodeRefused, once its file is named."""


@contextmanager
def naming_file(file: str | Path) -> Iterator[None]:
    """What is refused within, of a section or key, is a LaunchError of this file."""
    try:
        yield
    except ProgramUnfit as error:
        refusal = ProgramRefused(file, error.section, error.key, error.text)
        refusal.law = error.law
        raise refusal from None
    except KeyRefused as error:
        kind = CodeRefused if isinstance(error, UnknownCode) else LaunchError
        raise kind(file, error.section, error.key, error.text) from None


@contextmanager
def stated_in(
    section: str, key: str | None = None, kind: type[KeyRefused] = KeyRefused, before: str = "", after: str = ""
) -> Iterator[None]:
    """What is refused within, by whoever does not know launch files, is about a section and key.

    It is about those that the refusal names, else about these, and then of this kind.
    """
    try:
        yield
    except (KeyRefused, LaunchError):
        raise
    except StatementError as error:
        kind = KeyRefused if error.section else kind
        raise kind(error.section or section, error.key or key, f"{before}{error}{after}") from None


def check_names(section: str, given: Iterable[str], valid: Collection[str]) -> None:
    """Raise KeyRefused for the first of `given` not in `valid`, with the nearest one and the list."""
    for name in given:
        if name not in valid:
            raise KeyRefused(section, name, unknown("unknown name", name, valid))


def per_name(
    section: str, key: str, value: float | Mapping[str, float] | None, names: Sequence[str], default: float
) -> tuple[float, ...]:
    """The values of `key` in the order of `names`: a number stands for all, a table for those it names.

    What is absent is `default`. Raises KeyRefused for a name in the table that is not in `names`.
    """
    if not isinstance(value, Mapping):
        return (default if value is None else float(value),) * len(names)
    check_names(f"{section}.{key}", value, names)
    return tuple(float(value.get(name, default)) for name in names)


def unknown(problem: str, name: str, valid: Collection[str]) -> str:
    """The problem with the nearest valid name and the list."""
    near = did_you_mean(name, valid)
    return f"{problem}; {near}{'C' if near else 'c'}hoose {choices(sorted(valid))}"


def choices(names: Iterable[str]) -> str:
    """`a, b or c`."""
    *most, last = list(names) or ["nothing: there are no names here"]
    return f"{', '.join(most)} or {last}" if most else last


def _cut(part: str) -> str:
    """The part, without its end where it is too long to be read."""
    return part if len(part) <= LONGEST_PART else f"{part[:LONGEST_PART]}..."
