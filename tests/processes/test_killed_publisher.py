"""A publisher that is killed leaves its path; the next one takes it, and readers follow."""

import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from servonode.bus import Bus
from tests.bus import test_bus_sockets, test_direct_subscriber
from tests.bus.test_direct_subscriber import state
from tests.helpers.events import eventually, soon

PUBLISHER = """\
import sys, time
from servonode.bus import Bus
publisher = Bus(sys.argv[1], "plant").publisher(2)
limit = time.monotonic() + 60
while not publisher.ready() and time.monotonic() < limit:
    time.sleep(0.001)
print(publisher.ready(), flush=True)
time.sleep(600)
"""


def kill_a_publisher(folder: Path, look: Callable[[], object]) -> None:
    """Start a publisher in a process, look for its messages until it has a subscriber, and kill it."""
    command = [sys.executable, "-c", PUBLISHER, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        said: list[str] = []
        reader = threading.Thread(target=lambda: said.append(child.stdout.readline()))  # type: ignore[union-attr]
        reader.start()
        while reader.is_alive():
            look()
        child.send_signal(signal.SIGKILL)
    assert said == ["True\n"]
    assert (folder / "plant.pub").exists()


def test_subscribers_of_libzmq_and_our_own_follow_the_one_in_its_place(folder: Path) -> None:
    with Bus(folder, "controller") as controller, Bus(folder, "watch") as watch:
        subscriber, direct = watch.subscriber({"plant": ["state"]}), controller.direct_subscriber({"plant": ["state"]})

        def look() -> None:
            subscriber.wait(soon(0.01))
            direct.wait(soon(0.01))
            direct.receive()

        kill_a_publisher(folder, look)
        with Bus(folder, "plant") as bus:
            publisher = bus.publisher(2)

            def joined() -> bool:
                look()
                return publisher.ready()

            assert eventually(joined)
            publisher.publish("state", state(2))
            assert test_bus_sockets.received(subscriber) == [("state", state(2))]
            assert test_direct_subscriber.received(direct) == [2]
