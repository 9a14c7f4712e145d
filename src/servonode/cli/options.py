"""The arguments and options that several commands have, as types of their parameters, and what they may be."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from servonode.cli import complete
from servonode.cli.command import argument, option, output

if TYPE_CHECKING:
    from servonode.closed_loop.closed_loop import ClosedLoop
    from servonode.closed_loop.fleet import Fleet

WHICH_RUN = "RUN is the name or the folder of a run in progress. Without RUN, the command takes your only run."


class FiniteRange(click.FloatRange):
    """A number within bounds; nan and inf are refused whatever the bounds are."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        return number


class Port(click.IntRange):
    """A port number; the error for a bad one says how to write the option."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is not a port from 1 to 65535; write --page after FILE, or --page=8642", param, ctx)


class Address(click.ParamType[str]):
    """An address; the error says how to write the option, because a FILE after it would be taken for its value."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if "://" not in value:
            said = f"{value!r} is not an address such as tcp://127.0.0.1:9872"
            self.fail(f"{said}; write --telemetry after FILE, or --telemetry=ADDRESS", param, ctx)
        return value


ABOVE_ZERO = FiniteRange(min=0, min_open=True)
COUNT = click.IntRange(min=1)
CODE = (
    "Run, or refuse, Python code that FILE names, with your rights. Without either that of a launch file runs, of "
    "a recording what stands below the working directory as it was recorded."
)
SET = "Override a launch-file key (repeatable)."
WAIT = FiniteRange(min=0, min_open=True, max=3600)
REPORTS = "Write a report: a picture or, with the ending .html, a page (repeatable)."

Overrides = Annotated[tuple[str, ...], option(SET, "KEY=VALUE", flag="--set", shell_complete=complete.keys)]
Code = Annotated[bool | None, option(CODE, flag="--code/--no-code", default=None)]
AsJson = Annotated[bool, option("Print one JSON object on stdout.", flag="--json")]
OneRun = Annotated[str | None, argument("[RUN]", required=False, shell_complete=complete.runs)]
Wait = Annotated[float, option("Wait this long for the first answer.", "SECONDS", WAIT, default=5.0, show_default=True)]
Key = Annotated[str | None, option("Use this key pair (servonode keys).", "NAME", shell_complete=complete.key_pairs)]
Out = Annotated[Path | None, output("Write all signals of the run to this CSV file.", "FILE.csv")]
Open = Annotated[bool, option("Open what is made in a browser, where there is a display.", flag="--open")]
Every = Annotated[int | None, option("Number of plant steps per recorded row.", "N", COUNT)]
Reports = Annotated[tuple[Path, ...], option(REPORTS, "FILE.png|.html", flag="--report")]
Panels = Annotated[
    tuple[str, ...], option("Add a panel that shows these signals (repeatable).", "NAME,NAME", flag="--panel")
]
Page = Annotated[
    int | None,
    option("Serve a browser page that shows the run.", "[PORT]", Port(0, 65535), is_flag=False, flag_value=0),
]


@dataclass(frozen=True)
class Launch:
    """A launch file, or a recording with one in it, with changed keys. code: whether code that it names may run."""

    file: Annotated[str, argument("FILE", shell_complete=complete.launch_files)]
    overrides: Overrides
    code: Code

    def resolved(self, strict: bool = True) -> "ClosedLoop":
        """The closed loop; with `strict` false it may be one that a run would refuse to start."""
        if self._is_recording():
            from servonode.record.bag import read_bag

            return read_bag(Path(self.file)).closed_loop(self.overrides, code=self.code, strict=strict)
        from servonode.closed_loop.closed_loop import resolve
        from servonode.closed_loop.launch_file import read_launch

        return resolve(read_launch(self.file, self.overrides), strict=strict, code=self.code is not False)

    def _is_recording(self) -> bool:
        """Whether it is a recording, or the part FILE.mcap/ROBOT of one."""
        above = Path(self.file).parent
        return self.file.endswith(".mcap") or (above.suffix == ".mcap" and above.is_file())

    def but(self, *overrides: str) -> "Launch":
        """The same with more changed keys."""
        return replace(self, overrides=(*self.overrides, *overrides))

    def fleet(self, strict: bool = True) -> "tuple[Fleet, dict[str, ClosedLoop]] | None":
        """The robots of a launch file with [robots], and the closed loop of each; None of another file."""
        if self._is_recording():
            return None
        from servonode.closed_loop.fleet import read_fleet, resolve_fleet

        fleet = read_fleet(self.file, self.overrides)
        return None if fleet is None else (fleet, resolve_fleet(fleet, strict=strict, code=self.code is not False))


@dataclass(frozen=True)
class Window:
    """The options of a window beside a run."""

    panels: Panels
    window: Annotated[float | None, option("Length of plant time that the window shows.", "SECONDS", ABOVE_ZERO)]
    save: Annotated[Path | None, option("File that the key s of the window writes.", "FILE.png")]


@dataclass(frozen=True)
class Movie:
    """The options of a movie."""

    movie: Annotated[Path | None, option("Write a movie of the run.", "FILE.mp4|.gif")]
    fps: Annotated[
        float | None, option("Frames per second of the movie (default: 30).", "RATE", FiniteRange(min=1, max=120))
    ]
    speed: Annotated[
        float | None,
        option(
            "Plant seconds per second of the movie (default: run.speed, or more for a long run).", "FACTOR", ABOVE_ZERO
        ),
    ]
    panels: Annotated[
        tuple[str, ...],
        option("Show a panel with these signals in the movie (repeatable).", "NAME,NAME", flag="--panel"),
    ]


RunOrFile = Annotated[str | None, argument("[RUN|FILE]", required=False, shell_complete=complete.runs_or_launch_files)]
Picture = Annotated[Path, output("Where to write the picture.", "FILE.png")]
