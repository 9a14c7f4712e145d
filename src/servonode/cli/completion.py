"""`servonode completion`: the script with which a shell completes commands, files, keys and runs."""

from typing import Annotated

import click
from click.shell_completion import get_completion_class

from servonode.cli import verb
from servonode.cli.command import argument, command

SHELLS = ("bash", "zsh", "fish")
ADDED = "COMPREPLY+=($value)"
WHOLE_HELP = ('string split "," $completion', 'string split --max 1 "," $completion')  # a help text may have commas
NO_SPACE = f"{ADDED}\n            [[ $value == *= ]] && compopt -o nospace"  # its value follows


@command(
    (
        "servonode completion bash",
        'eval "$(servonode completion bash)"    # in ~/.bashrc',
        'eval "$(servonode completion zsh)"     # in ~/.zshrc, after compinit',
        "servonode completion fish | source     # in ~/.config/fish/config.fish",
    ),
    {0: "done", **verb.BAD_USAGE},
    logs=False,
)
def completion(shell: Annotated[str, argument(type=click.Choice(SHELLS))]) -> None:
    """Print the script that completes commands in a shell.

    It completes commands, options, launch files, the keys of --set, and the names of runs in progress.
    """
    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(click.get_current_context().find_root().command, {}, "servonode", "_SERVONODE_COMPLETE")
    variables = script.source_vars()
    click.echo(script.source_template.replace(ADDED, NO_SPACE).replace(*WHOLE_HELP) % variables)
