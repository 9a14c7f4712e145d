"""The directive `command-line`: every command of `servonode` with examples, arguments, options and exit codes."""

import re
from collections.abc import Iterator
from typing import Any

import click
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from servonode.cli.main import main


def escaped(text: str) -> str:
    """Help as Markdown: what looks like an option, a placeholder or a name with a dot becomes code."""
    marked = re.sub(r"(?<![\w`-])(--?[a-z][\w-]*(?:=[\w.:/-]+)?)", r"`\1`", text)
    return re.sub(r"([<>*|_\[\]$])(?=[^`]*(?:`[^`]*`[^`]*)*$)", r"\\\1", marked)


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


def code(text: str) -> str:
    return f"`{text}`"


def option_rows(context: click.Context) -> Iterator[str]:
    for each in context.command.get_params(context):
        record = each.get_help_record(context)  # an argument without help has none of its own
        if record and record[1] and "--help" not in each.opts:
            yield f"| {code(cell(record[0]))} | {cell(escaped(record[1]))} |"


def paragraphs(text: str) -> Iterator[str]:
    """The paragraphs of a help text; one marked by \\b keeps its lines."""
    for each in re.split(r"\n\s*\n", text.strip()):
        if each.startswith("\b"):
            yield from ["```text", *each.splitlines()[1:], "```", ""]
        else:
            yield from [escaped(" ".join(each.split())), ""]


def command(context: click.Context) -> Iterator[str]:
    """Lines of Markdown on one command, without its title."""
    usage = " ".join([context.command_path, *context.command.collect_usage_pieces(context)])
    yield from paragraphs(context.command.help or "")
    yield from ["```text", usage, "```", ""]
    examples = getattr(context.command, "examples", ())
    if examples:
        yield from ["```text", *examples, "```", ""]
    rows = list(option_rows(context))
    if rows:
        yield from ["| option | |", "|---|---|", *rows, ""]
    exits = getattr(context.command, "exits", {})
    if exits:
        yield from ["| exit code | |", "|---|---|", *(f"| {n} | {cell(escaped(text))} |" for n, text in exits.items())]
        yield ""


def within(found: click.Command, parent: click.Context, name: str) -> click.Context:
    return click.Context(found, info_name=name, parent=parent)


def sections(context: click.Context, level: int) -> Iterator[str]:
    """A command and, below it, those that it is made of."""
    yield from [f"{'#' * level} {context.command_path}", ""]
    yield from command(context)
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            found = context.command.get_command(context, name)
            if found is None:
                raise LookupError(f"the table of commands names {name}, which no file of cli/ holds")
            yield from sections(within(found, context, name), level + 1)


def page() -> Iterator[str]:
    """All commands in the order of `servonode --help`."""
    context = click.Context(main, info_name="servonode")
    for title, commands in main.by_section(context).items():
        yield from [f"## {title}", ""]
        for found in commands:
            yield from sections(within(found, context, str(found.name)), 3)


class CommandLine(SphinxDirective):
    """```{command-line}``` has no content: it stands for the whole command line."""

    def run(self) -> list[nodes.Node]:
        self.content = StringList(list(page()), source="servonode --help")
        return self.parse_content_to_nodes(allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("command-line", CommandLine)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
