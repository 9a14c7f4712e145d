"""The man page of `servonode`, made from the help of its commands.

`python packaging/man_page.py` prints it; docs/man/servonode.1 holds what it prints, and the wheel installs that.
"""

from collections.abc import Iterator
from inspect import cleandoc
from typing import Any

import click

from servonode.cli.main import main
from servonode.version import VERSION

WIDTH = 78  # columns of a help text
SETTINGS: dict[str, Any] = {"max_content_width": WIDTH, "terminal_width": WIDTH}
HEAD = f""".\\" made by python packaging/man_page.py
.TH SERVONODE 1 "" "servonode {VERSION}" "User Commands"
.SH NAME
servonode \\- from equations to a running control system
.SH SYNOPSIS
.B servonode
.I COMMAND
[ARGUMENTS]
.SH DESCRIPTION
"""
TAIL = """\
.SH ENVIRONMENT
.TP
.B SERVONODE_RUNTIME_DIR
the folder of runs in progress (default: servonode in XDG_RUNTIME_DIR)
.TP
.B SERVONODE_KEYS
the folder of keys (default: servonode/keys in XDG_CONFIG_HOME, else in ~/.config)
.TP
.B XDG_CACHE_HOME
where compiled kernels are kept, in servonode (default: ~/.cache)
.SH SEE ALSO
https://servonode.readthedocs.io
"""


def man_page() -> str:
    """The page, as troff."""
    context = click.Context(main, info_name="servonode", **SETTINGS, **main.context_settings)
    parts = [HEAD, _preformatted(cleandoc(main.help or ""))]
    for section, commands in main.by_section(context).items():
        parts.append(f'.SH "{section.upper()}"\n')
        for command in commands:
            parts += [_command(each) for each in _contexts(command, context, str(command.name))]
    return "".join([*parts, TAIL])


def _contexts(command: click.Command, parent: click.Context, name: str) -> Iterator[click.Context]:
    """The context of a command, and of those of which it is made."""
    context = click.Context(command, parent, name, **SETTINGS)
    yield context
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            member = command.get_command(context, each)
            assert member is not None
            yield from _contexts(member, context, each)


def _command(context: click.Context) -> str:
    return f'.SS "{context.command_path}"\n{_preformatted(context.command.get_help(context))}'


def _preformatted(text: str) -> str:
    """Text whose lines stay as they are."""
    lines = (line.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq") for line in text.splitlines())
    return "\n".join([".nf", *(f"\\&{line}" if line[:1] in ".'" else line for line in lines), ".fi", ""])


if __name__ == "__main__":
    print(man_page(), end="")  # noqa: T201
