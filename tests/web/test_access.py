"""Who reaches the page: its link alone, from its own pages, at an address of this computer."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection

from servonode.web.access import HEADERS
from servonode.web.page import listening
from servonode.web.relay import Relay
from servonode.web.server import MOST, Page, server_of
from tests.helpers.pages import Link, told
from tests.helpers.runs import eventually

TOKEN = "a-secret-of-a-test"


class Button:
    """A stop button that counts."""

    def __init__(self) -> None:
        self.pressed, self.takes = 0, 0.0

    async def press(self) -> dict[str, object]:
        self.pressed += 1
        await asyncio.sleep(self.takes)
        return {"confirmed": True, "text": "stopped"}


class Served:
    """A page's server in a thread of this process, its relay and its button."""

    def __init__(self) -> None:
        self.button, self.socket = Button(), listening(0)
        self.link = Link(self.socket.getsockname()[1], TOKEN)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()
        assert eventually(lambda: hasattr(self, "server") and self.server.started)

    async def _serve(self) -> None:
        self.loop, self.relay = asyncio.get_running_loop(), Relay()
        self.page = Page(self.relay, self.button)  # type: ignore[arg-type]
        self.server = server_of(self.page.app(TOKEN))
        await self.server.serve(sockets=[self.socket])

    def take(self, *lines: bytes) -> None:
        """The feed says these lines."""
        for line in lines:
            self.loop.call_soon_threadsafe(self.relay.take, line)

    def end(self) -> None:
        self.server.should_exit = True
        self._thread.join()
        self.socket.close()


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    found = Served()
    yield found
    found.end()


@pytest.fixture
def link(served: Served) -> Link:
    return served.link


def test_the_page_and_all_its_files_come_from_here(link: Link) -> None:
    status, text, headers = link.ask()
    assert status == 200
    assert headers.items() >= HEADERS.items()
    names = [part.split('"')[0] for part in text.replace("src=", "href=").split('href="')[1:] if part[0] != "#"]
    assert "uPlot.iife.min.js" in names
    for name in names:
        assert "/" not in name
        status, text, _ = link.ask(path=name)
        assert (status, text != "") == (200, True), name
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert link.ask(path="../access.py")[0] == 404


@pytest.mark.parametrize(
    "path",
    ["/", "/wrong/", f"/{TOKEN[:-1]}/", f"/{TOKEN}x/", "/?token=" + TOKEN, "*", "http://127.0.0.1/", "//", "/%ff/"],
)
def test_without_the_whole_secret_there_is_nothing(link: Link, path: str) -> None:
    for method in ("GET", "POST", "PUT", "OPTIONS"):
        status, text, headers = link.ask(method, path, Origin=link.origin)
        assert status == 403
        assert text.endswith("open the link that servonode printed.\n")
        assert headers.items() >= HEADERS.items()


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8642", "192.168.1.7:8642", "127.0.0.1.evil.example", ""]
)
def test_another_host_name_is_refused_though_the_secret_is_right(link: Link, host: str) -> None:
    status, text, _ = link.ask(Host=host)
    assert (status, text) == (
        403,
        "This page answers only under 127.0.0.1, localhost, [::1], not under another host name.\n",
    )


@pytest.mark.parametrize("host", ["localhost", "localhost:9000", "127.0.0.1", "[::1]:8642", "LOCALHOST:1"])
def test_a_tunnel_may_have_another_port(link: Link, host: str) -> None:
    assert link.ask(Host=host)[0] == 200
    assert link.ask("POST", "stop", Host=host, Origin=f"http://{host}")[0] == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1", ""])
def test_stop_from_another_page_is_refused_despite_the_secret(served: Served, origin: str) -> None:
    pressed = served.button.pressed
    headers = {"Origin": origin} if origin else {}
    status, text, _ = served.link.ask("POST", "stop", **headers)
    assert (status, text) == (403, "This request came from another page; open the link that servonode printed.\n")
    assert served.link.ask("GET", "stop")[0] == 404
    assert served.button.pressed == pressed
    with pytest.raises(InvalidStatus) as refused, served.link.feed(origin=origin or None):
        pass
    assert refused.value.response.status_code == 403
    assert b"another page" in (refused.value.response.body or b"")


def test_the_websocket_refuses_a_wrong_secret_and_another_host(link: Link) -> None:
    upgrade = {
        "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "x3JJHMbDL1EzLkh9GBhXDw==",
    }  # fmt: skip
    for host, path in ((link.host, "/wrong/feed"), ("evil.example", f"/{TOKEN}/feed")):
        status, text, _ = link.ask("GET", path, **upgrade, Host=host, Origin=f"http://{host}")
        assert (status, text.startswith("Th")) == (403, True)


def test_who_floods_it_is_shown_out_and_nobody_else_notices(served: Served) -> None:
    with served.link.feed() as calm, served.link.feed() as mad:
        assert closed_after(mad, *["drawn"] * 100000) in (None, 1008)
        served.take(b'status {"t":1}\n')
        assert eventually(lambda: told(calm).get("status") == {"t": 1})
    with served.link.feed() as large:
        assert closed_after(large, "x" * 4096) == 1009
    with served.link.feed() as odd:
        assert closed_after(odd, b"\0") == 1008


def closed_after(feed: ClientConnection, *words: str | bytes) -> int | None:
    """The code with which the server closes a connection on which this was said; None where it just went."""
    try:
        for word in words:
            feed.send(word)
        while True:
            feed.recv(timeout=5)
    except ConnectionClosed as closed:
        return closed.rcvd.code if closed.rcvd else None


def test_browser_that_draws_nothing_gets_all_that_is_kept_later(served: Served) -> None:
    with served.link.feed() as quick, served.link.feed() as frozen:
        frozen.recv(timeout=5)
        for t in range(100):
            served.take(b'rows {"t":[%d]}\n' % t, b'scene {"t":%d}\n' % t)
            assert eventually(lambda t=t: told(quick).get("scene") == {"t": t})
        with pytest.raises(TimeoutError):
            frozen.recv(timeout=0.7)
        frozen.send("drawn")
        message = told(frozen)
        assert message["scene"] == {"t": 99}
        assert [row["t"] for row in message["rows"]][-100:] == [[t] for t in range(100)]
    assert eventually(lambda: served.page.clients == 0)


def test_connections_of_strangers_keep_nobody_from_the_stop(served: Served, link: Link) -> None:
    served.button.takes = 0.5
    answers: list[dict[str, object]] = []

    def press() -> None:
        answers.append(link.stop())

    stop = threading.Thread(target=press)
    served.button.pressed = 0
    stop.start()
    assert eventually(lambda: served.button.pressed > 0)
    strangers = [socket.create_connection(("127.0.0.1", link.port)) for _ in range(MOST + 50)]
    try:
        for each in strangers[::2]:
            with suppress(OSError):
                each.send(b"GET / HTTP/1.1\r\nX: ")
        stop.join()
        served.button.takes = 0.0
        assert answers == [{"confirmed": True, "text": "stopped"}]  # one that is answered is not closed
        assert link.stop()["confirmed"] is True
        assert len(served.server.server_state.connections) <= MOST
    finally:
        for each in strangers:
            each.close()
