"""Whatever a trusted computer sends to a relay, that goes on, and only what its key may say reaches the plant."""

import json
import random
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from servonode.bus import Bus, MessageError, Status, encode
from servonode.bus.envelope import (
    MAX_WHY,
    Busy,
    Clock,
    Echo,
    End,
    Ended,
    Envelope,
    Hello,
    Refused,
    Reply,
    Request,
    Stranger,
    Topic,
    Want,
    decode_envelope,
    encode_envelope,
)
from servonode.bus.keys import TrustedKey
from servonode.bus.messages import MAX_PAYLOAD, MAX_TEXT
from servonode.bus.requests import HEADER, LARGEST_REQUEST, NEVER, NO_TICKET, WANTS_TICKET, decode_map, encode_map
from servonode.bus.topology import GET, NODES
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.nodes.meeting import SILENT_NS
from servonode.nodes.relayed import MOST, MOST_FAULTS, ORDER_NS, decode_summaries, encode_summaries
from tests.helpers.events import LONG_S, soon
from tests.helpers.relays import HOST, PEER, Relay, computer_of, relay

DEEP_MAP = b'{"plant":{"more":' + b"[" * 60_000
OPERATOR = TrustedKey("desk", b"", ("controller", "operate"))
FOLLOWER = TrustedKey("desk", b"", ("controller",))
WATCHER = TrustedKey("screen", b"", ("observe",))
MACHINE = TrustedKey("robot", b"", ("plant",))


@pytest.fixture(scope="module")
def robots() -> ClosedLoop:
    return computer_of(HOST)


@pytest.fixture(scope="module")
def desks() -> ClosedLoop:
    return computer_of(None)


@pytest.fixture
def folder() -> Iterator[Path]:
    """With a short path, for sockets."""
    with tempfile.TemporaryDirectory(prefix="sn-") as made:
        yield Path(made)


@pytest.fixture
def robot(folder: Path, robots: ClosedLoop) -> Iterator[Relay]:
    """The relay of the computer that has the plant, and listens."""
    with relay(folder, robots) as made:
        yield made


@pytest.fixture
def desk(folder: Path, desks: ClosedLoop) -> Iterator[Relay]:
    """The relay of the computer that has controller and target, and connects."""
    with relay(folder, desks) as made:
        yield made


def status(node: str = "plant", **changed: object) -> bytes:
    header = {"t": 1.5, "seq": 0, "run": 5, "k": 3, "mono": 0, "node": node, "src": 5}
    return encode(Status(**{**header, "lifecycle": "active", "counts": {}, "values": {}, **changed}))  # type: ignore[arg-type]


def request(verb: object, ticket: bytes = NO_TICKET, valid_ns: int = NEVER) -> Request:
    return Request("plant", HEADER.pack(1, ticket, valid_ns), encode_map({"ask": verb}))


def requests_in(sent: list[Envelope]) -> list[Request]:
    return [each for each in sent if isinstance(each, Request)]


def replies_in(sent: list[Envelope]) -> list[Reply]:
    return [each for each in sent if isinstance(each, Reply)]


HOSTILE = [
    b"",
    b"\xff" * 40,
    b"\x00" * 24,
    struct.pack("<ddd", float("nan"), float("inf"), -0.0),
    b"[" * 60_000,
    b'{"a":' * 12_000,
    DEEP_MAP,
    b"\x91" * 60_000,
    b"\xdf\xff\xff\xff\xff" + b"\x81" * 5000,
    b"\x92\xa5Ended" + b"\x91" * 60_000,
    b'{"plant":[]}',
    b'{"plant":{"faults":"x","counts":{"a":-1},"k":1e999}}',
    b"1" * 60_000,
    status(),
]
KINDS = {each.__name__: each for each in Envelope.__subclasses__()}
TEXTS = ["", "plant", "\x1b[2J", "x" * 64]


def envelopes(rng: random.Random) -> Iterator[Envelope]:
    """Of every kind, with whatever its fields may hold."""
    for payload in HOSTILE:
        header = rng.choice([HEADER.pack(1, NO_TICKET, NEVER), HEADER.pack(1, NO_TICKET, WANTS_TICKET), bytes(32)])
        yield from (Topic(rng.choice(TEXTS), word, payload) for word in (*TEXTS, "status"))
        yield from (Request(node, header, payload[:LARGEST_REQUEST]) for node in TEXTS)
        yield Reply(rng.randbytes(8), payload)
        yield End(payload)
    for text in TEXTS:
        yield from (Refused(text), Busy(text), Hello(2**63 - 1, (text,), {text: text}), Hello(0, (), {}))
        yield from (Want(True, [text]), Want(False, ["plant/state"] * 64))
    yield from (Stranger(), Ended(), Clock(2**63 - 1), Echo(2**63 - 1, 0, 0), Echo(0, 2**63 - 1, 0))


