"""The link to a machine in another process, over real sockets; the machine here is bare pyzmq."""

import select
import socket
import threading
from contextlib import closing
from pathlib import Path

import msgpack
import pytest
import zmq

from servonode.bus import (
    Applied,
    BusError,
    ExternalLink,
    Setup,
    State,
    Status,
    check_address,
    decode,
    encode,
    zmq_publisher,
)
from servonode.bus.link import QUEUE
from servonode.bus.zmq_io import numeric
from tests.helpers.events import eventually, soon
from tests.helpers.ports import free_port

HEADER = {"t": 0.1, "run": 1, "k": 1, "mono": 1, "node": "plant", "src": 1}


def state(seq: int) -> State:
    return State(**HEADER, seq=seq, state={"x": 0.1}, input={}, control=False)


def applied(seq: int, **more) -> Applied:
    return Applied(**HEADER, seq=seq, input={"u": 0.5}, desired={"u": 0.5}, re=-1, reasons=[], repeats=0, **more)


@pytest.fixture(params=["ipc", "tcp"])
def addresses(request, folder):
    if request.param == "ipc":
        return f"ipc://{folder}/state", f"ipc://{folder}/applied"
    return f"tcp://127.0.0.1:{free_port()}", f"tcp://localhost:{free_port()}"


class Machine:
    """The other end: a bound PUB and a connected SUB."""

    def __init__(self, state_address: str, applied_address: str) -> None:
        self.context = zmq.Context()
        self.out, self.into = self.context.socket(zmq.XPUB), self.context.socket(zmq.SUB)
        self.out.bind(state_address)
        self.into.subscribe(b"")
        self.into.setsockopt(zmq.RECONNECT_IVL, 2)
        self.into.connect(applied_address)

    def receives(self, link: ExternalLink) -> bool:
        """Whether both subscriptions of servonode are here; the link works only while it is looked at."""
        missing, deadline = 2, soon()
        while missing and soon(0) < deadline:
            assert link.receive() == []
            if self.out.poll(1):
                missing -= self.out.recv()[0]
        return not missing

    def frames(self):
        assert self.into.poll(60_000)
        return self.into.recv_multipart()

    def close(self) -> None:
        self.context.destroy(linger=0)


@pytest.fixture
def machine(addresses):
    made = Machine(*addresses)
    yield made
    made.close()


@pytest.fixture
def link(addresses):
    made = ExternalLink(*addresses)
    made.open()
    yield made
    made.close()


def received(link, n: int = 1):
    """Messages until n have come or a minute has gone."""
    got, deadline = link.receive(), soon()
    while len(got) < n and soon(0) < deadline:
        select.select(link.fds, (), (), 1.0 if link.due() is None else 0)
        got += link.receive()
    return got


@pytest.mark.parametrize(
    "good", ["tcp://127.0.0.1:9873", "tcp://localhost:1", "tcp://[::1]:65535", "ipc:///tmp/robot.state"]
)
def test_a_local_address_is_taken(good):
    assert check_address(good) is None


@pytest.mark.parametrize(
    ("bad", "says", "remedy"),
    [
        ("tcp://192.168.1.7:9873", "other computers", "tcp://127.0.0.1:PORT"),
        ("tcp://*:9873", "other computers", "tcp://127.0.0.1:PORT"),
        ("tcp://0.0.0.0:9873", "other computers", "tcp://127.0.0.1:PORT"),
        ("tcp://127.0.0.1.example.org:9873", "other computers", "tcp://127.0.0.1:PORT"),
        ("tcp://[::]:9873", "other computers", "tcp://[::1]:PORT"),
        ("tcp://eth0;127.0.0.1:9873", "other computers", "tcp://127.0.0.1:PORT"),
        ("tcp://127.0.0.1", "no usable port", "9873"),
        ("tcp://127.0.0.1:0", "no usable port", "1024"),
        ("tcp://127.0.0.1:65536", "no usable port", "65535"),
        ("tcp://127.0.0.1:９873", "other computers", "PORT"),
        ("ipc://robot", "no absolute path", "ipc:///PATH"),
        ("ipc:///tmp/" + "x" * 104, "109 bytes", "shorter"),
        ("ipc://@robot", "no absolute path", "ipc:///PATH"),
        ("udp://127.0.0.1:9873", "not an address", "ipc:///PATH"),
        ("inproc://robot", "not an address", "ipc:///PATH"),
        ("", "not an address", "ipc:///PATH"),
    ],
)
def test_any_other_address_is_refused_in_one_sentence(bad, says, remedy):
    text = check_address(bad)
    assert text is not None
    assert says in text
    assert remedy in text
    assert "\n" not in text
    with pytest.raises(BusError, match=r"take|write"):
        ExternalLink("tcp://127.0.0.1:9873", bad).open()


