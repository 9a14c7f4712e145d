"""Who reaches the page: its link alone, from its own pages, over http at a name of this computer, over https at any."""

import asyncio
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from servonode.wings.web.access import HEADERS
from servonode.wings.web.listening import NoPage, Place, tls_of
from servonode.wings.web.relay import Relay
from servonode.wings.web.server import Page, server_of
from tests.helpers.pages import Link, made_certificate, needs_openssl

TOKEN = "a-secret-of-a-test"

BOUND_S = 60.0  # of what comes at once on a quiet computer


class Button:
    """A stop button that counts."""

    def __init__(self) -> None:
        self.pressed = 0

    async def press(self) -> dict[str, object]:
        self.pressed += 1
        await self.before()
        return {"confirmed": True, "text": "stopped"}

    async def before(self) -> None:
        """What takes its time, elsewhere."""


class Served:
    """A page's server in a thread of this process, its relay and its button."""

    def __init__(self, place: Place, certificate: Path | None = None) -> None:
        self.button, self.place, self.socket = Button(), place, place.listen()
        self.link = Link(self.socket.getsockname()[1], TOKEN, certificate)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()
        assert self._ready.wait(BOUND_S)

    async def _serve(self) -> None:
        self.loop, self.relay = asyncio.get_running_loop(), Relay()
        self.page = Page(self.relay, self.button, None)  # type: ignore[arg-type]
        self.server = server_of(self.page.app(TOKEN, self.place.tls is not None), self.socket, self.place.tls)
        startup = self.server.startup

        async def begun(sockets: Any = None) -> None:
            await startup(sockets)
            self._ready.set()

        self.server.startup = begun  # type: ignore[method-assign]
        await self.server.serve(sockets=[self.socket])

    def take(self, *lines: bytes) -> None:
        """The feed says these lines."""
        for line in lines:
            self.loop.call_soon_threadsafe(self.relay.take, line)

    def end(self) -> None:
        self.server.should_exit = True
        self._thread.join()
        self.socket.close()


@pytest.fixture(scope="module", params=["http", pytest.param("https", marks=needs_openssl)])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    if request.param == "http":
        found = Served(Place())
    else:
        certificate, key = made_certificate(tmp_path_factory.mktemp("certificate"))
        found = Served(Place(host="0.0.0.0", tls=tls_of(certificate, key)), certificate)
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
    if link.trusting:  # a browser has compared it with the certificate
        assert status == 200
        return
    assert (status, text) == (
        403,
        "This page answers only under 127.0.0.1, localhost, [::1], not under another host name.\n",
    )


@pytest.mark.parametrize("host", ["localhost", "localhost:9000", "127.0.0.1", "[::1]:8642", "LOCALHOST:1"])
def test_a_tunnel_may_have_another_port(link: Link, host: str) -> None:
    assert link.ask(Host=host)[0] == 200
    assert link.ask("POST", "stop", Host=host, Origin=f"{link.scheme}://{host}")[0] == 200
    other = "http" if link.trusting else "https"
    assert link.ask("POST", "stop", Host=host, Origin=f"{other}://{host}")[0] == 403


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
    other_host = [] if link.trusting else [("evil.example", f"/{TOKEN}/feed")]
    for host, path in ((link.host, "/wrong/feed"), *other_host):
        status, text, _ = link.ask("GET", path, **upgrade, Host=host, Origin=f"{link.scheme}://{host}")
        assert (status, text.startswith("Th")) == (403, True)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    return made_certificate(tmp_path)


def refused(text: str, host: str, *files: Path) -> None:
    with pytest.raises(NoPage) as caught:
        Place(1 if files else 0, host, tls_of(*files) if files else None).listen()
    assert text in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "127.0.0.2", "robot.local", ""])
def test_beyond_this_computer_there_is_no_page_without_a_certificate(host: str) -> None:
    refused(f"the page at {host} may be reached from other computers, so it needs --certfile and --keyfile", host)


@needs_openssl
def test_certificates_and_addresses_that_cannot_be_used_are_refused_with_the_remedy(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    certificate, key = pair
    far = "0.0.0.0"
    _, other = made_certificate(tmp_path, name="other")
    refused("cannot be used (KEY_VALUES_MISMATCH); take a certificate and the key that it was made with",
            far, certificate, other)  # fmt: skip
    refused("none.pem cannot be read (No such file or directory)", far, tmp_path / "none.pem", key)
    locked = tmp_path / "locked.key"
    command = ["openssl", "pkey", "-in", key, "-aes128", "-passout", "pass:word", "-out", locked]
    subprocess.run(command, check=True, capture_output=True)
    locked.chmod(0o600)
    refused("in PEM form and without a passphrase", far, certificate, locked)
    refused("is no address of this computer; take one that `ip address` shows, or 0.0.0.0", "192.0.2.1", *pair)
    refused("no computer is known here as nowhere.invalid", "nowhere.invalid", *pair)
    os.mkfifo(pipe := tmp_path / "pipe.key")
    refused("pipe.key is a pipe, a device or a folder; name a file in PEM form", far, certificate, pipe)
    for mode in (0o640, 0o604):
        key.chmod(mode)
        refused(f"robot.key can be read by others (mode {mode:04o})", far, *pair)
