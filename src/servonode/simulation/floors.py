"""Bare floors under the times of a run: the same messages and equations without nodes, checks and records."""

import gc
import os
import signal
import sys
import tempfile
import time

import msgpack
import msgspec
import numpy as np
import zmq

from servonode.arrays import Array
from servonode.bus import Command, Message, State
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.errors import ServonodeError
from servonode.nodes.realtime_grants import SLACK_NS, slack

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
    control, machine, launch = closed_loop.control, closed_loop.machine, closed_loop.launch
    assert control is not None
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
