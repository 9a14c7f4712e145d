"""The promises with a machine that is a process of its own: the example of a robot written by hand, on tcp."""

import os
import random
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq

from servonode.bus import Applied, State
from servonode.bus.keys import KeyStore
from servonode.bus.topology import PLANT
from tests.helpers.curve_strangers import KINDS, curve_stranger
from tests.helpers.drivers import INSECURE, Beside, External, Insecure, listening
from tests.helpers.ports import free_port
from tests.helpers.runs import END_S, SOON_S, Process, Runs, Watch, eventually, signalled
from tests.soak.suite import WAITS, Stage, safety_suite

ROBOT = Path(__file__).parents[2] / "examples" / "external_plant.py"

MOST_FILES = 300  # that a plant has open with as many connections as it takes


TestExternal = safety_suite(External())


# what only an external plant can do


class Relay(threading.Thread):
    """Passes on what a machine publishes, and between its messages others made of them."""

    def __init__(self, machine: int, here: int) -> None:
        super().__init__(daemon=True)
        self._ports = (machine, here)
        self.spoils = self.ends = False
        self.falsify: Falsify | None = None  # what becomes of each state on its way
        self.sent = 0  # false messages

    def run(self) -> None:
        rng = random.Random(21)
        with zmq.Context() as context, context.socket(zmq.SUB) as received, context.socket(zmq.PUB) as said:
            received.connect(f"tcp://127.0.0.1:{self._ports[0]}")
            received.subscribe("")
            said.bind(f"tcp://127.0.0.1:{self._ports[1]}")
            while not self.ends:
                if not received.poll(20):
                    continue
                topic, payload = received.recv_multipart()
                for frames in false_states(payload, rng) if self.spoils else []:
                    said.send_multipart(frames)
                    self.sent += 1
                falsify = self.falsify
                for each in falsify(payload) if falsify and topic == b"state" else [payload]:
                    said.send_multipart([topic, each])


Falsify = Callable[[bytes], list[bytes]]


def absurd(payload: bytes) -> list[bytes]:
    """A finite reading that no robot can have."""
    return changed(payload, V=3e9)


def jumping(payload: bytes) -> list[bytes]:
    """A heading that is wrapped, now and then."""
    good = msgspec.msgpack.decode(payload)
    return changed(payload, psi=good["state"]["psi"] - 6.283185307179586) if good["k"] % 300 > 150 else [payload]


def changed(payload: bytes, **state: float) -> list[bytes]:
    """The message with these states."""
    good = msgspec.msgpack.decode(payload)
    return [msgspec.msgpack.encode({**good, "state": good["state"] | state})]


class Frozen:
    """Sensors that say what they said first; all else of the machine goes on."""

    def __init__(self) -> None:
        self.state: dict[str, float] | None = None

    def __call__(self, payload: bytes) -> list[bytes]:
        good = msgspec.msgpack.decode(payload)
        self.state = self.state or good["state"]
        return [msgspec.msgpack.encode({**good, "state": self.state})]


class Backward:
    """A machine whose steps go back, under growing numbers of its messages."""

    def __init__(self) -> None:
        self.first: int | None = None

    def __call__(self, payload: bytes) -> list[bytes]:
        good = msgspec.msgpack.decode(payload)
        self.first = self.first or good["k"]
        k = max(2 * self.first - good["k"], 0)
        return [msgspec.msgpack.encode({**good, "k": k, "t": k / 1e3})]


