"""What a terminal has beside text: colours, each with one meaning, links, and a browser that opens what was made."""

import os
import re
import sys
from functools import partial
from pathlib import Path
from typing import TextIO

import click

MEANINGS = (  # what a colour means, and the words that have it: at the begin of a line, after its subject, in capitals
    (
        "green",
        re.compile(r"^(?P<before>.{8} | {0,2}|verdict {10})(?P<word>ok(?= )|(?<=verdict {10})yes$)", re.MULTILINE),
    ),
    ("yellow", re.compile(r"^(?P<before>.{8} | {0,2})(?P<word>warn|warning|note)(?= )", re.MULTILINE)),
    ("yellow", re.compile(r"(?P<before>)\b(?P<word>PAUSED|GOAL HELD|UNSAFE|THE MACHINE CLAMPS ITS INPUTS)\b")),
    (
        "red",
        re.compile(
            r"^(?P<before>.{8} | {0,2}|verdict {10})(?P<word>(?:NO|WRONG|fault)(?= )|(?<=verdict {10})no$)",
            re.MULTILINE,
        ),
    ),
    ("red", re.compile(r"(?P<before>)\b(?P<word>FAULT \w+|ended by a fault)\b")),
    ("red", re.compile(r"\A(?P<before>)(?P<word>servonode:)")),  # an error
)


def painted(text: str, stream: TextIO) -> str:
    """The text in colours, where the stream is a terminal and neither the user nor the terminal refuses them."""
    off = os.environ.get("NO_COLOR") or os.environ.get("CLICOLOR") == "0" or os.environ.get("TERM") == "dumb"
    if off or not stream.isatty():
        return text
    for colour, words in MEANINGS:
        text = words.sub(partial(_coloured, colour), text)
    return text


def _coloured(colour: str, found: re.Match[str]) -> str:
    return found["before"] + click.style(found["word"], fg=colour)


def linked(file: Path, stream: TextIO) -> list[str]:
    """A line with a link to a file, which a terminal opens when it is clicked; elsewhere none."""
    url = file.absolute().as_uri()
    return [f"  {'':<17} \033]8;;{url}\033\\{url}\033]8;;\033\\"] if stream.isatty() else []


def opened(target: Path | str) -> None:
    """Show a file, or the page at a URL, in a browser; where none can be shown, a line that says why."""
    import webbrowser

    url = target if isinstance(target, str) else target.absolute().as_uri()
    reason = ""
    if "BROWSER" not in os.environ:
        if "SSH_CONNECTION" in os.environ:
            reason = "this is a session over ssh"
        elif sys.platform == "linux" and not {"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ):
            reason = "there is no display here"
    if reason or not webbrowser.open(url):
        click.echo(f"servonode: --open: {reason or 'there is no browser'}; open {url}", err=True)
