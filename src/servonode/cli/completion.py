"""`servonode completion`: the script with which a shell completes commands, files, keys and runs."""

import click
from click.shell_completion import get_completion_class

from servonode.cli import verb

SHELLS = ("bash", "zsh", "fish")
ADDED = "COMPREPLY+=($value)"
WHOLE_HELP = ('string split "," $completion', 'string split --max 1 "," $completion')  # a help text may have commas
NO_SPACE = f"{ADDED}\n            [[ $value == *= ]] && compopt -o nospace"  # its value follows


@click.command(
    cls=verb.Verb,
    examples=(
        "servonode completion bash",
        'eval "$(servonode completion bash)"    # in ~/.bashrc',
        'eval "$(servonode completion zsh)"     # in ~/.zshrc, after compinit',
        "servonode completion fish | source     # in ~/.config/fish/config.fish",
    ),
    exits={0: "done", **verb.BAD_USAGE},
    logs=False,
)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes commands in a shell.

    It completes commands, options, launch files, the keys of --set, and the names of runs in progress.
    """
    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(ctx.find_root().command, {}, "servonode", "_SERVONODE_COMPLETE")
    variables = script.source_vars()
    click.echo(script.source_template.replace(ADDED, NO_SPACE).replace(*WHOLE_HELP) % variables)
