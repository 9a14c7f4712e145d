"""The pace of plant time: the interface between a plant node and its loop in real time or lockstep."""


class Pace:
    """The pace of plant time, for a plant node. This class is that of lockstep, where time waits for answers."""

    def present_step(self) -> int:
        """The step that the clock has reached, from which a command that arrives now acts."""
        return 0

    def catch_up(self) -> None:
        """Advance the plant to the step that the clock has reached."""

    def obstacle(self) -> str | None:
        """A sentence why the plant must not be armed now, or None."""
        return None

    def values(self) -> dict[str, float]:
        """The values for a status, by name."""
        return {}