@pytest.mark.parametrize("met", [False, True])
@pytest.mark.parametrize("side", ["robot", "desk"])
def test_no_envelope_ends_a_relay(side: str, met: bool, request: pytest.FixtureRequest) -> None:
    found: Relay = request.getfixturevalue(side)
    for envelope in envelopes(random.Random(7)):
        if met and not found.node.meeting.connected(found.now):
            found.meet()
        found.say(decode_envelope([encode_envelope(envelope)]))
    found.node.describe()
    found.node.summary()
    successor = b"" if side == "desk" else b"another"
    found.meet(start=8, peer=successor)
    found.say(Want(True, []), peer=successor)
    assert found.node.meeting.met


@pytest.mark.parametrize("kind", KINDS)
def test_an_envelope_comes_as_it_was_sent_and_with_a_field_of_another_kind_it_is_refused(kind: str) -> None:
    right = next(each for each in envelopes(random.Random(7)) if isinstance(each, KINDS[kind]))
    assert decode_envelope([encode_envelope(right)]) == right
    fields = msgspec.msgpack.decode(encode_envelope(right))
    for place in range(len(fields)):
        for wrong in (None, 1.5, [[[]]], {"a": {}}, b"x" * 66_000):
            with pytest.raises(MessageError):
                decode_envelope([msgspec.msgpack.encode([*fields[:place], wrong, *fields[place + 1 :]])])


BEYOND = [
    Topic("plant", "state", bytes(MAX_PAYLOAD + 1)),
    Request("plant", bytes(HEADER.size), bytes(LARGEST_REQUEST + 1)),
    Request("plant", bytes(HEADER.size - 1), b""),
    Request("plant", bytes(HEADER.size + 1), b""),
    Reply(bytes(7), b""),
    Reply(bytes(8), bytes(MAX_PAYLOAD + 1)),
    Refused("x" * (MAX_WHY + 1)),
    Want(True, ["plant/state"] * 65),
    Hello(-1, (), {}),
    Hello(0, ("plant",) * 9, {}),
    Clock(-1),
    End(bytes(MAX_PAYLOAD + 1)),
]


@pytest.mark.parametrize("envelope", BEYOND, ids=lambda each: type(each).__name__)
def test_an_envelope_beyond_its_bounds_is_refused(envelope: Envelope) -> None:
    with pytest.raises(MessageError):
        decode_envelope([encode_envelope(envelope)])


def test_what_is_no_envelope_is_refused_whatever_the_bytes() -> None:
    rng = random.Random(7)
    heads = [msgspec.msgpack.encode([kind])[1:] for kind in KINDS]
    for payload in (
        *HOSTILE,
        *(bytes((0x90 + size,)) + head + rng.randbytes(9) for head in heads for size in range(6)),
    ):
        try:
            decode_envelope([payload])
        except MessageError:
            continue
        assert payload[0] in (0x91, 0x92)  # by chance
    for frames in ([], [b"", b""], [encode_envelope(Ended())] * 2):
        with pytest.raises(MessageError):
            decode_envelope(frames)


def test_a_refusal_is_told_without_what_disturbs_a_terminal_and_within_a_message(desk: Relay) -> None:
    desk.say(Refused("\x1b[2J" + "long " * 12_000))
    assert "\x1b" not in desk.node.faults[0].text
    answer = decode_map(encode_map(desk.node.describe()))  # as the launcher asks
    assert answer["text"].startswith("?[2J")
    assert len(answer["text"]) == MAX_TEXT


def test_summaries_arrive_as_they_were_left() -> None:
    times = {"period_s": {"p50": 0.01, "p99": 0.02, "p999": 0.02, "max": 0.03}, "execution_s": {}}
    fault = {"name": "estop", "text": "stopped", "t": 1.0, "node": "plant"}
    left = {"faults": [fault], "counts": {"stale": 2}, "times": times, "k": 7, "wall_s": 1.5, "stopped_by": "SIGINT"}
    (plant,) = decode_summaries(encode_summaries({"plant": left, "target": {}})).values()
    assert plant == {**left, "times": {"period_s": times["period_s"]}}


