"""The faults of a machine or its link: overdue states or answers, too many messages, a law of its own."""

from collections import Counter
from collections.abc import Mapping

from msgspec import UNSET

from servonode.bus import Link, State
from servonode.plants.drivers.applied_inputs import CLAMPED, AppliedInputs
from servonode.plants.drivers.driver import DriverContext
from servonode.plants.drivers.readings import Readings

Fault = tuple[str, str]  # name and text
# flags beside the state: the machine's law acts; its inputs are clipped
LAW, CLIPPED = ("machine_law", "machine_law_clipped")
NO_REFUSAL = ("resent", CLAMPED)  # counts that do not mean refused messages

MESSAGES_PER_MS, BACKLOG = 10, 3000  # a flood is more than so many messages, and so many more at once
FLOODING = (
    "flooding",
    f"the machine sends more than {MESSAGES_PER_MS * 1000} messages a second; once a step, or a millisecond where "
    "that is longer, is enough",
)


class LinkWatch:
    """Counts the messages of a machine, and tells when they fail to come.

    `timeout` [s]: how long a good state, or the answer to an input, may take.
    """

    def __init__(self, link: Link, readings: Readings, inputs: AppliedInputs, timeout: float) -> None:
        self.counts: Counter[str] = Counter()  # messages refused or sent again, without the link's own counts
        self.since_ns = 0  # no wait begins before this time
        self.looked_ns = 0  # when messages were last taken
        self.reported: Fault | None = None  # the fault that the machine reported in this run
        self._link, self._readings, self._inputs = link, readings, inputs
        self._timeout_ns = timeout * 1e9
        self.allowed = float(BACKLOG)  # messages that may come now without being a flood
        self._good_ns = 0  # when the newest good state came
        self._refused_before: tuple[dict[str, int], dict[str, int]] = ({}, {})  # our counts and the link's then

    def begin(self, now: int) -> None:
        """Start to count anew: a handshake begins."""
        self.since_ns, self.reported, self.allowed = now, None, float(BACKLOG)

    def flooded(self, came: int, now: int) -> bool:
        """Whether more messages have come than a machine may send, with the `came` ones of now.

        A reader that was stalled may find BACKLOG at once.
        """
        grown = (now - self.looked_ns) * 1e-6 * MESSAGES_PER_MS
        self.allowed, self.looked_ns = min(self.allowed + grown, BACKLOG) - came, now
        return self.allowed < 0

    def good_state(self, now: int) -> None:
        """Note a good state."""
        self._good_ns = now
        self._refused_before = (dict(self.counts), dict(self._link.counts))

    def restart_timeouts(self, now: int) -> None:
        """Begin all waits at `now`, once until a good state comes."""
        if self._readings.measured_ns >= self.since_ns:
            self.since_ns = now

    def stale(self, now: int) -> Fault | None:
        """Name and text of a fault if no good state or no answer to an input has come for too long; None: no fault."""
        measured_ns = self._readings.measured_ns
        waited = now - max(measured_ns, self.since_ns)
        if waited > self._timeout_ns:
            return self._stale_state(now, waited)
        waited = self._inputs.untaken_ns(measured_ns, self.since_ns)
        if waited > self._timeout_ns:
            text = f"the machine sends states but has taken no input sent in the last {waited / 1e6:.0f} ms"
            return "stale_applied", f"{text}; check that it still receives messages"
        return None

    def _stale_state(self, now: int, waited: int) -> Fault:
        if now - self._good_ns <= self._timeout_ns / 2:  # the last state of a machine that has stopped is older
            text = f"the newest state is {waited / 1e6:.0f} ms old by the machine's own step stamps, although states "
            text += "come; check that its clock has the right rate and that its states are not queued on the way"
            return "stale_state", text
        refused = self.all_counts() - _named(*self._refused_before)
        text = f"no good state of the machine for {waited / 1e6:.0f} ms{listed(refused)}"
        return "stale_state", f"{text}; check that it is running and still in this run"

    def all_counts(self) -> Counter[str]:
        """Counts of messages refused here (`refused_<reason>`, `old_states`), on the link, or sent again (`resent`)."""
        return _named(self.counts, self._link.counts)


def _named(own: Mapping[str, int], of_link: Mapping[str, int]) -> Counter[str]:
    """All counts, by the names under which they are reported."""
    return Counter(own) + Counter({f"refused_{reason}": n for reason, n in of_link.items()})


def listed(counts: Counter[str]) -> str:
    """The refused messages by reason, in words; empty if none was refused."""
    refused = {name.removeprefix("refused_"): n for name, n in counts.items() if name not in NO_REFUSAL}
    if not refused:
        return ""
    return f" ({sum(refused.values())} messages refused: {', '.join(f'{name} {n}' for name, n in refused.items())})"


class LawWatch:
    """Watches the law in a machine's firmware: its inputs may differ from the controller's only for a short time.

    Measures, in the machine's own steps, for how long it has reported that its law exceeds the tolerance.
    """

    def __init__(self, context: DriverContext) -> None:
        self._since: int | None = None  # the machine's step of the first such state in a row
        self._step = context.step_ns / 1e9
        self._most = context.state_timeout * (1.0 if context.lockstep else context.speed)

    def forget(self) -> None:
        """Forget the reports: a handshake begins."""
        self._since = None

    def take(self, state: State) -> tuple[str, str] | None:
        """Name and text of a fault, after a good state; None: no fault."""
        if state.extra is UNSET or not state.extra.get(CLIPPED):
            self._since = None
            return None
        if self._since is None:
            self._since = state.k
        seconds = (state.k - self._since) * self._step
        if seconds <= self._most:
            return None
        what = "asks for inputs beyond plant.device.law_tolerance of the controller's" if state.extra.get(LAW) else (
            "gives no inputs although the controller does"
        )  # fmt: skip
        text = f"for {seconds:.3g} s the law in the firmware {what}: it may have other gains, parameters or another "
        text += "goal, or a sensor is wrong; build the firmware from this launch file, check its sensors, or raise "
        return "device_law", f"{text}law_tolerance"
