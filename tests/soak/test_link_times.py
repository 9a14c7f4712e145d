"""The link to a machine in another process, over real sockets; the machine here is bare pyzmq."""

import itertools
import sys
import time
from contextlib import closing

import pytest
import zmq

from servonode.bus import ExternalLink, decode
from servonode.bus.zmq_publisher import PAUSE_NS
from servonode.bus.zmq_subscriber import Subscriber
from tests.bus.test_link import Crowd, applied
from tests.helpers.ports import free_port
from tests.helpers.strangers import PUBLISHES, stranger


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
        missing, deadline = 2, time.monotonic() + 3
        while missing and time.monotonic() < deadline:
            assert link.receive() == []
            if self.out.poll(1):
                missing -= self.out.recv()[0]
        return not missing

    def frames(self):
        assert self.into.poll(3000)
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


def until(true) -> bool:
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline:
        if true():
            return True
        time.sleep(0.001)
    return False


@pytest.mark.parametrize("what", PUBLISHES)
def test_a_link_takes_little_time_whatever_the_machine_sends(folder, what):
    link = ExternalLink(f"ipc://{folder}/state", f"ipc://{folder}/applied")
    link.open()
    with stranger(what, folder / "state"):
        costs = []
        for _ in range(200):
            begin = time.thread_time_ns()
            link.receive()
            costs.append(time.thread_time_ns() - begin)
            time.sleep(0.001)
        assert sorted(costs)[180] < 2_000_000  # ns
    link.close()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no filter for what asks for a connection")
def test_a_crowd_is_kept_out_while_the_machine_gets_every_input():
    places = [f"tcp://127.0.0.1:{free_port()}" for _ in range(2)]
    with closing(Machine(*places)) as machine, closing(ExternalLink(*places)) as link:
        link.open()
        assert machine.receives(link)
        assert until(link.listened)
        with closing(Crowd(places[1], 300)) as crowd:
            end = time.monotonic() + PAUSE_NS * 0.5e-9
            for i in itertools.takewhile(lambda _: time.monotonic() < end, itertools.count()):
                link.send("applied", applied(i))
                assert decode(*machine.frames()).seq == i
                link.receive()
                time.sleep(0.001)
            assert link.counts["connections"] == 1
            assert not crowd.gets_in()
        assert until(lambda: link.receive() or crowd.gets_in())


def test_a_machine_that_hangs_up_again_and_again_is_connected_to_anew_ten_times_a_second(folder, monkeypatch):
    renewed = []
    renew = Subscriber.renew
    monkeypatch.setattr(Subscriber, "renew", lambda self: renewed.append(renew(self)))
    link = ExternalLink(f"ipc://{folder}/state", f"ipc://{folder}/applied")
    link.open()
    with stranger("nothing, and hangs up", folder / "state"):
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            link.receive()
            time.sleep(0.001)
    link.close()
    assert 3 <= len(renewed) <= 11
