"""`servonode status --watch`: the status of a run, again and again until the run ends."""

import json
import os
import shutil
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TextIO

import click

from servonode.cli.listening import printing

EVERY_S = 0.5  # wall clock
UP, CLEAR = "\x1b[{}F", "\x1b[J"  # so many lines up, to their beginning; clear to the end of the screen


class Screen:
    """Shows a text of several lines in the place of the one before, in a terminal; in a pipe its first lines alone."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._in_place = self._stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._lines = 0  # of the text that is shown

    def show(self, report: Mapping[str, Any]) -> None:
        """Show the report of `status`."""
        from servonode.operator.operator_requests import status_line, status_text

        if not self._in_place:
            click.echo(status_line(report), file=self._stream)
            return
        size = shutil.get_terminal_size()
        lines = [line[: size.columns - 1] for line in status_text(report).splitlines()][: size.lines - 1]
        up = UP.format(self._lines) if self._lines else ""
        self._lines = len(lines)
        click.echo(up + CLEAR + "\n".join(lines), file=self._stream)


def watch(name: str | None, as_json: bool) -> None:
    """Show the status of a run until it ends; a successor with its name is another run.

    Raises:
        BusError: there is no such run at the beginning.
    """
    from servonode.bus.run_folder import BusError
    from servonode.operator import operator_requests as operate
    from servonode.operator.find_runs import find_run

    run, screen = find_run(name), Screen()
    with printing():
        with suppress(BusError):  # it ends while it is looked for
            while run.lives():
                report = operate.status(str(run.path))
                if report["pid"] != run.registry.get("pid", 0) or not run.lives():
                    break
                if as_json:
                    click.echo(json.dumps(report))
                else:
                    screen.show(report)
                time.sleep(EVERY_S)
        click.echo(f"{run.name}: the run has ended", err=True)
