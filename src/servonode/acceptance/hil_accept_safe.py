"""The safe action by which `servonode hil accept` judges firmware: too small to move anything, and seen at rest too."""

from collections.abc import Iterable, Sequence

import numpy as np

from servonode.acceptance.protocol_check import TINY
from servonode.acceptance.protocol_host import Host
from servonode.acceptance.protocol_judges import acts_itself
from servonode.arrays import Array
from servonode.bus import State
from servonode.mechanics.description import unpacked

MOST = 4 * TINY  # the limit of each input in all runs of the acceptance
CONSTANT = 1.5 * TINY  # of the first input: what acts at rest is neither zero nor the input that was sent
APART = 0.25 * TINY  # from one input's constant to the next one's: inputs that are mixed up show
FEEDBACK = 0.75 * TINY  # the largest part that follows the state; with it and 8 inputs all stays within MOST
NEAR = 0.02  # share of the safe action by which what acts may differ, and of a limit by which it may be passed
TYPICAL = 0.1  # SI; least magnitude of a state for which that part is scaled, so that noise makes no difference


def visible_safe_map(safe: Array, x: Array) -> Array:
    """The safe action S x + s0 of the machine (n_inputs, n_state + 1), scaled down, with a constant for each input.

    The machine's own vanishes at rest, as does that of firmware without a brake. x: the state about which it is scaled.
    """
    reach = np.abs(safe) @ np.append(np.maximum(np.abs(x), TYPICAL), 1.0)
    largest = float(reach.max(initial=0.0))
    found: Array = safe * (FEEDBACK / largest) if largest > 0 else np.zeros_like(safe)
    found[:, -1] -= CONSTANT + APART * np.arange(len(safe))
    return found


class SentSafeAction:
    """The safe action that a machine was sent, beside what its states report after a timeout.

    A machine that sends only readings does not know its state: it was sent a constant, or has a brake of its own.
    """

    def __init__(self, host: Host, safe: Array) -> None:
        self._host, self._safe = host, safe
        self.limits = host.context.limits  # of the run that drove the machine last

    def at(self, state: State) -> Array:
        """The inputs of the safe action at a state, within the limits of the host."""
        host, machine = self._host, self._host.machine
        x = np.zeros(machine.n_state) if host.sensors else unpacked(machine.description.layout, state.state)
        most = np.array([self.limits[name] for name in host.names])
        inputs: Array = np.clip(self._safe @ np.append(x, 1.0), -most, most)
        return inputs

    def acts(self, state: State) -> bool:
        """Whether what acts is this safe action."""
        expected, found = self.at(state), np.array([state.input[name] for name in self._host.names])
        return bool(np.all(np.abs(found - expected) <= NEAR * np.abs(expected) + 0.1 * TINY))

    def may_be(self, state: State) -> bool:
        """Whether what acts is this safe action or, with readings alone, may be a brake of the machine's own."""
        if not self._host.sensors:
            return self.acts(state)
        return all(
            abs(u) <= self.limits[name] * (1 + NEAR) and abs(u - TINY) > 0.1 * TINY for name, u in state.input.items()
        )

    def wrong(self, states: Sequence[State]) -> str:
        """What is wrong with the states after a timeout, with the remedy; empty: nothing."""
        found = next((each for each in states if not self.may_be(each)), None)
        if found is not None:
            text = f"{listed(found.input.values())} acts after the timeout, where "
            if self._host.sensors:
                text += f"each input must end, or brake, within its limit, and no longer be {TINY:g}"
            else:
                text += f"the safe action is {listed(self.at(found))}"
            return f"{text}; apply S x + s0 of the setup, within its limits"
        if not all(map(acts_itself, states)):
            return "acts after the timeout, but the states do not say so; set bit 0 of their flags as long as it acts"
        return ""

    def unseen(self, states: Sequence[State]) -> str:
        """Why states that are not wrong show no safe action; empty: they show it."""
        if all(map(self.acts, states)):
            return ""
        text = (
            f"{listed(states[-1].input.values())} acts after the timeout, not the constant that was sent: this shows "
        )
        return f"{text}no brake; where the board has one of its own, turn the wheels by hand and look that it brakes"


def listed(values: Iterable[float]) -> str:
    """Numbers for people."""
    return ", ".join(f"{each + 0.0:.3g}" for each in values)  # -0.0 too is 0
