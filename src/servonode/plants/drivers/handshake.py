"""The handshake: a machine is asked to take part in a run until it has answered."""

import secrets
from typing import Any

from servonode.bus import Link, Setup
from servonode.bus.messages import EXACT
from servonode.plants.drivers.driver import DriverContext

RESEND_NS = 100_000_000  # what is not answered is sent again after this long
RENEW = 10  # setups without an answer after which the link is connected again
NODE = "plant"


class Handshake:
    """Asks a machine to take part in a run, on the terms of this context, until `finish` is called."""

    def __init__(self, link: Link, context: DriverContext) -> None:
        self.context = context
        self.src = secrets.randbelow(EXACT - 1) + 1  # start id of this process, by which the machine knows it
        self.run = self.run_before = 0  # id of the run for which the machine is asked; 0: none yet
        self.done = False  # whether it has answered
        self.due_ns: int | None = None  # when to ask again
        self._link = link
        self._seq = -1
        self._repeats = 0

    def begin(self, run: int, k: int, now: int) -> None:
        """Ask for the run of this id at plant step k."""
        self.run_before, self.run = self.run, run
        self.done, self._repeats = False, 0
        self._ask(k, now)

    def repeat(self, k: int, now: int) -> None:
        """Ask again if that is due, every RENEW times over a new connection."""
        if self.due_ns is None or now < self.due_ns:
            return
        self._repeats += 1
        if self._repeats % RENEW == 0:
            self._link.renew()
        self._ask(k, now)

    def finish(self) -> None:
        """Note that the machine has answered."""
        self.done, self.due_ns = True, None

    def _ask(self, k: int, now: int) -> None:
        self._seq += 1
        self._link.send("setup", Setup(
            t=k * self.context.step_ns / 1e9, seq=self._seq, run=self.run, k=k, mono=now, node=NODE, src=self.src,
            **setup_terms(self.context),
        ))  # fmt: skip
        self.due_ns = now + RESEND_NS


def setup_terms(context: DriverContext) -> dict[str, Any]:
    """The fields of a setup message that state the terms of a run."""
    return {
        "machine": context.machine.description.name,
        "mode": "lockstep" if context.lockstep else "realtime",
        "step": context.step_ns / 1e9,
        "period": context.stated.period_s,
        "speed": context.speed,
        "timeout": context.timeout,
        "command": "velocity" if context.drives else "servo" if context.servos else "effort",
        "inputs": list(context.machine.description.input_names),
        "limits": dict(context.limits),
        "parameters": dict(context.machine.parameters),
        "start": context.start_values,
    }
