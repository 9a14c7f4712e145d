"""Who floods the page's server, or reads nothing from it, holds up neither the stop nor other browsers."""

import asyncio
import socket
import threading
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

from servonode.wings.web.listening import MOST_HANDSHAKES, Place, tls_of
from servonode.wings.web.server import MOST
from tests.helpers.pages import Link, needs_openssl, told
from tests.helpers.runs import eventually
from tests.wings.web import test_access
from tests.wings.web.test_access import Served

served, link, pair = test_access.served, test_access.link, test_access.pair


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
    served.button.before = partial(asyncio.sleep, 0.5)
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
        served.button.before = partial(asyncio.sleep, 0.0)
        assert answers == [{"confirmed": True, "text": "stopped"}]  # one that is answered is not closed
        assert link.stop()["confirmed"] is True
        assert len(served.server.server_state.connections) <= MOST
    finally:
        for each in strangers:
            each.close()


@needs_openssl
def test_strangers_in_handshakes_or_after_them_keep_nobody_from_the_stop(pair: tuple[Path, Path]) -> None:
    served = Served(Place(host="0.0.0.0", tls=tls_of(*pair)), pair[0])
    place = ("127.0.0.1", served.link.port)
    try:
        with ExitStack() as stack, served.link.feed() as feed:
            assert served.link.trusting
            waiting = [stack.enter_context(socket.create_connection(place)) for _ in range(MOST_HANDSHAKES + 50)]
            for each in waiting[::3]:
                with suppress(OSError):
                    each.send(b"\x16\x03\x01\x02\x00\x01")  # a handshake begins
            assert served.link.stop()["confirmed"] is True
            assert eventually(lambda: sum(map(is_closed, waiting)) >= 50)
            assert not any(map(is_closed, waiting[60:]))  # the newest ones
            for _ in range(MOST + 50):
                stack.enter_context(served.link.trusting.wrap_socket(
                    stack.enter_context(socket.create_connection(place)), server_hostname=place[0]))  # fmt: skip
            assert served.link.stop()["confirmed"] is True
            assert len(served.server.server_state.connections) <= MOST
            served.take(b'status {"t":2}\n')  # a browser that looks at the page has been left alone
            assert eventually(lambda: told(feed).get("status") == {"t": 2})
    finally:
        served.end()


def is_closed(stranger: socket.socket) -> bool:
    """Whether the server has ended a connection on which it says nothing."""
    stranger.setblocking(False)
    try:
        return stranger.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True
