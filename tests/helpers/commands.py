"""The commands of the command line, those that a command is made of too."""

import click

from servonode.cli.main import main


def commands(
    command: click.Command = main, name: str = "servonode", parent: click.Context | None = None
) -> dict[str, click.Context]:
    """The context of each command and of each group by what is typed, from `servonode` itself on."""
    context = click.Context(command, parent, name, **({} if parent else command.context_settings))
    found = {name: context}
    if isinstance(command, click.Group):
        for word in command.list_commands(context):
            below = command.get_command(context, word)
            assert below is not None
            found |= commands(below, f"{name} {word}", context)
    return found


def verbs() -> dict[str, click.Command]:
    """Every command that is no group, by what is typed behind `servonode`."""
    contexts = {name.removeprefix("servonode "): each for name, each in commands().items()}
    return {name: each.command for name, each in contexts.items() if not isinstance(each.command, click.Group)}


def helps() -> dict[str, str]:
    """The help of each command."""
    return {name: each.command.get_help(each) for name, each in commands().items()}
