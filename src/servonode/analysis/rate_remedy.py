"""The convergence rate with which a goal that is missed would be reached, found by simulating other ones."""

from collections.abc import Callable, Iterator

import msgspec

from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.gains import MATRICES, PERTURBATION
from servonode.closed_loop.launch_file import LaunchError
from servonode.closed_loop.launch_keys import AUTO
from servonode.record.run import Run, default_every
from servonode.simulation.simulate import simulate_fused

SLOWER = (1.0, 0.3, 0.1, 0.03)  # shares of the rate of "auto" that are tried, the fastest first


def working_rate(closed_loop: ClosedLoop, reached: Callable[[ClosedLoop, Run], bool]) -> str:
    """The remedy with the rate [1/s], the fastest of those tried, with which `reached` is true; empty: none is.

    It is empty, too, where gains are matrices, which no single rate replaces, and where the law has none.
    """
    for loop, text in _others(closed_loop):
        run = simulate_fused(loop, default_every(loop))
        if not run.fault and reached(loop, run):
            return text
    return ""


def _others(closed_loop: ClosedLoop) -> Iterator[tuple[ClosedLoop, str]]:
    """The closed loop with other rates, and how to give them."""
    control, launch = closed_loop.control, closed_loop.launch
    if control is None or launch.controller is None or control.law.description.explicit:
        return
    given = launch.controller.gains
    if launch.controller.inversion is not None or any(key in given for key in (*MATRICES, *PERTURBATION)):
        return
    kept = {key: value for key, value in given.items() if key.startswith("integral")}
    fastest: list[float] = []
    for share in SLOWER:
        rate = float(f"{share * min(fastest):.2g}") if fastest else AUTO
        controller = msgspec.structs.replace(launch.controller, gains={"lambda": rate} | kept)
        try:
            loop = resolve(msgspec.structs.replace(launch, controller=controller), strict=False)
        except LaunchError:  # an initial state for which this rate is too fast
            continue
        assert loop.control is not None
        rates = loop.control.gains.rates.tolist()
        fastest = fastest or rates
        if rates == control.gains.rates.tolist() or loop.examination.refusals:
            continue
        numbers = ", ".join(f"{each:.3g}" for each in dict.fromkeys(rates))
        shown = f'"auto" ({numbers} 1/s)' if rate == AUTO else f"{rate:g}"
        yield loop, f"give controller.gains.lambda = {shown}, which reaches the goal"
