"""What the relay keeps of a feed, and what it tells a browser that has seen a part of it."""

import asyncio
import json
from typing import Any

from servonode.wings.web import relay as module
from servonode.wings.web.relay import Relay


def new(relay: Relay, seen: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(relay.since(seen))
    assert found.pop("quiet") >= 0
    return found


def test_a_browser_gets_what_it_has_not_seen(monkeypatch: Any) -> None:
    relay = Relay()
    for line in (b'layout {"name":"a"}\n', b'rows {"t":[0]}\n', b'scene {"t":0}\n', b'status {"t":0}\n'):
        relay.take(line)
    everything = new(relay, 0)
    assert everything == {
        "anew": True, "layout": {"name": "a"}, "scene": {"t": 0}, "status": {"t": 0}, "rows": [{"t": [0]}],
    }  # fmt: skip
    seen = relay.version
    assert new(relay, seen) == {}
    relay.take(b'rows {"t":[1]}\n')
    relay.take(b'rows {"t":[2]}\n')
    relay.take(b'scene {"t":2}\n')
    assert new(relay, seen) == {"rows": [{"t": [1]}, {"t": [2]}], "scene": {"t": 2}}
    monkeypatch.setattr(module, "CHUNKS", 2)
    relay.take(b'rows {"t":[3]}\n')
    assert new(relay, seen) == {
        "anew": True, "layout": {"name": "a"}, "scene": {"t": 2}, "status": {"t": 0}, "rows": [{"t": [2]}, {"t": [3]}],
    }  # fmt: skip


def test_another_run_makes_all_before_it_void() -> None:
    relay = Relay()
    for line in (b'layout {"name":"a"}\n', b'rows {"t":[5]}\n', b'scene {"t":5}\n'):
        relay.take(line)
    seen = relay.version
    relay.take(b'layout {"name":"b"}\n')
    assert new(relay, seen) == {"anew": True, "layout": {"name": "b"}}


def test_memory_is_bounded_whatever_comes(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "BYTES", 10000)
    relay = Relay()
    relay.take(b"layout {}\n")
    for _ in range(1000):
        relay.take(b'rows {"t":[' + b"1," * 200 + b"1]}\n")
    assert len(relay.since(0)) < 11000
    assert relay._bytes <= 10000


def test_the_end_of_the_feed_is_told_in_its_own_words() -> None:
    relay = Relay()
    relay.take(b'end "the machine has no V"\n')
    relay.end(b'"it ended with exit code 2"')
    assert new(relay, 0)["end"] == "the machine has no V"


def test_without_news_a_browser_is_told_so_after_a_while() -> None:
    async def waited() -> None:
        relay = Relay()
        await asyncio.wait_for(relay.news(0), 60.0)

    asyncio.run(waited())


def test_the_feed_is_sent_whether_anybody_looks() -> None:
    relay, sent = Relay(), list[bytes]()
    relay.looked_at(1)
    relay.set_feed(sent.append)
    for browsers in (2, 1, 0, 1):
        relay.looked_at(browsers)
    assert sent == [b"1", b"0", b"1"]
    relay.set_feed(None)
    relay.looked_at(0)
    assert sent == [b"1", b"0", b"1"]