class Late:
    """States that wait on the way for longer and longer, under fresh numbers, with inputs taken as they should be."""

    def __init__(self) -> None:
        self.kept: list[dict[str, Any]] = []

    def __call__(self, payload: bytes) -> list[bytes]:
        good = msgspec.msgpack.decode(payload)
        self.kept.append(good)
        old = self.kept[len(self.kept) // 2]
        return [msgspec.msgpack.encode({**good, "k": old["k"], "t": old["t"], "state": old["state"]})]


def flooding(payload: bytes) -> list[bytes]:
    """Each state 200 times."""
    return [payload] * 200


FALSIFIED: dict[str, tuple[Callable[[], Falsify], str]] = {
    "absurd": (lambda: absurd, "implausible_state"),
    "jumping": (lambda: jumping, "implausible_state"),
    "frozen": (Frozen, "frozen_state"),
    "backward": (Backward, "stale_state"),
    "late": (Late, "stale_state"),
    "flooding": (lambda: flooding, "flooding"),
}


def false_states(payload: bytes, rng: random.Random) -> list[list[bytes]]:
    """Messages that are no good state, each for a reason of its own."""
    good: dict[str, Any] = msgspec.msgpack.decode(payload)
    poison = dict.fromkeys(good["state"], 1e6)
    changed: list[dict[str, Any]] = [
        {"state": poison | {"X": float("nan")}},
        {"state": poison | {"X": float("inf")}},
        {"state": poison | {"X": True}},
        {"state": poison | {"more": 1.0}},
        {"state": {"X": 1e6}},
        {"state": poison | {"X": [1e6, 1e6]}},
        {"state": poison, "run": good["run"] % 2**52 + 1, "seq": good["seq"] + 1000},
        {"state": poison, "src": good["src"] % 2**52 + 1, "seq": good["seq"] + 1000},
        {"state": poison, "seq": good["seq"] - 1},
        {"state": poison, "applied_seq": good["applied_seq"] + 2**40},
    ]
    frames = [[b"state", msgspec.msgpack.encode({**good, "seq": good["seq"], **each})] for each in changed]
    noise = rng.randbytes(rng.randrange(2000))
    frames += [[b"state", noise], [b"state", payload[:-3]], [b"state", b""], [b"state", payload + b"\x00"]]
    return [*frames, [b"state"], [b"state", payload, payload], [b"stately", payload], [noise, noise]]


class Relayed(External):
    name = "relayed"
    relay: Relay

    @contextmanager
    def machine(self) -> Iterator[Beside]:
        with self.robot() as beside:
            here = free_port()
            self.relay = Relay(beside.ports[0], here)
            self.relay.start()
            try:
                yield Beside(
                    (*beside.settings, f'plant.device.state="tcp://127.0.0.1:{here}"'), (), beside.pid, (), INSECURE
                )
            finally:
                self.relay.ends = True
                self.relay.join(SOON_S)


SOME = [("INT", "INT"), ("TERM", "INT", "INT"), ("HUP", "INT")]


def test_promise_17_false_states_are_refused_and_counted(runs: Runs) -> None:
    driver = Relayed()
    stage = Stage(driver, runs)
    run = stage.start(WAITS)
    with Watch(run.name) as watch:
        before = run.ask("status")["counts"]
        driver.relay.spoils = True
        assert eventually(lambda: driver.relay.sent > 1500)
        driver.relay.spoils = False
        stands = run.ask("status")
        refused = {word for word, n in stands["counts"].items() if n > before.get(word, 0)}
        assert refused >= {
            *("refused_non_finite", "refused_type", "refused_shape", "refused_run", "refused_src", "refused_future"),
            *("refused_malformed", "refused_frames", "refused_topic", "old_states"),
        }
        assert (stands["lifecycle"], stands["fault"]) == ("active", "")
        assert watch.status().values["armed"] == 1.0
    run.stop()
    columns = run.columns
    assert max(abs(columns["X"])) < 10.0
    stage.close()


class Watched(External):
    """The same; server: the run's public key, watcher: the secret one of a pair that it trusts for another role."""

    server: bytes
    watcher: Path

    @contextmanager
    def machine(self) -> Iterator[Beside]:
        with super().machine() as beside, tempfile.TemporaryDirectory() as folder:
            desk = KeyStore(Path(os.environ["SERVONODE_KEYS"]))
            public = KeyStore(Path(folder, "watcher")).new("watcher")
            desk.trust(public, ["controller"])
            self.server, self.watcher = desk.pair("desk").public, public.with_suffix(".key_secret")
            yield beside


@pytest.mark.parametrize("what", KINDS)
def test_promise_22_strangers_that_speak_curve_leave_the_link_as_it_is(runs: Runs, what: str) -> None:
    driver = Watched()
    stage = Stage(driver, runs)

    def play(stage: Stage) -> None:
        run, watch = stage.driven()
        before, plant = watch.status("active", time.monotonic_ns()), run.pids()[PLANT]
        own = driver.watcher if what == "wrong role" else None
        with curve_stranger(what, stage.beside.ports[1], driver.server, own):
            files = 0
            for _ in range(15):  # longer than the time-outs of handshake and pause
                time.sleep(0.2)
                files = max(files, len(list(Path(f"/proc/{plant}/fd").iterdir())))
                status = watch.status(after=time.monotonic_ns())
                assert (status.lifecycle, status.fault, status.run) == ("active", "", before.run)
            assert files < MOST_FILES
            counts = run.ask("status")["counts"]
            asked = time.monotonic_ns()
            assert run.order("estop") == "fault"
            assert watch.status("fault", asked).fault == "estop"
        assert ("refused_unknown_key" in counts) == (what == "unknown key")
        assert ("refused_role_of_key_watcher" in counts) == (what == "wrong role")
        assert ("refused_connections" in counts) == (what == "crowd")

    play(stage)
    stage.close()


def stays_active(run: Process) -> bool:
    """Whether it is active for a while, once armed again: what waited of a flood may be a fault once more."""
    if run.ask("status")["lifecycle"] != "active" and not run.armed_again():
        return False
    time.sleep(0.3)
    return bool(run.ask("status")["lifecycle"] == "active")


def test_promises_20_and_21_implausible_readings_are_named_faults(runs: Runs) -> None:
    driver = Relayed()
    stage = Stage(driver, runs)
    run = stage.start(WAITS, "plant.safety.state_rate_limit={psi = 100}")
    with Watch(run.name) as watch:
        for kind, (make, expected) in FALSIFIED.items():
            watch.status("active", time.monotonic_ns())
            begun = time.monotonic_ns()
            driver.relay.falsify = make()
            status = watch.status("fault", begun)
            driver.relay.falsify = None
            assert (kind, status.fault, status.safe_state) == (kind, expected, "zero")
            applied = next(each for each in watch.of(Applied, begun) if f"fault:{expected}" in each.reasons)
            assert set(applied.input.values()) == {0.0}
            assert eventually(lambda: stays_active(run)), run.ask("status")
        counts = run.ask("status")["counts"]
    assert counts["refused_backward"] > 0
    run.stop()
    assert max(abs(run.columns["V"])) < 10.0
    stage.close()


def test_promise_20_slow_states_are_counted_with_their_age(runs: Runs) -> None:
    driver = Relayed()
    stage = Stage(driver, runs)
    run = stage.start(WAITS, "plant.publish_every=10", words=("--every", "10"))
    with Watch(run.name, {PLANT: ["state", "status"]}) as watch:
        watch.status("active", time.monotonic_ns())
        newest = [0]

        def at_50_hz(payload: bytes) -> list[bytes]:
            k = msgspec.msgpack.decode(payload)["k"]
            if k < newest[0] + 20:
                return []
            newest[0] = k
            return [payload]

        driver.relay.falsify = at_50_hz
        time.sleep(0.1)
        begun = time.monotonic_ns()
        # so many states, not so long a time: a busy computer runs the machine more slowly
        assert eventually(lambda: len(watch.of(State, begun)) > 60)
        stands = run.ask("status")
        ages = [each.age for each in watch.of(State, begun) if each.control]
        assert len(ages) > 30
        assert max(ages) > 0.008  # half of them are a period older than the others
        assert min(ages) < 0.012
        assert stands["counts"]["slow_states"] > 15
        assert stands["values"]["command_age_p99"] > 0.008
    run.stop()
    assert max(run.columns["state_age"]) > 0.008
    stage.close()


@pytest.mark.parametrize("gap_s", [0.02, *(pytest.param(gap, marks=pytest.mark.slow) for gap in (0.0, 0.3))])
@pytest.mark.parametrize("numbers", [("INT",) * 6, *(pytest.param(n, marks=pytest.mark.slow) for n in SOME)])
def test_promise_24_machine_gets_zero_and_final_after_any_signals(
    runs: Runs, numbers: tuple[str, ...], gap_s: float
) -> None:
    stage = Stage(Insecure(), runs)
    run = stage.start(WAITS, "plant.safety.safe_time=5")
    with listening(f"tcp://127.0.0.1:{stage.beside.ports[1]}", topic="applied") as sent:
        assert eventually(lambda: len(sent) > 5)
        begun = time.monotonic()
        for number in numbers:
            with suppress(ProcessLookupError):  # it has ended already
                signalled(run.popen.pid, signal.Signals[f"SIG{number}"])
            time.sleep(gap_s)
        code = run.popen.wait(END_S)
        first = numbers if gap_s == 0.0 else numbers[:1]  # of those that wait together any may be taken first
        assert code in {128 + signal.Signals[f"SIG{number}"] for number in first}
        run.ends_with(code)
        took = time.monotonic() - begun
    received = [each for each in sent if isinstance(each, Applied)]
    assert received[-1].final, received[-3:]
    assert set(received[-1].input.values()) == {0.0}
    assert next(each for each in received if each.final).seq >= received[-1].seq - 1  # nothing is sent after it
    assert gap_s == 0.0 or took < 4.0  # the brake of 5 s was cut short; of two at once one is taken
    assert "is killed" not in run.stderr
    stage.close()
