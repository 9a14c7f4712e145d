"""Requests over real sockets: tickets, late and repeated requests, stalled and restarted nodes, many clients."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgpack
import pytest
import zmq

from servonode.bus import Bus, Requester
from servonode.bus.requests import AT_ONCE, HEADER, MOST, NEVER, NO_TICKET, TICKET, WANTS_TICKET, Requests, Tickets
from tests.helpers.events import LONG_S, eventually, soon

SECOND = 10**9  # ns
SHORT_S = 1e-3  # a client that looks at its clock as often; where that stands still it waits for ever
ARM, ESTOP, STOP = {"ask": "arm"}, {"ask": "estop"}, {"ask": "stop"}


@pytest.fixture
def plant(folder: Path) -> Iterator[Bus]:
    with Bus(folder, "plant") as bus:
        yield bus


@pytest.fixture
def requests(plant: Bus) -> Requests:
    return plant.requests()


class Client:
    """A foreign DEALER socket that speaks the protocol by its page alone."""

    def __init__(self, address: str) -> None:
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.connect(address)

    def send(self, request: object, ticket: bytes = NO_TICKET, valid_ns: int = NEVER, number: int = 7) -> None:
        self.socket.send_multipart([HEADER.pack(number, ticket, valid_ns), msgpack.packb(request)])

    def reply(self, requests: Requests) -> bytes:
        """The payload of the next reply; the node serves requests meanwhile, none of which is valid."""
        deadline = soon()
        while not self.socket.poll(1):
            assert requests.poll_request() is None
            assert soon(0) < deadline
        number, payload = self.socket.recv_multipart()
        assert number == (7).to_bytes(8, "little")
        return payload

    def error(self, requests: Requests) -> str:
        return str(msgpack.unpackb(self.reply(requests))["error"])

    def ticket(self, requests: Requests) -> bytes:
        self.send({}, valid_ns=WANTS_TICKET)
        return self.reply(requests)


@pytest.fixture
def client(folder: Path, requests: Requests) -> Iterator[Client]:
    made = Client(f"ipc://{folder}/plant.req")
    yield made
    made.context.destroy(linger=0)


def taken(requests: Requests) -> dict[str, Any]:
    """The content of the next request, which is answered."""
    found: list[Any] = []
    assert eventually(lambda: found.append(requests.poll_request()) or found[-1])
    requests.reply(found[-1][0], {"done": True})
    return found[-1][1]


class Held:
    """A node and a client whose clock stands still until it is told to go on: for the one as for the other.

    looks: whether the client looks for answers to what it has sent.
    """

    def __init__(self, folder: Path, requests: Requests) -> None:
        self.now = 0
        self.looks = threading.Event()
        self.looks.set()
        self._begun = False
        self._folder = folder
        requests._tickets._clock = lambda: self.now

    def clock(self) -> int:
        """The client's, which it asks before it sends, and then whenever it looks."""
        assert not self._begun or self.looks.wait(LONG_S)
        self._begun = True
        return self.now

    def asked(self, request: dict[str, Any], while_waiting: Callable[[Future[Any]], object]) -> Any:
        """The answer to a client of another thread, while this one does something."""
        with ThreadPoolExecutor(1) as pool, Requester(self._folder, "plant", self.clock) as requester:
            future = pool.submit(requester.ask, request, SHORT_S)
            while_waiting(future)
            return future.result()

    def give_up(self, future: Future[Any]) -> None:
        """The client's time ends, if it has begun to wait: else it goes on."""

        def passed() -> bool:
            self.now += SECOND
            return future.done()

        assert eventually(passed)
        with pytest.raises(TimeoutError, match="did not answer"):
            future.result()


@pytest.fixture
def held(folder: Path, requests: Requests) -> Held:
    return Held(folder, requests)


def serve(requests: Requests, done: Callable[[], bool]) -> list[dict[str, Any]]:
    """Answer every request with itself until this holds; returns them."""
    served = []
    while not done():
        if (request := requests.poll_request()) is not None:
            served.append(request[1])
            requests.reply(*request)
        else:
            requests._reader.look()
    return served


