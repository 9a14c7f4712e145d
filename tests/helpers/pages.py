"""Pages in processes of their own, requests to them as a browser or a stranger makes them, and a browser."""

import http.client
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import pytest
from websockets.sync.client import ClientConnection, connect

from tests.helpers.runs import END_S, START_S, Process, Runs, eventually

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars"
)
COMMAND = [sys.executable, "-m", "servonode.cli.main"]
FORGIVING = ("plant.safety.command_timeout_floor=0.5", "run.speed=1", "run.duration=600")
LINK = re.compile(r"https?://[\w.-]+:(\d+)/([\w-]+)/")
OPENSSL = shutil.which("openssl")
needs_openssl = pytest.mark.skipif(not OPENSSL, reason="makes a certificate: apt install openssl")
needs_browser = pytest.mark.skipif(
    not (CHROMIUM and DRIVER and find_spec("selenium")),
    reason="needs a browser: apt install chromium chromium-driver; uv sync --group browser",
)


def made_certificate(folder: Path, *names: str, name: str = "robot") -> tuple[Path, Path]:
    """A certificate for these names (IP:..., DNS:...), signed by itself, and its key; in PEM form."""
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    command = f"{OPENSSL} req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN={name}"
    more = ["-addext", f"subjectAltName={','.join(names or ('IP:127.0.0.1',))}"]
    subprocess.run([*command.split(), *more, "-out", certificate, "-keyout", key], check=True, capture_output=True)
    key.chmod(0o600)
    return certificate, key


class Link:
    """The link of a page on this computer: its port and its secret; certificate: that of a page over https."""

    def __init__(self, port: int, token: str, certificate: Path | None = None) -> None:
        self.port, self.token = port, token
        self.host = f"127.0.0.1:{port}"
        self.scheme = "https" if certificate else "http"
        self.origin = f"{self.scheme}://{self.host}"
        self.url = f"{self.origin}/{token}/"
        self.trusting = ssl.create_default_context(cafile=certificate) if certificate else None

    @classmethod
    def read(cls, text: str, certificate: Path | None = None) -> Self:
        """The link in a text."""
        found = LINK.search(text)
        assert found, text
        return cls(int(found[1]), found[2], certificate)

    def ask(self, method: str = "GET", path: str | None = None, **headers: str) -> tuple[int, str, dict[str, str]]:
        """Status, text and headers of the answer to a request; a `path` without / lies below the secret."""
        connection = self.connection()
        try:
            where = path if path is not None and path.startswith(("/", "*", "http:")) else f"/{self.token}/{path or ''}"
            connection.request(method, where, headers={"Host": self.host, **headers})
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), {name.lower(): text for name, text in answer.getheaders()}
        finally:
            connection.close()

    def connection(self) -> http.client.HTTPConnection:
        """One that checks the server's certificate, if the page has one."""
        if self.trusting:
            return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=START_S, context=self.trusting)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=START_S)

    def stop(self) -> dict[str, Any]:
        """Press the emergency stop."""
        status, text, _ = self.ask("POST", "stop", Origin=self.origin)
        assert status == 200, text
        found: dict[str, Any] = json.loads(text)
        return found

    def feed(self, **options: Any) -> ClientConnection:
        """The websocket, as this page opens it."""
        options = {"origin": self.origin, "max_size": None, "compression": None, "ssl": self.trusting} | options
        return connect(f"{self.url}feed".replace("http", "ws", 1), create_connection=_Feed, **options)


class _Feed(ClientConnection):
    """A websocket whose end is noticed by whoever reads a part of a TLS record: to close it alone wakes nobody."""

    def close_socket(self) -> None:
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        super().close_socket()


def told(feed: ClientConnection) -> dict[str, Any]:
    """The next message, which is answered as drawn."""
    message: dict[str, Any] = json.loads(feed.recv(timeout=START_S))
    feed.send("drawn")
    return message


def begun(runs: Runs, launch: str, *settings: str, **more: Any) -> Process:
    """A run in real time in progress, which forgives a busy computer."""
    run = runs.start(launch, *FORGIVING, *settings, **more)
    run.wait_open()
    return run


def is_stopped(run: Process) -> bool:
    """Whether the plant itself says so, asked from outside."""
    return "estop" in [each["name"] for each in run.ask("status")["faults"]]


class PageProcess:
    """`servonode page` with these words. A context manager that ends it."""

    def __init__(self, folder: Path, *words: str, cwd: Path | None = None, certificate: Path | None = None) -> None:
        self._stderr = folder / "page.stderr"
        with self._stderr.open("w") as stderr:
            command = [*COMMAND, "page", *words]
            self.popen = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=stderr, cwd=cwd)
        assert eventually(lambda: LINK.search(self.stderr) or self.popen.poll() is not None, START_S)
        self.link = Link.read(self.stderr, certificate)

    @property
    def stderr(self) -> str:
        return self._stderr.read_text()

    def feed_process(self) -> int:
        """The process that draws."""
        found = Path(f"/proc/{self.popen.pid}/task/{self.popen.pid}/children").read_text().split()
        assert len(found) == 1, found
        return int(found[0])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError, AssertionError):
            os.kill(self.feed_process(), 9)
        self.popen.kill()
        self.popen.wait(END_S)


@contextmanager
def browser() -> Iterator[Any]:
    """Chromium without a screen, of 1280 x 800 pixels."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    options.accept_insecure_certs = True  # those of the tests are signed by themselves
    for flag in FLAGS.split():
        options.add_argument(flag)
    options.add_argument("--window-size=1280,800")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with tempfile.TemporaryDirectory(prefix="sn-chromium-", ignore_cleanup_errors=True) as profile:
        options.add_argument(f"--user-data-dir={profile}")
        driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
        try:
            yield driver
        finally:
            driver.quit()
