"""The handshake: a machine is asked to take part in a run until it has answered."""

import secrets
from collections.abc import Sequence

from servonode.bus import Link, Setup
from servonode.bus.messages import EXACT
from servonode.plants.drivers.terms import Terms

RESEND_NS = 100_000_000  # what is not answered is sent again after this long
RENEW = 10  # setups without an answer after which the link is connected again
NODE = "plant"


class Handshake:
    """Asks a machine to take part in a run, on these terms and with these inputs, until `finish` is called."""

    def __init__(self, link: Link, terms: Terms, inputs: Sequence[str]) -> None:
        self.terms, self.inputs = terms, inputs
        self.src = secrets.randbelow(EXACT - 1) + 1  # start id of this process, by which the machine knows it
        self.run = 0  # id of the run for which the machine is asked; 0: none yet
        self.done = False  # whether it has answered
        self.due_ns: int | None = None  # when to ask again
        self._link = link
        self._run_before = 0
        self._seq = -1
        self._repeats = 0

    def begin(self, run: int, k: int, now: int) -> None:
        """Ask for the run of this id at plant step k."""
        self._run_before, self.run = self.run, run
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

    def is_left_over(self, run: int) -> bool:
        """Whether a state is a late one of the run before, which is not counted as refused."""
        return not self.done and run == self._run_before

    def _ask(self, k: int, now: int) -> None:
        terms = self.terms
        self._seq += 1
        self._link.send("setup", Setup(
            t=k * terms.step_ns / 1e9, seq=self._seq, run=self.run, k=k, mono=now, node=NODE, src=self.src,
            machine=terms.machine, mode="lockstep" if terms.lockstep else "realtime", step=terms.step_ns / 1e9,
            period=terms.period, speed=terms.speed, timeout=terms.timeout, inputs=list(self.inputs),
            limits=dict(terms.limits), parameters=dict(terms.parameters), start=dict(terms.start),
        ))  # fmt: skip
        self.due_ns = now + RESEND_NS