def test_summaries_that_are_too_long_lose_faults_before_all_else_is_lost() -> None:
    fault = {"name": "fault", "text": "\x00" * 5000, "t": 1.0, "node": "plant"}
    left = {"faults": [fault] * 100, "counts": {f"{number}" * 300: 1 for number in range(200)}, "k": 7}
    payload = encode_summaries(dict.fromkeys(("target", "controller", "plant"), left))
    assert len(payload) <= MAX_PAYLOAD
    found = decode_summaries(payload)["plant"]
    assert found["k"] == 7
    assert 0 < len(found["faults"]) < MOST_FAULTS
    assert found["faults"][0]["text"] == "?" * MAX_TEXT


@pytest.mark.parametrize(
    "payload", [b"[]", b'{"plant":{}}', b'{"plant":{"k":-1}}', b'{"plant":{"k":1,"faults":[{"text":1}]}}', DEEP_MAP]
)
def test_summaries_of_another_shape_are_refused(payload: bytes, desk: Relay) -> None:
    """The run is over all the same: the plant has ended."""
    desk.meet()
    assert Ended() in desk.say(End(payload))
    assert desk.node.stop
    assert desk.count("refused_end") == 1
    assert desk.memories["plant"].summary == {}


def test_only_the_plants_computer_ends_a_run(desk: Relay) -> None:
    left = json.dumps({"plant": {"k": 1}}).encode()
    desk.meet(key=MACHINE)
    desk.say(End(left), key=WATCHER)
    assert not desk.node.stop
    assert desk.count("role_of_key_screen") == 1
    desk.say(End(left), key=MACHINE)
    assert desk.node.stop
    assert desk.memories["plant"].summary["k"] == 1


def test_the_computer_of_the_controller_ends_no_run(robot: Relay, capfd: pytest.CaptureFixture[str]) -> None:
    robot.meet()
    robot.say(End(b'{"target":{"counts":{"sent":4}}}'))
    assert robot.memories["target"].summary["counts"] == {"sent": 4}
    assert not robot.node.stop
    assert "the plant goes on by itself" in capfd.readouterr().err


def test_the_end_is_known_at_once_on_both_computers(robot: Relay) -> None:
    """The plant's computer waits for what the other's nodes left, and no longer."""
    robot.meet()
    robot.memories["plant"].write_summary({"k": 3})
    robot.wire.came.extend([(PEER, None, Ended()), (PEER, None, End(b'{"target":{"counts":{"sent":4}}}'))])
    robot.node.finish()
    assert robot.wire.is_closed
    assert robot.memories["target"].summary["counts"] == {"sent": 4}
    assert robot.node.lifecycle == "finished"


# roles


def test_a_key_publishes_only_as_the_nodes_of_its_roles(desk: Relay) -> None:
    with Bus(desk.bus.folder, "watch") as bus:
        inbox = bus.subscriber({"plant": ["status"], "controller": ["status"]})
        desk.meet(key=MACHINE)
        assert desk.until(lambda: desk.node.ready() or "plant/status" in desk.node._topics.wanted_here())
        desk.say(Topic("plant", "status", status()), key=WATCHER)
        desk.say(Topic("plant", "status", status("controller")), key=MACHINE)  # as another node
        desk.say(Topic("controller", "status", status("controller")), key=MACHINE)  # which runs here
        desk.say(Topic("plant", "command", status()), key=MACHINE)  # which a plant does not publish
        desk.say(Topic("plant", "status", status(t=float("nan"))), key=MACHINE)
        desk.say(Topic("plant", "status", status(fault="the only one")), key=MACHINE)
        assert inbox.wait(soon())
        assert [message.fault for _, message in inbox.receive()] == ["the only one"]  # type: ignore[attr-defined]
    assert desk.count("role_of_key_screen") == desk.count("refused_node") == 1
    assert desk.count("role_of_key_robot") == desk.count("refused_topic") == desk.count("refused_non_finite") == 1
    assert desk.node.t == 1.5


def test_without_keys_nobody_speaks_for_a_node_that_runs_here(desk: Relay) -> None:
    desk.meet()
    desk.say(Topic("controller", "status", status("controller")))
    assert desk.count("refused_topic") == 1


