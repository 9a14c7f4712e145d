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
from servonode.cli.command import Stated, Verb, command, option
from servonode.cli.options import COUNT, AsJson, Launch, Picture

PIXELS_PER_INCH = 270
TRIES, MANY = click.IntRange(min=1, max=10_000), 1_000_000


@dataclass(frozen=True)
class Method:
    """A command that calls the method of its name: what it is for, examples, exit codes.

    options: those of which more is to say than signature and docstring of the method do. strict: refuse a FILE that
    `run` would refuse. picture: whether the answer has one.
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


KEPT = 'What a run must keep besides, as "max(abs(phi)) < 1.5" or "NAME: max(abs(phi)) < 1.5" (repeatable).'
OPTIONS = {  # of parameters that several methods have
    "over": option("A key of FILE and the range in which it varies (repeatable).", "KEY=LOW:HIGH", required=True),
    "require": option(KEPT, "MEASURE<NUMBER"),
    "threads": option("Number of threads (default: one per processor).", "N", COUNT),
}
METHODS = {
    "region": Method(
        "Find the starts from which FILE reaches its goal.\n\n"
        "One range or two are tried on a grid that is refined at the boundaries, more of them at random. A run reaches "
        "its goal where its residuals are small beside the goal in the last quarter, without a fault.",
        (
            "servonode region trailer_look_ahead --over plant.initial.phi=-3:3 --over plant.initial.psi=-3:3",
            'servonode region trailer_look_ahead --over plant.initial.phi=-3:3 --require "folds: max(abs(phi)) < 1.5"',
            "servonode region sphero_pursuit --over plant.initial.X=-9:9 --over plant.initial.Y=-9:9 --points 33",
        ),
        options={
            "points": option("Grid nodes along each range at first.", "N", click.IntRange(3, 257)),
            "runs": option("Try so many values at random, without a grid.", "N", click.IntRange(1, MANY)),
        },
        strict=False,
    ),
    "robustness": Method(
        "Find how much error, noise and delay FILE bears.\n\n"
        "The law keeps its parameters and rates while those of the plant, the noise, a delay that it does not know and "
        "the control period grow, one at a time. A margin is the largest size at which 90 % of the runs reach their "
        "goal.",
        (
            "servonode robustness trailer_pursuit --set run.duration=20",
            'servonode robustness trailer_pursuit --require "max(abs(residual_speed)) < 0.05" --seeds 20',
        ),
        options={"seeds": option("Runs with other seeds at each size where noise acts.", "N", TRIES)},
    ),
    "tune": Method(
        "Find the numbers of FILE for which a cost is least.\n\n"
        "The default cost is the integrals of the residuals and a tenth of the effort, both over those of FILE itself. "
        "The best candidate that check passes is printed as lines of a launch file.",
        (
            "servonode tune trailer_look_ahead --over controller.gains.lambda=0.2:20",
            'servonode tune sphero_line --over controller.gains.lambda=1:20 --cost "integral(abs(residual_rolling))"',
        ),
        options={
            "cost": option('What is to be least, as "integral(abs(residual_x)) + 0.1*max(U1)".', "EXPRESSION"),
            "runs": option("Number of runs at most.", "N", click.IntRange(10, MANY)),
            "seeds": option("Runs of each candidate where noise acts.", "N", click.IntRange(1, 1000)),
        },
        strict=False,
    ),
    "fastest": Method(
        "Find how fast the goal of FILE may be driven.\n\n"
        "The time of the goal's functions of t runs faster, and the run is as much shorter. The largest speed is found "
        "by bisection over runs; the input that is at its limit first is named with its time.",
        ("servonode fastest snowboarder_too_weak", "servonode fastest trailer_pursuit --set plant.actuator.limit=0.4"),
        strict=False,
    ),
}


class MethodVerb(Verb):
    """The command of a row. Its options are made when they are needed: the lists of commands load no `Loop`."""

    def __init__(self, name: str, row: Method) -> None:
        self._row = row
        super().__init__(name, help=row.help, examples=row.examples, exits=row.exits)

    @cached_property
    def _made(self) -> click.Command:
        from servonode.loop import Loop

        name, row = str(self.name), self._row
        method = getattr(Loop, name)
        stated = list(inspect.signature(method).parameters.values())[1:]
        named = {each.name: get_args(each.annotation)[1] for each in stated if get_origin(each.annotation) is Mapping}

        def call(launch: Launch, as_json: bool, out: Path | None = None, **given: Any) -> None:
            from servonode.cli.start_checks import check_picture

            given |= {key: (_numbers if kind is float else _ranges)(given[key]) for key, kind in named.items()}
            if out is not None:
                check_picture(out)
            show(method(Loop(launch.resolved(strict=row.strict)), **given), as_json, out)

        keyword, annotated = inspect.Parameter.KEYWORD_ONLY, cast("Any", Annotated)
        parameters = [inspect.Parameter("launch", keyword, annotation=Launch)]
        for each in stated:
            asked = row.options.get(each.name) or OPTIONS.get(each.name) or option(_help(name, each.name))
            default = each.default if each.default not in (None, (), {}) else inspect.Parameter.empty
            if get_origin(each.annotation) is Literal:
                asked = replace(asked, more={**asked.more, "type": click.Choice(get_args(each.annotation))})
            kind = annotated[_kind(each.annotation), asked]
            parameters.append(inspect.Parameter(each.name, keyword, default=default, annotation=kind))
        parameters.append(inspect.Parameter("as_json", keyword, annotation=AsJson))
        if row.picture:
            file = Path(f"{name}.png")
            parameters.append(inspect.Parameter("out", keyword, default=file, annotation=Picture))
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
    """The ranges KEY=LOW:HIGH by their key."""
    from servonode.wings.explore.sweeps.ranges import stated_ranges

    return {each.key: (each.low, each.high) for each in stated_ranges(texts)}


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


def show(answer: Any, as_json: bool, out: Path | None) -> None:
    """Print what was found and write its picture; exit code 1 where that cannot be."""
    failure = "" if out is None else verb.made(lambda: answer.plot().savefig(out, dpi=PIXELS_PER_INCH))
    picture = {} if out is None else {"picture": None if failure else str(out)}
    click.echo(json.dumps(answer.as_dict() | picture) if as_json else repr(answer))
    if out is not None:
        line = f"servonode: {out}: {failure}" if failure else f"  picture  {out}"
        click.echo(line, err=as_json or bool(failure))
    sys.exit(int(bool(failure)))
