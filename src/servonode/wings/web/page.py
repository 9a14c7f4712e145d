"""The page on a run: its server in this process, the feed in a process of its own, the link to open."""

import asyncio
import contextlib
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

from servonode.bus import run_path
from servonode.bus.processes import Named
from servonode.errors import ServonodeError, installing
from servonode.nodes.node_process import ProcessBeside, call_process
from servonode.operator.find_runs import find_runs
from servonode.operator.listener import step_back
from servonode.views.display import fresh
from servonode.wings.web.listening import Listener, NoPage, Place

if TYPE_CHECKING:
    from servonode.wings.web.relay import Relay
    from servonode.wings.web.server import NumbersProcess, Page, StopButton

LOOK_S = 1.0  # between two looks for a run, where none was in progress
LINGER_S = 20.0  # after the end of the command that started it, without a browser
SECRET = 24  # bytes
NEEDED = ("starlette", "uvicorn", "websockets")


def check_libraries() -> None:
    """Raise NoPage where the libraries of the page are not installed."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise NoPage(f"the page needs {', '.join(missing)}, not installed here: {installing('web')}")


def page_process(name: str, port: int) -> ProcessBeside:
    """The process of a page on the run of this name; port 0: any."""
    return ProcessBeside("page", fresh("servonode.wings.web.page", name, str(port)))


def serve(name: str, where: str, place: Place, launcher: int = 0, told: Callable[[str], None] = lambda _: None) -> None:
    """Serve the page on a run until a signal ends it; the link is printed on standard error.

    name: empty: the next run that is the only one in progress. where: what is looked for, a name or a folder.
    launcher: the process that is about to start the run; the page ends after it, when no browser has looked at it for
    LINGER_S. told: is called with the link.

    Raises:
        NoPage: it cannot be served.
    """
    check_libraries()
    with place.listen() as listener:
        token = secrets.token_urlsafe(SECRET)
        sys.stderr.write(f"{place.link(listener, token)}\n")
        sys.stderr.flush()
        told(place.link(listener, token))
        asyncio.run(_serve(name, where, place, listener, token, launcher))


async def _serve(name: str, where: str, place: Place, listener: Listener, token: str, launcher: int) -> None:
    from servonode.wings.web.relay import Relay
    from servonode.wings.web.server import NumbersProcess, Page, StopButton, server_of

    relay, button, numbers = Relay(), StopButton(name, where), NumbersProcess(name, where)
    page = Page(relay, button, numbers)
    server = server_of(page.app(token, place.tls is not None), listener, place.tls)
    step_back()
    following = asyncio.ensure_future(_follow(relay, (button, numbers), name, where, launcher))
    leaving = asyncio.ensure_future(_leave(page, launcher)) if launcher else None
    if leaving is not None:
        leaving.add_done_callback(lambda _: setattr(server, "should_exit", True))
    try:
        await server.serve(sockets=[listener])
        await asyncio.sleep(0)  # Ctrl-C, which the server passes on once it has ended, arrives here and not below
    finally:
        for each in filter(None, (leaving, following)):
            each.cancel()
        await asyncio.wait([following])
        await numbers.close()


async def _follow(
    relay: "Relay", followers: "tuple[StopButton, NumbersProcess]", name: str, where: str, launcher: int
) -> None:
    """Feed the page on the run of this name; without a name on the next run that is the only one in progress."""
    if not name:
        name = await _next_run(relay)
        for each in followers:
            each.follow(name)
    await _feed(relay, name, where, launcher)


async def _next_run(relay: "Relay") -> str:
    """The name of the only run that is in progress, as soon as there is one."""
    said = ""
    while True:
        found = sorted(await asyncio.to_thread(find_runs))
        if len(found) == 1:
            return found[0]
        several = f"several runs are in progress; servonode page shows one of them: {', '.join(found)}"
        text = several if found else "no run is in progress; the next one is shown here"
        if text != said:
            relay.take(b"waiting " + json.dumps(text).encode())
            said = text
        await asyncio.sleep(LOOK_S)


async def _feed(relay: "Relay", name: str, where: str, launcher: int) -> None:
    """Pass on what the process of the feed says, until it ends; it ends with this."""
    from servonode.wings.web.relay import LINE

    command = fresh("servonode.wings.web.frames", name, where, str(launcher))
    process = await asyncio.create_subprocess_exec(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, limit=LINE)
    assert process.stdin is not None
    assert process.stdout is not None
    relay.set_feed(process.stdin.write)
    try:
        while line := await process.stdout.readline():
            relay.take(line)
        code = await process.wait()
    finally:
        relay.set_feed(None)
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    said = "" if code == 0 else f"the process that draws this page ended with exit code {code}; reload the page"
    relay.end(json.dumps(said or "there is no run any more").encode())


async def _leave(page: "Page", launcher: int) -> None:
    """Wait until the launcher is gone and nobody has looked at the page for a while."""
    starter, left = Named.of(launcher), 0.0
    while left < LINGER_S:
        await asyncio.sleep(1.0)
        left = 0.0 if page.clients or starter.lives(os.getuid()) else left + 1.0


def main(name: str, port: str) -> int:
    """The process of `servonode run --page`: serves the page on the run that its parent starts."""
    try:
        call_process("page", name)
        serve(name, str(run_path(name)), Place(int(port)), launcher=os.getppid())
    except ServonodeError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
