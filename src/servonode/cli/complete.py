"""What the shell may complete: launch files, keys of `--set`, runs. Whatever goes wrong here completes nothing."""

import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import Any

import click
from click.shell_completion import CompletionItem

from servonode import extensions
from servonode.errors import ServonodeError

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def quiet(function: Completer) -> Completer:
    """A completer that gives nothing where files or runs cannot be read: a shell has no place for an error."""

    @wraps(function)
    def call(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        try:
            return [each for each in function(ctx, param, incomplete) if each.type != "plain" or fits(each, incomplete)]
        except (ServonodeError, OSError, ValueError):  # ValueError: the file is no TOML
            return []

    return call


def fits(item: CompletionItem, incomplete: str) -> bool:
    """Whether an item completes what has been typed."""
    return str(item.value).startswith(incomplete)


@quiet
def launch_files(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of packaged launch files, and files."""
    from servonode.closed_loop.launch_file import packaged

    names = [CompletionItem(name, help=text) for name, text in packaged().items()]
    return [CompletionItem(incomplete, type="file"), *names]  # in this order bash offers files where no name fits


@quiet
def files(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Files."""
    return [CompletionItem(incomplete, type="file")]


@quiet
def runs(_ctx: click.Context, _param: click.Parameter, _incomplete: str) -> list[CompletionItem]:
    """The names of this user's runs in progress."""
    from servonode.operator.find_runs import find_runs

    return [CompletionItem(name) for name in find_runs()]


@quiet
def key_pairs(_ctx: click.Context, _param: click.Parameter, _incomplete: str) -> list[CompletionItem]:
    """The names of this computer's key pairs."""
    from servonode.bus.keys import KeyStore

    return [CompletionItem(name) for name in KeyStore().pair_names()]


def _added(kind: str) -> Completer:
    """A completer of what wings and other packages add of a kind."""

    def call(_ctx: click.Context, _param: click.Parameter, _incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(name) for name in extensions.names(kind)]

    return quiet(call)


exports, views = _added("exports"), _added("views")


@quiet
def runs_or_launch_files(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of runs, then those of launch files, and files."""
    return runs(_ctx, _param, incomplete) + launch_files(_ctx, _param, incomplete)


@quiet
def keys(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The keys of a launch file, each with what it is; those that FILE on the line states come too, such as targets.

    So do the states and parameters of its machine, where that has been derived before.
    """
    from servonode.closed_loop.key_table import keys_of_launch_files

    known = keys_of_launch_files()
    file = ctx.params.get("file") or next((word for word in ctx.args if not word.startswith("-")), "")
    stated = dict.fromkeys(_stated(file), "")
    named = dict(_of_machine(file)) if file and incomplete.startswith(OF_MACHINE) else {}
    return [CompletionItem(f"{key}=", help=text) for key, text in (stated | known | named).items()]


OF_MACHINE = ("plant.initial.", "plant.parameters.", "controller.parameters.")


def _of_machine(file: str) -> Iterator[tuple[str, str]]:
    """The keys of states and parameters of a launch file's machine, with what they are, from its kept description."""
    import json

    from servonode.closed_loop.launch_file import read_launch
    from servonode.closed_loop.machine_section import plant_source
    from servonode.definitions.cache import kept_description

    launch = read_launch(file)
    found = json.loads(kept_description(plant_source(launch.plant, launch.path.parent, launch.more).key) or b"{}")
    initial, *parameters = OF_MACHINE
    for prefixes, kind in (((initial,), "state"), (parameters, "parameters")):
        for each in found.get(kind, ()):
            unit = f" [{each['unit']}]" if each["unit"] not in ("", "1") else ""
            yield from ((f"{prefix}{each['name']}", each["description"] + unit) for prefix in prefixes)


def _stated(file: str) -> Iterator[str]:
    """The keys that a launch file states."""
    from servonode.closed_loop.launch_file import launch_path

    if file:
        yield from _dotted(tomllib.loads(launch_path(file).read_text("utf-8")))


def _dotted(table: Mapping[str, Any], before: str = "") -> Iterator[str]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _dotted(value, f"{before}{key}.")
        else:
            yield f"{before}{key}"
