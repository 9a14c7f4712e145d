"""Unknown processes at a node's sockets, and in the place of its peers: no delay, no growth, all goes on.

What is measured is the node's own computing in a tick, so that other programs hardly matter; the bound stands well
above what is usual (0.2 ms) and well below what a flood costs without one (45 ms and more). A flood lasts: where the
computer itself interrupts the ticks, which counts as computing too, they are measured again.
"""

import contextlib
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
import zmq

from servonode.bus import Bus, BusError, ExternalLink, Requester, State, descriptors
from servonode.bus.publisher import SUBSCRIBERS, SUBSCRIPTIONS
from servonode.bus.requests import CLIENTS, PIPELINED
from tests.helpers.runs import SOON_S, eventually
from tests.helpers.strangers import PUBLISHES, SAYS, asking, frame, opening, stranger

TICK_NS = 1_000_000
TICKS = 200
USUAL = 0.99  # share of the ticks in which at most MOST_NS are computed
MOST_NS = 1_000_000
WORST_NS = 10_000_000
SERIES = 4  # of ticks, until one goes undisturbed
GROWTH = 8 * 2**20  # bytes
SOCKETS = 200  # descriptors that a node may come to hold


SUBSCRIBING = ("long subscriptions", "many subscriptions", "subscriptions come and go", "empty frames", "stream")
ASKING = ("requests", "no requests", "large requests", "message without end")
ATTACKS = [
    pytest.param(what, kind, marks=pytest.mark.slow if what in elsewhere else ())
    for kind, elsewhere in (("pub", ASKING), ("req", SUBSCRIBING))
    for what in SAYS
]


def state(seq: int) -> State:
    return State(t=0.1, run=1, k=1, mono=1, node="plant", src=1, seq=seq, state={"x": 0.1}, input={}, control=True)


@pytest.fixture
def node(folder: Path) -> Iterator[SimpleNamespace]:
    """A node with a publisher and a request socket, and a subscriber."""
    with Bus(folder, "plant") as bus, Bus(folder, "controller") as other:
        publisher, requests = bus.publisher(1), bus.requests()
        subscriber = other.subscriber({"plant": ["state"]})
        assert publisher.wait_ready(time.monotonic_ns() + 3 * 10**9)
        yield SimpleNamespace(bus=bus, publisher=publisher, requests=requests, subscriber=subscriber, seq=0, answered=0)