@pytest.mark.parametrize(
    ("verb", "key", "passes"),
    [
        ("arm", OPERATOR, True),
        ("estop", OPERATOR, True),
        ("arm", FOLLOWER, False),
        ("estop", WATCHER, False),
        ("status", WATCHER, True),
        *((verb, WATCHER, False) for verb in NODES["plant"].verbs if verb not in ("status", GET)),
        ("status", FOLLOWER, False),
        ("arm", None, True),  # a run without keys
        *((verb, OPERATOR, False) for verb in ("start", "stop", "ready", "", 7, ["arm"], None)),
    ],
)
def test_a_key_asks_only_what_its_roles_let_it(
    verb: object, key: TrustedKey | None, passes: bool, robot: Relay
) -> None:
    robot.meet(key=OPERATOR)
    with Bus(robot.bus.folder, "plant") as bus:
        requests = bus.requests()
        robot.say(Request("plant", HEADER.pack(1, NO_TICKET, WANTS_TICKET), b""), key=key)
        assert robot.until(lambda: requests.poll_request() or replies_in(robot.wire.sent))
        ticket = replies_in(robot.wire.sent)[-1].payload
        refused = replies_in(robot.say(request(verb, ticket, 10**9), key=key))
        if passes:
            assert not refused
            asked: list[object] = []
            assert robot.until(lambda: asked or asked.extend(requests.poll_request() or ()))
            assert asked[1] == {"ask": verb}
        else:
            assert "error" in decode_map(refused[0].payload)
            bus.wait(soon(0.05))
            assert requests.poll_request() is None


# requests


def test_a_request_that_cannot_be_read_is_answered(robot: Relay) -> None:
    robot.meet(key=OPERATOR)
    (reply,) = replies_in(robot.say(Request("plant", request("status").header, b"\xc1"), key=OPERATOR))
    assert reply.number == HEADER.pack(1, NO_TICKET, 0)[:8]
    assert "the request cannot be read" in str(decode_map(reply.payload)["error"])


def test_answers_reach_those_who_asked(desk: Relay) -> None:
    """Two operators, whose requests have the same number, get each its own answer, in whatever order these come."""
    desk.meet()
    with Bus(desk.bus.folder, "first") as one, Bus(desk.bus.folder, "second") as other:
        asking = [bus.requests_to("plant") for bus in (one, other)]
        numbers = []
        for asked in asking:
            asked.socket.send_multipart([request("status").header, request("status").payload])
            desk.wire.sent.clear()
            assert desk.until(lambda: requests_in(desk.wire.sent))
            numbers.append(requests_in(desk.wire.sent)[0].header[:8])
        desk.say(Reply(numbers[1], b"second"))
        desk.say(Reply(numbers[0], b"first"))
        desk.say(Reply(numbers[0], b"once more"))
        for asked, expected in zip(asking, (b"first", b"second"), strict=True):
            opened = asked.socket
            assert opened.poll(LONG_S * 1e3)
            assert opened.recv_multipart() == [HEADER.pack(1, NO_TICKET, 0)[:8], expected]
            assert not opened.poll(20)


def test_requests_without_a_connection_are_answered_at_once(desk: Relay) -> None:
    with Bus(desk.bus.folder, "first") as bus:
        opened = bus.requests_to("plant").socket
        opened.send_multipart([request("arm").header, request("arm").payload])
        assert desk.until(lambda: opened.poll(0))
        assert "the other computer of this run does not answer" in decode_map(opened.recv_multipart()[1])["error"]


def test_requests_that_get_no_answer_are_forgotten_beyond_so_many(desk: Relay) -> None:
    for _ in range(MOST + 1):
        desk.node.handle_request("estop")
    assert len({each.header for each in requests_in([*desk.meet(), *desk.turn()])}) == MOST


def test_a_relay_takes_no_answer_that_was_meant_for_the_one_before(folder: Path, desks: ClosedLoop) -> None:
    numbers = set()
    for _ in range(2):
        with relay(folder, desks) as desk:
            desk.meet()
            desk.node.handle_request("estop")
            numbers |= {each.header for each in requests_in(desk.turn())}
    assert len(numbers) == 2


def test_a_stop_by_signal_is_sent_until_the_plant_answers(desk: Relay, capfd: pytest.CaptureFixture[str]) -> None:
    """Also where the other computer is out of reach when the signal comes."""
    assert desk.node.handle_request("estop") == {"done": True}
    assert [type(each) for each in desk.turn()] == [Hello]
    stops = requests_in([*desk.meet(), *desk.turn()])
    assert [decode_map(each.payload) for each in stops] == [{"ask": "estop"}]
    desk.wire.sent.clear()
    assert desk.until(lambda: requests_in(desk.wire.sent) == stops)
    desk.say(Reply(stops[0].header[:8], encode_map({"error": "\x1bnot trusted"})))
    for _ in range(3):
        desk.now += ORDER_NS
        assert not requests_in(desk.turn())
    assert "estop is not carried out: ?not trusted" in capfd.readouterr().err


