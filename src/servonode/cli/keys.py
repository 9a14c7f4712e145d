"""`servonode keys`: key pairs of this computer, and the keys of others that it trusts."""

import json
from functools import partial
from pathlib import Path
from typing import Annotated

import click
from click.shell_completion import CompletionItem

from servonode.cli import complete, verb
from servonode.cli.command import argument, command, group, option
from servonode.cli.options import AsJson

EXITS = {0: "done", **verb.BAD_USAGE, **verb.INTERRUPTED}


@complete.quiet
def _trusted(_ctx: click.Context, _param: click.Parameter, _incomplete: str) -> list[CompletionItem]:
    from servonode.bus.keys import KeyStore

    return [CompletionItem(key.name, help=", ".join(key.roles)) for key in KeyStore().trusted().values()]


@complete.quiet
def _roles(_ctx: click.Context, _param: click.Parameter, _incomplete: str) -> list[CompletionItem]:
    from servonode.bus.keys import ROLES

    return [CompletionItem(role, help=text) for role, text in ROLES.items()]


@group
def keys() -> None:
    """Make, trust and revoke the keys with which computers connect."""


_command = partial(command, exits=EXITS, of=keys, logs=False)


@_command(("servonode keys new desk", "servonode keys new robot"))
def new(name: Annotated[str, argument("NAME")], as_json: AsJson) -> None:
    """Make a key pair called NAME.

    The secret key stays in this computer's folder of keys (mode 0700; SERVONODE_KEYS, or servonode/keys below
    XDG_CONFIG_HOME). The printed file has the public key: copy it to the other computers, which trust it by servonode
    keys trust.
    """
    from servonode.bus.keys import KeyStore

    file = KeyStore().new(name)
    click.echo(json.dumps({"name": name, "file": str(file)}) if as_json else f"{file}")


@_command(("servonode keys list", "servonode keys list --json"), name="list")
def list_(as_json: AsJson) -> None:
    """List the own key pairs, and the trusted keys with their roles."""
    from servonode.bus.keys import KeyStore

    store = KeyStore()
    own, trusted = store.pair_names(), list(store.trusted().values())
    if as_json:
        keys = [{"name": key.name, "key": key.public.decode(), "roles": key.roles} for key in trusted]
        click.echo(json.dumps({"folder": str(store.folder), "own": own, "trusted": keys, "damaged": store.damaged}))
        return
    lines = [f"own      {name}" for name in own] + [f"trusted  {key.name}  {', '.join(key.roles)}" for key in trusted]
    lines += [f"damaged  {file}: {problem}" for file, problem in store.damaged.items()]
    click.echo("\n".join(lines) or f"no keys in {store.folder}; make a pair with servonode keys new NAME")


@_command(("servonode keys show", "servonode keys show robot", "servonode keys show robot --json"))
def show(
    name: Annotated[str | None, argument("[NAME]", required=False, shell_complete=_trusted)], as_json: AsJson
) -> None:
    """Show a public key, own or trusted.

    Compare it on both computers before you trust a key that came over a network. Without NAME, the command shows the
    only key pair of this computer.
    """
    from servonode.bus.keys import KeyStore

    store = KeyStore()
    trusted = store.trusted_as(name) if name and name not in store.pair_names() else None
    key, roles = (trusted, trusted.roles) if trusted else (store.pair(name or ""), ())
    if as_json:
        click.echo(json.dumps({"name": key.name, "key": key.public.decode(), "own": not trusted, "roles": roles}))
    else:
        click.echo(f"{key.name}  {key.public.decode()}  {', '.join(roles) if trusted else 'own'}")


MAY = "What the key may do: observe, operate, plant or controller (repeatable)."


@_command(
    (
        "servonode keys trust robot.key --role plant",
        "servonode keys trust desk.key --role controller --role operate --role observe",
    )
)
def trust(
    file: Annotated[Path, argument("FILE", shell_complete=complete.files)],
    roles: Annotated[tuple[str, ...], option(MAY, "ROLE", flag="--role", shell_complete=_roles)],
    as_json: AsJson,
) -> None:
    """Trust the public key of another computer.

    FILE is the other computer's NAME.key, and the key is trusted by this NAME. Its roles say what it may do.

    plant: be the machine of a run whose plant.device.key is NAME, or run the plant of a run on two computers.
    controller: command a machine of this computer, whose program is given the trusted key's file, or run the controller
    and the target of a run on two computers. operate: arm, stop and reset such a run. observe: receive what it
    publishes. No role includes another; trust a key again to change its roles.
    """
    from servonode.bus.keys import KeyStore

    key = KeyStore().trust(file, roles)
    said = {"name": key.name, "key": key.public.decode(), "roles": key.roles}
    click.echo(json.dumps(said) if as_json else f"{key.name} is trusted: {', '.join(key.roles)}")


@_command(("servonode keys revoke robot",))
def revoke(name: Annotated[str, argument("NAME", shell_complete=_trusted)], as_json: AsJson) -> None:
    """Trust the key NAME no more.

    Runs in progress refuse it from now on.
    """
    from servonode.bus.keys import KeyStore

    KeyStore().revoke(name)
    said = f"{name} is no longer trusted; runs in progress refuse it from now on"
    click.echo(json.dumps({"revoked": name}) if as_json else said)
