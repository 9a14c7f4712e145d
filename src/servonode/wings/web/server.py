"""The page's server: its files, its websocket, the emergency stop. It draws nothing and computes nothing."""

import asyncio
import contextlib
import logging
import os
import ssl
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect
from uvicorn.protocols.http.h11_impl import H11Protocol

from servonode.bus import BusError
from servonode.bus.descriptors import share
from servonode.errors import ServonodeError
from servonode.operator.find_runs import find_runs
from servonode.operator.operator_requests import Stop, set_goal, stop_all
from servonode.views.display import fresh
from servonode.wings.web.access import ADMITTED, Access
from servonode.wings.web.colours import colours_css
from servonode.wings.web.listening import Listener
from servonode.wings.web.relay import Relay

DRAWN = "drawn"  # what a browser answers to each message
CLIENTS = 32  # browsers at the same time
LARGEST = 1024  # bytes that a browser may send at once
TOO_LARGE = PlainTextResponse(f"A request has at most {LARGEST} bytes.\n", 413)
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
MOST = 256  # connections at once that are no websocket, where the limit of open files allows so many
AT_ONCE = 64  # accepted between two looks at what was sent on those before: fewer than there is room for
STOPS = 4  # stops that run at the same time; one takes two seconds at most
ANSWER_S = 20.0  # in which an answer must have come; the first one loads the machine
WAITING = 8  # requests that may wait
LONGEST_ANSWER = 2**20  # bytes of an answer


class StopButton:
    """Stops the run of this name, or in a folder, and tells what its plant has answered; no name: all runs."""

    def __init__(self, name: str, where: str = "") -> None:
        self.follow(name, where)
        self._threads = ThreadPoolExecutor(STOPS, "stop")
        for _ in range(STOPS):  # started now: later none might be left
            self._threads.submit(int)
        self._free = asyncio.Semaphore(STOPS)
        self._waiting: asyncio.Future[dict[str, Any]] | None = None  # a stop that has not begun yet

    def follow(self, name: str, where: str = "") -> None:
        """Stop this run from now on."""
        self.name, self.where = name, where or name

    async def press(self) -> dict[str, Any]:
        """Stop it: {"confirmed": whether every plant of the run is stopped, "text": what to show}.

        Presses that come while STOPS stops run already share the next one: nobody waits longer than for two.
        """
        if self._waiting is None:
            self._waiting = asyncio.ensure_future(self._stop_when_free())
        return await asyncio.shield(self._waiting)

    async def _stop_when_free(self) -> dict[str, Any]:
        async with self._free:
            self._waiting = None  # a press from now on is answered by a stop that begins after it
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._stop)

    def _stop(self) -> dict[str, Any]:
        try:
            stops, unknown = stop_all([self.where] if self.where else [])
        except (BusError, OSError) as error:
            return {"confirmed": False, "text": str(error)}
        texts = [_text(stop) for stop in stops] or [f"no run {self.name!r} is in progress, so nothing was stopped"]
        return {
            "confirmed": bool(stops) and not unknown and all(stop.confirmed for stop in stops),
            "text": "; ".join(texts),
        }


def _text(stop: Stop) -> str:
    if not stop.confirmed:
        return f"{stop.run}: {stop.text}"
    how = f"process {stop.pid} was signalled" if stop.signalled else "by request only"
    return f"{stop.run}: stopped, confirmed by its plant ({stop.lifecycle}); {how}"


