"""How plant time passes: the interface between a plant node and its driver in real time or lockstep."""


class Pace:
    """How plant time passes, as a plant node asks for it. In lockstep it stands until the next answer."""

    def present_step(self) -> int:
        """The step whose time has come: what arrives now acts from it on."""
        return 0

    def catch_up(self) -> None:
        """Let the plant time pass that has passed."""

    def obstacle(self) -> str | None:
        """The sentence that says why the plant must not be armed now, or None."""
        return None

    def values(self) -> dict[str, float]:
        """What a status says of this plant's time."""
        return {}