def test_a_request_is_answered_and_a_late_answer_is_not_taken_for_the_next(
    folder: Path, requests: Requests, held: Held
) -> None:
    with ThreadPoolExecutor(1) as pool, Requester(folder, "plant", held.clock) as requester:
        late: list[Any] = []
        future = pool.submit(requester.ask, ARM, SHORT_S)
        assert eventually(lambda: late.append(requests.poll_request()) or late[-1])
        held.give_up(future)
        requests.reply(late[-1][0], {"late": True})
        future = pool.submit(requester.ask, ARM, SHORT_S)
        assert serve(requests, future.done) == [ARM]
        assert future.result() == ARM


def test_a_node_that_is_not_there_is_named_with_the_remedy(folder: Path, plant: Bus) -> None:
    with Requester(folder, "plant") as requester:
        with pytest.raises(TimeoutError, match=r"nothing listens .*check that the run"):
            requester.ask(ARM, 0.05)
        plant.requests()
        with pytest.raises(TimeoutError, match=r"busy or stopped: ask again"):
            requester.ask(ARM, 0.05)


def test_a_stalled_node_never_does_what_its_client_was_told_had_failed(requests: Requests, held: Held) -> None:
    def stall_after_ticket(future: "Future[Any]") -> None:
        held.looks.clear()  # else its request may come within the look that gives the ticket
        assert eventually(lambda: requests.poll_request() is None and requests._tickets._given)
        held.looks.set()
        assert eventually(lambda: requests._reader.look())  # the request itself waits here
        held.give_up(future)

    with pytest.raises(TimeoutError, match="did not answer"):
        held.asked(ARM, stall_after_ticket)
    assert requests.poll_request() is None
    assert requests.counts == {"expired": 1}
    with pytest.raises(TimeoutError, match="did not answer"):  # stalled from the beginning on
        held.asked(ARM, held.give_up)
    assert not eventually(requests.poll_request, 0.05)


def test_a_stop_is_carried_out_however_late(folder: Path, requests: Requests) -> None:
    with Requester(folder, "plant") as requester, pytest.raises(TimeoutError, match="did not answer"):
        requester.ask(STOP, 0.1, expires=False)
    assert taken(requests) == STOP


def test_each_ticket_is_good_for_one_request(client: Client, requests: Requests) -> None:
    ticket = client.ticket(requests)
    for _ in range(3):
        client.send(ARM, ticket, 10 * SECOND)
    assert taken(requests) == ARM
    client.reply(requests)
    assert "before" in client.error(requests)
    assert "before" in client.error(requests)
    assert requests.counts == {"replayed": 2}


def test_what_expired_cannot_be_sent_again_with_more_time(client: Client, requests: Requests) -> None:
    ticket = client.ticket(requests)
    client.send(ARM, ticket, 1)
    assert "too late" in client.error(requests)
    client.send(ARM, ticket, 10 * SECOND)
    assert "before" in client.error(requests)
    assert requests.counts == {"expired": 1, "replayed": 1}