def resident() -> int:
    """Bytes of memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def tick(node: SimpleNamespace) -> None:
    """What a plant does in each: publish, wait without sleeping, answer requests."""
    node.publisher.publish("state", state(node.seq))
    node.seq += 1
    node.bus.wait(0)
    node.publisher.subscriptions_seen()
    if (request := node.requests.poll_request()) is not None:
        node.answered += 1
        node.requests.reply(request[0], {"done": True})


def computing(work: Callable[[], object], ticks: int = TICKS) -> list[int]:
    """How long [ns] this thread computes in each of so many ticks, sorted."""
    costs, due = [], time.monotonic_ns()
    for _ in range(ticks):
        begin = time.thread_time_ns()
        work()
        costs.append(time.thread_time_ns() - begin)
        due += TICK_NS
        time.sleep(max(due - time.monotonic_ns(), 0) / 1e9)
    return sorted(costs)


def assert_undisturbed(work: Callable[[], object], most_ns: int = MOST_NS) -> None:
    """Fail if in each of some series of ticks the node computes for longer than it usually does."""
    for _ in range(SERIES):
        costs = computing(work)
        if costs[round(USUAL * len(costs))] < most_ns and costs[-1] < WORST_NS:
            return
    pytest.fail(f"the node's last series of ticks computed for up to {costs[-20:]} ns")


# at what is bound


@pytest.mark.parametrize(("what", "kind"), ATTACKS)
def test_a_node_goes_on_whatever_strangers_say(folder: Path, node: SimpleNamespace, what: str, kind: str) -> None:
    computing(lambda: tick(node), 50)
    held = resident()
    with stranger(what, folder / f"plant.{kind}"):
        assert_undisturbed(lambda: tick(node))
        assert resident() - held < GROWTH
        assert len(os.listdir("/proc/self/fd")) < SOCKETS  # noqa: PTH208
        assert node.publisher.subscriptions.total() <= SUBSCRIBERS * SUBSCRIPTIONS
        with ThreadPoolExecutor(1) as pool, Requester(folder, "plant") as requester:
            asked = pool.submit(requester.ask, {"ask": "estop"}, SOON_S, expires=False)
            assert eventually(lambda: tick(node) or asked.done())
            assert asked.result() == {"done": True}
        node.subscriber.receive()
        assert node.subscriber.wait(time.monotonic_ns() + 10**9) or tick(node) or node.subscriber.receive()
    assert not node.subscriber.counts


def raw(path: Path, data: bytes = b"") -> socket.socket:
    """A connection over which this went."""
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    opened.connect(str(path))
    opened.sendall(data)
    opened.setblocking(False)
    return opened


def hung_up(peer: socket.socket) -> bool:
    """Whether the other side has ended the connection."""
    with contextlib.suppress(BlockingIOError):
        try:
            while peer.recv(65536):
                pass
        except ConnectionError:
            pass
        return True
    return False


ESTOP = asking(b"\x81\xa3ask\xa5estop")
LEGACY = {  # the same request, and a subscription, as peers of before ZMTP 3 send them
    "1.0": b"\x01\x00" + b"\x11\x01" + b"\x01" + bytes(7) + b"\xff" * 8 + b"\x0c\x00" + b"\x81\xa3ask\xa5estop",
    "1.0 subscribing": b"\x01\x00" + b"\x07\x00\x01state",
    "2.0 dealer": b"\xff" + bytes(8) + b"\x7f\x01\x05\x00\x00" + ESTOP,
    "2.0 subscriber": b"\xff" + bytes(8) + b"\x7f\x01\x02\x00\x00" + frame(b"\x01state"),
    "curve": b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"CURVE".ljust(20, b"\0") + bytes(32) + ESTOP,
    "no handshake": opening(b"DEALER")[:64] + ESTOP,
    "wrong kind": opening(b"PUSH") + ESTOP,
    "not ZeroMQ": b"GET / HTTP/1.1\r\n\r\n",
}


@pytest.mark.parametrize("kind", ["pub", "req"])
@pytest.mark.parametrize("how", LEGACY)
def test_who_speaks_no_zmtp_3_is_hung_up_on_and_never_heard(
    folder: Path, node: SimpleNamespace, how: str, kind: str
) -> None:
    with raw(folder / f"plant.{kind}", LEGACY[how]) as peer:
        assert eventually(lambda: tick(node) or hung_up(peer))
    assert node.answered == 0
    assert node.publisher.joined == 1


def test_who_never_shakes_hands_goes(folder: Path, node: SimpleNamespace) -> None:
    with raw(folder / "plant.req") as silent, raw(folder / "plant.pub", opening(b"SUB")[:40]) as slow:
        begin = time.monotonic()
        assert eventually(lambda: tick(node) or (hung_up(silent) and hung_up(slow)))
        assert time.monotonic() - begin > 0.9


@pytest.mark.parametrize(
    "data",
    [frame(b"\x01" + b"x" * 64), b"\x02" + b"\xff" * 8, b"\x20\x00", frame(b"\x01", 1) * 20, frame(b"\x04WHAT", 5)],
)
def test_a_frame_that_no_subscriber_sends_ends_the_connection(folder: Path, node: SimpleNamespace, data: bytes) -> None:
    with raw(folder / "plant.pub", opening(b"SUB") + frame(b"\x01state") + data) as peer:
        assert eventually(lambda: tick(node) or hung_up(peer))
    assert eventually(lambda: node.publisher.subscriptions_seen() == 1)


def test_only_the_beginnings_of_topics_are_subscribed_to_and_only_so_many(folder: Path, node: SimpleNamespace) -> None:
    words = [b"state2", b"\xff", b"x", b"app", b"", b"state", b"sta"]
    with raw(folder / "plant.pub", opening(b"SUB") + b"".join(frame(b"\x01" + word) for word in words)) as peer:
        assert eventually(lambda: node.publisher.subscriptions_seen() == 5)
        assert node.publisher.subscriptions == {"state": 2, "app": 1, "": 1, "sta": 1}
        peer.sendall(frame(b"\x01state") * 100)
        assert eventually(lambda: node.publisher.subscriptions_seen() == 1 + SUBSCRIPTIONS)
        peer.sendall(frame(b"\x00state") * 100 + frame(b"\x00") + frame(b"\x00nothing"))
        assert eventually(lambda: node.publisher.subscriptions_seen() == 3)
        assert node.publisher.listened("applied")
        assert node.publisher.listened("state")
        assert not node.publisher.listened("command")
    assert eventually(lambda: node.publisher.subscriptions_seen() == 1)
    assert not node.publisher.listened("applied")


@pytest.mark.parametrize("word", [b"", b"app", b"applied"])
def test_who_subscribes_to_the_beginning_of_a_topic_hears_it_once(
    folder: Path, node: SimpleNamespace, word: bytes
) -> None:
    with zmq.Context() as context, context.socket(zmq.SUB) as heard:
        heard.connect(f"ipc://{folder}/plant.pub")
        heard.subscribe(word)
        heard.subscribe(b"applied")
        assert eventually(lambda: node.publisher.subscriptions_seen() == 3)
        node.publisher.publish_frames(b"applied", b"1")
        assert heard.recv_multipart() == [b"applied", b"1"]
        node.publisher.publish_frames(b"applied", b"2")
        assert heard.recv_multipart() == [b"applied", b"2"]


def test_one_process_does_not_take_all_places(folder: Path, node: SimpleNamespace) -> None:
    with stranger("listening", folder / "plant.pub"):
        assert eventually(lambda: tick(node) or node.publisher.subscriptions.total() > 1)
        computing(lambda: tick(node), 100)
        assert node.publisher.subscriptions.total() <= 1 + SUBSCRIBERS // 4
        with Bus(folder, "recorder") as recorder:  # this process has a place already, and room for more
            late = recorder.subscriber({"plant": ["state"]})
            assert eventually(lambda: tick(node) or late.receive())


def test_an_asker_has_few_requests_waiting_and_others_are_heard_meanwhile(folder: Path, node: SimpleNamespace) -> None:
    with raw(folder / "plant.req", opening(b"DEALER") + asking() * PIPELINED) as one, contextlib.ExitStack() as stack:
        first = [node.requests.poll_request() for _ in range(3)]
        assert [each is not None for each in first] == [True] * PIPELINED + [False] * (3 - PIPELINED)
        one.sendall(asking())
        assert node.requests.poll_request() is None  # until one has been answered
        other = stack.enter_context(raw(folder / "plant.req", opening(b"DEALER") + ESTOP))
        assert eventually(lambda: (asked := node.requests.poll_request()) and asked[1] == {"ask": "estop"})
        assert not hung_up(other)
        for each in first[:PIPELINED]:
            assert each is not None
            node.requests.reply(each[0], {})
        assert eventually(node.requests.poll_request)
        greedy = stack.enter_context(raw(folder / "plant.req", opening(b"DEALER") + asking() * (PIPELINED + 1)))
        assert eventually(lambda: node.requests.poll_request() is None and hung_up(greedy))


def test_a_request_whose_asker_has_gone_is_dropped_but_a_stop_is_carried_out(
    folder: Path, node: SimpleNamespace
) -> None:
    soon = frame((1).to_bytes(8, "little") + (2**62).to_bytes(8, "little"), 1)
    for data in (soon + frame(b"\x81\xa3ask\xa3arm"), ESTOP):
        raw(folder / "plant.req", opening(b"DEALER") + data).close()
    heard = []
    eventually(lambda: heard.append(node.requests.poll_request()), 0.1)
    asked = [each[1]["ask"] for each in heard if each is not None]
    assert "estop" in asked
    for _ in range(3 * CLIENTS):
        raw(folder / "plant.req", opening(b"DEALER") + ESTOP).close()
        node.requests.server.look(time.monotonic_ns())
    assert len(node.requests._waiting) <= PIPELINED * CLIENTS


def test_an_asker_is_answered_by_a_node_that_was_started_again(folder: Path) -> None:
    with Requester(folder, "plant") as requester:
        for number in range(3):
            with Bus(folder, "plant") as bus:
                requests = bus.requests()
                with ThreadPoolExecutor(1) as pool:
                    asked = pool.submit(requester.ask, {"number": number}, SOON_S)
                    while not asked.done():
                        if (request := requests.poll_request()) is not None:
                            requests.reply(*request)
                    assert asked.result() == {"number": number}
                with pytest.raises(TimeoutError, match="did not answer"):
                    requester.ask({"number": number}, 0.05)
        with pytest.raises(TimeoutError, match=r"does not answer after|does not exist"):
            requester.ask({}, 0.05)


# in the place of a peer


@pytest.mark.parametrize("what", PUBLISHES)
def test_a_link_goes_on_whatever_the_machine_sends(folder: Path, what: str) -> None:
    link = ExternalLink(f"ipc://{folder}/state", f"ipc://{folder}/applied")
    link.open()
    with stranger(what, folder / "state"):
        assert eventually(lambda: link.receive() or link.counts)
        held = resident()
        assert_undisturbed(link.receive, 2 * MOST_NS)
        assert resident() - held < GROWTH
        assert link.counts
    link.close()


def test_a_message_of_endless_parts_holds_no_subscriber_up(folder: Path) -> None:
    parts = 100_000
    with zmq.Context() as context, context.socket(zmq.XPUB) as out, Bus(folder, "controller") as bus:
        out.bind(f"ipc://{folder}/plant.pub")
        subscriber = bus.subscriber({"plant": ["state"]})
        assert out.poll(3000)
        for _ in range(parts):
            out.send(b"state", zmq.SNDMORE)
        out.send(b"end")
        out.send_multipart([b"state", b"\x80"])
        costs = []
        deadline = time.monotonic() + 20
        while subscriber.counts["missing"] == 0 and time.monotonic() < deadline:
            begin = time.thread_time_ns()
            subscriber.receive(1)
            costs.append(time.thread_time_ns() - begin)
            time.sleep(0)
        assert subscriber.counts == {"frames": 1, "missing": 1}
        assert sorted(costs)[round(USUAL * len(costs))] < MOST_NS


# descriptors


def limited(number: int, code: str) -> subprocess.CompletedProcess[str]:
    """This code in a process that may open so many files."""
    set_limit = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({number}, {number}))\n"
    return subprocess.run([sys.executable, "-c", set_limit + code], capture_output=True, text=True, check=False)


def test_without_enough_descriptors_a_bus_is_refused_in_one_sentence(folder: Path) -> None:
    code = f"from servonode.bus import Bus\nBus({str(folder)!r}, 'plant')"
    done = limited(40, code)
    assert done.returncode == 1  # where libzmq would have ended the process by SIGABRT
    assert "BusError: this process may open 40 files and needs 48" in done.stderr
    assert limited(64, code).returncode == 0


def test_the_limit_is_raised_as_far_as_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, hard))
    descriptors.ensure_room()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (min(1024, hard), hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    monkeypatch.setattr(resource, "getrlimit", lambda _: (60, 60))
    assert descriptors.share(32) == 7
    descriptors.ensure_room()
    monkeypatch.setattr(resource, "getrlimit", lambda _: (44, 44))
    with pytest.raises(BusError, match="raise the limit"):
        descriptors.ensure_room()


def test_a_server_without_a_free_descriptor_goes_on(folder: Path) -> None:
    code = f"""
import os, socket, time
from servonode.bus import Bus
with Bus({str(folder)!r}, "plant") as bus:
    publisher, requests = bus.publisher(), bus.requests()
    taken = []
    try:
        while True:
            taken.append(os.dup(0))
    except OSError:
        os.close(taken.pop())
    peer = socket.socket(socket.AF_UNIX)
    peer.connect({str(folder / "plant.req")!r})
    used = time.thread_time()
    bus.wait(time.monotonic_ns() + 10**8)
    assert time.thread_time() - used < 0.05
    os.close(taken.pop())
    for _ in range(50):
        bus.wait(time.monotonic_ns() + 10**7)
    peer.setblocking(False)
    assert peer.recv(10)[:1] == b"\\xff"
"""
    done = limited(64, code)
    assert done.returncode == 0, done.stderr
