"""How fast and how punctual this computer is: round trip, lateness, rates, each beside a bare floor."""

import gc
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgpack
import msgspec
import numpy as np
import zmq

from servonode.arrays import Array
from servonode.bus import Command, Message, State
from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.launch_file import read_launch
from servonode.errors import ServonodeError
from servonode.nodes.launcher import Launcher
from servonode.nodes.realtime_grants import SLACK_NS, slack
from servonode.simulation.simulate import simulate_fused, simulate_nodes

PERIOD_S, PACED_S = 1e-3, 1.0  # of the run in real time
EXCHANGES, PERIOD_IN_LOCKSTEP = 4000, 0.01  # of those in lockstep
EVERY = 10  # plant steps a recorded row
NAME = "bench"


SETTLE_S = 0.3  # until both subscriptions of a bare pair are held
GIVE_UP_MS = 5000  # for which a side waits for the other


class BenchError(ServonodeError, RuntimeError):
    """Nothing was measured: a process has ended, or a run met a fault."""

    exit_code = 1


def messages(closed_loop: ClosedLoop) -> tuple[Message, Message]:
    """A state and the command that answers it, with names and sizes of the launch's own."""
    names, inputs = closed_loop.machine.description.state_names, closed_loop.machine.description.input_names
    start_ids = (2**52 + 1, 2**52 + 3)  # as long on the wire as real ones
    torques = {name: 0.0123456789 * (i + 1) for i, name in enumerate(inputs)}
    state = State(
        t=1.23, seq=123, run=start_ids[0], k=1230, mono=time.monotonic_ns(), node="plant", src=start_ids[0],
        state={name: 0.123456789 * (i + 1) for i, name in enumerate(names)}, input=torques, control=True,
    )  # fmt: skip
    command = Command(
        t=1.23, seq=123, run=start_ids[0], k=1230, mono=time.monotonic_ns(), node="controller", src=start_ids[1],
        re=123, target_seq=123, input=torques,
    )  # fmt: skip
    return state, command


def ping_pong(closed_loop: ClosedLoop, n: int, period_s: float = 0.0) -> Array:
    """The times (n,) [s] of round trips between two bare processes of pyzmq and msgpack, packed to unpacked.

    They throw a state and its command at each other, on an absolute grid of this period (0: as fast as they can), and
    look at nothing. Both receive blocking, which is the fastest they can.

    Raises:
        BenchError: the other process has ended.
    """
    state, command = (msgspec.to_builtins(each) for each in messages(closed_loop))
    taken = np.zeros(n)
    with tempfile.TemporaryDirectory() as folder:
        pid = os.fork()
        if pid == 0:
            try:
                _echo(folder, command)
            finally:
                os._exit(0)
        try:
            with zmq.Context() as context, context.socket(zmq.PUB) as publisher, context.socket(zmq.SUB) as subscriber:
                _begin(publisher, subscriber, f"{folder}/plant", f"{folder}/controller")
                time.sleep(SETTLE_S)
                start = time.monotonic()
                for k in range(n):
                    if period_s and (ahead := start + k * period_s - time.monotonic()) > 0:
                        time.sleep(ahead)
                    begin = time.monotonic_ns()
                    publisher.send_multipart([b"message", msgpack.packb(state)])
                    msgpack.unpackb(subscriber.recv_multipart()[1])
                    taken[k] = (time.monotonic_ns() - begin) / 1e9
        except zmq.Again:
            text = f"the other process has not answered for {GIVE_UP_MS / 1000:g} s; end what keeps this computer busy"
            raise BenchError(text) from None
        finally:
            gc.enable()
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return taken


def _begin(publisher: zmq.Socket[bytes], subscriber: zmq.Socket[bytes], own: str, other: str) -> None:
    """Connect one side, and let nothing but the system delay it."""
    gc.disable()
    if sys.platform == "linux":
        slack(SLACK_NS)  # as nodes have it
    publisher.bind(f"ipc://{own}")
    subscriber.connect(f"ipc://{other}")
    subscriber.subscribe(b"")
    subscriber.rcvtimeo = GIVE_UP_MS  # nobody waits for one that has been killed
    publisher.linger = subscriber.linger = 0


def _echo(folder: str, command: dict[str, object]) -> None:
    """The other side: answer every state until it is killed."""
    with zmq.Context() as context, context.socket(zmq.PUB) as publisher, context.socket(zmq.SUB) as subscriber:
        _begin(publisher, subscriber, f"{folder}/controller", f"{folder}/plant")
        while True:
            msgpack.unpackb(subscriber.recv_multipart()[1])
            publisher.send_multipart([b"message", msgpack.packb(command)])


