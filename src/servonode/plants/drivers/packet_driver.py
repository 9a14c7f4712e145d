"""Drivers whose machine speaks the packets of docs/reference/firmware.md, over a transport of their own."""

from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Any

from servonode.arrays import Array
from servonode.mechanics.machine import Machine
from servonode.plants.drivers.driver import Driver, DriverContext, DriverError, Stated
from servonode.plants.drivers.packets import HEADER, TRAILER
from servonode.plants.drivers.transport import SHARE, Line, Traffic, Transport
from servonode.plants.plant import Plant

SECTION = "plant.device"
FASTEST_S = 1e-3  # between two states, wall clock, unless another rate is asked for
KEYS = tuple(f"device.{key}" for key in ("wait", "timeout", "any_speed", "sends", "state_rate", "law", "law_tolerance"))


def packet_driver(
    name: str,
    summary: str,
    reads: tuple[str, ...],
    transport: Callable[[Stated], Transport],
    said: Callable[[Stated], list[str]] = lambda _: [],
    **more: Any,
) -> Driver:
    """A driver over this transport.

    reads: its own keys, first that of the machine's place; said: its own remarks; more: further fields of `Driver`.
    """

    def open_plant(context: DriverContext) -> Plant:
        from servonode.plants.drivers.device import DevicePlant  # loads the bus
        from servonode.plants.drivers.packet_link import RESOLUTION, PacketLink

        return DevicePlant(replace(context, resolution=RESOLUTION), PacketLink(transport(context.stated), context))

    def ready(stated: Stated) -> None:
        if problem := transport(stated).problem():
            raise DriverError(SECTION, reads[0].removeprefix("device."), problem)

    def remarks(stated: Stated, machine: Machine, start: Array) -> list[str]:
        from servonode.plants.drivers.safe_map import safe_remarks

        return [*said(stated), *safe_remarks(machine, start, stated.device["sends"] == "readings")]

    def traffic(stated: Stated, machine: Machine, n_goal: int, n_sensors: int) -> Traffic:
        return traffic_of(stated, machine, transport(stated).line, n_goal, n_sensors)

    return Driver(
        name, summary, ("actuator.limit", *reads, *KEYS), open_plant, readonly=True, outside=True, ready=ready,
        remarks=remarks, transport=transport, traffic=traffic, **more,
    )  # fmt: skip


def traffic_of(stated: Stated, machine: Machine, line: Line | None, n_goal: int, n_sensors: int) -> Traffic:
    """The traffic of a run with this machine over a line; None: it has none.

    Without `state_rate` states come a thousand times a second, or as often as the line can carry them, at equal
    distances within a control period and at least once in each. n_goal: entries of the goal that goes with inputs;
    n_sensors: of a machine that sends readings, each once in every packet.
    """
    description, sends = machine.description, stated.device["sends"]
    n_u = len(description.input_names)
    measured = 8 * n_sensors if sends == "readings" else 4 * machine.n_state
    size = line.size if line else (lambda n: n)
    state = size(HEADER + 4 + 4 * n_u + measured + TRAILER)
    applied = size(HEADER + 8 + 4 * n_u + (16 + 4 * n_goal if n_goal else 0) + TRAILER)
    step_s = stated.step_s / stated.speed  # wall clock
    periods = max(round(stated.period_s / stated.step_s), 1) if stated.period_s else 0
    inputs = applied / (periods * step_s if periods else FASTEST_S)
    rate = stated.device["state_rate"]
    if rate is not None:
        every = max(round(1 / (rate * step_s)), 1)
    elif line is None:
        every = 0
    else:
        free = SHARE * line.rate / line.bits - (inputs if line.shared else 0.0)  # bytes per second
        least = max(FASTEST_S, state / free if free > 0 else inf)
        choices = [n for n in range(1, periods + 1) if periods % n == 0] or range(1, round(1 / step_s) + 1)
        every = next((n for n in choices if n * step_s > least * (1 - 1e-9)), choices[-1])
    return Traffic(every, state / (every * step_s or FASTEST_S), inputs, line)