@pytest.mark.parametrize(
    "good", ["tcp://robot.local:9873", "tcp://192.168.1.7:9873", "tcp://[fd00::7]:9873", "tcp://0.0.0.0:1", "ipc:///x"]
)
def test_an_address_that_others_reach_is_taken_with_keys(good):
    assert check_address(good, far=True) is None


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("tcp://*:9874", "is not an address; take tcp://HOST:PORT or ipc:///PATH"),
        ("tcp://robot local:9874", "is not an address; take tcp://HOST:PORT or ipc:///PATH"),
        ("udp://127.0.0.1:9874", "is not an address; take tcp://HOST:PORT or ipc:///PATH"),
        ("tcp://robot.local:70000", "has no usable port; take one from 1024 to 65535"),
        ("tcp://robot.local:0", "has no usable port; take one from 1024 to 65535"),
        ("tcp://robot.local", "has no usable port; take one from 1024 to 65535"),
        ("ipc://robot", "has no absolute path; write ipc:///PATH"),
    ],
)
def test_with_keys_other_addresses_are_refused_in_words_that_fit(bad, says):
    text = check_address(bad, far=True)
    assert text is not None
    assert says in text
    assert "no keys" not in text


def test_messages_go_both_ways_as_two_frames(link, machine):
    assert machine.receives(link)
    assert eventually(link.listened)
    link.send("applied", applied(3, until=20, state_seq=7))
    topic, payload = machine.frames()
    assert topic == b"applied"
    assert decode(topic, payload) == applied(3, until=20, state_seq=7)
    assert msgpack.unpackb(payload)["until"] == 20
    machine.out.send_multipart([b"state", encode(state(1))])
    fault = Status(**HEADER, seq=0, lifecycle="fault", fault="too hot", counts={}, values={})
    machine.out.send_multipart([b"status", encode(fault)])
    assert received(link, 2) == [("state", state(1)), ("status", fault)]


def test_fields_for_devices_may_be_absent_from_the_messages_of_others():
    for message in (state(1), applied(1)):
        topic = type(message).__name__.lower().encode()
        content = msgpack.unpackb(encode(message))
        for late in ("applied_seq", "until", "state_seq", "final"):
            content.pop(late, None)
        assert decode(topic, msgpack.packb(content)) == message


def test_what_is_no_message_is_counted_by_reason(link, machine):
    assert machine.receives(link)
    good = encode(state(5))
    machine.out.send_multipart([b"state", b"\x00garbage"])
    machine.out.send_multipart([b"state"])
    machine.out.send_multipart([b"state", good, good])
    machine.out.send_multipart([b"state", msgpack.packb({**msgpack.unpackb(good), "state": {"x": float("nan")}})])
    machine.out.send_multipart([b"state2", good])
    machine.out.send_multipart([b"applied", encode(applied(1))])  # not subscribed to
    machine.out.send_multipart([b"state", good])
    assert received(link) == [("state", state(5))]
    assert link.counts == {"type": 1, "frames": 2, "non_finite": 1, "topic": 1}


def test_a_machine_that_sends_too_much_is_disconnected_and_connected_to_again(link, machine):
    assert machine.receives(link)
    machine.out.send_multipart([b"state", b"x" * 70000])
    assert machine.out.poll(60_000)  # the subscription ends
    machine.out.recv()
    assert machine.receives(link)
    machine.out.send_multipart([b"state", encode(state(2))])
    assert received(link) == [("state", state(2))]


def test_a_message_of_too_many_parts_is_skipped(link, machine):
    assert machine.receives(link)
    machine.out.send_multipart([b"state"] * 1000)
    machine.out.send_multipart([b"state", encode(state(1))])
    assert received(link) == [("state", state(1))]
    assert link.counts == {"frames": 1}


def test_a_link_hears_again_when_its_machine_comes_back(link, machine, addresses):
    assert machine.receives(link)
    machine.close()
    again = Machine(*addresses)
    assert again.receives(link)
    got, deadline = [], soon()
    while not got and soon(0) < deadline:  # what is published while a connection is made anew is lost, as ever
        again.out.send_multipart([b"state", encode(state(2))])
        select.select(link.fds, (), (), 0.1)
        got = link.receive()
    assert got[0] == ("state", state(2))
    again.close()


