"""The connection of a plant node to its machine: the handshake, and the timeouts of answers."""

from servonode.nodes.guard import Guard
from servonode.nodes.node import Clock, start_id
from servonode.plants.plant import Plant


class MachineLink:
    """Judges whether the machine answers. lost: whether a fault was found in lockstep, where it then stands still."""

    def __init__(self, plant: Plant, guard: Guard, clock: Clock, timeout_s: float) -> None:
        self.lost = False
        self._plant, self._remote = plant, plant.remote
        self._guard, self._clock = guard, clock
        self._timeout_s = timeout_s
        self._connecting = 0  # time until which the machine may answer the handshake; 0: no handshake is in progress

    def connect(self) -> None:
        """Begin a new handshake, with the timeout of a first answer."""
        self.lost = False
        self._plant.begin(start_id(), self._plant.k)
        self._connecting = self.deadline()

    def deadline(self) -> int:
        """The monotonic time [ns] by which a machine that is asked now must have answered."""
        return self._clock() + round(self._timeout_s * 1e9)

    def fault(self, now: int | None = None) -> tuple[str, str] | None:
        """Name and text of a fault of the machine or its link, or None; judged at `now` [monotonic ns] if given."""
        remote = self._remote
        found = remote.fault(now) if remote else None
        if not self._connecting or found is not None:
            return found
        if remote is None or remote.connected():
            self._connecting = 0
            self._guard.trust_state()
        elif self._clock() > self._connecting:
            self._connecting = 0
            return "stale_state", f"the machine does not answer the handshake: {remote.no_answer_reason()}"
        return None

    def step_fault(self, deadline: int | None) -> tuple[str, str] | None:
        """As `fault`, in lockstep, for a machine that must reach its next step by the deadline [ns]; None: it has."""
        now, found = self._clock(), self._remote.fault() if self._remote else None
        if found is None and deadline is not None and now >= deadline:
            text = (
                f"no state from the machine after step {self._plant.k} within {self._timeout_s:g} s; "
                f"check that it is running"
            )
            found = ("lockstep_timeout", text)
        self.lost = found is not None
        return found