def test_what_was_read_in_time_but_waits_for_too_long_is_refused_when_its_turn_comes(
    client: Client, requests: Requests
) -> None:
    now = 0
    requests._tickets._clock = lambda: now
    for request, valid_ns in ((ARM, SECOND // 10), (ESTOP, NEVER)):
        client.send(request, client.ticket(requests) if request == ARM else NO_TICKET, valid_ns)
    read: list[Any] = []
    assert eventually(lambda: read.extend(filter(None, [requests.poll_request()])) or len(read) == 2)
    late, stop = sorted(read, key=lambda each: each[1] == ESTOP)
    assert not requests.has_expired(late[0])
    now = SECOND // 10 + 1
    assert requests.has_expired(late[0])
    assert not requests.has_expired(stop[0])
    assert "too late" in client.error(requests)
    assert requests.counts == {"expired": 1}


def test_only_stops_need_no_ticket(client: Client, requests: Requests) -> None:
    for request in (ARM, {"ask": "reset_estop"}, {"ask": ["stop"]}, {}):
        client.send(request)
        assert "estop and stop" in client.error(requests)
    assert requests.counts == {"no_ticket": 4}
    for request in (ESTOP, STOP):
        client.send(request)
        assert taken(requests) == request
        client.reply(requests)


def test_a_ticket_is_judged_by_the_clock_of_the_node_alone() -> None:
    now = [0]
    tickets = Tickets(lambda: now[0])
    first, second = tickets.give(), tickets.give()
    now[0] = 5 * SECOND
    assert tickets.spend(first, 5 * SECOND) == ("", 5 * SECOND)
    assert tickets.spend(first, 5 * SECOND)[0] == "replayed"
    assert tickets.spend(second, 5 * SECOND - 1)[0] == "expired"
    assert tickets.spend(Tickets().give(), 5 * SECOND)[0] == "other_run"
    start, number = TICKET.unpack(second)
    assert tickets.spend(TICKET.pack(start, number + 1), SECOND)[0] == "replayed"  # never given out


def test_unused_tickets_do_not_grow_without_end() -> None:
    tickets = Tickets()
    given = [tickets.give() for _ in range(MOST + 10)]
    assert len(tickets._given) == MOST
    assert tickets.spend(given[9], SECOND)[0] == "replayed"
    assert tickets.spend(given[10], SECOND)[0] == ""


def test_garbage_is_counted_and_the_next_good_request_is_served(client: Client, requests: Requests) -> None:
    header = HEADER.pack(7, NO_TICKET, NEVER)
    for frames in ([b"x"], [b"", b"\x80"], [header, b"\xc1"], [header, b"\x80", b"\x80"], [header, *[b""] * 500]):
        client.socket.send_multipart(frames)
    client.send(ESTOP)
    assert taken(requests) == ESTOP
    assert requests.counts == {"frames": 4, "malformed": 1}


def test_one_who_asks_without_end_neither_holds_the_node_up_nor_keeps_others_waiting(
    client: Client, requests: Requests, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, reads, read = threading.Event(), [0], requests._reader.read

    def counted() -> Any:
        reads[0] += 1
        return read()

    monkeypatch.setattr(requests._reader, "read", counted)

    def flood() -> None:
        while not ended.is_set():
            if client.socket.poll(1, zmq.POLLOUT):
                client.send({}, valid_ns=WANTS_TICKET)

    flooding = threading.Thread(target=flood)
    flooding.start()
    try:
        assert eventually(lambda: requests.poll_request() is None and len(requests._tickets._given) > 100)
        costs = []

        def serving(future: "Future[Any]") -> None:
            while not future.done():
                before, request = reads[0], requests.poll_request()
                costs.append(reads[0] - before)
                if request is not None:
                    requests.reply(*request)

        assert held.asked(ARM, serving) == ARM
        assert max(costs) <= AT_ONCE
    finally:
        ended.set()
        flooding.join()


def test_a_node_that_was_started_again_is_asked_anew(folder: Path) -> None:
    with Requester(folder, "plant") as requester:
        for number in range(3):
            with Bus(folder, "plant") as bus, ThreadPoolExecutor(1) as pool:
                requests = bus.requests()
                future = pool.submit(requester.ask, {"number": number}, LONG_S)
                assert serve(requests, future.done) == [{"number": number}]
                assert future.result() == {"number": number}


def test_a_restarted_node_refuses_the_request_that_its_predecessor_had_the_ticket_for(folder: Path) -> None:
    with Bus(folder, "plant") as bus:
        client = Client(f"ipc://{folder}/plant.req")
        ticket = client.ticket(bus.requests())
    with Bus(folder, "plant") as bus:
        requests = bus.requests()
        client.send(ARM, ticket, 10 * SECOND)
        assert "started again" in client.error(requests)
        assert requests.counts == {"other_run": 1}
    client.context.destroy(linger=0)