def test_a_link_that_is_well_can_be_renewed(link, machine):
    assert machine.receives(link)
    link.renew()
    assert eventually(lambda: machine.out.send_multipart([b"state", encode(state(2))]) or link.receive())


def test_nothing_readable_is_left_once_all_has_been_received(link, machine):
    assert machine.receives(link)
    for i in range(50):
        machine.out.send_multipart([b"state", encode(state(i))])
    assert len(received(link, 50)) == 50
    assert link.receive() == []
    assert select.select(link.fds, (), (), 0.02)[0] == []
    assert link.due() is None


def test_a_drain_is_bounded(link, machine):
    assert machine.receives(link)
    sent, got = [], []

    def more_waits() -> bool:
        for _ in range(30 if len(sent) - len(got) < 60 else 0):
            sent.append(len(sent))
            machine.out.send_multipart([b"state", encode(state(sent[-1]))])
        drained = link.receive(10)
        got.extend(m.seq for _, m in drained)
        assert len(drained) <= 10
        return len(drained) == 10 and link.due() == 0  # what waits now makes nothing readable

    assert eventually(more_waits)
    got.extend(m.seq for _, m in received(link, len(sent) - len(got)))
    assert got == sent
    assert link.due() is None


def test_a_second_one_on_the_same_address_is_refused_and_the_first_goes_on(link, machine, addresses):
    assert machine.receives(link)
    assert eventually(link.listened)
    second = ExternalLink(*addresses)
    with pytest.raises(BusError, match=r"cannot be bound .*stop the other run") as caught:
        second.open()
    assert addresses[1] in str(caught.value)
    second.close()
    link.send("applied", applied(1))
    assert machine.frames() == [b"applied", encode(applied(1))]


def test_a_path_that_a_killed_process_left_is_taken(folder):
    address = f"ipc://{folder}/applied"
    first = ExternalLink(f"ipc://{folder}/state", address)
    first.open()
    first.close()
    assert not (folder / "applied").exists()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
        left.bind(str(folder / "applied"))
    assert (folder / "applied").exists()
    again = ExternalLink(f"ipc://{folder}/state", address)
    again.open()
    again.close()


def test_one_address_cannot_serve_both_ways(folder):
    address = f"ipc://{folder}/one"
    with pytest.raises(BusError, match="second address"):
        ExternalLink(address, address).open()


def test_a_folder_that_is_missing_is_named(folder):
    with pytest.raises(BusError, match="gone/applied"):
        ExternalLink(f"ipc://{folder}/state", f"ipc://{folder}/gone/applied").open()


def test_what_was_sent_last_still_goes_out_when_the_link_is_closed_at_once(link, machine):
    assert machine.receives(link)
    assert eventually(link.listened)
    for i in range(QUEUE):
        link.send("applied", applied(i, final=True))
    link.close()
    link.close()
    assert [decode(*machine.frames()).seq for _ in range(QUEUE)] == list(range(QUEUE))


def test_the_message_that_ends_a_run_is_sent_again_where_a_full_queue_has_lost_it(monkeypatch):
    monkeypatch.setattr("servonode.bus.link.FINALS", 10_000)
    places = [f"tcp://127.0.0.1:{free_port()}" for _ in range(2)]
    link = ExternalLink(*places)
    link.open()
    with zmq.Context() as context, context.socket(zmq.SUB) as slow:
        slow.setsockopt(zmq.RCVHWM, 1)
        slow.setsockopt(zmq.RCVBUF, 4096)
        slow.subscribe(b"applied")
        slow.connect(places[1])
        assert eventually(link.listened)
        for i in range(5000):
            link.send("applied", applied(i))
        link.send("applied", applied(5000, final=True))
        thread = threading.Thread(target=link.close, daemon=True)
        thread.start()
        while slow.poll(60_000) and not decode(*slow.recv_multipart()).final:
            pass
        assert slow.poll(60_000)  # a message more: the last one comes again
        monkeypatch.setattr("servonode.bus.link.FINAL_S", 0.0)
        thread.join()


