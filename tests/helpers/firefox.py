"""Firefox without a screen, by its own WebDriver BiDi: pages are opened, and expressions evaluated in them."""

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

FIREFOX = shutil.which("firefox") or shutil.which("firefox-esr")
needs_firefox = pytest.mark.skipif(not FIREFOX, reason="needs Firefox: apt install firefox-esr")
LISTENS = re.compile(rb"WebDriver BiDi listening on (ws://\S+)")
ANSWER_S = 300.0
QUIET = (  # nothing is fetched but the page
    'user_pref("app.update.enabled", false);\nuser_pref("datareporting.policy.dataSubmissionEnabled", false);\n'
    'user_pref("browser.shell.checkDefaultBrowser", false);\n'
    'user_pref("network.captive-portal-service.enabled", false);\n'
)


class Firefox:
    """A browser with one page."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection, self._count = connection, 0
        self._ask("session.new", capabilities={})
        self._context = self._ask("browsingContext.getTree")["contexts"][0]["context"]

    def _ask(self, method: str, **params: Any) -> Any:
        self._count += 1
        self._connection.send(json.dumps({"id": self._count, "method": method, "params": params}))
        while True:
            answer = json.loads(self._connection.recv(timeout=ANSWER_S))
            if answer.get("id") == self._count:
                assert answer["type"] == "success", answer
                return answer["result"]

    def open(self, url: str) -> None:
        """Open a page, to the end of its loading."""
        self._ask("browsingContext.navigate", context=self._context, url=url, wait="complete")

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page, of which a promise is awaited; it comes as JSON."""
        whole = f"Promise.resolve({expression}).then((found) => JSON.stringify(found ?? null))"
        target = {"context": self._context}
        answer = self._ask("script.evaluate", expression=whole, target=target, awaitPromise=True)
        assert answer["type"] == "success", answer
        return json.loads(answer["result"]["value"])


@contextmanager
def firefox() -> Iterator[Firefox]:
    """A Firefox of its own profile."""
    with tempfile.TemporaryDirectory(prefix="sn-firefox-", ignore_cleanup_errors=True) as profile:
        Path(profile, "user.js").write_text(QUIET, encoding="utf-8")
        command = [str(FIREFOX), "--headless", "--no-remote", "--profile", profile, "--remote-debugging-port", "0"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            assert process.stderr is not None
            address = next(found[1].decode() for line in process.stderr if (found := LISTENS.search(line)))
            with connect(f"{address}/session", max_size=None, open_timeout=60) as connection:
                yield Firefox(connection)
        finally:
            process.kill()
            process.wait()
            if process.stderr is not None:
                process.stderr.close()
