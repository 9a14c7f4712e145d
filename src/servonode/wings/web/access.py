"""Who may see the page: whoever has its link, in a page that this server gave.

Without TLS it answers only under names of this computer, else a foreign site could take another name for it. With TLS
the browser has compared the name with the certificate.

The link's secret is the first part of every path, so it goes neither into a cookie, which every other server on this
computer would receive, nor, by the policy below, into a Referer.
"""

import hmac
from collections.abc import Iterable
from typing import Any

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
SAFE = ("GET", "HEAD")  # methods that change nothing
ADMITTED = "servonode.admitted"  # in the scope of a request that came with the link
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
_HEADERS = [(name.encode(), text.encode()) for name, text in HEADERS.items()]


class Access:
    """Refuses with 403 and a sentence what may not be; adds the HEADERS to every answer that has not its own."""

    def __init__(self, app: Any, token: str, tls: bool = False) -> None:
        self._app, self._token, self._tls = app, token.encode(), tls

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle a request, as ASGI has it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Any) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                own = list(message.get("headers", ()))
                given = {name for name, _ in own}
                message["headers"] = [*own, *(each for each in _HEADERS if each[0] not in given)]
            await send(message)

        problem = self.problem(scope)
        if problem is None:
            scope[ADMITTED] = True
            await self._app(scope, receive, send_with_headers)
        else:
            await _refuse(scope, send_with_headers, problem)

    def problem(self, scope: Any) -> str | None:
        """Why a request is refused, None where it is not."""
        host, origin = _header(scope["headers"], b"host"), _header(scope["headers"], b"origin")
        name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
        if name not in LOOPBACK and not self._tls:
            return f"This page answers only under {', '.join(LOOPBACK)}, not under another host name."
        changes = scope["type"] == "websocket" or scope["method"] not in SAFE
        if origin != f"http{'s' if self._tls else ''}://{host}" and (origin or changes):
            return "This request came from another page; open the link that servonode printed."
        given = scope["path"].encode("utf-8", "replace").removeprefix(b"/").partition(b"/")[0]
        if not hmac.compare_digest(given, self._token):
            text = "The link is not complete, or is that of a page that has ended"
            return f"{text}; open the link that servonode printed."
        return None


def _header(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str:
    """The one header of this name; empty if none exists, or several of them, which no browser sends."""
    found = [text.decode("latin-1").lower() for each, text in headers if each == name]
    return found[0] if len(found) == 1 else ""


async def _refuse(scope: Any, send: Any, sentence: str) -> None:
    word = "websocket.http.response" if scope["type"] == "websocket" else "http.response"
    if scope["type"] == "websocket" and word not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008, "reason": sentence})
        return
    body = f"{sentence}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": f"{word}.start", "status": 403, "headers": headers})
    await send({"type": f"{word}.body", "body": body})