def test_few_inputs_wait_for_a_machine_that_does_not_read():
    """So that one which reads again has the newest input soon."""
    places = [f"tcp://127.0.0.1:{free_port()}" for _ in range(2)]
    link = ExternalLink(*places)
    link.open()
    with zmq.Context() as context, context.socket(zmq.SUB) as slow:
        slow.setsockopt(zmq.RCVHWM, 1)
        slow.setsockopt(zmq.RCVBUF, 4096)
        slow.subscribe(b"applied")
        slow.connect(places[1])
        assert eventually(link.listened)
        for i in range(5000):
            link.send("applied", applied(i))
            if i % 100 == 0:
                slow.poll(1)
        waited = 0
        assert slow.poll(60_000)
        while slow.poll(200):
            slow.recv_multipart()
            waited += 1
    link.close()
    assert 0 < waited < 500


class Crowd:
    """Connections to a tcp address that say nothing."""

    def __init__(self, address: str, number: int) -> None:
        self._place = ("127.0.0.1", int(address.rpartition(":")[2]))
        self.held = [self.opened() for _ in range(number)]

    def opened(self) -> socket.socket:
        made = socket.socket()
        made.setblocking(False)
        made.connect_ex(self._place)
        return made

    def gets_in(self) -> bool:
        """Whether one more is taken."""
        with socket.socket() as more:
            more.settimeout(0.1)
            return more.connect_ex(self._place) == 0

    def close(self) -> None:
        for each in self.held:
            each.close()


def test_a_system_that_keeps_nobody_out_ends_no_link(monkeypatch):
    monkeypatch.setattr(zmq_publisher, "ATTACH_FILTER", 9999)
    places = [f"tcp://127.0.0.1:{free_port()}" for _ in range(2)]
    with closing(Machine(*places)) as machine, closing(ExternalLink(*places)) as link:
        link.open()
        assert machine.receives(link)
        assert eventually(link.listened)
        with closing(Crowd(places[1], 300)) as crowd:
            assert eventually(lambda: link.receive() or link.counts["connections"])
            assert eventually(crowd.gets_in)  # the queue of those that wait may be full at first
        link.send("applied", applied(1))
        assert decode(*machine.frames()).seq == 1


def test_a_host_is_looked_up_once_and_an_unknown_one_is_named(monkeypatch):
    asked = []

    def look_up(host, port, **_):
        asked.append(host)
        if host == "nobody":
            raise socket.gaierror(-2, "Name or service not known")
        return [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", port, 0, 0)),
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)),
        ][: 1 if host == "six" else 2]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    assert numeric("tcp://robot:9873") == "tcp://127.0.0.1:9873"
    assert numeric("tcp://six:9873") == "tcp://[::1]:9873"
    assert numeric("ipc:///tmp/six:9873") == "ipc:///tmp/six:9873"
    asked.clear()
    link = ExternalLink(f"tcp://robot:{free_port()}", f"tcp://desk:{free_port()}", far=True)
    link.open()
    link.renew()
    link.close()
    assert [host for host in asked if host in ("robot", "desk")] == ["robot", "desk"]
    with pytest.raises(BusError, match=r"no computer is known here as nobody .*; check the name"):
        ExternalLink("tcp://nobody:9873", "tcp://desk:9874", far=True).open()


def test_whether_somebody_listens_is_known(link, machine):
    assert eventually(link.listened)
    machine.close()
    assert eventually(lambda: not link.listened())


GOLDEN = {
    "state": State(
        t=0.01, seq=11, run=4242, k=10, mono=5 * 10**9, node="robot", src=77, state={"x": 0.5, "n": [0.0, 0.0, 1.0]},
        input={"F": -1.5}, control=False, applied_seq=3,
    ),
    "applied": Applied(
        t=0.01, seq=4, run=4242, k=10, mono=6 * 10**9, node="plant", src=99, input={"F": -1.25}, desired={"F": -1.25},
        re=-1, reasons=[], repeats=0, until=20, state_seq=11,
    ),
}  # fmt: skip


@pytest.mark.parametrize("topic", GOLDEN)
def test_the_bytes_in_the_protocols_page_are_these_messages(topic):
    page = (Path(__file__).parent.parent.parent / "docs" / "reference" / "protocol.md").read_text()
    printed = page.partition(f"<!-- {topic} -->\n```\n")[2].partition("```")[0]
    if topic == "applied":  # a machine's state has fewer keys than a plant's
        assert bytes.fromhex(printed) == encode(GOLDEN[topic])
    assert decode(topic.encode(), bytes.fromhex(printed)) == GOLDEN[topic]


@pytest.mark.parametrize("kind", [Setup, State, Applied])
def test_the_protocols_page_names_every_key(kind):
    page = (Path(__file__).parent.parent.parent / "docs" / "reference" / "protocol.md").read_text()
    assert [name for name in kind.__struct_fields__ if f"`{name}`" not in page] == []