def test_a_key_that_is_refused_is_told_once_with_the_remedy(desk: Relay, capfd: pytest.CaptureFixture[str]) -> None:
    desk.wire.key_refused = True
    for _ in range(3):
        desk.turn()
    text = "the other computer does not trust our key 'own'; there: servonode keys trust own.key --role controller"
    assert capfd.readouterr().err == f"{text} --role operate\n"
    assert str(desk.node.describe()["link"]).startswith(text)


def test_a_computer_that_cannot_be_read_has_another_version(desk: Relay) -> None:
    assert desk.node.describe()["link"] == "the other computer does not answer"
    desk.wire.counts["refused_frames"] += 1
    assert str(desk.node.describe()["link"]).endswith("install the same version on both computers")
    desk.meet()
    assert "version" not in str(desk.node.describe()["link"])


def test_counts_of_one_name_are_added(robot: Relay) -> None:
    robot.meet()
    robot.wire.counts["refused_frames"] += 1
    robot.say(Request("controller", *msgspec.structs.astuple(request("status"))[1:]))
    assert robot.count("refused_frames") == 2


def test_requests_to_a_node_that_does_not_read_are_dropped_and_counted(robot: Relay) -> None:
    robot.meet()
    for _ in range(1100):
        robot.say(request("estop"))
    assert robot.count("dropped_requests") > 0


def test_a_plant_whose_status_is_not_valid_does_not_end_the_relay(robot: Relay) -> None:
    with Bus(robot.bus.folder, "plant") as bus:
        plant = bus.publisher()
        assert robot.until(lambda: plant.subscriptions_seen())
        plant.publish_frames(b"status", status(t=float("nan")))
        assert robot.until(lambda: robot.count("refused_non_finite"))


# who sends, and who receives


def test_a_stranger_does_not_part_two_computers(robot: Relay) -> None:
    robot.meet(key=OPERATOR)
    assert robot.say(Stranger(), key=WATCHER, peer=b"another") == []
    assert robot.node.meeting.connected(robot.now)
    said = f"another computer (the computer with key {OPERATOR.name!r}) is connected to this run"
    assert Busy(said) in robot.meet(start=9, key=FOLLOWER, peer=b"another")


def test_what_comes_from_a_computer_that_was_not_met_is_refused_and_counted(robot: Relay) -> None:
    robot.meet(key=OPERATOR)
    for each in (Topic("plant", "status", status()), request("estop"), End(b"{}")):
        assert robot.say(each, key=WATCHER, peer=b"another") == [Stranger()]
    assert robot.count("refused_unmet") == 3
    robot.say(robot.hello(start=9), key=WATCHER, peer=b"another")
    assert robot.count("refused_hellos") == 1


def test_nothing_is_published_to_a_computer_that_sends_nothing(robot: Relay) -> None:
    """Such as one whose key was revoked: the connection is there still."""
    with Bus(robot.bus.folder, "plant") as bus:
        plant = bus.publisher()
        assert robot.until(lambda: plant.subscriptions_seen())
        robot.meet()
        robot.say(Want(True, ["plant/status"]))
        plant.publish_frames(b"status", status())
        assert robot.until(lambda: Topic("plant", "status", status()) in robot.wire.sent)
        robot.node.meeting.received_ns -= SILENT_NS
        robot.wire.sent.clear()
        plant.publish_frames(b"status", status(t=2.0))
        assert robot.until(lambda: robot.node.t == 2.0)
        assert robot.wire.sent == []


def test_a_relay_that_is_not_known_says_hello_soon_but_not_without_end(desk: Relay) -> None:
    desk.meet()
    hellos = sum(isinstance(each, Hello) for _ in range(50) for each in desk.say(Stranger()))
    assert 1 <= hellos <= 5
    desk.meet()
    assert desk.node.meeting.connected(desk.now)


def test_a_relay_that_replaces_another_is_told_at_once_what_is_wanted(robot: Relay) -> None:
    robot.meet()
    robot.turn()
    assert not any(isinstance(each, Want) for each in robot.turn())
    assert any(isinstance(each, Want) for each in robot.meet(peer=b"its successor"))
