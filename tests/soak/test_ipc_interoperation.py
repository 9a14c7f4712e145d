"""bus/ipc against libzmq in C and JavaScript: each frame in both directions, and again after an end.

A program of the other language prints the frames that it receives, as hexadecimal numbers; as a publisher it answers
each subscription with a message of each of the given sizes.
"""

import select
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from servonode.bus import Publisher
from servonode.bus.ipc.connection import PublisherConnection
from tests.bus.test_ipc_publisher import MESSAGES, SIZES, Everything
from tests.helpers.c_code import compiler
from tests.helpers.external_programs import EXAMPLES, external_node
from tests.helpers.runs import START_S, eventually

IN_JAVASCRIPT = """
const zmq = require("zeromq");
const [kind, address, ...sizes] = process.argv.slice(1), publishes = kind === "pub";
async function main() {
    const opened = publishes ? new zmq.XPublisher() : new zmq.Subscriber();
    if (publishes) await opened.bind(address);
    else { opened.connect(address); opened.subscribe("sta"); }
    for await (const frames of opened) {
        console.log(frames.map((each) => each.toString("hex")).join(" "));
        for (const size of publishes && frames[0][0] === 1 ? sizes : [])
            await opened.send(["state", Buffer.from(Array.from({ length: size }, (_, i) => (7 * i) % 256))]);
    }
}
main();
"""
IN_C = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>
static unsigned char data[65536];
int main(int count, char **words) {
    int publishes = strcmp(words[1], "pub") == 0, subscribed = 0, more = 0;
    void *opened = zmq_socket(zmq_ctx_new(), publishes ? ZMQ_XPUB : ZMQ_SUB);
    for (int i = 0; i < 65536; i++) data[i] = (unsigned char)(7 * i);
    if (publishes ? zmq_bind(opened, words[2]) : zmq_connect(opened, words[2])) return 1;
    if (!publishes && zmq_setsockopt(opened, ZMQ_SUBSCRIBE, "sta", 3)) return 1;
    for (;;) {
        zmq_msg_t frame;
        zmq_msg_init(&frame);
        if (zmq_msg_recv(&frame, opened, 0) < 0) return 1;
        const unsigned char *bytes = zmq_msg_data(&frame);
        for (size_t i = 0; i < zmq_msg_size(&frame); i++) printf("%02x", bytes[i]);
        subscribed = zmq_msg_size(&frame) > 0 && bytes[0] == 1;
        more = zmq_msg_more(&frame);
        zmq_msg_close(&frame);
        printf(more ? " " : "\\n");
        fflush(stdout);
        for (int i = 3; publishes && subscribed && i < count; i++) {
            zmq_send(opened, "state", 5, ZMQ_SNDMORE);
            zmq_send(opened, data, (size_t)atoi(words[i]), 0);
        }
    }
}
"""


@pytest.fixture(scope="module")
def c_program(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], list[str]]:
    @cache
    def build() -> list[str]:
        source = tmp_path_factory.mktemp("peer") / "peer.c"
        source.write_text(IN_C)
        command = [compiler(), "-std=c99", "-Wall", "-Werror", str(source), "-o", str(source.with_suffix("")), "-lzmq"]
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        if "zmq.h: No such file" in built.stderr:
            pytest.skip("zmq.h is not found: apt-get install libzmq3-dev")
        assert built.returncode == 0, built.stderr
        return [str(source.with_suffix(""))]

    return build


class Peer:
    """A running program of libzmq."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._out: Any = process.stdout

    def frames(self) -> tuple[bytes, ...]:
        """The next message that it has received."""
        assert select.select([self._out], (), (), START_S)[0], "nothing has come"
        return tuple(bytes.fromhex(each) for each in self._out.readline().decode().rstrip("\n").split(" "))


Start = Callable[[str], Any]  # of `pub` or `sub`


@pytest.fixture(params=["c", "node"])
def start(request: pytest.FixtureRequest, folder: Path, c_program: Callable[[], list[str]]) -> Start:
    """Starts a program of this language, as a publisher or as a subscriber."""
    program = c_program() if request.param == "c" else [external_node()[0], "-e", IN_JAVASCRIPT]

    @contextmanager
    def started(kind: str) -> Iterator[Peer]:
        words = [*program, kind, f"ipc://{folder}/plant.pub", *map(str, SIZES)]
        with subprocess.Popen(words, bufsize=0, stdout=subprocess.PIPE, cwd=EXAMPLES) as process:
            try:
                yield Peer(process)
            finally:
                process.kill()

    return started


def test_a_subscriber_of_libzmq_gets_each_frame_from_one_publisher_after_the_other(folder: Path, start: Start) -> None:
    with start("sub") as peer:
        for _ in range(2):
            with closing(Publisher(f"ipc://{folder}/plant.pub", 1)) as publisher:
                assert eventually(publisher.ready, START_S)
                assert publisher.subscriptions == {"sta": 1}
                for word, payload in MESSAGES:
                    publisher.publish_frames(word, payload)
                    assert peer.frames() == (word, payload)
    with closing(Publisher(f"ipc://{folder}/plant.pub", 1)) as publisher:
        with start("sub"):
            assert eventually(publisher.ready, START_S)
        assert eventually(lambda: publisher.subscriptions_seen() == 0)


def test_each_frame_of_a_publisher_of_libzmq_arrives_and_again_once_another_has_its_place(
    folder: Path, start: Start
) -> None:
    intake: Any = Everything()
    with closing(PublisherConnection(f"ipc://{folder}/plant.pub", intake)) as connection:
        for _ in range(2):
            taken: list[Any] = []
            with start("pub") as peer:

                def has_all(taken: list[Any] = taken) -> bool:
                    connection.receive_into(taken, 2 * len(MESSAGES))
                    return len(taken) >= len(MESSAGES)

                assert eventually(has_all, START_S)
                assert peer.frames() == (b"\x01state",)
            assert taken == MESSAGES
    assert not intake.counts
