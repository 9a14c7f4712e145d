"""The monitor of the law in a machine's firmware: its inputs may differ from the controller's only for a short time."""

from msgspec import UNSET

from servonode.bus import State
from servonode.plants.drivers.terms import Terms

# flags beside the state: the machine's law acts; its inputs are clipped
LAW, CLIPPED = ("machine_law", "machine_law_clipped")


class LawWatch:
    """Measures, in the machine's own steps, for how long it has reported that its law exceeds the tolerance."""

    def __init__(self, terms: Terms) -> None:
        self._since: int | None = None  # the machine's step of the first such state in a row
        self._step = terms.step_ns / 1e9
        self._most = terms.state_timeout * (1.0 if terms.lockstep else terms.speed)

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
        text = (
            f"for {seconds:.3g} s the law in the firmware {what}: it may have other gains, parameters or another goal, "
        )
        remedy = "or a sensor is wrong; build the firmware from this launch file, check its sensors"
        return "device_law", f"{text}{remedy}, or raise law_tolerance"
