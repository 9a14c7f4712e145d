"""Where the page listens: at this computer alone or, with a certificate, where other computers reach it."""

import errno
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from servonode.bus.descriptors import share
from servonode.bus.keys import exposed
from servonode.errors import ServonodeError
from servonode.wings.web.access import LOOPBACK

PORT = 8642  # unless another is asked for, or it is taken
ADDRESS = "127.0.0.1"
EVERY = ("0.0.0.0", "::")  # all addresses of this computer
MOST_HANDSHAKES = 128  # at once, where the limit of open files allows so many; each holds 0.3 MB


class NoPage(ServonodeError, RuntimeError):
    """There can be no page here; the text says why and what to do."""


class Listener(socket.socket):
    """A socket that browsers connect to; of the connections in a TLS handshake it keeps the newest.

    asyncio would wait a minute for each, and strangers could hold all that the process may open.
    """

    handshaken: Callable[[], set[int]] | None = None  # the descriptors of those after it; None: there is no TLS

    def __init__(self, family: socket.AddressFamily) -> None:
        super().__init__(family, socket.SOCK_STREAM)
        self._accepted: list[socket.socket] = []

    def accept(self) -> tuple[socket.socket, object]:
        """Accept a connection; end the oldest handshakes where there are too many."""
        made, address = super().accept()
        if self.handshaken is None:
            return made, address
        self._accepted = [*(each for each in self._accepted if each.fileno() >= 0), made]
        most = share(MOST_HANDSHAKES)
        if len(self._accepted) > most:
            done = self.handshaken()
            self._accepted = [each for each in self._accepted if each.fileno() not in done]
            while len(self._accepted) > most:
                _end(self._accepted.pop(0))
        return made, address


@dataclass(frozen=True)
class Place:
    """Where a page is served; NoPage where others would reach it without TLS. port: 0: the usual one or any other."""

    port: int = 0
    host: str = ADDRESS
    tls: ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        if self.tls is None and _in_link(self.host) not in LOOPBACK:
            raise NoPage(
                f"the page at {self.host} may be reached from other computers, so it needs --certfile and --keyfile; "
                f"or leave out --host and, on the other computer, ssh -L {PORT}:localhost:{PORT} THIS_COMPUTER"
            )

    def listen(self) -> Listener:
        """The socket; NoPage where that is not possible."""
        if self.port:
            return _bound(self.host, self.port)
        try:
            return _bound(self.host, PORT)
        except NoPage:
            return _bound(self.host, 0)

    def link(self, listener: Listener, token: str) -> str:
        """What is opened in a browser."""
        name = socket.gethostname() if self.host in EVERY else _in_link(self.host)
        return f"http{'s' if self.tls else ''}://{name}:{listener.getsockname()[1]}/{token}/"


def tls_of(certificate: Path, key: Path) -> ssl.SSLContext:
    """The server's side of TLS with a certificate and its key in files; NoPage where these cannot be used."""
    for file in (certificate, key):
        if file.exists() and not file.is_file():  # opening a pipe would wait for a writer
            raise NoPage(f"{file} {exposed(file.stat())}; name a file in PEM form")
        try:
            file.open("rb").close()
        except OSError as error:
            raise NoPage(f"{file} cannot be read ({error.strerror}); name a file in PEM form") from None
    if text := exposed(key.stat()):
        raise NoPage(
            f"--keyfile: {key} {text}; make a new certificate and key if somebody may have read it, else a copy of "
            "yours with mode 0600"
        )
    made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        made.load_cert_chain(certificate, key, password="")  # else OpenSSL would ask at the terminal
    except ssl.SSLError as error:
        raise NoPage(
            f"--certfile {certificate}, --keyfile {key}: they cannot be used ({error.reason or 'not in PEM form'}); "
            "take a certificate and the key that it was made with, in PEM form and without a passphrase"
        ) from None
    return made


def _in_link(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _bound(host: str, port: int) -> Listener:
    try:
        known = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise NoPage(f"--host: no computer is known here as {host} ({why}); take its number, or {EVERY[0]}") from None
    family, _, _, _, address = min(known, key=lambda each: each[0] != socket.AF_INET)
    server = Listener(family)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        server.bind(address)
        server.listen(128)
    except OSError as error:
        server.close()
        if error.errno == errno.EADDRNOTAVAIL:
            remedy = f"take one that `ip address` shows, or {EVERY[0]} for all of them"
            raise NoPage(f"--host: {host} is no address of this computer; {remedy}") from None
        raise NoPage(f"port {port} of {host} is not available ({error.strerror}); name another, or none") from error
    return server


def _end(connection: socket.socket) -> None:
    """Have asyncio find that a connection is over: it closes it."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:  # it is over already
        return