def hand_loop(closed_loop: ClosedLoop, instants: int) -> float:
    """Control instants per second of a loop written by hand: goal, law and machine called in turn, nothing else.

    The closed loop has a controller.
    """
    control, machine, launch = closed_loop.known_control, closed_loop.machine, closed_loop.launch
    assert launch.steps_per_period is not None
    x, answer, steps, n_u = closed_loop.start.copy(), control.law.answer(), launch.steps_per_period, machine.n_inputs
    advance = machine.advancer(launch.plant.integrator)
    begin = time.perf_counter()
    for instant in range(instants):
        k = instant * steps
        t = k * launch.step_ns / 1e9
        control.law.compute(t, x[:-1], control.goal(t), answer)
        advance(k, steps, launch.step_ns, x, answer.out[:n_u], machine.c)
    return instants / (time.perf_counter() - begin)


@dataclass(frozen=True)
class Measure:
    """A number of servonode beside its floor (None: it has no floor), both in `unit`."""

    name: str
    unit: str
    ours: float
    floor: float | None
    floor_is: str = ""  # what the floor does

    @property
    def ratio(self) -> float | None:
        """Ours as a multiple of the floor."""
        return self.ours / self.floor if self.floor else None


def measures() -> Iterator[Measure]:
    """Each as soon as it is measured, of the robot with trailer that follows its goal; some 10 s in all.

    Raises:
        BenchError: a run met a fault, or a process ended; BusError: a run could not be started.
    """
    yield from _in_real_time()
    yield from _in_lockstep()


def _in_real_time() -> Iterator[Measure]:
    """Round trip and lateness at 1 kHz, with launcher, plant, controller and target as processes."""
    closed_loop = resolve(read_launch("trailer_pursuit", [
        'run.mode="realtime"', "run.speed=1", f"run.duration={PACED_S}", f"controller.period={PERIOD_S}",
        "plant.publish_every=1", f"plant.step={PERIOD_S}", "plant.safety.command_timeout_floor=0.5",
    ]))  # fmt: skip
    floor = ping_pong(closed_loop, round(PACED_S / PERIOD_S), PERIOD_S) * 1e6
    stats = _run(closed_loop)
    for quantile, bare in zip(("p50", "p99"), np.percentile(floor, [50, 99]), strict=True):
        ours = stats["round_trip_s"][quantile] * 1e6
        yield Measure(f"round trip at 1 kHz, {quantile}", "us", ours, float(bare), "two processes of pyzmq")
    for quantile in ("p50", "p99"):
        yield Measure(f"lateness of the plant, {quantile}", "us", stats["lateness_s"][quantile] * 1e6, None)
    missed = 100 * (stats["misses"] + stats["counts"].get("missed_commands", 0)) * PERIOD_S / PACED_S
    yield Measure("periods missed", "%", missed, None)


def _in_lockstep() -> Iterator[Measure]:
    """Control exchanges per second, with processes, with nodes in this process, and in one compiled function."""
    duration = EXCHANGES * PERIOD_IN_LOCKSTEP
    overrides = [f"run.duration={duration}", f"controller.period={PERIOD_IN_LOCKSTEP}"]
    closed_loop = resolve(read_launch("trailer_pursuit_lockstep", overrides))
    floor = EXCHANGES / float(ping_pong(closed_loop, EXCHANGES).sum())
    ours = EXCHANGES * float(_run(closed_loop)["rate"]) / duration
    yield Measure("exchanges in lockstep", "1/s", ours, floor, "two processes of pyzmq")
    by_hand = hand_loop(closed_loop, EXCHANGES)
    words = "law and machine called by hand"
    yield Measure("simulated by nodes", "1/s", EXCHANGES / simulate_nodes(closed_loop, EVERY).wall_s, by_hand, words)
    simulate_fused(closed_loop, EVERY)  # compiles it
    yield Measure("simulated, compiled", "1/s", EXCHANGES / simulate_fused(closed_loop, EVERY).wall_s, by_hand, words)


def _run(closed_loop: ClosedLoop) -> dict[str, Any]:
    """What a run on processes says of its own time keeping."""
    outcome = Launcher(closed_loop, f"{NAME}_{os.getpid()}", EVERY, lambda _: None).launch()
    if outcome.signal is not None:
        signal.raise_signal(outcome.signal)  # its handlers are those of before again
    if outcome.run is None or outcome.exit_code:
        reasons = "; ".join(each["text"] for each in outcome.faults) or outcome.stopped or "nothing was recorded"
        raise BenchError(f"the run failed, and nothing was measured: {reasons}; end what keeps this computer busy")
    return outcome.run.stats
