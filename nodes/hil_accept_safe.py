"""The safe action by which `servonode hil accept` judges firmware: too small to move anything, and seen at rest too."""

import numpy as np
import numpy.typing as npt

from servonode.nodes.protocol_check import TINY

Array = npt.NDArray[np.float64]

MOST = 4 * TINY  # the limit of each input in all runs of the acceptance
CONSTANT = 1.5 * TINY  # of the first input: what acts at rest is neither zero nor the input that was sent
APART = 0.25 * TINY  # from one input's constant to the next one's: inputs that are mixed up show
FEEDBACK = 0.75 * TINY  # the largest part that follows the state; with it and 8 inputs all stays within MOST
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