class NumbersProcess:
    """The process for the run of a name, started at the first request, and again after it has failed."""

    def __init__(self, name: str, where: str = "") -> None:
        self.follow(name, where)
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()
        self._waiting = 0

    def follow(self, name: str, where: str = "") -> None:
        """Read and change the numbers of this run from now on."""
        self._where = where or name

    async def ask(self, body: bytes) -> bytes | None:
        """The answer to a request; None: nothing has come, or too many wait."""
        if self._waiting >= WAITING:
            return None
        self._waiting += 1
        try:
            async with self._turn:
                return await self._answer(body.replace(b"\n", b" "))
        finally:
            self._waiting -= 1

    async def _answer(self, body: bytes) -> bytes | None:
        if self._process is None or self._process.returncode is not None:
            command = fresh("servonode.wings.web.numbers_process", self._where)
            pipe = subprocess.PIPE
            self._process = await asyncio.create_subprocess_exec(
                *command, stdin=pipe, stdout=pipe, limit=LONGEST_ANSWER
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(OSError, ValueError, TimeoutError):
            process.stdin.write(body + b"\n")
            async with asyncio.timeout(ANSWER_S):
                await process.stdin.drain()
                if line := await process.stdout.readline():
                    return line
        await self.close()  # what it answers later would belong to another request
        return None

    async def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


class GoalForm:
    """Gives a run the goals that a browser sends, one after the other."""

    def __init__(self) -> None:
        self._free = asyncio.Lock()

    async def send(self, name: str, where: str, body: bytes) -> dict[str, Any]:
        """Send on {target: value} in JSON: {"done": whether the run follows it, "text": what to show}.

        name: of the run; where: what is looked for, its name or its folder.
        """
        try:
            goal = msgspec.json.decode(body, type=dict[str, float])
            async with self._free:
                answer = await asyncio.to_thread(set_goal, where or None, goal)
        except (ServonodeError, msgspec.MsgspecError, UnicodeError, RecursionError, OSError) as error:
            ended = name and isinstance(error, BusError) and not await asyncio.to_thread(find_runs, where)
            return {"done": False, "text": f"No goal was given: {f'run {name!r} has ended' if ended else error}"}
        shown = ", ".join(f"{target} = {value:.3g}" for target, value in goal.items())
        return {"done": True, "text": f"Goal: {shown} from t = {answer['t']:.2f} s"}


class Page:
    """The requests to a page: its files, the websocket that feeds it, its stop button."""

    def __init__(self, relay: Relay, button: StopButton, numbers: NumbersProcess) -> None:
        self.clients = 0
        self._relay, self._button, self._numbers, self._goals = relay, button, numbers, GoalForm()
        assets = [
            each for each in (files("servonode.wings.web") / "assets").iterdir() if each.name.endswith(tuple(TYPES))
        ]
        self._files = {each.name: each.read_bytes() for each in assets} | {"colours.css": colours_css().encode()}

    def app(self, token: str, tls: bool = False) -> Access:
        """What a server serves; tls: over https."""
        routes = [
            Route("/{token}/", self._index),
            Route("/{token}/stop", self._stop, methods=["POST"]),
            Route("/{token}/numbers", self._change, methods=["POST"]),
            Route("/{token}/goal", self._goal, methods=["POST"]),
            WebSocketRoute("/{token}/feed", self._feed),
            Route("/{token}/{name}", self._file),
        ]
        return Access(Starlette(routes=routes), token, tls)

    async def _index(self, _: Request) -> Response:
        return Response(self._files["page.html"], media_type=TYPES[".html"])

    async def _file(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._files:
            return PlainTextResponse("There is no such file.\n", 404)
        return Response(self._files[name], media_type=TYPES[os.path.splitext(name)[1]])  # noqa: PTH122

    async def _stop(self, _: Request) -> Response:
        return JSONResponse(await self._button.press())

    async def _change(self, request: Request) -> Response:
        """Change the numbers in the request, none to read them alone."""
        if (body := await _body(request)) is None:
            return TOO_LARGE
        answer = await self._numbers.ask(body)
        if answer is None:
            return PlainTextResponse("The numbers of the run cannot be had now; try again.\n", 503)
        return Response(answer, media_type="application/json")

    async def _goal(self, request: Request) -> Response:
        if (body := await _body(request)) is None:
            return TOO_LARGE
        return JSONResponse(await self._goals.send(self._button.name, self._button.where, body))

    async def _feed(self, browser: WebSocket) -> None:
        await browser.accept()
        if self.clients >= CLIENTS:
            await browser.close(1013, f"{CLIENTS} browsers look at this page already; close one")
            return
        self._count(1)
        try:
            with contextlib.suppress(WebSocketDisconnect):
                await self._tell(browser)
        finally:
            self._count(-1)

    def _count(self, more: int) -> None:
        """Another browser looks at the page, or one less."""
        self.clients += more
        self._relay.looked_at(self.clients)

    async def _tell(self, browser: WebSocket) -> None:
        """Tell a browser what is new, each time when it has drawn what it was told before."""
        seen = 0
        while True:
            answer = asyncio.ensure_future(_answer(browser))
            try:
                await self._relay.news(seen)
                if not answer.done():  # else it has left, or spoken unasked
                    text, seen = self._relay.since(seen).decode(), self._relay.version
                    await browser.send_text(text)
                elif await answer == DRAWN:
                    await browser.close(1008, "a page speaks only when it has drawn something")
                    return
                if await answer != DRAWN:
                    await browser.close(1008, f"a page says {DRAWN!r} and nothing else")
                    return
            finally:
                answer.cancel()


async def _body(request: Request) -> bytes | None:
    """The content of a request; None where it is too large."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LARGEST:
            return None
    return body


async def _answer(browser: WebSocket) -> str:
    """What a browser says next; WebSocketDisconnect when it has left."""
    message = await browser.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", 1000))
    return str(message.get("text") or "")


class BoundedProtocol(H11Protocol):
    """A connection that makes room for another one: anybody on this computer may open some, without the link.

    Those that have been open for the longest are closed first, unless a request with the link is being answered: so
    nobody can keep the emergency stop from the browser by holding connections. uvicorn's own limit would answer 503.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Close the oldest ones where there are too many now."""
        super().connection_made(transport)
        self.since = time.monotonic()
        most = share(MOST)
        if len(self.connections) > most:
            others = [each for each in self.connections if isinstance(each, BoundedProtocol) and each is not self]
            strangers = sorted((each for each in others if not each.is_answering()), key=lambda each: each.since)
            for each in strangers[: most // 4 if len(others) >= most else 0]:
                each.transport.abort()

    def is_answering(self) -> bool:
        """Whether a request with the link is being answered."""
        return self.cycle is not None and not self.cycle.response_complete and ADMITTED in self.cycle.scope


def server_of(app: Access, listener: Listener, tls: ssl.SSLContext | None = None) -> uvicorn.Server:
    """A server that logs nothing but errors of its own, and keeps nothing that a browser floods it with.

    listener: what it is to serve.
    """
    # messages about errors of its own alone: what strangers send could fill a terminal
    logging.getLogger("uvicorn.error").addFilter(lambda record: record.exc_info is not None)
    config = uvicorn.Config(
        app, log_config=None, access_log=False, server_header=False, lifespan="off", loop="asyncio",
        http=BoundedProtocol, backlog=AT_ONCE, timeout_graceful_shutdown=1,
        ws="websockets-sansio", ws_max_size=LARGEST, ws_per_message_deflate=False,
    )  # fmt: skip
    config.load()
    config.ssl = tls
    server = uvicorn.Server(config)
    if tls is not None:
        listener.handshaken = lambda: _descriptors(server)
    return server


def _descriptors(server: uvicorn.Server) -> set[int]:
    """Those of the server's connections, without any that are about to end."""
    opened = (each.transport.get_extra_info("socket") for each in server.server_state.connections)
    return {each.fileno() for each in opened if each is not None}
