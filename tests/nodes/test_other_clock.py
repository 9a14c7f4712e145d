"""A recording by listening on one of two computers: the times of the other one's nodes are converted."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from servonode.bus import TOPICS, Command, Lifecycle, Message, Status
from servonode.bus.codec import encode_frames
from servonode.bus.topology import CONTROLLER, PLANT, RELAY
from servonode.operator.listener import Raw
from servonode.operator.record_live import Listened, OtherClock, _listen
from servonode.record.spool import read_spool

MS = 1_000_000
LAUNCH = {"table": {"plant": {"machine": "m"}, "run": {"mode": "realtime", "seed": 0}}, "path": "a.toml", "file": "a"}
ABOUT = {"run": "a", "every": 1, "launch": LAUNCH, "columns": {}, "topics": list(TOPICS)}
AHEAD_MS = 5_000_000  # of the other clock before ours
REGISTRY = {"elsewhere": [PLANT]}  # of a run whose plant is on the other computer


def header(node: str, seq: int, mono_ms: int) -> dict[str, Any]:
    return {"t": 0.0, "seq": seq, "run": 5, "k": 0, "mono": mono_ms * MS, "node": node, "src": 3}


def status(node: str, seq: int, mono_ms: int, **values: float) -> Status:
    return Status(**header(node, seq, mono_ms), lifecycle=Lifecycle.ACTIVE, counts={}, values=values)


def command(seq: int, mono_ms: int) -> Command:
    return Command(**header(CONTROLLER, seq, mono_ms), re=0, target_seq=-1, input={"F": 1.0})


def word(message: Message) -> str:
    return "command" if isinstance(message, Command) else "status"


def times(clock: OtherClock, *messages: Message) -> list[int | None]:
    """The times of messages on our clock [ms]; None for one that is left out."""
    return [None if found is None else found.mono // MS for found in map(clock.on_ours, messages)]


def test_times_of_the_other_computer_are_converted_once_its_clock_is_known() -> None:
    known = {"offset_s": AHEAD_MS / 1e3}
    assert times(
        OtherClock(REGISTRY),
        status(PLANT, 0, AHEAD_MS + 100), status(RELAY, 0, 101, connected=0.0), command(0, 102),
        status(RELAY, 1, 103, **known), status(PLANT, 1, AHEAD_MS + 104), command(1, 105),
        status(RELAY, 2, 106, offset_s=(AHEAD_MS + 1) / 1e3), status(PLANT, 2, AHEAD_MS + 108),
    ) == [None, 101, 102, 103, 104, 105, 106, 107]  # fmt: skip


def test_without_a_relay_nothing_is_converted() -> None:
    clock, message = OtherClock({"elsewhere": []}), status(PLANT, 0, 100)
    assert clock.on_ours(message) is message


def test_the_recording_has_all_messages_in_the_order_of_one_clock(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("servonode.operator.record_live._about", lambda _: ABOUT)
    sent = [
        status(RELAY, 0, 100, offset_s=AHEAD_MS / 1e3), status(PLANT, 0, AHEAD_MS + 101), command(0, 102),
        status(PLANT, 1, AHEAD_MS + 103),
    ]  # fmt: skip
    batch = [Raw(each.node, word(each), encode_frames(word(each), each)[1]) for each in sent]
    listener: Any = SimpleNamespace(registry=REGISTRY, batches=lambda: iter([batch]))
    descriptor = os.open(tmp_path / "a.spool", os.O_RDWR | os.O_CREAT)
    made = Listened()
    _listen(listener, descriptor, lambda: False, made)
    os.close(descriptor)
    found = [
        (mono // MS, topic, message["mono"] // MS)
        for mono, topic, message in read_spool(tmp_path / "a.spool").messages()
    ]
    assert found == [
        (100, "relay/status", 100), (101, "plant/status", 101), (102, "controller/command", 102),
        (103, "plant/status", 103),
    ]  # fmt: skip
    assert (sum(made.missing.values()), made.problems) == (0, [])
