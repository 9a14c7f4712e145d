"""A driver for servonode: a robot that speaks JSON over UDP, one datagram for each message.

What the robot understands and what it sends is its own; this file translates. robot.py beside it is such a robot.
"""

import json
import socket
import time
from collections import Counter
from contextlib import suppress
from typing import Annotated, Any

from msgspec import Meta, Struct, ValidationError, convert

from servonode.bus import Applied, BusError, Message, Setup, State
from servonode.plants.drivers.device import DevicePlant
from servonode.plants.drivers.driver import Driver, DriverContext, DriverError, Stated
from servonode.plants.plant import Plant

LONGEST = 8192  # bytes of a datagram
STATES = ("X", "Y", "psi", "phi", "V", "Omega", "theta1", "theta2")  # in the robot's own order
WHEELS = ("U1", "U2")  # N m, left and right


class Keys(Struct, frozen=True):
    """[plant.device.settings]: where the robot is."""

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=1024, le=65535)] = 9950


class WheelsLink:
    """Sends messages to the robot and receives its messages; no call blocks. Nothing is sent that was not asked for."""

    lost = hint = ""  # a datagram that nobody takes tells nothing of why

    def __init__(self, host: str, port: int) -> None:
        self.counts: Counter[str] = Counter()  # what was received and is no message of the robot's, by reason
        self._address, self._socket = (host, port), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    @property
    def fds(self) -> tuple[int, ...]:
        return (self._socket.fileno(),)

    def open(self) -> None:
        self._socket.setblocking(False)
        try:
            self._socket.connect(self._address)  # from now on datagrams of others are not received
        except OSError as error:
            text = f"{self._address[0]}:{self._address[1]} cannot be reached ({error.strerror or error})"
            raise BusError(f"{text}; correct host and port in [plant.device.settings]") from error

    def send(self, topic: str, message: Message) -> None:  # noqa: ARG002
        told: dict[str, Any] = {"run": message.run, "k": message.k, "host": message.src}
        if isinstance(message, Setup):
            told |= {"begin": True, "timeout": message.timeout, "step": message.step, "speed": message.speed}
            told |= {"own_clock": message.mode == "realtime", "limits": [message.limits[name] for name in WHEELS]}
        elif isinstance(message, Applied):
            told |= {"n": message.seq, "torque": [message.input[name] for name in WHEELS]}
            told |= {"until": message.until, "end": message.final}
        with suppress(OSError):  # one that is lost is sent again, or missed, as on any wire
            self._socket.send(json.dumps(told).encode())

    def receive(self, bound: int = 256) -> list[tuple[str, Message]]:
        found: list[tuple[str, Message]] = []
        for _ in range(bound):
            try:
                datagram = self._socket.recv(LONGEST)
            except BlockingIOError:
                break
            except OSError:  # nobody listens there at present
                continue
            try:
                found.append(("state", _state(json.loads(datagram))))
            except (ValueError, KeyError, TypeError, ValidationError):
                self.counts["malformed"] += 1
        return found

    def due(self) -> int | None:
        return None

    def renew(self) -> None:
        """There is no connection."""

    def listened(self) -> bool | None:
        return None

    def close(self) -> None:
        self._socket.close()


def _state(told: dict[str, Any]) -> State:
    """The robot's datagram as a state; `convert` refuses what is not a finite number of a possible size."""
    return convert(
        {
            "t": told["t"], "k": told["k"], "run": told["run"], "src": told["boot"], "seq": told["count"],
            "mono": time.monotonic_ns(), "node": "wheels", "control": False, "applied_seq": told["taken"],
            "state": dict(zip(STATES, told["state"], strict=True)),
            "input": dict(zip(WHEELS, told["torque"], strict=True)),
            "extra": {"battery": told["battery"]},
        },
        State,
    )  # fmt: skip


def _check(stated: Stated) -> None:
    if not stated.lockstep and stated.speed != 1:
        raise DriverError("run", "speed", f"{stated.speed:g} is not the speed of this robot; give 1")


def _open(context: DriverContext) -> Plant:
    keys: Keys = context.stated.settings
    if context.machine.description.input_names != WHEELS:
        raise BusError(f"driver wheels moves {', '.join(WHEELS)}; use the machine diff_drive_trailer")
    link = WheelsLink(keys.host, keys.port)
    return DevicePlant(context, link)


DRIVER = Driver(
    name="wheels",
    summary="a robot that speaks JSON over UDP",
    reads=("actuator.limit", "device.wait", "device.timeout"),
    open=_open,
    outside=True,  # it may be hardware: every input needs a limit, nothing moves before `servonode arm`
    readonly=True,  # DevicePlant sends no input where context.readonly is set
    settings=Keys,
    check=_check,
)
