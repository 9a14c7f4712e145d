"""The commands that are methods of `Loop`: a row each, whose options are the parameters of the method."""

import inspect
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args, get_origin

import click

from servonode.cli import verb
from servonode.cli.command import Choice, Stated, Verb, command, option
from servonode.cli.options import AsJson, Launch, Open, Picture
from servonode.errors import StatementError, end_of_range

PIXELS_PER_INCH = 270


@dataclass(frozen=True)
class Method:
    """A command that calls the method of its name: what it is for, examples, exit codes.

    options: those of which more is to say than signature and docstring of the method do. strict: refuse a FILE that
    `run` would refuse. picture: whether the answer has one. section: of the help of servonode.
    """

    help: str
    examples: Sequence[str]
    exits: Mapping[int, str] = field(
        default_factory=lambda: {
            0: "computed",
            1: "the picture could not be made",
            **verb.BAD_USAGE,
            **verb.INTERRUPTED,
        }
    )
    options: Mapping[str, Stated] = field(default_factory=dict)
    strict: bool = True
    picture: bool = True
    section: str = "Explore"


class MethodVerb(Verb):
    """The command of a row. Its options are made when they are needed: the lists of commands load no `Loop`."""

    def __init__(self, name: str, row: Method) -> None:
        self._row = row
        super().__init__(name, help=row.help, examples=row.examples, exits=row.exits, section=row.section)

    @cached_property
    def _made(self) -> click.Command:
        from servonode.loop import Loop

        name, row = str(self.name), self._row
        method = getattr(Loop, name)
        stated = [
            each for each in inspect.signature(method).parameters.values() if each.name not in ("self", "progress")
        ]
        named = {each.name: get_args(each.annotation)[1] for each in stated if get_origin(each.annotation) is Mapping}

        def call(launch: Launch, as_json: bool, out: Path | None = None, opened: bool = False, **given: Any) -> None:
            from servonode.cli.start_checks import check_picture

            given |= {key: (_numbers if kind is float else _ranges)(given[key]) for key, kind in named.items()}
            if out is not None:
                check_picture(out)
            show(method(Loop(launch.resolved(strict=row.strict)), **given), as_json, out, opened)

        keyword, annotated = inspect.Parameter.KEYWORD_ONLY, cast("Any", Annotated)
        parameters = [inspect.Parameter("launch", keyword, annotation=Launch)]
        for each in stated:
            asked = row.options.get(each.name) or option(_help(name, each.name))
            default = each.default if each.default not in (None, (), {}) else inspect.Parameter.empty
            if get_origin(each.annotation) is Literal:
                asked = replace(asked, more={**asked.more, "type": Choice(get_args(each.annotation))})
            kind = annotated[_kind(each.annotation), asked]
            parameters.append(inspect.Parameter(each.name, keyword, default=default, annotation=kind))
        parameters.append(inspect.Parameter("as_json", keyword, annotation=AsJson))
        if row.picture:
            file = Path(f"{name}.png")
            parameters.append(inspect.Parameter("out", keyword, default=file, annotation=Picture))
            parameters.append(inspect.Parameter("opened", keyword, annotation=Open))
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {each.name: each.annotation for each in parameters}
        return command(row.examples, row.exits, name=name, help=row.help)(call)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The options, which are those of the method; they and what is called are there from now on."""
        self.params, self.callback = self._made.params, self._made.callback
        return super().get_params(ctx)


def _kind(annotation: Any) -> Any:
    """The type of an option, of that of a parameter: mappings and sequences are repeatable texts."""
    if get_origin(annotation) in (Mapping, Sequence):
        return tuple[str, ...]
    return str if get_origin(annotation) is Literal else annotation


def _ranges(texts: Sequence[str]) -> dict[str, tuple[float, float]]:
    """The ranges KEY=LOW:HIGH by their key.

    Raises:
        StatementError: one is not a range, or a key is there twice.
    """
    found: dict[str, tuple[float, float]] = {}
    for text in texts:
        key, _, ends = text.partition("=")
        low, colon, high = ends.partition(":")
        if not key or not colon:
            raise StatementError(f"{text!r} is not a range; give KEY=LOW:HIGH, such as plant.initial.phi=-1:1")
        if key.strip() in found:
            raise StatementError(f"{key.strip()} has two ranges; give each key once")
        found[key.strip()] = end_of_range(text, low), end_of_range(text, high)
    return found


def _numbers(texts: Sequence[str]) -> dict[str, float]:
    """The numbers NAME=NUMBER by their name."""
    try:
        return {name: float(number) for name, _, number in (each.partition("=") for each in texts)}
    except ValueError:
        raise click.UsageError(f"{' '.join(texts)} is not NAME=NUMBER") from None


def _help(name: str, parameter: str) -> str:
    """What the docstring of a method of `Loop` says of a parameter, or that of a method to which it refers."""
    from servonode.loop import Loop

    text = inspect.cleandoc(getattr(Loop, name).__doc__)
    stated = re.search(rf"^ +(?:\w+, )*{parameter}(?:, \w+)*: (.*(?:\n {{8}}.*)*)", text, re.MULTILINE)
    if stated and not stated[1].startswith("see "):
        whole = " ".join(stated[1].replace("`", "").split())
        return whole[0].upper() + whole[1:]
    others = [each for each in re.findall(r"(?:see|as for) `(\w+)`", text) if hasattr(Loop, each)]
    return next(filter(None, (_help(each, parameter) for each in others)), "")


def show(answer: Any, as_json: bool, out: Path | None, opened: bool = False) -> None:
    """Print what was found and write its picture, which may be opened; exit code 1 where that cannot be."""
    failure = "" if out is None else verb.made(lambda: answer.plot().savefig(out, dpi=PIXELS_PER_INCH))
    picture = {} if out is None else {"picture": None if failure else str(out)}
    click.echo(json.dumps(answer.as_dict() | picture) if as_json else repr(answer))
    if out is not None:
        line = f"servonode: {out}: {failure}" if failure else f"  picture  {out}"
        click.echo(line, err=as_json or bool(failure))
        if not failure:
            verb.picture_made(out, as_json, opened)
    sys.exit(int(bool(failure)))
